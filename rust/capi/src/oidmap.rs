//! The oid map: handles, look-ups in batches, and what verifying asks.

use gitpack::Oid;
use hg2git::{Comparison, Difference, Matches, OidMap, Pair, Prefix, Side, Table};
use revlog::Node;

use crate::buffers::{self, Bytes};
use crate::entry::entry;
use crate::failure::{ErrorInfo, Failure, Status};
use crate::handle::{self, Handle};

/// Steps of a comparison that one call makes at most, so that its caller hears Ctrl-C.
const COMPARED_AT_ONCE: usize = 1 << 20;

/// An open oid map.
pub struct Map(Handle<OidMap>);

/// Opens the map made of `segments`, file names in a directory, oldest first.
///
/// `directory` is a descriptor of it, `directory_path` what messages call it; without segments
/// neither is looked at. Those segments that are in `unmapped`, too, are read instead of mapped.
///
/// # Safety
///
/// `error` as everywhere; `out` is writable; `directory_path`, `segments`, `unmapped` and their
/// bytes are lent for the call, and `directory` is open. The map is given to `amalgam_map_free` once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_map_open(
    out: *mut *mut Map,
    directory: i32,
    directory_path: Bytes,
    segments: *const Bytes,
    segments_len: usize,
    unmapped: *const Bytes,
    unmapped_len: usize,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let lists = unsafe {
            (buffers::list(segments, segments_len)?, buffers::list(unmapped, unmapped_len)?)
        };
        let (segments, unmapped) = (names(lists.0)?, names(lists.1)?);
        let map = if segments.is_empty() {
            OidMap::default()
        } else {
            // SAFETY: as the caller promises.
            let path = unsafe { buffers::path(directory_path.data, directory_path.len) }?;
            // SAFETY: likewise.
            let directory = unsafe { buffers::directory(directory, path) }?;
            OidMap::open(&directory, &segments, &unmapped)?
        };
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
/// `map` came from `amalgam_map_open`, and nobody uses it any more.
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

/// Writes to `oids` the oid of each of `hg_nodes` in `table`, zeros where there is none; 20 bytes
/// each on both sides.
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
            let found = nodes(hg_nodes)?.into_iter().map(|node| map.oid(table, &node));
            fill(oids, found.map(|oid| oid.map(|oid| *oid.as_bytes())))
        })
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Writes to `hg_nodes` the changeset of each commit in `oids`, zeros where there is none; 20
/// bytes each on both sides.
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

/// Writes to `matches`, 81 bytes for each of `prefixes`, what an abbreviated id stands for: the
/// number of changesets found (0, 1, or 2 for several), then node and oid of the first two.
///
/// `side` says of which id they are the beginning: 0 of changesets, 1 of commits. A prefix is 21
/// bytes: 20 of an id, and how many of their hexadecimal digits count, 1 to 40.
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
            return Err(Failure::bug("one place for each prefix was expected"));
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

/// Checks each segment whole: its checksum, and that what is sorted is sorted.
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
                segment.check()?;
            }
            Ok(())
        })
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Writes to `pairs` those of `table` from position `start` on, as many as there is room for, and
/// their number to `written`: 0 after the last. A pair is 40 bytes, node and oid. Positions are
/// those of no order that means anything, but they stay the same as long as the map is open.
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

/// Writes to `segment` the bytes of a segment with some of the pairs of `map`, and their number to
/// `written`.
///
/// `hg_nodes` are three lists, one for each table. Its pairs with these nodes are written, or, if
/// `is_kept` is 0, all others. There must be room for all pairs of the map.
///
/// # Safety
///
/// `error` as everywhere; `segment`, `hg_nodes` and their bytes are lent for the call, `written` is
/// writable; `map` is not freed before the call ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_map_sift(
    segment: *mut u8,
    segment_len: usize,
    written: *mut u64,
    map: *const Map,
    hg_nodes: *const Bytes,
    hg_nodes_len: usize,
    is_kept: u32,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let (segment, lists, Map(handle)) = unsafe {
            (
                buffers::buffer(segment, segment_len)?,
                buffers::list(hg_nodes, hg_nodes_len)?,
                handle::borrow(map)?,
            )
        };
        let [changesets, manifests, files] = lists[..] else {
            return Err(Failure::bug("a list of nodes for each table was expected"));
        };
        let sifted = handle.call(|map| {
            let nodes = [nodes(changesets)?, nodes(manifests)?, nodes(files)?];
            map.sifted(nodes, is_kept != 0).map_err(|problem| Failure::bug(problem.to_string()))
        })?;
        let room = segment.get_mut(..sifted.len());
        room.ok_or_else(|| Failure::bug("no room for all pairs"))?.copy_from_slice(&sifted);
        // SAFETY: as the caller promises.
        unsafe { buffers::put(written, sifted.len() as u64) }
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Where a comparison of two maps is; made by the caller, zeros at first.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MapComparison {
    /// Position to go on at. All is compared when it is the sum of both maps' pairs.
    pub next: u64,
    /// Differences that the last call wrote.
    pub written: u64,
}

/// Compares `table` of the map `found` with that of `expected`, from where `comparison` is.
///
/// Writes each node that differs as 60 bytes to `differences`: node, oid found, oid expected, zeros
/// where there is none. Returns when there is no more room or after some time, with `comparison`
/// brought forward.
///
/// # Safety
///
/// `error` as everywhere; `differences` is lent for the call, `comparison` is the caller's; neither
/// map is freed before the call ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_map_compare(
    differences: *mut u8,
    differences_len: usize,
    comparison: *mut MapComparison,
    found: *const Map,
    expected: *const Map,
    table: u32,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let (differences, progress, Map(found), Map(expected)) = unsafe {
            (
                buffers::buffer(differences, differences_len)?,
                comparison.as_mut().ok_or_else(|| Failure::bug("no comparison"))?,
                handle::borrow(found)?,
                handle::borrow(expected)?,
            )
        };
        let (table, start) = (table_of(table)?, position(progress.next)?);
        let (places, _) = differences.as_chunks_mut::<60>();
        let mut compare = |found: &OidMap, expected: &OidMap| {
            let comparison = Comparison { found, expected, table };
            let end = comparison.len().min(start.saturating_add(COMPARED_AT_ONCE));
            let (mut at, mut count) = (start, 0);
            while at < end && count < places.len() {
                if let Some(difference) = comparison.step(at) {
                    places[count] = bytes_of_difference(&difference);
                    count += 1;
                }
                at += 1;
            }
            MapComparison { next: at as u64, written: count as u64 }
        };
        *progress = found.call(|found| expected.call(|expected| Ok(compare(found, expected))))?;
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
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

/// File names of segments, which are ASCII.
fn names(names: Vec<&[u8]>) -> Result<Vec<String>, Failure> {
    let name = |name: &[u8]| String::from_utf8(name.to_owned());
    let names = names.into_iter().map(name).collect::<Result<_, _>>();
    names.map_err(|_| Failure::bug("name is not ASCII"))
}

/// Nodes in a row.
fn nodes(bytes: &[u8]) -> Result<Vec<Node>, Failure> {
    let (nodes, rest) = bytes.as_chunks::<20>();
    if !rest.is_empty() {
        return Err(Failure::bug("nodes are not 20 bytes each"));
    }
    Ok(nodes.iter().map(|node| Node::from_bytes(*node)).collect())
}

fn position(number: u64) -> Result<usize, Failure> {
    usize::try_from(number).map_err(|_| Failure::bug("a position beyond memory"))
}

fn table_of(number: u32) -> Result<Table, Failure> {
    let found = hg2git::TABLES.into_iter().find(|table| *table as u32 == number);
    found.ok_or_else(|| Failure::bug(format!("unknown table {number}")))
}

/// Writes ids in a row, zeros for those that are missing.
fn fill(
    out: &mut [u8],
    found: impl ExactSizeIterator<Item = Option<[u8; 20]>>,
) -> Result<(), Failure> {
    let (places, rest) = out.as_chunks_mut::<20>();
    if places.len() != found.len() || !rest.is_empty() {
        return Err(Failure::bug("one place for each answer was expected"));
    }
    for (place, id) in places.iter_mut().zip(found) {
        *place = id.unwrap_or_default();
    }
    Ok(())
}
