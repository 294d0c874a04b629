//! Two things at once, if there are threads for that.

use std::panic::resume_unwind;

use crate::ordered::Width;

/// Does both: `first` in a thread of its own, or before `second` if there is one thread.
pub(crate) fn both<A: Send, B>(
    width: Width,
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B,
) -> (A, B) {
    if width.threads <= 1 {
        let first = first();
        return (first, second());
    }
    std::thread::scope(|scope| {
        let first = scope.spawn(first);
        let second = second();
        (first.join().unwrap_or_else(|panic| resume_unwind(panic)), second)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_done_whatever_the_threads() {
        for threads in [1, 2] {
            let width = Width { threads, window_bytes: 0 };
            assert_eq!(both(width, || "first", || "second"), ("first", "second"));
        }
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let width = Width { threads: 2, window_bytes: 0 };
        let outcome = std::panic::catch_unwind(|| both(width, || panic!("first"), || "second"));
        assert!(outcome.is_err());
    }
}
