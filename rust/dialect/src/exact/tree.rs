//! The extra with tree entries that a manifest does not have, see [`TREE`].
//!
//! The tree of a changeset is the tree of its first parent with the changes of files from the one
//! manifest to the other. So submodules and odd modes stay until something changes them. The extra
//! has edits of directories, for the rest.

use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use gitpack::Oid;
use gitpack::tree::entry_order;
use parallel::hex::hex;
use revlog::Changeset;
use revlog::manifest::{Flag, MAX_DEPTH};

use super::difference::number;
use super::escape::{escape, unescape};
use super::{TREE, named_oid};
use crate::MOST_COMMIT_BYTES;
use crate::names::is_no_component;

/// Version of the format.
const VERSION: &[u8] = b"1 ";
/// Hexadecimal digits of an id.
const HEX_LEN: usize = 40;
/// Mode of an edit that removes an entry.
const REMOVAL: &[u8] = b"0";
/// Longest mode, in digits.
const MOST_DIGITS: usize = 8;
/// Most directories with edits, and directories above them: few bytes can name many.
const MOST_DIRECTORIES: usize = 1 << 16;
const DIRECTORY: &[u8] = b"40000";

/// Kind of a tree entry, as git reads its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeEntryKind {
    /// A directory that is not the empty tree.
    Directory,
    /// A file.
    File(Flag),
    /// An empty directory, or a commit of another repository.
    Other,
}

/// Kind of an entry; `None` if its mode is no octal number.
#[must_use]
pub fn kind_of(mode: &[u8], oid: &Oid) -> Option<TreeEntryKind> {
    match mode {
        b"100644" => return Some(TreeEntryKind::File(Flag::Regular)),
        b"100755" => return Some(TreeEntryKind::File(Flag::Executable)),
        _ => {}
    }
    let is_number = (1..=MOST_DIGITS).contains(&mode.len())
        && mode.iter().all(|digit| (b'0'..=b'7').contains(digit));
    if !is_number {
        return None;
    }
    let mode = mode.iter().fold(0_u32, |mode, digit| mode << 3 | u32::from(digit - b'0'));
    Some(match mode & 0o170_000 {
        0o040_000 if *oid != Oid::EMPTY_TREE => TreeEntryKind::Directory,
        0o100_000 if mode & 0o100 != 0 => TreeEntryKind::File(Flag::Executable),
        0o100_000 => TreeEntryKind::File(Flag::Regular),
        0o120_000 => TreeEntryKind::File(Flag::Symlink),
        _ => TreeEntryKind::Other,
    })
}

/// Whether git sorts an entry as a directory.
#[must_use]
pub fn is_directory(mode: &[u8]) -> bool {
    // any id but that of the empty tree
    kind_of(mode, &Oid::from_bytes([1; 20])) == Some(TreeEntryKind::Directory)
}

/// Mode that a file of a manifest has by itself.
const fn mode_of(flag: Flag) -> &'static [u8] {
    match flag {
        Flag::Regular => b"100644",
        Flag::Executable => b"100755",
        Flag::Symlink => b"120000",
    }
}

/// File of a directory or of a tree: its flag and its blob.
pub type TrackedFile = (Flag, Oid);

/// Returns whether trees do not have a file with this path from manifests.
pub type Hides = fn(&[u8]) -> bool;

/// Changed file with its path; `None` if it is removed.
pub type FileEdit<'a> = (&'a [u8], Option<TrackedFile>);

/// Mode and id of an entry.
pub type TreeItem<'c> = (Cow<'c, [u8]>, Oid);

/// Entries of a tree, by name: those that were read, ascending, and changes of them.
#[derive(Clone, Debug, Default)]
pub struct TreeEntries<'c> {
    read: Vec<(&'c [u8], TreeItem<'c>)>,
    changed: BTreeMap<Box<[u8]>, Option<TreeItem<'c>>>,
}

/// The file that an entry is, if it is one.
#[must_use]
pub fn file_of((mode, oid): &TreeItem<'_>) -> Option<TrackedFile> {
    match kind_of(mode, oid)? {
        TreeEntryKind::File(flag) => Some((flag, *oid)),
        TreeEntryKind::Directory | TreeEntryKind::Other => None,
    }
}

impl<'c> TreeEntries<'c> {
    /// Entries of a tree's content; `None` if it is malformed.
    #[must_use]
    pub fn parse(content: &'c [u8]) -> Option<Self> {
        let mut read: Vec<(&[u8], TreeItem<'c>)> = Vec::new();
        let mut rest = content;
        while !rest.is_empty() {
            let (mode, name, oid, after) = first_entry(rest)?;
            kind_of(mode, &oid)?;
            read.push((name, (mode.into(), oid)));
            rest = after;
        }
        // git's order is nearly that of the names
        if !read.is_sorted_by(|one, two| one.0 < two.0) {
            read.sort_by_key(|(name, _)| *name);
            if read.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                return None;
            }
        }
        Some(Self { read, changed: BTreeMap::new() })
    }

    /// All entries, ascending by name.
    fn all(&self) -> Vec<(&[u8], &TreeItem<'c>)> {
        let mut all = Vec::with_capacity(self.read.len() + self.changed.len());
        let mut changed = self.changed.iter().map(|(name, item)| (&**name, item)).peekable();
        for (name, item) in &self.read {
            while let Some((new, item)) = changed.next_if(|(new, _)| new < name) {
                all.extend(item.as_ref().map(|item| (new, item)));
            }
            match changed.next_if(|(new, _)| new == name) {
                Some((_, item)) => all.extend(item.as_ref().map(|item| (*name, item))),
                None => all.push((*name, item)),
            }
        }
        all.extend(changed.filter_map(|(new, item)| Some((new, item.as_ref()?))));
        all
    }

    /// Content of the tree; `None` if it has no entries.
    fn content(&self) -> Option<Vec<u8>> {
        let all = self.all().into_iter();
        let mut sorted: Vec<_> =
            all.map(|(name, (mode, oid))| (name, is_directory(mode), &**mode, oid)).collect();
        sorted.sort_by(|one, two| entry_order(one.0, one.1, two.0, two.1));
        let bytes = sorted.iter().map(|(name, _, mode, _)| name.len() + mode.len() + 22).sum();
        let mut content = Vec::with_capacity(bytes);
        for (name, _, mode, oid) in &sorted {
            push_entry(&mut content, mode, name, oid);
        }
        (!sorted.is_empty()).then_some(content)
    }

    /// Names of all entries, ascending.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.all().into_iter().map(|(name, _)| name)
    }

    /// The entry with this name.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&TreeItem<'c>> {
        if let Some(changed) = self.changed.get(name) {
            return changed.as_ref();
        }
        let place = self.read.binary_search_by_key(&name, |(other, _)| *other).ok()?;
        Some(&self.read[place].1)
    }

    fn insert(&mut self, name: &[u8], item: TreeItem<'c>) {
        self.changed.insert(name.into(), Some(item));
    }

    fn remove(&mut self, name: &[u8]) -> Option<TreeItem<'c>> {
        let before = self.get(name).cloned();
        self.changed.insert(name.into(), None);
        before
    }

    fn kind(&self, name: &[u8]) -> Option<TreeEntryKind> {
        self.get(name).and_then(|(mode, oid)| kind_of(mode, oid))
    }

    /// The directory with this name.
    fn directory(&self, name: &[u8]) -> Option<&TreeItem<'c>> {
        self.get(name).filter(|(mode, oid)| kind_of(mode, oid) == Some(TreeEntryKind::Directory))
    }

    /// Id of the directory with this name.
    fn directory_id(&self, name: &[u8]) -> Option<Oid> {
        self.directory(name).map(|(_, oid)| *oid)
    }

    /// Sets a directory, or removes it if it has no entries.
    fn set_directory(&mut self, name: &[u8], tree: Option<Oid>) {
        let before = self.directory(name);
        let mode = before.map_or(DIRECTORY.into(), |(mode, _)| mode.clone());
        match tree {
            Some(oid) => self.insert(name, (mode, oid)),
            None if before.is_some() => {
                self.remove(name);
            }
            None => {}
        }
    }

    /// Sets or removes a file.
    fn set_file(&mut self, name: &[u8], file: Option<TrackedFile>) {
        let before = self.get(name).and_then(file_of);
        match file {
            Some((flag, oid)) if before != file => {
                self.insert(name, (mode_of(flag).into(), oid));
            }
            None if before.is_some() => {
                self.remove(name);
            }
            _ => {}
        }
    }

    /// Applies an edit of the extra. `None` if it would change a file, or a directory with entries.
    /// A hidden file may become the manifest's, or go.
    fn edit(&mut self, edit: &ExtraEdit, hidden: Option<HiddenFile>) -> Option<()> {
        let ExtraEdit { mode, name, oid } = edit;
        let before = self.kind(name);
        let is_hidden = hidden.is_some() && before != Some(TreeEntryKind::Directory);
        if &**mode == REMOVAL {
            return self
                .remove(name)
                .filter(|_| before == Some(TreeEntryKind::Other) || is_hidden)
                .map(|_| ());
        }
        let kind = kind_of(mode, oid)?;
        let fits = match (before, kind) {
            (_, TreeEntryKind::File(flag))
                if is_hidden && hidden.and_then(|hidden| hidden.0) == Some((flag, *oid)) =>
            {
                true
            }
            (None | Some(TreeEntryKind::Other), TreeEntryKind::Other) => *oid.as_bytes() != [0; 20],
            (Some(before), kind) => before == kind && self.get(name)?.1 == *oid,
            (None, _) => false,
        };
        if !fits || is_no_component(name) {
            return None;
        }
        self.insert(name, (mode.to_vec().into(), *oid));
        Some(())
    }
}

fn push_entry(content: &mut Vec<u8>, mode: &[u8], name: &[u8], oid: &Oid) {
    content.extend_from_slice(mode);
    content.push(b' ');
    content.extend_from_slice(name);
    content.push(0);
    content.extend_from_slice(oid.as_bytes());
}

/// Mode, name and id of an entry, with the bytes after it.
pub type FirstEntry<'a> = (&'a [u8], &'a [u8], Oid, &'a [u8]);

/// The first entry of a tree; `None` if it has none, or a malformed one.
#[must_use]
pub fn first_entry(content: &[u8]) -> Option<FirstEntry<'_>> {
    let (mode, rest) = content.split_at_checked(memchr::memchr(b' ', content)?)?;
    let (name, rest) = rest[1..].split_at_checked(memchr::memchr(0, &rest[1..])?)?;
    let (id, after) = rest[1..].split_first_chunk()?;
    Some((mode, name, Oid::from_bytes(*id), after))
}

/// Mode of a submodule.
const GITLINK: &[u8] = b"160000";

/// Edit of one entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraEdit {
    /// Mode, as git's trees have it; `0` removes the entry.
    mode: Box<[u8]>,
    name: Box<[u8]>,
    oid: Oid,
}

/// Edits of a directory and of the directories below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryEdits {
    edits: Vec<ExtraEdit>,
    below: BTreeMap<Box<[u8]>, DirectoryEdits>,
}

impl DirectoryEdits {
    /// Whether no directory has edits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty() && self.below.is_empty()
    }

    /// Edits that set submodules, or remove them. Malformed paths are left out.
    #[must_use]
    pub fn of_links<'p>(links: impl IntoIterator<Item = (&'p [u8], Option<Oid>)>) -> Self {
        let (mut found, mut left) = (Self::default(), MOST_DIRECTORIES);
        for (path, link) in links {
            let end = memchr::memrchr(b'/', path);
            let (above, name) = (&path[..end.unwrap_or(0)], &path[end.map_or(0, |at| at + 1)..]);
            let (mode, oid) = match link {
                Some(oid) => (GITLINK, oid),
                None => (REMOVAL, Oid::from_bytes([0; 20])),
            };
            if let Some(directory) = found.at(above, &mut left) {
                directory.edits.push(ExtraEdit { mode: mode.into(), name: name.into(), oid });
            }
        }
        found
    }

    /// Number of directories below this one.
    fn count(&self) -> usize {
        self.below.values().map(|below| 1 + below.count()).sum()
    }

    fn push(&self, path: &mut Vec<u8>, value: &mut Vec<u8>) {
        if !self.edits.is_empty() {
            value.extend_from_slice(path);
            value.extend_from_slice(format!("\0{} ", self.edits.len()).as_bytes());
            for ExtraEdit { mode, name, oid } in &self.edits {
                push_entry(value, mode, name, oid);
            }
        }
        for (name, below) in &self.below {
            let len = path.len();
            if len > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(name);
            below.push(path, value);
            path.truncate(len);
        }
    }
}

/// Value of the extra.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeValue {
    /// Id of the tree.
    pub root: Oid,
    /// Edits of its directories.
    pub edits: DirectoryEdits,
}

impl TreeValue {
    /// Stored value; `None` if it is too long, or has too many directories.
    #[must_use]
    pub fn stored(&self) -> Option<Vec<u8>> {
        let mut value = VERSION.to_vec();
        value.extend_from_slice(&hex(self.root.as_bytes()));
        value.push(b' ');
        self.edits.push(&mut Vec::new(), &mut value);
        let is_small = value.len() <= MOST_COMMIT_BYTES && self.edits.count() <= MOST_DIRECTORIES;
        is_small.then(|| escape(&value))
    }

    /// Whether a changeset may have a value.
    #[must_use]
    pub fn is_in(changeset: &Changeset<'_>) -> bool {
        changeset.extra.is_some_and(|extra| memchr::memmem::find(extra, TREE).is_some())
    }

    /// Value that a changeset has; `None` if it has none, or a malformed one.
    #[must_use]
    pub fn of(changeset: &Changeset<'_>) -> Option<Self> {
        if !Self::is_in(changeset) {
            return None;
        }
        let stored = changeset.extras().filter(|(key, _)| *key == TREE).last()?.1;
        if stored.len() > 2 * MOST_COMMIT_BYTES {
            return None;
        }
        let value = unescape(stored)?;
        let (digits, rest) = value.strip_prefix(VERSION)?.split_at_checked(HEX_LEN)?;
        let root = named_oid(digits)?;
        let mut rest = rest.strip_prefix(b" ")?;
        let (mut edits, mut left) = (DirectoryEdits::default(), MOST_DIRECTORIES);
        let mut before: Option<&[u8]> = None;
        while !rest.is_empty() {
            let (path, after) = rest.split_at_checked(memchr::memchr(0, rest)?)?;
            let (count, after) = after[1..].split_at_checked(memchr::memchr(b' ', &after[1..])?)?;
            let count = number(count).filter(|count| *count > 0)?;
            rest = &after[1..];
            if before.is_some_and(|before| names(before).ge(names(path))) {
                return None;
            }
            before = Some(path);
            let directory = edits.at(path, &mut left)?;
            for _edit in 0..count {
                let (mode, name, oid, after) = first_entry(rest)?;
                if directory.edits.last().is_some_and(|last| &*last.name >= name) {
                    return None;
                }
                directory.edits.push(ExtraEdit { mode: mode.into(), name: name.into(), oid });
                rest = after;
            }
        }
        Some(Self { root, edits })
    }
}

impl DirectoryEdits {
    /// The directory with this path, which is added. `None` if it is too deep, or more than `left`
    /// are added.
    fn at(&mut self, path: &[u8], left: &mut usize) -> Option<&mut Self> {
        let mut at = self;
        if path.is_empty() {
            return Some(at);
        }
        if memchr::memchr_iter(b'/', path).count() >= MAX_DEPTH {
            return None;
        }
        for name in names(path) {
            if is_no_component(name) {
                return None;
            }
            at = match at.below.entry(name.into()) {
                Entry::Occupied(below) => below.into_mut(),
                Entry::Vacant(below) => {
                    *left = left.checked_sub(1)?;
                    below.insert(Self::default())
                }
            };
        }
        Some(at)
    }
}

/// Components of a path.
fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/')
}

/// Reason that a tree cannot be made.
#[derive(Debug)]
pub enum TreeProblem<E> {
    /// The extra does not fit.
    Unfit,
    /// The error of a reader.
    Unreadable(E),
}

/// Reader and writer of trees. A path names a directory of the tree that is read.
pub trait TreeStore {
    /// Error of the reader.
    type Error;

    /// Content of the tree `oid`, which is the directory `path` of the first parent.
    ///
    /// # Errors
    ///
    /// That it cannot be read.
    fn read(&mut self, path: &[u8], oid: Oid) -> Result<Vec<u8>, Self::Error>;

    /// Keeps a tree, and returns its id. `base` is the directory in the first parent.
    fn write(&mut self, base: Option<Oid>, content: Vec<u8>) -> Oid;

    /// The tree of a directory, or `None` for no entries, if the caller knows it: the directory has
    /// no edits, and `base` is it in the first parent. By default, nothing is known.
    fn known(&mut self, _path: &[u8], _base: Option<Oid>) -> Option<Option<Oid>> {
        None
    }

    /// The file of the manifest at a path that trees do not have from manifests; `None` for others.
    ///
    /// # Errors
    ///
    /// That it cannot be read.
    fn hidden(&mut self, path: &[u8]) -> Result<Option<HiddenFile>, Self::Error>;
}

/// The file of a manifest at a path, if the manifest has it.
#[derive(Clone, Copy, Debug)]
pub struct HiddenFile(pub Option<TrackedFile>);

/// The file at a path of the tree `root`.
///
/// # Errors
///
/// The errors of `store`.
pub fn file_at<S: TreeStore>(
    store: &mut S,
    root: Option<Oid>,
    path: &[u8],
) -> Result<Option<TrackedFile>, S::Error> {
    let (mut at, mut start) = (root, 0_usize);
    while let Some(oid) = at.filter(|oid| *oid != Oid::EMPTY_TREE) {
        let entries = store.read(&path[..start.saturating_sub(1)], oid)?;
        let entries = TreeEntries::parse(&entries).unwrap_or_default();
        let Some(end) = memchr::memchr(b'/', &path[start..]) else {
            return Ok(entries.get(&path[start..]).and_then(file_of));
        };
        at = entries.directory_id(&path[start..start + end]);
        start += end + 1;
    }
    Ok(None)
}

/// Tree that is made of `base`, the tree of the first parent, by changes of files, ascending by
/// path, and by edits of the extra. `None` if it has no entries.
///
/// Edits may show hidden files. Changes of these are given if the first parent's tree shows them.
///
/// # Errors
///
/// [`TreeProblem`].
pub fn edited<S: TreeStore>(
    store: &mut S,
    base: Option<Oid>,
    changes: &[FileEdit<'_>],
    edits: Option<&DirectoryEdits>,
) -> Result<Option<Oid>, TreeProblem<S::Error>> {
    directory(store, &mut Vec::new(), base, changes, edits)
}

fn directory<S: TreeStore>(
    store: &mut S,
    path: &mut Vec<u8>,
    base: Option<Oid>,
    changes: &[FileEdit<'_>],
    edits: Option<&DirectoryEdits>,
) -> Result<Option<Oid>, TreeProblem<S::Error>> {
    let base = base.filter(|oid| *oid != Oid::EMPTY_TREE);
    if edits.is_none_or(DirectoryEdits::is_empty)
        && let Some(tree) = store.known(path, base)
    {
        return Ok(tree);
    }
    let content = match base {
        Some(oid) => store.read(path, oid).map_err(TreeProblem::Unreadable)?,
        None => Vec::new(),
    };
    let mut entries = TreeEntries::parse(&content).ok_or(TreeProblem::Unfit)?;
    let start = if path.is_empty() { 0 } else { path.len() + 1 };
    let mut below: BTreeMap<&[u8], (usize, usize)> = BTreeMap::new();
    let mut removed: BTreeSet<&[u8]> = BTreeSet::new();
    for (at, (changed, file)) in changes.iter().enumerate() {
        let rest = &changed[start..];
        if let Some(end) = memchr::memchr(b'/', rest) {
            below.entry(&rest[..end]).or_insert((at, at)).1 = at + 1;
        } else if file.is_none() {
            removed.insert(rest);
        }
    }
    for name in edits.iter().flat_map(|edits| edits.below.keys()) {
        below.entry(name).or_insert((0, 0));
    }
    for (name, (from, to)) in below {
        let len = path.len();
        if len > 0 {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        let edits = edits.and_then(|edits| edits.below.get(name));
        // changes of one directory are in a row
        let below = &changes[from..to];
        let made = directory(store, path, entries.directory_id(name), below, edits)?;
        path.truncate(len);
        // a directory of the extra alone does not replace a file
        let is_file = matches!(entries.kind(name), Some(TreeEntryKind::File(_)));
        if made.is_some() && is_file && !removed.contains(name) {
            return Err(TreeProblem::Unfit);
        }
        entries.set_directory(name, made);
    }
    for (changed, file) in changes {
        let rest = &changed[start..];
        if memchr::memchr(b'/', rest).is_none() {
            entries.set_file(rest, *file);
        }
    }
    for edit in edits.iter().flat_map(|edits| &edits.edits) {
        let len = path.len();
        if len > 0 {
            path.push(b'/');
        }
        path.extend_from_slice(&edit.name);
        let hidden = store.hidden(path).map_err(TreeProblem::Unreadable)?;
        path.truncate(len);
        entries.edit(edit, hidden).ok_or(TreeProblem::Unfit)?;
    }
    Ok(entries.content().map(|content| store.write(base, content)))
}

/// Edits that the tree `new` needs beside the changes of files from `old`, the tree of the first
/// parent. Equal directories are not read.
///
/// `follows` returns whether a change at a path comes from the manifest. It gets the path, and the
/// file there in the tree of the first parent.
///
/// # Errors
///
/// The errors of `follows`, and of `read`, which gets the id of a tree.
pub fn edits_between<E>(
    old: Option<Oid>,
    new: Option<Oid>,
    follows: &mut impl FnMut(&[u8], Option<TrackedFile>) -> Result<bool, E>,
    read: &mut impl FnMut(Oid) -> Result<Vec<u8>, E>,
) -> Result<DirectoryEdits, E> {
    differences(&mut Vec::new(), (old, new), follows, read)
}

fn differences<E>(
    path: &mut Vec<u8>,
    (old, new): (Option<Oid>, Option<Oid>),
    follows: &mut impl FnMut(&[u8], Option<TrackedFile>) -> Result<bool, E>,
    read: &mut impl FnMut(Oid) -> Result<Vec<u8>, E>,
) -> Result<DirectoryEdits, E> {
    let mut found = DirectoryEdits::default();
    if old == new {
        return Ok(found);
    }
    let mut content = |oid: Option<Oid>| match oid {
        Some(oid) if oid != Oid::EMPTY_TREE => read(oid),
        _ => Ok(Vec::new()),
    };
    let (one, two) = (content(old)?, content(new)?);
    let [one, two] = [&one, &two].map(|content| TreeEntries::parse(content).unwrap_or_default());
    let mut names: Vec<_> = one.names().chain(two.names()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let (before, after) = (one.get(name), two.get(name));
        if before == after {
            continue;
        }
        let mut computed = TreeEntries::default();
        if let Some(entry) = before {
            computed.insert(name, entry.clone());
        }
        let len = path.len();
        if len > 0 {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        let file = after.and_then(file_of);
        let is_followed = follows(path, before.and_then(file_of))?;
        let both = (one.directory_id(name), two.directory_id(name));
        // a file of the manifest takes the place of a directory
        if !(file.is_some() && is_followed) && (both.0.is_some() || both.1.is_some()) {
            let below = differences(path, both, follows, read)?;
            if !below.is_empty() {
                found.below.insert(name.into(), below);
            }
            computed.set_directory(name, both.1);
        }
        path.truncate(len);
        if is_followed {
            computed.set_file(name, file);
        }
        if computed.get(name) != after {
            let (mode, oid) = after.cloned().unwrap_or((REMOVAL.into(), Oid::from_bytes([0; 20])));
            found.edits.push(ExtraEdit { mode: (*mode).into(), name: name.into(), oid });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use sha1lanes::{Message, digest_one};

    use super::*;

    #[derive(Default)]
    struct Memory(HashMap<Oid, Vec<u8>>, BTreeMap<Vec<u8>, TrackedFile>);

    fn is_hidden(path: &[u8]) -> bool {
        names(path).any(|name| name == b"c")
    }

    impl TreeStore for Memory {
        type Error = std::convert::Infallible;

        fn read(&mut self, _path: &[u8], oid: Oid) -> Result<Vec<u8>, Self::Error> {
            Ok(self.0[&oid].clone())
        }

        fn write(&mut self, _base: Option<Oid>, content: Vec<u8>) -> Oid {
            let head = format!("tree {}\0", content.len());
            let oid =
                Oid::from_bytes(digest_one(Message { head: head.as_bytes(), body: &content }));
            self.0.insert(oid, content);
            oid
        }

        fn hidden(&mut self, path: &[u8]) -> Result<Option<HiddenFile>, Self::Error> {
            Ok(is_hidden(path).then(|| HiddenFile(self.1.get(path).copied())))
        }
    }

    #[derive(Clone, Debug)]
    enum Item {
        Leaf(&'static [u8], u8),
        Directory(BTreeMap<String, Item>),
    }

    fn items() -> impl Strategy<Value = BTreeMap<String, Item>> {
        let modes = ["100644", "100755", "120000", "100664", "0100644", "160000", "100600"];
        let leaf = (prop::sample::select(modes.to_vec()), 1_u8..3)
            .prop_map(|(mode, id)| Item::Leaf(mode.as_bytes(), id));
        let name = || prop::sample::select(vec!["a", "b", "a-", "c"]).prop_map(str::to_owned);
        let tree = leaf.prop_recursive(3, 24, 4, move |inner| {
            btree_map(name(), inner, 0..4).prop_map(Item::Directory)
        });
        btree_map(name(), tree, 0..5)
    }

    fn written(store: &mut Memory, items: &BTreeMap<String, Item>) -> Oid {
        let mut entries = TreeEntries::default();
        for (name, item) in items {
            let entry = match item {
                Item::Leaf(mode, id) => ((*mode).into(), Oid::from_bytes([*id; 20])),
                Item::Directory(below) => (DIRECTORY.into(), written(store, below)),
            };
            entries.insert(name.as_bytes(), entry);
        }
        store.write(None, entries.content().unwrap_or_default())
    }

    /// Files below a tree, as a manifest has them.
    fn files(store: &Memory, oid: Oid, path: &[u8], found: &mut BTreeMap<Vec<u8>, TrackedFile>) {
        let entries = TreeEntries::parse(&store.0[&oid]).expect("is a tree");
        for (name, entry) in entries.all() {
            let path = [path, name].concat();
            match kind_of(&entry.0, &entry.1) {
                Some(TreeEntryKind::File(flag)) => {
                    found.insert(path, (flag, entry.1));
                }
                Some(TreeEntryKind::Directory) => {
                    files(store, entry.1, &[&*path, b"/"].concat(), found);
                }
                _ => {}
            }
        }
    }

    type Changes = Vec<(Vec<u8>, Option<TrackedFile>)>;

    fn changes(store: &Memory, old: Oid, new: Oid) -> Changes {
        let (mut one, mut two) = (BTreeMap::new(), BTreeMap::new());
        files(store, old, b"", &mut one);
        files(store, new, b"", &mut two);
        let mut paths: Vec<_> = one.keys().chain(two.keys()).cloned().collect();
        paths.sort();
        paths.dedup();
        paths.retain(|path| one.get(path) != two.get(path));
        paths.into_iter().map(|path| (path.clone(), two.get(&path).copied())).collect()
    }

    fn stored(root: Oid, edits: DirectoryEdits) -> TreeValue {
        let extra = TreeValue { root, edits }.stored().expect("is short");
        let text = [b"0".repeat(40), b"\nme\n0 0 git.tree:".to_vec(), extra, b"\n\n".to_vec()];
        let text = text.concat();
        TreeValue::of(&Changeset::parse(&text).expect("well-formed")).expect("is there")
    }

    proptest! {
        #[test]
        fn any_tree_comes_back(old in items(), new in items()) {
            let mut store = Memory::default();
            store.write(None, Vec::new());
            let (old, new) = (written(&mut store, &old), written(&mut store, &new));
            // trees have hidden files as the manifest has them once an edit has shown them
            let mut of_manifest = BTreeMap::new();
            files(&store, new, b"", &mut of_manifest);
            store.1 = of_manifest;
            let mut follows = |path: &[u8], before: Option<TrackedFile>| {
                Ok(!is_hidden(path) || before.is_some())
            };
            let mut read = |oid: Oid| Ok::<_, std::convert::Infallible>(store.0[&oid].clone());
            let Ok(edits) = edits_between(Some(old), Some(new), &mut follows, &mut read);
            let changes = changes(&store, old, new);
            let mut shown = BTreeMap::new();
            files(&store, old, b"", &mut shown);
            let changes: Vec<_> = changes
                .iter()
                .filter(|(path, _)| !is_hidden(path) || shown.contains_key(path))
                .map(|(path, file)| (&**path, *file))
                .collect();
            let value = stored(new, edits);
            let edits = (!value.edits.is_empty()).then_some(&value.edits);
            let back = edited(&mut store, Some(old), &changes, edits).expect("fits");
            prop_assert_eq!(back.unwrap_or(Oid::EMPTY_TREE), new);
        }

        #[test]
        fn edits_change_no_file(
            old in items(),
            forged in vec((prop::sample::select(vec!["", "a", "b/a"]), "[ab]", 0_usize..5, 1_u8..3), 0..4),
        ) {
            let modes = ["0", "100644", "100755", "40000", "160000"];
            let mut store = Memory::default();
            store.write(None, Vec::new());
            let old = written(&mut store, &old);
            let mut edits = DirectoryEdits::default();
            for (path, name, mode, id) in forged {
                let (mode, oid) = (modes[mode].as_bytes().into(), Oid::from_bytes([id; 20]));
                let name = name.as_bytes().into();
                edits.at(path.as_bytes(), &mut 99).expect("is short").edits.push(ExtraEdit { mode, name, oid });
            }
            if let Ok(Some(new)) = edited(&mut store, Some(old), &[], Some(&edits)) {
                prop_assert_eq!(changes(&store, old, new), Changes::new());
            }
        }
    }
}
