//! Size limits of data that is read as a whole, and not into a buffer of the budget.

/// What is read as a whole, and not into a buffer, may have this part of all.
const LONGEST_PART: u64 = 8;
/// It may have so much in any case, in bytes: an index with data inline has up to 128 KiB.
const LEAST_LONGEST: u64 = 1 << 20;
/// Bytes of an index entry, of any version, at most.
const INDEX_ENTRY_BYTES: u64 = 96;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_may_be_as_long_as_the_changelogs() {
        assert_eq!(longest_index(192 << 20, 10), 24 << 20);
        assert_eq!(longest_index(192 << 20, 1 << 20), 96 << 20);
        assert_eq!((longest_index(0, 0), longest_changeset(1 << 20)), (1 << 20, 1 << 20));
    }
}
