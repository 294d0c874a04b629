//! The trees of git, asked for in batches and kept while there is room; and the few blobs that nobody has
//! read ahead. Two threads may ask: each call is a question with its answers.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gitpack::Oid;
use hashbrown::{HashMap, HashSet};
use parallel::Buffer;
use revlog::manifest::Flag;

use crate::cache::Recent;
use crate::error::{Error, Result};
use crate::judge::tree::{TreeEntry, judge, not_a_tree};
use crate::read::answers::{Answer, AnswerHead, Answers, ask};
use crate::read::blobs;
use crate::reason::TreeReasons;

/// Most trees that are asked for at a time.
pub(crate) const ASKED_AT_ONCE: usize = 1000;
/// Trees of which [`GitTrees::get_some`] answers at least so many, however large they are.
const LEAST_TREES: usize = 2;
/// Trees of so many bytes are got at a time however little memory there is.
const LEAST_BYTES: usize = 1 << 20;
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
pub(crate) struct GitTrees<W, R>(Mutex<Process<W, R>>);

struct Process<W, R> {
    requests: W,
    answers: Answers<R>,
    kept: Recent<Oid, Arc<KeptTree>>,
    /// Bytes of trees that are got at a time.
    most_bytes: usize,
    /// Trees that are asked for at a time: fewer when they were large.
    at_once: usize,
}

impl<W: Write, R: Read> GitTrees<W, R> {
    /// Keeps trees of about `most_bytes` together.
    pub fn new(requests: W, answers: R, most_bytes: usize) -> Self {
        Self(Mutex::new(Process {
            requests,
            answers: Answers::new(answers),
            kept: Recent::new(most_bytes),
            most_bytes: most_bytes.max(LEAST_BYTES),
            at_once: ASKED_AT_ONCE,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Process<W, R>> {
        // a panic elsewhere is passed on when its thread is joined
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The trees with the first of these ids, in their order: as many as there is room for, and two if
    /// there are two. An id that comes again is asked for once.
    ///
    /// # Errors
    ///
    /// Those of [`Answers::read`], [`Error::Missing`], and [`Error::Answer`] if git answers something
    /// else than it is asked.
    pub fn get_some(&self, oids: &[Oid]) -> Result<Vec<Arc<KeptTree>>> {
        self.lock().get_some(oids)
    }

    /// One tree.
    ///
    /// # Errors
    ///
    /// As [`Self::get_some`].
    pub fn get(&self, oid: Oid) -> Result<Arc<KeptTree>> {
        self.get_some(&[oid])?.pop().ok_or(Error::Ended)
    }

    /// Gives the contents of other objects to `each`, in their order.
    ///
    /// # Errors
    ///
    /// As [`Self::get_some`], and those of `each`.
    pub fn read_others(
        &self,
        oids: &[Oid],
        mut each: impl FnMut(usize, &[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut process = self.lock();
        for (part, oids) in oids.chunks(ASKED_AT_ONCE).enumerate() {
            ask(&mut process.requests, oids)?;
            for (at, oid) in oids.iter().enumerate() {
                let answer = the_answer(&mut process.answers, *oid)?;
                each(part * ASKED_AT_ONCE + at, answer.kind, answer.content)?;
            }
        }
        Ok(())
    }

    /// Asks for blobs, which are read in this order. Nobody else asks anything until they are dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn blobs<'a>(&'a self, oids: &'a [Oid]) -> Result<LateBlobs<'a, W, R>> {
        let mut process = self.lock();
        ask(&mut process.requests, oids)?;
        Ok(LateBlobs { process, oids })
    }

    /// Adds a tree that the caller has made, whose id is that of its content.
    pub fn add(&self, oid: Oid, content: Vec<u8>) {
        let (bytes, reasons) = (content.len() + OVERHEAD_BYTES, TreeReasons::default());
        self.lock().kept.put(oid, Arc::new(KeptTree { content, reasons }), bytes);
    }
}

/// Blobs that were asked for.
pub(crate) struct LateBlobs<'a, W, R> {
    process: MutexGuard<'a, Process<W, R>>,
    /// Those that are not read yet.
    oids: &'a [Oid],
}

impl<W: Write, R: Read> LateBlobs<'_, W, R> {
    /// The next content, as [`blobs::read`] does it.
    ///
    /// # Errors
    ///
    /// As [`GitTrees::get_some`].
    pub fn next(&mut self, room: Buffer, most_bytes: u64) -> Result<Option<Buffer>> {
        let (oid, rest) = self.oids.split_first().ok_or(Error::Ended)?;
        self.oids = rest;
        blobs::read(&mut self.process.answers, *oid, room, most_bytes)
    }

    /// Passes over those that are left, so that others can ask.
    ///
    /// # Errors
    ///
    /// As [`GitTrees::get_some`].
    pub fn pass_over(mut self) -> Result<()> {
        self.oids.iter().try_for_each(|oid| pass_over(&mut self.process.answers, *oid))
    }
}

impl<W: Write, R: Read> Process<W, R> {
    /// As [`GitTrees::get_some`].
    fn get_some(&mut self, oids: &[Oid]) -> Result<Vec<Arc<KeptTree>>> {
        let oids = &oids[..oids.len().min(self.at_once)];
        let mut found: HashMap<Oid, Arc<KeptTree>> = HashMap::new();
        let mut asked = Vec::new();
        let mut seen = HashSet::new();
        for oid in oids.iter().filter(|oid| seen.insert(**oid)) {
            if *oid == Oid::EMPTY_TREE {
                let reasons = TreeReasons::default();
                found.insert(*oid, Arc::new(KeptTree { content: Vec::new(), reasons }));
            } else if let Some(tree) = self.kept.get(oid) {
                found.insert(*oid, tree);
            } else {
                asked.push(*oid);
            }
        }
        ask(&mut self.requests, &asked)?;
        let (mut bytes, mut got) = (0, 0);
        for (number, oid) in asked.iter().enumerate() {
            if number >= LEAST_TREES && bytes >= self.most_bytes {
                pass_over(&mut self.answers, *oid)?;
                continue;
            }
            let answer = the_answer(&mut self.answers, *oid)?;
            let (content, reasons) = match answer.kind {
                b"tree" => (answer.content.to_vec(), judge(answer.content).reasons),
                _ => (Vec::new(), not_a_tree()),
            };
            let tree_bytes = content.len() + OVERHEAD_BYTES;
            let tree = Arc::new(KeptTree { content, reasons });
            self.kept.put(*oid, Arc::clone(&tree), tree_bytes);
            found.insert(*oid, tree);
            (bytes, got) = (bytes + tree_bytes, got + 1);
        }
        // what was passed over is asked for again: so that it is never more than what was got
        self.at_once = if got < asked.len() {
            got.max(LEAST_TREES)
        } else {
            (self.at_once * 2).min(ASKED_AT_ONCE)
        };
        Ok(oids.iter().map_while(|oid| found.get(oid).cloned()).collect())
    }
}

/// The next answer, which has to be an object and the one that was asked for.
fn the_answer(answers: &mut Answers<impl Read>, oid: Oid) -> Result<Answer<'_>> {
    let answer = answers.read()?.ok_or(Error::Ended)?;
    if answer.oid != oid {
        return Err(other(answer.oid, oid));
    }
    if answer.kind.is_empty() { Err(Error::Missing(oid)) } else { Ok(answer) }
}

/// Reads the next answer, and keeps nothing of it.
fn pass_over(answers: &mut Answers<impl Read>, oid: Oid) -> Result<()> {
    let AnswerHead { oid: found, bytes } = answers.head()?.ok_or(Error::Ended)?;
    if found != oid {
        return Err(other(found, oid));
    }
    answers.content(bytes.ok_or(Error::Missing(oid))?, |_| Ok(()))
}

fn other(found: Oid, asked: Oid) -> Error {
    Error::Answer(format!("{found} instead of {asked}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree with one entry and a long name.
    fn answer(byte: u8, len: usize) -> Vec<u8> {
        let content = [b"100644 ", &*vec![b'n'; len], b"\0", &[7; 20]].concat();
        let head = format!("{} tree {}\n", Oid::from_bytes([byte; 20]), content.len());
        [head.as_bytes(), &content, b"\n"].concat()
    }

    fn asked(requests: &[u8]) -> String {
        let text = std::str::from_utf8(requests).expect("ascii");
        text.lines().filter_map(|line| line.split(' ').nth(1)?.get(..2)).collect()
    }

    #[test]
    fn a_tree_of_many_places_is_asked_for_once() {
        let (mut requests, given) = (Vec::new(), [answer(1, 9), answer(2, 9)].concat());
        let trees = GitTrees::new(&mut requests, &*given, 0);
        let oids = [1, 1, 2, 1, 2, 1].map(|byte| Oid::from_bytes([byte; 20]));
        let found = trees.get_some(&oids).expect("are there");
        assert_eq!(found.len(), oids.len());
        assert!(Arc::ptr_eq(&found[0], &found[5]));
        assert_eq!(asked(&requests), "0102");
    }

    #[test]
    fn large_trees_are_got_a_few_at_a_time() {
        const COUNT: usize = 40;
        let bytes: Vec<u8> = (1..).take(COUNT).collect();
        // two are more than there is room for: all that comes after them is asked for again
        let mut given: Vec<u8> = bytes.iter().flat_map(|byte| answer(*byte, LEAST_BYTES)).collect();
        given.extend(bytes[2..].iter().flat_map(|byte| answer(*byte, LEAST_BYTES)));
        let mut requests = Vec::new();
        let trees = GitTrees::new(&mut requests, &*given, 0);
        let oids: Vec<Oid> = bytes.iter().map(|byte| Oid::from_bytes([*byte; 20])).collect();
        let mut rest = &*oids;
        while !rest.is_empty() {
            let found = trees.get_some(rest).expect("are there");
            assert_eq!(found.len(), 2);
            rest = &rest[2..];
            trees.lock().at_once = 2; // that they grow is not looked at here
        }
        assert_eq!(asked(&requests).len(), 2 * (COUNT + COUNT - 2));
    }

    #[test]
    fn more_are_asked_for_when_they_were_small() {
        let given: Vec<u8> = (1..=9).flat_map(|byte| answer(byte, 1)).collect();
        let trees = GitTrees::new(Vec::new(), &*given, 0);
        let oids: Vec<Oid> = (1..=9).map(|byte| Oid::from_bytes([byte; 20])).collect();
        trees.lock().at_once = 2;
        let counts = [0, 2, 6].map(|at| trees.get_some(&oids[at..]).expect("are there").len());
        assert_eq!(counts, [2, 4, 3]);
    }

    #[test]
    fn another_object_than_was_asked_for_is_an_error() {
        let given = answer(1, 1);
        let oid = Oid::from_bytes([2; 20]);
        let trees = GitTrees::new(Vec::new(), &*given, 0);
        assert!(matches!(trees.get(oid), Err(Error::Answer(_))));
        let trees = GitTrees::new(Vec::new(), &*given, 0);
        let read = trees.read_others(&[oid], |_, _, _| Ok(()));
        assert!(matches!(read, Err(Error::Answer(_))));
    }
}
