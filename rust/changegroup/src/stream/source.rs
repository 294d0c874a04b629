//! What all threads of a changegroup read, and how they share work.

use std::sync::{Mutex, PoisonError};

use parallel::{Width, ordered};
use revlog::{Revlog, Scratch, Store};

use super::revisions::JOB_BYTES;
use crate::error::Result;
use crate::group::Writer;
use crate::outgoing::GroupVersion;
use crate::revset::RevSet;

/// Bytes of finished jobs that may wait for an earlier one.
const WINDOW_BYTES: u64 = 32 << 20;
/// Buffers that a thread keeps, in bytes.
const POOL_BYTES: usize = 4 << 20;

/// What all threads read.
#[derive(Debug)]
pub(super) struct Source {
    /// All indexes are read from files.
    pub store: Store,
    /// The same with the indexes that are mapped already, which may be older than the files.
    pub mapped: Store,
    pub version: GroupVersion,
    pub changelog: Revlog,
    pub changesets: RevSet,
    pub common: RevSet,
    pub scratches: Mutex<Vec<Scratch>>,
}

/// The decompressors and buffers of a thread, for as long as it works.
struct Lent<'a>(Option<Scratch>, &'a Mutex<Vec<Scratch>>);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut kept = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(self.0.take());
    }
}

impl Source {
    /// A writer for changelog or manifests; `file_writer` is one for a filelog.
    pub const fn writer<'a>(&'a self, revlog: &'a Revlog) -> Writer<'a> {
        Writer {
            revlog,
            changelog: self.changelog.index(),
            version: self.version,
            keeps_null_parent: false,
        }
    }

    pub const fn file_writer<'a>(&'a self, revlog: &'a Revlog) -> Writer<'a> {
        Writer { keeps_null_parent: true, ..self.writer(revlog) }
    }

    /// Does the jobs on some threads, or on this one if there is one only; results come in order.
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
