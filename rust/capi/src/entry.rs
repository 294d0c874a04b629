//! The way into the core: every call is [`entry`]'s closure, so no panic crosses to C.
//!
//! This is a function and not a macro because cbindgen reads our source and would not see
//! signatures that a macro makes.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use crate::failure::{ErrorInfo, Failure, Status};

thread_local! {
    /// Whether this thread is inside a call.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// Where this thread last panicked inside a call.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Calls under way in the process.
static CALLS: AtomicUsize = AtomicUsize::new(0);
/// Where a thread that a call started panicked first: the cause of what the caller sees.
static WORKER_PLACE: Mutex<Option<String>> = Mutex::new(None);
static HOOK: Once = Once::new();

/// Runs `body`, writes its failure to `error`, and answers the status that C gets.
///
/// A panic in `body`, or in a thread whose panic `body` passes on, becomes
/// [`Status::Bug`] with the place of the panic. Nothing is printed.
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

/// Runs `body` where no failure can be told, such as in a `_free`; a panic ends here.
pub fn entry_silent(body: impl FnOnce()) {
    let _told_nobody = caught(|| {
        body();
        Ok(())
    });
}

/// Runs `body`, with a panic made into a failure.
fn caught<R>(body: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
    HOOK.call_once(install_hook);
    let _call = Call::begin();
    // What a panic left half done stays behind a handle, and handles poison themselves.
    panic::catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let own = PLACE.take();
        let place = lock(&WORKER_PLACE).take().or(own);
        let place = place.as_deref().unwrap_or("an unknown place");
        Err(Failure::bug(format!("panic at {place}: {}", text_of(payload.as_ref()))))
    })
}

/// Marks the thread as inside a call for as long as it lives.
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
            lock(&WORKER_PLACE).take(); // of a panic that no call passed on
        }
    }
}

/// Remembers where our panics are; all others go to the hook that was there before.
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

/// The message of a panic, for those that have one.
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
