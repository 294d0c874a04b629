//! Changesets as Mercurial's commit makes them.
//!
//! The rules are those of `commit.py` in Mercurial 7.1: files have their ancestry in filelogs, and a
//! changeset lists the files whose revisions are new. Files are compared with those of the first
//! parent only, so a merge also lists files that both parents have with other revisions. A commit
//! with more than two parents becomes a chain of changesets; only the last one is mapped.

use std::io::{Read, Write};
use std::sync::Arc;

use dialect::hggit::Submodule;
use dialect::{
    ChangesetHistory, CommitInput, CopySource, ImportRules, ImportSettings, ImportedCommit,
    ImportedExtras, ParentCommit, Reason, Unreadable, exact, exact::tree::TrackedFile,
};
use gitpack::Oid;
use parallel::Cache;
use revlog::{Changeset, Node, RevlogKind, Store};

use crate::build::changedfiles::ChangedFile;
use crate::build::changesets::{ChangesetId, NewChangeset};
use crate::build::commitfiles::{CommittedFiles, ParentManifests};
use crate::build::filelogs::{FileHistory, StoredFilelogs};
use crate::build::graph::ChangesetGraph;
use crate::build::manifests::Number;
use crate::build::manifesttext::ManifestText;
use crate::build::renames::DetectedChanges;
use crate::build::{ChangesetBuilder, Converted, LINK, RefusedFile};
use crate::error::{Error, Result};
use crate::read::commits::WindowCommit;
use crate::read::diff::{Change, FirstParentChanges, RootFiles};
use crate::request::KnownChangeset;

/// Memory for parsed `.gitmodules`.
const MODULES_BYTES: usize = 1 << 20;

/// State for changesets that are made as Mercurial's commit makes them.
pub(crate) struct Imports<'a> {
    pub rules: ImportRules,
    pub settings: ImportSettings<'a>,
    pub graph: ChangesetGraph,
    filelogs: StoredFilelogs<'a>,
    pub modules: Cache<Oid, Option<Arc<Vec<Submodule>>>>,
}

/// A changeset as its children need it, beside [`Converted`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImportedFacts {
    /// Number in the graph.
    pub number: u32,
    /// Manifests of its parents.
    pub above: [Number; 2],
    /// Files in the root directory of its tree.
    pub root: RootFiles,
    /// Whether an octopus cannot be told from those that it merges.
    is_part: bool,
}

/// Changeset between the parents of a commit.
struct Link {
    node: Node,
    text: Vec<u8>,
    parents: Vec<ParentCommit>,
}

/// The history of a changeset, as far as its commit depends on it.
struct NewHistory<'a> {
    copies: &'a [CopySource],
    links: &'a [Link],
    /// Whether the parents tell the commit.
    is_plain: bool,
}

impl ChangesetHistory for NewHistory<'_> {
    fn copies(&self) -> std::result::Result<Vec<CopySource>, Unreadable> {
        Ok(self.copies.to_vec())
    }

    fn ancestor(
        &self,
        node: &Node,
    ) -> std::result::Result<(Vec<u8>, Vec<ParentCommit>), Unreadable> {
        match self.links.iter().find(|link| link.node == *node) {
            Some(Link { text, parents, .. }) => Ok((text.clone(), parents.clone())),
            None if self.is_plain => Ok((NO_PART.to_vec(), Vec::new())),
            None => Err(Unreadable),
        }
    }
}

/// Text of any changeset that is no part of an octopus.
pub(crate) const NO_PART: &[u8] = b"0000000000000000000000000000000000000000\n\n0 0\n\n";

/// Whether a changeset is a part of an octopus to hg-git.
pub(crate) fn is_part(text: &[u8]) -> bool {
    Changeset::parse(text).is_ok_and(|changeset| exact::Octopus::of(&changeset).is_some())
}

/// A refusal.
pub(super) struct CommitRefused(pub RefusedFile);

pub(super) type CommitResult<T> = Result<Result<T, CommitRefused>>;

/// Passes on a refusal.
macro_rules! within {
    ($made:expr) => {
        match $made {
            Ok(made) => made,
            Err(refused) => return Ok(Err(refused)),
        }
    };
}

impl<'a> Imports<'a> {
    /// Starts with the changesets of the store.
    pub fn new(rules: ImportRules, settings: ImportSettings<'a>, store: &'a Store) -> Result<Self> {
        Ok(Self {
            rules,
            settings,
            graph: ChangesetGraph::new(store.open(RevlogKind::Changelog)?),
            filelogs: StoredFilelogs::new(store),
            modules: Cache::new(MODULES_BYTES),
        })
    }
}

impl<'a, W: Write, R: Read> ChangesetBuilder<'a, W, R> {
    /// Adds facts about parents that are changesets already, for their children.
    pub(super) fn add_known_facts(&mut self, known: &[KnownChangeset<'_>]) -> Result<()> {
        let Some(imports) = &mut self.imports else { return Ok(()) };
        let nodes: Vec<Node> = known.iter().map(|known| known.node).collect();
        for (KnownChangeset { oid, text, .. }, number) in
            known.iter().zip(imports.graph.stored(&nodes)?)
        {
            let mut above = [None; 2];
            for (place, parent) in above.iter_mut().zip(imports.graph.parents(number)) {
                if let Some(parent) = parent {
                    *place = imports.graph.manifest(parent, &mut self.manifests)?;
                }
            }
            let Some(converted) = self.known.get_mut(oid) else { continue };
            let tree = self.trees.get(converted.tree)?;
            let root = RootFiles::of(self.trees, &tree.content);
            let facts = ImportedFacts { number, above, root, is_part: is_part(text) };
            converted.imported = Some(Arc::new(facts));
        }
        Ok(())
    }

    /// Makes the changesets of a commit, or refuses it for a file.
    pub(super) fn commit(
        &mut self,
        commit: &WindowCommit,
        changes: &FirstParentChanges,
    ) -> Result<Option<RefusedFile>> {
        let parent = |oid| {
            let known = self.known.get(oid).cloned();
            known.ok_or_else(|| Error::Wrong(format!("parent {oid} has no changeset")))
        };
        let mut parents = commit.parents.iter().map(parent).collect::<Result<Vec<Converted>>>()?;
        let (rules, settings) =
            self.imports.as_ref().map(|it| (it.rules, it.settings)).ok_or_else(no_rules)?;
        let mut texts = (rules.texts)(&commit.content, settings);
        settings.decoder.check().map_err(Error::Io)?;
        if self.rules.is_exact {
            texts.extras.retain(|key, _| ![exact::COMMIT, exact::TREE].contains(&&**key));
        }
        let detected = self.renames(&texts, changes, parents.first(), commit)?;
        let above = parents.first().and_then(|first| first.imported.as_ref());
        let root = changes.root.or(above.map(|facts| facts.root)).unwrap_or_default();
        let files = self.changed_files(changes, detected.as_ref(), parents.first(), root)?;
        if let Some(DetectedChanges { sources, .. }) = detected {
            texts.sources = sources;
        }
        let last = parents.last().and_then(|last| last.imported.as_ref());
        let is_plain = last.is_none_or(|facts| !facts.is_part);
        let (tree, links) = (commit.tree_or_empty(), Vec::new());
        let hides = |change: &Change| self.rules.hides.is_some_and(|hides| hides(&change.path));
        let is_odd = changes.is_odd || changes.files.iter().any(hides);
        let mut of = ImportedTree {
            texts: &texts,
            files: &files,
            tree,
            root,
            commit,
            links,
            is_plain,
            is_odd,
        };
        let mut second = if parents.len() > 1 { parents.pop() } else { None };
        let mut first = parents.pop();
        while !parents.is_empty() {
            let made = self.changeset_of(&mut of, [first.as_ref(), second.as_ref()], true)?;
            match made {
                Ok(made) => (first, second) = (parents.pop(), Some(made)),
                Err(CommitRefused(refused)) => return Ok(Some(refused)),
            }
        }
        match self.changeset_of(&mut of, [first.as_ref(), second.as_ref()], false)? {
            Ok(made) => {
                self.known.insert(commit.oid, made);
                Ok(None)
            }
            Err(CommitRefused(refused)) => Ok(Some(refused)),
        }
    }

    pub(super) fn history(&mut self) -> Result<FileHistory<'a, '_>> {
        let imports = self.imports.as_mut().ok_or_else(no_rules)?;
        Ok(FileHistory { stored: &mut imports.filelogs, new: &mut self.files })
    }

    /// Makes one changeset of a commit.
    fn changeset_of(
        &mut self,
        of: &mut ImportedTree<'_>,
        parents: [Option<&Converted>; 2],
        is_between: bool,
    ) -> CommitResult<Converted> {
        let above = parents.map(|parent| parent.and_then(|parent| parent.manifest));
        let texts = [self.manifests.text(above[0])?, self.manifests.text(above[1])?];
        let of_files = ParentManifests { both: parents, above, texts };
        let made = within!(self.commit_files(of, &of_files)?);
        let text = if is_between {
            let listed: Vec<&[u8]> = made.listed.iter().map(|path| &**path).collect();
            let which = ImportedExtras::Between;
            of.texts.changeset(Node::NULL, &listed, self.branch.as_deref(), which)
        } else {
            within!(self.text_of_commit(of, parents, &of_files.texts[0], &made)?)
        };
        let CommittedFiles { manifest, .. } = made;
        let link_text = is_between.then(|| text.clone());
        let pair = parents.map(|parent| parent.map(|parent| parent.changeset));
        let (new, is_new) =
            self.changesets.add_once(NewChangeset { text, parents: pair, manifest })?;
        let imports = self.imports.as_mut().ok_or_else(no_rules)?;
        let number = imports.graph.number_of(new)?;
        if is_new {
            let numbers = parents.map(|parent| Some(parent?.imported.as_ref()?.number));
            imports.graph.add(numbers, manifest);
        }
        if !is_between {
            self.made.push((of.commit.oid, new));
        } else if is_new {
            self.made.push((LINK, new));
        }
        self.changesets.write_known(&self.manifests)?;
        let is_part = of.commit.parents.len() > 2;
        let imported = Some(Arc::new(ImportedFacts { number, above, root: of.root, is_part }));
        let changeset = ChangesetId::New(new);
        if let Some(text) = link_text {
            let last = of.commit.parents.len() - 1;
            let second = Some(last).filter(|_| of.links.is_empty());
            let places = [Some(last - 1 - of.links.len()), second];
            let parents = self.parents_in_git(of, parents, places)?;
            let node = self.changesets.node(changeset);
            of.links.push(Link { node, text, parents });
        }
        Ok(Ok(Converted { changeset, tree: of.tree, manifest, branch: None, imported }))
    }

    /// Parents of a changeset of a commit, which are those of the commit at `places`. Their nodes
    /// matter only for an octopus.
    fn parents_in_git(
        &mut self,
        of: &ImportedTree<'_>,
        parents: [Option<&Converted>; 2],
        places: [Option<usize>; 2],
    ) -> Result<Vec<ParentCommit>> {
        let needs_nodes = !of.is_plain || of.commit.parents.len() > 2;
        if needs_nodes {
            self.changesets.write_all(&self.manifests)?;
        }
        let parent = |(parent, at): (Option<&Converted>, Option<usize>)| {
            let commit = at.and_then(|at| of.commit.parents.get(at)).copied();
            let id = parent?.changeset;
            let node = if needs_nodes { self.changesets.node(id) } else { Node::NULL };
            Some(ParentCommit { node, commit })
        };
        Ok(parents.into_iter().zip(places).filter_map(parent).collect())
    }

    /// Text of the changeset of a commit. If the commit does not come back from it: notes that, or
    /// refuses it.
    fn text_of_commit(
        &mut self,
        of: &ImportedTree<'_>,
        parents: [Option<&Converted>; 2],
        manifest_before: &ManifestText,
        CommittedFiles { listed, copies, .. }: &CommittedFiles,
    ) -> CommitResult<Vec<u8>> {
        let ImportedTree { texts, commit, tree, .. } = of;
        let rules = self.imports.as_ref().ok_or_else(no_rules)?.rules;
        let listed: Vec<&[u8]> = listed.iter().map(|path| &**path).collect();
        let mut tree_value = None;
        if of.is_odd && self.rules.is_exact {
            let (hides, git) = (self.rules.hides, self.trees);
            let mut follows = |path: &[u8], before: Option<TrackedFile>| {
                if !hides.is_some_and(|hides| hides(path)) {
                    return Ok(true);
                }
                // the manifest decides a hidden file once the tree has it
                match (manifest_before.entry(path), before) {
                    (Some((node, flag)), Some((shown, blob))) if flag == shown => {
                        Ok(self.history()?.content(path, node)?.blob == blob)
                    }
                    _ => Ok(false),
                }
            };
            let trees = (parents[0].map(|parent| parent.tree), *tree);
            tree_value = super::tree_value(git, commit.oid, trees, &mut follows)?;
        }
        let second = Some(1).filter(|_| of.links.is_empty());
        let in_git = self.parents_in_git(of, parents, [Some(0), second])?;
        let write = |texts: &ImportedCommit, commit: Option<&[u8]>| {
            let which = ImportedExtras::Own { commit, tree: tree_value.as_deref() };
            texts.changeset(Node::NULL, &listed, self.branch.as_deref(), which)
        };
        let malformed = |problem: &dyn std::fmt::Display| Error::Wrong(problem.to_string());
        let text = write(texts, None);
        let changeset = Changeset::parse(&text).map_err(|problem| malformed(&problem))?;
        let input =
            CommitInput { node: Node::NULL, changeset: &changeset, tree: *tree, parents: &in_git };
        let history = NewHistory { copies, links: &of.links, is_plain: of.is_plain };
        let mut content = Vec::with_capacity(commit.content.len() + 100);
        let has_commit = (rules.write_commit)(&input, &history, &mut content);
        let comes_back = matches!(has_commit, Ok(true)) && content == commit.content;
        if comes_back && self.rules.is_exact {
            return Ok(Ok(text));
        }
        if self.rules.is_lenient {
            if !comes_back || of.is_odd {
                self.foreign.push(commit.oid);
            }
            return Ok(Ok(text));
        }
        if !self.rules.is_exact {
            // judged without its files and its parents
            let refused = match has_commit {
                _ if comes_back => return Ok(Ok(text)),
                Ok(_) => (rules.difference)(&commit.content, Some(&content)),
                Err(Unreadable) => (Reason::Octopus, &b""[..]),
            };
            return Ok(Err(CommitRefused((refused.0, refused.1.into()))));
        }
        // texts that any server reads from the commit
        let mut texts = (rules.texts)(&commit.content, ImportSettings::default());
        texts.extras.retain(|key, _| ![exact::COMMIT, exact::TREE].contains(&&**key));
        let text = write(&texts, Some(b""));
        let changeset = Changeset::parse(&text).map_err(|problem| malformed(&problem))?;
        let head = (*tree, &*commit.parents);
        let value = exact::commit_value(commit.oid, &commit.content, &changeset, head);
        Ok(Ok(write(&texts, Some(&value))))
    }
}

/// Commit with the changes of its tree.
pub(super) struct ImportedTree<'a> {
    pub texts: &'a ImportedCommit,
    pub files: &'a [ChangedFile],
    tree: Oid,
    root: RootFiles,
    commit: &'a WindowCommit,
    /// Changesets between its parents.
    links: Vec<Link>,
    /// Whether the parents tell the commit.
    is_plain: bool,
    /// Whether the tree may have entries that a manifest does not have.
    is_odd: bool,
}

pub(super) fn no_rules() -> Error {
    Error::Wrong("a dialect has no rules for this commit".to_owned())
}
