//! Trees with other files: directories are read, changed, and hashed again.

use std::io::{Read, Write};

use gitpack::tree::{Mode, entry_order, push_entry};
use gitpack::{ObjectKind, Oid, object_header};
use revlog::manifest::Flag;
use sha1lanes::{Message, digest_one};

use crate::judge::tree::TreeEntry;
use crate::read::trees::{EntryKind, FileEntry, GitTrees, entries, kind_of};
use crate::verify::{Checked, Problem, fault};

/// A path below a directory, and the file that comes there; `None` if none does.
pub(crate) type FileEdit<'a> = (&'a [u8], Option<FileEntry>);

/// The directory that `edits`, ascending by path, make of `tree`; `None` if it is empty.
///
/// Recurses as deep as paths have directories, which the lines of manifests bound.
pub(crate) fn edited(
    trees: &GitTrees<impl Write, impl Read>,
    tree: Option<Oid>,
    edits: &[FileEdit<'_>],
) -> Checked<Option<Oid>> {
    let before = match tree {
        Some(oid) => Some(trees.get(oid)?),
        None => None,
    };
    let mut files = before.iter().flat_map(|tree| entries(&tree.content)).peekable();
    let mut content = Vec::new();
    let keep = |content: &mut Vec<u8>, TreeEntry { mode, name, oid, .. }: TreeEntry<'_>| {
        let kind = kind_of(mode).ok_or_else(|| fault("a mode that no manifest has"))?;
        push_entry(content, mode_of(kind), name, &oid);
        Ok::<_, Problem>(())
    };
    // both are in one order: a directory is where its name with a slash is
    for group in edits.chunk_by(|one, two| is_below_one(one.0, two.0)) {
        let (name, is_directory) = match memchr::memchr(b'/', group[0].0) {
            Some(end) => (&group[0].0[..end], true),
            None => (group[0].0, false),
        };
        let order_of = |entry: &TreeEntry<'_>| {
            let is_one = kind_of(entry.mode) == Some(EntryKind::Directory);
            entry_order(entry.name, is_one, name, is_directory)
        };
        while let Some(entry) = files.next_if(|entry| order_of(entry).is_lt()) {
            keep(&mut content, entry)?;
        }
        let there = files.next_if(|entry| order_of(entry).is_eq()).map(|entry| entry.oid);
        let after = if is_directory {
            let below: Vec<FileEdit<'_>> =
                group.iter().map(|(path, entry)| (&path[name.len() + 1..], *entry)).collect();
            edited(trees, there, &below)?.map(|oid| (EntryKind::Directory, oid))
        } else {
            if there.is_none() && group[0].1.is_none() {
                return Err(fault("a file is removed that is not there"));
            }
            group[0].1.map(|(flag, oid)| (EntryKind::File(flag), oid))
        };
        if let Some((kind, oid)) = after {
            push_entry(&mut content, mode_of(kind), name, &oid);
        }
    }
    for entry in files {
        keep(&mut content, entry)?;
    }
    if content.is_empty() {
        return Ok(None);
    }
    let head = object_header(ObjectKind::Tree, content.len() as u64);
    let oid = Oid::from_bytes(digest_one(Message { head: &head, body: &content }));
    trees.add(oid, content);
    Ok(Some(oid))
}

/// Whether two paths go through one directory here.
fn is_below_one(one: &[u8], two: &[u8]) -> bool {
    memchr::memchr(b'/', one).is_some_and(|end| two.starts_with(&one[..=end]))
}

const fn mode_of(kind: EntryKind) -> Mode {
    match kind {
        EntryKind::Directory => Mode::DIRECTORY,
        EntryKind::File(Flag::Regular) => Mode::FILE,
        EntryKind::File(Flag::Executable) => Mode::EXECUTABLE,
        EntryKind::File(Flag::Symlink) => Mode::SYMLINK,
    }
}
