//! Round trip: each changeset of a changegroup is exported again, and has to give the pushed
//! commit.
//!
//! The changegroup is read from its file, as Mercurial reads it. Contents come from file texts,
//! trees from changes of manifests, commits from the dialect. Revisions outside the changegroup are
//! read from the store, and their trees from git, since an export has made them. All nodes are
//! compared with their texts, and the lists of files in changesets with the manifests. From the
//! conversion come only the expected commits and the cache of git's trees.
//!
//! Branches, copies, and the parents of files leave no trace in git, so they are not verified.

mod blobs;
pub(crate) mod chunks;
pub(crate) mod fault;
mod hashes;
#[cfg(test)]
mod tests;
mod trees;

use std::fs::File;
use std::io::{Read, Write};

use dialect::{
    ChangesetHistory, CommitInput, CopySource, Dialect, ParentCommit, Unreadable,
    exact::{self, Octopus, tree::TreeValue},
};
use gitpack::{ObjectKind, Oid, object_header};
use hashbrown::{HashMap, HashSet};
use parallel::Budget;
use revlog::{Changeset, Node, Revlog};
use sha1lanes::{Message, digest_one};

use self::blobs::FileBlobs;
use self::chunks::{ChunkTexts, GroupFile};
pub(crate) use self::fault::Fault;
use self::fault::{Problem, VerifyResult, fault};
use self::hashes::{HashesBeside, RevisionText, UnverifiedText};
use self::trees::ManifestTrees;
use crate::build::commits::NO_PART;
use crate::build::{KnownParent, LINK};
use crate::error::{Error, Result};
use crate::progress::{ConversionStage, ConversionWatch};
use crate::read::trees::GitTrees;
use crate::request::ConversionRequest;

/// Exports the changesets of the changegroup from `start` on in `file`. They have to give the
/// commits of `expected`. Returns the first fault.
///
/// # Errors
///
/// Errors of files, pipes and the store, and [`Error::Cancelled`].
pub(crate) fn verify<D: Dialect>(
    (file, start): (&File, u64),
    (request, manifest): (&ConversionRequest<'_>, &Revlog),
    known: &[KnownParent],
    trees: &GitTrees<impl Write, impl Read>,
    expected: &[(Oid, Node)],
    watch: ConversionWatch<'_>,
) -> Result<Option<Fault>> {
    let dialect = D::default();
    let mut back = RoundTrip { dialect, request, manifest, known, expected, watch };
    match back.convert(file, start, trees) {
        Ok(()) => Ok(None),
        Err(Problem::Fault(fault)) => Ok(Some(fault)),
        Err(Problem::Error(error)) => Err(error),
    }
}

struct RoundTrip<'a, D> {
    dialect: D,
    request: &'a ConversionRequest<'a>,
    manifest: &'a Revlog,
    known: &'a [KnownParent],
    expected: &'a [(Oid, Node)],
    watch: ConversionWatch<'a>,
}

impl<D: Dialect> RoundTrip<'_, D> {
    fn tick(&self, done: usize) -> Result<()> {
        let stops = (self.watch)(ConversionStage::Verify, done as u64);
        if stops { Err(Error::Cancelled) } else { Ok(()) }
    }

    fn convert(
        &mut self,
        file: &File,
        start: u64,
        trees: &GitTrees<impl Write, impl Read>,
    ) -> VerifyResult<()> {
        let quarter = self.request.memory_bytes / 4;
        let budget = Budget::new(quarter, self.request.dir);
        let mut group = GroupFile::new(file, start, self.request.version);
        let mut changesets = ChunkTexts::read(&mut group, &budget, quarter / 8)?;
        let nodes: HashSet<Node> = changesets.nodes().collect();
        let manifests = ChunkTexts::read(&mut group, &budget, 0)?;
        group.end_of_manifests()?;
        let mut contents = FileBlobs::new(self.request.store, quarter);
        contents.read(&mut group, &nodes, (quarter, self.request.dir), || self.tick(0))?;
        group.check_end()?;
        parallel::trim(); // memory of the threads
        manifests.check_links(&nodes)?;
        changesets.check_links(&nodes)?;
        if !changesets.nodes().eq(self.expected.iter().map(|(_, node)| *node)) {
            return Err(fault("other changesets than were made"));
        }
        let memory = (quarter / 2, self.request.dir);
        let mut roots =
            ManifestTrees::new(self.manifest, (manifests, contents), memory, self.known)?;
        let mut commits = CommitsByNode::new();
        let mut taken: HashSet<Oid> = HashSet::new();
        for KnownParent { oid, node, manifest, tree, is_part } in self.known {
            commits.insert(
                *node,
                Shown {
                    commit: Some(*oid),
                    manifest: *manifest,
                    tree: *tree,
                    is_part: *is_part,
                    link: None,
                },
            );
            taken.insert(*oid);
        }
        let mut hashes: HashesBeside<Oid, RevisionText> = HashesBeside::new(quarter / 8);
        for (at, (oid, node)) in self.expected.iter().enumerate() {
            let made = changesets.get(at)?;
            let known = (&commits, &mut roots);
            let is_exact = self.request.is_exact;
            let found = changeset(&mut self.dialect, (*node, is_exact), &made, known, trees);
            let UnverifiedText { node: own, parents, text } = made;
            let text = RevisionText::Changeset(text);
            let mut is_full = hashes.add(*oid, UnverifiedText { node: own, parents, text });
            let mut takes_too_much = false;
            let done = found.and_then(|Found { shown, made }| {
                if let Some(manifest) = made {
                    is_full |= hashes.add(*oid, manifest);
                    takes_too_much = roots.is_full();
                }
                match shown.commit {
                    Some(found) if *oid != LINK && (found != *oid || !taken.insert(found)) => {
                        return Err(fault(format!("it is exported as {found}")));
                    }
                    None if *oid != LINK => return Err(fault("it has no commit")),
                    _ => {}
                }
                if commits.insert(*node, shown).is_some() {
                    return Err(fault("its changeset is that of another commit"));
                }
                Ok(())
            });
            let checked = if done.is_err() || takes_too_much || at + 1 == self.expected.len() {
                // a wrong text before this commit is the cause, or comes first
                hashes.check()
            } else if is_full {
                hashes.pass_on()
            } else {
                Ok(())
            };
            checked.map_err(|other| blame(fault(other.message()), other.of))?;
            done.map_err(|problem| blame(problem, *oid))?;
            self.tick(at)?;
        }
        Ok(())
    }
}

/// Commits and manifests of changesets, by their nodes.
type CommitsByNode = HashMap<Node, Shown>;

/// Commit of a changeset, as its children need it.
struct Shown {
    commit: Option<Oid>,
    manifest: Node,
    tree: Oid,
    /// Whether it is a part of an octopus.
    is_part: bool,
    /// More, if it merges parents for a later changeset.
    link: Option<Box<Linked>>,
}

/// Changeset between the parents of a commit.
struct Linked {
    text: Vec<u8>,
    /// Its parents.
    pair: Vec<ParentCommit>,
    /// The parents of the commit that it stands for.
    parents: Vec<ParentCommit>,
}

/// Commit of a changeset.
struct Found {
    shown: Shown,
    /// The manifest, if its node is not verified yet.
    made: Option<UnverifiedText<RevisionText>>,
}

fn changeset<D: Dialect>(
    dialect: &mut D,
    (node, is_exact): (Node, bool),
    UnverifiedText { parents, text, .. }: &UnverifiedText,
    (commits, roots): (&CommitsByNode, &mut ManifestTrees<'_>),
    trees: &GitTrees<impl Write, impl Read>,
) -> VerifyResult<Found> {
    let changeset = Changeset::parse(text).map_err(|problem| fault(problem.to_string()))?;
    let there: Vec<Node> = parents.iter().copied().filter(|parent| *parent != Node::NULL).collect();
    let mut known_parents = Vec::with_capacity(2);
    let mut manifests = Vec::with_capacity(2);
    let mut before = None;
    let mut in_git: Vec<ParentCommit> = Vec::with_capacity(2);
    for parent in &there {
        let known = commits.get(parent);
        let Shown { commit, manifest, tree, link, .. } =
            known.ok_or_else(|| fault(format!("parent {parent} is not known")))?;
        let own = ParentCommit { node: *parent, commit: *commit };
        known_parents.push(own);
        manifests.push(*manifest);
        before.get_or_insert(*tree);
        in_git.extend_from_slice(match link {
            Some(link) => &link.parents,
            None => std::slice::from_ref(&own),
        });
    }
    let first = manifests.first().copied().unwrap_or(Node::NULL);
    let root = if is_exact {
        let value = TreeValue::of(&changeset);
        roots.exact(changeset.manifest, (first, before), (value.as_ref(), D::hides()), trees)?
    } else {
        roots.of(changeset.manifest, first, trees)?
    };
    let is_merge = manifests.get(1).is_some_and(|second| *second != first);
    if let Some(changed) = root.changed.filter(|_| !is_merge) {
        let listed = changeset.files.split(|&byte| byte == b'\n').filter(|path| !path.is_empty());
        // Mercurial's commit lists a file with a new revision that its first parent has, too
        let mut listed = listed.filter(|path| {
            D::IMPORT.is_none() || changed.binary_search_by(|it| (**it).cmp(path)).is_ok()
        });
        if !listed.by_ref().eq(changed.iter().map(|path| &**path)) {
            return Err(fault("it lists other files than its manifest changes"));
        }
    }
    let oid_of = |content: &[u8]| {
        let head = object_header(ObjectKind::Commit, content.len() as u64);
        Oid::from_bytes(digest_one(Message { head: &head, body: content }))
    };
    let oids: Vec<Oid> = in_git.iter().filter_map(|parent| parent.commit).collect();
    let named = exact::commit(&changeset, (root.tree, &oids), D::stands_for, oid_of);
    let part = Octopus::of(&changeset);
    let is_link = part == Some(Octopus::Link);
    let commit = if let Some((oid, _)) = named {
        Some(oid)
    } else {
        let mut content = Vec::with_capacity(text.len() + 256);
        let input =
            CommitInput { node, changeset: &changeset, tree: root.tree, parents: &known_parents };
        let copies = if D::READS_COPIES && !is_link {
            let listed: Vec<&[u8]> =
                changeset.files.split(|&byte| byte == b'\n').filter(|it| !it.is_empty()).collect();
            roots.copies(changeset.manifest, &manifests, &listed)?
        } else {
            Vec::new()
        };
        let history = GroupHistory { copies, commits };
        match dialect.write_commit(&input, &history, &mut content) {
            Ok(has_commit) => has_commit.then(|| oid_of(&content)),
            Err(Unreadable) => return Err(fault("it merges a merge of several parents")),
        }
    };
    let (manifest, tree, is_part) = (changeset.manifest, root.tree, part.is_some());
    let link = is_link
        .then(|| Box::new(Linked { text: text.to_vec(), pair: known_parents, parents: in_git }));
    Ok(Found { shown: Shown { commit, manifest, tree, is_part, link }, made: root.made })
}

/// History of a changeset in a changegroup.
struct GroupHistory<'a> {
    copies: Vec<CopySource>,
    commits: &'a CommitsByNode,
}

impl ChangesetHistory for GroupHistory<'_> {
    fn copies(&self) -> Result<Vec<CopySource>, Unreadable> {
        Ok(self.copies.clone())
    }

    fn ancestor(&self, node: &Node) -> Result<(Vec<u8>, Vec<ParentCommit>), Unreadable> {
        match self.commits.get(node) {
            Some(Shown { link: Some(link), .. }) => Ok((link.text.clone(), link.pair.clone())),
            Some(Shown { is_part: false, .. }) => Ok((NO_PART.to_vec(), Vec::new())),
            _ => Err(Unreadable),
        }
    }
}

/// Attributes a fault to a commit.
fn blame(problem: Problem, oid: Oid) -> Problem {
    match problem {
        Problem::Fault(Fault { message, .. }) => Problem::Fault(Fault { oid: Some(oid), message }),
        error @ Problem::Error(_) => error,
    }
}
