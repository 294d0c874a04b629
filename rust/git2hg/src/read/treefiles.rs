//! The files of a tree at many paths.

use std::io::{Read, Write};

use gitpack::Oid;
use gitpack::tree::entry_order;

use crate::error::Result;
use crate::judge::tree::TreeEntry;
use crate::read::trees::{EntryKind, FileEntry, GitTrees, entries, kind_of};

/// The files at `paths` below `root`; paths ascend and are all different. Each directory is read once,
/// and both it and the paths below it only forwards. `tick` is called after each.
///
/// # Errors
///
/// As [`GitTrees::get_some`], and those of `tick`.
pub(crate) fn tree_files(
    trees: &GitTrees<impl Write, impl Read>,
    root: Oid,
    paths: &[&[u8]],
    mut tick: impl FnMut() -> Result<()>,
) -> Result<Vec<Option<FileEntry>>> {
    let mut found = vec![None; paths.len()];
    // directories, which of the paths are below them, and the length of what is above those
    let mut pending = vec![(root, 0..paths.len(), 0)];
    while let Some((directory, range, above)) = pending.pop() {
        if range.is_empty() {
            continue;
        }
        let tree = trees.get(directory)?;
        let mut there = entries(&tree.content).peekable();
        let mut at = range.start;
        while at < range.end {
            let rest = &paths[at][above..];
            let slash = memchr::memchr(b'/', rest);
            let name = &rest[..slash.unwrap_or(rest.len())];
            let is_below = |path: &&&[u8]| path[above..].starts_with(&rest[..=name.len()]);
            let count = match slash {
                Some(_) => paths[at..range.end].iter().take_while(is_below).count(),
                None => 1,
            };
            let order_of = |entry: &TreeEntry<'_>| {
                let is_directory = kind_of(entry.mode) == Some(EntryKind::Directory);
                entry_order(entry.name, is_directory, name, slash.is_some())
            };
            while there.next_if(|entry| order_of(entry).is_lt()).is_some() {}
            if let Some(entry) = there.next_if(|entry| order_of(entry).is_eq()) {
                match kind_of(entry.mode) {
                    Some(EntryKind::File(flag)) => found[at] = Some((flag, entry.oid)),
                    Some(EntryKind::Directory) => {
                        pending.push((entry.oid, at..at + count, above + name.len() + 1));
                    }
                    None => {}
                }
            }
            at += count;
        }
        tick()?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(mode: &str, name: &str, byte: u8) -> Vec<u8> {
        [mode.as_bytes(), b" ", name.as_bytes(), b"\0", &[byte; 20]].concat()
    }

    /// git's answer when it is asked for a tree.
    fn tree(byte: u8, entries: &[Vec<u8>]) -> Vec<u8> {
        let (oid, content) = (Oid::from_bytes([byte; 20]), entries.concat());
        [format!("{oid} tree {}\n", content.len()).as_bytes(), &content, b"\n"].concat()
    }

    #[test]
    fn each_directory_is_read_once_for_all_files() {
        let root = [
            entry("100644", "a", 10),
            entry("100755", "d-", 11),
            entry("40000", "d", 2),
            entry("100644", "d0", 12),
            entry("160000", "m", 15),
            entry("40000", "z", 3),
        ];
        let (below, last) = ([entry("120000", "x", 13), entry("100644", "y", 14)], []);
        let given = [tree(1, &root), tree(3, &last), tree(2, &below)].concat();
        let mut requests = Vec::new();
        let trees = GitTrees::new(&mut requests, &*given, 0);
        let expected: [(&str, Option<u8>); 11] = [
            ("a", Some(10)),
            ("a/b", None),
            ("d", None),
            ("d-", Some(11)),
            ("d/w", None),
            ("d/x", Some(13)),
            ("d/y", Some(14)),
            ("d0", Some(12)),
            ("m", None),
            ("m/x", None),
            ("z/no/x", None),
        ];
        let paths = expected.map(|(path, _)| path.as_bytes());
        let mut ticks = 0;
        let tick = || {
            ticks += 1;
            Ok(())
        };
        let found = tree_files(&trees, Oid::from_bytes([1; 20]), &paths, tick);
        let found = found.expect("is read");
        let bytes: Vec<_> = found.iter().map(|it| it.map(|(_, oid)| oid.as_bytes()[0])).collect();
        assert_eq!(bytes, expected.map(|(_, byte)| byte));
        drop(trees);
        let asked = String::from_utf8(requests).expect("ascii");
        let asked = asked.lines().filter_map(|line| line.split(' ').nth(1)?.get(..2));
        assert_eq!((asked.collect::<String>().as_str(), ticks), ("010302", 3));
    }
}
