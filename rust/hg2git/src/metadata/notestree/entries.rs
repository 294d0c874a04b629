//! The entries of a notes tree as a sorted map, and questions about their keys.

use gitpack::Oid;

/// The key of an entry: a node, or the oid of a commit.
pub(crate) type Key = [u8; 20];

/// Number of digits that may follow in a key.
const DIGITS: u8 = 16;
/// Fewest keys for each of these digits in a divided directory.
const KEYS_PER_DIGIT: usize = 2;

/// A sorted map of entries, in any storage.
pub(crate) trait NotesEntries {
    /// All entries from `start` on, ascending, each key once. Costs one search, and the entries
    /// taken.
    fn entries_from(&self, start: Key) -> impl Iterator<Item = (Key, Oid)>;
}

/// Ascending entries, each key once, in memory.
impl NotesEntries for [(Key, Oid)] {
    fn entries_from(&self, start: Key) -> impl Iterator<Item = (Key, Oid)> {
        self[self.partition_point(|(key, _)| is_less(key, &start))..].iter().copied()
    }
}

/// Whether `a` comes before `b`. The first 8 bytes nearly always decide, in one comparison.
fn is_less(a: &Key, b: &Key) -> bool {
    let first = |key: &Key| key.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
    first(a).cmp(&first(b)).then_with(|| a.cmp(b)).is_lt()
}

/// Whether a key begins with a short `prefix`.
fn is_in(key: &Key, prefix: &[u8]) -> bool {
    key.iter().zip(prefix).all(|(a, b)| a == b)
}

/// The entries whose keys begin with `prefix`, ascending.
pub(super) fn with_prefix<'e, E: NotesEntries + ?Sized>(
    entries: &'e E,
    prefix: &'e [u8],
) -> impl Iterator<Item = (Key, Oid)> + 'e {
    entries.entries_from(start(prefix, 0)).take_while(|(key, _)| is_in(key, prefix))
}

/// Whether the directory of the keys with this `prefix` has subdirectories.
pub(super) fn is_divided<E: NotesEntries + ?Sized>(entries: &E, prefix: &[u8]) -> bool {
    let depth = prefix.len();
    let has_enough = |digit| {
        let found = entries.entries_from(start(prefix, digit << 4));
        let same = found.take_while(|(key, _)| is_in(key, prefix) && key[depth] >> 4 == digit);
        same.take(KEYS_PER_DIGIT).count() == KEYS_PER_DIGIT
    };
    // a leaf keeps at least the last byte as its name; no map of hashes is that deep
    depth + 1 < size_of::<Key>() && (0..DIGITS).all(has_enough)
}

/// The least key with this `prefix` and then at least `byte`.
fn start(prefix: &[u8], byte: u8) -> Key {
    let mut start = [0; size_of::<Key>()];
    start[..prefix.len()].copy_from_slice(prefix);
    if let Some(next) = start.get_mut(prefix.len()) {
        *next = byte;
    }
    start
}
