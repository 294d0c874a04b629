//! Rules for commits of changesets, and for changesets of commits.
//!
//! A [`Dialect`] answers four questions: which commit a changeset has, which files its tree has, which
//! changeset a commit has, and which metadata is beside commits. Knows no store and no pack: `hg2git` and
//! `git2hg` read and write, and are generic over the dialect. [`cinnabar`] is git-cinnabar's.

pub mod cinnabar;
mod reason;

use gitpack::Oid;
use gitpack::tree::Mode;
use revlog::{Changeset, Node};

pub use cinnabar::Cinnabar;
pub use reason::Reason;

/// Size limit of a commit object that becomes a changeset, which is in memory several times.
pub const MOST_COMMIT_BYTES: usize = 4 << 20;
/// Parents that a changeset can have.
pub const MOST_PARENTS: usize = 2;

/// Rules of one dialect. A value has the state of one run.
pub trait Dialect: Default + Send + Sync + 'static {
    /// Name in configuration and file names.
    const NAME: &'static str;
    /// Metadata beside commits and their trees.
    const METADATA: Option<MetadataKind>;
    /// Whether each changeset has a commit of its own.
    const HAS_UNIQUE_COMMITS: bool = true;
    /// Whether commits depend on copies of files.
    const READS_COPIES: bool = false;
    /// Whether trees have other files than manifests, see [`Self::edit_tree`]. Not together with
    /// [`Self::METADATA`], whose trees are those of manifests.
    const EDITS_TREES: bool = false;
    /// Copies that a changeset of a commit records.
    const COPIES: CopyRule = CopyRule::Nothing;

    /// Replaces `out` by the content of the changeset's commit; `false` if it has no commit. Changesets
    /// come in the order of the changelog.
    ///
    /// # Errors
    ///
    /// That of `history`.
    fn write_commit(
        &mut self,
        input: &CommitInput<'_>,
        history: &dyn ChangesetHistory,
        out: &mut Vec<u8>,
    ) -> Result<bool, Unreadable>;

    /// Changes the content of a commit until its id is free, and returns the id, which is taken from then
    /// on. Ids for which `is_taken` answers `true` are not free.
    fn settle(
        &mut self,
        content: &mut Vec<u8>,
        mut oid_of: impl FnMut(&[u8]) -> Oid,
        _is_taken: impl FnMut(Oid) -> bool,
    ) -> Oid {
        oid_of(content)
    }

    /// Edits of the tree of a manifest, from the edited tree of the manifest that `changes` count from.
    /// `before` has the files of that manifest, `None` if the changes count from nothing.
    ///
    /// # Errors
    ///
    /// That of `files` or `before`.
    fn edit_tree(
        &mut self,
        _changes: &[FileChange<'_>],
        _before: Option<&dyn Files>,
        _files: &dyn Files,
    ) -> Result<Vec<TreeEdit>, Unreadable> {
        Ok(Vec::new())
    }

    /// Verdict on a commit object.
    fn judge(content: &[u8]) -> JudgedCommit<'_>;

    /// Text of the changeset of a commit that [`Self::judge`] accepts; `None` for other contents.
    fn changeset(content: &[u8], made: &ChangesetInput<'_>) -> Option<Vec<u8>>;
}

/// Kinds of metadata beside commits, for readers of that metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataKind {
    /// That of git-cinnabar: notes, trees and commits of manifests, and a commit that names all.
    Cinnabar,
}

/// Copies that a changeset of a commit records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyRule {
    /// None.
    Nothing,
    /// Added files with the content of a file of the first parent.
    Identical,
}

/// Changeset whose commit is wanted, with the ids that the commit may name.
#[derive(Debug)]
pub struct CommitInput<'a> {
    /// Node of the changeset.
    pub node: Node,
    /// The changeset.
    pub changeset: &'a Changeset<'a>,
    /// Tree of its files.
    pub tree: Oid,
    /// Parents, in stored order.
    pub parents: &'a [ParentCommit],
}

/// Parent of a changeset, with its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParentCommit {
    /// Its node.
    pub node: Node,
    /// Its commit, if it has one.
    pub commit: Option<Oid>,
}

/// History of a changeset, read on demand.
pub trait ChangesetHistory {
    /// Copies that the changeset's file revisions record, in the order of its files.
    ///
    /// # Errors
    ///
    /// [`Unreadable`].
    fn copies(&self) -> Result<Vec<CopySource>, Unreadable>;

    /// Text and parents of an ancestor.
    ///
    /// # Errors
    ///
    /// [`Unreadable`].
    fn ancestor(&self, node: &Node) -> Result<(Vec<u8>, Vec<ParentCommit>), Unreadable>;
}

/// File with its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopySource {
    /// Path of the file.
    pub path: Vec<u8>,
    /// Path of the source.
    pub source: Vec<u8>,
}

/// The history cannot be read. Its reader has the cause.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the history cannot be read")]
pub struct Unreadable;

/// Changed file of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileChange<'a> {
    /// Path of the file.
    pub path: &'a [u8],
    /// Whether the manifest has it.
    pub is_there: bool,
}

/// Files of a manifest.
pub trait Files {
    /// Content of a file; `None` if the manifest does not have it.
    ///
    /// # Errors
    ///
    /// [`Unreadable`].
    fn content(&self, path: &[u8]) -> Result<Option<Vec<u8>>, Unreadable>;
}

/// Edit of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEdit {
    /// Path of the entry.
    pub path: Vec<u8>,
    /// The entry; `None` removes it.
    pub entry: Option<EditedEntry>,
}

/// Entry of a tree that is no file of the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditedEntry {
    /// A regular file with this content.
    Blob(Vec<u8>),
    /// A commit of another repository.
    Gitlink(Oid),
}

impl EditedEntry {
    /// Its mode.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        match self {
            Self::Blob(_) => Mode::FILE,
            Self::Gitlink(_) => Mode::GITLINK,
        }
    }
}

/// Parts of a changeset that its commit does not tell.
#[derive(Clone, Copy, Debug)]
pub struct ChangesetInput<'a> {
    /// Node of the manifest.
    pub manifest: Node,
    /// Value of the extra `branch`, as stored; `None` for the default branch.
    pub branch: Option<&'a [u8]>,
    /// Changed files, sorted.
    pub files: &'a [&'a [u8]],
}

/// Verdict on a commit object, with its tree and parents.
#[derive(Debug, Default)]
pub struct JudgedCommit<'a> {
    /// Tree; `None` if the commit does not name one.
    pub tree: Option<Oid>,
    /// Parents, in order.
    pub parents: Vec<Oid>,
    /// Reason of the commit object itself, with the bytes that are the reason.
    pub refused: Option<(Reason, &'a [u8])>,
}
