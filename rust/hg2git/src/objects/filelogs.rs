//! The filelogs of a conversion, cut into pieces and jobs.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;

use revlog::Node;

use crate::error::Result;
use crate::objects::blobs::{Load, Piece, plan};
use crate::read::files::{FileId, FileTable};
use crate::read::lookups::Lookup;
use crate::read::names::NameId;

/// Size of a job with small pieces, in bytes of text and in stored bytes.
const JOB_TEXT_BYTES: u64 = 2 << 20;
const JOB_STORED_BYTES: u64 = 1 << 20;

/// An iterator of jobs: filelogs in the order of their paths, large ones in pieces, small ones
/// together.
pub(crate) struct Filelogs<'a> {
    lookup: Lookup<'a>,
    /// Wanted revisions, grouped by path.
    wanted: Vec<(FileId, Node)>,
    /// The paths, last first, and the start of their revisions in `wanted`.
    paths: Vec<(NameId, usize)>,
    pieces: VecDeque<(Piece, Load)>,
}

impl<'a> Filelogs<'a> {
    /// Prepares the conversion of the revisions `new_files`.
    pub fn new(lookup: Lookup<'a>, files: &FileTable, new_files: &[FileId]) -> Self {
        // revisions are many and paths are few, so only paths are sorted
        let mut ends = vec![0; lookup.changes.paths().count()];
        for &file in new_files {
            ends[files.path(file).0 as usize] += 1;
        }
        let used = (0..).map(NameId).zip(&ends).filter(|(_, count)| **count > 0);
        let mut paths: Vec<_> = used.map(|(path, _)| (path, 0)).collect();
        paths.sort_unstable_by_key(|(path, _)| Reverse(lookup.changes.path(*path)));
        let mut end = 0;
        for (path, start) in &mut paths {
            *start = end;
            end += std::mem::replace(&mut ends[path.0 as usize], end);
        }
        let mut wanted = vec![(FileId(0), Node::NULL); new_files.len()];
        for &file in new_files {
            let end = &mut ends[files.path(file).0 as usize];
            wanted[*end] = (file, files.node(file));
            *end += 1;
        }
        Self { lookup, wanted, paths, pieces: VecDeque::new() }
    }

    /// Opens the next filelog and cuts it into pieces; `false` after the last.
    fn open_next(&mut self) -> Result<bool> {
        let Some((path, start)) = self.paths.pop() else { return Ok(false) };
        let group = self.wanted.split_off(start);
        let (revlog, revs) = self.lookup.find(path, &group)?;
        let mut revisions: Vec<_> =
            revs.into_iter().zip(group.iter().map(|(file, _)| *file)).collect();
        revisions.sort_unstable();
        let plan = Arc::new(plan(revlog.index(), &revisions));
        let revlog = Arc::new(revlog);
        for (range, load) in plan.jobs(revlog.index()) {
            let piece = Piece { revlog: Arc::clone(&revlog), plan: Arc::clone(&plan), range };
            self.pieces.push_back((piece, load));
        }
        Ok(true)
    }

    /// The pieces of the next job, and the approximate bytes of their blobs.
    fn job(&mut self) -> Result<(u64, Vec<Piece>)> {
        let mut job = Vec::new();
        let mut total = Load::default();
        while total.text_bytes < JOB_TEXT_BYTES && total.stored_bytes < JOB_STORED_BYTES {
            if let Some((piece, load)) = self.pieces.pop_front() {
                job.push(piece);
                total.text_bytes += load.text_bytes;
                total.stored_bytes += load.stored_bytes;
            } else if !self.open_next()? {
                break;
            }
        }
        Ok((total.stored_bytes, job))
    }
}

impl Iterator for Filelogs<'_> {
    type Item = Result<(u64, Vec<Piece>)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.job() {
            Ok((_, job)) if job.is_empty() => None,
            job => Some(job),
        }
    }
}
