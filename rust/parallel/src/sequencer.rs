//! A stage that parallel jobs pass one after the other, in the order of drawing.
//!
//! A job on any thread may need the result of the jobs before it. Several such stages make a
//! pipeline: while one job is in its second stage, the next may be in its first. Does not know the
//! work.

use std::sync::{Condvar, Mutex, PoisonError};

/// A stage with the state that one job leaves for the next.
#[derive(Debug)]
pub struct Sequencer<S> {
    turn: Mutex<Turn<S>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Turn<S> {
    /// Number of the job whose turn it is; `None` after a failure.
    next: Option<u64>,
    state: S,
}

impl<S> Sequencer<S> {
    /// Creates a stage. Job 0 has the first turn.
    pub const fn new(state: S) -> Self {
        Self { turn: Mutex::new(Turn { next: Some(0), state }), changed: Condvar::new() }
    }

    /// Waits until all lower numbers had their turn, and does `work`.
    ///
    /// `None` if an earlier job failed or panicked: no later job has a turn.
    ///
    /// # Errors
    ///
    /// The error of `work`.
    pub fn take<R, E>(
        &self,
        number: u64,
        work: impl FnOnce(&mut S) -> Result<R, E>,
    ) -> Result<Option<R>, E> {
        let _wakes = Wakes(&self.changed); // dropped after the lock, also by a panic
        let Ok(turn) = self.turn.lock() else { return Ok(None) };
        let is_waiting = |turn: &mut Turn<S>| turn.next.is_some_and(|next| next != number);
        let Ok(mut turn) = self.changed.wait_while(turn, is_waiting) else { return Ok(None) };
        if turn.next.is_none() {
            return Ok(None);
        }
        let done = work(&mut turn.state);
        turn.next = done.is_ok().then_some(number + 1);
        done.map(Some)
    }

    /// Returns the state after the last turn.
    pub fn into_inner(self) -> S {
        self.turn.into_inner().unwrap_or_else(PoisonError::into_inner).state
    }
}

/// A guard that wakes all waiting jobs when it is dropped.
struct Wakes<'a>(&'a Condvar);

impl Drop for Wakes<'_> {
    fn drop(&mut self) {
        self.0.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Passes the numbers from 0 to 99 through a sequencer on four threads.
    ///
    /// Returns the numbers in the order of their turns, and the outcome of each turn. A turn fails
    /// if `work` does.
    fn in_threads(work: impl Fn(u64) -> Result<(), u64> + Sync) -> (Vec<u64>, Vec<Outcome>) {
        let turns = Sequencer::new(Vec::new());
        let drawn = AtomicU64::new(0);
        let worker = || {
            let mut outcomes = Vec::new();
            loop {
                let number = drawn.fetch_add(1, Ordering::Relaxed);
                if number >= 100 {
                    return outcomes;
                }
                std::thread::sleep(std::time::Duration::from_micros((number * 7919) % 300));
                outcomes.push(turns.take(number, |seen: &mut Vec<u64>| {
                    work(number)?;
                    seen.push(number);
                    Ok(())
                }));
            }
        };
        let outcomes = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(worker)).collect();
            let joined = threads.into_iter().map(|thread| thread.join().unwrap_or_default());
            joined.flatten().collect()
        });
        (turns.into_inner(), outcomes)
    }

    type Outcome = Result<Option<()>, u64>;

    #[test]
    fn turns_are_in_order() {
        let (seen, outcomes) = in_threads(|_| Ok(()));
        assert!(seen.into_iter().eq(0..100));
        assert_eq!(outcomes, [Ok(Some(())); 100]);
    }

    #[test]
    fn after_a_failure_nobody_has_a_turn() {
        let (seen, outcomes) = in_threads(|number| if number == 20 { Err(number) } else { Ok(()) });
        assert!(seen.into_iter().eq(0..20));
        let count = |outcome: Outcome| outcomes.iter().filter(|other| **other == outcome).count();
        assert_eq!((count(Err(20)), count(Ok(None))), (1, 79));
    }

    #[test]
    fn after_a_panic_nobody_waits() {
        let (seen, _) = in_threads(|number| if number == 20 { panic!("twenty") } else { Ok(()) });
        assert!(seen.into_iter().eq(0..20));
    }
}
