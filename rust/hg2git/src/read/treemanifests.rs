//! Tree manifests: each directory has a revlog of its own, which names its subdirectories.
//!
//! Returns the same as `manifests` does for flat ones: the changes from one manifest to another. It
//! descends only where the nodes of directories differ, so unchanged directories are not read.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use parallel::Buffer;
use revlog::manifest::check_depth;
use revlog::{
    Flag, Line, ManifestEntries, ManifestEntry, Node, Rev, Revlog, RevlogKind, Scratch, Store,
    Texts, readable,
};

use crate::error::Result;
use crate::read::limits;
use crate::read::manifests::{Base, Changes, ManifestChange, ManifestPlan, Unusable};
use crate::read::verify::Check;

/// Manifests read by one job, and the approximate bytes of one's changes.
const JOB_REVS: usize = 256;
const CHANGES_BYTES: u64 = 4 << 10;
/// Most index entries kept of opened directories, all together.
const KEPT_ENTRIES: usize = 1 << 20;
/// Most texts that a job keeps: in bytes, and in number for one directory.
const KEPT_TEXT_BYTES: usize = 8 << 20;
const KEPT_TEXTS: usize = 4;
/// Bytes of a line of a flat manifest besides the path: NUL, node, flag and line feed.
const LINE_BYTES: usize = 1 + 40 + 1 + 1;

/// The manifests of the directories of a store; threads may share them.
pub(crate) struct Directories<'a> {
    store: &'a Store,
    root: &'a Revlog,
    opened: Mutex<Opened>,
    check_texts: bool,
    /// Limit for the listed files, in bytes of flat manifest lines.
    longest: u64,
}

/// A manifest whose file list exceeds the memory limit.
#[derive(Debug, thiserror::Error)]
#[error("its files take more than {0} bytes; a larger amalgam.git.memory has room for them")]
struct TooManyFiles(u64);

/// The opened directories, cleared when they have too many entries.
#[derive(Default)]
struct Opened {
    logs: HashMap<Vec<u8>, Arc<DirectoryLog>>,
    entries: usize,
}

/// The manifests of one directory below the root.
struct DirectoryLog {
    revlog: Revlog,
    revs: HashMap<Node, Rev>,
}

impl DirectoryLog {
    fn find(&self, node: Option<Node>) -> Result<State> {
        let Some(node) = node else { return Ok(None) };
        Ok(Some(*self.revs.get(&node).ok_or_else(|| self.revlog.missing(node))?))
    }
}

/// A directory whose manifest differs. Its path ends in a slash.
struct Pair {
    path: Vec<u8>,
    before: Option<Node>,
    after: Option<Node>,
}

/// A directory's manifest revision, if the directory exists.
type State = Option<Rev>;

/// A changed file: its path, and its new revision and flag.
type Changed = (Vec<u8>, Option<(Node, Flag)>);

/// The differences of two manifests, while they are compared.
struct Differing {
    /// Changed files, not yet sorted.
    files: Vec<Changed>,
    /// Directories to compare.
    below: Vec<Pair>,
    /// Bytes left for both lists.
    left_bytes: u64,
}

impl Differing {
    fn take(&mut self, path: &[u8]) -> Option<()> {
        self.left_bytes = self.left_bytes.checked_sub((path.len() + LINE_BYTES) as u64)?;
        Some(())
    }
}

impl<'a> Directories<'a> {
    /// The directories of `store` with the root manifests `root`. `memory_bytes` limits the file
    /// lists.
    pub fn new(store: &'a Store, root: &'a Revlog, check_texts: bool, memory_bytes: u64) -> Self {
        let longest = limits::longest_listing(memory_bytes);
        Self { store, root, opened: Mutex::default(), check_texts, longest }
    }

    /// Ranges of positions in a plan, with the approximate bytes of their changes.
    pub fn jobs(plan: &ManifestPlan) -> Vec<(u64, Range<usize>)> {
        let count = plan.revs.len();
        let ranges = (0..count).step_by(JOB_REVS);
        let ranges = ranges.map(|start| start..(start + JOB_REVS).min(count));
        ranges.map(|range| (CHANGES_BYTES * range.len() as u64, range)).collect()
    }

    /// Reads the manifests at `range` of the plan. Returns the position of each manifest, and its
    /// changes.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Store`] with the first revision that cannot be read, does not match its
    /// node, or is no sorted manifest.
    pub fn read(
        &self,
        plan: &ManifestPlan,
        range: Range<usize>,
        scratch: &mut Scratch,
    ) -> Result<Vec<(usize, Changes)>> {
        let mut reader = Reader { directories: self, scratch, kept: HashMap::new(), kept_bytes: 0 };
        let mut read = Vec::with_capacity(range.len());
        for position in range {
            let base = plan.parent_of(self.root.index(), position);
            let mut changes = reader.changes(plan, position, base)?;
            if let Some(base) = plan.better_base(position, &changes) {
                changes = reader.changes(plan, position, base)?;
            }
            read.push((position, changes));
        }
        Ok(read)
    }

    /// The text of a flat manifest with all files of `rev`.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn flat_text(&self, rev: Rev, scratch: &mut Scratch) -> Result<Buffer> {
        let mut reader = Reader { directories: self, scratch, kept: HashMap::new(), kept_bytes: 0 };
        let files = reader.changed(None, rev)?;
        let len = files.iter().map(|(path, _)| path.len() + LINE_BYTES).sum();
        let mut text = scratch.room(len)?;
        for (path, file) in files {
            let Some((node, flag)) = file else { continue };
            text.extend_from_slice(&path)?;
            let flag = match flag {
                Flag::Regular => "",
                Flag::Executable => "x",
                Flag::Symlink => "l",
            };
            text.extend_from_slice(format!("\0{node}{flag}\n").as_bytes())?;
        }
        Ok(text)
    }

    /// The manifests of the directory `path`, which ends in a slash.
    fn log(&self, path: &[u8]) -> Result<Arc<DirectoryLog>> {
        let lock = || self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(log) = lock().logs.get(path) {
            return Ok(Arc::clone(log));
        }
        let revlog = self
            .store
            .open(RevlogKind::DirectoryManifest(path.strip_suffix(b"/").unwrap_or(path)))?;
        let index = revlog.index();
        let revs = index.revs().map(|rev| (index.node(rev), rev)).collect();
        let log = Arc::new(DirectoryLog { revlog, revs });
        let mut opened = lock();
        opened.entries += log.revs.len();
        if opened.entries > KEPT_ENTRIES {
            opened.logs.clear();
            opened.entries = log.revs.len();
        }
        opened.logs.insert(path.to_owned(), Arc::clone(&log));
        Ok(log)
    }
}

/// The text of a revision.
type Kept = (Rev, Arc<Buffer>);

/// The reader of one job, with the last texts of each directory.
struct Reader<'a> {
    directories: &'a Directories<'a>,
    scratch: &'a mut Scratch,
    /// The last texts of each directory, newest last.
    kept: HashMap<Vec<u8>, Vec<Kept>>,
    kept_bytes: usize,
}

impl Reader<'_> {
    /// The changes of the manifest at `position` from `base`.
    fn changes(&mut self, plan: &ManifestPlan, position: usize, base: Base) -> Result<Changes> {
        let rev = plan.revs[position];
        let before = match base {
            Base::Empty => None,
            Base::Position(base) => Some(plan.revs[base]),
            Base::Known(base) => Some(base),
        };
        let mut changes = Changes::new(base);
        for (path, file) in self.changed(before, rev)? {
            let change = match file {
                None => ManifestChange::Remove(&path),
                Some((node, flag)) => ManifestChange::Set(Line { path: &path, node, flag }),
            };
            let problem = |problem| self.directories.root.corrupt(rev, problem);
            changes.push(change).map_err(problem)?;
        }
        Ok(changes)
    }

    /// The files that differ between two root manifests, ascending by path.
    fn changed(&mut self, before: State, after: Rev) -> Result<Vec<Changed>> {
        let Directories { root, longest, .. } = *self.directories;
        let too_many = || root.corrupt(after, TooManyFiles(longest));
        let (files, below) = (Vec::new(), Vec::new());
        let mut found = Differing { files, below, left_bytes: longest };
        self.compare(root, b"", (before, Some(after)), &mut found)?.ok_or_else(too_many)?;
        while let Some(Pair { path, before, after }) = found.below.pop() {
            let log = self.directories.log(&path)?;
            let states = (log.find(before)?, log.find(after)?);
            self.compare(&log.revlog, &path, states, &mut found)?.ok_or_else(too_many)?;
        }
        found.files.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Ok(found.files)
    }

    /// Adds the files and the directories that differ between two states of the directory `path`.
    /// Returns `None` if they are too many.
    fn compare(
        &mut self,
        revlog: &Revlog,
        path: &[u8],
        (before, after): (State, State),
        found: &mut Differing,
    ) -> Result<Option<()>> {
        let before_text = self.text(revlog, path, before)?;
        let after_text = self.text(revlog, path, after)?;
        let mut old = entries(revlog, path, before, &before_text)?.into_iter().peekable();
        let mut new = entries(revlog, path, after, &after_text)?.into_iter().peekable();
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return Ok(Some(())),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(old), Some(new)) => old.name.cmp(new.name),
            };
            let (old, new) = (old.next_if(|_| order.is_le()), new.next_if(|_| order.is_ge()));
            let Some(name) = new.or(old).map(|entry| entry.name) else { continue };
            if old == new {
                continue;
            }
            let mut path = [path, name].concat();
            let file = new.and_then(|entry| Some((entry.node, entry.flag?)));
            if file.is_some() || old.is_some_and(|entry| entry.flag.is_some()) {
                if found.take(&path).is_none() {
                    return Ok(None);
                }
                found.files.push((path.clone(), file));
            }
            let (before, after) = (directory(old), directory(new));
            if before != after {
                path.push(b'/');
                if found.take(&path).is_none() {
                    return Ok(None);
                }
                found.below.push(Pair { path, before, after });
            }
        }
    }

    /// The text of a revision of the directory `path`.
    fn text(&mut self, revlog: &Revlog, path: &[u8], rev: State) -> Result<Arc<Buffer>> {
        let Some(rev) = rev else { return Ok(Arc::default()) };
        let kept = self.kept.get(path).map_or(&[][..], Vec::as_slice);
        if let Some((_, text)) = kept.iter().find(|(kept, _)| *kept == rev) {
            return Ok(Arc::clone(text));
        }
        let index = revlog.index();
        if index.unusual_flags(rev) != 0 {
            return Err(revlog.unsupported(rev, "it has unknown flags").into());
        }
        let mut texts = Texts::new(revlog, self.scratch, KEPT_TEXT_BYTES);
        for (rev, text) in kept {
            texts.learn(*rev, text);
        }
        let text = texts.get(rev)?.text;
        drop(texts);
        if self.directories.check_texts {
            Check::new(revlog).texts(&[(rev, text.as_slice())])?;
        }
        self.kept_bytes += text.len();
        if self.kept_bytes > KEPT_TEXT_BYTES {
            self.kept.clear();
            self.kept_bytes = text.len();
        }
        let kept = self.kept.entry(path.to_owned()).or_default();
        if kept.len() == KEPT_TEXTS {
            self.kept_bytes -= kept.remove(0).1.len();
        }
        kept.push((rev, Arc::clone(&text)));
        Ok(text)
    }
}

/// The manifest of the directory that an entry names, unless it is empty.
fn directory(entry: Option<ManifestEntry<'_>>) -> Option<Node> {
    let node = entry.filter(|entry| entry.flag.is_none())?.node;
    (node != Node::NULL).then_some(node)
}

/// The entries of the directory `path`, checked.
fn entries<'t>(
    revlog: &Revlog,
    path: &[u8],
    rev: State,
    text: &'t [u8],
) -> Result<Vec<ManifestEntry<'t>>> {
    let Some(rev) = rev else { return Ok(Vec::new()) };
    check_depth(path).map_err(|problem| revlog.corrupt(rev, problem))?;
    let mut read: Vec<ManifestEntry<'_>> = Vec::new();
    for entry in ManifestEntries::new(text) {
        let entry = entry.map_err(|problem| revlog.corrupt(rev, problem))?;
        if read.last().is_some_and(|last| last.name >= entry.name) {
            return Err(revlog.corrupt(rev, Unusable::Order(readable(entry.name))).into());
        }
        read.push(entry);
    }
    Ok(read)
}

#[cfg(test)]
mod tests;
