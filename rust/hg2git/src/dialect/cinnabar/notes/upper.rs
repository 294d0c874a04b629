//! What is kept of a notes tree, so that a later one costs what changed: the oids of its upper
//! directories.
//!
//! As bytes: the mode of leaves, 4 bytes, big-endian, and the root directory. The caller keeps them
//! with a version and a checksum of his own.
//!
//! A directory is one byte, 0 if it does not exist, otherwise 1 if it has entries, 2 if it has
//! directories that are not kept, 3 if it has directories that are, and its oid. In the last case 256
//! directories follow, one for each byte. At most 66,000 exist to the depth that is kept, 1.4 MB.

use gitpack::Oid;
use gitpack::tree::Mode;

use super::{BYTES, KEPT_DEPTH};

const ABSENT: u8 = 0;
const ENTRIES: u8 = 1;
const NOT_KEPT: u8 = 2;
const KEPT: u8 = 3;

/// A notes tree, as far as the next one needs to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotesTree {
    pub(super) leaf: Mode,
    pub(super) root: Option<NotesDirectory>,
}

/// A directory with at least one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NotesDirectory {
    pub oid: Oid,
    pub below: Below,
}

/// What is in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Below {
    /// Entries and no directory.
    Entries,
    /// Directories, too deep to be kept.
    NotKept,
    /// Directories, by their byte.
    Kept(Vec<Option<NotesDirectory>>),
}

impl NotesTree {
    /// The tree of the map without entries.
    pub const fn empty(leaf: Mode) -> Self {
        Self { leaf, root: None }
    }

    /// The tree object.
    pub fn oid(&self) -> Oid {
        self.root.as_ref().map_or(Oid::EMPTY_TREE, |root| root.oid)
    }

    /// What [`Self::from_bytes`] reads.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.leaf.0.to_be_bytes().to_vec();
        push(&mut bytes, self.root.as_ref());
        bytes
    }

    /// Reads what [`Self::to_bytes`] wrote of a tree whose leaves have the mode `leaf`.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn from_bytes(bytes: &[u8], leaf: Mode) -> Result<Self, &'static str> {
        let rest = bytes.strip_prefix(&leaf.0.to_be_bytes());
        let rest = rest.ok_or("its leaves have another mode")?;
        match read(rest, 0) {
            Some((root, [])) => Ok(Self { leaf, root }),
            _ => Err("its directories are malformed"),
        }
    }
}

fn push(bytes: &mut Vec<u8>, directory: Option<&NotesDirectory>) {
    let Some(NotesDirectory { oid, below }) = directory else { return bytes.push(ABSENT) };
    bytes.push(match below {
        Below::Entries => ENTRIES,
        Below::NotKept => NOT_KEPT,
        Below::Kept(_) => KEPT,
    });
    bytes.extend_from_slice(oid.as_bytes());
    if let Below::Kept(directories) = below {
        for directory in directories {
            push(bytes, directory.as_ref());
        }
    }
}

/// A directory at `depth`, and the bytes after it.
fn read(bytes: &[u8], depth: usize) -> Option<(Option<NotesDirectory>, &[u8])> {
    let (&kind, rest) = bytes.split_first()?;
    if kind == ABSENT {
        return Some((None, rest));
    }
    let (oid, mut rest) = rest.split_first_chunk()?;
    let below = match kind {
        ENTRIES => Below::Entries,
        NOT_KEPT if depth == KEPT_DEPTH => Below::NotKept,
        KEPT if depth < KEPT_DEPTH => {
            let mut directories = Vec::with_capacity(BYTES);
            while directories.len() < BYTES {
                let (directory, after) = read(rest, depth + 1)?;
                directories.push(directory);
                rest = after;
            }
            Below::Kept(directories)
        }
        _ => return None,
    };
    Some((Some(NotesDirectory { oid: Oid::from_bytes(*oid), below }), rest))
}
