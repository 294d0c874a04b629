//! The memory of a conversion: the trees of a window of commits are compared within it, and what is kept of
//! each file revision has a bound.

use std::io::{Read, Write};

use crate::convert::watching::Watching;
use crate::error::{Error, Result};
use crate::read::commits::{LEAST_COMMITS, WindowCommit};
use crate::read::diff::{TreeComparison, compare};
use crate::read::trees::GitTrees;

/// A commit may change so many files that they take this many times the memory of a conversion, and so may
/// all commits together. So millions of them are no obstacle, but a few trees that name billions are.
const MOST_OF_MEMORY: usize = 4;
/// Windows of more commits than the first one may take this part of the memory: most of what they have waits
/// for long.
const PART_OF_LARGE: usize = 2;
/// What comparisons may take however little memory there is.
const LEAST_BYTES: usize = 1 << 20;

/// Compares the trees of a window, and answers about how many bytes the result takes; `None` if the window
/// has more commits than that can be done for at once.
///
/// # Errors
///
/// As [`compare`], and [`Error::TooManyFiles`].
pub(crate) fn compare_window(
    trees: &GitTrees<impl Write, impl Read>,
    commits: &[WindowCommit],
    comparisons: &mut [TreeComparison],
    (memory_bytes, watching): (usize, &Watching<'_>),
) -> Result<Option<usize>> {
    let least = memory_bytes.max(LEAST_BYTES);
    let most = match commits.len() {
        1 => least * MOST_OF_MEMORY,
        2..=LEAST_COMMITS => least,
        _ => least / PART_OF_LARGE,
    };
    let bytes = compare(trees, comparisons, most, || watching.tick())?;
    match commits {
        [commit] if bytes.is_none() => Err(Error::TooManyFiles(commit.oid)),
        _ => Ok(bytes),
    }
}

/// An error if all file revisions after `commit` take more than `bytes`.
pub(crate) fn check_revisions(
    commit: &WindowCommit,
    bytes: usize,
    memory_bytes: usize,
) -> Result<()> {
    let most = memory_bytes.max(LEAST_BYTES) * MOST_OF_MEMORY;
    if bytes > most { Err(Error::TooManyRevisions(commit.oid)) } else { Ok(()) }
}
