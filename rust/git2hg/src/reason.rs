//! Reasons to refuse commits.

/// Reason of a refused commit. They are checked in this order, but for `CommitSize`, and the first one
/// counts.
///
/// Their numbers are part of the C ABI and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Reason {
    /// Lines of the commit are missing, misplaced, or contain a NUL.
    MalformedCommit = 1,
    /// Signed: a header `gpgsig` or `gpgsig-sha256`.
    Signature = 2,
    /// Header `encoding`.
    Encoding = 3,
    /// Any other header, such as `mergetag`.
    Header = 4,
    /// More than two parents.
    Octopus = 5,
    /// Date in another form than git writes today.
    Date = 6,
    /// Name or address that a Mercurial user cannot represent.
    Identity = 7,
    /// Backslash in a committer that is not the author.
    Backslash = 8,
    /// Submodule.
    Submodule = 9,
    /// Mode other than `100644`, `100755`, `120000` and `40000`.
    Mode = 10,
    /// Directory without files.
    EmptyDirectory = 11,
    /// Tree with entries that git itself refuses: unsorted, duplicate, or badly named.
    MalformedTree = 12,
    /// Path that Mercurial cannot check out or store.
    Path = 13,
    /// Refused ancestor.
    Ancestor = 14,
    /// File too long for the server or for Mercurial. Surveys do not read files, so only a conversion finds
    /// it.
    FileSize = 15,
    /// The changeset is exported as another commit. Only a conversion finds it, and it is a bug.
    Differs = 16,
    /// Commit object longer than 4 MiB. Checked first: the rest of the commit is not read.
    CommitSize = 17,
}

impl Reason {
    /// All reasons, in order.
    pub const ALL: [Self; 17] = [
        Self::MalformedCommit,
        Self::Signature,
        Self::Encoding,
        Self::Header,
        Self::Octopus,
        Self::Date,
        Self::Identity,
        Self::Backslash,
        Self::Submodule,
        Self::Mode,
        Self::EmptyDirectory,
        Self::MalformedTree,
        Self::Path,
        Self::Ancestor,
        Self::FileSize,
        Self::Differs,
        Self::CommitSize,
    ];
}

/// Reasons that a tree gives to its commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeReasons(u32);

/// Bit of a name that Mercurial refuses in the root directory only, which is not a [`Reason`].
const ROOT_NAME: u32 = 1;

impl TreeReasons {
    /// Adds a reason.
    pub(crate) fn add(&mut self, reason: Reason) {
        self.0 |= 1 << reason as u8;
    }

    /// Adds a name that is refused in the root directory.
    pub(crate) fn add_root_name(&mut self) {
        self.0 |= ROOT_NAME;
    }

    /// Adds the reasons of a directory in the tree.
    pub(crate) fn inherit(&mut self, below: Self) {
        self.0 |= below.0 & !ROOT_NAME;
    }

    /// Whether commits with this tree are refused, as their root or below it.
    pub(crate) fn refuse(self, is_root: bool) -> bool {
        self.0 & !ROOT_NAME != 0 || is_root && self.0 != 0
    }

    /// Whether `reason` is set. Names refused in the root directory only do not count.
    #[must_use]
    pub fn has(self, reason: Reason) -> bool {
        self.0 & 1 << reason as u8 != 0
    }

    /// First reason of a commit with this root.
    #[must_use]
    pub fn of_root(self) -> Option<Reason> {
        let mut all = self;
        if self.0 & ROOT_NAME != 0 {
            all.add(Reason::Path);
        }
        Reason::ALL.into_iter().find(|reason| all.has(*reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_listed_by_number() {
        let numbers = Reason::ALL.map(|reason| reason as u8);
        assert_eq!(numbers, std::array::from_fn(|at| u8::try_from(at + 1).expect("few")));
    }

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
        below.add_root_name();
        assert_eq!(below.of_root(), Some(Reason::Path));
        assert_eq!([true, false].map(|is_root| below.refuse(is_root)), [true, false]);
        root.inherit(below);
        assert_eq!(root.of_root(), None);
        below.add(Reason::Mode);
        root.inherit(below);
        assert!(root.refuse(false));
        assert_eq!(root.of_root(), Some(Reason::Mode));
    }
}
