//! The trees of manifests, each made from that of the manifest before it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::Arc;

use gitpack::Oid;
use hashbrown::HashMap;
use parallel::Buffer;
use revlog::manifest::Flag;
use revlog::{Delta, Lines, Node, Parents, Rev, Revlog, Scratch, Texts, node};

use crate::build::KnownTree;
use crate::build::manifestlines::differing;
use crate::build::manifests::MOST_SEARCHES;
use crate::read::trees::GitTrees;
use crate::verify::blobs::FileContents;
use crate::verify::chunks::ChunkTexts;
use crate::verify::hashes::MadeText;
use crate::verify::treeedit::{FileEdit, edited};
use crate::verify::{Checked, fault};

/// Trees by the nodes of manifests.
#[derive(Debug)]
pub(crate) struct Roots<'a> {
    revlog: &'a Revlog,
    scratch: Scratch,
    stored: Option<HashMap<Node, Rev>>,
    searches: u32,
    manifests: ChunkTexts<'a>,
    contents: FileContents<'a>,
    trees: HashMap<Node, Oid>,
}

/// The tree of a manifest.
pub(crate) struct Root {
    pub tree: Oid,
    /// Paths that differ from the manifest that was given, ascending, if they were looked for.
    pub changed: Option<Vec<Box<[u8]>>>,
    /// The manifest, if its node has to be looked at.
    pub made: Option<MadeText>,
}

type Entries = BTreeMap<Box<[u8]>, Option<(Node, Flag)>>;

impl<'a> Roots<'a> {
    /// Those of known changesets, and of `manifests` of a changegroup.
    pub fn new(
        revlog: &'a Revlog,
        manifests: ChunkTexts<'a>,
        contents: FileContents<'a>,
        known: &[KnownTree],
    ) -> Self {
        let mut trees: HashMap<Node, Oid> =
            known.iter().map(|known| (known.manifest, known.tree)).collect();
        trees.insert(Node::NULL, Oid::EMPTY_TREE);
        let scratch = Scratch::default();
        Self { revlog, scratch, stored: None, searches: 0, manifests, contents, trees }
    }

    /// The tree of a manifest, when that of the first parent of its changeset is `before`.
    pub fn of(
        &mut self,
        manifest: Node,
        before: Node,
        trees: &GitTrees<impl Write, impl Read>,
    ) -> Checked<Root> {
        if manifest == before || self.trees.contains_key(&manifest) {
            let tree = self.trees.get(&manifest).copied();
            let tree = tree.ok_or_else(|| fault(format!("manifest {manifest} is not known")))?;
            let changed = (manifest == before).then(Vec::new);
            return Ok(Root { tree, changed, made: None });
        }
        let (base, entries, made) = match self.manifests.find(manifest) {
            Some(number) => {
                let (entries, text) = self.sent(number)?;
                let made = self.manifests.made(number, text);
                (self.manifests.base(number), entries, Some(made))
            }
            None => (before, self.compared(before, manifest)?, None),
        };
        let start = self.trees.get(&base).copied();
        let start = start.ok_or_else(|| fault(format!("manifest {base} is not known")))?;
        let mut edits: Vec<FileEdit<'_>> = Vec::with_capacity(entries.len());
        for (path, entry) in &entries {
            let entry = match entry {
                Some((node, flag)) => Some((*flag, self.contents.blob(path, *node)?)),
                None => None,
            };
            edits.push((path, entry));
        }
        let tree = edited(trees, Some(start), &edits)?.unwrap_or(Oid::EMPTY_TREE);
        self.trees.insert(manifest, tree);
        let changed = (base == before).then(|| entries.into_keys().collect());
        Ok(Root { tree, changed, made })
    }

    /// What a manifest of the changegroup changes of its base, and its text.
    fn sent(&mut self, number: usize) -> Checked<(Entries, Arc<Buffer>)> {
        let base = self.text(self.manifests.base(number))?;
        let bytes = self.manifests.delta(number)?;
        let delta = Delta::parse(&bytes, base.len()).map_err(|it| fault(it.to_string()))?;
        let text = self.manifests.patch(number, &base, &delta)?;
        let (mut entries, mut kept) = (Entries::new(), Entries::new());
        let (mut from, mut at) = (0, 0);
        for hunk in delta.hunks() {
            at += hunk.start - from;
            from = hunk.end;
            for line in Lines::new(&base[hunk.start..hunk.end]) {
                let line = line.map_err(|it| fault(it.to_string()))?;
                kept.insert(line.path.into(), Some((line.node, line.flag)));
                entries.entry(line.path.into()).or_insert(None);
            }
            for line in Lines::new(hunk.data) {
                let line = line.map_err(|it| fault(it.to_string()))?;
                entries.insert(line.path.into(), Some((line.node, line.flag)));
            }
            check_order(&text, at, at + hunk.data.len())?;
            at += hunk.data.len();
        }
        entries.retain(|path, entry| entry.is_none() || kept.get(path) != Some(entry));
        Ok((entries, text))
    }

    /// How two manifests differ.
    fn compared(&mut self, before: Node, manifest: Node) -> Checked<Entries> {
        let (one, two) = (self.text(before)?, self.text(manifest)?);
        let lines = differing(&one, &two);
        Ok(lines.into_iter().map(|line| (line.path.into(), line.entries[1])).collect())
    }

    fn text(&mut self, manifest: Node) -> Checked<Arc<Buffer>> {
        if manifest == Node::NULL {
            return Ok(Arc::new(Buffer::default()));
        }
        if let Some(text) = self.manifests.recent(manifest) {
            return Ok(text);
        }
        // the way down to one that is at hand
        let mut chain = Vec::new();
        let mut at = manifest;
        let mut text = loop {
            if at == Node::NULL {
                break Arc::new(Buffer::default());
            }
            if let Some(text) = self.manifests.recent(at) {
                break text;
            }
            match self.manifests.find(at) {
                Some(number) if chain.last().is_none_or(|last| number < *last) => {
                    chain.push(number);
                    at = self.manifests.base(number);
                }
                Some(_) => return Err(fault(format!("manifest {at} has no base"))),
                None => break self.stored(at)?,
            }
        };
        for number in chain.into_iter().rev() {
            text = self.manifests.apply(number, &text)?;
        }
        Ok(text)
    }

    /// A manifest of the store. Those of a small push are near its end, and a table takes longer to make.
    fn search(&mut self, manifest: Node) -> Option<Rev> {
        let index = self.revlog.index();
        if self.searches < MOST_SEARCHES {
            self.searches += 1;
            return index.revs().rev().find(|rev| index.node(*rev) == manifest);
        }
        let table = || index.revs().map(|rev| (index.node(rev), rev)).collect();
        self.stored.get_or_insert_with(table).get(&manifest).copied()
    }

    fn stored(&mut self, manifest: Node) -> Checked<Arc<Buffer>> {
        let index = self.revlog.index();
        let rev = self.search(manifest);
        let rev = rev.ok_or_else(|| fault(format!("there is no manifest {manifest}")))?;
        let text = Texts::new(self.revlog, &mut self.scratch, 0).get(rev)?.text;
        let Parents(p1, p2) = index.parents(rev);
        if node::node_of(index.node_or_null(p1), index.node_or_null(p2), &text) != manifest {
            return Err(self.revlog.corrupt(rev, "its text does not match its node").into());
        }
        Ok(text)
    }
}

/// Whether the lines between two offsets are in order, and those before and after them.
fn check_order(text: &[u8], start: usize, end: usize) -> Checked<()> {
    let line_start = |at: usize| memchr::memrchr(b'\n', &text[..at]).map_or(0, |at| at + 1);
    if line_start(start) != start || line_start(end) != end {
        return Err(fault("a manifest is changed within a line"));
    }
    let from = line_start(start.saturating_sub(1));
    let to = memchr::memchr(b'\n', &text[end..]).map_or(text.len(), |at| end + at + 1);
    let mut before: Option<&[u8]> = None;
    for line in Lines::new(&text[from..to]) {
        let line = line.map_err(|it| fault(it.to_string()))?;
        if before.is_some_and(|before| before >= line.path) {
            return Err(fault("a manifest is not sorted"));
        }
        before = Some(line.path);
    }
    Ok(())
}
