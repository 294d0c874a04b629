//! The map that becomes a notes tree, and what can be asked of it.

use gitpack::Oid;

/// What an entry is found by: a node, or the oid of a commit.
pub(crate) type Key = [u8; 20];

/// Digits that a key may go on with.
const DIGITS: u8 = 16;
/// Keys that have to go on with each of them for a directory to be divided.
const KEYS_PER_DIGIT: usize = 2;

/// A map, wherever it is kept.
pub(crate) trait NotesEntries {
    /// All entries from `start` on, ascending, each key once. Costs what is taken, and a search.
    fn entries_from(&self, start: Key) -> impl Iterator<Item = (Key, Oid)>;
}

/// Ascending entries, each key once.
impl NotesEntries for [(Key, Oid)] {
    fn entries_from(&self, start: Key) -> impl Iterator<Item = (Key, Oid)> {
        self[self.partition_point(|(key, _)| is_less(key, &start))..].iter().copied()
    }
}

/// Whether a key comes before another: nearly always their first bytes tell, which one comparison
/// of a register does.
fn is_less(a: &Key, b: &Key) -> bool {
    let first = |key: &Key| key.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
    first(a).cmp(&first(b)).then_with(|| a.cmp(b)).is_lt()
}

/// Whether a key begins with `prefix`, which is short.
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

/// Whether the directory of the keys that begin with `prefix` has directories in it.
pub(super) fn is_divided<E: NotesEntries + ?Sized>(entries: &E, prefix: &[u8]) -> bool {
    let depth = prefix.len();
    let has_enough = |digit| {
        let found = entries.entries_from(start(prefix, digit << 4));
        let same = found.take_while(|(key, _)| is_in(key, prefix) && key[depth] >> 4 == digit);
        same.take(KEYS_PER_DIGIT).count() == KEYS_PER_DIGIT
    };
    // a leaf keeps at least the last byte as its name; no map of hashes comes near that
    depth + 1 < size_of::<Key>() && (0..DIGITS).all(has_enough)
}

/// The least key that begins with `prefix` and then has at least `byte`.
fn start(prefix: &[u8], byte: u8) -> Key {
    let mut start = [0; size_of::<Key>()];
    start[..prefix.len()].copy_from_slice(prefix);
    if let Some(next) = start.get_mut(prefix.len()) {
        *next = byte;
    }
    start
}
