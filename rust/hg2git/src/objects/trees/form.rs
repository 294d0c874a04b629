//! The two kinds of tree that a directory may have, and how entries are written in them.
//!
//! Every directory has git's tree. A dialect may have a second one, whose form it supplies.

/// The readers of a tree or another object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Git clients.
    Git,
    /// The dialect's metadata.
    Aside,
}

/// The kind of id in the entry of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileIds {
    Blobs,
    Nodes,
}

/// The form of the entries of a tree.
#[derive(Debug)]
pub(crate) struct TreeForm {
    pub purpose: Purpose,
    pub file_ids: FileIds,
    /// Bytes between mode and name.
    pub prefix_len: usize,
    /// The leads of directories, files, programs and symbolic links.
    pub leads: [Lead; 4],
}

impl TreeForm {
    /// The form of git.
    pub const GIT: Self = Self {
        purpose: Purpose::Git,
        file_ids: FileIds::Blobs,
        prefix_len: 0,
        leads: [
            Lead::new(b"40000 "),
            Lead::new(b"100644 "),
            Lead::new(b"100755 "),
            Lead::new(b"120000 "),
        ],
    };

    /// Whether a name may be empty, which git does not allow.
    pub const fn has_empty_names(&self) -> bool {
        self.prefix_len > 0
    }
}

/// The bytes before a name: mode, space and prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lead {
    pub text: [u8; 8],
    pub len: usize,
}

impl Lead {
    /// The lead of a gitlink, in git's form.
    pub const GITLINK: Self = Self::new(b"160000 ");

    /// A lead of at most 8 bytes.
    pub const fn new(text: &[u8]) -> Self {
        let mut padded = [0; 8];
        padded.split_at_mut(text.len()).0.copy_from_slice(text);
        Self { text: padded, len: text.len() }
    }
}
