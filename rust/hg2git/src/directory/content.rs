//! What the trees of a directory contain, their ids, and their way to the writer.

use gitpack::tree::{Mode, push_entry};
use gitpack::{Kind, Oid, object_header};
use sha1lanes::Message;

use super::{Context, Directory, Entries, Target, Tree, Unconverted};
use crate::trees::{MANIFEST_PREFIX, Storage, View, manifest_mode};

impl Context<'_> {
    /// The directory with these entries, which was `before`.
    pub(super) fn make(
        &mut self,
        before: Option<&Directory>,
        entries: Entries,
    ) -> Result<Directory, Unconverted> {
        let is_plain = entries.are_plain();
        let shown = if is_plain { None } else { self.shown(&entries)? };
        let shown = shown.as_ref().unwrap_or(&entries);
        let (content, manifest_content) = (self.content(shown)?, self.manifest_content(&entries));
        let [oid, manifest_oid] = tree_oids([&content, &manifest_content]);
        // a delta counts in the entries before, which have to be those that were written
        let shown_before =
            before.filter(|before| before.is_plain || self.doubled(&before.entries).is_none());
        let git = self.store(View::Git, shown_before, shown, content, oid);
        let manifest = self.store(View::Manifest, before, &entries, manifest_content, manifest_oid);
        Ok(Directory { entries, git, manifest, is_plain })
    }

    /// The content of git's tree of `entries`.
    pub(super) fn content(&self, entries: &Entries) -> Result<Vec<u8>, Unconverted> {
        let mut content = Vec::with_capacity(entries.content_len(View::Git));
        for entry in entries.iter() {
            let name = self.names.get(entry.name);
            match &entry.target {
                Target::Directory(directory) => {
                    push_entry(&mut content, Mode::DIRECTORY, name, &directory.git.oid);
                }
                Target::File(file, mode) => {
                    let oid = self.files.oid(*file).ok_or(Unconverted(*file))?;
                    push_entry(&mut content, *mode, name, &oid);
                }
            }
        }
        Ok(content)
    }

    /// The content of the tree that tells this part of the manifest.
    fn manifest_content(&self, entries: &Entries) -> Vec<u8> {
        let mut content = Vec::with_capacity(entries.content_len(View::Manifest));
        let mut prefixed = vec![MANIFEST_PREFIX];
        for entry in entries.iter() {
            prefixed.truncate(1);
            prefixed.extend_from_slice(self.names.get(entry.name));
            let (mode, oid) = match &entry.target {
                Target::Directory(directory) => (Mode::DIRECTORY, directory.manifest.oid),
                Target::File(file, mode) => {
                    (manifest_mode(*mode), Oid::from_bytes(*self.files.node(*file).as_bytes()))
                }
            };
            push_entry(&mut content, mode, &prefixed, &oid);
        }
        content
    }

    /// Hands a tree to the writer, unless the directory had it before.
    pub(super) fn store(
        &mut self,
        view: View,
        before: Option<&Directory>,
        entries: &Entries,
        content: Vec<u8>,
        oid: Oid,
    ) -> Tree {
        let same = before.map(|before| before.tree(view)).filter(|tree| tree.oid == oid);
        let storage = match (same, &mut self.writer) {
            (Some(same), _) => same.storage.clone(),
            (None, Some(writer)) => writer.write(self.names, view, before, entries, content, oid),
            (None, None) => Storage::ELSEWHERE,
        };
        Tree { oid, storage }
    }
}

/// The oids of trees with these contents, hashed side by side.
pub(super) fn tree_oids<const N: usize>(contents: [&[u8]; N]) -> [Oid; N] {
    let heads = contents.map(|content| object_header(Kind::Tree, content.len() as u64));
    let mut digests = [[0; 20]; N];
    let messages =
        std::array::from_fn::<_, N, _>(|at| Message { head: &heads[at], body: contents[at] });
    sha1lanes::best().digest(&messages, &mut digests);
    digests.map(Oid::from_bytes)
}
