//! The metadata commit and the objects that only it needs.
//!
//! Notes, manifest commits and the metadata of files are made together with commits. The rest is
//! made as a whole on request: three notes trees, a commit for each of them, two commits that name
//! heads, and one commit with these five as parents. These objects have a pack of their own, since
//! the next metadata commit replaces them.
//!
//! The rules are git-cinnabar's (`src/store.rs` of 0.7.5); docs/formats/cinnabar.rst lists them.

use gitpack::tree::Mode;
use gitpack::{ObjectKind, Oid, PackWriter, object_header};
use parallel::MemoryPlan;
use parallel::hex::hex;
use parallel::ordered::{self, Width};
use revlog::Node;
use sha1lanes::{Message, digest_one};

use crate::error::{Error, Result};
use crate::metadata::notestree;
use crate::metadata::tables::NotesTables;
use crate::objects::compress::Compressor;
use crate::objects::object::Object;
use crate::objects::trees::Purpose;
use crate::out::packs::add;
use dialect::cinnabar::commit::push_tree_and_parents;

/// Author and committer lines of all metadata commits.
pub(crate) const IDENTS: &str =
    "author  <cinnabar@git> 0 +0000\ncommitter  <cinnabar@git> 0 +0000\n\n";
/// The metadata's features, for readers that know several forms.
const FORM: &[u8] = b"files-meta unified-manifests-v2";
/// Most bytes of objects that are compressed together.
const TOGETHER_BYTES: u64 = 4 << 20;
/// Bytes of objects compressed by one job. Fewer are not worth a thread.
const JOB_BYTES: u64 = 256 << 10;

/// Modes of the leaves of hg2git, git2hg and files-meta.
const LEAVES: [Mode; 3] = [Mode::GITLINK, Mode::FILE, Mode::FILE];

/// A head of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BranchHead {
    pub node: Node,
    pub branch: Vec<u8>,
    pub commit: Oid,
}

/// The content of the metadata.
pub(crate) struct Covered<'a> {
    /// The heads of branches, in the order of the changelog.
    pub heads: Vec<BranchHead>,
    /// The commits of head manifests, ascending.
    pub manifest_heads: Vec<Oid>,
    /// The entries of hg2git, git2hg and files-meta.
    pub leaves: [NotesTables<'a>; 3],
}

/// Adds the metadata commit of `covered` to `pack`, with the objects that only it needs, and
/// returns its oid.
///
/// # Errors
///
/// [`Error::Write`] if the pack cannot be written.
pub(crate) fn write(
    pack: &mut PackWriter,
    covered: Covered<'_>,
    memory_plan: &MemoryPlan,
    level: u8,
) -> Result<Oid> {
    let mut sink = Sink { pack, waiting: Vec::new(), waiting_bytes: 0, memory_plan, level };
    let Covered { heads, manifest_heads, leaves } = covered;
    let mut trees = [Oid::EMPTY_TREE; 3];
    for ((tree, leaves), leaf) in trees.iter_mut().zip(&leaves).zip(LEAVES) {
        *tree = notestree::build(leaves, leaf, &mut |object| sink.take(object))?;
    }
    let line = |BranchHead { node, branch, .. }: &BranchHead| {
        [&hex(node.as_bytes()), &b" "[..], branch].concat()
    };
    let lines = heads.iter().map(line).collect::<Vec<_>>().join(&b'\n');
    let commits: Vec<_> = heads.iter().map(|head| head.commit).collect();
    let parts =
        [commit(Oid::EMPTY_TREE, &commits, &lines), commit(Oid::EMPTY_TREE, &manifest_heads, b"")];
    let notes = trees.map(|tree| commit(tree, &[], b""));
    let parents: Vec<_> = parts.iter().chain(&notes).map(|part| part.oid).collect();
    let top = commit(Oid::EMPTY_TREE, &parents, FORM);
    let commit = top.oid;
    let empty = Object {
        kind: ObjectKind::Tree,
        oid: Oid::EMPTY_TREE,
        base: None,
        payload: Vec::new(),
        purpose: Purpose::Aside,
    };
    for object in std::iter::once(empty).chain(parts).chain(notes).chain([top]) {
        sink.take(object)?;
    }
    sink.flush()?;
    Ok(commit)
}

/// A commit with [`IDENTS`]. Repeated parents stay.
pub(crate) fn commit(tree: Oid, parents: &[Oid], message: &[u8]) -> Object {
    let mut payload = Vec::with_capacity(IDENTS.len() + 48 * (parents.len() + 1) + message.len());
    push_tree_and_parents(&mut payload, tree, parents.iter().copied());
    payload.extend_from_slice(IDENTS.as_bytes());
    payload.extend_from_slice(message);
    let head = object_header(ObjectKind::Commit, payload.len() as u64);
    let oid = Oid::from_bytes(digest_one(Message { head: &head, body: &payload }));
    Object { kind: ObjectKind::Commit, oid, base: None, payload, purpose: Purpose::Aside }
}

/// A sink for objects that compresses many at once, on many threads, and adds them to the pack.
struct Sink<'a> {
    pack: &'a mut PackWriter,
    waiting: Vec<Object>,
    waiting_bytes: u64,
    memory_plan: &'a MemoryPlan,
    level: u8,
}

impl Sink<'_> {
    fn take(&mut self, object: Object) -> Result<()> {
        self.waiting_bytes += object.bytes();
        self.waiting.push(object);
        if self.waiting_bytes >= TOGETHER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let threads =
            if self.waiting_bytes < 2 * JOB_BYTES { 1 } else { self.memory_plan.width.threads };
        let width = Width { threads, ..self.memory_plan.width };
        let mut waiting = std::mem::take(&mut self.waiting).into_iter().peekable();
        self.waiting_bytes = 0;
        let jobs = std::iter::from_fn(|| {
            let (mut job, mut bytes) = (Vec::new(), 0);
            while let Some(object) = waiting.next_if(|_| bytes < JOB_BYTES) {
                bytes += object.bytes();
                job.push(object);
            }
            (!job.is_empty()).then_some(Ok((bytes, job)))
        });
        let (pack, level, budget) = (&mut *self.pack, self.level, &self.memory_plan.budget);
        ordered::run(
            width,
            jobs,
            || Compressor::new(level, budget),
            |compressor, objects: Vec<Object>| {
                let mut streams = compressor.streams();
                for Object { payload, .. } in &objects {
                    compressor.deflate(payload, &mut streams)?;
                }
                Ok::<_, Error>((streams, objects))
            },
            |(streams, objects)| {
                for (deflated, object) in streams.iter().zip(objects) {
                    let Object { kind, oid, base, payload, .. } = object;
                    add(pack, kind, oid, base, payload.len(), deflated)?;
                }
                Ok(())
            },
            || Ok(()),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_those_of_git_cinnabar() {
        // a commit of the empty tree is the same as one of an empty notes tree
        let empty = commit(Oid::EMPTY_TREE, &[], b"");
        assert_eq!(empty.oid.to_string(), "06960cd44d1ded330aa2b0f99558e319960f11fc");
    }
}
