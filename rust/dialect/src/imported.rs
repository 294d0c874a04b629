//! Changesets that are made as Mercurial's commit makes them.

use std::collections::{BTreeMap, BTreeSet};

use parallel::hex::hex;
use revlog::Node;

use crate::hggit::{Submodule, SubrepoFiles, SubrepoSources};
use crate::reason::RefusedFor;
use crate::{ChangesetHistory, CommitInput, JudgedCommit, Unreadable, exact};

/// Extras that Mercurial computes itself, and drops.
const COMPUTED: [&[u8]; 4] = [b"p1copies", b"p2copies", b"filesadded", b"filesremoved"];
/// Names that no branch may have.
const RESERVED: [&[u8]; 3] = [b".", b"null", b"tip"];
/// Extra of the changeset's branch.
pub const BRANCH: &[u8] = b"branch";

/// Rules of a dialect for changesets that are made as Mercurial's commit makes them: files are
/// compared with those of the first parent, and file revisions have their ancestry in filelogs.
#[derive(Clone, Copy, Debug)]
pub struct ImportRules {
    /// Verdict on a commit object that need not come back from its changeset.
    pub judge: fn(&[u8]) -> JudgedCommit<'_>,
    /// Texts of the changeset of a commit.
    pub texts: fn(&[u8], ImportSettings<'_>) -> ImportedCommit,
    /// Whether a path can be a file in Mercurial. Others are left out.
    pub accepts: fn(&[u8]) -> bool,
    /// The commit of a changeset, as [`Dialect::write_commit`](crate::Dialect::write_commit).
    pub write_commit: WriteCommit,
    /// Why a commit is not the one that `write_commit` makes of its changeset; `None` if that makes
    /// none.
    pub difference: for<'a> fn(&'a [u8], Option<&[u8]>) -> RefusedFor<'a>,
    /// Submodules of a `.gitmodules`; `None` if it is malformed.
    pub gitmodules: fn(&[u8]) -> Option<Vec<Submodule>>,
    /// Files of the subrepositories of a changeset.
    pub subrepo_files: fn(&SubrepoSources<'_>) -> SubrepoFiles,
}

/// Writes the commit of a changeset.
pub type WriteCommit =
    fn(&CommitInput<'_>, &dyn ChangesetHistory, &mut Vec<u8>) -> Result<bool, Unreadable>;

/// Texts of a commit, for its changeset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportedCommit {
    /// User, one line.
    pub user: Vec<u8>,
    /// Seconds since 1970, UTC.
    pub seconds: i64,
    /// Seconds west of UTC.
    pub west_seconds: i32,
    /// Description.
    pub description: Vec<u8>,
    /// Extras by key, without escapes.
    pub extras: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Keys of those that the extra [`exact::COMMIT`] makes needless.
    pub of_commit: BTreeSet<Vec<u8>>,
    /// Extras of the changesets between, if the commit needs several.
    pub extras_between: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Sources of copied files, by the paths of the copies.
    pub sources: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Whether the commit tells no sources, so that [`ImportSettings::renames`] finds them.
    pub is_of_git: bool,
}

/// Extras of a changeset.
#[derive(Clone, Copy, Debug)]
pub enum ImportedExtras<'a> {
    /// Those of a changeset between the parents of a commit.
    Between,
    /// Those of the commit.
    Own {
        /// Stored value of [`exact::COMMIT`], which takes the place of some others.
        commit: Option<&'a [u8]>,
        /// Stored value of [`exact::TREE`].
        tree: Option<&'a [u8]>,
    },
}

impl ImportedCommit {
    /// Text of its changeset, or of one between its parents.
    ///
    /// `branch`: value of the extra, as stored, instead of the commit's own.
    #[must_use]
    pub fn changeset(
        &self,
        manifest: Node,
        files: &[&[u8]],
        branch: Option<&[u8]>,
        which: ImportedExtras<'_>,
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.description.len() + 500);
        out.extend_from_slice(&hex(manifest.as_bytes()));
        out.push(b'\n');
        out.extend_from_slice(&self.user);
        out.extend_from_slice(format!("\n{} {}", self.seconds, self.west_seconds).as_bytes());
        let (extras, exact) = match which {
            ImportedExtras::Between => (&self.extras_between, [None; 2]),
            ImportedExtras::Own { commit, tree } => (&self.extras, [commit, tree]),
        };
        let is_branch =
            |value: &[u8]| !value.is_empty() && value != b"default" && !RESERVED.contains(&value);
        let mut items: BTreeMap<&[u8], Vec<u8>> = extras
            .iter()
            .filter(|(key, value)| **key != *BRANCH || is_branch(value))
            .filter(|(key, _)| !COMPUTED.contains(&&***key))
            .filter(|(key, _)| exact[0].is_none() || !self.of_commit.contains(*key))
            .map(|(key, value)| (&**key, exact::escape(value)))
            .collect();
        if let Some(branch) = branch {
            items.insert(BRANCH, branch.to_vec());
        }
        for (key, value) in [exact::COMMIT, exact::TREE].into_iter().zip(exact) {
            items.extend(value.map(|value| (key, value.to_vec())));
        }
        let mut separator = b' ';
        for (key, value) in items {
            out.push(std::mem::replace(&mut separator, 0));
            out.extend_from_slice(&exact::escape(key));
            out.push(b':');
            out.extend_from_slice(&value);
        }
        out.push(b'\n');
        for path in files {
            out.extend_from_slice(path);
            out.push(b'\n');
        }
        out.push(b'\n');
        out.extend_from_slice(&self.description);
        out
    }
}

/// Decoder of texts that are not UTF-8.
pub trait Decoder: std::fmt::Debug + Sync {
    /// Text in UTF-8; `None` if the encoding is unknown or the text is malformed.
    fn decode(&self, encoding: &[u8], text: &[u8]) -> Option<Vec<u8>>;

    /// Checks that all texts were decoded.
    ///
    /// # Errors
    ///
    /// The error of the first one that could not be sent or received.
    fn check(&self) -> std::io::Result<()> {
        Ok(())
    }
}

/// No encoding but UTF-8.
#[derive(Debug)]
struct Utf8;

impl Decoder for Utf8 {
    fn decode(&self, _encoding: &[u8], _text: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// Settings of a run that changesets depend on.
#[derive(Clone, Copy, Debug)]
pub struct ImportSettings<'a> {
    /// Decoder of texts that are not UTF-8.
    pub decoder: &'a dyn Decoder,
    /// User of commits without an author.
    pub user: &'a [u8],
    /// How renames are found; `None`: none are.
    pub renames: Option<RenameSettings>,
}

/// Settings of the detection of renames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenameSettings {
    /// Percentage of common bytes that renamed files have more of; others have to be equal.
    pub similarity: u32,
    /// Square root of the most pairs of files whose contents are compared. 0: no limit.
    pub limit: u64,
    /// Whether files that did not change can be sources of copies.
    pub all_sources: bool,
}

impl Default for ImportSettings<'_> {
    fn default() -> Self {
        Self { decoder: &Utf8, user: b"", renames: None }
    }
}
