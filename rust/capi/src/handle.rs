//! Handles: opaque pointers of C to Rust values.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::entry::entry_silent;
use crate::failure::Failure;

/// Value shared by the threads of C, until a call on it panics.
///
/// The value is `Send + Sync`, because cffi releases the GIL during a call: mutable state needs a
/// lock of its own. After a panic the state is unknown, so every later call is an error.
#[derive(Debug)]
pub struct Handle<T> {
    value: T,
    poisoned: AtomicBool,
}

impl<T: Send + Sync> Handle<T> {
    /// Wraps `value`.
    pub fn new(value: T) -> Self {
        Self { value, poisoned: AtomicBool::new(false) }
    }

    /// Runs `body` on the value.
    ///
    /// # Errors
    ///
    /// The errors of `body`, or a bug if an earlier call panicked.
    pub fn call<R>(&self, body: impl FnOnce(&T) -> Result<R, Failure>) -> Result<R, Failure> {
        if self.poisoned.load(Ordering::Acquire) {
            return Err(Failure::bug("handle is unusable: an earlier call on it panicked"));
        }
        let guard = PoisonOnDrop(&self.poisoned);
        let result = body(&self.value);
        std::mem::forget(guard);
        result
    }
}

/// Guard that is dropped only by a panic.
struct PoisonOnDrop<'a>(&'a AtomicBool);

impl Drop for PoisonOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Moves `value` to C, which passes it to [`free`] once.
///
/// # Safety
///
/// `out` is null or writable.
///
/// # Errors
///
/// A bug if `out` is null.
pub unsafe fn give<T>(out: *mut *mut T, value: T) -> Result<(), Failure> {
    // SAFETY: the caller vouches for `out`.
    let out = unsafe { out.as_mut() }.ok_or_else(|| Failure::bug("null output pointer"))?;
    *out = Box::into_raw(Box::new(value));
    Ok(())
}

/// Borrows the value of `handle`.
///
/// # Safety
///
/// `handle` is null or came from [`give`], and is not freed before the call ends.
///
/// # Errors
///
/// A bug if `handle` is null.
pub unsafe fn borrow<'a, T>(handle: *const T) -> Result<&'a T, Failure> {
    // SAFETY: the caller vouches for `handle`.
    unsafe { handle.as_ref() }.ok_or_else(|| Failure::bug("no handle"))
}

/// Drops a value from [`give`]; null is ignored.
///
/// # Safety
///
/// `handle` is null or came from [`give`], and nobody uses it any more.
pub unsafe fn free<T: ?Sized>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: made by `Box::into_raw`, and the caller vouches that it is the last use.
        let value = unsafe { Box::from_raw(handle) };
        entry_silent(|| drop(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::entry_silent;
    use crate::failure::Status;

    #[test]
    fn null_is_no_handle() {
        // SAFETY: null is allowed.
        let refused = unsafe { borrow(std::ptr::null::<u32>()) }.expect_err("null");
        assert_eq!((refused.status(), refused.to_string().as_str()), (Status::Bug, "no handle"));
        // SAFETY: null is allowed.
        unsafe { free(std::ptr::null_mut::<u32>()) };
    }

    #[test]
    fn a_panic_poisons_its_handle_and_a_failure_does_not() {
        let (handle, other) = (Handle::new(7), Handle::new(8));
        assert!(handle.call(|_| Err::<(), _>(Failure::input("no"))).is_err());
        assert_eq!(handle.call(|value| Ok(*value)).expect("still usable"), 7);

        // inside a call: outside, the panic would be recorded for a call of another thread
        let mut was_called = false;
        entry_silent(|| {
            was_called = true;
            let _panics = handle.call(|_| -> Result<(), Failure> { panic!() });
        });
        assert!(was_called);
        let refused = handle.call(|value| Ok(*value)).expect_err("poisoned");
        assert_eq!(refused.status(), Status::Bug);
        assert!(refused.to_string().contains("an earlier call on it panicked"), "{refused}");
        assert_eq!(other.call(|value| Ok(*value)).expect("usable"), 8);
    }
}
