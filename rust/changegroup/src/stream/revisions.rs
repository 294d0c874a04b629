//! Revisions of one revlog, written a few megabytes at a time by several threads.

use hashbrown::{HashMap, HashSet};
use revlog::{Node, Revlog, Scratch, Texts};

use super::source::{JOB_BYTES, Source};
use crate::changesets::ChangesetHead;
use crate::error::Result;
use crate::files::FirstListed;
use crate::manifests::{self, Listed, Wanted};
use crate::plan::PlannedDelta;

/// Least bytes of a call, unless the changegroup ends.
pub(super) const BLOCK_BYTES: usize = 4 << 20;
/// Cached texts of a thread, in bytes. Changesets are rarely deltas.
pub(super) const KEPT_BYTES: usize = 8 << 20;

/// Numbers of files.
pub(super) type NumberedNames = HashMap<Box<[u8]>, u32>;

/// Revisions of one revlog to be written.
#[derive(Debug)]
pub(super) struct RevlogGroup {
    pub revlog: Revlog,
    /// Whether the revlog is a filelog; otherwise the manifest.
    pub is_file: bool,
    pub planned: Vec<PlannedDelta>,
    pub at: usize,
}

impl RevlogGroup {
    pub const fn is_done(&self) -> bool {
        self.at == self.planned.len()
    }

    /// Writes the next few megabytes.
    pub fn step(
        &mut self,
        source: &Source,
        threads: usize,
        out: &mut Vec<u8>,
        tick: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        self.step_manifests(source, threads, (None, &mut FirstListed::default()), out, tick)
    }

    /// Writes the next few megabytes, and adds the new revisions of the files `names` to `first`.
    pub fn step_manifests(
        &mut self,
        source: &Source,
        threads: usize,
        (names, first): (Option<&NumberedNames>, &mut FirstListed),
        out: &mut Vec<u8>,
        tick: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let Self { revlog, is_file, planned, at } = self;
        let revlog = &*revlog;
        let writer = if *is_file { source.file_writer(revlog) } else { source.writer(revlog) };
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

/// Chunks of some changesets, with their manifests and files.
struct ChangesetBlock {
    bytes: Vec<u8>,
    manifests: Vec<(Node, u32)>,
    files: HashSet<Box<[u8]>>,
}

/// Writes the next few megabytes of changesets, and collects their manifests and files.
pub(super) fn step_changesets(
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
        let mut block =
            ChangesetBlock { bytes: Vec::new(), manifests: Vec::new(), files: HashSet::new() };
        for planned in job {
            let Some(text) = writer.write(*planned, &mut texts, &mut block.bytes)?.text else {
                continue; // changesets are always sent whole
            };
            let head = ChangesetHead::parse(&text);
            let head = head.map_err(|problem| revlog.corrupt(planned.rev, problem))?;
            block.manifests.push((head.manifest, planned.link));
            for file in head.files() {
                if !block.files.contains(file) {
                    block.files.insert(file.into());
                }
            }
            texts.recycle(text);
        }
        Ok(block)
    };
    let consume = |block: ChangesetBlock| {
        out.extend_from_slice(&block.bytes);
        for (node, number) in block.manifests {
            wanted.add(node, number);
        }
        files.extend(block.files);
        Ok(())
    };
    source.run(threads, next_jobs(revlog, planned, at).into_iter(), work, consume, tick)
}

/// Cuts the next few megabytes of a group into jobs, and advances `at`.
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
