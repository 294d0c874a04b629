//! Changesets of commits, with their manifests and file revisions.
//!
//! Manifests follow git-cinnabar: `create_simple_manifest` and `create_merge_changeset` in its
//! `main.rs`. Only content that begins like metadata is stored as Mercurial does. `manifests` and
//! `files` keep the new revisions in temporary files until [`ChangesetBuilder::write`] makes a
//! changegroup of them; `merges` has the rules for two parents.

pub(crate) mod ancestry;
mod changedfiles;
mod changesets;
mod commitfiles;
pub(crate) mod commits;
pub(crate) mod copies;
pub(crate) mod filelogs;
pub(crate) mod files;
pub(crate) mod graph;
mod lineage;
pub(crate) mod manifestlines;
mod manifestnodes;
pub(crate) mod manifests;
pub(crate) mod manifesttext;
mod merges;
mod renames;
pub(crate) mod spool;

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::sync::Arc;

use changegroup::{END, GroupVersion, RevisionChunk};
use dialect::exact::Octopus;
use dialect::exact::tree::{TrackedFile, TreeValue, edits_between};
use dialect::{ChangesetInput, CopyRule, ExactCommit, Reason, subrepositories};
use gitpack::Oid;
use hashbrown::HashMap;
use parallel::hex::hex;
use parallel::{Budget, Buffer};
use revlog::{Changeset, Node, Revlog};

use crate::build::changesets::{ChangesetId, NewChangeset, NewChangesets};
use crate::build::commits::{ImportedFacts, Imports, is_part};
use crate::build::copies::{CopySources, SeenBlobs, copies};
use crate::build::files::{FileRevisions, NewText, nodes_of};
use crate::build::manifestlines::LineEdit;
use crate::build::manifests::{Number, PushedManifests};
use crate::error::{Error, Result};
use crate::progress::ConversionProgress;
use crate::read::blobs::{BlobContents, most_bytes};
use crate::read::commits::WindowCommit;
use crate::read::diff::{Change, CommitChanges, MergedPath};
use crate::read::trees::GitTrees;
use crate::request::{ConversionRequest, KnownChangeset};
use crate::rules::CommitRules;

/// Mark before and after the metadata of a file revision.
pub(crate) const MARK: &[u8] = b"\x01\n";
/// Bytes of texts that are collected before they are hashed together.
const MOST_HASHED: usize = 1 << 20;

/// Result of applying a commit.
pub(crate) enum Applied {
    Made(MadeManifest),
    Refused(RefusedFile),
}

/// Reason to refuse a commit for a file, with its path.
pub(crate) type RefusedFile = (Reason, Box<[u8]>);

/// Manifest of a changeset, and the paths that the changeset lists.
pub(crate) struct MadeManifest {
    pub manifest: Number,
    pub files: Vec<Box<[u8]>>,
}

/// Texts of a commit not hashed yet, with the edits that get their nodes.
#[derive(Default)]
struct TextsOfCommit<'a> {
    edits: Vec<usize>,
    texts: Vec<NewText<'a>>,
    bytes: usize,
}

impl<'a> TextsOfCommit<'a> {
    fn add(&mut self, edit: usize, new: NewText<'a>) {
        self.bytes += new.text.len();
        self.edits.push(edit);
        self.texts.push(new);
    }
}

/// Part of the memory for file revisions and for manifests, each.
const PART_OF_MEMORY: usize = 4;

/// Place of a commit's id for a changeset that no pushed commit has.
pub(crate) const LINK: Oid = Oid::from_bytes([0; 20]);

/// Commits and their changesets, parents first.
pub(crate) type ChangesetPairs = Vec<(Oid, Node)>;

/// Parent of new commits with its changeset, manifest and tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownParent {
    pub oid: Oid,
    pub node: Node,
    pub manifest: Node,
    pub tree: Oid,
    /// Whether the changeset is a part of an octopus.
    pub is_part: bool,
}

/// A commit that is a changeset, as its children need it.
#[derive(Clone, Debug)]
struct Converted {
    changeset: ChangesetId,
    tree: Oid,
    manifest: Number,
    /// Value of the branch extra, as stored.
    branch: Option<Arc<[u8]>>,
    /// More, if it is made as Mercurial's commit makes it.
    imported: Option<Arc<ImportedFacts>>,
}

/// Result of a builder.
#[derive(Debug)]
pub(crate) struct Written {
    pub changesets: ChangesetPairs,
    /// Commits that do not come back from their changesets.
    pub foreign: Vec<Oid>,
}

/// Stored value of the extra with entries of the tree that manifests do not have, if any. `before`
/// is the tree of the first parent, `follows` as in [`edits_between`].
fn tree_value(
    trees: &GitTrees<impl Write, impl Read>,
    oid: Oid,
    (before, root): (Option<Oid>, Oid),
    follows: &mut impl FnMut(&[u8], Option<TrackedFile>) -> Result<bool>,
) -> Result<Option<Vec<u8>>> {
    let mut read = |oid| Ok::<_, Error>(trees.get(oid)?.content.to_vec());
    let edits = edits_between(before, Some(root), follows, &mut read)?;
    if edits.is_empty() {
        return Ok(None);
    }
    let stored = TreeValue { root, edits }.stored();
    stored.map(Some).ok_or(Error::TooManyFiles(oid))
}

/// Builder of changesets, commit by commit.
pub(crate) struct ChangesetBuilder<'a, W, R> {
    rules: CommitRules,
    trees: &'a GitTrees<W, R>,
    /// Contents of the current window of commits.
    contents: Option<BlobContents>,
    budget: Arc<Budget>,
    /// Length limit of files.
    most_bytes: u64,
    manifests: PushedManifests<'a>,
    files: FileRevisions,
    changesets: NewChangesets,
    version: GroupVersion,
    branch: Option<Arc<[u8]>>,
    known: HashMap<Oid, Converted>,
    /// For copies.
    seen: SeenBlobs,
    /// Commits and the numbers of their changesets. Several commits may have one, and one commit
    /// several.
    made: Vec<(Oid, u32)>,
    foreign: Vec<Oid>,
    imports: Option<Imports<'a>>,
    progress: &'a ConversionProgress<'a>,
}

impl<'a, W: Write, R: Read> ChangesetBuilder<'a, W, R> {
    /// Starts with no changesets. Buffers count towards `budget`.
    ///
    /// # Errors
    ///
    /// [`Error::Scratch`].
    pub fn new(
        rules: CommitRules,
        request: &'a ConversionRequest<'a>,
        revlog: &'a Revlog,
        trees: &'a GitTrees<W, R>,
        budget: Arc<Budget>,
        progress: &'a ConversionProgress<'a>,
    ) -> Result<Self> {
        let part = request.memory_bytes / PART_OF_MEMORY;
        let manifests = PushedManifests::new(revlog, request.dir, part)?;
        let has_lineage = rules.import.is_none() && manifests.stored_len() == 0;
        let imports = rules.import.map(|rules| Imports::new(rules, request.import, request.store));
        Ok(Self {
            rules,
            trees,
            contents: None,
            budget,
            most_bytes: most_bytes(request.most_file_bytes),
            manifests,
            files: FileRevisions::new(request.version, request.dir, part, has_lineage)?,
            changesets: NewChangesets::new(request.version, request.dir)?,
            version: request.version,
            branch: request.branch.map(Arc::from),
            known: HashMap::new(),
            seen: SeenBlobs::default(),
            made: Vec::new(),
            foreign: Vec::new(),
            imports: imports.transpose()?,
            progress,
        })
    }

    /// Adds parents that are changesets already, and reads the ids of their trees.
    ///
    /// # Errors
    ///
    /// The errors of [`GitTrees::read_others`], and [`Error::Store`] if a manifest is missing.
    pub fn add_known(&mut self, known: &[KnownChangeset<'_>]) -> Result<Vec<KnownParent>> {
        let oids: Vec<Oid> = known.iter().map(|changeset| changeset.oid).collect();
        let (rules, mut roots) = (self.rules, Vec::with_capacity(oids.len()));
        self.trees.read_others(&oids, |_, _, content| {
            roots.push((rules.judge)(content).tree);
            Ok(())
        })?;
        let mut learned = Vec::with_capacity(known.len());
        for (KnownChangeset { oid, node, text }, tree) in known.iter().zip(roots) {
            let wrong =
                |problem: &dyn std::fmt::Display| Error::Wrong(format!("{node}: {problem}"));
            let changeset = Changeset::parse(text).map_err(|problem| wrong(&problem))?;
            let branch = changeset.extras().find(|(key, _)| *key == b"branch");
            let tree = tree.ok_or_else(|| wrong(&"its commit has no tree"))?;
            let manifest = changeset.manifest;
            let is_part = is_part(text);
            learned.push(KnownParent { oid: *oid, node: *node, manifest, tree, is_part });
            let converted = Converted {
                changeset: ChangesetId::Stored(*node),
                tree,
                manifest: self.manifests.stored(changeset.manifest)?,
                branch: branch.map(|(_, value)| Arc::from(value)),
                imported: None,
            };
            self.known.insert(*oid, converted);
            self.seen.add_known(tree);
        }
        self.add_known_facts(known)?;
        Ok(learned)
    }

    /// Whether a commit is a changeset.
    pub fn is_known(&self, oid: &Oid) -> bool {
        self.known.contains_key(oid)
    }

    /// Whether commits need not come back from their changesets.
    pub const fn is_lenient(&self) -> bool {
        self.rules.is_lenient
    }

    /// Number of changesets made.
    pub fn len(&self) -> usize {
        self.made.len()
    }

    /// Memory of the file revisions, about, except for cached texts.
    pub fn file_bytes(&self) -> usize {
        self.files.bytes()
    }

    /// Starts a window of commits, with the contents read for them.
    pub fn start_window(&mut self, contents: BlobContents) {
        self.contents = Some(contents);
    }

    /// Makes the changeset of a commit, or refuses it for a file.
    ///
    /// # Errors
    ///
    /// That the store, git or a temporary file cannot be read.
    pub fn add(
        &mut self,
        commit: &WindowCommit,
        changes: &CommitChanges,
    ) -> Result<Option<RefusedFile>> {
        if let CommitChanges::First(changes) = changes {
            return self.commit(commit, changes);
        }
        let parents: Vec<Converted> =
            commit.parents.iter().filter_map(|oid| self.known.get(oid)).cloned().collect();
        let inherited = || parents.first().and_then(|parent| parent.branch.clone());
        let branch = self.branch.clone().or_else(inherited);
        let CommitChanges::Chain(steps) = changes else {
            return Ok(self.step(commit, (&parents, branch), changes, None)?.err());
        };
        let mut merged: Option<Converted> = None;
        for (number, changes) in steps.iter().enumerate() {
            let at = steps.len() - 1 - number;
            let second = merged.take().or_else(|| parents.get(at + 1).cloned());
            let pair: Vec<Converted> = parents.get(at).cloned().into_iter().chain(second).collect();
            let part = if at == 0 { Octopus::Done } else { Octopus::Link };
            match self.step(commit, (&pair, branch.clone()), changes, Some(part))? {
                Ok(made) => merged = Some(made),
                Err(refused) => return Ok(Some(refused)),
            }
        }
        Ok(None)
    }

    /// Makes a changeset, or refuses its commit for a file.
    fn step(
        &mut self,
        commit: &WindowCommit,
        (parents, branch): (&[Converted], Option<Arc<[u8]>>),
        changes: &CommitChanges,
        octopus: Option<Octopus>,
    ) -> Result<std::result::Result<Converted, RefusedFile>> {
        let tree = commit.tree_or_empty();
        let made = match self.apply(tree, parents, changes)? {
            Applied::Refused(refused) => return Ok(Err(refused)),
            Applied::Made(made) => made,
        };
        let files: Vec<&[u8]> = made.files.iter().map(|path| &**path).collect();
        let tree_value = if self.rules.is_exact && commit.is_odd {
            let trees = (parents.first().map(|parent| parent.tree), tree);
            tree_value(self.trees, commit.oid, trees, &mut |_, _| Ok(true))?
        } else {
            None
        };
        let (oid, tree_value) = (commit.oid, tree_value.as_deref());
        let exact = ExactCommit { oid, tree, parents: &commit.parents, tree_value, octopus };
        let exact = self.rules.is_exact.then_some(exact);
        let made_of = ChangesetInput {
            manifest: Node::NULL,
            branch: branch.as_deref(),
            files: &files,
            exact,
        };
        let text = (self.rules.changeset)(&commit.content, &made_of)
            .ok_or_else(|| Error::Wrong(format!("commit {} has no date", commit.oid)))?;
        let id_of = |at: usize| parents.get(at).map(|parent| parent.changeset);
        let manifest = made.manifest;
        let new = NewChangeset { text, parents: [id_of(0), id_of(1)], manifest };
        // several commits may share one between their parents
        let is_link = octopus == Some(Octopus::Link);
        let (number, is_new) = if is_link {
            self.changesets.add_once(new)?
        } else {
            (self.changesets.add(new)?, true)
        };
        if is_new {
            self.made.push((if is_link { LINK } else { commit.oid }, number));
        }
        self.changesets.write_known(&self.manifests)?;
        let changeset = ChangesetId::New(number);
        let converted = Converted { changeset, tree, manifest, branch, imported: None };
        if !is_link {
            self.known.insert(commit.oid, converted.clone());
        }
        Ok(Ok(converted))
    }

    /// Writes the changegroup, and returns the changesets.
    ///
    /// # Errors
    ///
    /// [`Error::Output`] and [`Error::Scratch`].
    pub fn write(mut self, out: &File) -> Result<Written> {
        let mut out = BufWriter::with_capacity(1 << 20, out);
        self.changesets.write_all(&self.manifests)?;
        let nodes = self.changesets.copy(&mut out)?;
        out.write_all(&END).map_err(Error::Output)?;
        let node_of = |number: u32| nodes[number as usize];
        let (mut bytes, mut delta) = (Vec::new(), Vec::new());
        for (number, new) in self.manifests.new_ones() {
            let base = self.manifests.delta(&new, &mut delta)?;
            let node = self.manifests.node(Some(number))?;
            let [p1, p2] = new.parents.map(|parent| self.manifests.node(parent));
            let (parents, link) = ([p1?, p2?], node_of(new.link));
            let chunk = RevisionChunk { node, parents, base, link, flags: 0 };
            bytes.clear();
            chunk.push_head(self.version, delta.len(), &mut bytes)?;
            bytes.extend_from_slice(&delta);
            out.write_all(&bytes).map_err(Error::Output)?;
        }
        out.write_all(&END).map_err(Error::Output)?;
        if self.version == GroupVersion::V03 {
            out.write_all(&END).map_err(Error::Output)?; // of the manifests of directories
        }
        self.files.write(node_of, &mut out)?;
        out.write_all(&END).map_err(Error::Output)?;
        out.flush().map_err(Error::Output)?;
        let changesets =
            self.made.into_iter().map(|(oid, number)| (oid, node_of(number))).collect();
        Ok(Written { changesets, foreign: self.foreign })
    }

    /// An empty buffer within the budget.
    fn room(&self) -> Buffer {
        Buffer::new(Some(Arc::clone(&self.budget)))
    }

    /// The next prefetched content; `None` if it is too long.
    fn next_content(&mut self, oid: Oid) -> Result<Option<Arc<Buffer>>> {
        let nothing = || Error::Wrong(format!("blob {oid} was not asked for"));
        self.contents.as_mut().ok_or_else(nothing)?.next(oid)
    }

    /// Makes the manifest and the file revisions of a commit.
    fn apply(
        &mut self,
        tree: Oid,
        parents: &[Converted],
        changes: &CommitChanges,
    ) -> Result<Applied> {
        let applied = match (parents, changes) {
            ([one, two], CommitChanges::Two(paths)) if one.manifest == two.manifest => {
                let change = |path: &MergedPath| Change {
                    path: path.path.clone(),
                    old: path.olds[0],
                    new: path.new,
                };
                let changes = paths.iter().map(change).filter(|change| change.old != change.new);
                self.apply_linear(Some(one), &changes.collect::<Vec<_>>())
            }
            ([one, two], CommitChanges::Two(paths)) => self.apply_merge(tree, [one, two], paths),
            (parents, CommitChanges::One(changes)) => self.apply_linear(parents.first(), changes),
            _ => Err(Error::Wrong("a commit has lost its parents".to_owned())),
        };
        if self.rules.copies == CopyRule::Identical {
            self.seen.add(changes);
        }
        applied
    }

    fn apply_linear(&mut self, parent: Option<&Converted>, changes: &[Change]) -> Result<Applied> {
        let before = parent.map(|parent| parent.manifest);
        // without changes, only entries that a manifest does not have differ
        if let Some(parent) = parent.filter(|_| changes.is_empty()) {
            let made = MadeManifest { manifest: parent.manifest, files: Vec::new() };
            return Ok(Applied::Made(made));
        }
        let copies = match parent {
            Some(parent) if self.rules.copies == CopyRule::Identical => {
                copies(self.trees, (parent.tree, &mut self.seen), changes)?
            }
            _ => CopySources::new(),
        };
        let text = self.manifests.text(before.flatten())?;
        let node_of = |path: &[u8]| {
            let found = text.entry(path).map(|(node, _)| node);
            found.ok_or_else(|| Error::Wrong(format!("no entry of {}", path.escape_ascii())))
        };
        let mut edits = Vec::with_capacity(changes.len());
        let mut waiting = TextsOfCommit::default();
        for change in changes {
            let Change { path, old, new } = change;
            let Some((flag, blob)) = new else {
                edits.push(LineEdit { path: path.clone(), entry: None });
                self.files.lose(path);
                continue;
            };
            let old_node = old.map(|_| node_of(path)).transpose()?;
            let node = match old_node {
                Some(node) if change.own_blob().is_none() => node,
                _ => {
                    let content = self.next_content(*blob)?;
                    let content = match accepted(self.rules, path, content) {
                        Ok(content) => content,
                        Err(reason) => return Ok(Applied::Refused((reason, path.clone()))),
                    };
                    let text = match copies.get(path) {
                        // in a text, its end would be that of the metadata
                        Some(source) if !source.ends_with(&MARK[..1]) => {
                            self.copied(source, node_of(source)?, &content)?
                        }
                        _ => self.escaped(content)?,
                    };
                    let parents = [old_node.unwrap_or(Node::NULL), Node::NULL];
                    waiting.add(edits.len(), NewText { path, parents, text, content: None });
                    Node::NULL // until it is hashed
                }
            };
            edits.push(LineEdit { path: path.clone(), entry: Some((node, *flag)) });
            if waiting.bytes > MOST_HASHED {
                self.add_texts(&mut waiting, &mut edits)?;
            }
        }
        self.add_texts(&mut waiting, &mut edits)?;
        let manifest = self.manifests.add([before.flatten(), None], &edits, self.link()?)?;
        let files = edits.into_iter().map(|edit| edit.path).collect();
        Ok(Applied::Made(MadeManifest { manifest, files }))
    }

    /// Hashes texts, and adds them as revisions.
    fn add_texts(&mut self, waiting: &mut TextsOfCommit<'_>, edits: &mut [LineEdit]) -> Result<()> {
        let TextsOfCommit { edits: places, texts, .. } = std::mem::take(waiting);
        let link = self.link()?;
        let nodes = nodes_of(&texts);
        for ((place, text), node) in places.into_iter().zip(texts).zip(nodes) {
            self.files.add(text, node, link)?;
            if let Some((own, _)) = &mut edits[place].entry {
                *own = node;
            }
        }
        Ok(())
    }

    /// Number of the next changeset.
    fn link(&self) -> Result<u32> {
        self.changesets.next_number()
    }

    /// Text of a copied file revision.
    fn copied(&self, source: &[u8], node: Node, content: &Buffer) -> Result<Arc<Buffer>> {
        let node = hex(node.as_bytes());
        let head = [MARK, b"copy: ", source, b"\ncopyrev: ", &node, b"\n", MARK].concat();
        self.with_head(&head, content)
    }

    /// Text of a file revision that is not a copy.
    fn escaped(&self, content: Arc<Buffer>) -> Result<Arc<Buffer>> {
        if content.starts_with(MARK) {
            return self.with_head(&[MARK, MARK].concat(), &content);
        }
        Ok(content)
    }

    fn with_head(&self, head: &[u8], content: &Buffer) -> Result<Arc<Buffer>> {
        let mut text = self.room();
        text.reserve_exact(head.len() + content.len())?;
        text.extend_from_slice(head)?;
        text.extend_from_slice(content)?;
        Ok(Arc::new(text))
    }
}

/// Content of a file, `None` if it is too long; or the reason to refuse it.
fn accepted(
    rules: CommitRules,
    path: &[u8],
    content: Option<Arc<Buffer>>,
) -> std::result::Result<Arc<Buffer>, Reason> {
    let content = content.ok_or(Reason::FileSize)?;
    let are_readable = rules.is_lenient || subrepositories::are_readable(path, &content);
    if are_readable { Ok(content) } else { Err(Reason::Subrepositories) }
}
