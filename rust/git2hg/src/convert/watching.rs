//! Telling the caller how far a conversion is, from both of its threads.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::convert::{ConversionStage, ConversionWatch};
use crate::error::{Error, Result};

/// The caller, and the commits that are converted.
pub(crate) struct Watching<'a> {
    watch: ConversionWatch<'a>,
    done: AtomicU64,
}

impl<'a> Watching<'a> {
    /// No commits yet.
    pub fn new(watch: ConversionWatch<'a>) -> Self {
        Self { watch, done: AtomicU64::new(0) }
    }

    /// Notes that one more is converted.
    pub fn advance(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Tells how many are converted.
    ///
    /// # Errors
    ///
    /// [`Error::Cancelled`] if the conversion has to stop.
    pub fn tick(&self) -> Result<()> {
        let done = self.done.load(Ordering::Relaxed);
        if (self.watch)(ConversionStage::Convert, done) { Err(Error::Cancelled) } else { Ok(()) }
    }
}
