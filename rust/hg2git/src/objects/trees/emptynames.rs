//! Directories with an empty name, from paths with `//`.
//!
//! git does not allow such a name. Its entries are shown in the directory above, as git-cinnabar
//! does, which drops directories with empty names in both.

use std::cmp::Ordering;
use std::sync::Arc;

use super::Refused;
use super::TreeWriter;
use crate::objects::directory::{DirectoryEntries, EntryTarget, TrackedDirectory};
use crate::read::names::Names;

/// The directory with an empty name.
pub(super) fn doubled<'e>(
    names: &Names,
    entries: &'e DirectoryEntries,
) -> Option<&'e Arc<TrackedDirectory>> {
    match &entries.find(names, b"", true)?.target {
        EntryTarget::TrackedDirectory(directory) => Some(directory),
        EntryTarget::File(..) | EntryTarget::Object(_) => None,
    }
}

impl TreeWriter<'_> {
    /// The entries for git, if they differ from the directory's. Makes the trees of merged
    /// directories.
    pub(super) fn shown(
        &mut self,
        entries: &DirectoryEntries,
    ) -> Result<Option<DirectoryEntries>, Refused> {
        let Some(inner) = doubled(self.names, entries) else { return Ok(None) };
        self.merge(entries, &inner.entries).map(Some)
    }

    /// `ours`, and the entries of `theirs` that it lacks. Directories in both are merged.
    fn merge(
        &mut self,
        ours: &DirectoryEntries,
        theirs: &DirectoryEntries,
    ) -> Result<DirectoryEntries, Refused> {
        let names = self.names;
        let mut merged = Vec::new();
        let (mut ours, mut theirs) = (ours.iter().peekable(), theirs.iter().peekable());
        loop {
            let order = match (ours.peek(), theirs.peek()) {
                (Some(our), Some(their)) => our.order(names, their),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return Ok(DirectoryEntries::from_vec(merged)),
            };
            let our = if order.is_le() { ours.next() } else { None };
            let their = if order.is_ge() { theirs.next() } else { None };
            let Some(entry) = our.or(their) else { continue };
            if names.get(entry.name).is_empty() {
                continue;
            }
            merged.push(match (&entry.target, their.map(|their| &their.target)) {
                (
                    EntryTarget::TrackedDirectory(our),
                    Some(EntryTarget::TrackedDirectory(their)),
                ) if !(our.is_plain && Arc::ptr_eq(our, their)) => {
                    let entries = self.merge(&our.entries, &their.entries)?;
                    let git = self.write_alone(&entries)?;
                    entry.with(EntryTarget::TrackedDirectory(Arc::new(TrackedDirectory::shown(
                        entries, git,
                    ))))
                }
                _ => entry.clone(),
            });
        }
    }
}
