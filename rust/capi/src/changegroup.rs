//! Changegroups: read from a handle, buffer by buffer.

use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use changegroup::{Changegroup, Error, Outgoing, Reached};
use revlog::{Node, Store};

use crate::buffers;
use crate::entry::entry;
use crate::failure::{ErrorInfo, Failure, Status};
use crate::handle::{self, Handle};
use crate::jobs::{encoding, version};
use crate::message::Fields;
use crate::report::{Position, Progress, ReportFn, Reporter};
use crate::snapshot::Mapped;

/// Changegroup, with the bytes that C has not read yet.
pub struct ChangegroupHandle(Handle<Mutex<Reading>>);

struct Reading {
    changegroup: Changegroup,
    made: Vec<u8>,
    read: usize,
}

/// Begins a changegroup. `MOVED` if the changelog has other changesets.
///
/// `message` and indexes are as for `amalgam_job_run`. `changesets` are ascending revisions, 4
/// bytes each in the byte order of the machine, and `nodes` their nodes. `common` are revisions
/// that the receiver has with all their ancestors. With `trusts_links`, `common` is ignored, and
/// every revision belongs to the changeset of its linkrev.
///
/// # Safety
///
/// `error` as everywhere; `out` is writable; `message` is lent for the call; `changelog` and
/// `manifest` are not freed before it ends. The changegroup is given to `amalgam_changegroup_free`
/// once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_changegroup_open(
    out: *mut *mut ChangegroupHandle,
    message: *const u8,
    message_len: usize,
    changelog: *const Mapped,
    manifest: *const Mapped,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let mut fields = Fields::decode(unsafe { buffers::slice(message, message_len) }?)?;
        // SAFETY: as the caller promises; the store has shares of its own.
        let indexes = unsafe { Mapped::indexes(changelog, manifest) }?;
        let store = Store::new(fields.take("store")?, encoding(fields.take("encoding")?)?);
        let changegroup = Changegroup::open(store.with_mapped(indexes), outgoing(fields)?)?;
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

/// Writes the next bytes to `buffer`, and their number to `written`: 0 at the end.
///
/// The core makes some megabytes at a time, with threads that end with the call, and keeps the rest
/// for the next call. After an error, nothing more can be read. Each call reports at its end, too.
/// Phases: 0 changesets, 1 manifests, 2 files.
///
/// # Safety
///
/// `error` as everywhere; `written` and `buffer` are writable; `report` may be called with `handle`
/// until the call ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_changegroup_read(
    written: *mut usize,
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
        let len = changegroup.0.call(|reading| {
            let mut reading = reading.lock().unwrap_or_else(PoisonError::into_inner);
            reading.next(buffer, &reporter)
        })?;
        // SAFETY: as the caller promises.
        unsafe { buffers::put(written, len) }
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

impl Reading {
    /// Fills `buffer` as far as possible; returns the number of bytes.
    fn next(&mut self, buffer: &mut [u8], reporter: &Reporter) -> Result<usize, Failure> {
        let Self { changegroup, made, read } = self;
        if *read == made.len() {
            made.clear();
            *read = 0;
            let progress = Progress::default();
            let watch =
                |Reached { phase, done, total }: Reached| progress.set(phase as u32, done, total);
            watch(changegroup.position());
            reporter
                .supervise(&progress, || changegroup.read(made, &watch).map_err(Failure::from))?;
        }
        let len = buffer.len().min(made.len() - *read);
        buffer[..len].copy_from_slice(&made[*read..*read + len]);
        *read += len;
        if len > 0 {
            let Reached { phase, done, total } = changegroup.position();
            reporter.report(Position { phase: phase as u32, done, total })?;
        }
        Ok(len)
    }
}

/// Reads the request.
fn outgoing(mut fields: Fields<'_>) -> Result<Outgoing, Failure> {
    let numbers = |numbers: &[[u8; 4]]| -> Vec<u32> {
        numbers.iter().map(|number| u32::from_ne_bytes(*number)).collect()
    };
    let changesets = numbers(fields.take("changesets")?);
    let nodes: &[[u8; 20]] = fields.take("nodes")?;
    if nodes.len() != changesets.len() {
        return Err(Failure::bug("numbers of nodes and changesets differ"));
    }
    if !changesets.is_sorted_by(|earlier, later| earlier < later) {
        return Err(Failure::bug("changesets are not in ascending order"));
    }
    let nodes = nodes.iter().map(|node| Node::from_bytes(*node));
    let outgoing = Outgoing {
        version: version(fields.take("version")?)?,
        changesets: changesets.into_iter().zip(nodes).collect(),
        common: numbers(fields.take("common")?),
        trusts_links: fields.take("trusts_links")?,
        threads: fields.take("threads")?,
    };
    fields.end()?;
    Ok(outgoing)
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

    fn request<'a>(changesets: &'a [u8], nodes: &'a [u8]) -> Fields<'a> {
        Fields::default()
            .with("version", 2_u32)
            .with("changesets", changesets)
            .with("nodes", nodes)
            .with("common", "")
            .with("trusts_links", 1_u32)
            .with("threads", 1_u32)
    }

    #[test]
    fn a_request_that_makes_no_sense_is_a_bug() {
        let numbers = |numbers: [u32; 2]| numbers.map(u32::to_ne_bytes).concat();
        let nodes = [0; 40];
        assert!(outgoing(request(&numbers([1, 2]), &nodes)).is_ok());
        for (changesets, nodes) in [([1, 2], &nodes[..20]), ([2, 1], &nodes), ([1, 1], &nodes)] {
            let refused = outgoing(request(&numbers(changesets), nodes)).expect_err("is refused");
            assert_eq!(refused.status(), Status::Bug);
        }
        let refused = outgoing(request(b"", b"").with("version", 4_u32)).expect_err("is refused");
        assert_eq!(refused.to_string(), "unknown changegroup version 4");
    }

    #[test]
    fn an_empty_changegroup_is_three_ends() {
        let mut out = std::ptr::null_mut();
        let mut error = ErrorInfo::default();
        let message = request(b"", b"").with("store", "nowhere").with("encoding", 2_u32).encode();
        let (mut written, mut buffer) = (0, [1; 5]);
        let mut read = Vec::new();
        // SAFETY: all of it is the test's.
        unsafe {
            let status = amalgam_changegroup_open(
                &raw mut out,
                message.as_ptr(),
                message.len(),
                std::ptr::null(),
                std::ptr::null(),
                &raw mut error,
            );
            assert_eq!(status, Status::Ok);
            loop {
                let status = amalgam_changegroup_read(
                    &raw mut written,
                    buffer.as_mut_ptr(),
                    buffer.len(),
                    out,
                    None,
                    std::ptr::null_mut(),
                    &raw mut error,
                );
                assert_eq!(status, Status::Ok);
                if written == 0 {
                    break;
                }
                read.extend_from_slice(&buffer[..written]);
            }
            amalgam_changegroup_free(out);
        }
        assert_eq!(read, [0; 12]);
    }
}
