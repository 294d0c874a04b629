//! The content of trees, entry by entry: mode, name and id, in either form.
//!
//! Trees have millions of entries of some forty bytes. So fields are copied with a fixed width,
//! past their end, and the next field overwrites the excess. That halves the time.

use std::ops::Range;

use gitpack::tree::Mode;

use super::Comparison;
use super::FileIds;
use super::Lead;
use super::Pieces;
use super::Step;
use super::TreeForm;
use crate::objects::directory::{DirectoryEntries, DirectoryEntry, EntryTarget};
use crate::read::files::{FileTable, Unconverted};
use crate::read::names::{Names, WINDOW};

/// Bytes that the last entry may write past its end.
const SLACK: usize = WINDOW + 32;
/// Memory that is kept when contents are removed, in bytes.
const KEPT_ROOM: usize = 4 << 20;

/// Contents of trees, one after the other.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// The bytes, followed by free room.
    bytes: Vec<u8>,
    len: usize,
}

impl Contents {
    /// All contents.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Removes all contents outside `range`.
    pub fn keep(&mut self, range: Range<usize>) {
        self.len = range.len();
        if range.start > 0 {
            self.bytes.copy_within(range, 0);
        }
        if self.bytes.len() > KEPT_ROOM {
            self.bytes.truncate(self.len);
            self.bytes.shrink_to_fit();
        }
    }

    /// Appends the content of the tree of `entries`. After an error, the content is incomplete.
    ///
    /// # Errors
    ///
    /// [`Unconverted`] with a file that has no blob.
    pub fn push(
        &mut self,
        form: &'static TreeForm,
        names: &Names,
        files: &FileTable,
        entries: &DirectoryEntries,
    ) -> Result<(), Unconverted> {
        self.make_room(form, entries);
        entries.iter().try_for_each(|entry| self.put_entry(form, names, files, entry))
    }

    /// As [`Self::push`], with an earlier tree of the directory, whose content begins at `start`.
    /// Returns the delta from that tree.
    ///
    /// # Errors
    ///
    /// As [`Self::push`].
    pub fn push_like(
        &mut self,
        form: &'static TreeForm,
        names: &Names,
        files: &FileTable,
        (start, before): (usize, &DirectoryEntries),
        entries: &DirectoryEntries,
    ) -> Result<Pieces, Unconverted> {
        self.make_room(form, entries);
        let mut pieces = Pieces::default();
        for step in Comparison::new(names, form, before, entries) {
            pieces.add(&step, form);
            match step {
                Step::Same { at, len } => {
                    self.bytes.copy_within(start + at..start + at + len, self.len);
                    self.len += len;
                }
                Step::New { entry, .. } => self.put_entry(form, names, files, entry)?,
            }
        }
        Ok(pieces)
    }

    fn make_room(&mut self, form: &'static TreeForm, entries: &DirectoryEntries) {
        let room = self.len + entries.content_len(form) + SLACK;
        if self.bytes.len() < room {
            self.bytes.resize(room, 0);
        }
    }

    /// Appends an entry. There must be room for it.
    #[inline]
    fn put_entry(
        &mut self,
        form: &'static TreeForm,
        names: &Names,
        files: &FileTable,
        entry: &DirectoryEntry,
    ) -> Result<(), Unconverted> {
        let [directory, file, executable, symlink] = &form.leads;
        let (lead, id) = match &entry.target {
            EntryTarget::TrackedDirectory(inner) => {
                (directory, inner.tree(form.purpose).oid.as_bytes())
            }
            EntryTarget::File(id, mode) => {
                let lead = match *mode {
                    Mode::EXECUTABLE => executable,
                    Mode::SYMLINK => symlink,
                    _ => file,
                };
                let id = match form.file_ids {
                    FileIds::Blobs => files.oid_in_place(*id).ok_or(Unconverted(*id))?.as_bytes(),
                    FileIds::Nodes => files.node_in_place(*id).as_bytes(),
                };
                (lead, id)
            }
            EntryTarget::Object(id) => match id.1 {
                Mode::EXECUTABLE => (executable, id.0.as_bytes()),
                Mode::SYMLINK => (symlink, id.0.as_bytes()),
                Mode::GITLINK => (&Lead::GITLINK, id.0.as_bytes()),
                _ => (file, id.0.as_bytes()),
            },
        };
        self.put(&lead.text);
        self.len += lead.len;
        match names.window(entry.name).filter(|_| entry.name_len() <= WINDOW) {
            Some(window) => self.put(window),
            None => self.put(names.get(entry.name)),
        }
        self.len += entry.name_len();
        self.put(&[0]);
        self.len += 1;
        self.put(id);
        self.len += id.len();
        Ok(())
    }

    /// Writes `bytes` behind the end.
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use gitpack::Oid;
    use gitpack::tree::push_entry;
    use revlog::Node;

    use super::super::Purpose;
    use super::*;
    use crate::metadata::MANIFEST_TREES;
    use crate::objects::directory::{Replay, TreeChange};

    #[test]
    fn contents_are_those_of_git_whatever_the_length_of_names() {
        let (mut names, mut files) = (Names::default(), FileTable::default());
        let mut listed = Vec::new();
        for len in (1..100).chain([WINDOW, 300]) {
            let name = vec![b'a' + u8::try_from(len % 26).expect("a letter"); len];
            let id = [u8::try_from(len % 256).expect("it is less") + 1; 20];
            let name_id = names.number(&name);
            let file = files.number(Node::from_bytes(id), name_id, |_| Some(Oid::from_bytes(id)));
            let mode = [Mode::FILE, Mode::EXECUTABLE, Mode::SYMLINK][len % 3];
            listed.push((name, file, mode, id));
        }
        listed.sort();
        listed.dedup();
        let changes: Vec<_> = listed
            .iter()
            .map(|(name, file, mode, _)| TreeChange {
                path: name,
                target: Some(EntryTarget::File(*file, *mode)),
            })
            .collect();
        let root = Replay::new(&names).apply(None, &changes).expect("it has files");
        for (form, prefix) in [(&TreeForm::GIT, &b""[..]), (&MANIFEST_TREES, b"_")] {
            let mut expected = b"".to_vec();
            for (name, _, mode, id) in &listed {
                let mode = match (form.purpose, *mode) {
                    (Purpose::Git, mode) => mode,
                    (Purpose::Aside, Mode::EXECUTABLE) => Mode(0o160_755),
                    (Purpose::Aside, Mode::SYMLINK) => Mode(0o160_000),
                    (Purpose::Aside, _) => Mode(0o160_644),
                };
                push_entry(&mut expected, mode, &[prefix, name].concat(), &Oid::from_bytes(*id));
            }
            let mut contents = Contents::default();
            for _ in 0..2 {
                contents.push(form, &names, &files, &root.entries).expect("blobs are known");
            }
            assert_eq!(contents.as_slice(), expected.repeat(2));
            contents.keep(expected.len()..2 * expected.len());
            assert_eq!(contents.as_slice(), expected);
        }
    }
}
