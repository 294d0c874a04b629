//! The seam between every conversion and the rules of one dialect: commits, and what is made beside
//! them.
//!
//! A dialect is a [`Dialect`], chosen at compile time. A [`Context`] is what it needs of a run. Its
//! [`CommitForm`] writes commits, and its [`Aside`] makes the objects beside commits and their
//! trees. A dialect may have no aside, and then has no metadata.

pub(crate) mod cinnabar;

use gitpack::Oid;
use parallel::{MemoryPlan, trim};
use revlog::{Node, Revlog};

use crate::error::Result;
use crate::map::oidmap::OidMap;
use crate::map::segment::Pair;
use crate::objects::commits::CommitForm;
use crate::objects::history::Sources;
use crate::objects::pipeline::Aside;
use crate::objects::trees::TreeForm;
use crate::out::publish::MetadataPublication;
use crate::read::files::FileTable;
use crate::read::manifests::ManifestPlan;
use crate::read::names::Names;
use crate::request::Request;

/// What does not change during a run.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub request: &'a Request<'a>,
    pub changelog: &'a Revlog,
    pub manifest: &'a Revlog,
    pub map: &'a OidMap,
    pub memory_plan: &'a MemoryPlan,
}

/// So many changesets leave over what is worth giving back: 13 MB of indexes alone.
const MANY_CHANGESETS: usize = 100_000;

impl Context<'_> {
    /// Gives back what is left over after so many changesets were dealt with, if they are many: pages
    /// of indexes, and what the allocator keeps.
    pub fn tidy(&self, changesets: usize) {
        if changesets >= MANY_CHANGESETS {
            self.changelog.index().let_go();
            self.manifest.index().let_go();
            trim();
        }
    }

    /// Whether each entry that was used of the indexes is sound.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Store`] that names one which is not.
    pub fn check_used(&self) -> Result<()> {
        self.changelog.check_used()?;
        Ok(self.manifest.check_used()?)
    }
}

/// What the objects of a run became, for the metadata.
pub(crate) struct Outcome<'a> {
    pub plan: &'a ManifestPlan,
    /// Commits of the changesets, in the order of the changelog.
    pub commits: &'a [Oid],
    /// What is added to the map, by table, each ascending.
    pub new: &'a [Vec<Pair>; 3],
    /// The objects beside the commits, in their order.
    pub notes: Vec<Oid>,
    /// The metadata of file revisions.
    pub files: Vec<Pair>,
}

/// The rules of one dialect, for one run.
pub(crate) trait Dialect: Sized + Send {
    /// How commits are written, and what is done about an id that is taken.
    type Form: CommitForm + Send;
    /// Makes what there is beside commits and their trees.
    type Aside<'a>: Aside<Converted = Self::Converted>
    where
        Self: 'a;
    /// What is known at the end of that.
    type Converted: Send;

    /// Whether there is anything beside commits and their trees: the metadata of file revisions, too.
    fn keeps_metadata(&self) -> bool;

    /// The form of the trees beside those of commits, if there are any.
    fn aside_trees(&self) -> Option<&'static TreeForm>;

    /// A commit with the aside's root tree of a manifest that an earlier run converted, if there is one.
    fn aside_commit(&self, manifest: &Node) -> Option<Oid>;

    /// What makes the objects of the run.
    fn begin<'a>(
        &'a self,
        sources: &'a Sources<'a>,
        names: &'a Names,
        files: &'a FileTable,
    ) -> (Self::Form, Option<Self::Aside<'a>>);

    /// Writes the metadata, as far as it is new, if there is any. Nothing of it is visible yet.
    ///
    /// # Errors
    ///
    /// [`crate::Error`] if a file cannot be written.
    fn end(
        self,
        form: Self::Form,
        converted: Option<Self::Converted>,
        outcome: Outcome<'_>,
    ) -> Result<Option<MetadataPublication>>;
}
