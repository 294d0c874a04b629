//! Changegroup made piece by piece.
//!
//! Each call of [`Changegroup::read`] works on a few megabytes with several threads, and joins
//! them. In memory are these megabytes, the indexes of changelog and manifest, the names of the
//! files, and a number for each revision of the current group. Each stage passes its results to the
//! next one.

mod filegroups;
mod revisions;
mod source;

use std::collections::VecDeque;
use std::sync::Mutex;

use hashbrown::HashSet;
use parallel::trim;
use revlog::{MappedIndexes, Node, Revlog, RevlogKind, Store};

use self::filegroups::{GroupPiece, step_files};
use self::revisions::{BLOCK_BYTES, NumberedNames, RevlogGroup, step_changesets};
use self::source::Source;
use crate::chunk::END;
use crate::error::{Error, Result};
use crate::files::{FileSelection, FirstListed};
use crate::manifests::Wanted;
use crate::outgoing::{GroupVersion, Outgoing, Part, Reached};
use crate::plan::{self, PlannedDelta};
use crate::revset::RevSet;

/// Thread limit: more would wait for the compressor.
const MOST_THREADS: usize = 8;
/// Number of revisions from which on freed memory is returned to the system.
const MANY_REVISIONS: usize = 100_000;
/// Blocks between two returns of memory.
const BLOCKS_LEFT_OVER: usize = 8;
/// Receives the progress; returns true to stop.
pub type WatchFn<'a> = dyn Fn(Reached) -> bool + Sync + 'a;

/// Changegroup that is being written.
#[derive(Debug)]
pub struct Changegroup {
    source: Source,
    trusts_links: bool,
    threads: usize,
    stage: Stage,
    /// Pieces to be written before the next step of the stage.
    queue: VecDeque<GroupPiece>,
    position: Reached,
    /// Blocks made.
    blocks: usize,
}

/// Next part of the changegroup.
#[derive(Debug)]
enum Stage {
    Changesets { planned: Vec<PlannedDelta>, at: usize, wanted: Wanted, files: HashSet<Box<[u8]>> },
    Manifests { group: Box<RevlogGroup>, names: NumberedNames, listed: FirstListed },
    Files { names: Vec<Box<[u8]>>, at: usize, selection: FileSelection },
    End,
}

impl Changegroup {
    /// Reads the changelog's index, and compares it with the request.
    ///
    /// # Errors
    ///
    /// [`Error::Moved`] if the store lacks changesets of the request; [`Error::Store`] if its
    /// changelog cannot be read.
    pub fn open(store: Store, request: Outgoing) -> Result<Self> {
        let Outgoing { version, changesets: expected, common, trusts_links, threads } = request;
        let mapped = store;
        let store = mapped.clone().with_mapped(MappedIndexes::default());
        // a mapped index may be older than a strip
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

    /// Progress.
    #[must_use]
    pub const fn position(&self) -> Reached {
        self.position
    }

    /// Appends the next few megabytes to `out`; nothing at the end.
    ///
    /// # Errors
    ///
    /// [`Error::Store`], [`Error::Moved`] if changesets were removed meanwhile,
    /// [`Error::Cancelled`] if `watch` returns true. The bytes read before are not a changegroup
    /// then.
    pub fn read(&mut self, out: &mut Vec<u8>, watch: &WatchFn<'_>) -> Result<()> {
        let most = out.len() + BLOCK_BYTES;
        while out.len() < most {
            match self.step(out, watch) {
                Ok(true) => {}
                Ok(false) => break,
                Err(problem @ Error::Cancelled) => return Err(problem),
                // a strip in another process looks like damage
                Err(problem) => {
                    let known = self.check_unmoved().and_then(|()| self.check_used());
                    return Err(known.err().unwrap_or(problem));
                }
            }
        }
        self.blocks += 1;
        self.release();
        Ok(())
    }

    /// Releases touched pages of mapped indexes, and sometimes freed memory of threads.
    fn release(&self) {
        let changelog = self.source.changelog.index();
        changelog.let_go();
        if let Stage::Manifests { group, .. } = &self.stage {
            group.revlog.index().let_go();
        }
        if self.blocks.is_multiple_of(BLOCKS_LEFT_OVER) {
            release_memory(changelog.len() as usize);
        }
    }

    /// Checks the used entries of mapped indexes.
    fn check_used(&self) -> Result<()> {
        self.source.changelog.check_used()?;
        if let Stage::Manifests { group, .. } = &self.stage {
            group.revlog.check_used()?;
        }
        Ok(())
    }

    /// Checks that the store still has the changesets.
    fn check_unmoved(&self) -> Result<()> {
        let Source { store, changelog, changesets, .. } = &self.source;
        let before = changelog.index();
        let read =
            changesets.iter().filter_map(|number| Some((number, before.node(before.rev(number)?))));
        if store.has_changesets(read)? { Ok(()) } else { Err(Error::Moved) }
    }

    /// Writes the next piece; false at the end.
    fn step(&mut self, out: &mut Vec<u8>, watch: &WatchFn<'_>) -> Result<bool> {
        let position = self.position;
        let tick = || if watch(position) { Err(Error::Cancelled) } else { Ok(()) };
        tick()?;
        let Self { source, threads, .. } = self;
        match self.queue.pop_front() {
            None => {}
            Some(GroupPiece::Bytes(bytes)) => {
                out.extend_from_slice(&bytes);
                return Ok(true);
            }
            Some(GroupPiece::Large(mut group)) => {
                group.step(source, *threads, out, tick)?;
                if group.is_done() {
                    out.extend_from_slice(&END);
                } else {
                    self.queue.push_front(GroupPiece::Large(group));
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
                        out.extend_from_slice(&END); // of directory manifests
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
                    release_memory(self.source.changelog.index().len() as usize);
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
        release_memory(changesets);
        let wanted = wanted.sorted();
        let mut revlog = self.source.mapped.open(RevlogKind::Manifest)?;
        let found = match wanted.find(&revlog) {
            // a mapped index may be older than the last changesets
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
        let group = Box::new(RevlogGroup { revlog, is_file: false, planned, at: 0 });
        self.stage = Stage::Manifests { group, names, listed: FirstListed::default() };
        Ok(())
    }

    fn begin_files(&mut self) {
        let stage = std::mem::replace(&mut self.stage, Stage::End);
        let Stage::Manifests { names, listed, group } = stage else { return };
        let manifests = group.planned.len();
        drop(group);
        release_memory(manifests);
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

/// Returns freed memory to the system, after large parts.
fn release_memory(revisions: usize) {
    if revisions >= MANY_REVISIONS {
        trim();
    }
}

/// Checks that the changelog has these changesets.
fn check_nodes(changelog: &Revlog, mut expected: impl Iterator<Item = (u32, Node)>) -> Result<()> {
    let index = changelog.index();
    let has =
        |(number, node): (u32, Node)| index.rev(number).is_some_and(|rev| index.node(rev) == node);
    if expected.all(has) { Ok(()) } else { Err(Error::Moved) }
}
