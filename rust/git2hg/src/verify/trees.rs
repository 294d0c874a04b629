//! Trees of manifests, each made of the tree of the manifest before it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::ops::Range;

use dialect::CopySource;
use dialect::exact::tree::{
    self, HiddenFile, Hides, TrackedFile, TreeProblem, TreeStore, TreeValue,
};
use gitpack::tree::{Mode, entry_order, push_entry};
use gitpack::{ObjectKind, Oid, object_header};
use hashbrown::HashMap;
use parallel::Directory;
use revlog::manifest::Flag;
use revlog::{Delta, Lines, Node, Parents, Rev, Revlog, Scratch, Texts, node};

use crate::build::KnownParent;
use crate::build::manifests::{ChainLength, MOST_SEARCHES};
use crate::build::manifesttext::{ManifestText, RecentTexts};
use crate::build::spool::Spool;
use crate::judge::tree::TreeEntry;
use crate::read::trees::{EntryKind, FileEntry, GitTrees, entries, kind_of};
use crate::verify::blobs::FileBlobs;
use crate::verify::chunks::ChunkTexts;
use crate::verify::fault::{Problem, VerifyResult, fault};
use crate::verify::hashes::{RevisionText, UnverifiedText};
use sha1lanes::{Message, digest_one};

/// Trees by the nodes of manifests.
#[derive(Debug)]
pub(crate) struct ManifestTrees<'a> {
    revlog: &'a Revlog,
    scratch: Scratch,
    stored: Option<HashMap<Node, Rev>>,
    searches: u32,
    manifests: ChunkTexts<'a>,
    /// Texts by the numbers of `manifests`.
    texts: RecentTexts<usize>,
    /// Whole texts of some manifests, so that chains of deltas end.
    spool: Spool,
    kept: HashMap<usize, (u64, usize)>,
    /// For each manifest, deltas since the last whole text.
    chains: Vec<ChainLength>,
    contents: FileBlobs<'a>,
    trees: HashMap<Node, Oid>,
}

/// Tree of a manifest.
pub(crate) struct Root {
    pub tree: Oid,
    /// Paths that differ from the given manifest, ascending, if compared.
    pub changed: Option<Vec<Box<[u8]>>>,
    /// The manifest, if its node is not verified yet.
    pub made: Option<UnverifiedText<RevisionText>>,
}

type Entries = BTreeMap<Box<[u8]>, Option<(Node, Flag)>>;

impl<'a> ManifestTrees<'a> {
    /// Starts with the manifests of known changesets; `manifests` and `contents` are those of a
    /// changegroup. Texts of about `most_bytes` are cached.
    pub fn new(
        revlog: &'a Revlog,
        (manifests, contents): (ChunkTexts<'a>, FileBlobs<'a>),
        (most_bytes, dir): (usize, &Directory),
        known: &[KnownParent],
    ) -> VerifyResult<Self> {
        let mut trees: HashMap<Node, Oid> =
            known.iter().map(|known| (known.manifest, known.tree)).collect();
        trees.insert(Node::NULL, Oid::EMPTY_TREE);
        Ok(Self {
            revlog,
            scratch: Scratch::default(),
            stored: None,
            searches: 0,
            spool: Spool::new(dir, "verified-manifests")?,
            kept: HashMap::new(),
            chains: vec![ChainLength::default(); manifests.len()],
            manifests,
            texts: RecentTexts::new(most_bytes),
            contents,
            trees,
        })
    }

    /// Whether texts that were given out take too much.
    pub fn is_full(&self) -> bool {
        self.texts.is_exceeded
    }

    /// Tree of a manifest. `before` is the manifest of the first parent of its changeset.
    pub fn of(
        &mut self,
        manifest: Node,
        before: Node,
        trees: &GitTrees<impl Write, impl Read>,
    ) -> VerifyResult<Root> {
        if manifest == before || self.trees.contains_key(&manifest) {
            let tree = self.trees.get(&manifest).copied();
            let tree = tree.ok_or_else(|| fault(format!("manifest {manifest} is not known")))?;
            let changed = (manifest == before).then(Vec::new);
            return Ok(Root { tree, changed, made: None });
        }
        let (base, entries, made) = self.changes(manifest, before)?;
        let start = self.trees.get(&base).copied();
        let start = start.ok_or_else(|| fault(format!("manifest {base} is not known")))?;
        let edits = self.edits(&entries)?;
        let tree = edited(trees, Some(start), &edits)?.unwrap_or(Oid::EMPTY_TREE);
        self.trees.insert(manifest, tree);
        let changed = (base == before).then(|| entries.into_keys().collect());
        Ok(Root { tree, changed, made })
    }

    /// Tree of a changeset with this manifest, by the rules of the extra `git.tree`. `before` has
    /// the manifest and the tree of its first parent. The dialect's trees do not have files from
    /// manifests that it `hides`.
    pub fn exact(
        &mut self,
        manifest: Node,
        before: (Node, Option<Oid>),
        (value, hides): (Option<&TreeValue>, Option<Hides>),
        git: &GitTrees<impl Write, impl Read>,
    ) -> VerifyResult<Root> {
        let (mut entries, mut made) = (Entries::new(), None);
        if manifest != before.0 {
            let (base, changes, text) = self.changes(manifest, before.0)?;
            let is_seen = self.trees.insert(manifest, Oid::EMPTY_TREE).is_some();
            made = text.filter(|_| !is_seen);
            entries = if base == before.0 { changes } else { self.compared(before.0, manifest)? };
        }
        let mut edits = Vec::with_capacity(entries.len());
        for edit in self.edits(&entries)? {
            let is_hidden = hides.is_some_and(|hides| hides(edit.0));
            if !is_hidden || self.is_shown(edit.0, before, git)? {
                edits.push(edit);
            }
        }
        let mut store = PushedTrees { git, roots: self, manifest, hides };
        let by_extra = match value {
            Some(value) => match tree::edited(&mut store, before.1, &edits, Some(&value.edits)) {
                Ok(made) => {
                    Some(made.unwrap_or(Oid::EMPTY_TREE)).filter(|made| *made == value.root)
                }
                Err(TreeProblem::Unfit) => None,
                Err(TreeProblem::Unreadable(error)) => return Err(error),
            },
            None => None,
        };
        let tree = match by_extra {
            Some(tree) => tree,
            None => match tree::edited(&mut store, before.1, &edits, None) {
                Ok(made) => made.unwrap_or(Oid::EMPTY_TREE),
                // of a changeset between parents, or its commit differs
                Err(TreeProblem::Unfit) => Oid::EMPTY_TREE,
                Err(TreeProblem::Unreadable(error)) => return Err(error),
            },
        };
        Ok(Root { tree, changed: Some(entries.into_keys().collect()), made })
    }

    /// Whether the tree of a first parent has a hidden file like its manifest.
    fn is_shown(
        &mut self,
        path: &[u8],
        (manifest, tree): (Node, Option<Oid>),
        git: &GitTrees<impl Write, impl Read>,
    ) -> VerifyResult<bool> {
        let Some(file) = self.file(manifest, path)? else { return Ok(false) };
        let mut store = PushedTrees { git, roots: self, manifest, hides: None };
        Ok(tree::file_at(&mut store, tree, path)? == Some(file))
    }

    /// The file of a manifest.
    fn file(&mut self, manifest: Node, path: &[u8]) -> VerifyResult<Option<TrackedFile>> {
        let Some((node, flag)) = self.text(manifest)?.entry(path) else { return Ok(None) };
        Ok(Some((flag, self.contents.blob(path, node)?)))
    }

    /// Files at these paths of a manifest that record copies which neither manifest of `parents`
    /// has.
    pub fn copies(
        &mut self,
        manifest: Node,
        parents: &[Node],
        paths: &[&[u8]],
    ) -> VerifyResult<Vec<CopySource>> {
        let text = self.text(manifest)?;
        let mut found = Vec::new();
        for path in paths {
            let Some((node, _)) = text.entry(path) else { continue };
            let Some(source) = self.contents.copy(path, node)? else { continue };
            let mut is_old = false;
            for parent in parents {
                let of_parent = self.text(*parent)?.entry(path);
                is_old |= of_parent.is_some_and(|(other, _)| other == node);
            }
            if !is_old {
                found.push(CopySource { path: path.to_vec(), source });
            }
        }
        Ok(found)
    }

    /// Changes of a manifest, with the manifest that they are based on: `before`, unless another is
    /// in the changegroup. The manifest itself if it is in there.
    fn changes(
        &mut self,
        manifest: Node,
        before: Node,
    ) -> VerifyResult<(Node, Entries, Option<UnverifiedText<RevisionText>>)> {
        let Some(number) = self.manifests.find(manifest) else {
            return Ok((before, self.compared(before, manifest)?, None));
        };
        let (entries, text) = self.sent(number)?;
        let made = self.manifests.made(number, text);
        Ok((self.manifests.base(number), entries, Some(made)))
    }

    /// Changes of files with their blobs.
    fn edits<'e>(&mut self, entries: &'e Entries) -> VerifyResult<Vec<FileEdit<'e>>> {
        let mut edits: Vec<FileEdit<'_>> = Vec::with_capacity(entries.len());
        for (path, entry) in entries {
            let entry = match entry {
                Some((node, flag)) => Some((*flag, self.contents.blob(path, *node)?)),
                None => None,
            };
            edits.push((path, entry));
        }
        Ok(edits)
    }

    /// Text of a manifest in the changegroup, and its changes against its base.
    fn sent(&mut self, number: usize) -> VerifyResult<(Entries, RevisionText)> {
        let base = self.text(self.manifests.base(number))?;
        let bytes = self.manifests.delta(number)?;
        let delta = Delta::parse(&bytes, base.len()).map_err(|error| fault(error.to_string()))?;
        let text = base.applied(&delta, &self.texts.tally);
        self.keep(number, bytes.len(), &text)?;
        self.texts.put(number, text.clone());
        let (mut entries, mut kept) = (Entries::new(), Entries::new());
        let (mut from, mut at) = (0, 0);
        for hunk in delta.hunks() {
            at += hunk.start - from;
            from = hunk.end;
            for line in base.lines_in(hunk.start..hunk.end) {
                let line = line.map_err(|error| fault(error.to_string()))?;
                kept.insert(line.path.into(), Some((line.node, line.flag)));
                entries.entry(line.path.into()).or_insert(None);
            }
            for line in Lines::new(hunk.data) {
                let line = line.map_err(|error| fault(error.to_string()))?;
                entries.insert(line.path.into(), Some((line.node, line.flag)));
            }
            check_order(&text, at..at + hunk.data.len())?;
            at += hunk.data.len();
        }
        entries.retain(|path, entry| entry.is_none() || kept.get(path) != Some(entry));
        Ok((entries, RevisionText::Manifest(text)))
    }

    /// Keeps the text of a manifest, if its chain is long: a branch may start at any of them.
    fn keep(&mut self, number: usize, delta_len: usize, text: &ManifestText) -> VerifyResult<()> {
        let base = self.manifests.find(self.manifests.base(number));
        let before = base.map_or_else(ChainLength::default, |base| self.chains[base]);
        let chain = before.with(delta_len, text.len());
        self.chains[number] = chain;
        if chain.is_whole() && !self.kept.contains_key(&number) {
            self.kept.insert(number, (self.spool.len(), text.len()));
            self.spool.push(&text.to_vec())?;
        }
        Ok(())
    }

    /// Differences of two manifests.
    fn compared(&mut self, before: Node, manifest: Node) -> VerifyResult<Entries> {
        let (one, two) = (self.text(before)?, self.text(manifest)?);
        let lines = one.differing(&two);
        Ok(lines.into_iter().map(|line| (line.path.into(), line.entries[1])).collect())
    }

    fn text(&mut self, manifest: Node) -> VerifyResult<ManifestText> {
        // bases, down to a cached text
        let mut chain = Vec::new();
        let mut at = manifest;
        let mut text = loop {
            if at == Node::NULL {
                break ManifestText::default();
            }
            let Some(number) = self.manifests.find(at) else { break self.stored(at)? };
            if let Some(text) = self.texts.get(&number) {
                break text;
            }
            if let Some((at, len)) = self.kept.get(&number) {
                let mut whole = Vec::new();
                self.spool.read(*at, *len, &mut whole)?;
                break ManifestText::new(&whole, &self.texts.tally);
            }
            if chain.last().is_some_and(|last| number >= *last) {
                return Err(fault(format!("manifest {at} has no base")));
            }
            chain.push(number);
            at = self.manifests.base(number);
        };
        for number in chain.iter().rev() {
            let delta = self.manifests.delta(*number)?;
            let made = text.patched(&delta, &self.texts.tally);
            text = made.map_err(|error| fault(error.to_string()))?;
        }
        if let Some(number) = self.manifests.find(manifest) {
            self.texts.put(number, text.clone());
        }
        Ok(text)
    }

    /// Revision of a manifest in the store. Small pushes refer to its end, where a search is faster
    /// than a table.
    fn search(&mut self, manifest: Node) -> Option<Rev> {
        let index = self.revlog.index();
        if self.searches < MOST_SEARCHES {
            self.searches += 1;
            return index.revs().rev().find(|rev| index.node(*rev) == manifest);
        }
        let table = || index.revs().map(|rev| (index.node(rev), rev)).collect();
        self.stored.get_or_insert_with(table).get(&manifest).copied()
    }

    fn stored(&mut self, manifest: Node) -> VerifyResult<ManifestText> {
        let index = self.revlog.index();
        let rev = self.search(manifest);
        let rev = rev.ok_or_else(|| fault(format!("there is no manifest {manifest}")))?;
        let text = Texts::new(self.revlog, &mut self.scratch, 0).get(rev)?.text;
        let Parents(p1, p2) = index.parents(rev);
        if node::node_of(index.node_or_null(p1), index.node_or_null(p2), &text) != manifest {
            return Err(self.revlog.corrupt(rev, "its text does not match its node").into());
        }
        Ok(ManifestText::new(&text, &self.texts.tally))
    }
}

/// git's trees, as the extra `git.tree` reads them.
struct PushedTrees<'s, 'a, W, R> {
    git: &'s GitTrees<W, R>,
    roots: &'s mut ManifestTrees<'a>,
    /// Manifest of the changeset.
    manifest: Node,
    hides: Option<Hides>,
}

impl<W: Write, R: Read> TreeStore for PushedTrees<'_, '_, W, R> {
    type Error = Problem;

    fn read(&mut self, _path: &[u8], oid: Oid) -> VerifyResult<Vec<u8>> {
        Ok(self.git.get(oid)?.content.to_vec())
    }

    fn hidden(&mut self, path: &[u8]) -> VerifyResult<Option<HiddenFile>> {
        if !self.hides.is_some_and(|hides| hides(path)) {
            return Ok(None);
        }
        Ok(Some(HiddenFile(self.roots.file(self.manifest, path)?)))
    }

    fn write(&mut self, _base: Option<Oid>, content: Vec<u8>) -> Oid {
        let head = object_header(ObjectKind::Tree, content.len() as u64);
        let oid = Oid::from_bytes(digest_one(Message { head: &head, body: &content }));
        self.git.add(oid, content);
        oid
    }
}

/// Expects that the lines at `range` are sorted, together with their neighbours.
fn check_order(text: &ManifestText, range: Range<usize>) -> VerifyResult<()> {
    let lines = text.lines_around(range);
    let mut before: Option<&[u8]> = None;
    for line in lines.ok_or_else(|| fault("a manifest is changed within a line"))? {
        let line = line.map_err(|error| fault(error.to_string()))?;
        if before.is_some_and(|before| before >= line.path) {
            return Err(fault("a manifest is not sorted"));
        }
        before = Some(line.path);
    }
    Ok(())
}

/// File edit below a directory; `None` removes the file.
type FileEdit<'a> = (&'a [u8], Option<FileEntry>);

/// Applies `edits`, ascending by path, to the directory `tree`. `None` if it becomes empty.
///
/// Recursion is bounded by the length of manifest lines.
fn edited(
    trees: &GitTrees<impl Write, impl Read>,
    tree: Option<Oid>,
    edits: &[FileEdit<'_>],
) -> VerifyResult<Option<Oid>> {
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
    // edits have the order of entries: a directory sorts like its name with a slash
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

/// Whether two paths go through the same directory here.
fn is_below_one(one: &[u8], two: &[u8]) -> bool {
    memchr::memchr(b'/', one).is_some_and(|end| two.starts_with(&one[..=end]))
}

const fn mode_of(kind: EntryKind) -> Mode {
    match kind {
        EntryKind::Directory => Mode::DIRECTORY,
        EntryKind::File(Flag::Regular) => Mode::FILE,
        EntryKind::File(Flag::Executable) => Mode::EXECUTABLE,
        EntryKind::File(Flag::Symlink) => Mode::SYMLINK,
        EntryKind::Gitlink => Mode::GITLINK,
    }
}
