//! Directories of a working tree as persistent values: a changed tree shares what did not change.
//!
//! Applying the changes of a manifest costs the directories on the changed paths, not the size of
//! the tree. Each directory knows the ids of its trees from the moment it is made: of git's, and of
//! the one that tells git-cinnabar the manifest, see [`crate::trees`]. Order is git's, which is also
//! the order of full paths in a manifest: names compare as if directories ended in `/`.
//!
//! Old conversions left manifests with `//` in paths. Such a path lies in a directory with an empty
//! name, which git cannot have: its tree is shown as a part of the directory that it is in.

use std::cmp::Ordering;
use std::sync::Arc;

use gitpack::tree::{Mode, entry_order, push_entry};
use gitpack::{Kind, Oid, object_header};
use sha1lanes::Message;

use crate::files::{FileId, FileTable};
use crate::names::{NameId, Names};
use crate::trees::{MANIFEST_PREFIX, Storage, TreeWriter, View, manifest_mode};

/// A file or directory in a directory.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub name: NameId,
    pub target: Target,
}

impl Entry {
    /// Where this entry stands to another, in git's order.
    pub fn order(&self, names: &Names, other: &Self) -> Ordering {
        let is_directory = other.target.is_directory();
        if self.name == other.name && self.target.is_directory() == is_directory {
            return Ordering::Equal;
        }
        order(names, self, names.get(other.name), is_directory)
    }
}

/// What an entry leads to.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    File(FileId, Mode),
    Directory(Arc<Directory>),
}

impl Target {
    pub const fn is_directory(&self) -> bool {
        matches!(self, Self::Directory(_))
    }

    /// Whether both lead to the same in trees of that kind.
    pub fn is_same(&self, other: &Self, view: View) -> bool {
        match (self, other) {
            (Self::File(a, mode_a), Self::File(b, mode_b)) => (a, mode_a.0) == (b, mode_b.0),
            (Self::Directory(a), Self::Directory(b)) => {
                Arc::ptr_eq(a, b) || a.tree(view).oid == b.tree(view).oid
            }
            _ => false,
        }
    }
}

/// A tree object of a directory.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub oid: Oid,
    /// How it is stored; see [`crate::trees`].
    pub storage: Storage,
}

/// One directory with at least one entry.
#[derive(Debug)]
pub(crate) struct Directory {
    pub entries: Vec<Entry>,
    /// What a commit has.
    pub git: Tree,
    /// What a manifest commit has. It tells all of the directory.
    pub manifest: Tree,
    /// Whether no directory in it has an empty name, so that the entries are those of git's tree.
    pub is_plain: bool,
}

impl Directory {
    /// Its tree of that kind.
    pub const fn tree(&self, view: View) -> &Tree {
        match view {
            View::Git => &self.git,
            View::Manifest => &self.manifest,
        }
    }
}

/// One file that a changed tree has or has not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    /// Path from the root.
    pub path: &'a [u8],
    /// `None` if the file is gone.
    pub file: Option<(FileId, Mode)>,
}

/// What making trees needs to know, and where new ones go.
pub(crate) struct Context<'a> {
    pub names: &'a mut Names,
    pub files: &'a FileTable,
    /// Takes each tree that is made; without one, trees are taken to be in the store already.
    pub writer: Option<&'a mut TreeWriter>,
}

/// A file of a tree whose blob is not known: the caller converted too little.
#[derive(Debug)]
pub(crate) struct Unconverted(pub FileId);

impl Context<'_> {
    /// The tree `before` with `changes`, which ascend by path; `None` is the empty tree.
    ///
    /// Removing what is not there changes nothing.
    pub fn apply(
        &mut self,
        before: Option<&Arc<Directory>>,
        changes: &[Change<'_>],
    ) -> Result<Option<Arc<Directory>>, Unconverted> {
        self.apply_at(before, changes, 0)
    }

    /// As [`Self::apply`], in the directory whose path has `depth` bytes, its slash included.
    fn apply_at(
        &mut self,
        before: Option<&Arc<Directory>>,
        changes: &[Change<'_>],
        depth: usize,
    ) -> Result<Option<Arc<Directory>>, Unconverted> {
        let old: &[Entry] = before.map_or(&[], |directory| &directory.entries);
        let mut entries: Vec<Entry> = Vec::with_capacity(old.len() + changes.len());
        let mut kept = 0; // entries of `old` that are dealt with
        let mut is_same = true;
        let mut remaining = changes;
        while let Some(first) = remaining.first() {
            let (name, slash) = component(first.path, depth);
            let is_below = |change: &Change<'_>| {
                let end = depth + name.len();
                slash
                    && change.path.get(depth..end) == Some(name)
                    && change.path.get(end) == Some(&b'/')
            };
            let count = if slash {
                remaining.iter().take_while(|change| is_below(change)).count()
            } else {
                1
            };
            let (here, after) = remaining.split_at(count);
            remaining = after;

            let found = self.find(&old[kept..], name, slash);
            let position = kept + found.unwrap_or_else(|position| position);
            entries.extend_from_slice(&old[kept..position]);
            let replaced = found.is_ok().then(|| &old[position]);
            kept = position + usize::from(replaced.is_some());
            let target = if slash {
                let inner = match replaced {
                    Some(Entry { target: Target::Directory(inner), .. }) => Some(inner),
                    _ => None,
                };
                self.apply_at(inner, here, depth + name.len() + 1)?.map(Target::Directory)
            } else {
                first.file.map(|(file, mode)| Target::File(file, mode))
            };
            is_same &= match (replaced, &target) {
                (Some(entry), Some(target)) => entry.target.is_same(target, View::Manifest),
                (None, None) => true,
                _ => false,
            };
            if let Some(target) = target {
                entries.push(Entry { name: self.names.number(name), target });
            }
        }
        if is_same {
            return Ok(before.cloned());
        }
        entries.extend_from_slice(&old[kept..]);
        if entries.is_empty() {
            return Ok(None);
        }
        self.make(before.map(AsRef::as_ref), entries).map(Arc::new).map(Some)
    }

    fn make(
        &mut self,
        before: Option<&Directory>,
        entries: Vec<Entry>,
    ) -> Result<Directory, Unconverted> {
        let doubled = self.doubled(&entries).map(|inner| self.merge(&entries, &inner.entries));
        let shown = doubled.transpose()?;
        let is_plain = shown.is_none()
            && entries.iter().all(|entry| match &entry.target {
                Target::Directory(directory) => directory.is_plain,
                Target::File(..) => true,
            });
        let shown = shown.as_deref().unwrap_or(&entries);
        let (content, manifest_content) = (self.content(shown)?, self.manifest_content(&entries));
        let [oid, manifest_oid] = tree_oids([&content, &manifest_content]);
        // a delta counts in the entries before, which have to be those that were written
        let shown_before = before.filter(|before| self.doubled(&before.entries).is_none());
        let git = self.store(View::Git, shown_before, shown, content, oid);
        let manifest = self.store(View::Manifest, before, &entries, manifest_content, manifest_oid);
        Ok(Directory { entries, git, manifest, is_plain })
    }

    /// The content of git's tree of `entries`.
    fn content(&self, entries: &[Entry]) -> Result<Vec<u8>, Unconverted> {
        let mut content = Vec::with_capacity(entries.len() * 40);
        for Entry { name, target } in entries {
            let name = self.names.get(*name);
            match target {
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
    fn manifest_content(&self, entries: &[Entry]) -> Vec<u8> {
        let mut content = Vec::with_capacity(entries.len() * 40);
        let mut prefixed = vec![MANIFEST_PREFIX];
        for Entry { name, target } in entries {
            prefixed.truncate(1);
            prefixed.extend_from_slice(self.names.get(*name));
            let (mode, oid) = match target {
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
    fn store(
        &mut self,
        view: View,
        before: Option<&Directory>,
        entries: &[Entry],
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

    /// The directory with an empty name.
    fn doubled<'e>(&self, entries: &'e [Entry]) -> Option<&'e Arc<Directory>> {
        let found = entries.get(self.find(entries, b"", true).ok()?)?;
        match &found.target {
            Target::Directory(directory) => Some(directory),
            Target::File(..) => None,
        }
    }

    /// `ours` with those of `theirs` that are not in it; two directories become one.
    ///
    /// As git-cinnabar does it, which drops directories with empty names in both.
    fn merge(&mut self, ours: &[Entry], theirs: &[Entry]) -> Result<Vec<Entry>, Unconverted> {
        let mut merged = Vec::with_capacity(ours.len() + theirs.len());
        let (mut ours, mut theirs) = (ours.iter().peekable(), theirs.iter().peekable());
        loop {
            let order = match (ours.peek(), theirs.peek()) {
                (Some(our), Some(their)) => our.order(self.names, their),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return Ok(merged),
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

    fn find(&self, entries: &[Entry], name: &[u8], is_directory: bool) -> Result<usize, usize> {
        entries.binary_search_by(|entry| order(self.names, entry, name, is_directory))
    }
}

/// The oids of trees with these contents, hashed side by side.
fn tree_oids<const N: usize>(contents: [&[u8]; N]) -> [Oid; N] {
    let heads = contents.map(|content| object_header(Kind::Tree, content.len() as u64));
    let mut digests = [[0; 20]; N];
    let messages =
        std::array::from_fn::<_, N, _>(|at| Message { head: &heads[at], body: contents[at] });
    sha1lanes::best().digest(&messages, &mut digests);
    digests.map(Oid::from_bytes)
}

/// Where `entry` stands to one of this name and kind, in git's order.
fn order(names: &Names, entry: &Entry, name: &[u8], is_directory: bool) -> Ordering {
    let (own_name, own_kind) = (names.get(entry.name), entry.target.is_directory());
    match entry_order(own_name, own_kind, name, is_directory) {
        // a file and a directory of one name differ; the file comes first
        Ordering::Equal => own_kind.cmp(&is_directory),
        order => order,
    }
}

/// The component of `path` that begins at `depth`, and whether a slash follows it.
fn component(path: &[u8], depth: usize) -> (&[u8], bool) {
    let rest = &path[depth..];
    match memchr::memchr(b'/', rest) {
        Some(end) => (&rest[..end], true),
        None => (rest, false),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use gitpack::delta;
    use sha1lanes::digest_one;

    use super::*;

    /// The oid of the tree of these files by the plain definition: every directory from scratch.
    fn plain_oid(files: &[(&[u8], Oid, Mode)]) -> Oid {
        let mut content = Vec::new();
        let mut rest = files;
        while let Some((path, oid, mode)) = rest.first() {
            let (name, is_directory) = component(path, 0);
            if !is_directory {
                push_entry(&mut content, *mode, name, oid);
                rest = &rest[1..];
                continue;
            }
            let prefix = [name, b"/"].concat();
            let count = rest.iter().take_while(|(path, ..)| path.starts_with(&prefix)).count();
            let inner =
                rest[..count].iter().map(|(path, oid, mode)| (&path[prefix.len()..], *oid, *mode));
            push_entry(&mut content, Mode::DIRECTORY, name, &plain_oid(&inner.collect::<Vec<_>>()));
            rest = &rest[count..];
        }
        let head = object_header(Kind::Tree, content.len() as u64);
        Oid::from_bytes(digest_one(Message { head: &head, body: &content }))
    }

    /// The tree that tells the manifest of these files, the same way.
    fn plain_manifest_oid(files: &[(String, Oid, Mode)]) -> Oid {
        let prefixed: Vec<_> = files
            .iter()
            .map(|(path, node, mode)| (format!("_{}", path.replace('/', "/_")), *node, *mode))
            .collect();
        let files: Vec<_> = prefixed
            .iter()
            .map(|(path, node, mode)| {
                let mode = if *mode == Mode::FILE { Mode(0o160_644) } else { Mode(0o160_755) };
                (path.as_bytes(), *node, mode)
            })
            .collect();
        plain_oid(&files)
    }

    fn edits() -> impl Strategy<Value = Vec<BTreeMap<String, Option<(u32, bool)>>>> {
        let path = "[ab](-|\\.|0)?(/[ab](\\.x)?){0,3}";
        let file = proptest::option::of((0..40u32, any::<bool>()));
        proptest::collection::vec(proptest::collection::btree_map(path, file, 0..12), 1..80)
    }

    /// The oid of a tree by git-cinnabar's rule for `//`, from the text of its `create_git_tree`.
    fn cinnabar_oid(tree: &Raw, merged: Option<&Raw>) -> Oid {
        if let (Some(Item::Tree(inner)), None) = (tree.get(""), merged) {
            return cinnabar_oid(tree, Some(inner));
        }
        let mut entries: Vec<(String, Mode, Oid)> = Vec::new();
        let both = merged.map_or_else(Vec::new, |merged| merged.keys().collect::<Vec<_>>());
        let names: BTreeSet<&String> = tree.keys().chain(both).collect();
        for name in names {
            let theirs = merged.and_then(|merged| merged.get(name));
            match (tree.get(name).or(theirs), theirs) {
                _ if name.is_empty() => {}
                (Some(Item::Tree(inner)), theirs) => {
                    let theirs = match theirs {
                        Some(Item::Tree(theirs)) => Some(theirs),
                        _ => None,
                    };
                    entries.push((name.clone(), Mode::DIRECTORY, cinnabar_oid(inner, theirs)));
                }
                (Some(Item::File(oid, mode)), _) => entries.push((name.clone(), *mode, *oid)),
                (None, _) => unreachable!("it is the name of either"),
            }
        }
        entries.sort_by(|(a, mode_a, _), (b, mode_b, _)| {
            let is_directory = |mode: &Mode| mode.is_directory();
            entry_order(a.as_bytes(), is_directory(mode_a), b.as_bytes(), is_directory(mode_b))
        });
        let mut content = Vec::new();
        for (name, mode, oid) in entries {
            push_entry(&mut content, mode, name.as_bytes(), &oid);
        }
        let head = object_header(Kind::Tree, content.len() as u64);
        Oid::from_bytes(digest_one(Message { head: &head, body: &content }))
    }

    type Raw = BTreeMap<String, Item>;

    enum Item {
        File(Oid, Mode),
        Tree(Raw),
    }

    fn raw(files: &[(String, Oid)]) -> Raw {
        let mut root = Raw::new();
        for (path, oid) in files {
            let mut tree = &mut root;
            let (directories, name) = path.rsplit_once('/').unwrap_or(("", path));
            let directories = path.contains('/').then(|| directories.split('/'));
            for directory in directories.into_iter().flatten() {
                let item = tree.entry(directory.to_owned());
                let Item::Tree(inner) = item.or_insert_with(|| Item::Tree(Raw::new())) else {
                    unreachable!("files have other names than directories")
                };
                tree = inner;
            }
            tree.insert(name.to_owned(), Item::File(*oid, Mode::FILE));
        }
        root
    }

    proptest! {
        #[test]
        fn empty_components_are_shown_as_git_cinnabar_shows_them(
            revisions in proptest::collection::vec(
                proptest::collection::btree_map(
                    "[ab](//?[ab](//?[ab])?)?//?[fg]", proptest::option::of(0..40u32), 0..6),
                1..20),
        ) {
            let mut names = Names::default();
            let mut files = FileTable::default();
            let path = names.number(b"any");
            for seed in 0..40u8 {
                let node = revlog::Node::from_bytes([seed + 1; 20]);
                files.number(node, path, |_| Some(Oid::from_bytes([seed + 100; 20])));
            }
            let mut writer = TreeWriter::default();
            let mut contents: BTreeMap<Oid, Vec<u8>> = BTreeMap::new();
            let mut tree: Option<Arc<Directory>> = None;
            let mut expected: BTreeMap<String, u32> = BTreeMap::new();
            for revision in revisions {
                for (path, file) in &revision {
                    match file {
                        Some(file) => expected.insert(path.clone(), *file),
                        None => expected.remove(path),
                    };
                }
                let list: Vec<Change<'_>> = revision.iter().map(|(path, file)| {
                    Change { path: path.as_bytes(), file: file.map(|id| (FileId(id), Mode::FILE)) }
                }).collect();
                let mut context =
                    Context { names: &mut names, files: &files, writer: Some(&mut writer) };
                tree = context.apply(tree.as_ref(), &list).expect("all blobs are known");
                let list: Vec<_> = expected.iter().map(|(path, id)| {
                    let seed = u8::try_from(*id).expect("small") + 100;
                    (path.clone(), Oid::from_bytes([seed; 20]))
                }).collect();
                let oid = tree.as_ref().map_or(Oid::EMPTY_TREE, |tree| tree.git.oid);
                prop_assert_eq!(oid, cinnabar_oid(&raw(&list), None));
                let list: Vec<_> = expected.iter().map(|(path, id)| {
                    let seed = u8::try_from(*id).expect("small") + 1;
                    (path.clone(), Oid::from_bytes([seed; 20]), Mode::FILE)
                }).collect();
                let oid = tree.as_ref().map_or(Oid::EMPTY_TREE, |tree| tree.manifest.oid);
                prop_assert_eq!(oid, plain_manifest_oid(&list));
                for object in writer.take() {
                    let content = match object.base {
                        Some(base) => delta::apply(&contents[&base], &object.payload).expect("fits"),
                        None => object.payload,
                    };
                    let head = object_header(Kind::Tree, content.len() as u64);
                    let digest = digest_one(Message { head: &head, body: &content });
                    prop_assert_eq!(Oid::from_bytes(digest), object.oid);
                    contents.insert(object.oid, content);
                }
            }
        }

        #[test]
        fn a_changed_tree_equals_one_made_from_scratch(revisions in edits()) {
            let mut names = Names::default();
            let mut files = FileTable::default();
            let path = names.number(b"any");
            for seed in 0..40u8 {
                let node = revlog::Node::from_bytes([seed + 1; 20]);
                files.number(node, path, |_| Some(Oid::from_bytes([seed + 100; 20])));
            }
            let mut writer = TreeWriter::default();
            let mut contents: BTreeMap<Oid, Vec<u8>> = BTreeMap::new();
            let mut tree: Option<Arc<Directory>> = None;
            let mut expected: BTreeMap<String, (u32, bool)> = BTreeMap::new();
            for revision in revisions {
                // a manifest has no file where it has a directory: changes keep to that
                let mut changes: BTreeMap<String, Option<(u32, bool)>> = BTreeMap::new();
                for (path, file) in revision {
                    if file.is_some() {
                        let below = format!("{path}/");
                        let clashes = |other: &String| {
                            other.starts_with(&below) || path.starts_with(&format!("{other}/"))
                        };
                        for gone in expected.keys().filter(|other| clashes(other)) {
                            changes.insert(gone.clone(), None);
                        }
                        changes.retain(|other, file| file.is_none() || !clashes(other));
                    }
                    changes.insert(path, file);
                }
                for (path, file) in &changes {
                    match file {
                        Some(file) => expected.insert(path.clone(), *file),
                        None => expected.remove(path),
                    };
                }
                let mode = |flag| if flag { Mode::EXECUTABLE } else { Mode::FILE };
                let list: Vec<Change<'_>> = changes.iter().map(|(path, file)| {
                    Change { path: path.as_bytes(), file: file.map(|(id, flag)| (FileId(id), mode(flag))) }
                }).collect();
                let mut context = Context { names: &mut names, files: &files, writer: Some(&mut writer) };
                tree = context.apply(tree.as_ref(), &list).expect("all blobs are known");
                let plain: Vec<_> = expected.iter().map(|(path, (id, flag))| {
                    (path.as_bytes(), Oid::from_bytes([u8::try_from(*id).expect("small") + 100; 20]), mode(*flag))
                }).collect();
                let oid = tree.as_ref().map_or(Oid::EMPTY_TREE, |tree| tree.git.oid);
                prop_assert_eq!(oid, plain_oid(&plain));
                let list: Vec<_> = expected.iter().map(|(path, (id, flag))| {
                    let seed = u8::try_from(*id).expect("small") + 1;
                    (path.clone(), Oid::from_bytes([seed; 20]), mode(*flag))
                }).collect();
                let oid = tree.as_ref().map_or(Oid::EMPTY_TREE, |tree| tree.manifest.oid);
                prop_assert_eq!(oid, plain_manifest_oid(&list));
                for object in writer.take() {
                    let content = match object.base {
                        Some(base) => delta::apply(&contents[&base], &object.payload).expect("fits"),
                        None => object.payload,
                    };
                    let head = object_header(Kind::Tree, content.len() as u64);
                    let digest = digest_one(Message { head: &head, body: &content });
                    prop_assert_eq!(Oid::from_bytes(digest), object.oid);
                    contents.insert(object.oid, content);
                }
            }
        }
    }
}
