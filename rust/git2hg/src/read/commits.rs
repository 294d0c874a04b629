//! Windows of commits that are converted together.

use std::io::Read;

use gitpack::Oid;

use crate::error::{Error, Result};
use crate::judge::reasons::MOST_DETAIL;
use crate::read::answers::{Answer, Answers};
use crate::rules::CommitRules;
use dialect::{JudgedCommit, MOST_COMMIT_BYTES, Reason};

/// Commits of the first window, and least size of others.
pub(crate) const LEAST_COMMITS: usize = 256;
/// The same, if contents wait in memory.
const LEAST_HELD_COMMITS: usize = 16;
/// Most commits of a window.
const MOST_COMMITS: usize = 4096;
/// Growth limit from one window to the next.
const GROWTH: usize = 4;
/// Limit of prefetched contents in a file, as a multiple of the memory of a conversion.
const CONTENTS_OF_MEMORY: u64 = 2;
/// Bytes of commit objects that close a window.
const MOST_BYTES: usize = 4 << 20;

/// Size of the next window. git reads versions of a file in a row, so large windows are faster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowSize {
    commits: usize,
    least_commits: usize,
    most_commits: usize,
    /// Limit of the contents of a window, in bytes.
    most_bytes: u64,
}

impl WindowSize {
    /// Size of the first window of a conversion with `memory_bytes`.
    pub fn new(memory_bytes: usize) -> Self {
        let most_bytes = (memory_bytes as u64).saturating_mul(CONTENTS_OF_MEMORY);
        let (commits, least_commits) = (LEAST_COMMITS, LEAST_COMMITS);
        Self { commits, least_commits, most_commits: MOST_COMMITS, most_bytes }
    }

    /// The same for contents that wait in memory, of `most_bytes` together.
    pub fn held(self, most_bytes: u64) -> Self {
        let (commits, least_commits) = (LEAST_HELD_COMMITS, LEAST_HELD_COMMITS);
        Self { commits, least_commits, most_bytes, ..self }
    }

    /// Adapts the size: a window of `commits` commits had contents of `bytes` bytes.
    pub fn learn(&mut self, commits: usize, bytes: u64) {
        let fitting = (commits as u64).saturating_mul(self.most_bytes) / bytes.max(1);
        let fitting = usize::try_from(fitting).unwrap_or(usize::MAX);
        self.most_commits = (self.most_commits / 4 * 5).min(MOST_COMMITS);
        self.commits = fitting.min(commits * GROWTH).clamp(self.least_commits, self.most_commits);
    }

    /// Halves the limit: a window of `commits` commits changed too many files.
    pub fn bound(&mut self, commits: usize) {
        self.most_commits = (commits / 2).max(LEAST_COMMITS);
    }
}

/// New commit.
#[derive(Debug)]
pub(crate) struct WindowCommit {
    pub oid: Oid,
    pub tree: Option<Oid>,
    pub parents: Vec<Oid>,
    /// Reason of the commit object itself, with its detail.
    pub refused: Option<(Reason, Vec<u8>)>,
    /// Content of a commit that is not refused.
    pub content: Vec<u8>,
    /// Whether its tree, where it differs from those of its parents, may have entries that a
    /// manifest does not have.
    pub is_odd: bool,
}

impl WindowCommit {
    /// Memory, about.
    pub fn bytes(&self) -> u64 {
        (self.content.len() + size_of::<Self>()) as u64
    }

    /// Its tree; the empty one for a refused commit without tree.
    pub fn tree_or_empty(&self) -> Oid {
        self.tree.unwrap_or(Oid::EMPTY_TREE)
    }

    /// Verdict on the commit object. The tree of a refused commit need not be read.
    pub fn verdict(&self) -> JudgedCommit<'_> {
        JudgedCommit {
            tree: self.tree.filter(|_| self.refused.is_none()),
            parents: self.parents.clone(),
            refused: self.refused.as_ref().map(|(reason, detail)| (*reason, &**detail)),
        }
    }
}

/// Reads the next commit, up to one byte above the size limit; `None` at the end.
///
/// # Errors
///
/// The errors of [`Answers::read`], and [`Error::Missing`].
pub(crate) fn next<R: Read>(answers: &mut Answers<R>) -> Result<Option<(Oid, &[u8])>> {
    match answers.read_start(MOST_COMMIT_BYTES + 1)? {
        None => Ok(None),
        Some(Answer { oid, kind: b"commit", content }) => Ok(Some((oid, content))),
        Some(Answer { oid, kind: b"", .. }) => Err(Error::Missing(oid)),
        Some(Answer { kind, .. }) => Err(Error::Answer(kind.escape_ascii().to_string())),
    }
}

/// Reads the next window of `size`; empty at the end.
///
/// # Errors
///
/// The errors of [`next`].
pub(crate) fn read(
    answers: &mut Answers<impl Read>,
    size: WindowSize,
    rules: CommitRules,
) -> Result<Vec<WindowCommit>> {
    let mut window = Vec::new();
    let mut bytes = 0;
    while window.len() < size.commits && bytes < MOST_BYTES {
        let Some((oid, content)) = next(answers)? else { break };
        let judged = (rules.judge)(content);
        let refused = judged
            .refused
            .map(|(reason, detail)| (reason, detail[..detail.len().min(MOST_DETAIL)].to_vec()));
        let (tree, parents) = (judged.tree, judged.parents);
        let content = if refused.is_some() { Vec::new() } else { content.to_vec() };
        bytes += content.len();
        window.push(WindowCommit { oid, tree, parents, refused, content, is_odd: true });
    }
    Ok(window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_grow_while_contents_are_small() {
        let mut size = WindowSize::new(1000);
        assert_eq!(size.commits, 256);
        size.learn(256, 0);
        assert_eq!(size.commits, 1024);
        size.learn(1024, 1024);
        assert_eq!(size.commits, 2000);
        size.learn(2000, 10);
        assert_eq!(size.commits, 4096);
        size.learn(4096, 4096 * 100);
        assert_eq!(size.commits, 256);
        size.learn(1, u64::MAX);
        assert_eq!(size.commits, 256);
        size.bound(1000);
        size.learn(256, 0);
        assert_eq!(size.commits, 625);
    }
}
