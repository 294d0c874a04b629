//! Calls that do nothing useful, so that the boundary itself can be tested from Python.

use std::ffi::c_void;
use std::fs::File;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::buffers::{self, Bytes};
use crate::entry::entry;
use crate::failure::{ErrorInfo, Failure, Status};
use crate::handle::{self, Handle};
use crate::report::{Progress, ReportFn, Reporter};

/// A sum that several calls add to.
pub struct Selftest(Handle<Mutex<u64>>);

/// Counts `steps` of `step_millis` each in a thread, reporting phase 0; then fails as
/// `fail_mode` says: with that `amalgam_status`, where `BUG` panics in the thread.
///
/// # Safety
///
/// `error` as everywhere; `report` may be called with `handle` until the call ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_selftest_count(
    steps: u64,
    step_millis: u32,
    fail_mode: i32,
    report: ReportFn,
    handle: *mut c_void,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let reporter = unsafe { Reporter::new(report, handle) };
        let progress = Progress::default();
        reporter.supervise(&progress, || {
            progress.begin(0, steps);
            for _step in 0..steps {
                thread::sleep(Duration::from_millis(step_millis.into()));
                progress.advance(1)?;
            }
            fail(fail_mode)
        })
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Makes a sum of 0; give it to `amalgam_selftest_free` once.
///
/// # Safety
///
/// `error` as everywhere; `out` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_selftest_new(
    out: *mut *mut Selftest,
    error: *mut ErrorInfo,
) -> Status {
    // SAFETY: as the caller promises.
    unsafe { entry(error, || handle::give(out, Selftest(Handle::new(Mutex::new(0))))) }
}

/// Adds `amount` and answers the `sum`; fails before that as `fail_mode` says, where `BUG`
/// panics in the calling thread and spoils the handle.
///
/// # Safety
///
/// `error` as everywhere; `sum` is writable; `selftest` is not freed before the call ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_selftest_add(
    sum: *mut u64,
    selftest: *const Selftest,
    amount: u64,
    fail_mode: i32,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let Selftest(handle) = unsafe { handle::borrow(selftest) }?;
        let value = handle.call(|total| {
            fail(fail_mode)?;
            let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
            *total = total.checked_add(amount).ok_or_else(|| Failure::input("sum is too large"))?;
            Ok(*total)
        })?;
        // SAFETY: as the caller promises.
        unsafe { buffers::put(sum, value) }
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Frees a sum; null is ignored.
///
/// # Safety
///
/// `selftest` came from `amalgam_selftest_new`, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_selftest_free(selftest: *mut Selftest) {
    // SAFETY: as the caller promises.
    unsafe { handle::free(selftest) }
}

/// Writes the `count` strings of `parts` one after the other to `out`, and their length to
/// `written`; a buffer that is too short is an `INPUT` failure and stays as it was.
///
/// # Safety
///
/// `error` as everywhere; `out`, `written`, `parts` and the bytes of each part are lent for
/// the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_selftest_join(
    out: *mut u8,
    out_len: usize,
    written: *mut usize,
    parts: *const Bytes,
    count: usize,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let (out, parts) =
            unsafe { (buffers::buffer(out, out_len)?, buffers::list(parts, count)?) };
        let joined = parts.concat();
        let Some(start) = out.get_mut(..joined.len()) else {
            let found = format!("buffer of {out_len} bytes is too short for {}", joined.len());
            return Err(Failure::input(found));
        };
        start.copy_from_slice(&joined);
        // SAFETY: as the caller promises.
        unsafe { buffers::put(written, joined.len()) }
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Fails with the status that `mode` names; 0 does not fail.
fn fail(mode: i32) -> Result<(), Failure> {
    const BUG: i32 = Status::Bug as i32;
    let file = Path::new("data/no-such-file.i");
    Err(match mode {
        0 => return Ok(()),
        1 => Failure::input("selftest was asked for an input failure").hint("ask for another"),
        2 => Failure::corrupt("revision 12 is cut").at(file).hint("see 'hg verify'"),
        3 => Failure::unsupported("selftest does not do this"),
        4 => Failure::io(file, &File::open(file).err().unwrap_or_else(|| file_is_there(file))),
        BUG => panic!("selftest was asked to panic"),
        6 => Failure::cancelled(),
        unknown => Failure::input(format!("unknown fail mode {unknown}")),
    })
}

/// The error of a file that should not be there and is.
fn file_is_there(file: &Path) -> std::io::Error {
    std::io::Error::other(format!("{} exists", file.display()))
}
