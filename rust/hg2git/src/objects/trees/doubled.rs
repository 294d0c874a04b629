//! Directories with an empty name, which paths with `//` lie in.
//!
//! git cannot have such a name: the tree is shown as a part of the directory that it is in, as
//! git-cinnabar does it, which drops directories with empty names in both.

use std::cmp::Ordering;
use std::sync::Arc;

use super::Refused;
use super::TreeWriter;
use crate::objects::directory::{Directory, Entries, Target};
use crate::read::names::Names;

/// The directory with an empty name.
pub(super) fn doubled<'e>(names: &Names, entries: &'e Entries) -> Option<&'e Arc<Directory>> {
    match &entries.find(names, b"", true)?.target {
        Target::Directory(directory) => Some(directory),
        Target::File(..) => None,
    }
}

impl TreeWriter<'_> {
    /// The entries that git is shown of a directory, if they are others. Makes the trees that are
    /// in it and in no directory.
    pub(super) fn shown(&mut self, entries: &Entries) -> Result<Option<Entries>, Refused> {
        let Some(inner) = doubled(self.names, entries) else { return Ok(None) };
        self.merge(entries, &inner.entries).map(Some)
    }

    /// `ours` with those of `theirs` that are not in it; two directories become one.
    fn merge(&mut self, ours: &Entries, theirs: &Entries) -> Result<Entries, Refused> {
        let names = self.names;
        let mut merged = Vec::new();
        let (mut ours, mut theirs) = (ours.iter().peekable(), theirs.iter().peekable());
        loop {
            let order = match (ours.peek(), theirs.peek()) {
                (Some(our), Some(their)) => our.order(names, their),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return Ok(Entries::from_vec(merged)),
            };
            let our = if order.is_le() { ours.next() } else { None };
            let their = if order.is_ge() { theirs.next() } else { None };
            let Some(entry) = our.or(their) else { continue };
            if names.get(entry.name).is_empty() {
                continue;
            }
            merged.push(match (&entry.target, their.map(|their| &their.target)) {
                (Target::Directory(our), Some(Target::Directory(their)))
                    if !(our.is_plain && Arc::ptr_eq(our, their)) =>
                {
                    let entries = self.merge(&our.entries, &their.entries)?;
                    let git = self.write_alone(&entries)?;
                    entry.with(Target::Directory(Arc::new(Directory::shown(entries, git))))
                }
                _ => entry.clone(),
            });
        }
    }
}
