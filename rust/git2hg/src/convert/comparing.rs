//! The memory of a conversion: the trees of a window of commits are compared within it, and what is kept of
//! each file revision has a bound.

use std::io::{Read, Write};

use crate::convert::changes::{TreeComparison, compare};
use crate::convert::window::{LEAST_COMMITS, WindowCommit};
use crate::convert::{ConversionStage, Converter};
use crate::error::{Error, Result};

/// A commit may change so many files that they take this many times the memory of a conversion, and so may
/// all commits together. So millions of them are no obstacle, but a few trees that name billions are.
const MOST_OF_MEMORY: usize = 4;
/// Windows of more commits than the first one may take this part of the memory: most of what they have waits
/// for long.
const PART_OF_LARGE: usize = 2;
/// What comparisons may take however little memory there is.
const LEAST_BYTES: usize = 1 << 20;

impl<W: Write, R: Read> Converter<'_, W, R> {
    /// Compares the trees of a window; answers false if it has more commits than that can be done for
    /// at once.
    pub(super) fn compare(
        &mut self,
        window: &[WindowCommit],
        comparisons: &mut [TreeComparison],
    ) -> Result<bool> {
        let (watch, made) = (self.watch, self.made.len() as u64);
        let least = self.memory_bytes.max(LEAST_BYTES);
        let most = match window.len() {
            1 => least * MOST_OF_MEMORY,
            2..=LEAST_COMMITS => least,
            _ => least / PART_OF_LARGE,
        };
        let is_done = compare(&mut self.trees, comparisons, most, || {
            if watch(ConversionStage::Convert, made) { Err(Error::Cancelled) } else { Ok(()) }
        })?;
        match window {
            [commit] if !is_done => Err(Error::TooManyFiles(commit.oid)),
            _ => Ok(is_done),
        }
    }

    /// An error if there are too many file revisions after `commit`.
    pub(super) fn check_revisions(&self, commit: &WindowCommit) -> Result<()> {
        let most = self.memory_bytes.max(LEAST_BYTES) * MOST_OF_MEMORY;
        if self.files.bytes() > most { Err(Error::TooManyRevisions(commit.oid)) } else { Ok(()) }
    }
}
