//! One new revlog: its entries, its chunks, and texts for further deltas.

use std::io::Write;
use std::sync::Arc;

use changegroup::RevisionChunk;
use hashbrown::HashMap;
use parallel::{Budget, Buffer, Cache};
use revlog::writing::{Chunks, NewEntry, header};
use revlog::{Changeset, Delta, Node};

use super::{StreamSettings, wrong};
use crate::build::MARK;
use crate::build::spool::Spool;
use crate::chain::applied;
use crate::error::{Error, Result};
use crate::verify::chunks::GroupFile;

/// Bytes of chunks from which on Mercurial moves them to a file of their own.
const LONGEST_INLINE: u64 = 131_072;
/// Part of the memory for texts.
const PART_OF_MEMORY: usize = 8;

/// Kind of a revlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Changelog,
    Manifest,
    Filelog,
}

/// Named branches of changesets.
#[derive(Clone, Debug, Default)]
pub(super) struct Branches {
    numbers: HashMap<Vec<u8>, u32>,
    /// Different names, escaped as extras are.
    pub names: Vec<Vec<u8>>,
    /// For each changeset, twice the number of its name, and one more if it closes the branch.
    pub of: Vec<u32>,
}

impl Branches {
    fn add(&mut self, node: Node, text: &[u8]) -> Result<()> {
        let changeset = Changeset::parse(text).map_err(|_| odd(node))?;
        let (mut name, mut closes) = (&b"default"[..], 0);
        for (key, value) in changeset.extras() {
            match key {
                b"branch" => name = value,
                b"close" => closes = 1,
                _ => {}
            }
        }
        let number = *self.numbers.entry_ref(name).or_insert_with(|| {
            self.names.push(name.to_vec());
            u32::try_from(self.names.len()).unwrap_or(u32::MAX) - 1
        });
        self.of.push(2 * number + closes);
        Ok(())
    }
}

/// Revision that was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamedRevision {
    pub entry: NewEntry,
    /// Deltas from a whole text to it.
    pub chain_len: u32,
    /// Bytes of the chunks of its chain.
    pub chain_bytes: u64,
    /// Whether it is a snapshot: a whole text, or a delta against a snapshot that is no parent.
    pub is_snapshot: bool,
    /// Whether its text begins with metadata.
    has_metadata: bool,
}

/// Revision that is to be written.
pub(super) struct Incoming<'a> {
    pub parents: [Option<u32>; 2],
    /// Base of its delta in the changegroup.
    pub source: Option<u32>,
    pub delta: &'a Delta<'a>,
    pub bytes: &'a [u8],
    pub text: Option<Arc<Buffer>>,
}

impl Incoming<'_> {
    pub fn text_len(&self) -> u64 {
        self.delta.result_len() as u64
    }
}

/// Chunk for a revision.
pub(super) struct Chosen {
    pub base: u32,
    pub chunk: Vec<u8>,
    /// Number of snapshots below it, if it is one.
    pub level: Option<u32>,
}

/// New revlog.
pub(super) struct NewRevlog<'a> {
    pub kind: Kind,
    pub settings: &'a StreamSettings<'a>,
    pub written: Vec<StreamedRevision>,
    /// Snapshots by their bases; those of whole texts have none.
    pub snapshots: HashMap<Option<u32>, Vec<u32>>,
    /// Branches of the changelog.
    pub branches: Branches,
    numbers: HashMap<Node, u32>,
    data: Spool,
    chunks: Chunks,
    texts: Cache<u32, Arc<Buffer>>,
    budget: Arc<Budget>,
}

impl<'a> NewRevlog<'a> {
    /// An empty one.
    pub fn new(kind: Kind, settings: &'a StreamSettings<'a>) -> Result<Self> {
        let most_bytes = settings.memory_bytes / PART_OF_MEMORY;
        Ok(Self {
            kind,
            settings,
            written: Vec::new(),
            snapshots: HashMap::new(),
            branches: Branches::default(),
            numbers: HashMap::new(),
            data: Spool::new(settings.dir, "stream")?,
            chunks: Chunks::new(settings.compression),
            texts: Cache::new(most_bytes),
            budget: Budget::new(2 * most_bytes, settings.dir),
        })
    }

    /// Empties it.
    pub fn clear(&mut self) -> Result<()> {
        self.written.clear();
        self.snapshots.clear();
        self.numbers.clear();
        self.data.clear()
    }

    /// Number of revisions.
    pub fn len(&self) -> u32 {
        u32::try_from(self.written.len()).unwrap_or(u32::MAX)
    }

    /// Reads a group. `link` has the revisions of changesets.
    pub fn read(
        &mut self,
        group: &mut GroupFile<'_>,
        mut link: impl FnMut(Node) -> Option<u32>,
    ) -> Result<()> {
        let mut bytes = Vec::new();
        while let Some(chunk) = group.revision(&mut bytes).map_err(wrong)? {
            let own = link(chunk.link).filter(|_| chunk.flags == 0);
            let own = own.ok_or_else(|| odd(chunk.node))?;
            self.add(&chunk, &bytes, own)?;
        }
        self.texts = Cache::new(self.settings.memory_bytes / PART_OF_MEMORY);
        Ok(())
    }

    fn number(&self, node: Node) -> Result<Option<u32>> {
        if node == Node::NULL {
            return Ok(None);
        }
        self.numbers.get(&node).map(|number| Some(*number)).ok_or_else(|| odd(node))
    }

    fn add(&mut self, chunk: &RevisionChunk, bytes: &[u8], link: u32) -> Result<()> {
        let RevisionChunk { node, parents: [p1, p2], base, .. } = *chunk;
        let mut parents = [self.number(p1)?, self.number(p2)?];
        let source = self.number(base)?;
        let base_len = source.map_or(0, |base| self.written[base as usize].entry.text_len);
        let delta = Delta::parse(bytes, base_len as usize);
        let delta = delta.map_err(|problem| Error::Wrong(problem.to_string()))?;
        let own = self.len();
        if self.numbers.insert(node, own).is_some() || own == u32::MAX {
            return Err(odd(node));
        }
        let mut incoming = Incoming { parents, source, delta: &delta, bytes, text: None };
        let has_metadata = self.has_metadata(&mut incoming)?;
        if has_metadata && let [Some(only), None] = parents {
            // Mercurial mends parents in this order (`filter_delta_issue6528`)
            parents = [None, Some(only)];
            incoming.parents = parents;
        }
        let chosen = self.choose(&mut incoming)?;
        let text_len = u32::try_from(delta.result_len()).map_err(|_| Error::TooMany)?;
        let (chosen, chain_len, chain_bytes) = match chosen {
            Some(chosen) => {
                let StreamedRevision { chain_len, chain_bytes, .. } =
                    self.written[chosen.base as usize];
                (chosen, chain_len + 1, chain_bytes)
            }
            None => {
                let text = self.text_of(&mut incoming)?;
                if self.kind == Kind::Changelog {
                    self.branches.add(node, &text)?;
                }
                (Chosen { base: own, chunk: self.chunks.pack(&text), level: Some(0) }, 0, 0)
            }
        };
        let len = u32::try_from(chosen.chunk.len()).map_err(|_| Error::TooMany)?;
        let base = chosen.base;
        let entry = NewEntry { offset: self.data.len(), len, text_len, base, link, parents, node };
        self.data.push(&chosen.chunk)?;
        let chain_bytes = chain_bytes + u64::from(len);
        let is_snapshot = base == own
            || (self.is_snapshot(base) && !parents.iter().any(|it| self.stands_for(*it, base)));
        if is_snapshot {
            self.snapshots.entry((base != own).then_some(base)).or_default().push(own);
        }
        self.written.push(StreamedRevision {
            entry,
            chain_len,
            chain_bytes,
            is_snapshot,
            has_metadata,
        });
        if let Some(text) = incoming.text {
            let len = text.len();
            self.texts.put(own, text, len);
        }
        Ok(())
    }

    /// Whether the text of a file revision begins with metadata.
    fn has_metadata(&mut self, incoming: &mut Incoming<'_>) -> Result<bool> {
        if self.kind != Kind::Filelog {
            return Ok(false);
        }
        let inherited = |source: u32| self.written[source as usize].has_metadata;
        match (incoming.delta.hunks().next(), incoming.source) {
            (None, source) => Ok(source.is_some_and(inherited)),
            (Some(first), Some(source)) if first.start >= MARK.len() => Ok(inherited(source)),
            (Some(first), _) if first.start == 0 && first.data.len() >= MARK.len() => {
                Ok(first.data.starts_with(MARK))
            }
            _ => Ok(self.text_of(incoming)?.starts_with(MARK)),
        }
    }

    /// Whether a delta against `base` is one against `parent`: deltas without bytes are skipped.
    fn stands_for(&self, parent: Option<u32>, base: u32) -> bool {
        parent.is_some_and(|parent| self.with_bytes(parent) == base || parent == base)
    }

    /// The revision with the same text that has a chunk.
    pub fn with_bytes(&self, mut number: u32) -> u32 {
        loop {
            let NewEntry { base, len, .. } = self.written[number as usize].entry;
            if len > 0 || base == number {
                return number;
            }
            number = base;
        }
    }

    pub fn is_snapshot(&self, number: u32) -> bool {
        self.written[number as usize].is_snapshot
    }

    /// Delta base of a revision.
    pub fn base(&self, number: u32) -> Option<u32> {
        Some(self.written[number as usize].entry.base).filter(|base| *base != number)
    }

    /// Delta chain of a revision, from the whole text on.
    pub fn chain(&self, number: u32) -> Vec<u32> {
        let mut chain: Vec<u32> =
            std::iter::successors(Some(number), |number| self.base(*number)).collect();
        chain.reverse();
        chain
    }

    pub fn pack(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.chunks.pack(bytes)
    }

    /// Text of a revision that is to be written.
    pub fn text_of(&mut self, incoming: &mut Incoming<'_>) -> Result<Arc<Buffer>> {
        if let Some(text) = &incoming.text {
            return Ok(Arc::clone(text));
        }
        let base = match incoming.source {
            Some(base) => self.text(base)?,
            None => Arc::default(),
        };
        let mut text = Buffer::new(Some(Arc::clone(&self.budget)));
        incoming.delta.apply(&base, &mut text)?;
        Ok(Arc::clone(incoming.text.insert(Arc::new(text))))
    }

    /// Text of a written revision.
    pub fn text(&mut self, number: u32) -> Result<Arc<Buffer>> {
        let mut chain = Vec::new();
        let mut at = Some(number);
        let mut text = loop {
            let Some(number) = at else { break Arc::default() };
            if let Some(text) = self.texts.get(&number) {
                break text;
            }
            chain.push(number);
            at = self.base(number);
        };
        if chain.is_empty() {
            return Ok(text);
        }
        chain.reverse();
        let mut rest = &*chain;
        if let Some((first, after)) = rest.split_first().filter(|(it, _)| self.base(**it).is_none())
        {
            text = Arc::new(self.stored(*first)?);
            rest = after;
        }
        let budget = Arc::clone(&self.budget);
        let deltas = rest.iter().map(|number| self.stored(*number));
        text = applied(text, deltas, || Buffer::new(Some(Arc::clone(&budget))))?;
        self.texts.put(number, Arc::clone(&text), text.len());
        Ok(text)
    }

    /// Content of a chunk.
    fn stored(&mut self, number: u32) -> Result<Buffer> {
        let NewEntry { offset, len, text_len, base, .. } = self.written[number as usize].entry;
        let mut chunk = Vec::new();
        self.data.read(offset, len as usize, &mut chunk)?;
        let hint = if base == number { text_len as usize } else { 3 * chunk.len() };
        let mut out = Buffer::new(Some(Arc::clone(&self.budget)));
        let unpacked = self.chunks.unpack(&chunk, hint, &mut out);
        unpacked.map_err(|problem| Error::Wrong(problem.to_string()))?;
        Ok(out)
    }

    /// Bytes of all chunks.
    pub fn data_len(&self) -> u64 {
        self.data.len()
    }

    /// Whether the chunks are in the index file. Those of the changelog never are: readers could
    /// see a part of it.
    pub fn is_inline(&self) -> bool {
        self.kind != Kind::Changelog && self.data.len() < LONGEST_INLINE
    }

    /// Length of the index file.
    pub fn index_len(&self) -> u64 {
        let data = if self.is_inline() { self.data.len() } else { 0 };
        (self.written.len() * NewEntry::LEN) as u64 + data
    }

    /// Writes the data file.
    pub fn write_data(&mut self, out: &mut impl Write) -> Result<()> {
        self.data.copy(0, self.data.len(), out)
    }

    /// Writes the index file.
    pub fn write_index(&mut self, out: &mut impl Write) -> Result<()> {
        let is_inline = self.is_inline();
        let mut data = Vec::new();
        if is_inline {
            self.data.read(0, usize::try_from(self.data.len()).unwrap_or(0), &mut data)?;
        }
        let mut data = &*data;
        for (number, StreamedRevision { entry, .. }) in self.written.iter().enumerate() {
            let mut bytes = entry.bytes();
            if number == 0 {
                bytes[..4].copy_from_slice(&header(is_inline, self.kind != Kind::Changelog));
            }
            out.write_all(&bytes).map_err(Error::Output)?;
            if is_inline && let Some((chunk, rest)) = data.split_at_checked(entry.len as usize) {
                out.write_all(chunk).map_err(Error::Output)?;
                data = rest;
            }
        }
        Ok(())
    }
}

fn odd(node: Node) -> Error {
    Error::Wrong(format!("revision {node} is odd"))
}
