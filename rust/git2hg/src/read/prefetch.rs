//! Prefetch of commits, their changes, and the contents of new files.
//!
//! While a window of commits is converted, the next one is read in another thread. From the first
//! window with a refused commit on, trees are not compared any more.

use std::io::{Read, Write};

use gitpack::Oid;
use hashbrown::HashMap;

use crate::error::{Error, Result};
use crate::progress::ConversionProgress;
use crate::read::answers::Answers;
use crate::read::blobs::{BlobContents, GitBlobs};
use crate::read::commits;
use crate::read::commits::{LEAST_COMMITS, WindowCommit, WindowSize};
use crate::read::diff::{CommitChanges, FirstParentChanges, TreeComparison, compare};
use crate::read::trees::GitTrees;
use crate::rules::CommitRules;

/// Prefetched bytes, which wait in a file, that count as one byte of memory.
const CONTENTS_OF_BYTE: u64 = 8;
/// Part of the memory of waiting windows that contents in memory may take.
const PART_OF_HELD: u64 = 8;

/// Memory of the changes of one commit, as a multiple of the memory of a conversion, and of those
/// of all commits together. It is enough for millions of files, but not for a few trees that name
/// billions.
const MOST_OF_MEMORY: usize = 4;
/// Part of the memory for windows larger than the first one: their results wait longer.
const PART_OF_LARGE: usize = 2;
/// Least memory of comparisons.
const LEAST_BYTES: usize = 1 << 20;

/// Window of commits with their changes and contents.
#[derive(Debug)]
pub(crate) struct PrefetchedWindow {
    pub commits: Vec<WindowCommit>,
    /// Changes and contents; `None` from the first window on that has to be judged.
    pub changes: Option<(Vec<CommitChanges>, BlobContents)>,
    /// Memory, about.
    pub bytes: u64,
}

/// Prefetcher of windows.
pub(crate) struct Prefetch<'a, C, W, R> {
    rules: CommitRules,
    commits: Answers<C>,
    trees: &'a GitTrees<W, R>,
    blobs: GitBlobs<'a, W, R>,
    /// Trees of parents.
    roots: HashMap<Oid, Oid>,
    /// Parts of windows that were too large, the next one last.
    halves: Vec<Vec<WindowCommit>>,
    size: WindowSize,
    memory_bytes: usize,
    progress: &'a ConversionProgress<'a>,
    /// Whether a window had a refused commit.
    is_judging: bool,
}

impl<'a, C: Read, W: Write, R: Read> Prefetch<'a, C, W, R> {
    /// Reads the new commits from `commits`. `roots` has the trees of parents that are changesets
    /// already.
    pub fn new(
        rules: CommitRules,
        commits: C,
        trees: &'a GitTrees<W, R>,
        blobs: GitBlobs<'a, W, R>,
        roots: HashMap<Oid, Oid>,
        (memory_bytes, progress): (usize, &'a ConversionProgress<'a>),
    ) -> Self {
        let size = WindowSize::new(memory_bytes);
        let size = blobs.most_held().map_or(size, |most_bytes| size.held(most_bytes));
        Self {
            rules,
            commits: Answers::new(commits),
            trees,
            blobs,
            roots,
            halves: Vec::new(),
            size,
            memory_bytes,
            progress,
            is_judging: false,
        }
    }

    /// Next window; `None` at the end.
    ///
    /// # Errors
    ///
    /// The errors of [`Answers::read`], [`GitTrees::get_some`] and [`GitBlobs::read`],
    /// [`Error::TooManyFiles`](crate::Error::TooManyFiles), and
    /// [`Error::Cancelled`](crate::Error::Cancelled).
    pub fn next(&mut self) -> Result<Option<PrefetchedWindow>> {
        loop {
            let mut commits = match self.halves.pop() {
                Some(half) => half,
                None => commits::read(&mut self.commits, self.size, self.rules)?,
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
            self.roots.extend(commits.iter().map(|commit| (commit.oid, commit.tree_or_empty())));
            return self.with_contents(commits, comparisons, bytes).map(Some);
        }
    }

    /// Window without changes, as are all after it.
    fn judged(&mut self, commits: Vec<WindowCommit>) -> PrefetchedWindow {
        self.is_judging = true;
        let bytes = commits.iter().map(WindowCommit::bytes).sum();
        PrefetchedWindow { commits, changes: None, bytes }
    }

    /// Comparisons of each commit's tree with those of its parents. `None` if a commit is refused,
    /// or has an unknown parent.
    fn comparisons(&self, commits: &[WindowCommit]) -> Option<Vec<TreeComparison>> {
        let mut roots: HashMap<Oid, Oid> = HashMap::new();
        let mut comparisons = Vec::with_capacity(commits.len());
        for commit in commits {
            if commit.refused.is_some() {
                return None;
            }
            let new = Some(commit.tree_or_empty());
            for parent in self.rules.compared(&commit.parents) {
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

    /// Reads the contents.
    fn with_contents(
        &mut self,
        mut commits: Vec<WindowCommit>,
        comparisons: Vec<TreeComparison>,
        bytes: usize,
    ) -> Result<PrefetchedWindow> {
        let mut comparisons = comparisons.into_iter();
        let changes = commits.iter_mut().map(|commit| {
            if let Some(rules) = self.rules.import {
                let compared = comparisons.next().unwrap_or_default();
                let accepts = self.rules.is_lenient.then_some(rules.accepts);
                return CommitChanges::First(first_changes(compared, commit, accepts));
            }
            let count = commit.parents.len().max(1);
            let compared: Vec<TreeComparison> = comparisons.by_ref().take(count).collect();
            commit.is_odd = compared.iter().any(|comparison| comparison.is_odd);
            let changes = compared.into_iter().map(|comparison| comparison.changes);
            CommitChanges::new(changes.collect())
        });
        let changes: Vec<CommitChanges> = changes.collect();
        let blobs: Vec<(&[u8], Oid)> = changes.iter().flat_map(CommitChanges::blobs).collect();
        let contents = self.blobs.read(&blobs)?;
        self.size.learn(commits.len(), contents.bytes());
        let commit_bytes: u64 = commits.iter().map(WindowCommit::bytes).sum();
        let held = contents.held_bytes();
        let spooled = (contents.bytes() - held) / CONTENTS_OF_BYTE;
        let bytes = commit_bytes + bytes as u64 + spooled + held * PART_OF_HELD;
        Ok(PrefetchedWindow { commits, changes: Some((changes, contents)), bytes })
    }
}

/// Changes of a commit against its first parent, without paths that are not accepted.
fn first_changes(
    compared: TreeComparison,
    commit: &WindowCommit,
    accepts: Option<fn(&[u8]) -> bool>,
) -> FirstParentChanges {
    let TreeComparison { changes: mut files, mut links, root, mut is_odd, .. } = compared;
    if let Some(accepts) = accepts {
        let count = files.len() + links.len();
        files.retain(|change| change.new.is_none() || accepts(&change.path));
        links.retain(|(path, link)| link.is_none() || accepts(path));
        is_odd |= files.len() + links.len() < count;
    }
    // one changeset for each pair of parents
    let times = commit.parents.len().saturating_sub(1).max(1);
    FirstParentChanges { files, links, root, times, is_odd }
}

/// Compares the trees of a window, and returns the memory of the result, about. `None` if a window
/// of several commits needs too much.
///
/// # Errors
///
/// The errors of [`compare`], and [`Error::TooManyFiles`].
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

/// Memory limit of the changes of one commit, of all file revisions, and of the trees of refused
/// commits.
pub(crate) fn limit_bytes(memory_bytes: usize) -> usize {
    memory_bytes.max(LEAST_BYTES) * MOST_OF_MEMORY
}
