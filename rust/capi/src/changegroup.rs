//! Changegroups: a handle, and reading it buffer by buffer.

use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use changegroup::{Changegroup, Error, Outgoing, Reached};
use revlog::{Node, Store};

use crate::buffers::{self, Bytes};
use crate::entry::entry;
use crate::failure::{ErrorInfo, Failure, Status};
use crate::handle::{self, Handle};
use crate::jobs::{encoding, version};
use crate::report::{Progress, ReportFn, Reporter};
use crate::snapshot::Mapped;

/// Which changesets to write, and how. All bytes are lent for the call.
#[repr(C)]
#[derive(Debug)]
pub struct ChangegroupRequest {
    /// The directory `.hg/store`.
    pub store: Bytes,
    /// The index of the changelog, if it is mapped: then it is read only to compare nodes. Null
    /// otherwise.
    pub changelog: *const Mapped,
    /// The same of the manifest.
    pub manifest: *const Mapped,
    /// How names are encoded in it, as in `amalgam_export_request`.
    pub encoding: u32,
    /// Version of the format: 2 or 3.
    pub version: u32,
    /// Numbers of the changesets, ascending.
    pub changesets: *const u32,
    /// How many there are.
    pub changesets_len: usize,
    /// Their nodes, 20 bytes each, in the same order.
    pub nodes: Bytes,
    /// Numbers of changesets that the receiver has, with all their ancestors. Not looked at if links
    /// are trusted.
    pub common: *const u32,
    /// How many there are.
    pub common_len: usize,
    /// Whether all revisions belong to the changesets that their links name: 0 or 1. Otherwise
    /// the manifests tell.
    pub trusts_links: u32,
    /// Threads that work; 0 is one for each core.
    pub threads: u32,
}

/// What was written to a buffer, and how far the changegroup is.
#[repr(C)]
#[derive(Debug)]
pub struct ChangegroupPart {
    /// Bytes written; 0 at the end.
    pub len: usize,
    /// What is being written. 0: changesets. 1: manifests. 2: files.
    pub phase: u32,
    /// How many of them are done.
    pub done: u64,
    /// How many there are.
    pub total: u64,
}

/// A changegroup, and what of it was made and not yet read.
pub struct ChangegroupHandle(Handle<Mutex<Reading>>);

struct Reading {
    changegroup: Changegroup,
    made: Vec<u8>,
    read: usize,
}

/// Begins a changegroup. `MOVED` if the repository has not these changesets.
///
/// # Safety
///
/// `error` as everywhere; `out` is writable; `request` and all that it points to are lent for the call.
/// The changegroup is given to `amalgam_changegroup_free` once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_changegroup_open(
    out: *mut *mut ChangegroupHandle,
    request: *const ChangegroupRequest,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let (store, request) = unsafe { request_of(request) }?;
        let changegroup = Changegroup::open(store, request)?;
        let reading = Reading { changegroup, made: Vec::new(), read: 0 };
        // SAFETY: as the caller promises.
        unsafe { handle::give(out, ChangegroupHandle(Handle::new(Mutex::new(reading)))) }
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Frees a changegroup; null is ignored.
///
/// # Safety
///
/// `changegroup` came from `amalgam_changegroup_open` or is null, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_changegroup_free(changegroup: *mut ChangegroupHandle) {
    // SAFETY: as the caller promises.
    unsafe { handle::free(changegroup) }
}

/// Writes the next bytes to `buffer`. None at the end.
///
/// The core makes some megabytes at a time, with threads that end with the call, and keeps what has no room.
/// After an error there is no more to read. Phases of the report: as in `amalgam_changegroup_part`.
///
/// # Safety
///
/// `error` as everywhere; `out` and `buffer` are writable; `report` may be called with `handle` until
/// the call ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_changegroup_read(
    out: *mut ChangegroupPart,
    buffer: *mut u8,
    buffer_len: usize,
    changegroup: *const ChangegroupHandle,
    report: ReportFn,
    handle: *mut c_void,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let buffer = unsafe { buffers::buffer(buffer, buffer_len) }?;
        // SAFETY: as the caller promises.
        let changegroup = unsafe { handle::borrow(changegroup) }?;
        // SAFETY: as the caller promises.
        let reporter = unsafe { Reporter::new(report, handle) };
        let part = changegroup.0.call(|reading| {
            let mut reading = reading.lock().unwrap_or_else(PoisonError::into_inner);
            reading.next(buffer, &reporter)
        })?;
        // SAFETY: as the caller promises.
        unsafe { buffers::put(out, part) }
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

impl Reading {
    /// Fills `buffer`, as far as there is something.
    fn next(&mut self, buffer: &mut [u8], reporter: &Reporter) -> Result<ChangegroupPart, Failure> {
        let Self { changegroup, made, read } = self;
        if *read == made.len() {
            made.clear();
            *read = 0;
            let progress = Progress::default();
            let watch =
                |Reached { phase, done, total }: Reached| progress.tell(phase as u32, done, total);
            watch(changegroup.position());
            reporter
                .supervise(&progress, || changegroup.read(made, &watch).map_err(Failure::from))?;
        }
        let len = buffer.len().min(made.len() - *read);
        buffer[..len].copy_from_slice(&made[*read..*read + len]);
        *read += len;
        let Reached { phase, done, total } = changegroup.position();
        Ok(ChangegroupPart { len, phase: phase as u32, done, total })
    }
}

/// What C asks for.
///
/// # Safety
///
/// `request` is null or lent with all that it points to.
unsafe fn request_of(request: *const ChangegroupRequest) -> Result<(Store, Outgoing), Failure> {
    // SAFETY: as the caller promises.
    let request = unsafe { request.as_ref() }.ok_or_else(|| Failure::bug("no request"))?;
    // SAFETY: as the caller promises, for this and each of the following.
    let store = unsafe { buffers::path(request.store.data, request.store.len) }?;
    // SAFETY: likewise.
    let numbers = unsafe { buffers::slice(request.changesets, request.changesets_len) }?;
    // SAFETY: likewise.
    let nodes = unsafe { buffers::slice::<u8>(request.nodes.data, request.nodes.len) }?;
    // SAFETY: likewise.
    let common = unsafe { buffers::slice(request.common, request.common_len) }?;
    let (nodes, rest) = nodes.as_chunks::<20>();
    if nodes.len() != numbers.len() || !rest.is_empty() {
        return Err(Failure::bug("there is not one node for each changeset"));
    }
    if !numbers.is_sorted_by(|earlier, later| earlier < later) {
        return Err(Failure::bug("changesets are not in ascending order"));
    }
    let nodes = nodes.iter().map(|node| Node::from_bytes(*node));
    let version = version(request.version)?;
    let encoding = encoding(request.encoding)?;
    // SAFETY: likewise; the store has shares of its own.
    let mapped = unsafe { Mapped::indexes(request.changelog, request.manifest) }?;
    Ok((
        Store::new(store, encoding).with_mapped(mapped),
        Outgoing {
            version,
            changesets: numbers.iter().copied().zip(nodes).collect(),
            common: common.to_vec(),
            trusts_links: request.trusts_links != 0,
            threads: request.threads as usize,
        },
    ))
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match &error {
            Error::Store(revlog::Error::Io { path, source }) => Self::io(path, source),
            Error::Store(revlog::Error::Corrupt { path, .. }) => Self::corrupt(error.to_string())
                .hint(format!("see 'hg verify'; file {}", path.display())),
            Error::Store(revlog::Error::Unsupported { .. }) => Self::unsupported(error.to_string()),
            Error::Moved => Self::moved(error.to_string()).hint("run the command again"),
            Error::Cancelled => Self::cancelled(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(numbers: &[u32], nodes: &[u8]) -> ChangegroupRequest {
        ChangegroupRequest {
            store: Bytes { data: b"nowhere".as_ptr(), len: 7 },
            changelog: std::ptr::null(),
            manifest: std::ptr::null(),
            encoding: 2,
            version: 2,
            changesets: numbers.as_ptr(),
            changesets_len: numbers.len(),
            nodes: Bytes { data: nodes.as_ptr(), len: nodes.len() },
            common: std::ptr::null(),
            common_len: 0,
            trusts_links: 1,
            threads: 1,
        }
    }

    fn refused(request: &ChangegroupRequest) -> Failure {
        // SAFETY: all of it is the test's.
        let outcome = unsafe { request_of(request) };
        outcome.map(|_| ()).expect_err("is refused")
    }

    #[test]
    fn a_request_that_makes_no_sense_is_a_bug() {
        let nodes = [0; 40];
        let asked = request(&[1, 2], &nodes);
        // SAFETY: all of it is the test's.
        assert!(unsafe { request_of(&raw const asked) }.is_ok());
        for (numbers, nodes) in [(&[1, 2][..], &nodes[..20]), (&[2, 1], &nodes), (&[1, 1], &nodes)]
        {
            assert_eq!(refused(&request(numbers, nodes)).status(), Status::Bug);
        }
        let asked = ChangegroupRequest { version: 4, ..request(&[], &[]) };
        assert_eq!(refused(&asked).to_string(), "unknown changegroup version 4");
    }

    #[test]
    fn an_empty_changegroup_is_three_ends() {
        let mut out = std::ptr::null_mut();
        let mut error = ErrorInfo::default();
        let asked = request(&[], &[]);
        let mut part = ChangegroupPart { len: 0, phase: 0, done: 0, total: 0 };
        let mut buffer = [1; 5];
        let mut read = Vec::new();
        // SAFETY: all of it is the test's.
        unsafe {
            assert_eq!(
                amalgam_changegroup_open(&raw mut out, &raw const asked, &raw mut error),
                Status::Ok
            );
            loop {
                let status = amalgam_changegroup_read(
                    &raw mut part,
                    buffer.as_mut_ptr(),
                    buffer.len(),
                    out,
                    None,
                    std::ptr::null_mut(),
                    &raw mut error,
                );
                assert_eq!(status, Status::Ok);
                if part.len == 0 {
                    break;
                }
                read.extend_from_slice(&buffer[..part.len]);
            }
            amalgam_changegroup_free(out);
        }
        assert_eq!(read, [0; 12]);
    }
}
