//! The two sides of a batch: commits with their trees, and what a dialect makes beside them.
//!
//! Each side builds on its own earlier results. So one job may be at one side while another job is
//! at the other.

use gitpack::Oid;
use parallel::Sequencer;

use crate::error::Result;
use crate::objects::commits::{CommitForm, Commits, Committed, ConvertedChangesets};
use crate::objects::history::Batch;
use crate::objects::object::Object;

/// Makes what a dialect has beside commits and their trees.
pub(crate) trait Aside: Sync {
    /// What is known of it at the end.
    type Converted;

    /// The objects of a batch; `None` if one before it failed. Batches come in their order, but on any
    /// thread: one that waits for its turn must get it.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Store`] that names what it cannot be made of.
    fn of_batch(&self, batch: &Batch) -> Result<Option<Vec<Object>>>;

    /// The object of each of these changesets, whose commits are among `objects`.
    ///
    /// # Errors
    ///
    /// As [`Self::of_batch`].
    fn of_commits(&self, changesets: &[Committed], objects: &[Object]) -> Result<Vec<Object>>;

    /// What all became.
    fn into_converted(self) -> Self::Converted;
}

/// Makes objects of batches, on many threads.
pub(crate) struct Pipeline<'a, F, A> {
    commits: Sequencer<Commits<'a, F>>,
    aside: Option<A>,
}

/// What a batch became.
#[derive(Debug, Default)]
pub(crate) struct ConvertedBatch {
    /// How many changesets were in it.
    pub changesets: usize,
    /// Bases before what builds on them.
    pub objects: Vec<Object>,
    /// The objects beside the commits, in order; none if the dialect has none.
    pub notes: Vec<Oid>,
}

impl<'a, F: CommitForm, A: Aside> Pipeline<'a, F, A> {
    /// Both sides, before the first batch.
    pub const fn new(commits: Commits<'a, F>, aside: Option<A>) -> Self {
        Self { commits: Sequencer::new(commits), aside }
    }

    /// What became of a batch; nothing if one before it failed.
    ///
    /// # Errors
    ///
    /// As [`Commits::convert`], and those of the dialect.
    pub fn convert(&self, batch: Batch) -> Result<ConvertedBatch> {
        let git = self.commits.take(batch.number, |commits| commits.convert(&batch));
        if matches!(git, Ok(None)) {
            return Ok(ConvertedBatch::default());
        }
        // also if the other failed: batches that are past that wait for it
        let of_batch = self.aside.as_ref().map(|aside| aside.of_batch(&batch));
        let Some((mut objects, committed)) = git? else { return Ok(ConvertedBatch::default()) };
        let changesets = committed.len();
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

    /// What all became.
    pub fn into_converted(self) -> (ConvertedChangesets, F, Option<A::Converted>) {
        let (converted, form) = self.commits.into_inner().into_converted();
        (converted, form, self.aside.map(Aside::into_converted))
    }
}
