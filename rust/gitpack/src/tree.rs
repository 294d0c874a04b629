//! The content of tree objects: entries of mode, name and id, in git's order.
//!
//! Does not know paths: a caller with paths splits them. Format: "Tree objects" in gitdatamodel(7);
//! `object-file.c` and `tree-walk.c` of git have the details.

use std::cmp::Ordering;
use std::fmt;

use crate::oid::Oid;

/// The mode of a tree entry, written in octal without leading zeros.
///
/// Any number is possible, since git stores every mode. The constants are those of checkouts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mode(pub u32);

impl Mode {
    /// A blob to check out as a plain file.
    pub const FILE: Self = Self(0o100_644);
    /// A blob to check out as an executable file.
    pub const EXECUTABLE: Self = Self(0o100_755);
    /// A blob whose content is the target of a symbolic link.
    pub const SYMLINK: Self = Self(0o120_000);
    /// A tree.
    pub const DIRECTORY: Self = Self(0o040_000);
    /// A commit of another repository (a submodule), which need not be present.
    pub const GITLINK: Self = Self(0o160_000);

    /// Returns whether the mode has the file type of a tree. Such entries sort as `name/`.
    #[must_use]
    pub const fn is_directory(self) -> bool {
        const FILE_TYPE: u32 = 0o170_000;
        self.0 & FILE_TYPE == Self::DIRECTORY.0
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:o}", self.0)
    }
}

impl fmt::Debug for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Appends one entry to the content of a tree.
///
/// The caller appends entries in [`entry_order`], each name once. A name must not be empty, `.`,
/// `..` or `.git`, and must not contain `/` or NUL.
pub fn push_entry(out: &mut Vec<u8>, mode: Mode, name: &[u8], oid: &Oid) {
    debug_assert!(!name.is_empty() && !name.contains(&b'/') && !name.contains(&0));
    out.reserve(name.len() + 28);
    let digits = (u32::BITS - (mode.0 | 1).leading_zeros()).div_ceil(3);
    for digit in (0..digits).rev() {
        out.push(b'0' + (mode.0 >> (3 * digit) & 7) as u8);
    }
    out.push(b' ');
    out.extend_from_slice(name);
    out.push(0);
    out.extend_from_slice(oid.as_bytes());
}

/// Compares two entries in git's order: by bytes, a directory as if its name ended in `/`.
#[must_use]
pub fn entry_order(a_name: &[u8], a_is_dir: bool, b_name: &[u8], b_is_dir: bool) -> Ordering {
    let common = a_name.len().min(b_name.len());
    // Names have no `/`, so the first byte after the common length decides.
    let next = |name: &[u8], is_dir: bool| name.get(common).copied().or(is_dir.then_some(b'/'));
    a_name[..common]
        .cmp(&b_name[..common])
        .then_with(|| next(a_name, a_is_dir).cmp(&next(b_name, b_is_dir)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn entries_are_mode_name_and_id() {
        let mut tree = Vec::new();
        push_entry(&mut tree, Mode::DIRECTORY, b"dir", &Oid::EMPTY_TREE);
        push_entry(&mut tree, Mode::FILE, b"file", &Oid::EMPTY_BLOB);
        let mut expected = b"40000 dir\0".to_vec();
        expected.extend_from_slice(Oid::EMPTY_TREE.as_bytes());
        expected.extend_from_slice(b"100644 file\0");
        expected.extend_from_slice(Oid::EMPTY_BLOB.as_bytes());
        assert_eq!(tree, expected);
    }

    #[test]
    fn modes_are_octal_without_leading_zeros() {
        for mode in [0, 7, 0o10, 0o160_644, 0o040_000, 0o120_000, u32::MAX] {
            let mut tree = Vec::new();
            push_entry(&mut tree, Mode(mode), b"a", &Oid::EMPTY_BLOB);
            assert!(tree.starts_with(format!("{mode:o} a\0").as_bytes()));
        }
        assert_eq!(Mode::DIRECTORY.to_string(), "40000");
    }

    #[test]
    fn only_trees_sort_as_directories() {
        assert!(Mode::DIRECTORY.is_directory());
        for mode in [Mode::FILE, Mode::EXECUTABLE, Mode::SYMLINK, Mode::GITLINK, Mode(0o160_644)] {
            assert!(!mode.is_directory(), "{mode}");
        }
    }

    #[test]
    fn a_directory_sorts_as_if_it_ended_in_a_slash() {
        assert_eq!(entry_order(b"a", false, b"a.c", false), Ordering::Less);
        assert_eq!(entry_order(b"a", true, b"a.c", false), Ordering::Greater);
        assert_eq!(entry_order(b"a", true, b"a0", false), Ordering::Less);
        assert_eq!(entry_order(b"a", false, b"a", true), Ordering::Less);
        assert_eq!(entry_order(b"a", true, b"a", true), Ordering::Equal);
    }

    proptest! {
        #[test]
        fn the_order_is_that_of_names_with_slashes(
            a in "[a-c.0-]{0,4}", a_is_dir: bool, b in "[a-c.0-]{0,4}", b_is_dir: bool,
        ) {
            let slashed = |name: &str, is_dir| format!("{name}{}", if is_dir { "/" } else { "" });
            prop_assert_eq!(
                entry_order(a.as_bytes(), a_is_dir, b.as_bytes(), b_is_dir),
                slashed(&a, a_is_dir).cmp(&slashed(&b, b_is_dir))
            );
        }
    }
}
