//! Changesets that are made as Mercurial's commit makes them.

use std::collections::BTreeMap;

use parallel::hex::hex;
use revlog::Node;

use crate::hggit::{Submodule, SubrepoFiles, SubrepoSources};

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
    /// Texts of the changeset of a commit.
    pub texts: fn(&[u8], ImportSettings<'_>) -> ImportedCommit,
    /// Whether a path can be a file in Mercurial. Others are left out.
    pub accepts: fn(&[u8]) -> bool,
    /// Submodules of a `.gitmodules`; `None` if it is malformed.
    pub gitmodules: fn(&[u8]) -> Option<Vec<Submodule>>,
    /// Files of the subrepositories of a changeset.
    pub subrepo_files: fn(&SubrepoSources<'_>) -> SubrepoFiles,
}

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
    /// Extras of the changesets between, if the commit needs several.
    pub extras_between: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Sources of copied files, by the paths of the copies.
    pub sources: BTreeMap<Vec<u8>, Vec<u8>>,
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
        is_between: bool,
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.description.len() + 500);
        out.extend_from_slice(&hex(manifest.as_bytes()));
        out.push(b'\n');
        out.extend_from_slice(&self.user);
        out.extend_from_slice(format!("\n{} {}", self.seconds, self.west_seconds).as_bytes());
        let extras = if is_between { &self.extras_between } else { &self.extras };
        let is_branch =
            |value: &[u8]| !value.is_empty() && value != b"default" && !RESERVED.contains(&value);
        let mut items: BTreeMap<&[u8], Vec<u8>> = extras
            .iter()
            .filter(|(key, value)| **key != *BRANCH || is_branch(value))
            .filter(|(key, _)| !COMPUTED.contains(&&***key))
            .map(|(key, value)| (&**key, escaped(value)))
            .collect();
        if let Some(branch) = branch {
            items.insert(BRANCH, branch.to_vec());
        }
        let mut separator = b' ';
        for (key, value) in items {
            out.push(std::mem::replace(&mut separator, 0));
            out.extend_from_slice(&escaped(key));
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

/// Part of an extra with Mercurial's escapes.
fn escaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0 => out.extend_from_slice(b"\\0"),
            _ => out.push(*byte),
        }
    }
    out
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
}

impl Default for ImportSettings<'_> {
    fn default() -> Self {
        Self { decoder: &Utf8, user: b"" }
    }
}
