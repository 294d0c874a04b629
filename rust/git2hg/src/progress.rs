//! Progress of a conversion, reported from both of its threads.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// Stage of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ConversionStage {
    /// Converting commits.
    Convert = 0,
    /// Writing the changegroup.
    Write = 1,
    /// Verifying the round trip.
    Verify = 2,
    /// Writing revlogs.
    Store = 3,
}

/// Receives the stage and the number of commits done, on any thread. Returns true to stop the
/// conversion.
pub type ConversionWatch<'a> = &'a (dyn Fn(ConversionStage, u64) -> bool + Sync);

/// Counter of converted commits.
pub(crate) struct ConversionProgress<'a> {
    watch: ConversionWatch<'a>,
    done: AtomicU64,
}

impl<'a> ConversionProgress<'a> {
    /// Starts at zero.
    pub fn new(watch: ConversionWatch<'a>) -> Self {
        Self { watch, done: AtomicU64::new(0) }
    }

    /// Counts one more converted commit.
    pub fn advance(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Reports the number of converted commits.
    ///
    /// # Errors
    ///
    /// [`Error::Cancelled`] if the conversion has to stop.
    pub fn tick(&self) -> Result<()> {
        let done = self.done.load(Ordering::Relaxed);
        if (self.watch)(ConversionStage::Convert, done) { Err(Error::Cancelled) } else { Ok(()) }
    }
}
