//! Two closures side by side, in two threads.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;

use crate::ordered::Width;

/// Runs both closures, `first` in a thread of its own.
///
/// With one thread, or if the system starts no other, `first` runs before `second`.
///
/// # Panics
///
/// If one of the closures panics.
pub fn join<A: Send, B>(
    width: Width,
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B,
) -> (A, B) {
    // a thread that cannot be started drops its closure, so `first` stays outside
    let first = Mutex::new(Some(first));
    let first = || {
        let first = first.lock().unwrap_or_else(PoisonError::into_inner).take();
        first.expect("it is done once")()
    };
    std::thread::scope(|scope| {
        let start = || Builder::new().spawn_scoped(scope, first).ok();
        if let Some(first) = (width.threads > 1).then(start).flatten() {
            let second = second();
            return (first.join().unwrap_or_else(|panic| resume_unwind(panic)), second);
        }
        let first = first();
        (first, second())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_done_whatever_the_threads() {
        for threads in [1, 2] {
            let width = Width { threads, window_bytes: 0 };
            assert_eq!(join(width, || "first", || "second"), ("first", "second"));
        }
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let width = Width { threads: 2, window_bytes: 0 };
        let outcome = std::panic::catch_unwind(|| join(width, || panic!("first"), || "second"));
        assert!(outcome.is_err());
    }
}
