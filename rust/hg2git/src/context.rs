//! Constants of a run, for all its phases.

use parallel::{MemoryPlan, trim};
use revlog::Revlog;

use crate::error::Result;
use crate::map::oidmap::OidMap;
use crate::request::Request;

/// Constants of a run.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub request: &'a Request<'a>,
    pub changelog: &'a Revlog,
    pub manifest: &'a Revlog,
    pub map: &'a OidMap,
    pub memory_plan: &'a MemoryPlan,
}

/// Changesets after which memory is released: 13 MB of indexes alone.
const MANY_CHANGESETS: usize = 100_000;

impl Context<'_> {
    /// Releases memory after many changesets: pages of indexes, and free memory of the allocator.
    pub fn tidy(&self, changesets: usize) {
        if changesets >= MANY_CHANGESETS {
            self.changelog.index().let_go();
            self.manifest.index().let_go();
            trim();
        }
    }

    /// Checks each index entry that was used.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Store`] with the first bad entry.
    pub fn check_used(&self) -> Result<()> {
        self.changelog.check_used()?;
        Ok(self.manifest.check_used()?)
    }
}
