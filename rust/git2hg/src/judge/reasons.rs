//! Reasons of trees, as sets, and the limit of their details.

use dialect::{Reason, names};

use crate::judge::tree::TreeRules;
use crate::read::diff::join;

/// Length limit of the detail of a reason, in bytes.
pub(crate) const MOST_DETAIL: usize = 512;

/// Reasons that a tree gives to its commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeReasons(u32);

/// Bit of a name that Mercurial refuses in the root directory only, which is not a [`Reason`].
const ROOT_NAME: u32 = 1;
/// Bits of names in the root directory, which have no effect below it.
const OF_ROOT: u32 = ROOT_NAME | ROOT_LEFT_OUT;
/// Bit of a name that the dialect leaves out in the root directory only.
const ROOT_LEFT_OUT: u32 = 1 << 28;
/// Bit of a name that the dialect hides, at any depth.
const HIDDEN: u32 = 1 << 29;
/// Bit of a file, at any depth.
const FILE: u32 = 1 << 30;
/// Bit of entries that a manifest does not have, if extras keep them.
const EXTRA: u32 = 1 << 31;

impl TreeReasons {
    /// Reasons of a name, for a file or for a directory with files.
    pub(crate) fn of_name(name: &[u8], rules: TreeRules) -> Self {
        let mut reasons = Self::default();
        if names::hg_refuses(name) {
            reasons.add(Reason::Path);
        } else if names::hg_refuses_in_root(name) {
            reasons.0 |= ROOT_NAME;
        }
        if let Some(hides) = rules.hides.filter(|hides| hides(name)) {
            reasons.0 |= HIDDEN;
            match hides(&join(b"d", name)) {
                _ if rules.is_exact => {}
                true => reasons.add(Reason::LeftOut),
                false => reasons.0 |= ROOT_LEFT_OUT,
            }
        }
        reasons
    }

    /// Adds a reason.
    pub(crate) fn add(&mut self, reason: Reason) {
        self.0 |= 1 << reason as u8;
    }

    /// Adds all of `others`.
    pub(crate) fn add_all(&mut self, others: Self) {
        self.0 |= others.0;
    }

    /// Whether the set is empty.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds a file.
    pub(crate) fn add_file(&mut self) {
        self.0 |= FILE;
    }

    /// Whether the tree has a file, at any depth.
    pub(crate) fn has_file(self) -> bool {
        self.0 & FILE != 0
    }

    /// Adds entries that extras keep.
    pub(crate) fn add_extra(&mut self) {
        self.0 |= EXTRA;
    }

    /// Whether the tree may have entries that extras keep.
    pub(crate) fn has_extra(self) -> bool {
        self.0 & (EXTRA | HIDDEN) != 0
    }

    /// Adds the reasons of a directory in the tree.
    pub(crate) fn inherit(&mut self, below: Self) {
        self.0 |= below.0 & !OF_ROOT;
    }

    /// Whether commits with this tree are refused, as their root or below it.
    pub(crate) fn refuse(self, is_root: bool) -> bool {
        let reasons = self.0 & !(EXTRA | FILE | HIDDEN);
        reasons & !OF_ROOT != 0 || is_root && reasons != 0
    }

    /// Whether a manifest alone does not make the tree.
    pub(crate) fn is_odd(self) -> bool {
        self.0 & !(OF_ROOT | FILE | HIDDEN) != 0
    }

    /// Whether `reason` is set. Names refused in the root directory only do not count.
    #[must_use]
    pub fn has(self, reason: Reason) -> bool {
        self.0 & 1 << reason as u8 != 0
    }

    /// Whether `reason` is set, in the root directory or below it.
    pub(crate) fn has_at(mut self, is_root: bool, reason: Reason) -> bool {
        for (bit, reason) in [(ROOT_NAME, Reason::Path), (ROOT_LEFT_OUT, Reason::LeftOut)] {
            if is_root && self.0 & bit != 0 {
                self.add(reason);
            }
        }
        self.has(reason)
    }

    /// First reason of a commit with this root.
    #[must_use]
    pub fn of_root(self) -> Option<Reason> {
        Reason::ALL.into_iter().find(|reason| self.has_at(true, *reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_counts() {
        let mut reasons = TreeReasons::default();
        assert_eq!(reasons.of_root(), None);
        reasons.add(Reason::Path);
        reasons.add(Reason::Submodule);
        assert_eq!(reasons.of_root(), Some(Reason::Submodule));
    }

    #[test]
    fn a_name_refused_in_the_root_is_not_inherited() {
        let (mut root, mut below) = (TreeReasons::default(), TreeReasons::default());
        below.add_all(TreeReasons::of_name("\u{feff}".as_bytes(), TreeRules::default()));
        below.add_file();
        assert_eq!(below.of_root(), Some(Reason::Path));
        assert_eq!([true, false].map(|is_root| below.refuse(is_root)), [true, false]);
        root.inherit(below);
        assert_eq!((root.of_root(), root.has_file(), root.refuse(true)), (None, true, false));
        below.add(Reason::Mode);
        root.inherit(below);
        assert!(root.refuse(false));
        assert_eq!(root.of_root(), Some(Reason::Mode));
    }
}
