//! Oid map: look-ups in batches, checks and comparisons.

use std::ffi::c_void;

use dialect::{Dialect, HgGit};
use gitpack::Oid;
use hg2git::{
    Comparison, Difference, Matches, NO_COMMIT, OidMap, Pair, Prefix, Segment, Side, TABLES, Table,
};
use revlog::Node;

use crate::buffers::{self, AnswerBytes};
use crate::entry::entry;
use crate::failure::{ErrorInfo, Failure, Status};
use crate::handle::{self, Handle};
use crate::jobs::directory;
use crate::message::Fields;
use crate::report::{Position, Progress, ReportFn, Reporter};

/// Open oid map.
pub struct Map(Handle<OidMap>);

/// Opens a map.
///
/// Fields of `message`: `segments`, file names in `directory`, oldest first; `unmapped`, the
/// segments to read instead of mapping them. `directory` is missing if `segments` is empty.
///
/// # Safety
///
/// `error` as everywhere; `out` is writable; `message` is lent for the call. The map is given to
/// `amalgam_map_free` once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_map_open(
    out: *mut *mut Map,
    message: *const u8,
    message_len: usize,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let mut fields = Fields::decode(unsafe { buffers::slice(message, message_len) }?)?;
        let segments: Vec<String> = fields.take("segments")?;
        let unmapped: Vec<String> = fields.take("unmapped")?;
        let map = if segments.is_empty() {
            OidMap::default()
        } else {
            OidMap::open(&directory(&mut fields, "directory")?, &segments, &unmapped)?
        };
        fields.end()?;
        // SAFETY: as the caller promises.
        unsafe { handle::give(out, Map(Handle::new(map))) }
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Frees a map; null is ignored.
///
/// # Safety
///
/// `map` came from `amalgam_map_open`, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_map_free(map: *mut Map) {
    // SAFETY: as the caller promises.
    unsafe { handle::free(map) }
}

/// Writes the number of pairs in `table`: 0 changesets, 1 manifests, 2 file revisions.
///
/// # Safety
///
/// `error` as everywhere; `count` is writable; `map` is not freed before the call ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_map_count(
    count: *mut u64,
    map: *const Map,
    table: u32,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let Map(handle) = unsafe { handle::borrow(map) }?;
        let len = handle.call(|map| Ok(map.len(table_of(table)?)))?;
        // SAFETY: as the caller promises.
        unsafe { buffers::put(count, len as u64) }
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Writes the oid of each of `hg_nodes` in `table` to `oids`; zeros if it is absent, and ones if it is
/// a changeset without a commit. All ids have 20 bytes.
///
/// # Safety
///
/// `error` as everywhere; `oids` and `hg_nodes` are lent for the call; `map` is not freed before
/// it ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_map_oids(
    oids: *mut u8,
    oids_len: usize,
    map: *const Map,
    table: u32,
    hg_nodes: *const u8,
    hg_nodes_len: usize,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let (oids, hg_nodes, Map(handle)) = unsafe {
            (
                buffers::buffer(oids, oids_len)?,
                buffers::slice(hg_nodes, hg_nodes_len)?,
                handle::borrow(map)?,
            )
        };
        let table = table_of(table)?;
        handle.call(|map| {
            let (hg_nodes, rest) = hg_nodes.as_chunks::<20>();
            if !rest.is_empty() {
                return Err(Failure::bug("nodes are not 20 bytes each"));
            }
            let found = hg_nodes.iter().map(|node| map.oid(table, &Node::from_bytes(*node)));
            let bytes = |oid: Oid| if oid == NO_COMMIT { [0xff; 20] } else { *oid.as_bytes() };
            fill(oids, found.map(|oid| oid.map(bytes)))
        })
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Writes the changeset of each commit in `oids` to `hg_nodes`; zeros if it is absent. All ids have
/// 20 bytes.
///
/// # Safety
///
/// As `amalgam_map_oids`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_map_changesets(
    hg_nodes: *mut u8,
    hg_nodes_len: usize,
    map: *const Map,
    oids: *const u8,
    oids_len: usize,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let (hg_nodes, oids, Map(handle)) = unsafe {
            (
                buffers::buffer(hg_nodes, hg_nodes_len)?,
                buffers::slice(oids, oids_len)?,
                handle::borrow(map)?,
            )
        };
        handle.call(|map| {
            let (oids, _) = oids.as_chunks::<20>();
            let found = oids.iter().map(|oid| map.changeset(&Oid::from_bytes(*oid)));
            fill(hg_nodes, found.map(|node| node.map(|node| *node.as_bytes())))
        })
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Resolves abbreviated ids. Writes 81 bytes for each of `prefixes` to `matches`: the number of
/// changesets (0, 1, or 2 for several), then node and oid of the first two.
///
/// `side` is the kind of id: 0 node, 1 oid. A prefix has 21 bytes: an id, and the number of
/// hexadecimal digits to compare, 1 to 40.
///
/// # Safety
///
/// As `amalgam_map_oids`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_map_match(
    matches: *mut u8,
    matches_len: usize,
    map: *const Map,
    side: u32,
    prefixes: *const u8,
    prefixes_len: usize,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let (matches, prefixes, Map(handle)) = unsafe {
            (
                buffers::buffer(matches, matches_len)?,
                buffers::slice(prefixes, prefixes_len)?,
                handle::borrow(map)?,
            )
        };
        let side = match side {
            0 => Side::Node,
            1 => Side::Oid,
            unknown => return Err(Failure::bug(format!("unknown side {unknown}"))),
        };
        let (prefixes, rest) = prefixes.as_chunks::<21>();
        let (places, rest_out) = matches.as_chunks_mut::<81>();
        if places.len() != prefixes.len() || !rest.is_empty() || !rest_out.is_empty() {
            return Err(Failure::bug("one place per prefix expected"));
        }
        handle.call(|map| {
            for (place, prefix) in places.iter_mut().zip(prefixes) {
                *place = match_of(map, side, prefix)?;
            }
            Ok(())
        })
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Whether each commit of a segment has one changeset, by the dialect in the segment's name.
fn has_unique_commits(segment: &Segment) -> bool {
    let dialect = segment.name().split('-').next();
    HgGit::HAS_UNIQUE_COMMITS || dialect != Some(HgGit::NAME)
}

/// Checks each segment: its checksum and its order.
///
/// # Safety
///
/// `error` as everywhere; `map` is not freed before the call ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_map_check(map: *const Map, error: *mut ErrorInfo) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let Map(handle) = unsafe { handle::borrow(map) }?;
        handle.call(|map| {
            for segment in map.segments() {
                segment.check(has_unique_commits(segment))?;
            }
            Ok(())
        })
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Fills `pairs` with pairs of `table` from position `start` on, and writes their number to
/// `written`: 0 at the end.
///
/// A pair has 40 bytes, node and oid. Positions are arbitrary and constant while the map is open.
///
/// # Safety
///
/// `error` as everywhere; `pairs` is lent for the call, `written` writable; `map` is not freed
/// before the call ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_map_pairs(
    pairs: *mut u8,
    pairs_len: usize,
    written: *mut u64,
    map: *const Map,
    table: u32,
    start: u64,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let (pairs, Map(handle)) =
            unsafe { (buffers::buffer(pairs, pairs_len)?, handle::borrow(map)?) };
        let (table, start) = (table_of(table)?, position(start)?);
        let count = handle.call(|map| {
            let mut count = 0;
            let (places, _) = pairs.as_chunks_mut::<40>();
            for (place, at) in places.iter_mut().zip(start..) {
                let Some(pair) = map.pair(table, at) else { break };
                *place = bytes_of(&pair);
                count += 1;
            }
            Ok(count)
        })?;
        // SAFETY: as the caller promises.
        unsafe { buffers::put(written, count) }
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Compares the map `found` with `expected`.
///
/// The answer is a message with the differences of each table: `changesets`, `manifests`, `files`.
/// A difference has 60 bytes: node, oid found, oid expected; zeros for an absent oid. Phases: 0
/// pairs of both maps.
///
/// # Safety
///
/// `error` as everywhere; `answer` is writable; neither map is freed before the call ends; `report`
/// may be called with `handle` until then. The answer is given to `amalgam_answer_free` once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_map_compare(
    answer: *mut AnswerBytes,
    found: *const Map,
    expected: *const Map,
    report: ReportFn,
    handle: *mut c_void,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let (Map(found), Map(expected)) =
            unsafe { (handle::borrow(found)?, handle::borrow(expected)?) };
        // SAFETY: as the caller promises.
        let reporter = unsafe { Reporter::new(report, handle) };
        let compared = found.call(|found| expected.call(|it| compare(found, it, &reporter)))?;
        // SAFETY: as the caller promises.
        unsafe { buffers::give(answer, compared) }
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

fn compare(found: &OidMap, expected: &OidMap, reporter: &Reporter) -> Result<Vec<u8>, Failure> {
    let comparisons = TABLES.map(|table| Comparison { found, expected, table });
    let total = comparisons.iter().map(|comparison| comparison.len() as u64).sum();
    let progress = Progress::default();
    progress.begin(0, total);
    let differences = reporter.supervise(&progress, || {
        let mut differences = [const { Vec::new() }; TABLES.len()];
        for (comparison, differences) in comparisons.iter().zip(&mut differences) {
            for at in 0..comparison.len() {
                let found = comparison.step(at);
                differences.extend(found.iter().flat_map(bytes_of_difference));
                progress.advance(1)?;
            }
        }
        Ok(differences)
    })?;
    reporter.report(Position { phase: 0, done: total, total })?;
    let [changesets, manifests, files] = &differences;
    let answer = Fields::default()
        .with("changesets", &changesets[..])
        .with("manifests", &manifests[..])
        .with("files", &files[..]);
    Ok(answer.encode())
}

fn match_of(map: &OidMap, side: Side, prefix: &[u8; 21]) -> Result<[u8; 81], Failure> {
    let [id @ .., digits] = *prefix;
    let prefix = Prefix::new(id, digits.into())
        .ok_or_else(|| Failure::bug(format!("a prefix of {digits} digits")))?;
    let mut answer = [0; 81];
    match map.matches(side, prefix) {
        Matches::None => {}
        Matches::One(pair) => {
            answer[0] = 1;
            answer[1..41].copy_from_slice(&bytes_of(&pair));
        }
        Matches::Several(first, second) => {
            answer[0] = 2;
            answer[1..41].copy_from_slice(&bytes_of(&first));
            answer[41..].copy_from_slice(&bytes_of(&second));
        }
    }
    Ok(answer)
}

fn bytes_of_difference(difference: &Difference) -> [u8; 60] {
    let oid = |oid: Option<Oid>| oid.map_or([0; 20], |oid| *oid.as_bytes());
    let mut bytes = [0; 60];
    bytes[..20].copy_from_slice(difference.node.as_bytes());
    bytes[20..40].copy_from_slice(&oid(difference.found));
    bytes[40..].copy_from_slice(&oid(difference.expected));
    bytes
}

fn bytes_of(pair: &Pair) -> [u8; 40] {
    let mut bytes = [0; 40];
    bytes[..20].copy_from_slice(pair.node.as_bytes());
    bytes[20..].copy_from_slice(pair.oid.as_bytes());
    bytes
}

fn position(number: u64) -> Result<usize, Failure> {
    usize::try_from(number).map_err(|_| Failure::bug("a position beyond memory"))
}

fn table_of(number: u32) -> Result<Table, Failure> {
    let found = TABLES.into_iter().find(|table| *table as u32 == number);
    found.ok_or_else(|| Failure::bug(format!("unknown table {number}")))
}

/// Writes ids one after the other, zeros for absent ones.
fn fill(
    out: &mut [u8],
    found: impl ExactSizeIterator<Item = Option<[u8; 20]>>,
) -> Result<(), Failure> {
    let (places, rest) = out.as_chunks_mut::<20>();
    if places.len() != found.len() || !rest.is_empty() {
        return Err(Failure::bug("one place per answer expected"));
    }
    for (place, id) in places.iter_mut().zip(found) {
        *place = id.unwrap_or_default();
    }
    Ok(())
}
