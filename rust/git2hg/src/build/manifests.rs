//! Manifests of the store and of a conversion: nodes, parents and texts.
//!
//! The number of a manifest is its revision in the store. New manifests are numbered after these,
//! and the null manifest is `None`. So parents have smaller numbers than their children. Manifests
//! with one node have one number, which is known before the node (`manifestnodes`).

use std::sync::Arc;

use hashbrown::HashMap;
use parallel::{Cache, Directory};
use revlog::manifest::Flag;
use revlog::{KeptTexts, Node, Parents, Rev, Revlog, Scratch, Texts, node};
use sha1lanes::{Digest, Message, digest_one};

use crate::build::manifestlines::{DifferingLine, LineEdit};
use crate::build::manifestnodes::{ManifestNodes, ParentNode};
use crate::build::manifesttext::{ManifestText, RecentTexts};
use crate::build::spool::Spool;
use crate::error::{Error, Result};

/// Number of a manifest; `None` is the null manifest.
pub(crate) type Number = Option<u32>;

/// A whole text is written after deltas of this part of its length together, and of this many bytes
/// at least. So whole texts take a few times as much room as deltas, however long they are.
const CHAIN_PART: usize = 8;
const SHORTEST_CHAIN_BYTES: usize = 64 << 10;
/// Cost of applying a delta beside its bytes, in bytes of a delta.
const DELTA_BYTES: usize = 500;
/// Memory of a list of changes beside its bytes, about.
const OVERHEAD_BYTES: usize = 100;
/// Linear searches for nodes of the store before a table is built.
pub(crate) const MOST_SEARCHES: u32 = 4;

/// New manifest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewManifest {
    pub parents: [Number; 2],
    /// Number of the first changeset with this manifest.
    pub link: u32,
    /// Delta base: the first parent, if any.
    base: Number,
    delta_at: u64,
    delta_len: u32,
    /// Place of the list for [`PushedManifests::changed`].
    edits_at: u64,
    edits_len: u32,
    /// Of deltas since the last whole text; zero if this manifest has one.
    chain: ChainLength,
    text_at: u64,
    text_len: u32,
}

/// Length of a chain of deltas to apply, as bytes of deltas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChainLength(usize);

impl ChainLength {
    /// The length with one more delta, to a text of `text_len` bytes; zero if that is to be written
    /// whole.
    pub fn with(self, delta_len: usize, text_len: usize) -> Self {
        let bytes = self.0 + delta_len + DELTA_BYTES;
        let is_long = bytes > SHORTEST_CHAIN_BYTES.max(text_len / CHAIN_PART);
        Self(if is_long { 0 } else { bytes })
    }

    /// Whether the text is written whole.
    pub fn is_whole(self) -> bool {
        self == Self(0)
    }
}

/// All manifests.
#[derive(Debug)]
pub(crate) struct PushedManifests<'a> {
    revlog: &'a Revlog,
    scratch: Scratch,
    kept: KeptTexts,
    kept_bytes: usize,
    new: Vec<NewManifest>,
    nodes: ManifestNodes,
    /// Numbers of new manifests by [`Self::digest`].
    numbers: HashMap<Digest, u32>,
    /// Nodes of the store, after many searches.
    stored: Option<HashMap<Node, u32>>,
    searches: u32,
    spool: Spool,
    texts: RecentTexts<u32>,
    /// Cache of [`Self::changed`].
    changed: Cache<u32, Arc<Vec<u8>>>,
    /// Cache of [`Self::nodes_at`].
    lookups: ManifestLookups,
}

impl<'a> PushedManifests<'a> {
    /// Starts with the manifests of the store. Texts and changes of about `most_bytes` are cached.
    pub fn new(revlog: &'a Revlog, dir: &Directory, most_bytes: usize) -> Result<Self> {
        Ok(Self {
            revlog,
            scratch: Scratch::new(most_bytes / 4),
            kept: KeptTexts::default(),
            kept_bytes: most_bytes / 4,
            new: Vec::new(),
            nodes: ManifestNodes::new(),
            numbers: HashMap::new(),
            stored: None,
            searches: 0,
            spool: Spool::new(dir, "manifests")?,
            texts: RecentTexts::new(most_bytes / 4),
            changed: Cache::new(most_bytes / 8),
            lookups: ManifestLookups::new(most_bytes / 8),
        })
    }

    /// Number of manifests in the store.
    pub fn stored_len(&self) -> u32 {
        self.revlog.index().len()
    }

    /// New manifests with their numbers, in order.
    pub fn new_ones(&self) -> impl Iterator<Item = (u32, NewManifest)> + use<> {
        (self.stored_len()..).zip(self.new.clone())
    }

    /// Number of a manifest in the store.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if the store lacks this manifest.
    pub fn stored(&mut self, node: Node) -> Result<Number> {
        if node == Node::NULL {
            return Ok(None);
        }
        let found = self.search(node);
        found.map(Some).ok_or_else(|| Error::Store(self.revlog.missing(node)))
    }

    fn search(&mut self, node: Node) -> Option<u32> {
        let index = self.revlog.index();
        if self.searches < MOST_SEARCHES {
            self.searches += 1;
            return index.revs().rev().find(|rev| index.node(*rev) == node).map(Rev::number);
        }
        let table = || index.revs().map(|rev| (index.node(rev), rev.number())).collect();
        self.stored.get_or_insert_with(table).get(&node).copied()
    }

    fn rev(&self, number: u32) -> Result<Rev, &NewManifest> {
        let index = self.revlog.index();
        index.rev(number).ok_or_else(|| &self.new[(number - index.len()) as usize])
    }

    /// Node of a manifest. Waits for it, if it is new.
    ///
    /// # Errors
    ///
    /// The errors of [`ManifestNodes::get`].
    pub fn node(&self, number: Number) -> Result<Node> {
        match self.parent_node(number) {
            ParentNode::Known(node) => Ok(node),
            ParentNode::New(place) => self.nodes.get(place),
        }
    }

    /// Node of a manifest, if it is known.
    pub fn known_node(&self, number: Number) -> Option<Node> {
        match self.parent_node(number) {
            ParentNode::Known(node) => Some(node),
            ParentNode::New(place) => self.nodes.known(place),
        }
    }

    fn parent_node(&self, number: Number) -> ParentNode {
        let Some(number) = number else { return ParentNode::Known(Node::NULL) };
        let index = self.revlog.index();
        match index.rev(number) {
            Some(rev) => ParentNode::Known(index.node(rev)),
            None => ParentNode::New((number - index.len()) as usize),
        }
    }

    /// Parents of a manifest.
    pub fn parents(&self, number: u32) -> [Number; 2] {
        match self.rev(number) {
            Ok(rev) => {
                let Parents(p1, p2) = self.revlog.index().parents(rev);
                [p1, p2].map(|parent| parent.map(Rev::number))
            }
            Err(new) => new.parents,
        }
    }

    /// Text of a manifest.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if the text cannot be read, or does not match its node.
    pub fn text(&mut self, number: Number) -> Result<ManifestText> {
        let Some(number) = number else { return Ok(ManifestText::default()) };
        let mut chain: Vec<NewManifest> = Vec::new();
        let mut at = Some(number);
        let mut text = loop {
            let Some(number) = at else { break ManifestText::default() };
            if let Some(text) = self.texts.get(&number) {
                break text;
            }
            match self.rev(number).map_err(|new| *new) {
                Ok(rev) => break self.stored_text(rev)?,
                Err(new) if new.chain.is_whole() => {
                    let mut bytes = Vec::new();
                    self.spool.read(new.text_at, new.text_len as usize, &mut bytes)?;
                    // branches that take turns share it
                    let text = ManifestText::new(&bytes, &self.texts.tally);
                    break self.texts.put(number, text);
                }
                Err(new) => {
                    chain.push(new);
                    at = new.base;
                }
            }
        };
        let mut delta = Vec::new();
        for new in chain.into_iter().rev() {
            self.spool.read(new.delta_at, new.delta_len as usize, &mut delta)?;
            let made = text.patched(&delta, &self.texts.tally);
            text = made.map_err(|problem| Error::Wrong(problem.to_string()))?;
        }
        Ok(self.texts.put(number, text))
    }

    fn stored_text(&mut self, rev: Rev) -> Result<ManifestText> {
        let index = self.revlog.index();
        let kept = std::mem::take(&mut self.kept);
        let mut texts = Texts::resume(self.revlog, &mut self.scratch, self.kept_bytes, kept);
        let text = texts.get(rev)?.text;
        self.kept = texts.pause();
        let Parents(p1, p2) = index.parents(rev);
        let own = node::node_of(index.node_or_null(p1), index.node_or_null(p2), &text);
        if own != index.node(rev) {
            return Err(self.revlog.corrupt(rev, "its text does not match its node").into());
        }
        Ok(ManifestText::new(&text, &self.texts.tally))
    }

    /// Adds the manifest that `edits` make of the first of `parents`, first used by the changeset
    /// `link`.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::text`].
    pub fn add(&mut self, parents: [Number; 2], edits: &[LineEdit], link: u32) -> Result<Number> {
        let base = parents[0];
        let base_text = self.text(base)?;
        let delta = base_text.delta_of(edits);
        let text = base_text.patched(&delta, &self.texts.tally);
        let text = text.map_err(|problem| Error::Wrong(problem.to_string()))?;
        let digest = self.digest(parents, edits, [&base_text, &text])?;
        if let Some(number) = self.numbers.get(&digest) {
            return Ok(Some(*number));
        }
        let parent_nodes = parents.map(|parent| self.parent_node(parent));
        let stored_len = self.stored_len();
        let mut node = None;
        // a manifest with the same node has the same parents
        if let [ParentNode::Known(p1), ParentNode::Known(p2)] = parent_nodes
            && stored_len > 0
        {
            let known = text.node(p1, p2);
            if let Some(number) = self.search(known) {
                return Ok(Some(number));
            }
            node = Some(known);
        }
        let chain = match base.map(|base| self.rev(base)) {
            Some(Err(new)) => new.chain,
            _ => ChainLength::default(),
        };
        let short = |len: usize| u32::try_from(len).map_err(|_| Error::TooMany);
        let mut listed = Vec::new();
        for LineEdit { path, entry } in edits {
            push_change(path, entry.map(|(node, _)| node), &mut listed);
        }
        let mut new = NewManifest {
            parents,
            link,
            base,
            delta_at: self.spool.len(),
            delta_len: short(delta.len())?,
            edits_at: self.spool.len() + delta.len() as u64,
            edits_len: short(listed.len())?,
            chain: chain.with(delta.len(), text.len()),
            text_at: 0,
            text_len: short(text.len())?,
        };
        self.spool.push(&delta)?;
        self.spool.push(&listed)?;
        if new.chain.is_whole() {
            new.text_at = self.spool.len();
            self.spool.push(&text.to_vec())?;
        }
        let number = stored_len + short(self.new.len())?;
        self.new.push(new);
        match node {
            Some(node) => self.nodes.add_known(node),
            None => self.nodes.add(parent_nodes, &text),
        }
        self.numbers.insert(digest, number);
        self.keep_changed(number, listed);
        self.texts.put(number, text);
        // those that wait are in the cache, too, and take no more memory
        self.nodes.wait(self.texts.len() / 2)?;
        Ok(Some(number))
    }

    /// Digest of the parents, in any order, and the text of a manifest: equal for equal nodes, and
    /// only for these. `edits` make the text of `base_text`, the first parent's.
    fn digest(
        &mut self,
        parents: [Number; 2],
        edits: &[LineEdit],
        [base_text, text]: [&ManifestText; 2],
    ) -> Result<Digest> {
        let mut changed = Vec::new();
        let mut push = |path: &[u8], entry: Option<(Node, Flag)>| {
            push_change(path, entry.map(|(node, _)| node), &mut changed);
            changed.extend(entry.map(|(_, flag)| flag as u8));
        };
        // the parents tell the one with the differences
        let base = parents.into_iter().flatten().min();
        if base == parents[0] {
            for LineEdit { path, entry } in edits {
                if base_text.entry(path) != *entry {
                    push(path, *entry);
                }
            }
        } else {
            for DifferingLine { path, entries: [_, entry] } in self.text(base)?.differing(text) {
                push(path, entry);
            }
        }
        let mut head = [0; 10];
        let [low, high] = if parents[0] <= parents[1] { [0, 1] } else { [1, 0] };
        for (place, parent) in head.chunks_exact_mut(5).zip([parents[low], parents[high]]) {
            place[0] = u8::from(parent.is_some());
            place[1..].copy_from_slice(&parent.unwrap_or_default().to_be_bytes());
        }
        Ok(digest_one(Message { head: &head, body: &changed }))
    }

    /// Reads the delta of a new manifest, and returns the node of its base.
    ///
    /// # Errors
    ///
    /// [`Error::Scratch`], and the errors of [`Self::node`].
    pub fn delta(&mut self, new: &NewManifest, out: &mut Vec<u8>) -> Result<Node> {
        self.spool.read(new.delta_at, new.delta_len as usize, out)?;
        self.node(new.base)
    }

    /// Changes of a manifest against its first parent, to be read with [`changes`].
    ///
    /// # Errors
    ///
    /// The errors of [`Self::text`].
    pub fn changed(&mut self, number: u32) -> Result<Arc<Vec<u8>>> {
        if let Some(listed) = self.changed.get(&number) {
            return Ok(listed);
        }
        let mut listed = Vec::new();
        match self.rev(number).map_err(|new| *new) {
            Ok(_) => {
                let before = self.text(self.parents(number)[0])?;
                let after = self.text(Some(number))?;
                for DifferingLine { path, entries: [_, entry] } in before.differing(&after) {
                    push_change(path, entry.map(|(node, _)| node), &mut listed);
                }
            }
            Err(new) => self.spool.read(new.edits_at, new.edits_len as usize, &mut listed)?,
        }
        Ok(self.keep_changed(number, listed))
    }

    /// Nodes of some paths in a manifest; `None` for missing paths.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::text`].
    pub fn nodes_at(&mut self, number: u32, paths: &[&[u8]]) -> Result<Vec<Option<Node>>> {
        let known: Vec<_> = paths.iter().map(|path| self.lookups.get(number, path)).collect();
        let text = if known.iter().all(Option::is_some) {
            ManifestText::default()
        } else {
            self.text(Some(number))?
        };
        let found = known.into_iter().zip(paths).map(|(known, path)| {
            let node = known.unwrap_or_else(|| {
                let node = text.entry(path).map_or(Node::NULL, |(node, _)| node);
                self.lookups.put(number, path, node);
                node
            });
            (node != Node::NULL).then_some(node)
        });
        Ok(found.collect())
    }

    fn keep_changed(&mut self, number: u32, listed: Vec<u8>) -> Arc<Vec<u8>> {
        let (bytes, listed) = (listed.capacity() + OVERHEAD_BYTES, Arc::new(listed));
        self.changed.put(number, Arc::clone(&listed), bytes);
        listed
    }
}

/// Memory of a lookup beside its path, about.
const LOOKUP_BYTES: usize = 100;

/// Cache of nodes by manifest and path: merges of long-lived branches look up the same ones again.
#[derive(Debug)]
struct ManifestLookups {
    known: HashMap<u32, HashMap<Box<[u8]>, Node>>,
    bytes: usize,
    most_bytes: usize,
}

impl ManifestLookups {
    /// Starts empty.
    fn new(most_bytes: usize) -> Self {
        Self { known: HashMap::new(), bytes: 0, most_bytes }
    }

    /// Cached node of a path; the null node for a missing path.
    fn get(&self, number: u32, path: &[u8]) -> Option<Node> {
        self.known.get(&number)?.get(path).copied()
    }

    /// Caches the node of a path. A full cache is emptied first.
    fn put(&mut self, number: u32, path: &[u8], node: Node) {
        let bytes = path.len() + LOOKUP_BYTES;
        if self.bytes + bytes > self.most_bytes {
            self.known.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.known.entry(number).or_default().insert(path.into(), node);
    }
}

fn push_change(path: &[u8], node: Option<Node>, out: &mut Vec<u8>) {
    out.extend_from_slice(path);
    out.push(0);
    out.push(u8::from(node.is_some()));
    if let Some(node) = node {
        out.extend_from_slice(node.as_bytes());
    }
}

/// Changed paths with their new nodes; `None` for removed paths.
pub(crate) fn changes(listed: &[u8]) -> impl Iterator<Item = (&[u8], Option<Node>)> {
    let mut rest = listed;
    std::iter::from_fn(move || {
        let end = memchr::memchr(0, rest)?;
        let path = &rest[..end];
        let (is_there, after) = rest[end + 1..].split_first()?;
        let node = if *is_there == 1 {
            let (node, after) = after.split_first_chunk()?;
            rest = after;
            Some(Node::from_bytes(*node))
        } else {
            rest = after;
            None
        };
        Some((path, node))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fills_the_room_is_forgotten_together() {
        let node = |byte| Node::from_bytes([byte; 20]);
        let mut lookups = ManifestLookups::new(3 * (LOOKUP_BYTES + 1));
        assert_eq!(lookups.get(1, b"a"), None);
        lookups.put(1, b"a", node(1));
        lookups.put(2, b"a", Node::NULL);
        lookups.put(2, b"b", node(2));
        assert_eq!(lookups.get(1, b"a"), Some(node(1)));
        assert_eq!(lookups.get(2, b"a"), Some(Node::NULL));
        assert_eq!(lookups.get(2, b"b"), Some(node(2)));
        lookups.put(3, b"a", node(3));
        assert_eq!(lookups.get(2, b"b"), None);
        assert_eq!(lookups.get(3, b"a"), Some(node(3)));
    }
}
