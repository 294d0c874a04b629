//! Rules for commits of changesets, and for changesets of commits.
//!
//! A [`Dialect`] decides the commit of a changeset, the files of its tree, the changeset of a
//! commit, and the metadata beside commits. Knows no store and no pack: `hg2git` and `git2hg` read
//! and write, and are generic over the dialect. [`cinnabar`] is git-cinnabar's, [`hggit`] hg-git's.

pub mod cinnabar;
pub mod exact;
pub mod hggit;
mod imported;
pub mod names;
mod reason;
pub mod subrepositories;

use std::collections::BTreeMap;

use gitpack::Oid;
use gitpack::tree::Mode;
use revlog::{Changeset, Node};

pub use cinnabar::Cinnabar;
pub use hggit::HgGit;
pub use imported::{
    Decoder, ImportRules, ImportSettings, ImportedCommit, ImportedExtras, RenameSettings,
    WriteCommit,
};
pub use reason::{Reason, RefusedFor};

/// Size limit of a commit object that becomes a changeset: several copies of it are in memory.
pub const MOST_COMMIT_BYTES: usize = 4 << 20;
/// Maximum number of parents of a changeset.
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
    /// [`Self::METADATA`], which needs trees with the files of manifests.
    const EDITS_TREES: bool = false;
    /// File that a commit may have from its first parent's commit. Not without
    /// [`Self::EDITS_TREES`].
    const INHERITED: Option<InheritedFile> = None;
    /// Copies that a changeset of a commit records.
    const COPIES: CopyRule = CopyRule::Nothing;
    /// Rules for changesets that are made as Mercurial's commit makes them. Without them, they are
    /// made as git-cinnabar does, with [`Self::changeset`].
    const IMPORT: Option<ImportRules> = None;

    /// Lets some users have other names in commits, for dialects with such a table.
    fn set_authors(&mut self, _authors: Authors) {}

    /// Replaces `out` by the content of the changeset's commit; `false` if it has no commit.
    ///
    /// Called in the order of the changelog.
    ///
    /// # Errors
    ///
    /// The errors of `history`.
    fn write_commit(
        &mut self,
        input: &CommitInput<'_>,
        history: &dyn ChangesetHistory,
        out: &mut Vec<u8>,
    ) -> Result<bool, Unreadable>;

    /// Changes the content of a commit until its id is free, and reserves and returns this id.
    ///
    /// An id is not free if an earlier call returned it or if `is_taken` returns `true` for it.
    fn settle(
        &mut self,
        content: &mut Vec<u8>,
        mut oid_of: impl FnMut(&[u8]) -> Oid,
        _is_taken: impl FnMut(Oid) -> bool,
    ) -> Oid {
        oid_of(content)
    }

    /// Whether [`Self::edit_tree`] has to know of changes of this file. Trees do not have it from
    /// manifests, but if the extra [`exact::TREE`] shows it.
    #[must_use]
    fn is_edited(_path: &[u8]) -> bool {
        false
    }

    /// Edits of the tree of a manifest, based on the edited tree of an earlier manifest.
    ///
    /// Depends on the two manifests only. `changes` has the files that differ between them, if they
    /// are [`Self::is_edited`], or at or below [`ManifestEdits::watched`]; it is not empty. `before` has the files of the
    /// earlier manifest; `None` if that is the empty one.
    ///
    /// # Errors
    ///
    /// The errors of `files` and `before`.
    fn edit_tree(
        &mut self,
        _changes: &[FileChange<'_>],
        _before: Option<&dyn Files>,
        _files: &dyn Files,
    ) -> Result<ManifestEdits, Unreadable> {
        Ok(ManifestEdits::default())
    }

    /// Verdict on a commit object.
    fn judge(content: &[u8]) -> JudgedCommit<'_>;

    /// Returns whether a changeset may stand for a commit that its extra [`exact::COMMIT`] names:
    /// the changeset of that commit has the same user, date and description.
    #[must_use]
    fn stands_for(_changeset: &Changeset<'_>, _content: &[u8]) -> bool {
        false
    }

    /// Paths of files that trees do not have from manifests, see [`Self::is_edited`].
    #[must_use]
    fn hides() -> Option<exact::tree::Hides> {
        Self::INHERITED.map(|_| Self::is_edited as exact::tree::Hides)
    }

    /// Text of the changeset of a commit that [`Self::judge`] accepts, or [`exact::judge`] if
    /// `made` says so; `None` for other contents.
    fn changeset(content: &[u8], made: &ChangesetInput<'_>) -> Option<Vec<u8>>;
}

/// Users of changesets in UTF-8, and those that commits have in their place.
pub type Authors = BTreeMap<Vec<u8>, Vec<u8>>;

/// File in root directories that no manifest decides alone.
///
/// A commit has it as the edited tree has it, if that has it and one of the sources differs from
/// the first parent's. Otherwise it has the file of the first parent's commit, if any.
#[derive(Clone, Copy, Debug)]
pub struct InheritedFile {
    /// Its name.
    pub name: &'static [u8],
    /// Files of the root directory that it is made of.
    pub sources: [&'static [u8]; 2],
}

/// Kinds of metadata beside commits, for readers of that metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataKind {
    /// git-cinnabar's: notes, trees and commits of manifests, and the metadata commit.
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

/// Changeset to make a commit of, with the ids that the commit may contain.
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
    /// Node of the parent.
    pub node: Node,
    /// Commit of the parent, if it has one.
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

/// An error while the history is read. Its reader has the cause.
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

    /// Mode of a file; `None` if the manifest does not have it.
    ///
    /// # Errors
    ///
    /// [`Unreadable`].
    fn mode(&self, path: &[u8]) -> Result<Option<Mode>, Unreadable>;

    /// Whether the manifest has a file or a directory of this name.
    ///
    /// # Errors
    ///
    /// [`Unreadable`].
    fn has(&self, path: &[u8]) -> Result<bool, Unreadable>;
}

/// Edits of a tree.
#[derive(Clone, Debug, Default)]
pub struct ManifestEdits {
    /// The edits, one for each path.
    pub edits: Vec<TreeEdit>,
    /// Paths that need edits again if files change at them, or below them.
    pub watched: Vec<Vec<u8>>,
}

/// Edit of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEdit {
    /// Path of the entry.
    pub path: Vec<u8>,
    /// The entry; `None` removes it.
    pub entry: Option<EditedEntry>,
}

/// Tree entry that is not a file of the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditedEntry {
    /// A file with this mode and content.
    Blob(Mode, Vec<u8>),
    /// A commit of another repository.
    Gitlink(Oid),
}

impl EditedEntry {
    /// Mode of the entry.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        match self {
            Self::Blob(mode, _) => *mode,
            Self::Gitlink(_) => Mode::GITLINK,
        }
    }
}

/// Parts of a changeset that its commit does not contain.
#[derive(Clone, Copy, Debug)]
pub struct ChangesetInput<'a> {
    /// Node of the manifest.
    pub manifest: Node,
    /// Value of the extra `branch`, as stored; `None` for the default branch.
    pub branch: Option<&'a [u8]>,
    /// Changed files, sorted.
    pub files: &'a [&'a [u8]],
    /// The commit, if [`exact`]'s extras keep the parts that the changeset cannot express.
    pub exact: Option<ExactCommit<'a>>,
}

/// A commit whose changeset may have the extras of [`exact`].
#[derive(Clone, Copy, Debug)]
pub struct ExactCommit<'a> {
    /// Id of the commit.
    pub oid: Oid,
    /// Its tree.
    pub tree: Oid,
    /// Its parents.
    pub parents: &'a [Oid],
    /// Stored value of its extra [`exact::TREE`], if it needs one.
    pub tree_value: Option<&'a [u8]>,
    /// Part in a merge of more than two parents.
    pub octopus: Option<exact::Octopus>,
}

/// Verdict on a commit object, with its tree and parents.
#[derive(Debug, Default)]
pub struct JudgedCommit<'a> {
    /// Tree; `None` if the commit does not name one.
    pub tree: Option<Oid>,
    /// Parents, in order.
    pub parents: Vec<Oid>,
    /// Reason to refuse the commit object itself, with the bytes that cause it.
    pub refused: Option<(Reason, &'a [u8])>,
}

impl<'a> JudgedCommit<'a> {
    /// Judges a commit object: `refusal` reads tree and parents, and says why not.
    fn by(
        content: &'a [u8],
        refusal: impl FnOnce(&'a [u8], &mut Self) -> Result<(), RefusedFor<'a>>,
    ) -> Self {
        let mut judged = Self::default();
        judged.refused = refusal(content, &mut judged).err();
        judged
    }

    /// Reads the first lines of a commit object of `len` bytes, and returns the values of author
    /// and committer.
    fn read(
        &mut self,
        len: usize,
        lines: &mut impl Iterator<Item = &'a [u8]>,
    ) -> Result<[&'a [u8]; 2], RefusedFor<'a>> {
        let malformed = |line: &'a [u8]| (Reason::MalformedCommit, line);
        let oid = |digits: &[u8]| Some(Oid::from_bytes(*Node::from_hex(digits)?.as_bytes()));
        let mut line = lines.next().unwrap_or_default();
        self.tree = Some(line.strip_prefix(b"tree ").and_then(oid).ok_or(malformed(line))?);
        line = lines.next().unwrap_or_default();
        while let Some(digits) = line.strip_prefix(b"parent ") {
            self.parents.push(oid(digits).ok_or(malformed(line))?);
            line = lines.next().unwrap_or_default();
        }
        if len > MOST_COMMIT_BYTES {
            return Err((Reason::CommitSize, b""));
        }
        let author = line.strip_prefix(b"author ").ok_or(malformed(line))?;
        line = lines.next().unwrap_or_default();
        let committer = line.strip_prefix(b"committer ").ok_or(malformed(line))?;
        Ok([author, committer])
    }
}
