//! Reasons to refuse commits.

/// Reason to refuse a commit, with the bytes that cause it.
pub type RefusedFor<'a> = (Reason, &'a [u8]);

/// Reason to refuse a commit.
///
/// The reasons are checked in this order, except for `CommitSize`, and the first one counts. The
/// numbers are part of the C ABI and never change.
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
    /// File too long for the server or for Mercurial. Surveys do not read files, so only a
    /// conversion finds it.
    FileSize = 15,
    /// The changeset is exported as another commit. Only a conversion finds it, and it is a bug.
    Differs = 16,
    /// Commit object longer than 4 MiB. Checked first: the rest of the commit is not read.
    CommitSize = 17,
    /// `.hgsub` or `.hgsubstate` that Mercurial cannot read. Only a conversion finds it.
    Subrepositories = 18,
    /// File that the dialect's trees do not have from manifests.
    LeftOut = 19,
}

impl Reason {
    /// All reasons, in order.
    pub const ALL: [Self; 19] = [
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
        Self::Subrepositories,
        Self::LeftOut,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_listed_by_number() {
        let numbers = Reason::ALL.map(|reason| reason as u8);
        assert_eq!(numbers, std::array::from_fn(|at| u8::try_from(at + 1).expect("few")));
    }
}
