//! Blobs of file revisions, in a changegroup and in the store.
//!
//! Several threads make and hash the texts of a changegroup, some files at a time.

use std::sync::Arc;

use gitpack::{ObjectKind, Oid, object_header};
use hashbrown::{HashMap, HashSet};
use parallel::ordered::{self, Width};
use parallel::{Budget, Directory};
use revlog::{Node, Parents, RevlogKind, Scratch, Store, Texts, copy_source, node, split_metadata};
use sha1lanes::{Message, digest_one};

use crate::error::Result;
use crate::verify::chunks::{ChunkTexts, GroupFile};
use crate::verify::fault::{VerifyResult, fault};
use crate::verify::hashes::{HashBatch, TextMismatch};

/// Least memory of a thread.
const LEAST_BYTES_PER_THREAD: usize = 16 << 20;
/// Thread limit: a server has other work to do meanwhile.
const MOST_THREADS: usize = 4;
/// Limits of a job for a thread: bytes of chunks, and revisions.
const JOB_BYTES: u64 = 1 << 20;
const JOB_REVISIONS: usize = 512;

/// Blobs by path and node.
#[derive(Debug)]
pub(crate) struct FileBlobs<'a> {
    store: &'a Store,
    scratch: Scratch,
    blobs: HashMap<Arc<[u8]>, HashMap<Node, Oid>>,
    /// Sources of copies, if a revision records one.
    copies: HashMap<(Arc<[u8]>, Node), Vec<u8>>,
}

/// File of a changegroup.
type GroupOfFile<'a> = (Arc<[u8]>, ChunkTexts<'a>);
/// Path, node and blob of a revision.
type FoundBlob = (Arc<[u8]>, Node, Oid);
/// Path, node and source of a copy.
type FoundCopy = (Arc<[u8]>, Node, Vec<u8>);

impl<'a> FileBlobs<'a> {
    /// Starts empty.
    pub fn new(store: &'a Store, pool_bytes: usize) -> Self {
        let scratch = Scratch::new(pool_bytes);
        Self { store, scratch, blobs: HashMap::new(), copies: HashMap::new() }
    }

    /// Adds all files of a changegroup, which have to be linked to `changesets`. Calls `tick`
    /// regularly.
    pub fn read(
        &mut self,
        group: &mut GroupFile<'_>,
        changesets: &HashSet<Node>,
        (memory_bytes, dir): (usize, &Directory),
        mut tick: impl FnMut() -> Result<()>,
    ) -> VerifyResult<()> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.min(memory_bytes / LEAST_BYTES_PER_THREAD).clamp(1, MOST_THREADS);
        let thread_bytes = memory_bytes / 2 / threads;
        let budget = Budget::new(memory_bytes, dir);
        let width = Width { threads, window_bytes: memory_bytes as u64 };
        let mut paths = HashSet::new();
        let jobs = std::iter::from_fn(|| {
            next_job(group, changesets, &mut paths, (&budget, thread_bytes)).transpose()
        });
        let Self { blobs, copies, .. } = self;
        let consume = |(found, copied): (Vec<FoundBlob>, Vec<FoundCopy>)| {
            for (path, node, oid) in found {
                blobs.entry(path).or_default().insert(node, oid);
            }
            copies.extend(copied.into_iter().map(|(path, node, source)| ((path, node), source)));
            Ok(())
        };
        ordered::run(
            width,
            jobs,
            || (),
            |(), files| blobs_of(files, thread_bytes / 2),
            consume,
            || Ok(tick()?),
        )
    }

    /// Blob of a revision of `path`.
    pub fn blob(&mut self, path: &[u8], node: Node) -> VerifyResult<Oid> {
        if let Some(oid) = self.blobs.get(path).and_then(|blobs| blobs.get(&node)) {
            return Ok(*oid);
        }
        let revlog = self.store.open(RevlogKind::Filelog(path))?;
        let index = revlog.index();
        let found = index.revs().rev().find(|rev| index.node(*rev) == node);
        let rev = found.ok_or_else(|| {
            fault(format!("there is no revision {node} of {}", path.escape_ascii()))
        })?;
        let text = Texts::new(&revlog, &mut self.scratch, 0).get(rev)?.text;
        let Parents(p1, p2) = index.parents(rev);
        if node::node_of(index.node_or_null(p1), index.node_or_null(p2), &text) != node {
            let message = "its text does not match its node";
            return Err(revlog.unsupported(rev, message).into());
        }
        let content = split_metadata(&text).content;
        let head = object_header(ObjectKind::Blob, content.len() as u64);
        let oid = Oid::from_bytes(digest_one(Message { head: &head, body: content }));
        self.blobs.entry(path.into()).or_default().insert(node, oid);
        if let Some(source) = copied(&text, index.node_or_null(p1)) {
            self.copies.insert((path.into(), node), source);
        }
        self.scratch.recycle(text);
        Ok(oid)
    }

    /// Source of a copy that a revision of `path` records.
    pub fn copy(&mut self, path: &[u8], node: Node) -> VerifyResult<Option<Vec<u8>>> {
        self.blob(path, node)?;
        Ok(self.copies.get(&(Arc::from(path), node)).cloned())
    }
}

/// Source of a copy that a revision with this text and first parent records.
fn copied(text: &[u8], p1: Node) -> Option<Vec<u8>> {
    let metadata = split_metadata(text).metadata.filter(|_| p1 == Node::NULL)?;
    copy_source(metadata).map(<[u8]>::to_vec)
}

/// Finds the chunks of the next files, and returns their bytes; `None` after the last.
fn next_job<'a>(
    group: &mut GroupFile<'a>,
    changesets: &HashSet<Node>,
    paths: &mut HashSet<Arc<[u8]>>,
    (budget, kept_bytes): (&Arc<Budget>, usize),
) -> VerifyResult<Option<(u64, Vec<GroupOfFile<'a>>)>> {
    let (mut files, mut bytes, mut count) = (Vec::new(), 0, 0);
    while bytes < JOB_BYTES && count < JOB_REVISIONS {
        let Some(path) = group.file_name()? else { break };
        let path: Arc<[u8]> = path.into();
        if !paths.insert(Arc::clone(&path)) {
            return Err(fault(format!("two groups of {}", path.escape_ascii())));
        }
        let texts = ChunkTexts::read(group, budget, kept_bytes)?;
        texts.check_links(changesets)?;
        if texts.len() == 0 {
            return Err(fault(format!("no revisions of {}", path.escape_ascii())));
        }
        (bytes, count) = (bytes + texts.bytes(), count + texts.len());
        files.push((path, texts));
    }
    Ok((!files.is_empty()).then_some((bytes, files)))
}

/// Blobs of files. Texts of about `most_bytes` are hashed at a time.
fn blobs_of(
    files: Vec<GroupOfFile<'_>>,
    most_bytes: usize,
) -> VerifyResult<(Vec<FoundBlob>, Vec<FoundCopy>)> {
    let wrong = |other: TextMismatch<Arc<[u8]>>| fault(other.message());
    let (mut found, mut hashes) = (Vec::new(), HashBatch::new(most_bytes));
    let mut copies = Vec::new();
    for (path, mut texts) in files {
        for number in 0..texts.len() {
            let made = texts.get(number)?;
            if let Some(source) = copied(&made.text, made.parents[0]) {
                copies.push((Arc::clone(&path), made.node, source));
            }
            if hashes.add(Arc::clone(&path), made) {
                found.extend(hashes.check_files().map_err(wrong)?);
            }
        }
    }
    found.extend(hashes.check_files().map_err(wrong)?);
    Ok((found, copies))
}
