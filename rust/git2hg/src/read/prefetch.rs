//! What is read ahead: commits, what they change, and the contents that this needs.
//!
//! Commits go through in windows. While the commits of one are converted, git is asked for the next one, in
//! a thread of its own. Does not know what becomes of them, but that nothing is compared any more after a
//! commit that does not come back.

use std::io::{Read, Write};

use gitpack::Oid;
use hashbrown::HashMap;

use crate::build::CommitChanges;
use crate::convert::watching::Watching;
use crate::error::Result;
use crate::read::answers::Answers;
use crate::read::blobs::{BlobContents, GitBlobs};
use crate::read::commits;
use crate::read::commits::{WindowCommit, WindowSize};
use crate::read::comparing::compare_window;
use crate::read::diff::TreeComparison;
use crate::read::trees::GitTrees;

/// So many bytes of contents, which wait in a file, count as one byte of memory.
const CONTENTS_OF_BYTE: u64 = 8;

/// Commits, and what was read of them.
#[derive(Debug)]
pub(crate) struct ReadWindow {
    pub commits: Vec<WindowCommit>,
    /// What each changes, and the contents; `None` from a window on that has to be judged.
    pub changes: Option<(Vec<CommitChanges>, BlobContents)>,
    /// What it takes, about.
    pub bytes: u64,
}

/// Reads one window after the other.
pub(crate) struct Ahead<'a, C, W, R> {
    commits: Answers<C>,
    trees: &'a GitTrees<W, R>,
    blobs: GitBlobs<'a, W, R>,
    /// The trees of parents.
    roots: HashMap<Oid, Oid>,
    /// Windows that were too large, the next one last.
    halves: Vec<Vec<WindowCommit>>,
    size: WindowSize,
    memory_bytes: usize,
    watching: &'a Watching<'a>,
    /// Whether commits are only judged from here on.
    is_judging: bool,
}

impl<'a, C: Read, W: Write, R: Read> Ahead<'a, C, W, R> {
    /// Reads the commits that git writes to `commits`. `roots`: parents that are no new commits, and
    /// their trees.
    pub fn new(
        commits: C,
        trees: &'a GitTrees<W, R>,
        blobs: GitBlobs<'a, W, R>,
        roots: HashMap<Oid, Oid>,
        (memory_bytes, watching): (usize, &'a Watching<'a>),
    ) -> Self {
        Self {
            commits: Answers::new(commits),
            trees,
            blobs,
            roots,
            halves: Vec::new(),
            size: WindowSize::new(memory_bytes),
            memory_bytes,
            watching,
            is_judging: false,
        }
    }

    /// The next commits; none at the end.
    ///
    /// # Errors
    ///
    /// Those of [`Answers::read`], [`GitTrees::get_some`] and [`GitBlobs::read`],
    /// [`Error::TooManyFiles`](crate::Error::TooManyFiles), and
    /// [`Error::Cancelled`](crate::Error::Cancelled).
    pub fn next(&mut self) -> Result<Option<ReadWindow>> {
        loop {
            let mut commits = match self.halves.pop() {
                Some(half) => half,
                None => commits::read(&mut self.commits, self.size)?,
            };
            if commits.is_empty() {
                return Ok(None);
            }
            let comparisons = if self.is_judging { None } else { self.comparisons(&commits) };
            let Some(mut comparisons) = comparisons else { return Ok(Some(self.judged(commits))) };
            let memory = (self.memory_bytes, self.watching);
            let Some(bytes) = compare_window(self.trees, &commits, &mut comparisons, memory)?
            else {
                self.size.bound(commits.len());
                let rest = commits.split_off(commits.len() / 2);
                self.halves.extend([rest, commits]);
                continue;
            };
            if comparisons.iter().any(|it| it.refused.is_some()) {
                return Ok(Some(self.judged(commits)));
            }
            self.roots.extend(commits.iter().map(|it| (it.oid, it.tree_or_empty())));
            return self.with_contents(commits, comparisons, bytes).map(Some);
        }
    }

    /// Commits that are not compared, nor are those after them.
    fn judged(&mut self, commits: Vec<WindowCommit>) -> ReadWindow {
        self.is_judging = true;
        let bytes = commits.iter().map(WindowCommit::bytes).sum();
        ReadWindow { commits, changes: None, bytes }
    }

    /// What is to be compared: the tree of each commit with that of each parent, or with none. `None` if
    /// one is refused, or has a parent that is not known.
    fn comparisons(&self, commits: &[WindowCommit]) -> Option<Vec<TreeComparison>> {
        let mut roots: HashMap<Oid, Oid> = HashMap::new();
        let mut comparisons = Vec::with_capacity(commits.len());
        for commit in commits {
            if commit.refused.is_some() {
                return None;
            }
            let new = Some(commit.tree_or_empty());
            for parent in &commit.parents {
                let old = Some(*self.roots.get(parent).or_else(|| roots.get(parent))?);
                comparisons.push(TreeComparison { old, new, ..TreeComparison::default() });
            }
            if commit.parents.is_empty() {
                comparisons.push(TreeComparison { new, ..TreeComparison::default() });
            }
            roots.insert(commit.oid, commit.tree_or_empty());
        }
        Some(comparisons)
    }

    /// Gets the contents.
    fn with_contents(
        &mut self,
        commits: Vec<WindowCommit>,
        comparisons: Vec<TreeComparison>,
        bytes: usize,
    ) -> Result<ReadWindow> {
        let mut comparisons = comparisons.into_iter();
        let changes = commits.iter().map(|commit| {
            let count = commit.parents.len().max(1);
            CommitChanges::new(comparisons.by_ref().take(count).map(|it| it.changes).collect())
        });
        let changes: Vec<CommitChanges> = changes.collect();
        let blobs: Vec<(&[u8], Oid)> = changes.iter().flat_map(CommitChanges::blobs).collect();
        let contents = self.blobs.read(&blobs)?;
        self.size.learn(commits.len(), contents.bytes());
        let commit_bytes: u64 = commits.iter().map(WindowCommit::bytes).sum();
        let bytes = commit_bytes + bytes as u64 + contents.bytes() / CONTENTS_OF_BYTE;
        Ok(ReadWindow { commits, changes: Some((changes, contents)), bytes })
    }
}
