//! The oid map: handles, and look-ups in batches.

use hg2git::{OidMap, Table};

use crate::entry::entry;
use crate::export::{ascii, nodes};
use crate::failure::{ErrorInfo, Failure, Status};
use crate::handle::{self, Handle};
use crate::lent::{self, Bytes};

/// An open oid map.
pub struct Map(Handle<OidMap>);

/// Opens the map made of `segments`, file names in `directory`, oldest first.
///
/// # Safety
///
/// `error` as everywhere; `out` is writable; `directory`, `segments` and their bytes are lent for
/// the call. The map is given to `amalgam_map_free` once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_map_open(
    out: *mut *mut Map,
    directory: *const u8,
    directory_len: usize,
    segments: *const Bytes,
    segments_len: usize,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let (directory, segments) =
            unsafe { (lent::path(directory, directory_len)?, lent::list(segments, segments_len)?) };
        let names = segments.into_iter().map(ascii).collect::<Result<Vec<_>, _>>()?;
        let map = OidMap::open(directory, names)?;
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
        unsafe { lent::put(count, len as u64) }
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
                lent::buffer(oids, oids_len)?,
                lent::slice(hg_nodes, hg_nodes_len)?,
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
                lent::buffer(hg_nodes, hg_nodes_len)?,
                lent::slice(oids, oids_len)?,
                handle::borrow(map)?,
            )
        };
        handle.call(|map| {
            let (oids, _) = oids.as_chunks::<20>();
            let found = oids.iter().map(|oid| map.changeset(&gitpack::Oid::from_bytes(*oid)));
            fill(hg_nodes, found.map(|node| node.map(|node| *node.as_bytes())))
        })
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
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
