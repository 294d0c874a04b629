//! File revisions of a conversion: nodes, and chunks for the changegroup.
//!
//! Chunks are written to a temporary file, and sorted by path at the end.

use std::io::Write;
use std::sync::Arc;

use changegroup::{GroupVersion, RevisionChunk, file_header, hunk_head, line_delta};
use gitpack::Oid;
use hashbrown::HashMap;
use parallel::{Buffer, Cache, Directory};
use revlog::Node;
use revlog::node::parents_prefix;
use sha1lanes::{Message, best};

use crate::build::ancestry::Heads;
use crate::build::lineage::Lineage;
use crate::build::spool::Spool;
use crate::chain::applied;
use crate::error::{Error, Result};

/// Part of the cache that one text may take. Longer texts are not cached, and are sent whole.
const LARGEST_PART: usize = 8;
/// Memory of a revision, about.
const REVISION_BYTES: usize = 360;
/// Deltas after which a whole text is sent, if they are not longer than the text before.
const LONGEST_CHAIN: u32 = 1000;
/// Bytes of a chunk that are read with its head.
const FIRST_BYTES: u32 = 64 << 10;

/// All file revisions.
#[derive(Debug)]
pub(crate) struct FileRevisions {
    version: GroupVersion,
    names: Vec<Arc<[u8]>>,
    numbers: HashMap<Arc<[u8]>, u32>,
    /// Numbers of chunks.
    made: HashMap<(u32, Node), u32>,
    chunks: Vec<SpooledChunk>,
    /// For each chunk, if later revisions need it.
    facts: Vec<RevisionFacts>,
    /// Ancestry of chunks, if asked for.
    lineage: Option<Lineage>,
    /// Bytes of all names.
    name_bytes: usize,
    spool: Spool,
    texts: Cache<Node, Arc<Buffer>>,
    longest_kept: usize,
}

/// Text of a new file revision.
#[derive(Debug)]
pub(crate) struct NewText<'a> {
    pub path: &'a [u8],
    pub parents: [Node; 2],
    pub text: Arc<Buffer>,
    /// Content, if later revisions need it.
    pub content: Option<RevisionContent>,
}

/// Content of a file revision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RevisionContent {
    /// Id of the blob with this content.
    pub blob: Oid,
    /// Whether the revision names the source of a copy.
    pub is_copy: bool,
}

/// Content and parents of a new file revision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RevisionFacts {
    pub content: RevisionContent,
    pub parents: [Node; 2],
}

/// Nodes of texts, hashed together.
pub(crate) fn nodes_of(texts: &[NewText<'_>]) -> Vec<Node> {
    let prefixes: Vec<[u8; 40]> =
        texts.iter().map(|NewText { parents: [p1, p2], .. }| parents_prefix(*p1, *p2)).collect();
    let messages: Vec<Message<'_>> = texts
        .iter()
        .zip(&prefixes)
        .map(|(NewText { text, .. }, head)| Message { head, body: text })
        .collect();
    let mut digests = vec![[0; 20]; texts.len()];
    best().digest(&messages, &mut digests);
    digests.into_iter().map(Node::from_bytes).collect()
}

/// Chunk of a revision in the temporary file.
#[derive(Clone, Copy, Debug)]
struct SpooledChunk {
    path: u32,
    /// Number of the first changeset with this revision.
    link: u32,
    at: u64,
    len: u32,
    text_len: u32,
    /// Number of the delta base; `None` for a whole text.
    base: Option<u32>,
    /// Deltas since a whole text, and their bytes.
    chain: u32,
    chain_bytes: u32,
}

impl FileRevisions {
    /// Starts with no revisions, and with a cache of about `most_bytes`. `has_lineage`: whether
    /// the store is empty, and [`Self::heads`] is wanted.
    pub fn new(
        version: GroupVersion,
        dir: &Directory,
        most_bytes: usize,
        has_lineage: bool,
    ) -> Result<Self> {
        Ok(Self {
            version,
            names: Vec::new(),
            numbers: HashMap::new(),
            made: HashMap::new(),
            chunks: Vec::new(),
            facts: Vec::new(),
            lineage: has_lineage.then(Lineage::default),
            name_bytes: 0,
            spool: Spool::new(dir, "files")?,
            texts: Cache::new(most_bytes),
            longest_kept: most_bytes / LARGEST_PART,
        })
    }

    /// Memory of all revisions, about, except for cached texts.
    pub fn bytes(&self) -> usize {
        let lineage_bytes = if self.lineage.is_some() { Lineage::REVISION_BYTES } else { 0 };
        self.chunks.len() * (REVISION_BYTES + lineage_bytes)
            + self.facts.len() * size_of::<RevisionFacts>()
            + self.name_bytes
    }

    /// Adds the revision `own` with a text, first used by the changeset `link`.
    ///
    /// # Errors
    ///
    /// [`Error::Scratch`].
    pub fn add(&mut self, new: NewText<'_>, own: Node, link: u32) -> Result<()> {
        let NewText { path, parents, text, content } = new;
        let p1 = parents[0];
        let path = self.number(path)?;
        if self.made.contains_key(&(path, own)) {
            return Ok(());
        }
        if let Some(lineage) = &mut self.lineage {
            lineage.push(parents.map(|parent| self.made.get(&(path, parent)).copied()));
        }
        let short = |len: usize| u32::try_from(len).map_err(|_| Error::TooMany);
        let base = self.base(path, p1, &text)?;
        let mut out = Vec::with_capacity(RevisionChunk::head_len(self.version));
        let chunk =
            RevisionChunk { node: own, parents, base: Node::NULL, link: Node::NULL, flags: 0 };
        let at = self.spool.len();
        let number = short(self.chunks.len())?;
        let (base, chain, chain_bytes) = if let Some((base, base_text)) = base {
            let mut delta = Vec::new();
            line_delta(&base_text, &text, &mut delta);
            RevisionChunk { base: p1, ..chunk }.push_head(self.version, delta.len(), &mut out)?;
            self.spool.push(&out)?;
            self.spool.push(&delta)?;
            let SpooledChunk { chain, chain_bytes, .. } = self.chunks[base as usize];
            (Some(base), chain + 1, chain_bytes.saturating_add(short(delta.len())?))
        } else {
            let mut hunk = Vec::new();
            if !text.is_empty() {
                hunk_head(0, 0, text.len(), &mut hunk);
            }
            chunk.push_head(self.version, hunk.len() + text.len(), &mut out)?;
            self.spool.push(&out)?;
            self.spool.push(&hunk)?;
            self.spool.push(&text)?;
            (None, 0, 0)
        };
        let (len, text_len) = (self.spool.len() - at, short(text.len())?);
        let len = u32::try_from(len).map_err(|_| Error::TooMany)?;
        self.chunks.push(SpooledChunk { path, link, at, len, text_len, base, chain, chain_bytes });
        self.made.insert((path, own), number);
        self.facts.extend(content.map(|content| RevisionFacts { content, parents }));
        if text.len() <= self.longest_kept {
            let bytes = text.len();
            self.texts.put(own, text, bytes);
        }
        Ok(())
    }

    /// Notes that a manifest lacks a path that a parent has.
    pub fn lose(&mut self, path: &[u8]) {
        if let (Some(lineage), Some(path)) = (&mut self.lineage, self.numbers.get(path)) {
            lineage.lose(*path);
        }
    }

    /// Of two nodes of a path, those that the other does not descend from, as in
    /// [`crate::build::ancestry::heads`]; `None` if only manifests can tell.
    pub fn heads(&mut self, path: &[u8], nodes: [Node; 2]) -> Option<Heads> {
        let lineage = self.lineage.as_mut()?;
        let path = *self.numbers.get(path)?;
        let [one, two] = nodes.map(|node| self.made.get(&(path, node)).copied());
        let later = usize::from(two? > one?);
        let is_descendant = lineage.descends(path, one.max(two)?, one.min(two)?)?;
        Some(if is_descendant { [Some(nodes[later]), None] } else { nodes.map(Some) })
    }

    /// Number of a new revision: parents have smaller numbers.
    pub fn number_of(&self, path: &[u8], node: Node) -> Option<u32> {
        self.made.get(&(*self.numbers.get(path)?, node)).copied()
    }

    /// Content and parents of a new revision, if they were given.
    pub fn facts(&self, number: u32) -> Option<&RevisionFacts> {
        self.facts.get(number as usize)
    }

    /// Text of a new revision.
    ///
    /// # Errors
    ///
    /// [`Error::Scratch`].
    pub fn text(&mut self, number: u32, node: Node) -> Result<Arc<Buffer>> {
        self.texts.get(&node).map_or_else(|| self.spooled(number), Ok)
    }

    /// Delta base of a text: the chunk and the text of its parent `node`, if that is in the group
    /// and not too long.
    fn base(&mut self, path: u32, node: Node, text: &Buffer) -> Result<Option<(u32, Arc<Buffer>)>> {
        // a revision of another path with this node has the same text, but is in another group
        let Some(&number) = self.made.get(&(path, node)) else { return Ok(None) };
        let SpooledChunk { text_len, chain, chain_bytes, .. } = self.chunks[number as usize];
        let longest = text.len().max(text_len as usize);
        if chain >= LONGEST_CHAIN || chain_bytes > text_len || longest > self.longest_kept {
            return Ok(None);
        }
        Ok(Some((number, self.text(number, node)?)))
    }

    /// Text of a chunk.
    fn spooled(&mut self, number: u32) -> Result<Arc<Buffer>> {
        let mut chain = Vec::new();
        let mut at = Some(number);
        while let Some(number) = at {
            let chunk = self.chunks[number as usize];
            chain.push(chunk);
            at = chunk.base;
        }
        let head_len = RevisionChunk::head_len(self.version);
        let deltas = chain.into_iter().rev().map(|chunk| {
            let mut delta = Vec::new();
            self.spool.read(
                chunk.at + head_len as u64,
                chunk.len as usize - head_len,
                &mut delta,
            )?;
            Ok::<_, Error>(Buffer::from(delta))
        });
        applied(Arc::default(), deltas, Buffer::default)
    }

    fn number(&mut self, path: &[u8]) -> Result<u32> {
        if let Some(number) = self.numbers.get(path) {
            return Ok(*number);
        }
        let number = u32::try_from(self.names.len()).map_err(|_| Error::TooMany)?;
        let path: Arc<[u8]> = path.into();
        self.name_bytes += path.len();
        self.names.push(Arc::clone(&path));
        self.numbers.insert(path, number);
        Ok(number)
    }

    /// Writes the groups of all files. `link_node` maps numbers of changesets to nodes.
    ///
    /// # Errors
    ///
    /// [`Error::Scratch`] or [`Error::Output`].
    pub fn write(mut self, link_node: impl Fn(u32) -> Node, out: &mut impl Write) -> Result<()> {
        let names = self.names;
        // stable: chunks of one path stay in order
        self.chunks.sort_by(|one, two| {
            names[one.path as usize].cmp(&names[two.path as usize]).then(one.at.cmp(&two.at))
        });
        let mut bytes = Vec::new();
        for group in self.chunks.chunk_by(|one, two| one.path == two.path) {
            bytes.clear();
            file_header(&names[group[0].path as usize], &mut bytes);
            out.write_all(&bytes).map_err(Error::Output)?;
            for SpooledChunk { link, at, len, .. } in group {
                let first_len = (*len).min(FIRST_BYTES);
                self.spool.read(*at, first_len as usize, &mut bytes)?;
                RevisionChunk::set_link(&mut bytes, link_node(*link));
                out.write_all(&bytes).map_err(Error::Output)?;
                let rest_at = *at + u64::from(first_len);
                self.spool.copy(rest_at, u64::from(len - first_len), out)?;
            }
            out.write_all(&changegroup::END).map_err(Error::Output)?;
        }
        Ok(())
    }
}
