//! Conversions of git commits: a handle on what became of them, and questions to it.

use std::ffi::c_void;

use changegroup::GroupVersion;
use git2hg::{
    Conversion, ConversionPipes, ConversionRequest, ConversionStage, KnownChangeset, Refusal,
    convert,
};
use gitpack::Oid;
use revlog::{Node, Store};

use crate::buffers::{self, Bytes};
use crate::entry::entry;
use crate::failure::{ErrorInfo, Failure, Status};
use crate::handle::{self, Handle};
use crate::jobs::encoding;
use crate::report::{Progress, ReportFn, Reporter};

/// What a conversion reads and writes. All is lent for the call.
#[repr(C)]
#[derive(Debug)]
pub struct PushRequest {
    /// What `git cat-file --batch` writes of the new commits, parents before children.
    pub commits: i32,
    /// To a `git cat-file --batch-command --buffer`, for trees.
    pub tree_requests: i32,
    /// From that.
    pub tree_answers: i32,
    /// To another one, for blobs.
    pub blob_requests: i32,
    /// From that.
    pub blob_answers: i32,
    /// The file that gets the changegroup, at its position.
    pub out: i32,
    /// A directory for temporary files.
    pub scratch_fd: i32,
    /// What messages call it.
    pub scratch: Bytes,
    /// The directory `.hg/store`.
    pub store: Bytes,
    /// How names are encoded in it, as in `amalgam_export_request`.
    pub encoding: u32,
    /// Version of the changegroup: 2 or 3.
    pub version: u32,
    /// The parents of new commits that are changesets.
    pub known: *const PushParent,
    /// How many there are.
    pub known_len: usize,
    /// Memory for texts and trees.
    pub memory_bytes: u64,
    /// The bytes of the longest file that is not refused.
    pub most_file_bytes: u64,
    /// The named branch of all new commits, as its extra is stored. Empty: that of the first parent.
    pub branch: Bytes,
}

/// A commit that is a changeset already.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PushParent {
    /// The commit.
    pub commit: [u8; 20],
    /// The changeset.
    pub node: [u8; 20],
    /// The text of the changeset, as it is stored.
    pub text: Bytes,
}

/// What became of new commits.
pub struct PushHandle(Handle<Conversion>);

/// How much a conversion has.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PushCounts {
    /// Commits that were converted; 0 if any was refused.
    pub changesets: u64,
    /// Commits that were refused.
    pub refused: u64,
}

/// A commit and its changeset.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushedChangeset {
    /// The commit.
    pub commit: [u8; 20],
    /// The changeset.
    pub node: [u8; 20],
}

/// A commit that was refused.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PushRefusal {
    /// Number of the reason, as `git2hg::Reason` has it.
    pub reason: u32,
    /// How many of `detail` are set.
    pub detail_len: u32,
    /// The commit.
    pub commit: [u8; 20],
    /// What of it is the reason.
    pub detail: [u8; 512],
}

/// Converts new commits of git to a changegroup, and that back.
///
/// Phases of the report: 0 commits converted, 1 the changegroup is written, 2 changesets converted back.
///
/// # Safety
///
/// `error` as everywhere; `out` is writable; `request` and all that it points to are lent for the call;
/// `report` may be called with `handle` until the call ends. The conversion is given to
/// `amalgam_push_free` once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_push_convert(
    out: *mut *mut PushHandle,
    request: *const PushRequest,
    report: ReportFn,
    handle: *mut c_void,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises, for this and each of the following.
        let reporter = unsafe { Reporter::new(report, handle) };
        // SAFETY: likewise.
        let converted = unsafe { run(request, &reporter) }?;
        // SAFETY: likewise.
        unsafe { handle::give(out, PushHandle(Handle::new(converted))) }
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Converts what C asks for.
///
/// # Safety
///
/// `request` is null or lent with all that it points to.
unsafe fn run(request: *const PushRequest, reporter: &Reporter) -> Result<Conversion, Failure> {
    // SAFETY: as the caller promises.
    let request = unsafe { request.as_ref() }.ok_or_else(|| Failure::bug("no request"))?;
    // SAFETY: as the caller promises, for this and each of the following.
    let file = |descriptor| unsafe { buffers::file(descriptor) };
    let (commits, out) = (file(request.commits)?, file(request.out)?);
    let (tree_requests, tree_answers) = (file(request.tree_requests)?, file(request.tree_answers)?);
    let (blob_requests, blob_answers) = (file(request.blob_requests)?, file(request.blob_answers)?);
    // SAFETY: likewise.
    let scratch = unsafe { buffers::path(request.scratch.data, request.scratch.len) }?;
    // SAFETY: likewise.
    let dir = unsafe { buffers::directory(request.scratch_fd, scratch) }?;
    // SAFETY: likewise.
    let store = unsafe { buffers::path(request.store.data, request.store.len) }?;
    let store = Store::new(store, encoding(request.encoding)?);
    // SAFETY: likewise.
    let parents = unsafe { buffers::slice(request.known, request.known_len) }?;
    let mut known = Vec::with_capacity(parents.len());
    for PushParent { commit, node, text } in parents {
        // SAFETY: likewise.
        let text = unsafe { buffers::slice(text.data, text.len) }?;
        let (oid, node) = (Oid::from_bytes(*commit), Node::from_bytes(*node));
        known.push(KnownChangeset { oid, node, text });
    }
    let version = match request.version {
        2 => GroupVersion::V02,
        3 => GroupVersion::V03,
        unknown => return Err(Failure::bug(format!("unknown changegroup version {unknown}"))),
    };
    let memory_bytes = usize::try_from(request.memory_bytes).unwrap_or(usize::MAX);
    // SAFETY: likewise.
    let branch = unsafe { buffers::slice(request.branch.data, request.branch.len) }?;
    let request = ConversionRequest {
        store: &store,
        known: &known,
        version,
        dir: &dir,
        memory_bytes,
        most_file_bytes: request.most_file_bytes,
        branch: (!branch.is_empty()).then_some(branch),
    };
    let pipes = ConversionPipes {
        commits: &*commits,
        trees: (&*tree_requests, &*tree_answers),
        blobs: (&*blob_requests, &*blob_answers),
    };
    let progress = Progress::default();
    let watch = |stage: ConversionStage, done| progress.tell(stage as u32, done, 0);
    reporter.supervise(&progress, || convert(pipes, &request, &out, &watch).map_err(Failure::from))
}

/// Frees a conversion; null is ignored.
///
/// # Safety
///
/// `push` came from `amalgam_push_convert` or is null, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_push_free(push: *mut PushHandle) {
    // SAFETY: as the caller promises.
    unsafe { handle::free(push) }
}

/// Counts what a conversion has.
///
/// # Safety
///
/// `error` as everywhere; `out` is writable; `push` came from `amalgam_push_convert`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_push_count(
    out: *mut PushCounts,
    push: *const PushHandle,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let push = unsafe { handle::borrow(push) }?;
        let counts = push.0.call(|it| {
            let (changesets, refused) = (it.changesets.len() as u64, it.refused.len() as u64);
            Ok(PushCounts { changesets, refused })
        })?;
        // SAFETY: as the caller promises.
        unsafe { buffers::put(out, counts) }
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Writes all commits with their changesets to `out`, parents before children.
///
/// # Safety
///
/// `error` as everywhere; `out` has room for as many as `amalgam_push_count` tells; `push` came from
/// `amalgam_push_convert`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_push_changesets(
    out: *mut PushedChangeset,
    push: *const PushHandle,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let push = unsafe { handle::borrow(push) }?;
        push.0.call(|it| {
            for (number, (oid, node)) in it.changesets.iter().enumerate() {
                let pushed = PushedChangeset { commit: *oid.as_bytes(), node: *node.as_bytes() };
                // SAFETY: as the caller promises, there is room.
                unsafe { buffers::put(out.wrapping_add(number), pushed) }?;
            }
            Ok(())
        })
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Writes all commits that were refused to `out`, parents before children.
///
/// # Safety
///
/// As `amalgam_push_changesets`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_push_refused(
    out: *mut PushRefusal,
    push: *const PushHandle,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let push = unsafe { handle::borrow(push) }?;
        push.0.call(|it| {
            for (number, refusal) in it.refused.iter().enumerate() {
                // SAFETY: as the caller promises, there is room.
                unsafe { buffers::put(out.wrapping_add(number), PushRefusal::from(refusal)) }?;
            }
            Ok(())
        })
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

impl From<&Refusal> for PushRefusal {
    fn from(Refusal { oid, reason, detail: found }: &Refusal) -> Self {
        let mut detail = [0; 512];
        let len = found.len().min(detail.len());
        detail[..len].copy_from_slice(&found[..len]);
        let (reason, detail_len) = (*reason as u32, u32::try_from(len).unwrap_or(0));
        Self { reason, detail_len, commit: *oid.as_bytes(), detail }
    }
}
