//! Differences of trees: the changes of commits against their parents.
//!
//! Many trees are compared at once, so that git is asked for many trees at a time. Equal subtrees
//! are not read. Trees that only the new side has are judged on the way.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::sync::Arc;

use gitpack::Oid;
use gitpack::tree::entry_order;
use revlog::manifest::MAX_DEPTH;

use crate::error::Result;
use crate::judge::reasons::TreeReasons;
use crate::judge::tree::{LONGEST_PATH, TreeEntry};
use crate::read::trees::{ASKED_AT_ONCE, EntryKind, FileEntry, GitTrees, entries};

/// Memory of a path beside its bytes, about, while it is compared and converted.
const PATH_BYTES: usize = 600;
/// Path that differs in two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub path: Box<[u8]>,
    pub old: Option<FileEntry>,
    pub new: Option<FileEntry>,
}

impl Change {
    /// New blob, unless the old tree has it at this path.
    pub fn own_blob(&self) -> Option<Oid> {
        let (_, blob) = self.new?;
        self.old.is_none_or(|(_, old)| old != blob).then_some(blob)
    }
}

/// Changes of a commit against its parents.
#[derive(Debug)]
pub(crate) enum CommitChanges {
    /// Against the only parent, or against the empty tree.
    One(Vec<Change>),
    /// Against two parents; paths ascending.
    Two(Vec<MergedPath>),
    /// Against more parents: the steps of a chain of merges, in their order.
    Chain(Vec<CommitChanges>),
    /// Against the first of any parents.
    First(FirstParentChanges),
}

/// Changes of a commit against its first parent.
#[derive(Debug)]
pub(crate) struct FirstParentChanges {
    /// Files, ascending by path.
    pub files: Vec<Change>,
    /// Gitlinks, ascending by path; `None` for removed ones.
    pub links: Vec<(Box<[u8]>, Option<Oid>)>,
    /// Files in the root directory; `None` if the parent has the same tree.
    pub root: Option<RootFiles>,
    /// Number of changesets that need the contents.
    pub times: usize,
    /// Whether trees with these changes may have entries that manifests do not have, or lack some.
    pub is_odd: bool,
}

/// Entries of the root directory that submodules and subrepositories are read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RootFiles {
    /// `.gitmodules`.
    pub modules: Option<(EntryKind, Oid)>,
    /// `.hgsub`.
    pub sub: Option<(EntryKind, Oid)>,
    /// `.hgsubstate`.
    pub state: Option<(EntryKind, Oid)>,
}

impl RootFiles {
    /// Finds them in a root directory.
    pub fn of(trees: &GitTrees<impl Write, impl Read>, content: &[u8]) -> Self {
        let mut found = Self::default();
        for entry in entries(content).take_while(|entry| entry.name <= b".hgsubstate") {
            let place = match entry.name {
                b".gitmodules" => &mut found.modules,
                b".hgsub" => &mut found.sub,
                b".hgsubstate" => &mut found.state,
                _ => continue,
            };
            *place = trees.kind_of(entry.mode).map(|kind| (kind, entry.oid));
        }
        found
    }
}

/// Path that differs from at least one of two parents.
#[derive(Debug)]
pub(crate) struct MergedPath {
    pub path: Box<[u8]>,
    pub new: Option<FileEntry>,
    pub olds: [Option<FileEntry>; 2],
}

impl MergedPath {
    /// New blob that neither parent has at this path.
    pub fn own_blob(&self) -> Option<Oid> {
        let (_, blob) = self.new?;
        let is_old = |old: &Option<FileEntry>| old.is_some_and(|(_, other)| other == blob);
        (!self.olds.iter().any(is_old)).then_some(blob)
    }
}

impl CommitChanges {
    /// Combines one list for each parent, or one for a root commit.
    pub fn new(mut lists: Vec<Vec<Change>>) -> Self {
        if lists.len() > 2 {
            // later steps merge a parent with the result
            let last = lists.split_off(lists.len() - 2);
            let rest = lists.into_iter().rev().map(|list| vec![list, Vec::new()]);
            return Self::Chain(std::iter::once(last).chain(rest).map(Self::new).collect());
        }
        let second = if lists.len() > 1 { lists.pop() } else { None };
        let first = lists.pop().unwrap_or_default();
        let Some(second) = second else { return Self::One(first) };
        let (mut first, mut second) = (first.into_iter().peekable(), second.into_iter().peekable());
        let mut merged = Vec::new();
        loop {
            let order = match (first.peek(), second.peek()) {
                (None, None) => return Self::Two(merged),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(one), Some(two)) => one.path.cmp(&two.path),
            };
            let one = if order.is_le() { first.next() } else { None };
            let two = if order.is_ge() { second.next() } else { None };
            // unlisted paths are equal in that parent
            let new = one.as_ref().or(two.as_ref()).and_then(|change| change.new);
            let olds = [&one, &two].map(|side| side.as_ref().map_or(new, |change| change.old));
            if let Some(Change { path, .. }) = one.or(two) {
                merged.push(MergedPath { path, new, olds });
            }
        }
    }

    /// Blobs to be prefetched, with their paths, in the order of use.
    pub fn blobs(&self) -> Vec<(&[u8], Oid)> {
        match self {
            Self::One(changes) => changes
                .iter()
                .filter_map(|change| Some((&*change.path, change.own_blob()?)))
                .collect(),
            Self::Two(paths) => paths
                .iter()
                .filter_map(|change| Some((&*change.path, change.own_blob()?)))
                .collect(),
            Self::First(FirstParentChanges { files, times, .. }) => (0..*times)
                .flat_map(|_| files)
                .filter_map(|change| Some((&*change.path, change.own_blob()?)))
                .collect(),
            Self::Chain(steps) => steps.iter().flat_map(Self::blobs).collect(),
        }
    }
}

/// Comparison of two trees.
#[derive(Debug, Default)]
pub(crate) struct TreeComparison {
    /// Old tree, if any.
    pub old: Option<Oid>,
    /// New tree, if any.
    pub new: Option<Oid>,
    /// Differences, ascending by path.
    pub changes: Vec<Change>,
    /// Gitlinks that differ, ascending by path; `None` for removed ones.
    pub links: Vec<(Box<[u8]>, Option<Oid>)>,
    /// Files in the root directory of the new tree, if trees are read leniently.
    pub root: Option<RootFiles>,
    /// Whether one of the trees that differ has entries that a manifest does not have.
    pub is_odd: bool,
    /// Whether commits with the new tree are refused, given that those with the old one are not.
    pub is_refused: bool,
}

/// Two directories at one path, of which one may be missing.
struct Pair {
    comparison: usize,
    path: Arc<[u8]>,
    /// Number of directories in the path.
    depth: usize,
    /// Whether Mercurial refuses paths of files here.
    is_refused: bool,
    old: Option<Oid>,
    new: Option<Oid>,
}

impl Pair {
    /// Trees to be read: one or two.
    fn trees(&self) -> impl Iterator<Item = Oid> + use<> {
        [self.old, self.new].into_iter().flatten()
    }
}

/// Runs all `comparisons`, and returns the memory of the result, about. Returns `None` above
/// `most_bytes`: some kilobytes of trees can name millions of files. Calls `tick` regularly.
///
/// # Errors
///
/// The errors of [`GitTrees::get_some`] and `tick`.
pub(crate) fn compare(
    trees: &GitTrees<impl Write, impl Read>,
    comparisons: &mut [TreeComparison],
    most_bytes: usize,
    mut tick: impl FnMut() -> Result<()>,
) -> Result<Option<usize>> {
    let rules = trees.rules();
    let mut bytes = 0;
    let mut pending: VecDeque<Pair> = VecDeque::new();
    for (comparison, TreeComparison { old, new, .. }) in comparisons.iter().enumerate() {
        if old != new {
            let path = Arc::from([]);
            let (old, new) = (*old, *new);
            pending.push_back(Pair { comparison, path, depth: 0, is_refused: false, old, new });
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
            comparison.is_odd |=
                [&old, &new].into_iter().flatten().any(|tree| tree.reasons.is_odd());
            if let Some(tree) = &new {
                if !trees.is_lenient() {
                    comparison.is_refused |= tree.reasons.refuse(pair.depth == 0);
                } else if pair.depth == 0 {
                    comparison.root = Some(RootFiles::of(trees, &tree.content));
                }
            }
            walk(
                |mode| trees.kind_of(mode),
                old.as_ref().map_or(&[], |tree| &tree.content),
                new.as_ref().map_or(&[], |tree| &tree.content),
                |name, old, new| {
                    let mut path = join(&pair.path, name);
                    let directory = |entry: Option<(EntryKind, Oid)>| match entry {
                        Some((EntryKind::Directory, oid)) => Some(oid),
                        _ => None,
                    };
                    let file = |entry: Option<(EntryKind, Oid)>| match entry {
                        Some((EntryKind::File(flag), blob)) => Some((flag, blob)),
                        _ => None,
                    };
                    if [old, new].iter().flatten().any(|(kind, _)| *kind == EntryKind::Gitlink) {
                        let link = new.filter(|(kind, _)| *kind == EntryKind::Gitlink);
                        bytes += path.len() + PATH_BYTES;
                        comparison.links.push((path.clone().into(), link.map(|(_, oid)| oid)));
                    }
                    // the same file with a mode of another form is a change for imports only
                    let (old_file, new_file) = (file(old), file(new));
                    let directories = [directory(old), directory(new)];
                    let has_directory = directories.iter().any(Option::is_some);
                    if old_file != new_file || trees.is_lenient() && new_file.is_some() {
                        let (old, new) = (old_file, new_file);
                        if new.is_some() && (pair.is_refused || path.len() > LONGEST_PATH) {
                            comparison.is_refused |= !trees.is_lenient();
                            return;
                        }
                        bytes += path.len() + PATH_BYTES;
                        let path =
                            if has_directory { path.clone() } else { std::mem::take(&mut path) };
                        comparison.changes.push(Change { path: path.into(), old, new });
                    }
                    if has_directory {
                        if pair.depth == MAX_DEPTH {
                            comparison.is_refused |= !trees.is_lenient();
                            return;
                        }
                        let (comparison, depth) = (pair.comparison, pair.depth + 1);
                        bytes += path.len() + PATH_BYTES;
                        let of_name = TreeReasons::of_name(name, rules);
                        let is_refused = !trees.is_lenient()
                            && (pair.is_refused || of_name.refuse(pair.depth == 0));
                        let (path, [old, new]) = (Arc::from(path), directories);
                        pending.push_back(Pair { comparison, path, depth, is_refused, old, new });
                    }
                },
            );
            if bytes > most_bytes {
                return Ok(None);
            }
        }
        tick()?;
    }
    for TreeComparison { changes, links, .. } in comparisons {
        changes.sort_unstable_by(|one, two| one.path.cmp(&two.path));
        links.sort_unstable();
    }
    Ok(Some(bytes))
}

/// Passes differing entries to `each`, compared by name and by being a directory.
fn walk<'a>(
    kind_of: impl Fn(&[u8]) -> Option<EntryKind>,
    old: &'a [u8],
    new: &'a [u8],
    mut each: impl FnMut(&'a [u8], Option<(EntryKind, Oid)>, Option<(EntryKind, Oid)>),
) {
    let (mut old, mut new) = (entries(old).peekable(), entries(new).peekable());
    // a refused mode gives no file
    let known = |entry: &TreeEntry<'_>| kind_of(entry.mode).map(|kind| (kind, entry.oid));
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
        let both = before.as_ref().zip(after.as_ref());
        if !both.is_some_and(|(one, two)| one.mode == two.mode && one.oid == two.oid) {
            each(name, before.as_ref().and_then(known), after.as_ref().and_then(known));
        }
    }
}

/// Joins a path and a name.
pub(crate) fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    // exactly, as a box needs it
    let mut joined = Vec::with_capacity(path.len() + usize::from(!path.is_empty()) + name.len());
    if !path.is_empty() {
        joined.extend_from_slice(path);
        joined.push(b'/');
    }
    joined.extend_from_slice(name);
    joined
}
