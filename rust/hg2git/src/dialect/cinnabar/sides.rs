//! What batches of a history become: objects of git, those of git-cinnabar, and the notes between.
//!
//! The two sides build on what came before, each on its own: so one job may be at the side of git
//! while another is at that of git-cinnabar. Notes need their commits only.

use gitpack::Oid;
use revlog::Revlog;
use workshop::Turns;

use crate::dialect::cinnabar::commits::{self, Commits};
use crate::dialect::cinnabar::manifestcommits::{self, Manifests};
use crate::dialect::cinnabar::note::notes_of;
use crate::error::Result;
use crate::objects::collisions::CollisionCheck;
use crate::objects::history::Batch;
use crate::objects::object::Object;

/// Makes objects of batches, on many threads.
pub(crate) struct Sides<'a> {
    changelog: &'a Revlog,
    collisions: &'a CollisionCheck,
    commits: Turns<Commits<'a>>,
    manifests: Turns<Manifests<'a>>,
}

/// What a batch became.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    /// Bases before what builds on them.
    pub objects: Vec<Object>,
    /// The notes of the changesets, in order.
    pub notes: Vec<Oid>,
}

impl<'a> Sides<'a> {
    /// Both sides, before the first batch.
    pub const fn new(
        changelog: &'a Revlog,
        collisions: &'a CollisionCheck,
        commits: Commits<'a>,
        manifests: Manifests<'a>,
    ) -> Self {
        Self {
            changelog,
            collisions,
            commits: Turns::new(commits),
            manifests: Turns::new(manifests),
        }
    }

    /// What became of a batch; nothing if one before it failed.
    ///
    /// # Errors
    ///
    /// As [`Commits::convert`], [`Manifests::convert`] and [`notes_of`].
    pub fn convert(&self, batch: Batch) -> Result<Objects> {
        let git = self.commits.take(batch.number, |commits| commits.convert(&batch));
        if matches!(git, Ok(None)) {
            return Ok(Objects::default());
        }
        // also if the other failed: batches that are past that wait for it
        let of_manifests = self.manifests.take(batch.number, |side| side.convert(&batch));
        let (Some((mut objects, changesets)), Some(mut of_manifests)) = (git?, of_manifests?)
        else {
            return Ok(Objects::default());
        };
        drop(batch);
        let mut notes = notes_of(self.changelog, &changesets, &objects, self.collisions)?;
        let oids = notes.iter().map(|note| note.oid).collect();
        objects.reserve_exact(of_manifests.len() + notes.len());
        objects.append(&mut of_manifests);
        objects.append(&mut notes);
        Ok(Objects { objects, notes: oids })
    }

    /// What all became.
    pub fn into_converted(self) -> (commits::Converted, manifestcommits::Converted) {
        let (commits, manifests) = (self.commits.into_inner(), self.manifests.into_inner());
        (commits.into_converted(), manifests.into_converted())
    }
}
