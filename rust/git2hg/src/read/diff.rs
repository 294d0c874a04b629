//! What commits change: their trees compared with those of their parents, subtree by subtree.
//!
//! Many comparisons go on at once, so that git is asked for many trees at a time. What is equal is not
//! read, so the cost is that of what differs. Trees that only the later side has are judged on the way.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::sync::Arc;

use gitpack::Oid;
use gitpack::tree::entry_order;
use revlog::manifest::MAX_DEPTH;

use crate::error::Result;
use crate::judge::history::MOST_DETAIL;
use crate::judge::tree::{TreeEntry, culprit};
use crate::read::trees::{
    ASKED_AT_ONCE, EntryKind, FileEntry, GitTrees, KeptTree, entries, kind_of,
};
use crate::reason::{Reason, TreeReasons};

/// What a path takes beside its bytes, about, while it is compared and converted.
const PATH_BYTES: usize = 600;
/// Longest path of a file that Mercurial stores: `hashencode()` in its `pathencode.c` takes less than 16 KiB
/// for three times `PATH.i.s` and a NUL.
pub(crate) const LONGEST_PATH: usize = (16 << 10) / 3 - 5;

/// A path that differs in two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub path: Box<[u8]>,
    pub old: Option<FileEntry>,
    pub new: Option<FileEntry>,
}

/// What is to be compared, and what was found.
#[derive(Debug, Default)]
pub(crate) struct TreeComparison {
    /// The tree before; empty if there is none.
    pub old: Option<Oid>,
    /// The tree after.
    pub new: Option<Oid>,
    /// Ascending by path.
    pub changes: Vec<Change>,
    /// Why the later tree does not come back, if the earlier one does; and the path of it.
    pub refused: Option<(Reason, Vec<u8>)>,
}

/// Two directories with one path, of which at least one is there.
struct Pair {
    comparison: usize,
    path: Arc<[u8]>,
    /// How many directories the path has.
    depth: usize,
    old: Option<Oid>,
    new: Option<Oid>,
}

impl Pair {
    /// The trees to be read: one or two.
    fn trees(&self) -> impl Iterator<Item = Oid> + use<> {
        [self.old, self.new].into_iter().flatten()
    }
}

/// Does all of `comparisons`, and answers about how many bytes the result takes; `None` if that is more than
/// `most_bytes`: some kilobytes of trees can name millions of files. `tick` is called now and then.
///
/// # Errors
///
/// As [`GitTrees::get_some`], and those of `tick`.
pub(crate) fn compare(
    trees: &GitTrees<impl Write, impl Read>,
    comparisons: &mut [TreeComparison],
    most_bytes: usize,
    mut tick: impl FnMut() -> Result<()>,
) -> Result<Option<usize>> {
    let mut bytes = 0;
    let mut pending: VecDeque<Pair> = VecDeque::new();
    for (comparison, TreeComparison { old, new, .. }) in comparisons.iter().enumerate() {
        if old != new {
            let path = Arc::from([]);
            pending.push_back(Pair { comparison, path, depth: 0, old: *old, new: *new });
        }
    }
    while !pending.is_empty() {
        let count = pending.len().min(ASKED_AT_ONCE / 2);
        let oids = pending.iter().take(count).flat_map(Pair::trees);
        let mut found = trees.get_some(&oids.collect::<Vec<Oid>>())?.into_iter();
        while pending.front().is_some_and(|pair| pair.trees().count() <= found.len()) {
            let Some(pair) = pending.pop_front() else { break };
            if pair.depth > 0 {
                bytes -= pair.path.len() + PATH_BYTES;
            }
            let old = pair.old.and_then(|_| found.next());
            let new = pair.new.and_then(|_| found.next());
            let comparison = &mut comparisons[pair.comparison];
            if let Some(tree) = &new {
                comparison.judge(tree, &pair.path);
            }
            walk(
                old.as_ref().map_or(&[], |tree| &tree.content),
                new.as_ref().map_or(&[], |tree| &tree.content),
                |name, old, new| {
                    let path = join(&pair.path, name);
                    let directory = |entry: Option<(EntryKind, Oid)>| match entry {
                        Some((EntryKind::Directory, oid)) => Some(oid),
                        _ => None,
                    };
                    let file = |entry: Option<(EntryKind, Oid)>| match entry {
                        Some((EntryKind::File(flag), blob)) => Some((flag, blob)),
                        _ => None,
                    };
                    if file(old).is_some() || file(new).is_some() {
                        let (old, new) = (file(old), file(new));
                        if new.is_some() && path.len() > LONGEST_PATH {
                            return comparison.refuse(Reason::Path, path);
                        }
                        bytes += path.len() + PATH_BYTES;
                        comparison.changes.push(Change { path: path.clone().into(), old, new });
                    }
                    let (old, new) = (directory(old), directory(new));
                    if old.is_some() || new.is_some() {
                        if pair.depth == MAX_DEPTH {
                            comparison.refuse(Reason::Path, path);
                            return;
                        }
                        let (comparison, depth) = (pair.comparison, pair.depth + 1);
                        bytes += path.len() + PATH_BYTES;
                        let path = Arc::from(&*path);
                        pending.push_back(Pair { comparison, path, depth, old, new });
                    }
                },
            );
            if bytes > most_bytes {
                return Ok(None);
            }
        }
        tick()?;
    }
    for TreeComparison { changes, .. } in comparisons {
        changes.sort_unstable_by(|one, two| one.path.cmp(&two.path));
    }
    Ok(Some(bytes))
}

impl TreeComparison {
    /// Notes the first reason that a tree has by itself.
    fn judge(&mut self, tree: &KeptTree, path: &[u8]) {
        let is_root = path.is_empty();
        let own = |reasons: TreeReasons| {
            let found = Reason::ALL.into_iter().find(|reason| reasons.has(*reason));
            if is_root { reasons.of_root() } else { found }
        };
        let Some(reason) = own(tree.reasons) else { return };
        let name = culprit(&tree.content, reason, is_root).unwrap_or_default();
        self.refuse(reason, join(path, name));
    }

    /// Notes a reason, unless there is one before it.
    fn refuse(&mut self, reason: Reason, mut path: Vec<u8>) {
        if self.refused.as_ref().is_none_or(|(before, _)| reason < *before) {
            path.truncate(MOST_DETAIL);
            self.refused = Some((reason, path));
        }
    }
}

/// Tells `each` the entries that differ, by name and by whether they are directories.
fn walk<'a>(
    old: &'a [u8],
    new: &'a [u8],
    mut each: impl FnMut(&'a [u8], Option<(EntryKind, Oid)>, Option<(EntryKind, Oid)>),
) {
    let (mut old, mut new) = (entries(old).peekable(), entries(new).peekable());
    // a mode that is refused gives no file
    let known = |entry: TreeEntry<'_>| kind_of(entry.mode).map(|kind| (kind, entry.oid));
    let is_directory = |entry: &TreeEntry<'_>| kind_of(entry.mode) == Some(EntryKind::Directory);
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(two)) => {
                entry_order(one.name, is_directory(one), two.name, is_directory(two))
            }
        };
        let before = if order.is_le() { old.next() } else { None };
        let after = if order.is_ge() { new.next() } else { None };
        let name = before.as_ref().or(after.as_ref()).map_or(&b""[..], |entry| entry.name);
        let (before, after) = (before.and_then(known), after.and_then(known));
        if before != after {
            each(name, before, after);
        }
    }
}

/// A path with a name after it.
pub(crate) fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    let mut joined = Vec::with_capacity(path.len() + name.len() + 1);
    if !path.is_empty() {
        joined.extend_from_slice(path);
        joined.push(b'/');
    }
    joined.extend_from_slice(name);
    joined
}
