//! Directories of manifests, as trees without extras.

use std::sync::Arc;

use gitpack::tree::{Mode, push_entry};
use gitpack::{ObjectKind, Oid};
use revlog::Rev;

use super::ExactTrees;
use crate::error::Result;
use crate::objects::directory::{EntryTarget, TrackedDirectory};
use crate::objects::trees::Purpose;
use crate::read::names::Names;

/// A directory of a manifest, as a tree without extras.
#[derive(Clone, Debug)]
pub(super) enum Plain {
    Empty,
    Tracked(Arc<TrackedDirectory>),
    /// In a pack of an earlier run.
    Stored(Oid),
}

impl Plain {
    /// The tree of a directory. One without entries is in the store, and was not read.
    pub fn of(directory: &Arc<TrackedDirectory>) -> Self {
        if directory.entries.is_empty() {
            return Self::Stored(directory.tree(Purpose::Git).oid);
        }
        Self::Tracked(Arc::clone(directory))
    }

    /// The id of its tree.
    pub fn oid(&self) -> Oid {
        match self {
            Self::Empty => Oid::EMPTY_TREE,
            Self::Tracked(directory) => directory.tree(Purpose::Git).oid,
            Self::Stored(oid) => *oid,
        }
    }
}

impl ExactTrees<'_> {
    /// Content of a tree without extras.
    pub(super) fn content(&self, rev: Rev, plain: &Plain) -> Result<Vec<u8>> {
        let directory = match plain {
            Plain::Empty => return Ok(Vec::new()),
            Plain::Stored(oid) if *oid == Oid::EMPTY_TREE => return Ok(Vec::new()),
            Plain::Stored(oid) => return self.stored(rev, ObjectKind::Tree, *oid),
            Plain::Tracked(directory) => directory,
        };
        let mut content = Vec::new();
        for entry in directory.entries.iter() {
            let (mode, oid) = self.item(rev, &entry.target)?;
            push_entry(&mut content, mode, self.names.get(entry.name), &oid);
        }
        Ok(content)
    }

    /// Mode and id of an entry without extras.
    pub(super) fn item(&self, rev: Rev, target: &EntryTarget) -> Result<(Mode, Oid)> {
        let (mode, oid) = match target {
            EntryTarget::File(file, mode) => (*mode, self.files.oid(*file)),
            EntryTarget::TrackedDirectory(below) => {
                (Mode::DIRECTORY, Some(below.tree(Purpose::Git).oid))
            }
            EntryTarget::Object(id) => (id.1, Some(id.0)),
        };
        let unconverted = || self.sources.changelog.corrupt(rev, "a file is not converted");
        Ok((mode, oid.ok_or_else(unconverted)?))
    }

    /// The directory in another one with this name and id.
    pub(super) fn below(&self, plain: &Plain, name: &[u8], oid: Oid) -> Plain {
        if let Plain::Tracked(directory) = plain
            && let Some(entry) = directory.entries.find(self.names, name, true)
            && let EntryTarget::TrackedDirectory(below) = &entry.target
        {
            return Plain::of(below);
        }
        Plain::Stored(oid)
    }
}

/// The tree of the directory at a path of another one; `None` if its entries are not in memory, or
/// its tree has other ones.
pub(super) fn tree_at(names: &Names, plain: &Plain, path: &[u8]) -> Option<Oid> {
    let mut at = match plain {
        Plain::Empty => return Some(Oid::EMPTY_TREE),
        Plain::Tracked(directory) if directory.is_plain => directory,
        Plain::Tracked(_) | Plain::Stored(_) => return None,
    };
    for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
        if at.entries.is_empty() {
            return None; // an unread one
        }
        match at.entries.find(names, name, true).map(|entry| &entry.target) {
            Some(EntryTarget::TrackedDirectory(below)) => at = below,
            _ => return Some(Oid::EMPTY_TREE),
        }
    }
    Some(at.tree(Purpose::Git).oid)
}
