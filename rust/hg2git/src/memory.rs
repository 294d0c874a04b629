//! How the memory of a run is divided.
//!
//! Owns the proportions. What is counted, what is not, and what came of it: `docs/decisions/memory.rst`.
//! Nothing that is written depends on any of it.

use std::sync::Arc;

use revlog::Scratch;
use workshop::{Budget, Directory};

use crate::ordered::Width;

/// With less than this for each, further threads are not started, unless they were asked for.
const LEAST_BYTES_PER_THREAD: u64 = 16 << 20;
/// What is read as a whole, and not into a buffer, may have this part of all.
const LONGEST_PART: u64 = 8;
/// It may have so much in any case, in bytes: an index with data inline has up to 128 KiB.
const LEAST_LONGEST: u64 = 1 << 20;
/// Bytes of an index entry, of any version, at most.
const INDEX_ENTRY_BYTES: u64 = 96;
/// What is left for texts at least, as a part of all: a fourth. The tables of a run grow with the
/// history, and may take the rest.
const LEAST_LEFT: u64 = 4;

/// Longest text of a changeset, in bytes: commits and notes are made from it in memory.
pub(crate) fn longest_changeset(most_bytes: u64) -> u64 {
    (most_bytes / LONGEST_PART).max(LEAST_LONGEST)
}

/// Longest index of a manifest or a file, in bytes. None has more revisions than the changelog.
pub(crate) fn longest_index(most_bytes: u64, changesets: u32) -> u64 {
    longest_changeset(most_bytes).max(u64::from(changesets) * INDEX_ENTRY_BYTES)
}

/// What the files of a tree manifest may take that are listed at a time, in bytes: as much as all long
/// buffers together.
pub(crate) fn longest_listing(most_bytes: u64) -> u64 {
    (most_bytes / 2).max(LEAST_LONGEST)
}

/// The parts of a budget.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    /// Threads, and what their results may take.
    pub width: Width,
    /// For buffers that are long: half of it.
    pub budget: Arc<Budget>,
    /// Texts that a thread keeps while it walks a revlog, in bytes.
    pub kept_bytes: usize,
    /// Buffers that a thread keeps to use again, in bytes.
    pub spare_bytes: usize,
    /// Texts that a thread hashes at a time, in bytes.
    pub hashed_bytes: usize,
}

impl Shares {
    /// Divides `most_bytes`, of which tables have `taken_bytes` already, for so many threads: 0 is
    /// one for each core, or fewer. What exceeds the budget goes to files in `dir`.
    pub fn new(most_bytes: u64, taken_bytes: u64, threads: usize, dir: &Directory) -> Self {
        let bytes = most_bytes.saturating_sub(taken_bytes).max(most_bytes / LEAST_LEFT);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let threads = match threads {
            0 => {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                let most = usize::try_from(most_bytes / LEAST_BYTES_PER_THREAD);
                cores.min(most.unwrap_or(usize::MAX)).max(1)
            }
            threads => threads,
        };
        let thread_bytes = bytes / 2 / threads;
        Self {
            width: Width { threads, window_bytes: bytes as u64 / 4 },
            budget: Budget::new(bytes / 2, dir),
            kept_bytes: thread_bytes / 4,
            spare_bytes: thread_bytes / 4,
            hashed_bytes: thread_bytes / 12 * 5,
        }
    }

    /// What a thread that reads texts keeps.
    pub fn scratch(&self) -> Scratch {
        Scratch::within(&self.budget, self.spare_bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn root() -> Directory {
        Directory::open(Path::new("/")).expect("is there")
    }

    #[test]
    fn an_index_may_be_as_long_as_the_changelogs() {
        assert_eq!(longest_index(192 << 20, 10), 24 << 20);
        assert_eq!(longest_index(192 << 20, 1 << 20), 96 << 20);
        assert_eq!((longest_index(0, 0), longest_changeset(1 << 20)), (1 << 20, 1 << 20));
    }

    #[test]
    fn all_parts_together_are_the_whole() {
        for (most, taken, threads) in
            [(192 << 20, 0, 2), (192 << 20, 100 << 20, 8), (1 << 20, 0, 3)]
        {
            let shares = Shares::new(most, taken, threads, &root());
            let each = shares.kept_bytes + shares.spare_bytes + shares.hashed_bytes;
            let left = usize::try_from(most - taken).expect("fits");
            assert!(each * threads <= left / 2, "{shares:?}");
        }
    }

    #[test]
    fn tables_leave_a_fourth() {
        let shares = Shares::new(100 << 20, 500 << 20, 1, &root());
        assert_eq!(shares.width.window_bytes, 100 << 16);
    }

    #[test]
    fn little_memory_is_for_few_threads() {
        let threads = |most| Shares::new(most, 0, 0, &root()).width.threads;
        assert_eq!((threads(0), threads(1 << 20), threads(31 << 20)), (1, 1, 1));
        assert_eq!(Shares::new(1 << 20, 0, 8, &root()).width.threads, 8);
    }
}
