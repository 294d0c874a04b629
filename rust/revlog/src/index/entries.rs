//! Bytes of an index, read or mapped, and the check of its entries.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use super::{ENTRY_LEN, MalformedIndex, Rev};
use crate::mapping::Mapping;

/// Replacement of an invalid entry: no text, no delta base, no parents, the null node.
const NOTHING: [u8; ENTRY_LEN] = {
    let mut entry = [0; ENTRY_LEN];
    let mut at = 16;
    while at < 32 {
        entry[at] = 0xff;
        at += 1;
    }
    entry
};

/// Bytes of an index.
#[derive(Debug)]
pub(super) enum Entries {
    /// Read into memory; all entries are checked.
    Read(Vec<u8>),
    /// In a shared mapping; entries are checked on use.
    Mapped { mapping: Arc<Mapping>, problem: OnceLock<(Rev, [u8; ENTRY_LEN])> },
}

impl Entries {
    /// Entries in a mapping.
    pub const fn mapped(mapping: Arc<Mapping>) -> Self {
        Self::Mapped { mapping, problem: OnceLock::new() }
    }

    /// Entry of `rev`: `stored`, if it is valid.
    pub fn sound<'a>(&'a self, rev: Rev, stored: &'a [u8]) -> &'a [u8] {
        let Self::Mapped { problem, .. } = self else { return stored };
        if check(rev, stored).is_ok() {
            return stored;
        }
        problem.get_or_init(|| (rev, *stored.first_chunk().expect("an entry is whole")));
        &NOTHING
    }

    /// Releases the touched pages of a mapping.
    pub fn let_go(&self) {
        if let Self::Mapped { mapping, .. } = self {
            mapping.let_go();
        }
    }

    /// Problem of the first invalid entry that was used.
    pub fn problem(&self) -> Option<MalformedIndex> {
        let Self::Mapped { problem, .. } = self else { return None };
        problem.get().and_then(|(rev, stored)| check(*rev, stored).err())
    }
}

impl Default for Entries {
    fn default() -> Self {
        Self::Read(Vec::new())
    }
}

impl Deref for Entries {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Read(bytes) => bytes,
            Self::Mapped { mapping, .. } => mapping.bytes(),
        }
    }
}

/// Checks an entry: parents and delta base come earlier, lengths are not negative.
pub(super) fn check(rev: Rev, entry: &[u8]) -> Result<(), MalformedIndex> {
    let own = i64::from(rev.number());
    for (field, position, least, most) in [
        ("compressed length", 8, 0, i64::from(i32::MAX)),
        ("text length", 12, -1, i64::from(i32::MAX)),
        ("delta base", 16, -1, own),
        ("first parent", 24, -1, own - 1),
        ("second parent", 28, -1, own - 1),
    ] {
        let mut word = [0; 4];
        word.copy_from_slice(&entry[position..position + 4]);
        let value = i64::from(i32::from_be_bytes(word));
        if value < least || value > most {
            return Err(MalformedIndex::Field { rev: rev.at(), field, value });
        }
    }
    Ok(())
}

/// Starts of entries that are followed by their data.
pub(super) fn inline_starts(bytes: &[u8]) -> Result<Vec<u32>, MalformedIndex> {
    let mut starts = Vec::new();
    let mut start = 0;
    while start < bytes.len() {
        let Some(entry) = bytes.get(start..start + ENTRY_LEN) else {
            return Err(MalformedIndex::Truncated(starts.len(), bytes.len() - start));
        };
        let mut len = [0; 4];
        len.copy_from_slice(&entry[8..12]);
        let len = i32::from_be_bytes(len);
        let Ok(data_len) = usize::try_from(len) else {
            let field = "compressed length";
            return Err(MalformedIndex::Field { rev: starts.len(), field, value: len.into() });
        };
        let end = start + ENTRY_LEN + data_len;
        if end > bytes.len() {
            return Err(MalformedIndex::InlineData(starts.len()));
        }
        starts.push(u32::try_from(start).map_err(|_| MalformedIndex::TooLong(starts.len()))?);
        start = end;
    }
    Ok(starts)
}
