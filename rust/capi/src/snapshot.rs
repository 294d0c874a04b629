//! Indexes in memory: a memory-mapped snapshot and the entries after it.

use std::path::Path;
use std::sync::Arc;

use revlog::MappedIndexes;
use revlog::mapping::{self, Expected, Mapping, MappingError, Prefault};

use crate::buffers;
use crate::entry::entry;
use crate::failure::{ErrorInfo, Failure, Status};
use crate::handle::{self, Handle};

/// Index in memory.
pub struct Mapped(Handle<Arc<Mapping>>);

impl Mapped {
    /// A reference to the index.
    ///
    /// # Errors
    ///
    /// A bug if an earlier call panicked.
    fn share(&self) -> Result<Arc<Mapping>, Failure> {
        self.0.call(|mapping| Ok(Arc::clone(mapping)))
    }

    /// References to the mapped indexes of a repository. Null: not mapped.
    ///
    /// # Safety
    ///
    /// Each is null or came from `amalgam_mapped_new`, and is not freed meanwhile.
    ///
    /// # Errors
    ///
    /// A bug if an earlier call panicked.
    pub(crate) unsafe fn indexes(
        changelog: *const Self,
        manifest: *const Self,
    ) -> Result<MappedIndexes, Failure> {
        // SAFETY: as the caller promises.
        let share = |index: *const Self| unsafe { index.as_ref() }.map(Self::share).transpose();
        Ok(MappedIndexes { changelog: share(changelog)?, manifest: share(manifest)? })
    }
}

/// Loads the first `len` bytes of the index open as `index`, and writes their address to `data`.
///
/// The first `covered` bytes are mapped from the file open as `snapshot`, which errors name `path`;
/// the others are read. `prefault` is the readahead: 0 none, 1 all in the background, 2 all before
/// the call ends. `MOVED` if the files are shorter.
///
/// # Safety
///
/// `error` as everywhere; `out` and `data` are writable; `path` is lent for the call; `snapshot`
/// and `index` are open descriptors until it ends. The index is given to `amalgam_mapped_free`
/// once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_mapped_new(
    out: *mut *mut Mapped,
    data: *mut *const u8,
    snapshot: i32,
    path: *const u8,
    path_len: usize,
    covered: u64,
    index: i32,
    len: u64,
    prefault: u32,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let (snapshot, path, index) = unsafe {
            (buffers::file(snapshot)?, buffers::path(path, path_len)?, buffers::file(index)?)
        };
        let failed = |error| failure(error, path);
        let prefault = match prefault {
            0 => Prefault::Nothing,
            1 => Prefault::WillNeed,
            2 => Prefault::Populate,
            unknown => return Err(Failure::bug(format!("unknown prefault {unknown}"))),
        };
        let mapped = Mapping::new(&snapshot, covered, &index, len, prefault).map_err(failed)?;
        // SAFETY: as the caller promises.
        unsafe {
            buffers::put(data, mapped.bytes().as_ptr())?;
            handle::give(out, Mapped(Handle::new(Arc::new(mapped))))
        }
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Advises the kernel of the next accesses to the bytes from `start` to `end` of an index: 0
/// random, 1 all of them, which are then read at once, 2 sequential.
///
/// # Safety
///
/// `error` as everywhere; `mapped` is not freed before the call ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_mapped_expect(
    mapped: *const Mapped,
    expected: u32,
    start: u64,
    end: u64,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let Mapped(handle) = unsafe { handle::borrow(mapped) }?;
        let expected = match expected {
            0 => Expected::FewPlaces,
            1 => Expected::Everything,
            2 => Expected::Stretches,
            unknown => return Err(Failure::bug(format!("unknown expectation {unknown}"))),
        };
        let [start, end] = [start, end].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
        handle.call(|mapping| {
            mapping.expect(expected, start..end);
            Ok(())
        })
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Frees an index with its bytes; null is ignored.
///
/// # Safety
///
/// `mapped` came from `amalgam_mapped_new`; C does not use it and its bytes any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_mapped_free(mapped: *mut Mapped) {
    // SAFETY: as the caller promises.
    unsafe { handle::free(mapped) }
}

/// Writes the length of the common prefix of a snapshot and an index to `common`.
///
/// Compares the first `covered` bytes of the file open as `snapshot`, which errors name `path`, and
/// the first `len` of the file open as `index`.
///
/// # Safety
///
/// `error` as everywhere; `common` is writable; `path` is lent for the call; `snapshot` and
/// `index` are open descriptors until it ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_snapshot_common(
    common: *mut u64,
    snapshot: i32,
    path: *const u8,
    path_len: usize,
    covered: u64,
    index: i32,
    len: u64,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let (snapshot, path, index) = unsafe {
            (buffers::file(snapshot)?, buffers::path(path, path_len)?, buffers::file(index)?)
        };
        let failed = |error| failure(error, path);
        let found = mapping::common_prefix(&snapshot, covered, &index, len);
        let found = found.map_err(|error| failed(error.into()))?;
        // SAFETY: as the caller promises.
        unsafe { buffers::put(common, found) }
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

fn failure(error: MappingError, path: &Path) -> Failure {
    match error {
        MappingError::Io(source) => Failure::io(path, &source),
        MappingError::Moved(message) => Failure::moved(message).at(path),
    }
}
