//! Groups of a changegroup, read from its file.
//!
//! Format: `hg help internals.changegroups`. Keeps the places of chunks, and caches texts.

use std::fs::File;
use std::io;
use std::mem;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use changegroup::{GroupVersion, RevisionChunk};
use hashbrown::{HashMap, HashSet};
use parallel::{Budget, Buffer, Cache};
use revlog::Node;

use crate::chain::applied;
use crate::error::Error;
use crate::judge::tree::LONGEST_PATH;
use crate::verify::fault::{Problem, VerifyResult, fault};
use crate::verify::hashes::UnverifiedText;

/// Length of the length field of a chunk.
const LEN_BYTES: usize = 4;
/// Bytes that are read at once: most chunks are much shorter.
const WINDOW_BYTES: usize = 32 << 10;

/// Changegroup file with a read position.
#[derive(Debug)]
pub(crate) struct GroupFile<'a> {
    file: &'a File,
    at: u64,
    version: GroupVersion,
    /// Whether the last file was read.
    is_over: bool,
    /// Bytes of the file from `window_at` on.
    window: Vec<u8>,
    window_at: u64,
}

impl<'a> GroupFile<'a> {
    /// Reads from `at` on.
    pub const fn new(file: &'a File, at: u64, version: GroupVersion) -> Self {
        Self { file, at, version, is_over: false, window: Vec::new(), window_at: 0 }
    }

    /// Fills `out` with the bytes at the read position, which stays.
    fn peek(&mut self, out: &mut [u8]) -> VerifyResult<()> {
        if out.len() > WINDOW_BYTES {
            return read(self.file, self.at, out);
        }
        let start = self.at.checked_sub(self.window_at).and_then(|at| usize::try_from(at).ok());
        if let Some(there) = start.and_then(|start| self.window.get(start..)?.get(..out.len())) {
            out.copy_from_slice(there);
            return Ok(());
        }
        let mut window = mem::take(&mut self.window);
        window.resize(WINDOW_BYTES, 0);
        let mut len = 0;
        while len < out.len() {
            match self.file.read_at(&mut window[len..], self.at + len as u64) {
                Ok(0) => return Err(cut()),
                Ok(more) => len += more,
                Err(problem) if problem.kind() == io::ErrorKind::Interrupted => {}
                Err(problem) => return Err(Error::Output(problem).into()),
            }
        }
        out.copy_from_slice(&window[..out.len()]);
        window.truncate(len);
        (self.window, self.window_at) = (window, self.at);
        Ok(())
    }

    /// Fills `out` with the next bytes.
    fn take(&mut self, out: &mut [u8]) -> VerifyResult<()> {
        self.peek(out)?;
        self.at += out.len() as u64;
        Ok(())
    }

    /// Length of the next chunk's data; `None` at the end of a group.
    fn chunk(&mut self) -> VerifyResult<Option<usize>> {
        let mut bytes = [0; LEN_BYTES];
        self.take(&mut bytes)?;
        match u32::from_be_bytes(bytes) as usize {
            0 => Ok(None),
            len if len > LEN_BYTES && i32::try_from(len).is_ok() => Ok(Some(len - LEN_BYTES)),
            len => Err(fault(format!("a chunk of {len} bytes"))),
        }
    }

    /// Name of the next file; `None` after the last one.
    pub fn file_name(&mut self) -> VerifyResult<Option<Vec<u8>>> {
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
        self.take(&mut name)?;
        Ok(Some(name))
    }

    /// Reads the next revision of a group, and replaces `delta` by its delta; `None` at the end.
    pub fn revision(&mut self, delta: &mut Vec<u8>) -> VerifyResult<Option<RevisionChunk>> {
        let Some(len) = self.chunk()? else { return Ok(None) };
        let head_len = RevisionChunk::head_len(self.version) - LEN_BYTES;
        delta.resize(len, 0);
        self.take(delta)?;
        let parsed = RevisionChunk::parse(self.version, delta).map(|(chunk, _)| chunk);
        let chunk = parsed.ok_or_else(|| fault("a chunk is too short"))?;
        delta.drain(..head_len);
        Ok(Some(chunk))
    }

    /// Reads the empty group of directory manifests that version 03 has.
    pub fn end_of_manifests(&mut self) -> VerifyResult<()> {
        if self.version == GroupVersion::V03 && self.chunk()?.is_some() {
            return Err(fault("it has manifests of directories"));
        }
        Ok(())
    }

    /// Expects the end of the file.
    pub fn check_end(&self) -> VerifyResult<()> {
        match self.file.read_at(&mut [0], self.at) {
            Ok(0) => Ok(()),
            Ok(_) => Err(fault("it goes on after its end")),
            Err(problem) => Err(Error::Output(problem).into()),
        }
    }
}

fn read(file: &File, at: u64, out: &mut [u8]) -> VerifyResult<()> {
    file.read_exact_at(out, at).map_err(|problem| match problem.kind() {
        io::ErrorKind::UnexpectedEof => cut(),
        _ => Problem::Error(Error::Output(problem)),
    })
}

fn cut() -> Problem {
    fault("it is cut")
}

/// Revision of a group.
#[derive(Clone, Copy, Debug)]
struct Revision {
    chunk: RevisionChunk,
    delta_at: u64,
    delta_len: usize,
}

/// Texts of one group.
#[derive(Debug)]
pub(crate) struct ChunkTexts<'a> {
    file: &'a File,
    revisions: Vec<Revision>,
    numbers: HashMap<Node, usize>,
    texts: Cache<Node, Arc<Buffer>>,
    budget: Arc<Budget>,
}

impl<'a> ChunkTexts<'a> {
    /// Finds the chunks of the next group, with a cache of about `most_bytes`.
    pub fn read(
        group: &mut GroupFile<'a>,
        budget: &Arc<Budget>,
        most_bytes: usize,
    ) -> VerifyResult<Self> {
        let (mut revisions, mut numbers) = (Vec::new(), HashMap::new());
        let head_len = RevisionChunk::head_len(group.version) - LEN_BYTES;
        while let Some(len) = group.chunk()? {
            let mut head = [0; 128];
            let head = &mut head[..head_len.min(len)];
            group.peek(head)?;
            let parsed = RevisionChunk::parse(group.version, head);
            let (chunk, _) = parsed.ok_or_else(|| fault("a chunk is too short"))?;
            if chunk.flags != 0 || numbers.insert(chunk.node, revisions.len()).is_some() {
                return Err(fault(format!("revision {} is odd", chunk.node)));
            }
            let (delta_at, delta_len) = (group.at + head_len as u64, len - head_len);
            revisions.push(Revision { chunk, delta_at, delta_len });
            group.at += len as u64;
        }
        let (texts, budget) = (Cache::new(most_bytes), Arc::clone(budget));
        Ok(Self { file: group.file, revisions, numbers, texts, budget })
    }

    /// Number of revisions.
    pub fn len(&self) -> usize {
        self.revisions.len()
    }

    /// Bytes of all deltas.
    pub fn bytes(&self) -> u64 {
        self.revisions.iter().map(|revision| revision.delta_len as u64).sum()
    }

    /// Nodes, in order.
    pub fn nodes(&self) -> impl Iterator<Item = Node> + '_ {
        self.revisions.iter().map(|revision| revision.chunk.node)
    }

    /// Number of a node.
    pub fn find(&self, node: Node) -> Option<usize> {
        self.numbers.get(&node).copied()
    }

    /// Delta base of a revision; the null node for a whole text.
    pub fn base(&self, number: usize) -> Node {
        self.revisions[number].chunk.base
    }

    /// Expects that all revisions are linked to one of `changesets`.
    pub fn check_links(&self, changesets: &HashSet<Node>) -> VerifyResult<()> {
        for Revision { chunk, .. } in &self.revisions {
            if !changesets.contains(&chunk.link) {
                return Err(fault(format!("revision {} has no changeset", chunk.node)));
            }
        }
        Ok(())
    }

    /// An empty buffer within the budget.
    fn room(&self) -> Buffer {
        Buffer::new(Some(Arc::clone(&self.budget)))
    }

    /// Delta of a revision.
    pub fn delta(&self, number: usize) -> VerifyResult<Buffer> {
        let Revision { delta_at, delta_len, .. } = self.revisions[number];
        let mut bytes = self.room();
        bytes.resize(delta_len)?;
        read(self.file, delta_at, &mut bytes)?;
        Ok(bytes)
    }

    /// Text of a revision with its delta bases in this group. Its node is not verified.
    pub fn get(&mut self, number: usize) -> VerifyResult<UnverifiedText> {
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
            // a base comes before its deltas
            let found = self.find(at).filter(|found| *found < before);
            chain.push(found.ok_or_else(|| fault(format!("revision {node} has no base")))?);
            at = self.base(*chain.last().unwrap_or(&0));
        };
        if !chain.is_empty() {
            text = self.applied(&chain, text)?;
        }
        Ok(self.made(number, text))
    }

    /// Applies the deltas of a chain, the newest first, to the text of its base.
    fn applied(&mut self, chain: &[usize], base: Arc<Buffer>) -> VerifyResult<Arc<Buffer>> {
        let deltas = chain.iter().rev().map(|number| self.delta(*number));
        let text = applied(base, deltas, || Buffer::new(Some(Arc::clone(&self.budget))))?;
        self.texts.put(self.revisions[chain[0]].chunk.node, Arc::clone(&text), text.len());
        Ok(text)
    }

    /// Revision with its text.
    pub fn made<X>(&self, number: usize, text: X) -> UnverifiedText<X> {
        let RevisionChunk { node, parents, .. } = self.revisions[number].chunk;
        UnverifiedText { node, parents, text }
    }
}
