//! Groups of files: a job has several small ones, or a part of a large one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use revlog::{Scratch, Texts};

use super::revisions::{BLOCK_BYTES, KEPT_BYTES, RevlogGroup};
use super::source::Source;
use crate::chunk::{END, file_header};
use crate::error::Result;
use crate::files::{self, FileSelection};

/// Files of a job.
const JOB_FILES: usize = 8;
/// Bytes of one file that a job writes; the rest of the file becomes further jobs.
const MOST_OF_FILE: usize = 1 << 20;

/// Piece of the files' part.
#[derive(Debug)]
pub(super) enum GroupPiece {
    /// Written bytes.
    Bytes(Vec<u8>),
    /// Rest of the group of a large file.
    Large(Box<RevlogGroup>),
}

/// Writes the groups of the next files to `queue`.
pub(super) fn step_files(
    source: &Source,
    threads: usize,
    (names, at, selection): (&[Box<[u8]>], &mut usize, &FileSelection),
    queue: &mut VecDeque<GroupPiece>,
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
                pieces.push(GroupPiece::Bytes(std::mem::take(&mut bytes)));
                pieces.push(GroupPiece::Large(Box::new(RevlogGroup {
                    revlog,
                    is_file: true,
                    planned,
                    at,
                })));
            }
        }
        made.fetch_add(bytes.len(), Ordering::Relaxed);
        pieces.push(GroupPiece::Bytes(bytes));
        Ok(pieces)
    };
    let consume = |pieces: Vec<GroupPiece>| {
        queue.extend(pieces);
        Ok(())
    };
    source.run(threads, jobs, work, consume, tick)
}
