//! Progress of a run, reported to the caller at intervals.
//!
//! Owns the interval. The phases count the work done and the total.

use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Shortest time between two calls of the progress callback.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// A phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Phase {
    /// Reading changesets.
    Changesets = 0,
    /// Reading manifests.
    Manifests = 1,
    /// Converting file revisions.
    Files = 2,
    /// Making trees and commits.
    Commits = 3,
}

/// Callback with the phase, the work done and the total. Returns whether to stop.
pub type ProgressFn<'a> = dyn FnMut(Phase, u64, u64) -> bool + 'a;

/// A limit on the frequency of progress reports.
pub(crate) struct ThrottledProgress<'a, 'b> {
    progress: &'a mut ProgressFn<'b>,
    last: Option<Instant>,
}

impl<'a, 'b> ThrottledProgress<'a, 'b> {
    pub fn new(progress: &'a mut ProgressFn<'b>) -> Self {
        Self { progress, last: None }
    }

    /// Reports the progress, unless the last report was just now.
    ///
    /// # Errors
    ///
    /// [`Error::Cancelled`] if the callback asks to stop.
    pub fn report(&mut self, phase: Phase, done: u64, total: u64) -> Result<()> {
        if self.last.is_some_and(|last| last.elapsed() < REPORT_EVERY) {
            return Ok(());
        }
        self.last = Some(Instant::now());
        if (self.progress)(phase, done, total) { Err(Error::Cancelled) } else { Ok(()) }
    }
}
