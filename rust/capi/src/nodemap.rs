//! Node map of an open index: look-ups, and the content of its file.
//!
//! A look-up returns a number instead of a status, and takes no `amalgam_error`: callers make
//! thousands, each in less than a microsecond, and after an error they ask the index itself. The
//! bytes of the index are lent for each call; they are the same for all calls on a handle.

use revlog::nodemap::{self, IndexEntries, NodeMap, Place, PrefixMatch};
use revlog::{Node, Prefix};

use crate::buffers::{self, AnswerBytes};
use crate::entry::entry;
use crate::failure::{ErrorInfo, Failure, Status};
use crate::handle::{self, Handle};

/// No such node.
const UNKNOWN: i32 = -2;
/// The map is unusable: ask the index, from now on.
const FAILED: i32 = -3;
/// The argument is no node or prefix: ask the index this time.
const INVALID: i32 = -4;

/// An open node map.
pub struct NodeMapHandle(Handle<NodeMap>);

/// Run of consecutive revisions in a node map file.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NodeMapRun {
    /// Offset in the file, a multiple of 4096.
    pub offset: u64,
    /// First revision.
    pub first: u32,
    /// Number of revisions, at least one.
    pub revs: u32,
}

impl From<NodeMapRun> for Place {
    fn from(run: NodeMapRun) -> Self {
        Self { offset: run.offset, first: run.first, revs: run.revs }
    }
}

impl From<nodemap::Error> for Failure {
    fn from(error: nodemap::Error) -> Self {
        match error {
            nodemap::Error::Io(source) => Self::io("".as_ref(), &source),
            nodemap::Error::Damaged(_) | nodemap::Error::Unknown => {
                Self::corrupt(error.to_string())
            }
        }
    }
}

/// Opens a node map, whose file is open as `file`; errors name it `path`.
///
/// The file was made with `uid`. It has `runs`, in the order of their revisions, from revision 0
/// on, for at least the first `limit` revisions of `index`.
///
/// # Safety
///
/// `error` as everywhere; `out` is writable; `file` is an open descriptor until the call ends; the
/// other arguments are lent for the call. The map is given to `amalgam_nodemap_free` once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_nodemap_open(
    out: *mut *mut NodeMapHandle,
    file: i32,
    path: *const u8,
    path_len: usize,
    uid: *const u8,
    uid_len: usize,
    runs: *const NodeMapRun,
    runs_len: usize,
    limit: u32,
    index: *const u8,
    index_len: usize,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let (file, path, uid, runs, index) = unsafe {
            (
                buffers::file(file)?,
                buffers::path(path, path_len)?,
                buffers::slice(uid, uid_len)?,
                buffers::slice(runs, runs_len)?,
                buffers::slice(index, index_len)?,
            )
        };
        let places: Vec<Place> = runs.iter().map(|run| Place::from(*run)).collect();
        let map = NodeMap::open(&file, uid, &places, limit, IndexEntries::new(index))
            .map_err(|error| Failure::from(error).at(path))?;
        // SAFETY: as the caller promises.
        unsafe { handle::give(out, NodeMapHandle(Handle::new(map))) }
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Opens Mercurial's own node map: the first `len_bytes` bytes of the file open as `file`; errors
/// name it `path`.
///
/// The map has the first `revs` revisions of `index`. It is mapped, or read if `mapped` is 0. Such
/// a map finds nodes. It knows neither absent nodes nor abbreviations.
///
/// # Safety
///
/// As `amalgam_nodemap_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_nodemap_open_upstream(
    out: *mut *mut NodeMapHandle,
    file: i32,
    path: *const u8,
    path_len: usize,
    len_bytes: u64,
    revs: u32,
    mapped: i32,
    index: *const u8,
    index_len: usize,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let (file, path, index) = unsafe {
            (
                buffers::file(file)?,
                buffers::path(path, path_len)?,
                buffers::slice(index, index_len)?,
            )
        };
        let map =
            NodeMap::open_upstream(&file, len_bytes, revs, mapped != 0, IndexEntries::new(index))
                .map_err(|error| Failure::from(error).at(path))?;
        // SAFETY: as the caller promises.
        unsafe { handle::give(out, NodeMapHandle(Handle::new(map))) }
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Frees a map; null is ignored.
///
/// # Safety
///
/// `map` came from an `amalgam_nodemap_open*`, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_nodemap_free(map: *mut NodeMapHandle) {
    // SAFETY: as the caller promises.
    unsafe { handle::free(map) }
}

/// Returns the revision of a node: -1 for the null node, -2 if it is absent, -3 if the map is
/// unusable, -4 if the argument is no node.
///
/// Without a map, which is null, the last page of the index is searched; -3 if it lacks the node.
///
/// # Safety
///
/// `map` is null or came from an `amalgam_nodemap_open*`, and is not freed before the call ends;
/// `index` and `node` are lent for the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_nodemap_rev(
    map: *const NodeMapHandle,
    index: *const u8,
    index_len: usize,
    node: *const u8,
    node_len: usize,
) -> i32 {
    let mut found = FAILED;
    let body = || {
        // SAFETY: as the caller promises.
        let (index, node) =
            unsafe { (buffers::slice(index, index_len)?, buffers::slice(node, node_len)?) };
        let entries = IndexEntries::new(index);
        let Ok(node) = node.try_into() else {
            found = INVALID;
            return Ok(());
        };
        if map.is_null() {
            found = entries.late_rev(node).unwrap_or(FAILED);
            return Ok(());
        }
        // SAFETY: as the caller promises.
        let NodeMapHandle(handle) = unsafe { handle::borrow(map) }?;
        let rev = handle.call(|map| Ok(map.rev(entries, node)?))?;
        found = rev.unwrap_or(UNKNOWN);
        Ok(())
    };
    // SAFETY: null is allowed.
    let _status = unsafe { entry(std::ptr::null_mut(), body) };
    found
}

/// Resolves an abbreviated node of 1 to 40 hexadecimal `digits`.
///
/// Returns 1 and writes the node to the 20 bytes at `node` if it is unique, 0 if it is absent, 2 if
/// it is ambiguous, -3 if the map is unusable, -4 if the argument has no digits.
///
/// # Safety
///
/// As `amalgam_nodemap_rev`; `node` is lent for the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_nodemap_match(
    node: *mut u8,
    node_len: usize,
    map: *const NodeMapHandle,
    index: *const u8,
    index_len: usize,
    digits: *const u8,
    digits_len: usize,
) -> i32 {
    let mut found = FAILED;
    let body = || {
        // SAFETY: as the caller promises.
        let (node, NodeMapHandle(handle), index, digits) = unsafe {
            (
                buffers::buffer(node, node_len)?,
                handle::borrow(map)?,
                buffers::slice(index, index_len)?,
                buffers::slice(digits, digits_len)?,
            )
        };
        let Some(prefix) = prefix_of(digits) else {
            found = INVALID;
            return Ok(());
        };
        let place: &mut [u8; 20] =
            node.try_into().map_err(|_| Failure::bug("a node has 20 bytes"))?;
        found = match handle.call(|map| Ok(map.matching(IndexEntries::new(index), prefix)?))? {
            PrefixMatch::None => 0,
            PrefixMatch::One(node) => {
                *place = *node.as_bytes();
                1
            }
            PrefixMatch::Many => 2,
        };
        Ok(())
    };
    // SAFETY: null is allowed.
    let _status = unsafe { entry(std::ptr::null_mut(), body) };
    found
}

/// Returns the length of the shortest unambiguous abbreviation of a node: -2 if it is absent, -3 if
/// the map is unusable, -4 if the argument is no node.
///
/// # Safety
///
/// As `amalgam_nodemap_rev`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_nodemap_shortest(
    map: *const NodeMapHandle,
    index: *const u8,
    index_len: usize,
    node: *const u8,
    node_len: usize,
) -> i32 {
    let mut found = FAILED;
    let body = || {
        // SAFETY: as the caller promises.
        let (NodeMapHandle(handle), index, node) = unsafe {
            (
                handle::borrow(map)?,
                buffers::slice(index, index_len)?,
                buffers::slice(node, node_len)?,
            )
        };
        let Ok(node) = node.try_into() else {
            found = INVALID;
            return Ok(());
        };
        let digits = handle.call(|map| Ok(map.shortest(IndexEntries::new(index), node)?))?;
        let digits = digits.map(|digits| i32::try_from(digits).unwrap_or(FAILED));
        found = digits.unwrap_or(UNKNOWN);
        Ok(())
    };
    // SAFETY: null is allowed.
    let _status = unsafe { entry(std::ptr::null_mut(), body) };
    found
}

/// Adds revision `rev`, which was added to the index after the map was opened.
///
/// # Safety
///
/// `map` as for `amalgam_nodemap_rev`; `node` is lent for the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_nodemap_append(
    map: *const NodeMapHandle,
    rev: u32,
    node: *const u8,
    node_len: usize,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let (NodeMapHandle(handle), node) =
            unsafe { (handle::borrow(map)?, buffers::slice(node, node_len)?) };
        let node = node.try_into().map_err(|_| Failure::input("a node has 20 bytes"))?;
        handle.call(|map| {
            map.append(node, rev);
            Ok(())
        })
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Removes the revisions from `revs` on.
///
/// # Safety
///
/// `error` as everywhere; `map` as for `amalgam_nodemap_rev`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_nodemap_truncate(
    map: *const NodeMapHandle,
    revs: u32,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let NodeMapHandle(handle) = unsafe { handle::borrow(map) }?;
        handle.call(|map| {
            map.truncate(revs);
            Ok(())
        })
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Looks up every node of `index`; `CORRUPT` if one has another revision.
///
/// # Safety
///
/// `error` as everywhere; `map` as for `amalgam_nodemap_rev`; `index` is lent for the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_nodemap_check(
    map: *const NodeMapHandle,
    index: *const u8,
    index_len: usize,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let (NodeMapHandle(handle), index) =
            unsafe { (handle::borrow(map)?, buffers::slice(index, index_len)?) };
        handle.call(|map| Ok(map.check(IndexEntries::new(index))?))
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Writes the length in bytes of a run of `revs` revisions.
///
/// # Safety
///
/// `error` as everywhere; `len_bytes` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_nodemap_run_len(
    len_bytes: *mut u64,
    revs: u32,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        let place = Place { offset: 0, first: 0, revs };
        // SAFETY: as the caller promises.
        unsafe { buffers::put(len_bytes, place.len_bytes() as u64) }
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Writes the content of `run`, in a file made with `uid`, to `bytes`, which has its length.
///
/// # Safety
///
/// `error` as everywhere; the other arguments are lent for the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_nodemap_run_write(
    bytes: *mut u8,
    bytes_len: usize,
    uid: *const u8,
    uid_len: usize,
    run: *const NodeMapRun,
    index: *const u8,
    index_len: usize,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let (bytes, uid, run, index) = unsafe {
            (
                buffers::buffer(bytes, bytes_len)?,
                buffers::slice(uid, uid_len)?,
                handle::borrow(run)?,
                buffers::slice(index, index_len)?,
            )
        };
        Ok(nodemap::file::write(bytes, uid, Place::from(*run), IndexEntries::new(index))?)
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Makes the content of Mercurial's own node map file for all entries of `index`.
///
/// # Safety
///
/// `error` as everywhere; `answer` is writable; `index` is lent for the call. The answer is given
/// to `amalgam_answer_free` once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_nodemap_content(
    answer: *mut AnswerBytes,
    index: *const u8,
    index_len: usize,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let index = unsafe { buffers::slice(index, index_len) }?;
        let content = nodemap::upstream::content(IndexEntries::new(index))?;
        // SAFETY: as the caller promises.
        unsafe { buffers::give(answer, content) }
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Parses hexadecimal digits.
fn prefix_of(digits: &[u8]) -> Option<Prefix> {
    let mut padded = [b'0'; 40];
    padded.get_mut(..digits.len())?.copy_from_slice(digits);
    Prefix::new(*Node::from_hex(&padded)?.as_bytes(), digits.len())
}
