//! Conversion: new commits as a changegroup.
//!
//! Commits come parents first, and go through in windows: their trees are compared all at once, their
//! blobs are asked for all at once, and then each becomes a changeset, while the next window is read. What
//! is made goes to temporary files, and in the end to the changegroup, in its order. If any commit is
//! refused, nothing is written, and the rest is only judged.

mod judging;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod watching;
mod writing;

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::sync::Arc;

use changegroup::{GroupVersion, RevisionChunk, hunk_head};
use gitpack::Oid;
use hashbrown::HashMap;
use parallel::ordered::{self, Width};
use parallel::{Budget, Buffer, Directory};
use revlog::{Changeset, Node, RevlogKind, Store, node};

use crate::build::files::FileRevisions;
use crate::build::manifests::{Number, PushedManifests};
use crate::build::spool::Spool;
use crate::build::{Applied, CommitChanges};
use crate::convert::watching::Watching;
use crate::error::{Error, Result};
use crate::read::blobs::{BlobContents, GitBlobs, most_bytes};
use crate::read::commits::WindowCommit;
use crate::read::comparing::check_revisions;
use crate::read::prefetch::{Ahead, ReadWindow};
use crate::read::trees::GitTrees;
use crate::reason::Reason;
use crate::verify::{Fault, KnownTree, check};

/// Pipes of git processes.
#[derive(Debug)]
pub struct ConversionPipes<C, W, R> {
    /// What `git cat-file --batch` writes of the commits, parents before children.
    pub commits: C,
    /// To a `git cat-file --batch-command --buffer` for trees, and from it.
    pub trees: (W, R),
    /// To and from another one, for blobs.
    pub blobs: (W, R),
}

/// A parent of new commits that is a changeset already.
#[derive(Clone, Copy, Debug)]
pub struct KnownChangeset<'a> {
    /// The commit.
    pub oid: Oid,
    /// The changeset.
    pub node: Node,
    /// Its text.
    pub text: &'a [u8],
}

/// What is to be converted, and into what.
#[derive(Debug)]
pub struct ConversionRequest<'a> {
    /// The store that gets the changegroup.
    pub store: &'a Store,
    /// All parents of new commits that are no new commits.
    pub known: &'a [KnownChangeset<'a>],
    /// The format.
    pub version: GroupVersion,
    /// Where temporary files are made.
    pub dir: &'a Directory,
    /// Memory for texts and trees.
    pub memory_bytes: usize,
    /// The bytes of the longest file that is not refused, beside a bound of 2 GiB.
    pub most_file_bytes: u64,
    /// The named branch of all new commits, as its extra is stored; without one, each is on the
    /// branch of its first parent.
    pub branch: Option<&'a [u8]>,
}

/// A commit that does not come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The commit.
    pub oid: Oid,
    /// Why.
    pub reason: Reason,
    /// What of it is the reason: a header, an author, a path. Cut if it is long; may be empty.
    pub detail: Vec<u8>,
}

/// What became of new commits.
#[derive(Debug, Default)]
pub struct Conversion {
    /// Commits and their changesets, parents first; none if any is refused.
    pub changesets: Vec<(Oid, Node)>,
    /// Commits that do not come back.
    pub refused: Vec<Refusal>,
}

/// What a conversion does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ConversionStage {
    /// It converts commits.
    Convert = 0,
    /// It writes the changegroup.
    Write = 1,
    /// It converts changesets back.
    Check = 2,
}

/// Called with the stage and how many commits are done, from any thread; the conversion stops if it answers
/// true.
pub type ConversionWatch<'a> = &'a (dyn Fn(ConversionStage, u64) -> bool + Sync);

/// Converts the commits that git writes, and writes a changegroup to `out`.
///
/// # Errors
///
/// [`Error::Missing`] if git has not an object, [`Error::Store`] if the store cannot be read,
/// [`Error::Cancelled`], and what is wrong with pipes and files.
pub fn convert<W: Write + Send, R: Read + Send>(
    pipes: ConversionPipes<impl Read + Send, W, R>,
    request: &ConversionRequest<'_>,
    out: &File,
    watch: ConversionWatch<'_>,
) -> Result<Conversion> {
    let revlog = request.store.open(RevlogKind::Manifest)?;
    let eighth = request.memory_bytes / 8;
    let trees = GitTrees::new(pipes.trees.0, pipes.trees.1, eighth);
    let budget = Budget::new(eighth * 3, request.dir);
    let most_bytes = most_bytes(request.most_file_bytes);
    let blobs = GitBlobs::new(pipes.blobs, request.dir, Arc::clone(&budget), most_bytes);
    let watching = Watching::new(watch);
    let mut converter = ChangesetBuilder {
        trees: &trees,
        contents: None,
        budget,
        most_bytes,
        manifests: PushedManifests::new(&revlog, request.dir, eighth * 2)?,
        files: FileRevisions::new(request.version, request.dir, eighth * 2)?,
        changesets: Spool::new(request.dir, "changesets")?,
        version: request.version,
        branch: request.branch.map(Arc::from),
        known: HashMap::new(),
        made: Vec::new(),
        judged: HashMap::new(),
        refused: Vec::new(),
        memory_bytes: request.memory_bytes,
        watching: &watching,
    };
    let parents = converter.learn(request.known)?;
    let roots = parents.iter().map(|parent| (parent.oid, parent.tree)).collect();
    let memory = (request.memory_bytes, &watching);
    let mut ahead = Ahead::new(pipes.commits, &trees, blobs, roots, memory);
    let windows = std::iter::from_fn(|| ahead.next().transpose());
    ordered::run(
        // most windows take half of the memory at most, as they are counted
        Width { threads: 1, window_bytes: request.memory_bytes as u64 },
        windows.map(|read| read.map(|read| (read.bytes, read))),
        || (),
        |(), read| Ok(read),
        |read| converter.convert(read),
        || watching.tick(),
    )?;
    if !converter.refused.is_empty() {
        return Ok(Conversion { changesets: Vec::new(), refused: converter.refused });
    }
    if watch(ConversionStage::Write, converter.made.len() as u64) {
        return Err(Error::Cancelled);
    }
    let start = (&*out).stream_position().map_err(Error::Output)?;
    let changesets = converter.write(out)?;
    parallel::trim(); // the way back has the same memory
    let fault = check((out, start), (request, &revlog), &parents, &trees, &changesets, watch)?;
    Ok(match fault {
        None => Conversion { changesets, refused: Vec::new() },
        Some(Fault { oid, what }) => {
            let first = changesets.first().map_or(Oid::EMPTY_TREE, |(oid, _)| *oid);
            let (oid, reason) = (oid.unwrap_or(first), Reason::Differs);
            let refusal = Refusal { oid, reason, detail: what.into_bytes() };
            Conversion { changesets: Vec::new(), refused: vec![refusal] }
        }
    })
}

/// Commits and their changesets, parents first.
pub(crate) type ChangesetPairs = Vec<(Oid, Node)>;

/// What a child needs of a commit that is a changeset.
#[derive(Clone, Debug)]
pub(crate) struct Converted {
    pub node: Node,
    pub tree: Oid,
    pub manifest: Number,
    /// The value of its branch extra, as stored.
    pub branch: Option<Arc<[u8]>>,
}

/// A commit that was judged after one was refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged {
    /// A tree that comes back, from which its own differs.
    base: Option<Oid>,
    is_refused: bool,
}

/// One conversion.
pub(crate) struct ChangesetBuilder<'a, W, R> {
    pub trees: &'a GitTrees<W, R>,
    /// Those of the commits that are converted.
    pub contents: Option<BlobContents>,
    pub budget: Arc<Budget>,
    /// The bytes that the longest content may have.
    pub most_bytes: u64,
    pub manifests: PushedManifests<'a>,
    pub files: FileRevisions,
    pub changesets: Spool,
    pub version: GroupVersion,
    pub branch: Option<Arc<[u8]>>,
    pub known: HashMap<Oid, Converted>,
    pub made: ChangesetPairs,
    pub judged: HashMap<Oid, Judged>,
    pub refused: Vec<Refusal>,
    pub memory_bytes: usize,
    pub watching: &'a Watching<'a>,
}

impl<W: Write, R: Read> ChangesetBuilder<'_, W, R> {
    /// An empty buffer within the budget.
    pub fn room(&self) -> Buffer {
        Buffer::new(Some(Arc::clone(&self.budget)))
    }

    /// The next content that was read ahead; `None` if it is too long.
    pub fn next_content(&mut self, oid: Oid) -> Result<Option<Buffer>> {
        let nothing = || Error::Wrong(format!("blob {oid} was not asked for"));
        self.contents.as_mut().ok_or_else(nothing)?.next(oid)
    }

    /// Notes the changesets that there are.
    fn learn(&mut self, known: &[KnownChangeset<'_>]) -> Result<Vec<KnownTree>> {
        let oids: Vec<Oid> = known.iter().map(|changeset| changeset.oid).collect();
        let mut roots = Vec::with_capacity(oids.len());
        self.trees.read_others(&oids, |_, _, content| {
            roots.push(crate::judge::commit::judge(content).tree);
            Ok(())
        })?;
        let mut learned = Vec::with_capacity(known.len());
        for (KnownChangeset { oid, node, text }, tree) in known.iter().zip(roots) {
            let wrong = |what: &dyn std::fmt::Display| Error::Wrong(format!("{node}: {what}"));
            let changeset = Changeset::parse(text).map_err(|problem| wrong(&problem))?;
            let branch = changeset.extras().find(|(key, _)| *key == b"branch");
            let tree = tree.ok_or_else(|| wrong(&"its commit has no tree"))?;
            let manifest = changeset.manifest;
            learned.push(KnownTree { oid: *oid, node: *node, manifest, tree });
            let converted = Converted {
                node: *node,
                tree,
                manifest: self.manifests.stored(changeset.manifest)?,
                branch: branch.map(|(_, value)| Arc::from(value)),
            };
            self.known.insert(*oid, converted);
        }
        Ok(learned)
    }

    /// Converts the commits of a window, or judges them.
    fn convert(&mut self, read: ReadWindow) -> Result<()> {
        let ReadWindow { commits, changes, .. } = read;
        let Some((changes, contents)) = changes.filter(|_| self.refused.is_empty()) else {
            return self.judge(&commits);
        };
        self.contents = Some(contents);
        for (at, (commit, changes)) in commits.iter().zip(changes).enumerate() {
            if let Some(path) = self.convert_one(commit, &changes)? {
                let detail = path[..path.len().min(crate::judge::history::MOST_DETAIL)].to_vec();
                let refusal = Refusal { oid: commit.oid, reason: Reason::FileSize, detail };
                return self.judge_after(refusal, commit, &commits[at + 1..]);
            }
            check_revisions(commit, self.files.bytes(), self.memory_bytes)?;
            self.watching.advance();
            self.watching.tick()?;
        }
        Ok(())
    }

    /// Makes the changeset of a commit; or answers a path whose content is too long.
    fn convert_one(
        &mut self,
        commit: &WindowCommit,
        changes: &CommitChanges,
    ) -> Result<Option<Box<[u8]>>> {
        let parents: Vec<Converted> =
            commit.parents.iter().filter_map(|oid| self.known.get(oid)).cloned().collect();
        let tree = commit.tree_or_empty();
        let made = match self.apply(tree, &parents, changes)? {
            Applied::TooLong(path) => return Ok(Some(path)),
            Applied::Made(made) => made,
        };
        let inherited = || parents.first().and_then(|parent| parent.branch.clone());
        let branch = self.branch.clone().or_else(inherited);
        let files: Vec<&[u8]> = made.files.iter().map(|path| &**path).collect();
        let node_of = |at: usize| parents.get(at).map_or(Node::NULL, |parent| parent.node);
        let pair = [node_of(0), node_of(1)];
        let text = commit
            .parts()
            .and_then(|parts| {
                parts.changeset(self.manifests.node(made.manifest), branch.as_deref(), &files)
            })
            .ok_or_else(|| Error::Wrong(format!("commit {} has no date", commit.oid)))?;
        let node = node::node_of(pair[0], pair[1], &text);
        let chunk = RevisionChunk { node, parents: pair, base: Node::NULL, link: node, flags: 0 };
        let mut bytes = Vec::with_capacity(text.len() + 200);
        chunk.push_head(self.version, text.len() + 12, &mut bytes)?;
        hunk_head(0, 0, text.len(), &mut bytes);
        bytes.extend_from_slice(&text);
        self.changesets.push(&bytes)?;
        self.made.push((commit.oid, node));
        let converted = Converted { node, tree, manifest: made.manifest, branch };
        self.known.insert(commit.oid, converted);
        Ok(None)
    }
}
