//! The trees of git, asked for in batches and kept while there is room.

use std::io::{Read, Write};
use std::sync::Arc;

use gitpack::Oid;
use revlog::manifest::Flag;
use workshop::Buffer;

use crate::answers::{Answers, ask};
use crate::convert::gitblobs;
use crate::convert::recent::Recent;
use crate::error::{Error, Result};
use crate::reason::TreeReasons;
use crate::tree::{TreeEntry, judge, not_a_tree};

/// Trees asked for at a time.
pub(crate) const ASKED_AT_ONCE: usize = 1000;
/// What a tree takes beside its content, about.
const OVERHEAD_BYTES: usize = 150;

/// A tree.
#[derive(Debug)]
pub(crate) struct KeptTree {
    pub content: Vec<u8>,
    /// Why commits with it do not come back, for what it has by itself.
    pub reasons: TreeReasons,
}

/// A file in a tree: what it is, and its blob.
pub(crate) type FileEntry = (Flag, Oid);

/// What an entry is; `None` for a mode that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Directory,
    File(Flag),
}

/// What a mode stands for.
pub(crate) fn kind_of(mode: &[u8]) -> Option<EntryKind> {
    match mode {
        b"40000" => Some(EntryKind::Directory),
        b"100644" => Some(EntryKind::File(Flag::Regular)),
        b"100755" => Some(EntryKind::File(Flag::Executable)),
        b"120000" => Some(EntryKind::File(Flag::Symlink)),
        _ => None,
    }
}

/// The entries of a tree, as far as it can be read.
pub(crate) fn entries(content: &[u8]) -> impl Iterator<Item = TreeEntry<'_>> {
    let mut rest = content;
    std::iter::from_fn(move || {
        let entry = TreeEntry::first(rest)?;
        rest = entry.after;
        Some(entry)
    })
}

/// A `git cat-file --batch-command --buffer`, and what it has answered.
pub(crate) struct GitTrees<W, R> {
    requests: W,
    answers: Answers<R>,
    kept: Recent<Oid, Arc<KeptTree>>,
}

impl<W: Write, R: Read> GitTrees<W, R> {
    /// Keeps trees of about `most_bytes` together.
    pub fn new(requests: W, answers: R, most_bytes: usize) -> Self {
        Self { requests, answers: Answers::new(answers), kept: Recent::new(most_bytes) }
    }

    /// The trees with these ids, in their order; at most [`ASKED_AT_ONCE`].
    ///
    /// # Errors
    ///
    /// Those of [`Answers::read`], and [`Error::Missing`].
    pub fn get_all(&mut self, oids: &[Oid]) -> Result<Vec<Arc<KeptTree>>> {
        let mut found: Vec<Option<Arc<KeptTree>>> = Vec::with_capacity(oids.len());
        let mut asked = Vec::new();
        for oid in oids {
            let kept = if *oid == Oid::EMPTY_TREE {
                let reasons = TreeReasons::default();
                Some(Arc::new(KeptTree { content: Vec::new(), reasons }))
            } else {
                self.kept.get(oid)
            };
            if kept.is_none() {
                asked.push(*oid);
            }
            found.push(kept);
        }
        ask(&mut self.requests, &asked)?;
        for place in found.iter_mut().filter(|place| place.is_none()) {
            let answer = self.answers.read()?.ok_or(Error::Ended)?;
            let (content, reasons) = match answer.kind {
                b"" => return Err(Error::Missing(answer.oid)),
                b"tree" => (answer.content.to_vec(), judge(answer.content).reasons),
                _ => (Vec::new(), not_a_tree()),
            };
            let (oid, bytes) = (answer.oid, content.len() + OVERHEAD_BYTES);
            let tree = Arc::new(KeptTree { content, reasons });
            self.kept.put(oid, Arc::clone(&tree), bytes);
            *place = Some(tree);
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// One tree.
    ///
    /// # Errors
    ///
    /// As [`Self::get_all`].
    pub fn get(&mut self, oid: Oid) -> Result<Arc<KeptTree>> {
        self.get_all(&[oid])?.pop().ok_or(Error::Ended)
    }

    /// Gives the contents of other objects to `each`, in their order.
    ///
    /// # Errors
    ///
    /// As [`Self::get_all`], and those of `each`.
    pub fn read_others(
        &mut self,
        oids: &[Oid],
        mut each: impl FnMut(usize, &[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        for (part, oids) in oids.chunks(ASKED_AT_ONCE).enumerate() {
            ask(&mut self.requests, oids)?;
            for at in 0..oids.len() {
                let answer = self.answers.read()?.ok_or(Error::Ended)?;
                if answer.kind.is_empty() {
                    return Err(Error::Missing(answer.oid));
                }
                each(part * ASKED_AT_ONCE + at, answer.kind, answer.content)?;
            }
        }
        Ok(())
    }

    /// The file at a path below a root.
    ///
    /// # Errors
    ///
    /// As [`Self::get_all`].
    pub fn file(&mut self, root: Oid, path: &[u8]) -> Result<Option<FileEntry>> {
        let mut tree = root;
        let mut names = path.split(|&byte| byte == b'/').peekable();
        while let Some(name) = names.next() {
            let is_last = names.peek().is_none();
            let content = self.get(tree)?;
            let found = entries(&content.content)
                .filter(|entry| entry.name == name)
                .find_map(|entry| Some((kind_of(entry.mode)?, entry.oid)));
            match found {
                Some((EntryKind::Directory, below)) if !is_last => tree = below,
                Some((EntryKind::File(flag), blob)) if is_last => return Ok(Some((flag, blob))),
                _ => break,
            }
        }
        Ok(None)
    }

    /// The content of a blob that was not asked for ahead, as [`gitblobs::read`] does it.
    ///
    /// # Errors
    ///
    /// As [`Self::get_all`].
    pub fn blob(&mut self, oid: Oid, room: Buffer, most_bytes: u64) -> Result<Option<Buffer>> {
        ask(&mut self.requests, &[oid])?;
        gitblobs::read(&mut self.answers, oid, room, most_bytes)
    }

    /// Adds a tree that the caller has made, whose id is that of its content.
    pub fn add(&mut self, oid: Oid, content: Vec<u8>) {
        let (bytes, reasons) = (content.len() + OVERHEAD_BYTES, TreeReasons::default());
        self.kept.put(oid, Arc::new(KeptTree { content, reasons }), bytes);
    }
}
