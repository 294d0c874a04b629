//! The manifests of the store and those of a conversion: nodes, parents and texts.
//!
//! A manifest has a number: its revision in the store, or one after those. Null is `None`. So parents
//! have smaller numbers than their children.

use std::sync::Arc;

use hashbrown::HashMap;
use parallel::{Buffer, Directory};
use revlog::{Delta, KeptTexts, Node, Parents, Rev, Revlog, Scratch, Texts, node};

use crate::build::lookups::ManifestLookups;
use crate::build::manifestlines::{DifferingLine, LineEdit, apply, differing, entry};
use crate::build::spool::Spool;
use crate::cache::Recent;
use crate::error::{Error, Result};

/// A manifest's number; `None` is the null manifest.
pub(crate) type Number = Option<u32>;

/// Deltas after which a whole text is kept.
const LONGEST_CHAIN: u32 = 100;
/// What a list of changes takes beside its bytes, about.
const OVERHEAD_BYTES: usize = 100;
/// Searches through the store's nodes before they are put into a table.
pub(crate) const MOST_SEARCHES: u32 = 4;

/// A manifest of the conversion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewManifest {
    pub node: Node,
    pub parents: [Number; 2],
    /// Number of the first changeset that has it.
    pub link: u32,
    /// What the delta changes: the first parent, or nothing.
    base: Number,
    delta_at: u64,
    delta_len: u32,
    /// What [`PushedManifests::changed`] reads.
    edits_at: u64,
    edits_len: u32,
    /// Deltas since the last whole text, which are 0 if there is one.
    chain: u32,
    text_at: u64,
    text_len: u32,
}

/// All manifests.
#[derive(Debug)]
pub(crate) struct PushedManifests<'a> {
    revlog: &'a Revlog,
    scratch: Scratch,
    kept: KeptTexts,
    kept_bytes: usize,
    new: Vec<NewManifest>,
    numbers: HashMap<Node, u32>,
    /// Nodes of the store, if many were asked for.
    stored: Option<HashMap<Node, u32>>,
    searches: u32,
    spool: Spool,
    texts: Recent<u32, Arc<Vec<u8>>>,
    /// What [`Self::changed`] has answered.
    changed: Recent<u32, Arc<Vec<u8>>>,
    /// What [`Self::nodes_at`] has answered.
    lookups: ManifestLookups,
}

impl<'a> PushedManifests<'a> {
    /// Those of the store. Texts and changes of about `most_bytes` are kept.
    pub fn new(revlog: &'a Revlog, dir: &Directory, most_bytes: usize) -> Result<Self> {
        Ok(Self {
            revlog,
            scratch: Scratch::new(most_bytes / 4),
            kept: KeptTexts::default(),
            kept_bytes: most_bytes / 4,
            new: Vec::new(),
            numbers: HashMap::new(),
            stored: None,
            searches: 0,
            spool: Spool::new(dir, "manifests")?,
            texts: Recent::new(most_bytes / 4),
            changed: Recent::new(most_bytes / 8),
            lookups: ManifestLookups::new(most_bytes / 8),
        })
    }

    /// How many the store has.
    pub fn stored_len(&self) -> u32 {
        self.revlog.index().len()
    }

    /// Those of the conversion, in their order.
    pub fn new_ones(&self) -> &[NewManifest] {
        &self.new
    }

    /// The number of a node of the store.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if the store has not this manifest.
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

    /// The node of a manifest.
    pub fn node(&self, number: Number) -> Node {
        match number.map(|number| self.rev(number)) {
            None => Node::NULL,
            Some(Ok(rev)) => self.revlog.index().node(rev),
            Some(Err(new)) => new.node,
        }
    }

    /// The parents of a manifest.
    pub fn parents(&self, number: u32) -> [Number; 2] {
        match self.rev(number) {
            Ok(rev) => {
                let Parents(p1, p2) = self.revlog.index().parents(rev);
                [p1, p2].map(|parent| parent.map(Rev::number))
            }
            Err(new) => new.parents,
        }
    }

    /// The text of a manifest.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if it cannot be read, or does not match its node.
    pub fn text(&mut self, number: Number) -> Result<Arc<Vec<u8>>> {
        let Some(number) = number else { return Ok(Arc::default()) };
        let mut chain: Vec<NewManifest> = Vec::new();
        let mut at = Some(number);
        let mut text = loop {
            let Some(number) = at else { break Arc::default() };
            if let Some(text) = self.texts.get(&number) {
                break text;
            }
            match self.rev(number).map_err(|new| *new) {
                Ok(rev) => break self.stored_text(rev)?,
                Err(new) if new.chain == 0 => {
                    let mut text = Vec::new();
                    self.spool.read(new.text_at, new.text_len as usize, &mut text)?;
                    break Arc::new(text);
                }
                Err(new) => {
                    chain.push(new);
                    at = new.base;
                }
            }
        };
        let mut bytes = Vec::new();
        for new in chain.into_iter().rev() {
            self.spool.read(new.delta_at, new.delta_len as usize, &mut bytes)?;
            let delta = Delta::parse(&bytes, text.len());
            let delta = delta.map_err(|problem| Error::Wrong(problem.to_string()))?;
            let mut made = Buffer::default();
            delta.apply(&text, &mut made)?;
            text = Arc::new(made.as_slice().to_vec());
        }
        self.texts.put(number, Arc::clone(&text), text.len());
        Ok(text)
    }

    fn stored_text(&mut self, rev: Rev) -> Result<Arc<Vec<u8>>> {
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
        Ok(Arc::new(text.as_slice().to_vec()))
    }

    /// The manifest that `edits` make of the first of `parents`, which the changeset `link` has.
    ///
    /// # Errors
    ///
    /// As [`Self::text`].
    pub fn add(&mut self, parents: [Number; 2], edits: &[LineEdit], link: u32) -> Result<Number> {
        let base = parents[0];
        let base_text = self.text(base)?;
        let mut delta = Vec::new();
        let text = apply(&base_text, edits, &mut delta);
        let [p1, p2] = parents.map(|parent| self.node(parent));
        let node = node::node_of(p1, p2, &text);
        if let Some(number) = self.numbers.get(&node) {
            return Ok(Some(*number));
        }
        let stored_len = self.stored_len();
        // such a manifest has the same parents
        let may_be_stored = parents.iter().all(|parent| parent.is_none_or(|it| it < stored_len));
        if may_be_stored && let Some(number) = self.search(node) {
            return Ok(Some(number));
        }
        let chain = match base.map(|base| self.rev(base)) {
            Some(Err(new)) => new.chain + 1,
            _ => 1,
        };
        let short = |len: usize| u32::try_from(len).map_err(|_| Error::TooMany);
        let mut listed = Vec::new();
        for LineEdit { path, entry } in edits {
            push_change(path, entry.map(|(node, _)| node), &mut listed);
        }
        let mut new = NewManifest {
            node,
            parents,
            link,
            base,
            delta_at: self.spool.len(),
            delta_len: short(delta.len())?,
            edits_at: self.spool.len() + delta.len() as u64,
            edits_len: short(listed.len())?,
            chain,
            text_at: 0,
            text_len: short(text.len())?,
        };
        self.spool.push(&delta)?;
        self.spool.push(&listed)?;
        if chain >= LONGEST_CHAIN {
            new.chain = 0;
            new.text_at = self.spool.len();
            self.spool.push(&text)?;
        }
        let number = stored_len + short(self.new.len())?;
        self.new.push(new);
        self.numbers.insert(node, number);
        self.keep_changed(number, listed);
        let len = text.len();
        self.texts.put(number, Arc::new(text), len);
        Ok(Some(number))
    }

    /// The delta of a new manifest, and the node of what it changes.
    pub fn delta(&mut self, new: &NewManifest, out: &mut Vec<u8>) -> Result<Node> {
        self.spool.read(new.delta_at, new.delta_len as usize, out)?;
        Ok(self.node(new.base))
    }

    /// What a manifest changes of its first parent, for [`changes`].
    ///
    /// # Errors
    ///
    /// As [`Self::text`].
    pub fn changed(&mut self, number: u32) -> Result<Arc<Vec<u8>>> {
        if let Some(listed) = self.changed.get(&number) {
            return Ok(listed);
        }
        let mut listed = Vec::new();
        match self.rev(number).map_err(|new| *new) {
            Ok(_) => {
                let before = self.text(self.parents(number)[0])?;
                let after = self.text(Some(number))?;
                for DifferingLine { path, entries: [_, entry] } in differing(&before, &after) {
                    push_change(path, entry.map(|(node, _)| node), &mut listed);
                }
            }
            Err(new) => self.spool.read(new.edits_at, new.edits_len as usize, &mut listed)?,
        }
        Ok(self.keep_changed(number, listed))
    }

    /// What a manifest has at some paths: nodes, or nothing.
    ///
    /// # Errors
    ///
    /// As [`Self::text`].
    pub fn nodes_at(&mut self, number: u32, paths: &[&[u8]]) -> Result<Vec<Option<Node>>> {
        let known: Vec<_> = paths.iter().map(|path| self.lookups.get(number, path)).collect();
        let text = if known.iter().all(Option::is_some) {
            Arc::default()
        } else {
            self.text(Some(number))?
        };
        let found = known.into_iter().zip(paths).map(|(known, path)| {
            let node = known.unwrap_or_else(|| {
                let node = entry(&text, path).map_or(Node::NULL, |(node, _)| node);
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

fn push_change(path: &[u8], node: Option<Node>, out: &mut Vec<u8>) {
    out.extend_from_slice(path);
    out.push(0);
    out.push(u8::from(node.is_some()));
    if let Some(node) = node {
        out.extend_from_slice(node.as_bytes());
    }
}

/// Paths, and their nodes unless they are removed.
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
