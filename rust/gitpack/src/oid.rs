//! Object ids, object kinds, and the header that is hashed before an object's content.
//!
//! The caller hashes, because it may hash many objects at once. Format: gitdatamodel(7), and
//! "Object storage format" in git's `user-manual`.

use std::fmt;
use std::ops::Deref;

use crate::stackbytes::StackBytes;

/// The id of a git object, a SHA-1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Oid([u8; 20]);

impl Oid {
    /// The id of the tree without entries.
    pub const EMPTY_TREE: Self = Self([
        0x4b, 0x82, 0x5d, 0xc6, 0x42, 0xcb, 0x6e, 0xb9, 0xa0, 0x60, 0xe5, 0x4b, 0xf8, 0xd6, 0x92,
        0x88, 0xfb, 0xee, 0x49, 0x04,
    ]);

    /// The id of the blob without content.
    pub const EMPTY_BLOB: Self = Self([
        0xe6, 0x9d, 0xe2, 0x9b, 0xb2, 0xd1, 0xd6, 0x43, 0x4b, 0x8b, 0x29, 0xae, 0x77, 0x5a, 0xd8,
        0xc2, 0xe4, 0x8c, 0x53, 0x91,
    ]);

    /// Wraps a SHA-1 in binary.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    /// The SHA-1 in binary, as trees and indexes store it.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }

    /// A hash for tables: the first bytes, since SHA-1 is uniform.
    pub(crate) fn table_hash(&self) -> u64 {
        let (words, _) = self.0.as_chunks();
        u64::from_le_bytes(words[0])
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The kind of an object. The numbers are those of gitformat-pack(5), "Object types".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ObjectKind {
    /// A commit.
    Commit = 1,
    /// A tree, see [`crate::tree`].
    Tree = 2,
    /// A blob.
    Blob = 3,
}

impl ObjectKind {
    /// The name in object headers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Tree => "tree",
            Self::Blob => "blob",
        }
    }
}

/// Maximum length of a header: "commit", a space, the 20 digits of the greatest `u64`, and a NUL.
const LONGEST_HEADER: usize = 28;

/// The header that is hashed before an object's content, such as `blob 12\0`.
#[derive(Clone, Copy)]
pub struct ObjectHeader(StackBytes<LONGEST_HEADER>);

impl Deref for ObjectHeader {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for ObjectHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

/// Makes the header of an object of `kind` and `len` bytes. Allocates nothing.
#[must_use]
pub fn object_header(kind: ObjectKind, len: u64) -> ObjectHeader {
    let mut header = StackBytes::new();
    header.extend(kind.name().as_bytes());
    header.push(b' ');
    let mut unit = 10_u64.pow(len.checked_ilog10().unwrap_or(0));
    while unit > 0 {
        header.push(b'0' + (len / unit % 10) as u8);
        unit /= 10;
    }
    header.push(0);
    ObjectHeader(header)
}

#[cfg(test)]
mod tests {
    use sha1::{Digest, Sha1};

    use super::*;

    #[test]
    fn a_header_is_what_git_hashes() {
        assert_eq!(&*object_header(ObjectKind::Blob, 0), b"blob 0\0");
        assert_eq!(&*object_header(ObjectKind::Tree, 12), b"tree 12\0");
        assert_eq!(&*object_header(ObjectKind::Commit, 100), b"commit 100\0");
        assert_eq!(&*object_header(ObjectKind::Blob, 9), b"blob 9\0");
        assert_eq!(&*object_header(ObjectKind::Commit, u64::MAX), b"commit 18446744073709551615\0");
    }

    #[test]
    fn the_empty_objects_have_their_well_known_names() {
        for (kind, oid) in
            [(ObjectKind::Tree, Oid::EMPTY_TREE), (ObjectKind::Blob, Oid::EMPTY_BLOB)]
        {
            let hash = Sha1::digest(&*object_header(kind, 0));
            assert_eq!(oid, Oid::from_bytes(hash.into()));
        }
        assert_eq!(Oid::EMPTY_TREE.to_string(), "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
        assert_eq!(format!("{:?}", Oid::EMPTY_BLOB), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
    }
}
