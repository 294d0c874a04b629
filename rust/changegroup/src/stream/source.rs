//! Shared input of the threads of a changegroup, and their jobs.

use std::sync::{Mutex, PoisonError};

use parallel::{Width, ordered};
use revlog::{Revlog, Scratch, Store};

use crate::error::Result;
use crate::group::ChunkWriter;
use crate::outgoing::GroupVersion;
use crate::revset::RevSet;

/// Bytes of revisions in a job, about.
pub(super) const JOB_BYTES: u64 = 512 << 10;
/// Bytes of finished jobs that may wait for an earlier one.
const WINDOW_BYTES: u64 = 32 << 20;
/// Bytes of buffers kept by a thread.
const POOL_BYTES: usize = 4 << 20;

/// Shared input of the threads.
#[derive(Debug)]
pub(super) struct Source {
    /// Store with all indexes read from files.
    pub store: Store,
    /// The same store with mapped indexes, which may be older than the files.
    pub mapped: Store,
    pub version: GroupVersion,
    pub changelog: Revlog,
    pub changesets: RevSet,
    pub common: RevSet,
    pub scratches: Mutex<Vec<Scratch>>,
}

/// Decompressors and buffers lent to a thread.
struct Lent<'a>(Option<Scratch>, &'a Mutex<Vec<Scratch>>);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut kept = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(self.0.take());
    }
}

impl Source {
    /// Writer for changelog or manifests.
    pub const fn writer<'a>(&'a self, revlog: &'a Revlog) -> ChunkWriter<'a> {
        ChunkWriter {
            revlog,
            changelog: self.changelog.index(),
            version: self.version,
            keeps_null_parent: false,
        }
    }

    /// Writer for a filelog.
    pub const fn file_writer<'a>(&'a self, revlog: &'a Revlog) -> ChunkWriter<'a> {
        ChunkWriter { keeps_null_parent: true, ..self.writer(revlog) }
    }

    /// Runs the jobs on some threads, or on this one if a single one suffices. Results come in
    /// order.
    pub fn run<J: Send, R: Send>(
        &self,
        threads: usize,
        jobs: impl Iterator<Item = J> + Send,
        work: impl Fn(&mut Scratch, J) -> Result<R> + Sync,
        mut consume: impl FnMut(R) -> Result<()>,
        tick: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let borrow = || {
            let kept = self.scratches.lock().unwrap_or_else(PoisonError::into_inner).pop();
            Lent(Some(kept.unwrap_or_else(|| Scratch::new(POOL_BYTES))), &self.scratches)
        };
        let work = |lent: &mut Lent<'_>, job| {
            work(lent.0.get_or_insert_with(|| Scratch::new(POOL_BYTES)), job)
        };
        let mut jobs = jobs.peekable();
        let Some(first) = jobs.next() else { return Ok(()) };
        if threads == 1 || jobs.peek().is_none() {
            let mut lent = borrow();
            return std::iter::once(first).chain(jobs).try_for_each(|job| {
                let result = work(&mut lent, job)?;
                consume(result)
            });
        }
        let width = Width { threads, window_bytes: WINDOW_BYTES };
        let jobs = std::iter::once(first).chain(jobs).map(|job| Ok((JOB_BYTES, job)));
        ordered::run(width, jobs, borrow, work, consume, tick)
    }
}
