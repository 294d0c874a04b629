//! Entry of every call: panics become errors.
//!
//! [`entry`] is a function and not a macro because cbindgen reads the source and does not see
//! signatures made by a macro.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use crate::failure::{ErrorInfo, Failure, Status};

thread_local! {
    /// Whether this thread is inside a call.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// Location of this thread's last panic inside a call.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Number of running calls in the process.
static CALLS: AtomicUsize = AtomicUsize::new(0);
/// Location of the first panic in a thread started by a call: the cause of the call's own panic.
static WORKER_PLACE: Mutex<Option<String>> = Mutex::new(None);
static HOOK: Once = Once::new();

/// Runs `body`, writes its failure to `error`, and returns the status.
///
/// A panic in `body`, or in a thread that `body` joins, becomes [`Status::Bug`] with the location
/// of the panic. Nothing is printed.
///
/// # Safety
///
/// `error` is null or points to a writable [`ErrorInfo`] that nobody else uses meanwhile.
pub unsafe fn entry(error: *mut ErrorInfo, body: impl FnOnce() -> Result<(), Failure>) -> Status {
    let Err(failure) = caught(body) else { return Status::Ok };
    // SAFETY: the caller passes null or its own structure, lent for this call.
    if let Some(info) = unsafe { error.as_mut() } {
        failure.write_to(info);
    }
    failure.status()
}

/// Runs `body` in calls without an error, such as a `_free`; a panic is dropped.
pub fn entry_silent(body: impl FnOnce()) {
    let _dropped = caught(|| {
        body();
        Ok(())
    });
}

/// Runs `body`, and converts a panic to a failure.
fn caught<R>(body: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
    HOOK.call_once(install_hook);
    let _call = Call::begin();
    // unwind safe: state that a panic may have damaged is behind a handle, which is then poisoned
    panic::catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let own = PLACE.take();
        let place = lock(&WORKER_PLACE).take().or(own);
        let place = place.as_deref().unwrap_or("an unknown place");
        Err(Failure::bug(format!("panic at {place}: {}", text_of(payload.as_ref()))))
    })
}

/// Guard that marks the thread as inside a call.
struct Call {
    outer: bool,
}

impl Call {
    fn begin() -> Self {
        CALLS.fetch_add(1, Ordering::Relaxed);
        Self { outer: INSIDE.replace(true) }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        INSIDE.set(self.outer);
        if CALLS.fetch_sub(1, Ordering::Relaxed) == 1 {
            lock(&WORKER_PLACE).take(); // of a panic that no call has joined
        }
    }
}

/// Records the locations of panics in calls; other panics go to the previous hook.
fn install_hook() {
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if INSIDE.get() {
            PLACE.set(place_of(info));
        } else if CALLS.load(Ordering::Relaxed) > 0 {
            let mut first = lock(&WORKER_PLACE);
            if first.is_none() {
                *first = place_of(info);
            }
        } else {
            previous(info);
        }
    }));
}

fn place_of(info: &PanicHookInfo<'_>) -> Option<String> {
    info.location().map(ToString::to_string)
}

/// The message of a panic, if it has one.
fn text_of(payload: &(dyn Any + Send)) -> &str {
    let owned = payload.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

fn lock(place: &Mutex<Option<String>>) -> std::sync::MutexGuard<'_, Option<String>> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_bug_with_its_place() {
        let line = line!() + 1;
        let failure = caught::<()>(|| panic!("seven")).expect_err("panics");
        assert_eq!(failure.status(), Status::Bug);
        assert!(failure.to_string().ends_with(": seven"), "{failure}");
        assert!(failure.to_string().contains(&format!("entry.rs:{line}:")), "{failure}");
    }

    #[test]
    fn a_null_error_still_gives_the_status() {
        // SAFETY: null is allowed.
        let status = unsafe { entry(std::ptr::null_mut(), || Err(Failure::input("no"))) };
        assert_eq!(status, Status::Input);
    }
}
