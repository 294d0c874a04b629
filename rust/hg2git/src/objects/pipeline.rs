//! The two sides of a batch: commits with their trees, and metadata beside them.
//!
//! Each side builds on its own earlier results. So one job may be on one side while another job is
//! on the other.

use dialect::Dialect;
use gitpack::Oid;
use parallel::Sequencer;

use crate::error::Result;
use crate::objects::commits::{Commits, Committed, ConvertedChangesets};
use crate::objects::history::Batch;
use crate::objects::object::Object;

/// Writer of metadata.
pub(crate) trait Aside: Sync {
    /// The metadata objects of a batch; `None` if an earlier batch failed. Batches come in order,
    /// on any thread. A waiting batch must get its turn.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Store`] with the damaged revision.
    fn of_batch(&self, batch: &Batch) -> Result<Option<Vec<Object>>>;

    /// The notes of these changesets, whose commits are among `objects`.
    ///
    /// # Errors
    ///
    /// As [`Self::of_batch`].
    fn of_commits(&self, changesets: &[Committed], objects: &[Object]) -> Result<Vec<Object>>;

    /// Commits of the plan's manifests, in its order.
    fn into_commits(self) -> Vec<Oid>;
}

/// The conversion of batches to objects, on many threads.
pub(crate) struct Pipeline<'a, D, A> {
    commits: Sequencer<Commits<'a, D>>,
    aside: Option<A>,
}

/// Results of a batch.
#[derive(Debug, Default)]
pub(crate) struct ConvertedBatch {
    /// Number of its changesets.
    pub changesets: usize,
    /// Objects, bases before their deltas.
    pub objects: Vec<Object>,
    /// Notes of the commits, in order; empty without metadata.
    pub notes: Vec<Oid>,
}

impl<'a, D: Dialect, A: Aside> Pipeline<'a, D, A> {
    /// A pipeline before its first batch.
    pub const fn new(commits: Commits<'a, D>, aside: Option<A>) -> Self {
        Self { commits: Sequencer::new(commits), aside }
    }

    /// Converts a batch. The result is empty if an earlier batch failed.
    ///
    /// # Errors
    ///
    /// As [`Commits::convert`], and those of [`Aside`].
    pub fn convert(&self, batch: Batch) -> Result<ConvertedBatch> {
        let git = self.commits.take(batch.number, |commits| commits.convert(&batch));
        if matches!(git, Ok(None)) {
            return Ok(ConvertedBatch::default());
        }
        // also after a failure of the other side: later batches wait for this turn
        let of_batch = self.aside.as_ref().map(|aside| aside.of_batch(&batch));
        let Some((mut objects, committed)) = git? else { return Ok(ConvertedBatch::default()) };
        let changesets = batch.changesets.len();
        let (Some(aside), Some(of_batch)) = (&self.aside, of_batch) else {
            return Ok(ConvertedBatch { changesets, objects, notes: Vec::new() });
        };
        let Some(mut of_batch) = of_batch? else { return Ok(ConvertedBatch::default()) };
        drop(batch);
        let mut of_commits = aside.of_commits(&committed, &objects)?;
        let notes = of_commits.iter().map(|note| note.oid).collect();
        objects.reserve_exact(of_batch.len() + of_commits.len());
        objects.append(&mut of_batch);
        objects.append(&mut of_commits);
        Ok(ConvertedBatch { changesets, objects, notes })
    }

    /// Results of all batches, and the commits of manifests.
    pub fn into_converted(self) -> (ConvertedChangesets, Option<Vec<Oid>>) {
        let converted = self.commits.into_inner().into_converted();
        (converted, self.aside.map(Aside::into_commits))
    }
}
