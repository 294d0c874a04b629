//! A changegroup, made piece by piece.
//!
//! Each call of [`Changegroup::read`] works on a few megabytes with several threads, and joins them.
//! What is in memory is that much, the indexes of changelog and manifest, the names of the files, and
//! a number for each revision of the group that is being written.
//!
//! Over 350 lines: each stage takes over what the one before has found.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use hashbrown::{HashMap, HashSet};
use revlog::{MappedIndexes, Node, Revlog, RevlogKind, Scratch, Store, Texts};
use workshop::{Width, ordered, trim};

use crate::changesets::ChangesetHead;
use crate::chunk::{END, file_header};
use crate::error::{Error, Result};
use crate::files::{self, FileSelection, FirstListed};
use crate::group::Writer;
use crate::manifests::{self, Listed, Wanted};
use crate::outgoing::{GroupVersion, Outgoing, Part, Reached};
use crate::plan::{self, PlannedDelta};
use crate::revset::RevSet;

/// Bytes that a call makes, at least, unless the changegroup ends.
const BLOCK_BYTES: usize = 4 << 20;
/// Bytes of revisions that make a job, about.
const JOB_BYTES: u64 = 512 << 10;
/// Files that make a job.
const JOB_FILES: usize = 8;
/// Bytes of one file that a job writes; the others are jobs of their own.
const MOST_OF_FILE: usize = 1 << 20;
/// Bytes of finished jobs that may wait for an earlier one.
const WINDOW_BYTES: u64 = 32 << 20;
/// More threads would wait for the compressor.
const MOST_THREADS: usize = 8;
/// Texts kept to rebuild others, in bytes a thread. Changesets are rarely made from another.
const KEPT_BYTES: usize = 8 << 20;
/// So many revisions leave over what is worth giving back to the system.
const MANY_REVISIONS: usize = 100_000;
/// After so many blocks it is given back.
const BLOCKS_LEFT_OVER: usize = 8;
/// Buffers that a thread keeps, in bytes.
const POOL_BYTES: usize = 4 << 20;

/// Numbers of files.
type Names = HashMap<Box<[u8]>, u32>;

/// Told how far it is; answers whether to stop.
pub type WatchFn<'a> = dyn Fn(Reached) -> bool + Sync + 'a;

/// A changegroup that is being written.
#[derive(Debug)]
pub struct Changegroup {
    source: Source,
    trusts_links: bool,
    threads: usize,
    stage: Stage,
    /// What comes before the next step of the stage.
    queue: VecDeque<Piece>,
    position: Reached,
    /// How many blocks were made.
    blocks: usize,
}

/// What all threads read.
#[derive(Debug)]
struct Source {
    /// All indexes are read from files.
    store: Store,
    /// The same with the indexes that are mapped already, which may be older than the files.
    mapped: Store,
    version: GroupVersion,
    changelog: Revlog,
    changesets: RevSet,
    common: RevSet,
    scratches: Mutex<Vec<Scratch>>,
}

/// Which part of the changegroup comes next.
#[derive(Debug)]
enum Stage {
    Changesets { planned: Vec<PlannedDelta>, at: usize, wanted: Wanted, files: HashSet<Box<[u8]>> },
    Manifests { group: Box<Group>, names: Names, listed: FirstListed },
    Files { names: Vec<Box<[u8]>>, at: usize, selection: FileSelection },
    End,
}

/// Revisions of one revlog that are to be written.
#[derive(Debug)]
struct Group {
    revlog: Revlog,
    planned: Vec<PlannedDelta>,
    at: usize,
}

/// A part of the files.
#[derive(Debug)]
enum Piece {
    /// It is written.
    Bytes(Vec<u8>),
    /// The rest of the group of a large file.
    Large(Box<Group>),
}

/// The decompressors and buffers of a thread, for as long as it works.
struct Lent<'a>(Option<Scratch>, &'a Mutex<Vec<Scratch>>);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut kept = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(self.0.take());
    }
}

impl Changegroup {
    /// Reads the changelog's index, and compares it with what is asked for.
    ///
    /// # Errors
    ///
    /// [`Error::Moved`] if the store has other changesets than those of the request;
    /// [`Error::Store`] if its changelog cannot be read.
    pub fn open(store: Store, request: Outgoing) -> Result<Self> {
        let Outgoing { version, changesets: expected, common, trusts_links, threads } = request;
        let mapped = store;
        let store = mapped.clone().with_mapped(MappedIndexes::default());
        // what is mapped may be of before a strip
        if mapped.is_mapped() && !store.has_changesets(expected.iter().copied())? {
            return Err(Error::Moved);
        }
        let changelog = mapped.open(RevlogKind::Changelog)?;
        check_nodes(&changelog, expected.iter().copied())?;
        let index = changelog.index();
        let mut changesets = RevSet::new(index.len());
        for (number, _) in &expected {
            changesets.insert(*number);
        }
        let mut closed = RevSet::new(index.len());
        if !trusts_links {
            let mut newest = None;
            for number in common {
                let rev = index.rev(number).ok_or(Error::Moved)?;
                closed.insert(number);
                newest = newest.max(Some(rev));
            }
            closed.close(index, newest);
        }
        let revs = expected.iter().filter_map(|(number, _)| index.rev(*number));
        let planned = plan::of_changesets(revs);
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS),
            threads => threads,
        };
        let (wanted, files) = (Wanted::default(), HashSet::new());
        let total = planned.len() as u64;
        let scratches = Mutex::default();
        Ok(Self {
            source: Source {
                store,
                mapped,
                version,
                changelog,
                changesets,
                common: closed,
                scratches,
            },
            trusts_links,
            threads,
            stage: Stage::Changesets { planned, at: 0, wanted, files },
            queue: VecDeque::new(),
            position: Reached { phase: Part::Changesets, done: 0, total },
            blocks: 0,
        })
    }

    /// How far it is.
    #[must_use]
    pub const fn position(&self) -> Reached {
        self.position
    }

    /// Appends the next few megabytes to `out`. If it appends nothing, that was all.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] that names what cannot be read, [`Error::Moved`] if changesets were removed
    /// since, [`Error::Cancelled`] if `watch` says so. What was read before is no changegroup then.
    pub fn read(&mut self, out: &mut Vec<u8>, watch: &WatchFn<'_>) -> Result<()> {
        let most = out.len() + BLOCK_BYTES;
        while out.len() < most {
            match self.step(out, watch) {
                Ok(true) => {}
                Ok(false) => break,
                Err(problem @ Error::Cancelled) => return Err(problem),
                // what a strip in another process leaves looks damaged
                Err(problem) => {
                    let known = self.check_unmoved().and_then(|()| self.check_used());
                    return Err(known.err().unwrap_or(problem));
                }
            }
        }
        self.blocks += 1;
        self.let_go();
        Ok(())
    }

    /// Gives back the pages of mapped indexes that were touched, and sometimes what threads have left.
    fn let_go(&self) {
        let changelog = self.source.changelog.index();
        changelog.let_go();
        if let Stage::Manifests { group, .. } = &self.stage {
            group.revlog.index().let_go();
        }
        if self.blocks.is_multiple_of(BLOCKS_LEFT_OVER) {
            tidy(changelog.len() as usize);
        }
    }

    /// Whether the entries that were used of mapped indexes are sound.
    fn check_used(&self) -> Result<()> {
        self.source.changelog.check_used()?;
        if let Stage::Manifests { group, .. } = &self.stage {
            group.revlog.check_used()?;
        }
        Ok(())
    }

    /// Whether the store still has the changesets.
    fn check_unmoved(&self) -> Result<()> {
        let Source { store, changelog, changesets, .. } = &self.source;
        let before = changelog.index();
        let read =
            changesets.iter().filter_map(|number| Some((number, before.node(before.rev(number)?))));
        if store.has_changesets(read)? { Ok(()) } else { Err(Error::Moved) }
    }

    /// Writes a bit more; `false` at the end.
    fn step(&mut self, out: &mut Vec<u8>, watch: &WatchFn<'_>) -> Result<bool> {
        let position = self.position;
        let tick = || if watch(position) { Err(Error::Cancelled) } else { Ok(()) };
        tick()?;
        let Self { source, threads, .. } = self;
        match self.queue.pop_front() {
            None => {}
            Some(Piece::Bytes(bytes)) => {
                out.extend_from_slice(&bytes);
                return Ok(true);
            }
            Some(Piece::Large(mut group)) => {
                group.step(source, *threads, out, tick)?;
                if group.is_done() {
                    out.extend_from_slice(&END);
                } else {
                    self.queue.push_front(Piece::Large(group));
                }
                return Ok(true);
            }
        }
        match &mut self.stage {
            Stage::Changesets { planned, at, wanted, files } => {
                step_changesets(source, *threads, (planned, at), (wanted, files), out, tick)?;
                self.position.done = *at as u64;
                if *at == planned.len() {
                    out.extend_from_slice(&END);
                    self.begin_manifests()?;
                }
            }
            Stage::Manifests { group, names, listed } => {
                let names = (!self.trusts_links).then_some(&*names);
                group.step_manifests(source, *threads, (names, listed), out, tick)?;
                self.position.done = group.at as u64;
                if group.is_done() {
                    out.extend_from_slice(&END);
                    if source.version == GroupVersion::V03 {
                        out.extend_from_slice(&END); // of the manifests of directories
                    }
                    group.revlog.check_used()?;
                    group.revlog.index().let_go();
                    self.begin_files();
                }
            }
            Stage::Files { names, at, selection } => {
                if *at < names.len() {
                    step_files(source, *threads, (names, at, selection), &mut self.queue, tick)?;
                    self.position.done = *at as u64;
                } else {
                    self.check_unmoved()?;
                    self.check_used()?;
                    out.extend_from_slice(&END);
                    self.stage = Stage::End;
                    self.source.scratches = Mutex::default();
                    tidy(self.source.changelog.index().len() as usize);
                }
            }
            Stage::End => return Ok(false),
        }
        Ok(true)
    }

    fn begin_manifests(&mut self) -> Result<()> {
        let stage = std::mem::replace(&mut self.stage, Stage::End);
        let Stage::Changesets { wanted, files, planned, .. } = stage else { return Ok(()) };
        let changesets = planned.len();
        drop(planned);
        tidy(changesets);
        let wanted = wanted.sorted();
        let mut revlog = self.source.mapped.open(RevlogKind::Manifest)?;
        let found = match wanted.find(&revlog) {
            // what is mapped may be of before the last changesets
            Err(_) => {
                revlog = self.source.store.open(RevlogKind::Manifest)?;
                wanted.find(&revlog)
            }
            found => found,
        };
        let (revs, with_null) = found?;
        drop(wanted);
        let planned = plan::choose(revlog.index(), &revs, with_null);
        drop(revs);
        let total = planned.len() as u64;
        self.position = Reached { phase: Part::Manifests, done: 0, total };
        let names = files.into_iter().zip(0..).collect();
        let group = Box::new(Group { revlog, planned, at: 0 });
        self.stage = Stage::Manifests { group, names, listed: FirstListed::default() };
        Ok(())
    }

    fn begin_files(&mut self) {
        let stage = std::mem::replace(&mut self.stage, Stage::End);
        let Stage::Manifests { names, listed, group } = stage else { return };
        let manifests = group.planned.len();
        drop(group);
        tidy(manifests);
        let mut numbered: Vec<_> = names.into_iter().collect();
        numbered.sort_unstable();
        let mut place = vec![0; numbered.len()];
        for (position, (_, number)) in (0..).zip(&numbered) {
            place[*number as usize] = position;
        }
        let selection =
            if self.trusts_links { FileSelection::Linked } else { listed.selection(&place) };
        let total = numbered.len() as u64;
        self.position = Reached { phase: Part::Files, done: 0, total };
        let names = numbered.into_iter().map(|(name, _)| name).collect();
        self.stage = Stage::Files { names, at: 0, selection };
    }
}

/// Gives back what the allocator keeps of something that had so many revisions.
fn tidy(revisions: usize) {
    if revisions >= MANY_REVISIONS {
        trim();
    }
}

/// Whether the changelog has these changesets.
fn check_nodes(changelog: &Revlog, mut expected: impl Iterator<Item = (u32, Node)>) -> Result<()> {
    let index = changelog.index();
    let has =
        |(number, node): (u32, Node)| index.rev(number).is_some_and(|rev| index.node(rev) == node);
    if expected.all(has) { Ok(()) } else { Err(Error::Moved) }
}

impl Source {
    /// A writer for changelog or manifests; `file_writer` is one for a filelog.
    const fn writer<'a>(&'a self, revlog: &'a Revlog) -> Writer<'a> {
        Writer {
            revlog,
            changelog: self.changelog.index(),
            version: self.version,
            keeps_null_parent: false,
        }
    }

    const fn file_writer<'a>(&'a self, revlog: &'a Revlog) -> Writer<'a> {
        Writer { keeps_null_parent: true, ..self.writer(revlog) }
    }

    /// Does the jobs on some threads, or on this one if there is one only; results come in order.
    fn run<J: Send, R: Send>(
        &self,
        threads: usize,
        jobs: impl Iterator<Item = J> + Send,
        work: impl Fn(&mut Scratch, J) -> Result<R> + Sync,
        mut consume: impl FnMut(R) -> Result<()>,
        tick: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let borrow = || {
            let kept = self.scratches.lock().unwrap_or_else(PoisonError::into_inner).pop();
            Lent(Some(kept.unwrap_or_else(|| Scratch::new(POOL_BYTES))), &self.scratches)
        };
        let work = |lent: &mut Lent<'_>, job| {
            work(lent.0.get_or_insert_with(|| Scratch::new(POOL_BYTES)), job)
        };
        let mut jobs = jobs.peekable();
        let Some(first) = jobs.next() else { return Ok(()) };
        if threads == 1 || jobs.peek().is_none() {
            let mut lent = borrow();
            return std::iter::once(first).chain(jobs).try_for_each(|job| {
                let result = work(&mut lent, job)?;
                consume(result)
            });
        }
        let width = Width { threads, window_bytes: WINDOW_BYTES };
        let jobs = std::iter::once(first).chain(jobs).map(|job| Ok((JOB_BYTES, job)));
        ordered::run(width, jobs, borrow, work, consume, tick)
    }
}

/// Cuts the next few megabytes of a group into jobs, and moves `at` behind them.
fn next_jobs<'p>(
    revlog: &Revlog,
    planned: &'p [PlannedDelta],
    at: &mut usize,
) -> Vec<&'p [PlannedDelta]> {
    let mut jobs = Vec::new();
    let (mut start, mut bytes, mut all) = (*at, 0, 0);
    while *at < planned.len() && all < BLOCK_BYTES as u64 {
        let len = planned[*at].guessed_len(revlog.index());
        *at += 1;
        bytes += len;
        all += len;
        if bytes >= JOB_BYTES {
            jobs.push(&planned[start..*at]);
            (start, bytes) = (*at, 0);
        }
    }
    if start < *at {
        jobs.push(&planned[start..*at]);
    }
    jobs
}

/// What the changesets of a job say, each with its number.
struct Said {
    bytes: Vec<u8>,
    manifests: Vec<(Node, u32)>,
    files: HashSet<Box<[u8]>>,
}

fn step_changesets(
    source: &Source,
    threads: usize,
    (planned, at): (&[PlannedDelta], &mut usize),
    (wanted, files): (&mut Wanted, &mut HashSet<Box<[u8]>>),
    out: &mut Vec<u8>,
    tick: impl FnMut() -> Result<()>,
) -> Result<()> {
    let revlog = &source.changelog;
    let writer = source.writer(revlog);
    let work = |scratch: &mut Scratch, job: &[PlannedDelta]| {
        let mut texts = Texts::new(revlog, scratch, 0);
        let mut said = Said { bytes: Vec::new(), manifests: Vec::new(), files: HashSet::new() };
        for planned in job {
            let Some(text) = writer.write(*planned, &mut texts, &mut said.bytes)?.text else {
                continue; // a changeset is always sent whole
            };
            let head = ChangesetHead::parse(&text);
            let head = head.map_err(|problem| revlog.corrupt(planned.rev, problem))?;
            said.manifests.push((head.manifest, planned.link));
            for file in head.files() {
                if !said.files.contains(file) {
                    said.files.insert(file.into());
                }
            }
            texts.recycle(text);
        }
        Ok(said)
    };
    let consume = |said: Said| {
        out.extend_from_slice(&said.bytes);
        for (node, number) in said.manifests {
            wanted.add(node, number);
        }
        files.extend(said.files);
        Ok(())
    };
    source.run(threads, next_jobs(revlog, planned, at).into_iter(), work, consume, tick)
}

impl Group {
    const fn is_done(&self) -> bool {
        self.at == self.planned.len()
    }

    /// Writes the next few megabytes.
    fn step(
        &mut self,
        source: &Source,
        threads: usize,
        out: &mut Vec<u8>,
        tick: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        self.step_manifests(source, threads, (None, &mut FirstListed::default()), out, tick)
    }

    /// Likewise, and notes which revisions of the files with these names are new in them.
    fn step_manifests(
        &mut self,
        source: &Source,
        threads: usize,
        (names, first): (Option<&Names>, &mut FirstListed),
        out: &mut Vec<u8>,
        tick: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let Self { revlog, planned, at } = self;
        let revlog = &*revlog;
        let writer = source.writer(revlog);
        let work = |scratch: &mut Scratch, job: &[PlannedDelta]| {
            let mut texts = Texts::new(revlog, scratch, KEPT_BYTES);
            let (mut bytes, mut listed) = (Vec::new(), Vec::<Listed>::new());
            for planned in job {
                let written = writer.write(*planned, &mut texts, &mut bytes)?;
                if let Some(names) = names {
                    let delta = &bytes[written.delta_at..];
                    manifests::list(revlog, *planned, delta, names, &mut texts, &mut listed)?;
                }
                if let Some(text) = written.text {
                    texts.recycle(text);
                }
            }
            Ok((bytes, listed))
        };
        let consume = |(bytes, listed): (Vec<u8>, Vec<Listed>)| {
            out.extend_from_slice(&bytes);
            for revision in listed {
                first.add(revision);
            }
            Ok(())
        };
        source.run(threads, next_jobs(revlog, planned, at).into_iter(), work, consume, tick)
    }
}

/// Writes the groups of the next files to `queue`.
fn step_files(
    source: &Source,
    threads: usize,
    (names, at, selection): (&[Box<[u8]>], &mut usize, &FileSelection),
    queue: &mut VecDeque<Piece>,
    tick: impl FnMut() -> Result<()>,
) -> Result<()> {
    let made = AtomicUsize::new(0);
    let jobs = std::iter::from_fn(|| {
        if *at == names.len() || made.load(Ordering::Relaxed) >= BLOCK_BYTES {
            return None;
        }
        let start = *at;
        *at = names.len().min(start + JOB_FILES);
        Some(start..*at)
    });
    let work = |scratch: &mut Scratch, job: std::ops::Range<usize>| {
        let (mut pieces, mut bytes) = (Vec::new(), Vec::new());
        for file in job {
            let (revlog, planned) = files::open(
                &source.store,
                (file, &names[file]),
                selection,
                &source.changesets,
                &source.common,
            )?;
            if planned.is_empty() {
                continue;
            }
            file_header(&names[file], &mut bytes);
            let start = bytes.len();
            let mut texts = Texts::new(&revlog, scratch, KEPT_BYTES);
            let mut at = 0;
            while at < planned.len() && bytes.len() - start < MOST_OF_FILE {
                let written =
                    source.file_writer(&revlog).write(planned[at], &mut texts, &mut bytes)?;
                if let Some(text) = written.text {
                    texts.recycle(text);
                }
                at += 1;
            }
            drop(texts);
            if at == planned.len() {
                bytes.extend_from_slice(&END);
            } else {
                made.store(BLOCK_BYTES, Ordering::Relaxed);
                pieces.push(Piece::Bytes(std::mem::take(&mut bytes)));
                pieces.push(Piece::Large(Box::new(Group { revlog, planned, at })));
            }
        }
        made.fetch_add(bytes.len(), Ordering::Relaxed);
        pieces.push(Piece::Bytes(bytes));
        Ok(pieces)
    };
    let consume = |pieces: Vec<Piece>| {
        queue.extend(pieces);
        Ok(())
    };
    source.run(threads, jobs, work, consume, tick)
}
