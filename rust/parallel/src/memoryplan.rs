//! The division of the memory of a run.
//!
//! Owns the proportions. `docs/decisions/memory.rst` has the rules of counting, and the
//! measurements. The division does not change the output.

use std::sync::Arc;

use crate::budget::Budget;
use crate::directory::Directory;
use crate::ordered::Width;

/// Minimum memory per thread. With less, fewer threads are started, unless a number is given.
const LEAST_BYTES_PER_THREAD: u64 = 16 << 20;
/// Divisor for the minimum memory of texts: a fourth of all. The tables of a run grow with the
/// history, and may take the rest.
const LEAST_LEFT: u64 = 4;

/// The parts of a budget.
#[derive(Clone, Debug)]
pub struct MemoryPlan {
    /// Number of threads, and the memory of their results.
    pub width: Width,
    /// Half of the memory, for long buffers.
    pub budget: Arc<Budget>,
    /// Bytes of a thread's cache of recently read texts.
    pub kept_bytes: usize,
    /// Bytes of a thread's pool of buffers.
    pub pool_bytes: usize,
    /// Bytes of the texts that a thread hashes in one batch.
    pub hashed_bytes: usize,
}

impl MemoryPlan {
    /// Divides `most_bytes` among `threads`; 0 means one for each core, or fewer.
    ///
    /// Tables already have `taken_bytes` of them. Buffers beyond the budget go to files in `dir`.
    #[must_use]
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
            pool_bytes: thread_bytes / 4,
            hashed_bytes: thread_bytes / 12 * 5,
        }
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
    fn all_parts_together_are_the_whole() {
        for (most, taken, threads) in
            [(192 << 20, 0, 2), (192 << 20, 100 << 20, 8), (1 << 20, 0, 3)]
        {
            let memory_plan = MemoryPlan::new(most, taken, threads, &root());
            let each = memory_plan.kept_bytes + memory_plan.pool_bytes + memory_plan.hashed_bytes;
            let left = usize::try_from(most - taken).expect("fits");
            assert!(each * threads <= left / 2, "{memory_plan:?}");
        }
    }

    #[test]
    fn tables_leave_a_fourth() {
        let memory_plan = MemoryPlan::new(100 << 20, 500 << 20, 1, &root());
        assert_eq!(memory_plan.width.window_bytes, 100 << 16);
    }

    #[test]
    fn little_memory_is_for_few_threads() {
        let threads = |most| MemoryPlan::new(most, 0, 0, &root()).width.threads;
        assert_eq!((threads(0), threads(1 << 20), threads(31 << 20)), (1, 1, 1));
        assert_eq!(MemoryPlan::new(1 << 20, 0, 8, &root()).width.threads, 8);
    }
}
