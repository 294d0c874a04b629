//! Limits for data that is read into plain memory, outside the budget's buffers.

/// Part of the memory limit for one piece of data outside the buffers.
const LONGEST_PART: u64 = 8;
/// Least limit, in bytes. An index with inline data has up to 128 KiB.
const LEAST_LONGEST: u64 = 1 << 20;
/// Longest index entry of any version, in bytes.
const INDEX_ENTRY_BYTES: u64 = 96;

/// Longest text of a changeset, in bytes: commits and notes are made from it in memory.
pub(crate) fn longest_changeset(most_bytes: u64) -> u64 {
    (most_bytes / LONGEST_PART).max(LEAST_LONGEST)
}

/// Longest index of a manifest or a file, in bytes. No revlog has more revisions than the
/// changelog.
pub(crate) fn longest_index(most_bytes: u64, changesets: u32) -> u64 {
    longest_changeset(most_bytes).max(u64::from(changesets) * INDEX_ENTRY_BYTES)
}

/// Limit for the file list of one tree manifest, in bytes: as much as all long buffers together.
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
