//! The way back: each changeset of a changegroup becomes a commit again, which has to be the one that was
//! pushed.
//!
//! Two things are taken from the conversion: which commit each changeset should be, and the trees that git
//! has answered. The changegroup is read from its file, as Mercurial reads it. Contents come from the texts
//! in it, trees from what manifests change, commits from [`hg2git::write_commit`]. What is in the store
//! already is read from there, and its trees from git: an export has made them. On the way all nodes are
//! compared with their texts, and the files that a changeset lists with its manifest.
//!
//! A branch, a copy, or the parents of a file leave no trace in git, so they are not checked.

mod blobs;
mod chunks;
mod hashes;
#[cfg(test)]
mod tests;
mod treeedit;
mod trees;

use std::fs::File;
use std::io::{Read, Write};

use gitpack::{ObjectKind, Oid, object_header};
use hashbrown::{HashMap, HashSet};
use hg2git::write_commit;
use parallel::Budget;
use revlog::{Changeset, Node, Revlog};
use sha1lanes::{Message, digest_one};

use self::blobs::FileContents;
use self::chunks::{ChunkTexts, GroupFile};
use self::hashes::{LateHashes, MadeText};
use self::trees::Roots;
use crate::build::KnownTree;
use crate::error::{Error, Result};
use crate::progress::{ConversionStage, ConversionWatch};
use crate::read::trees::GitTrees;
use crate::request::ConversionRequest;

/// What is wrong with a changegroup, and the commit where that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The commit; `None` if it is not known.
    pub oid: Option<Oid>,
    /// What was found.
    pub what: String,
}

/// A fault, or why none can be looked for.
#[derive(Debug)]
pub(crate) enum Problem {
    Fault(Fault),
    Error(Error),
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<parallel::Error> for Problem {
    fn from(error: parallel::Error) -> Self {
        Self::Error(error.into())
    }
}

impl From<revlog::Error> for Problem {
    fn from(error: revlog::Error) -> Self {
        Self::Error(error.into())
    }
}

/// A result of a step of the check.
pub(crate) type Checked<T> = std::result::Result<T, Problem>;

/// A fault of no certain commit.
pub(crate) fn fault(what: impl Into<String>) -> Problem {
    Problem::Fault(Fault { oid: None, what: what.into() })
}

/// Converts the changegroup from `start` on in `file` back. It has to give `expected`, commits with their
/// changesets; answers the first fault.
///
/// # Errors
///
/// That a file, a pipe or the store cannot be read, and [`Error::Cancelled`].
pub(crate) fn verify(
    (file, start): (&File, u64),
    (request, manifest): (&ConversionRequest<'_>, &Revlog),
    known: &[KnownTree],
    trees: &GitTrees<impl Write, impl Read>,
    expected: &[(Oid, Node)],
    watch: ConversionWatch<'_>,
) -> Result<Option<Fault>> {
    let mut back = Back { request, manifest, known, expected, watch };
    match back.convert(file, start, trees) {
        Ok(()) => Ok(None),
        Err(Problem::Fault(fault)) => Ok(Some(fault)),
        Err(Problem::Error(error)) => Err(error),
    }
}

struct Back<'a> {
    request: &'a ConversionRequest<'a>,
    manifest: &'a Revlog,
    known: &'a [KnownTree],
    expected: &'a [(Oid, Node)],
    watch: ConversionWatch<'a>,
}

impl Back<'_> {
    fn tick(&self, done: usize) -> Result<()> {
        let stops = (self.watch)(ConversionStage::Verify, done as u64);
        if stops { Err(Error::Cancelled) } else { Ok(()) }
    }

    fn convert(
        &mut self,
        file: &File,
        start: u64,
        trees: &GitTrees<impl Write, impl Read>,
    ) -> Checked<()> {
        let quarter = self.request.memory_bytes / 4;
        let budget = Budget::new(quarter, self.request.dir);
        let mut group = GroupFile::new(file, start, self.request.version);
        let mut changesets = ChunkTexts::read(&mut group, &budget, quarter / 4)?;
        let nodes: HashSet<Node> = changesets.nodes().collect();
        let manifests = ChunkTexts::read(&mut group, &budget, quarter)?;
        group.end_of_manifests()?;
        let mut contents = FileContents::new(self.request.store, quarter);
        contents.read(&mut group, &nodes, (quarter, self.request.dir), || self.tick(0))?;
        group.check_end()?;
        parallel::trim(); // what the threads had
        manifests.check_links(&nodes)?;
        changesets.check_links(&nodes)?;
        if !changesets.nodes().eq(self.expected.iter().map(|(_, node)| *node)) {
            return Err(fault("other changesets than were made"));
        }
        let mut roots = Roots::new(self.manifest, manifests, contents, self.known);
        let mut commits: HashMap<Node, (Oid, Node)> = HashMap::new();
        let mut taken: HashSet<Oid> = HashSet::new();
        for KnownTree { oid, node, manifest, .. } in self.known {
            commits.insert(*node, (*oid, *manifest));
            taken.insert(*oid);
        }
        let mut hashes = LateHashes::new(quarter / 4);
        for (at, (oid, node)) in self.expected.iter().enumerate() {
            let made = changesets.get(at)?;
            let found = changeset(&made, &commits, &mut roots, trees);
            let mut is_full = hashes.add(*oid, made);
            if let Ok(Found { made: Some(manifest), .. }) = &found {
                is_full |= hashes.add(*oid, manifest.clone());
            }
            let done = found.and_then(|Found { oid: found, manifest, .. }| {
                if found != *oid || !taken.insert(found) {
                    return Err(fault(format!("it is exported as {found}")));
                }
                if commits.insert(*node, (found, manifest)).is_some() {
                    return Err(fault("its changeset is that of another commit"));
                }
                Ok(())
            });
            if is_full || done.is_err() || at + 1 == self.expected.len() {
                // what is wrong of the commits before is the cause, or comes first
                hashes.check().map_err(|other| blame(fault(other.what()), other.of))?;
            }
            done.map_err(|problem| blame(problem, *oid))?;
            self.tick(at)?;
        }
        Ok(())
    }
}

/// What a changeset is.
struct Found {
    /// Its commit.
    oid: Oid,
    /// Its manifest.
    manifest: Node,
    /// That manifest, if its node has to be looked at.
    made: Option<MadeText>,
}

fn changeset(
    MadeText { parents, text, .. }: &MadeText,
    commits: &HashMap<Node, (Oid, Node)>,
    roots: &mut Roots<'_>,
    trees: &GitTrees<impl Write, impl Read>,
) -> Checked<Found> {
    let changeset = Changeset::parse(text).map_err(|problem| fault(problem.to_string()))?;
    let there: Vec<Node> = parents.iter().copied().filter(|parent| *parent != Node::NULL).collect();
    let mut oids = Vec::with_capacity(2);
    let mut manifests = Vec::with_capacity(2);
    for parent in &there {
        let known = commits.get(parent);
        let (oid, manifest) =
            known.ok_or_else(|| fault(format!("parent {parent} is not known")))?;
        oids.push(*oid);
        manifests.push(*manifest);
    }
    let first = manifests.first().copied().unwrap_or(Node::NULL);
    let root = roots.of(changeset.manifest, first, trees)?;
    let is_merge = manifests.get(1).is_some_and(|second| *second != first);
    if let Some(changed) = root.changed.filter(|_| !is_merge) {
        let listed = changeset.files.split(|&byte| byte == b'\n').filter(|path| !path.is_empty());
        if !listed.eq(changed.iter().map(|path| &**path)) {
            return Err(fault("it lists other files than its manifest changes"));
        }
    }
    let mut content = Vec::with_capacity(text.len() + 256);
    write_commit(&mut content, root.tree, &oids, &changeset);
    let head = object_header(ObjectKind::Commit, content.len() as u64);
    let oid = Oid::from_bytes(digest_one(Message { head: &head, body: &content }));
    Ok(Found { oid, manifest: changeset.manifest, made: root.made })
}

/// The same problem, of this commit.
fn blame(problem: Problem, oid: Oid) -> Problem {
    match problem {
        Problem::Fault(Fault { what, .. }) => Problem::Fault(Fault { oid: Some(oid), what }),
        error @ Problem::Error(_) => error,
    }
}
