//! What is read ahead: commits, what they change, and the contents that this needs.
//!
//! Commits go through in windows. While the commits of one are converted, git is asked for the next one, in
//! a thread of its own. Does not know what becomes of them, but that nothing is compared any more after a
//! commit that does not come back.

use std::io::{Read, Write};

use gitpack::Oid;
use hashbrown::HashMap;

use crate::error::{Error, Result};
use crate::progress::ConversionProgress;
use crate::read::answers::Answers;
use crate::read::blobs::{BlobContents, GitBlobs};
use crate::read::commits;
use crate::read::commits::{LEAST_COMMITS, WindowCommit, WindowSize};
use crate::read::diff::{CommitChanges, TreeComparison, compare};
use crate::read::trees::GitTrees;

/// So many bytes of contents, which wait in a file, count as one byte of memory.
const CONTENTS_OF_BYTE: u64 = 8;

/// A commit may change so many files that they take this many times the memory of a conversion, and so may
/// all commits together. So millions of them are no obstacle, but a few trees that name billions are.
const MOST_OF_MEMORY: usize = 4;
/// Windows of more commits than the first one may take this part of the memory: most of what they have waits
/// for long.
const PART_OF_LARGE: usize = 2;
/// What comparisons may take however little memory there is.
const LEAST_BYTES: usize = 1 << 20;

/// Commits, and what was read of them.
#[derive(Debug)]
pub(crate) struct PrefetchedWindow {
    pub commits: Vec<WindowCommit>,
    /// What each changes, and the contents; `None` from a window on that has to be judged.
    pub changes: Option<(Vec<CommitChanges>, BlobContents)>,
    /// What it takes, about.
    pub bytes: u64,
}

/// Reads one window after the other.
pub(crate) struct Prefetch<'a, C, W, R> {
    commits: Answers<C>,
    trees: &'a GitTrees<W, R>,
    blobs: GitBlobs<'a, W, R>,
    /// The trees of parents.
    roots: HashMap<Oid, Oid>,
    /// Windows that were too large, the next one last.
    halves: Vec<Vec<WindowCommit>>,
    size: WindowSize,
    memory_bytes: usize,
    progress: &'a ConversionProgress<'a>,
    /// Whether commits are only judged from here on.
    is_judging: bool,
}

impl<'a, C: Read, W: Write, R: Read> Prefetch<'a, C, W, R> {
    /// Reads the commits that git writes to `commits`. `roots`: parents that are no new commits, and
    /// their trees.
    pub fn new(
        commits: C,
        trees: &'a GitTrees<W, R>,
        blobs: GitBlobs<'a, W, R>,
        roots: HashMap<Oid, Oid>,
        (memory_bytes, progress): (usize, &'a ConversionProgress<'a>),
    ) -> Self {
        Self {
            commits: Answers::new(commits),
            trees,
            blobs,
            roots,
            halves: Vec::new(),
            size: WindowSize::new(memory_bytes),
            memory_bytes,
            progress,
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
    pub fn next(&mut self) -> Result<Option<PrefetchedWindow>> {
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
            let memory = (self.memory_bytes, self.progress);
            let Some(bytes) = compare_window(self.trees, &commits, &mut comparisons, memory)?
            else {
                self.size.bound(commits.len());
                let rest = commits.split_off(commits.len() / 2);
                self.halves.extend([rest, commits]);
                continue;
            };
            if comparisons.iter().any(|comparison| comparison.is_refused) {
                return Ok(Some(self.judged(commits)));
            }
            self.roots.extend(commits.iter().map(|it| (it.oid, it.tree_or_empty())));
            return self.with_contents(commits, comparisons, bytes).map(Some);
        }
    }

    /// Commits that are not compared, nor are those after them.
    fn judged(&mut self, commits: Vec<WindowCommit>) -> PrefetchedWindow {
        self.is_judging = true;
        let bytes = commits.iter().map(WindowCommit::bytes).sum();
        PrefetchedWindow { commits, changes: None, bytes }
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
    ) -> Result<PrefetchedWindow> {
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
        Ok(PrefetchedWindow { commits, changes: Some((changes, contents)), bytes })
    }
}

/// Compares the trees of a window, and answers about how many bytes the result takes; `None` if the window
/// has more commits than that can be done for at once.
///
/// # Errors
///
/// As [`compare`], and [`Error::TooManyFiles`].
fn compare_window(
    trees: &GitTrees<impl Write, impl Read>,
    commits: &[WindowCommit],
    comparisons: &mut [TreeComparison],
    (memory_bytes, progress): (usize, &ConversionProgress<'_>),
) -> Result<Option<usize>> {
    let least = memory_bytes.max(LEAST_BYTES);
    let most = match commits.len() {
        1 => limit_bytes(memory_bytes),
        2..=LEAST_COMMITS => least,
        _ => least / PART_OF_LARGE,
    };
    let bytes = compare(trees, comparisons, most, || progress.tick())?;
    match commits {
        [commit] if bytes.is_none() => Err(Error::TooManyFiles(commit.oid)),
        _ => Ok(bytes),
    }
}

/// Memory limit of the changes of one commit, of the file revisions of all, and of the trees of refused ones.
pub(crate) fn limit_bytes(memory_bytes: usize) -> usize {
    memory_bytes.max(LEAST_BYTES) * MOST_OF_MEMORY
}
