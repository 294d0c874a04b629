//! Changes between the directories of two manifests.

use std::cmp::Ordering;

use dialect::exact::tree::{
    TrackedFile, TreeEntries, TreeItem, TreeProblem, file_of, is_directory,
};
use gitpack::Oid;
use gitpack::tree::Mode;
use revlog::Rev;

use super::plain::Plain;
use super::{ExactTrees, flag_of};
use crate::error::{Error, Result};
use crate::objects::directory::{DirectoryEntries, DirectoryEntry, EntryTarget, Walk};
use crate::objects::trees::TreeForm;

/// Changed file with its path; `None` if it is removed.
pub(super) type PathChange = (Vec<u8>, Option<TrackedFile>);

/// Changed files and submodules.
#[derive(Default)]
pub(super) struct DirectoryChanges {
    pub files: Vec<PathChange>,
    /// Submodules; `None` for one that is removed.
    pub links: Vec<(Vec<u8>, Option<Oid>)>,
}

impl DirectoryChanges {
    /// Adds the change of an entry that is no directory: its modes and ids, `None` without it.
    fn add(&mut self, path: &[u8], was: Option<(Mode, Oid)>, is: Option<(Mode, Oid)>) {
        if was == is {
            return;
        }
        let is_link = |(mode, _): &(Mode, Oid)| *mode == Mode::GITLINK;
        let [old, new] = [was, is].map(|item| item.filter(|item| !is_link(item)));
        if old.is_some() || new.is_some() {
            self.files.push((path.into(), new.map(|(mode, oid)| (flag_of(mode), oid))));
        }
        let [old, new] = [was, is].map(|item| item.filter(is_link));
        if old.is_some() || new.is_some() {
            self.links.push((path.into(), new.map(|(_, oid)| oid)));
        }
    }
}

impl ExactTrees<'_> {
    /// The changes from one directory to another; `None` if it has no git tree.
    pub(super) fn changes(
        &self,
        rev: Rev,
        one: &Plain,
        two: &Plain,
    ) -> Result<Option<DirectoryChanges>> {
        let mut changes = DirectoryChanges::default();
        match self.compare(rev, (one, two), &mut Vec::new(), &mut changes) {
            Ok(()) => Ok(Some(changes)),
            Err(TreeProblem::Unfit) => Ok(None),
            Err(TreeProblem::Unreadable(error)) => Err(error),
        }
    }

    /// The entries of a directory, if they can be compared in order: all of them are in its tree,
    /// and no file has the name of a directory.
    fn ordered<'p>(
        &self,
        plain: &'p Plain,
        none: &'p DirectoryEntries,
    ) -> Option<&'p DirectoryEntries> {
        let directory = match plain {
            Plain::Empty => return Some(none),
            Plain::Tracked(directory) if directory.is_plain => directory,
            Plain::Tracked(_) | Plain::Stored(_) => return None,
        };
        (!directory.entries.have_shared_name(self.names)).then_some(&directory.entries)
    }

    /// Adds the files that differ between two directories of manifests.
    fn compare_ordered(
        &self,
        rev: Rev,
        (one, two): (&DirectoryEntries, &DirectoryEntries),
        path: &mut Vec<u8>,
        changes: &mut DirectoryChanges,
    ) -> Result<(), TreeProblem<Error>> {
        let (mut old, mut new) = (Walk::new(one), Walk::new(two));
        loop {
            old.skip_identical(&mut new, &TreeForm::GIT);
            let (was, is) = match (old.peek(), new.peek()) {
                (Some(was), Some(is)) => match was.order(self.names, is) {
                    Ordering::Less => (Some(was), None),
                    Ordering::Equal => (Some(was), Some(is)),
                    Ordering::Greater => (None, Some(is)),
                },
                one => one,
            };
            let Some(entry) = was.or(is) else { return Ok(()) };
            old.step(usize::from(was.is_some()));
            new.step(usize::from(is.is_some()));
            let len = path.len();
            if len > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(self.names.get(entry.name));
            if entry.target.is_directory() {
                let of = |entry: Option<&DirectoryEntry>| match entry.map(|entry| &entry.target) {
                    Some(EntryTarget::TrackedDirectory(below)) => Plain::of(below),
                    _ => Plain::Empty,
                };
                self.compare(rev, (&of(was), &of(is)), path, changes)?;
            } else {
                let item = |entry: Option<&DirectoryEntry>| {
                    let item = entry.map(|entry| self.item(rev, &entry.target)).transpose();
                    item.map_err(TreeProblem::Unreadable)
                };
                changes.add(path, item(was)?, item(is)?);
            }
            path.truncate(len);
        }
    }

    /// Adds the files that differ between two directories.
    fn compare(
        &self,
        rev: Rev,
        (one, two): (&Plain, &Plain),
        path: &mut Vec<u8>,
        changes: &mut DirectoryChanges,
    ) -> Result<(), TreeProblem<Error>> {
        if one.oid() == two.oid() {
            return Ok(());
        }
        let none = DirectoryEntries::default();
        if let (Some(one), Some(two)) = (self.ordered(one, &none), self.ordered(two, &none)) {
            return self.compare_ordered(rev, (one, two), path, changes);
        }
        let of = |plain| self.content(rev, plain).map_err(TreeProblem::Unreadable);
        let (before, after) = (of(one)?, of(two)?);
        // a file and a directory may have one name, as in the manifests of changesets between the
        // parents of a commit
        let entries = |content| TreeEntries::parse(content).ok_or(TreeProblem::Unfit);
        let (before, after) = (entries(&before)?, entries(&after)?);
        let mut names: Vec<_> = before.names().chain(after.names()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let entries = [before.get(name), after.get(name)];
            if entries[0] == entries[1] {
                continue;
            }
            let len = path.len();
            if len > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(name);
            let [was, is] = entries.map(|entry| entry.and_then(file_of));
            if was.is_some() || is.is_some() {
                changes.files.push((path.clone(), is));
            }
            let [was, is] = entries.map(|entry| entry.and_then(link_of));
            if was.is_some() || is.is_some() {
                changes.links.push((path.clone(), is));
            }
            let [old, new] = entries.map(|entry| entry.filter(|(mode, _)| is_directory(mode)));
            if old.is_some() || new.is_some() {
                let of = |plain, entry: Option<&TreeItem<'_>>| {
                    entry.map_or(Plain::Empty, |(_, oid)| self.below(plain, name, *oid))
                };
                self.compare(rev, (&of(one, old), &of(two, new)), path, changes)?;
            }
            path.truncate(len);
        }
        Ok(())
    }
}

/// The commit of another repository that an entry is, if it is one.
fn link_of((mode, oid): &TreeItem<'_>) -> Option<Oid> {
    (**mode == *b"160000").then_some(*oid)
}
