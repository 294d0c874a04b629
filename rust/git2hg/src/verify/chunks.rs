//! The groups of a changegroup, read from its file.
//!
//! Format: `hg help internals.changegroups`. Only where chunks are is kept, and texts that were used
//! lately.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use changegroup::{GroupVersion, RevisionChunk};
use hashbrown::{HashMap, HashSet};
use parallel::{Budget, Buffer};
use revlog::{Delta, Node};

use crate::cache::Recent;
use crate::error::Error;
use crate::judge::tree::LONGEST_PATH;
use crate::verify::hashes::MadeText;
use crate::verify::{Checked, Problem, fault};

/// Bytes of the length of a chunk.
const LEN_BYTES: usize = 4;
/// The file, and how far it is read.
#[derive(Debug)]
pub(crate) struct GroupFile<'a> {
    file: &'a File,
    at: u64,
    version: GroupVersion,
    /// Whether the last file was read.
    is_over: bool,
}

impl<'a> GroupFile<'a> {
    /// Reads from `at` on.
    pub const fn new(file: &'a File, at: u64, version: GroupVersion) -> Self {
        Self { file, at, version, is_over: false }
    }

    fn bytes<const LEN: usize>(&mut self) -> Checked<[u8; LEN]> {
        let mut bytes = [0; LEN];
        read(self.file, self.at, &mut bytes)?;
        self.at += LEN as u64;
        Ok(bytes)
    }

    /// The length of the data of the next chunk; `None` at the end of a group.
    fn chunk(&mut self) -> Checked<Option<usize>> {
        let len = u32::from_be_bytes(self.bytes::<LEN_BYTES>()?) as usize;
        match len {
            0 => Ok(None),
            _ if len > LEN_BYTES && i32::try_from(len).is_ok() => Ok(Some(len - LEN_BYTES)),
            _ => Err(fault(format!("a chunk of {len} bytes"))),
        }
    }

    /// The name of the next file; `None` after the last one.
    pub fn file_name(&mut self) -> Checked<Option<Vec<u8>>> {
        if self.is_over {
            return Ok(None);
        }
        let Some(len) = self.chunk()? else {
            self.is_over = true;
            return Ok(None);
        };
        if len > LONGEST_PATH {
            return Err(fault("a file with a long name"));
        }
        let mut name = vec![0; len];
        read(self.file, self.at, &mut name)?;
        self.at += len as u64;
        Ok(Some(name))
    }

    /// What version 03 has after manifests: those of directories, of which there are none.
    pub fn end_of_manifests(&mut self) -> Checked<()> {
        if self.version == GroupVersion::V03 && self.chunk()?.is_some() {
            return Err(fault("it has manifests of directories"));
        }
        Ok(())
    }

    /// Finds nothing after the end.
    pub fn check_end(&self) -> Checked<()> {
        match self.file.read_at(&mut [0], self.at) {
            Ok(0) => Ok(()),
            Ok(_) => Err(fault("it goes on after its end")),
            Err(problem) => Err(Error::Output(problem).into()),
        }
    }
}

fn read(file: &File, at: u64, out: &mut [u8]) -> Checked<()> {
    file.read_exact_at(out, at).map_err(|problem| match problem.kind() {
        io::ErrorKind::UnexpectedEof => fault("it is cut"),
        _ => Problem::Error(Error::Output(problem)),
    })
}

/// One revision of a group.
#[derive(Clone, Copy, Debug)]
struct Revision {
    chunk: RevisionChunk,
    delta_at: u64,
    delta_len: usize,
}

/// The texts of one group.
#[derive(Debug)]
pub(crate) struct ChunkTexts<'a> {
    file: &'a File,
    revisions: Vec<Revision>,
    numbers: HashMap<Node, usize>,
    texts: Recent<Node, Arc<Buffer>>,
    budget: Arc<Budget>,
}

impl<'a> ChunkTexts<'a> {
    /// Finds the chunks of the next group. Texts of about `most_bytes` are kept.
    pub fn read(
        group: &mut GroupFile<'a>,
        budget: &Arc<Budget>,
        most_bytes: usize,
    ) -> Checked<Self> {
        let (mut revisions, mut numbers) = (Vec::new(), HashMap::new());
        let head_len = RevisionChunk::head_len(group.version) - LEN_BYTES;
        while let Some(len) = group.chunk()? {
            let mut head = [0; 128];
            let head = &mut head[..head_len.min(len)];
            read(group.file, group.at, head)?;
            let parsed = RevisionChunk::parse(group.version, head);
            let (chunk, _) = parsed.ok_or_else(|| fault("a chunk is too short"))?;
            if chunk.flags != 0 || numbers.insert(chunk.node, revisions.len()).is_some() {
                return Err(fault(format!("revision {} is odd", chunk.node)));
            }
            let (delta_at, delta_len) = (group.at + head_len as u64, len - head_len);
            revisions.push(Revision { chunk, delta_at, delta_len });
            group.at += len as u64;
        }
        let (texts, budget) = (Recent::new(most_bytes), Arc::clone(budget));
        Ok(Self { file: group.file, revisions, numbers, texts, budget })
    }

    /// How many revisions there are.
    pub fn len(&self) -> usize {
        self.revisions.len()
    }

    /// Bytes of all their deltas.
    pub fn bytes(&self) -> u64 {
        self.revisions.iter().map(|revision| revision.delta_len as u64).sum()
    }

    /// Their nodes, in order.
    pub fn nodes(&self) -> impl Iterator<Item = Node> + '_ {
        self.revisions.iter().map(|revision| revision.chunk.node)
    }

    /// The number of a node.
    pub fn find(&self, node: Node) -> Option<usize> {
        self.numbers.get(&node).copied()
    }

    /// What a revision is a delta of, null for a whole text.
    pub fn base(&self, number: usize) -> Node {
        self.revisions[number].chunk.base
    }

    /// Whether all belong to one of these changesets.
    pub fn check_links(&self, changesets: &HashSet<Node>) -> Checked<()> {
        for Revision { chunk, .. } in &self.revisions {
            if !changesets.contains(&chunk.link) {
                return Err(fault(format!("revision {} has no changeset", chunk.node)));
            }
        }
        Ok(())
    }

    /// The delta of a revision.
    pub fn delta(&self, number: usize) -> Checked<Buffer> {
        let Revision { delta_at, delta_len, .. } = self.revisions[number];
        let mut bytes = Buffer::new(Some(Arc::clone(&self.budget)));
        bytes.resize(delta_len)?;
        read(self.file, delta_at, &mut bytes)?;
        Ok(bytes)
    }

    /// A revision that is made of others of the group. Its node is not looked at.
    pub fn get(&mut self, number: usize) -> Checked<MadeText> {
        let node = self.revisions[number].chunk.node;
        let mut chain = Vec::new();
        let mut at = node;
        let mut text = loop {
            if at == Node::NULL {
                break Arc::new(Buffer::default());
            }
            if let Some(text) = self.texts.get(&at) {
                break text;
            }
            let before = chain.last().copied().unwrap_or(self.revisions.len());
            // what comes later cannot be a base
            let found = self.find(at).filter(|found| *found < before);
            chain.push(found.ok_or_else(|| fault(format!("revision {node} has no base")))?);
            at = self.base(*chain.last().unwrap_or(&0));
        };
        for number in chain.into_iter().rev() {
            text = self.apply(number, &text)?;
        }
        Ok(self.made(number, text))
    }

    /// The text of a revision, when that of its base is `base`. Its node is not looked at.
    pub fn apply(&mut self, number: usize, base: &[u8]) -> Checked<Arc<Buffer>> {
        let bytes = self.delta(number)?;
        let delta = Delta::parse(&bytes, base.len()).map_err(|it| fault(it.to_string()))?;
        self.patch(number, base, &delta)
    }

    /// Likewise, when `delta` is its delta.
    pub fn patch(&mut self, number: usize, base: &[u8], delta: &Delta<'_>) -> Checked<Arc<Buffer>> {
        let mut text = Buffer::new(Some(Arc::clone(&self.budget)));
        delta.apply(base, &mut text)?;
        let text = Arc::new(text);
        self.texts.put(self.revisions[number].chunk.node, Arc::clone(&text), text.len());
        Ok(text)
    }

    /// A revision with the text that was made of it.
    pub fn made(&self, number: usize, text: Arc<Buffer>) -> MadeText {
        let RevisionChunk { node, parents, .. } = self.revisions[number].chunk;
        MadeText { node, parents, text }
    }

    /// A text that was used lately.
    pub fn recent(&mut self, node: Node) -> Option<Arc<Buffer>> {
        self.texts.get(&node)
    }
}
