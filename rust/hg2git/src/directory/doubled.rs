//! Directories with an empty name, which paths with `//` lie in.
//!
//! git cannot have such a name: the tree is shown as a part of the directory that it is in, as
//! git-cinnabar does it, which drops directories with empty names in both.

use std::cmp::Ordering;
use std::sync::Arc;

use gitpack::Oid;

use super::content::tree_oids;
use super::{Context, Directory, Entries, Entry, Target, Tree, Unconverted};
use crate::trees::{Storage, View};

impl Context<'_> {
    /// The entries that git is shown, if they are others.
    pub(super) fn shown(&mut self, entries: &Entries) -> Result<Option<Entries>, Unconverted> {
        let Some(inner) = self.doubled(entries).cloned() else { return Ok(None) };
        self.merge(entries, &inner.entries).map(Some)
    }

    /// The directory with an empty name.
    pub(super) fn doubled<'e>(&self, entries: &'e Entries) -> Option<&'e Arc<Directory>> {
        match &entries.find(self.names, b"", true)?.target {
            Target::Directory(directory) => Some(directory),
            Target::File(..) => None,
        }
    }

    /// `ours` with those of `theirs` that are not in it; two directories become one.
    fn merge(&mut self, ours: &Entries, theirs: &Entries) -> Result<Entries, Unconverted> {
        let mut merged = Vec::new();
        let (mut ours, mut theirs) = (ours.iter().peekable(), theirs.iter().peekable());
        loop {
            let order = match (ours.peek(), theirs.peek()) {
                (Some(our), Some(their)) => our.order(self.names, their),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return Ok(Entries::from_vec(self.names, merged)),
            };
            let our = if order.is_le() { ours.next() } else { None };
            let their = if order.is_ge() { theirs.next() } else { None };
            let Some(Entry { name, target }) = our.or(their) else { continue };
            if self.names.get(*name).is_empty() {
                continue;
            }
            let target = match (target, their.map(|their| &their.target)) {
                (Target::Directory(our), Some(Target::Directory(their)))
                    if !(our.is_plain && Arc::ptr_eq(our, their)) =>
                {
                    let entries = self.merge(&our.entries, &their.entries)?;
                    let content = self.content(&entries)?;
                    let [oid] = tree_oids([&content]);
                    let git = self.store(View::Git, None, &entries, content, oid);
                    // no manifest has it; nor is it kept, but in what git is shown
                    let manifest = Tree { oid: Oid::EMPTY_TREE, storage: Storage::ELSEWHERE };
                    Target::Directory(Arc::new(Directory {
                        entries,
                        git,
                        manifest,
                        is_plain: false,
                    }))
                }
                (target, _) => target.clone(),
            };
            merged.push(Entry { name: *name, target });
        }
    }
}
