//! The changes of one manifest against its base: removed paths and new lines.
//!
//! Owns their compact form until they are numbered, and the reasons that make a manifest unusable.

use revlog::manifest::MalformedManifest;
use revlog::{Flag, Line, Rev};

/// The base of a manifest's changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// The empty manifest.
    Empty,
    /// The manifest at this position of the conversion's order.
    Position(usize),
    /// A manifest that an earlier run converted.
    Known(Rev),
}

/// The changes of one manifest against its base.
#[derive(Debug)]
pub(crate) struct Changes {
    pub base: Base,
    /// Whether a line has a new flag: a new line with a flag, or a line whose flag changed.
    pub has_new_flags: bool,
    /// Whether the text should have been compared with its node and was not. Then the filelog of
    /// each path must have the revision.
    pub is_unproven: bool,
    lines: Vec<u8>,
    count: usize,
}

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManifestChange<'a> {
    /// A removed path.
    Remove(&'a [u8]),
    /// A new path, or a path with another revision or flag.
    Set(Line<'a>),
}

impl<'a> ManifestChange<'a> {
    /// The changed path.
    pub const fn path(&self) -> &'a [u8] {
        match self {
            Self::Remove(path) | Self::Set(Line { path, .. }) => path,
        }
    }
}

impl Changes {
    /// No changes from `base`.
    pub const fn new(base: Base) -> Self {
        Self { base, has_new_flags: false, is_unproven: false, lines: Vec::new(), count: 0 }
    }

    /// Number of changes.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// The changes, ascending by path.
    pub fn iter(&self) -> impl Iterator<Item = ManifestChange<'_>> {
        let mut rest = self.lines.as_slice();
        std::iter::from_fn(move || {
            let (&[kind, a, b, c], after) = rest.split_first_chunk()?;
            let (path, after) = after.split_at(u32::from_le_bytes([a, b, c, 0]) as usize);
            let flag = match kind {
                b'x' => Flag::Executable,
                b'l' => Flag::Symlink,
                b'r' => Flag::Regular,
                _ => {
                    rest = after;
                    return Some(ManifestChange::Remove(path));
                }
            };
            let (node, after) = after.split_first_chunk()?;
            rest = after;
            Some(ManifestChange::Set(Line { path, node: revlog::Node::from_bytes(*node), flag }))
        })
    }

    /// Adds a change. Changes must ascend by path.
    pub fn push(&mut self, change: ManifestChange<'_>) -> Result<(), Unusable> {
        let kind = match change {
            ManifestChange::Remove(_) => b'-',
            ManifestChange::Set(Line { flag: Flag::Regular, .. }) => b'r',
            ManifestChange::Set(Line { flag: Flag::Executable, .. }) => b'x',
            ManifestChange::Set(Line { flag: Flag::Symlink, .. }) => b'l',
        };
        self.count += 1;
        let path = change.path();
        let len = u32::try_from(path.len()).map_or([u8::MAX; 4], u32::to_le_bytes);
        let [a, b, c, 0] = len else { return Err(Unusable::LongPath(path.len())) };
        self.lines.extend_from_slice(&[kind, a, b, c]);
        self.lines.extend_from_slice(path);
        if let ManifestChange::Set(line) = change {
            self.lines.extend_from_slice(line.node.as_bytes());
        }
        Ok(())
    }
}

/// A reason that makes a manifest unusable.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    #[error(transparent)]
    Line(#[from] MalformedManifest),
    #[error("its lines are not sorted at '{0}'")]
    Order(String),
    #[error("it has a path of {0} bytes")]
    LongPath(usize),
}
