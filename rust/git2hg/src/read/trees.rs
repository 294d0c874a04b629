//! Trees of git, requested in batches and cached, and the few blobs that were not prefetched.
//! Two threads may use it: each call sends its requests and reads their answers.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dialect::Reason;
use gitpack::tree::entry_order;
use gitpack::{ObjectKind, Oid};
use hashbrown::{HashMap, HashSet};
use parallel::{Buffer, Cache};
use revlog::manifest::Flag;
use sha1lanes::CheckedHasher;

use crate::error::{Error, Result};
use crate::judge::reasons::TreeReasons;
use crate::judge::tree::{TreeEntry, TreeRules, judge, not_a_tree};
use crate::read::answers::{Answer, AnswerHead, Answers, ask};
use crate::read::blobs;
use crate::read::packed::PackedObjects;
use dialect::exact::tree as exact;

/// Most trees requested at a time.
pub(crate) const ASKED_AT_ONCE: usize = 1000;
/// Trees that [`GitTrees::get_some`] returns at least, however large they are.
const LEAST_TREES: usize = 2;
/// Least memory for the trees requested at a time.
const LEAST_BYTES: usize = 1 << 20;
/// Memory of a tree beside its content, about.
const OVERHEAD_BYTES: usize = 150;

/// Cached tree.
#[derive(Debug)]
pub(crate) struct CachedTree {
    pub content: Arc<Buffer>,
    /// Reasons of the tree itself, without its directories.
    pub reasons: TreeReasons,
}

/// File in a tree: its flag and its blob.
pub(crate) type FileEntry = (Flag, Oid);

/// Kind of an entry with an accepted mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Directory,
    File(Flag),
    /// Commit of another repository.
    Gitlink,
}

/// Kind of a mode; `None` if a manifest has no such entry.
pub(crate) fn kind_of(mode: &[u8]) -> Option<EntryKind> {
    match mode {
        b"40000" => Some(EntryKind::Directory),
        b"100644" => Some(EntryKind::File(Flag::Regular)),
        b"100755" => Some(EntryKind::File(Flag::Executable)),
        b"120000" => Some(EntryKind::File(Flag::Symlink)),
        _ if exact::is_directory(mode) => Some(EntryKind::Directory),
        _ => match exact::kind_of(mode, &Oid::EMPTY_TREE) {
            Some(exact::TreeEntryKind::File(flag)) => Some(EntryKind::File(flag)),
            _ => None,
        },
    }
}

/// Bits of a mode that are the type of a file.
pub(crate) const TYPE: u32 = 0o170_000;
/// Type of a directory.
pub(crate) const DIRECTORY: u32 = 0o040_000;
/// Type of a commit of another repository.
pub(crate) const GITLINK: u32 = 0o160_000;

/// Number of any mode.
pub(crate) fn mode_of(mode: &[u8]) -> u32 {
    let digit = |byte: &u8| u32::from(byte.wrapping_sub(b'0') & 7);
    mode.iter().fold(0, |mode: u32, byte| mode.wrapping_mul(8) | digit(byte))
}

/// Kind of any mode.
fn any_kind_of(mode: &[u8]) -> EntryKind {
    let mode = mode_of(mode);
    match (mode & TYPE, mode) {
        (DIRECTORY, _) => EntryKind::Directory,
        (GITLINK, _) => EntryKind::Gitlink,
        (_, 0o100_755) => EntryKind::File(Flag::Executable),
        (_, 0o120_000) => EntryKind::File(Flag::Symlink),
        _ => EntryKind::File(Flag::Regular),
    }
}

/// Tree in git's order, with one entry for each name, the last one, and modes without leading
/// zeros. Names with slashes are left out.
fn in_order(content: &[u8]) -> Vec<u8> {
    let mut last: HashMap<&[u8], TreeEntry<'_>> = HashMap::new();
    for entry in entries(content).filter(|entry| memchr::memchr(b'/', entry.name).is_none()) {
        last.insert(entry.name, entry);
    }
    let is_directory = |entry: &TreeEntry<'_>| any_kind_of(entry.mode) == EntryKind::Directory;
    let mut sorted: Vec<TreeEntry<'_>> = last.into_values().collect();
    sorted.sort_unstable_by(|one, two| {
        entry_order(one.name, is_directory(one), two.name, is_directory(two))
    });
    let mut out = Vec::with_capacity(content.len());
    for TreeEntry { mode, name, oid, .. } in sorted {
        let zeros = mode.iter().take_while(|byte| **byte == b'0').count();
        out.extend_from_slice(&mode[zeros..]);
        out.push(b' ');
        out.extend_from_slice(name);
        out.push(0);
        out.extend_from_slice(oid.as_bytes());
    }
    out
}

/// Entries of a tree, up to the first malformed one.
pub(crate) fn entries(content: &[u8]) -> impl Iterator<Item = TreeEntry<'_>> {
    let mut rest = content;
    std::iter::from_fn(move || {
        let entry = TreeEntry::first(rest)?;
        rest = entry.after;
        Some(entry)
    })
}

/// Trees from a `git cat-file --batch-command --buffer`.
pub(crate) struct GitTrees<W, R> {
    process: Mutex<Process<W, R>>,
    /// Whether all trees and modes are accepted.
    is_lenient: bool,
    rules: TreeRules,
}

struct Process<W, R> {
    requests: W,
    answers: Answers<R>,
    kept: Cache<Oid, Arc<CachedTree>>,
    packs: Option<PackedObjects>,
    /// Memory for the trees requested at a time.
    most_bytes: usize,
    /// Number of trees requested at a time; smaller after large trees.
    at_once: usize,
    is_lenient: bool,
    rules: TreeRules,
}

impl<W: Write, R: Read> GitTrees<W, R> {
    /// Caches trees of about `most_bytes` together.
    pub fn new(requests: W, answers: R, most_bytes: usize) -> Self {
        let process = Mutex::new(Process {
            requests,
            answers: Answers::new(answers),
            kept: Cache::new(most_bytes),
            packs: None,
            most_bytes: most_bytes.max(LEAST_BYTES),
            at_once: ASKED_AT_ONCE,
            is_lenient: false,
            rules: TreeRules::default(),
        });
        Self { process, is_lenient: false, rules: TreeRules::default() }
    }

    /// The same, looking for trees in packs before git is asked.
    pub fn with_packs(self, packs: Option<PackedObjects>) -> Self {
        self.lock().packs = packs;
        self
    }

    /// Accepts all trees and modes. Malformed trees are put in order, so their contents do not
    /// match their ids.
    pub fn lenient(mut self) -> Self {
        self.process.get_mut().unwrap_or_else(PoisonError::into_inner).is_lenient = true;
        Self { is_lenient: true, ..self }
    }

    /// Whether all trees and modes are accepted.
    pub const fn is_lenient(&self) -> bool {
        self.is_lenient
    }

    /// Kind of a mode; `None` if it is refused.
    pub fn kind_of(&self, mode: &[u8]) -> Option<EntryKind> {
        if self.is_lenient { Some(any_kind_of(mode)) } else { kind_of(mode) }
    }

    /// The same, judging trees by these rules.
    pub fn with_rules(self, rules: TreeRules) -> Self {
        self.lock().rules = rules;
        Self { rules, ..self }
    }

    /// Which trees commits may have.
    pub const fn rules(&self) -> TreeRules {
        self.rules
    }

    fn lock(&self) -> MutexGuard<'_, Process<W, R>> {
        // a panic elsewhere is passed on when its thread is joined
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Trees of the first of `oids`, in order, as many as fit in memory. At least two, unless
    /// `oids` has fewer. Repeated ids are requested once.
    ///
    /// # Errors
    ///
    /// The errors of [`Answers::read`], [`Error::Missing`], [`Error::Answer`] for another object
    /// than requested, and [`Error::Differs`].
    pub fn get_some(&self, oids: &[Oid]) -> Result<Vec<Arc<CachedTree>>> {
        self.lock().get_some(oids)
    }

    /// Gets one tree.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::get_some`].
    pub fn get(&self, oid: Oid) -> Result<Arc<CachedTree>> {
        self.get_some(&[oid])?.pop().ok_or(Error::Ended)
    }

    /// Passes the kinds and contents of uncached objects to `each`, in order.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::get_some`] and `each`.
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

    /// Verifies objects of any kind and length against their ids. Calls `tick` after each.
    ///
    /// # Errors
    ///
    /// [`Error::Differs`], and the errors of [`Self::get_some`] and `tick`.
    pub fn verify(&self, oids: &[Oid], mut tick: impl FnMut() -> Result<()>) -> Result<()> {
        let mut process = self.lock();
        let Process { requests, answers, .. } = &mut *process;
        for oids in oids.chunks(ASKED_AT_ONCE) {
            ask(requests, oids)?;
            for oid in oids {
                let bytes = next_head(answers, *oid)?;
                let mut digest = CheckedHasher::default();
                digest.update(answers.kind());
                digest.update(format!(" {bytes}\0").as_bytes());
                answers.content(bytes, |piece| {
                    digest.update(piece);
                    Ok(())
                })?;
                if digest.finish() != Ok(*oid.as_bytes()) {
                    return Err(Error::Differs(*oid));
                }
                tick()?;
            }
        }
        Ok(())
    }

    /// Requests blobs, which are read in this order. Other requests wait until the result is
    /// dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn blobs<'a>(&'a self, oids: &'a [Oid]) -> Result<LateBlobs<'a, W, R>> {
        let mut process = self.lock();
        ask(&mut process.requests, oids)?;
        Ok(LateBlobs { process, oids })
    }

    /// Caches a tree made by the caller. `oid` must be the hash of `content`.
    pub fn add(&self, oid: Oid, content: Vec<u8>) {
        let (bytes, reasons) = (content.len() + OVERHEAD_BYTES, TreeReasons::default());
        let content = Arc::new(Buffer::from(content));
        self.lock().kept.put(oid, Arc::new(CachedTree { content, reasons }), bytes);
    }
}

/// Requested blobs.
pub(crate) struct LateBlobs<'a, W, R> {
    process: MutexGuard<'a, Process<W, R>>,
    /// Blobs not read yet.
    oids: &'a [Oid],
}

impl<W: Write, R: Read> LateBlobs<'_, W, R> {
    /// Next content, as of [`blobs::read`].
    ///
    /// # Errors
    ///
    /// The errors of [`GitTrees::get_some`].
    pub fn next(&mut self, room: Buffer, most_bytes: u64) -> Result<Option<Buffer>> {
        let (oid, rest) = self.oids.split_first().ok_or(Error::Ended)?;
        self.oids = rest;
        blobs::read(&mut self.process.answers, *oid, room, most_bytes)
    }

    /// Skips the remaining blobs, so that other requests can follow.
    ///
    /// # Errors
    ///
    /// The errors of [`GitTrees::get_some`].
    pub fn pass_over(mut self) -> Result<()> {
        self.oids.iter().try_for_each(|oid| pass_over(&mut self.process.answers, *oid))
    }
}

impl<W: Write, R: Read> Process<W, R> {
    /// As [`GitTrees::get_some`].
    fn get_some(&mut self, oids: &[Oid]) -> Result<Vec<Arc<CachedTree>>> {
        let oids = &oids[..oids.len().min(self.at_once)];
        let mut found: HashMap<Oid, Arc<CachedTree>> = HashMap::new();
        let mut asked = Vec::new();
        let mut seen = HashSet::new();
        let (mut bytes, mut got) = (0, 0);
        for oid in oids.iter().filter(|oid| seen.insert(**oid)) {
            if *oid == Oid::EMPTY_TREE {
                let reasons = TreeReasons::default();
                found.insert(*oid, Arc::new(CachedTree { content: Arc::default(), reasons }));
            } else if let Some(tree) = self.kept.get(oid) {
                found.insert(*oid, tree);
            } else if got >= LEAST_TREES && bytes >= self.most_bytes {
                break;
            } else if let Some(content) = self.packed(oid)? {
                let tree = self.keep(*oid, Some(content));
                bytes += tree.content.len() + OVERHEAD_BYTES;
                got += 1;
                found.insert(*oid, tree);
            } else {
                asked.push(*oid);
            }
        }
        ask(&mut self.requests, &asked)?;
        got = 0;
        for (number, oid) in asked.iter().enumerate() {
            if number >= LEAST_TREES && bytes >= self.most_bytes {
                pass_over(&mut self.answers, *oid)?;
                continue;
            }
            let answer = the_answer(&mut self.answers, *oid)?;
            let content =
                (answer.kind == b"tree").then(|| Arc::new(Buffer::from(answer.content.to_vec())));
            let tree = self.keep(*oid, content);
            (bytes, got) = (bytes + tree.content.len() + OVERHEAD_BYTES, got + 1);
            found.insert(*oid, tree);
        }
        // skipped trees are requested again, so never skip more than half
        self.at_once = if got < asked.len() {
            got.max(LEAST_TREES)
        } else {
            (self.at_once * 2).min(ASKED_AT_ONCE)
        };
        Ok(oids.iter().map_while(|oid| found.get(oid).cloned()).collect())
    }

    fn packed(&mut self, oid: &Oid) -> Result<Option<Arc<Buffer>>> {
        let Some(packs) = &mut self.packs else { return Ok(None) };
        let Some(place) = packs.find(oid) else { return Ok(None) };
        packs.read((ObjectKind::Tree, oid), place)
    }

    /// Judges the content of a tree, or that an object is none, and caches it.
    fn keep(&mut self, oid: Oid, content: Option<Arc<Buffer>>) -> Arc<CachedTree> {
        let reasons = content.as_ref().map_or_else(not_a_tree, |it| judge(it, self.rules).reasons);
        let mut content = content.unwrap_or_default();
        let is_odd = |reason| reasons.has(reason);
        if self.is_lenient && (is_odd(Reason::MalformedTree) || is_odd(Reason::Mode)) {
            content = Arc::new(Buffer::from(in_order(&content)));
        }
        let bytes = content.len() + OVERHEAD_BYTES;
        let tree = Arc::new(CachedTree { content, reasons });
        self.kept.put(oid, Arc::clone(&tree), bytes);
        tree
    }
}

/// Next answer, which has to be the requested object.
fn the_answer(answers: &mut Answers<impl Read>, oid: Oid) -> Result<Answer<'_>> {
    let answer = answers.read()?.ok_or(Error::Ended)?;
    if answer.oid != oid {
        return Err(other(answer.oid, oid));
    }
    if answer.kind.is_empty() { Err(Error::Missing(oid)) } else { Ok(answer) }
}

/// Skips the next answer.
fn pass_over(answers: &mut Answers<impl Read>, oid: Oid) -> Result<()> {
    let bytes = next_head(answers, oid)?;
    answers.content(bytes, |_| Ok(()))
}

/// Length of the next object, which has to be the requested one.
fn next_head(answers: &mut Answers<impl Read>, oid: Oid) -> Result<u64> {
    let AnswerHead { oid: found, bytes } = answers.head()?.ok_or(Error::Ended)?;
    if found != oid {
        return Err(other(found, oid));
    }
    bytes.ok_or(Error::Missing(oid))
}

fn other(found: Oid, asked: Oid) -> Error {
    Error::Answer(format!("{found} instead of {asked}"))
}

/// Files at `paths` below `root`. Paths ascend and are different. Each directory is read once,
/// together with the paths below it. Calls `tick` after each.
///
/// # Errors
///
/// The errors of [`GitTrees::get_some`] and `tick`.
pub(crate) fn tree_files(
    trees: &GitTrees<impl Write, impl Read>,
    root: Oid,
    paths: &[&[u8]],
    mut tick: impl FnMut() -> Result<()>,
) -> Result<Vec<Option<FileEntry>>> {
    let mut found = vec![None; paths.len()];
    // directories, with the range of paths below each, and the length of the path above these
    let mut pending = vec![(root, 0..paths.len(), 0)];
    while let Some((directory, range, above)) = pending.pop() {
        if range.is_empty() {
            continue;
        }
        let tree = trees.get(directory)?;
        let mut there = entries(&tree.content).peekable();
        let mut at = range.start;
        while at < range.end {
            let rest = &paths[at][above..];
            let slash = memchr::memchr(b'/', rest);
            let name = &rest[..slash.unwrap_or(rest.len())];
            let is_below = |path: &&&[u8]| path[above..].starts_with(&rest[..=name.len()]);
            let count = match slash {
                Some(_) => paths[at..range.end].iter().take_while(is_below).count(),
                None => 1,
            };
            let order_of = |entry: &TreeEntry<'_>| {
                let is_directory = kind_of(entry.mode) == Some(EntryKind::Directory);
                entry_order(entry.name, is_directory, name, slash.is_some())
            };
            while there.next_if(|entry| order_of(entry).is_lt()).is_some() {}
            if let Some(entry) = there.next_if(|entry| order_of(entry).is_eq()) {
                match kind_of(entry.mode) {
                    Some(EntryKind::File(flag)) => found[at] = Some((flag, entry.oid)),
                    Some(EntryKind::Directory) => {
                        pending.push((entry.oid, at..at + count, above + name.len() + 1));
                    }
                    Some(EntryKind::Gitlink) | None => {}
                }
            }
            at += count;
        }
        tick()?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tree with one entry and a long name.
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
        // two trees exceed the memory: all others are requested again
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

    fn tree_entry(mode: &str, name: &str, byte: u8) -> Vec<u8> {
        [mode.as_bytes(), b" ", name.as_bytes(), b"\0", &[byte; 20]].concat()
    }

    /// Answer of git with a tree.
    fn tree_answer(byte: u8, entries: &[Vec<u8>]) -> Vec<u8> {
        let (oid, content) = (Oid::from_bytes([byte; 20]), entries.concat());
        [format!("{oid} tree {}\n", content.len()).as_bytes(), &content, b"\n"].concat()
    }

    #[test]
    fn each_directory_is_read_once_for_all_files() {
        let root = [
            tree_entry("100644", "a", 10),
            tree_entry("100755", "d-", 11),
            tree_entry("40000", "d", 2),
            tree_entry("100644", "d0", 12),
            tree_entry("160000", "m", 15),
            tree_entry("40000", "z", 3),
        ];
        let (below, last) = ([tree_entry("120000", "x", 13), tree_entry("100644", "y", 14)], []);
        let given = [tree_answer(1, &root), tree_answer(3, &last), tree_answer(2, &below)].concat();
        let mut requests = Vec::new();
        let trees = GitTrees::new(&mut requests, &*given, 0);
        let expected: [(&str, Option<u8>); 11] = [
            ("a", Some(10)),
            ("a/b", None),
            ("d", None),
            ("d-", Some(11)),
            ("d/w", None),
            ("d/x", Some(13)),
            ("d/y", Some(14)),
            ("d0", Some(12)),
            ("m", None),
            ("m/x", None),
            ("z/no/x", None),
        ];
        let paths = expected.map(|(path, _)| path.as_bytes());
        let mut ticks = 0;
        let tick = || {
            ticks += 1;
            Ok(())
        };
        let found = tree_files(&trees, Oid::from_bytes([1; 20]), &paths, tick);
        let found = found.expect("is read");
        let bytes: Vec<_> =
            found.iter().map(|file| file.map(|(_, oid)| oid.as_bytes()[0])).collect();
        assert_eq!(bytes, expected.map(|(_, byte)| byte));
        drop(trees);
        let asked = String::from_utf8(requests).expect("ascii");
        let asked = asked.lines().filter_map(|line| line.split(' ').nth(1)?.get(..2));
        assert_eq!((asked.collect::<String>().as_str(), ticks), ("010302", 3));
    }
}
