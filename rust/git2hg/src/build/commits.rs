//! Changesets as Mercurial's commit makes them.
//!
//! The rules are those of `commit.py` in Mercurial 7.1: files have their ancestry in filelogs, and a
//! changeset lists the files whose revisions are new. Files are compared with those of the first
//! parent only, so a merge also lists files that both parents have with other revisions. A commit
//! with more than two parents becomes a chain of changesets; only the last one is mapped.

use std::cmp::Ordering;
use std::io::{Read, Write};
use std::sync::Arc;

use dialect::hggit::{SpecialFile, Submodule, SubrepoFiles, SubrepoSources};
use dialect::{
    ChangesetHistory, CommitInput, CopySource, ImportRules, ImportSettings, ImportedCommit,
    ImportedExtras, ParentCommit, Reason, Unreadable, exact, exact::tree::TrackedFile,
};
use gitpack::Oid;
use parallel::{Buffer, Cache};

use revlog::manifest::Flag;
use revlog::{Changeset, Node, RevlogKind, Store, copy_source, split_metadata};

use crate::build::changesets::{ChangesetId, NewChangeset};
use crate::build::filelogs::{FileHistory, StoredFilelogs, blob_of};
use crate::build::files::{NewText, RevisionContent};
use crate::build::graph::ChangesetGraph;
use crate::build::manifestlines::{DifferingLine, LineEdit};
use crate::build::manifests::Number;
use crate::build::manifesttext::ManifestText;
use crate::build::renames::{DetectedChanges, Detection};
use crate::build::{
    ChangesetBuilder, Converted, LINK, MOST_HASHED, RefusedFile, TextsOfCommit, accepted,
};
use crate::error::{Error, Result};
use crate::read::commits::WindowCommit;
use crate::read::diff::{Change, FirstParentChanges, RootFiles};
use crate::read::trees::EntryKind;
use crate::request::KnownChangeset;

const MODULES: &[u8] = b".gitmodules";
const SUB: &[u8] = b".hgsub";
const SUB_STATE: &[u8] = b".hgsubstate";
/// Memory for parsed `.gitmodules`.
const MODULES_BYTES: usize = 1 << 20;

/// State for changesets that are made as Mercurial's commit makes them.
pub(crate) struct Imports<'a> {
    rules: ImportRules,
    settings: ImportSettings<'a>,
    graph: ChangesetGraph,
    filelogs: StoredFilelogs<'a>,
    modules: Cache<Oid, Option<Arc<Vec<Submodule>>>>,
}

/// A changeset as its children need it, beside [`Converted`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImportedFacts {
    /// Number in the graph.
    number: u32,
    /// Manifests of its parents.
    above: [Number; 2],
    /// Files in the root directory of its tree.
    root: RootFiles,
    /// Whether an octopus cannot be told from those that it merges.
    is_part: bool,
}

/// Changed file of a commit.
struct ChangedFile {
    path: Box<[u8]>,
    /// Prefetched content, even if it is not needed.
    prefetched: Option<Oid>,
    file: FileSource,
}

/// New state of a file.
enum FileSource {
    /// Not a change of the changeset.
    Unchanged,
    Removed,
    /// File of the tree; `old` is the blob in the tree of the first parent.
    Tree {
        flag: Flag,
        blob: Oid,
        old: Option<Oid>,
    },
    /// Content that the tree does not have.
    Made(Vec<u8>),
    /// Revision of the first parent.
    First {
        node: Node,
        flag: Flag,
    },
}

/// Parents of a changeset with the texts of their manifests.
struct Parents<'a> {
    both: [Option<&'a Converted>; 2],
    above: [Number; 2],
    texts: [ManifestText; 2],
}

/// Manifest and listed files of a changeset.
struct CommittedFiles {
    manifest: Number,
    listed: Vec<Box<[u8]>>,
    copies: Vec<CopySource>,
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
struct Refused(RefusedFile);

type Committed<T> = Result<Result<T, Refused>>;

/// Passes on a refusal.
macro_rules! within {
    ($made:expr) => {
        match $made {
            Ok(made) => made,
            Err(refused) => return Ok(Err(refused)),
        }
    };
}

/// Paths between two calls of `tick`.
const TICK_INTERVAL: usize = 1000;

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
                Err(Refused(refused)) => return Ok(Some(refused)),
            }
        }
        match self.changeset_of(&mut of, [first.as_ref(), second.as_ref()], false)? {
            Ok(made) => {
                self.known.insert(commit.oid, made);
                Ok(None)
            }
            Err(Refused(refused)) => Ok(Some(refused)),
        }
    }

    /// Renames of a commit that does not tell them, if they are to be found.
    fn renames(
        &self,
        texts: &ImportedCommit,
        changes: &FirstParentChanges,
        first: Option<&Converted>,
        commit: &WindowCommit,
    ) -> Result<Option<DetectedChanges>> {
        let imports = self.imports.as_ref().ok_or_else(no_rules)?;
        let (Some(settings), Some(first), true) =
            (imports.settings.renames, first, texts.is_of_git)
        else {
            return Ok(None);
        };
        // odd ones may have files that are left out
        let is_new = |change: &Change| match (change.old, change.new) {
            (Some((old, _)), Some((new, _))) => old != new && [old, new].contains(&Flag::Symlink),
            (old, _) => old.is_none(),
        };
        if !(changes.is_odd || !changes.links.is_empty() || changes.files.iter().any(is_new)) {
            return Ok(None);
        }
        let detection = Detection {
            settings,
            accepts: imports.rules.accepts,
            room: &|| self.room(),
            most_bytes: self.most_bytes,
            tick: &|| self.progress.tick(),
        };
        detection.run(self.trees, first.tree, commit.tree_or_empty()).map(Some)
    }

    /// Changes against the first parent, with the files of subrepositories; ascending by path.
    fn changed_files(
        &mut self,
        changes: &FirstParentChanges,
        detected: Option<&DetectedChanges>,
        first: Option<&Converted>,
        root: RootFiles,
    ) -> Result<Vec<ChangedFile>> {
        let file = |change: &Change| {
            let file = match change.new {
                None => FileSource::Removed,
                Some((flag, blob)) => {
                    FileSource::Tree { flag, blob, old: change.old.map(|(_, blob)| blob) }
                }
            };
            ChangedFile { path: change.path.clone(), prefetched: change.own_blob(), file }
        };
        let mut files: Vec<ChangedFile> = changes.files.iter().map(file).collect();
        if !self.rules.is_lenient {
            return Ok(files); // submodules are entries of extras, or refused
        }
        if let Some(DetectedChanges { files: found, .. }) = detected {
            for file in &mut files {
                match found.get(&file.path) {
                    None => file.file = FileSource::Unchanged,
                    Some(false) => file.file = FileSource::Removed,
                    Some(true) => {}
                }
            }
            for (path, _) in found.iter().filter(|(_, is_there)| !**is_there) {
                set(&mut files, path, FileSource::Removed);
            }
        }
        let had = first.and_then(|first| first.imported.as_ref());
        let had_modules = had.is_some_and(|facts| facts.root.modules.is_some());
        let parent_state = match first {
            Some(first) => self.manifests.text(first.manifest)?.entry(SUB_STATE),
            None => None,
        };
        let is_concerned = had_modules
            || parent_state.is_some()
            || root.modules.is_some()
            || root.state.is_some()
            || !changes.links.is_empty();
        if !is_concerned {
            return Ok(files);
        }
        let parent_state = match parent_state {
            Some((node, _)) => {
                let text = self.history()?.text(SUB_STATE, node)?;
                Some(split_metadata(&text).content.to_vec())
            }
            None => None,
        };
        let modules = self.modules(root.modules)?;
        let sub = if modules.is_some() { self.root_file(root.sub)? } else { None };
        let state = self.root_file(root.state)?;
        let is_state_removed = files
            .iter()
            .any(|file| *file.path == *SUB_STATE && matches!(file.file, FileSource::Removed));
        let links: Vec<(&[u8], Option<Oid>)> = match detected {
            Some(found) => found.links.iter().map(|(path, oid)| (&**path, *oid)).collect(),
            None => changes.links.iter().map(|(path, oid)| (&**path, *oid)).collect(),
        };
        let rules = self.imports.as_ref().ok_or_else(no_rules)?.rules;
        let SubrepoFiles { sub, state, hides_modules } = (rules.subrepo_files)(&SubrepoSources {
            modules: modules.as_ref().map(|modules| &modules[..]),
            had_modules,
            sub: sub.as_deref().unwrap_or_default(),
            state: state.as_deref().unwrap_or_default(),
            is_state_removed,
            parent_state: parent_state.as_deref(),
            links: &links,
        });
        for (path, file) in [(SUB, sub), (SUB_STATE, state)] {
            match file {
                SpecialFile::Unchanged => {}
                SpecialFile::Removed => set(&mut files, path, FileSource::Removed),
                SpecialFile::Content(content) => set(&mut files, path, FileSource::Made(content)),
            }
        }
        if hides_modules && let Some(file) = files.iter_mut().find(|file| *file.path == *MODULES) {
            file.file = FileSource::Unchanged;
        }
        Ok(files)
    }

    /// Submodules of a `.gitmodules`, if it is a readable file.
    fn modules(&mut self, found: Option<(EntryKind, Oid)>) -> Result<Option<Arc<Vec<Submodule>>>> {
        let imports = self.imports.as_mut().ok_or_else(no_rules)?;
        let Some((EntryKind::File(_), oid)) = found else { return Ok(None) };
        if let Some(modules) = imports.modules.get(&oid) {
            return Ok(modules);
        }
        let gitmodules = imports.rules.gitmodules;
        let Some(content) = self.root_file(found)? else { return Ok(None) };
        let modules = gitmodules(&content).map(Arc::new);
        let imports = self.imports.as_mut().ok_or_else(no_rules)?;
        imports.modules.put(oid, modules.clone(), content.len() * 2 + 100);
        Ok(modules)
    }

    /// Content of a file in the root directory.
    fn root_file(&self, found: Option<(EntryKind, Oid)>) -> Result<Option<Vec<u8>>> {
        let Some((EntryKind::File(_), oid)) = found else { return Ok(None) };
        let mut content = None;
        self.trees.read_others(&[oid], |_, kind, found| {
            content = (kind == b"blob").then(|| found.to_vec());
            Ok(())
        })?;
        Ok(content)
    }

    fn history(&mut self) -> Result<FileHistory<'a, '_>> {
        let imports = self.imports.as_mut().ok_or_else(no_rules)?;
        Ok(FileHistory { stored: &mut imports.filelogs, new: &mut self.files })
    }

    /// Makes one changeset of a commit.
    fn changeset_of(
        &mut self,
        of: &mut ImportedTree<'_>,
        parents: [Option<&Converted>; 2],
        is_between: bool,
    ) -> Committed<Converted> {
        let above = parents.map(|parent| parent.and_then(|parent| parent.manifest));
        let texts = [self.manifests.text(above[0])?, self.manifests.text(above[1])?];
        let of_files = Parents { both: parents, above, texts };
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
    ) -> Committed<Vec<u8>> {
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
            return Ok(Err(Refused((refused.0, refused.1.into()))));
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

    /// Makes the file revisions and the manifest of one changeset.
    fn commit_files(
        &mut self,
        of: &ImportedTree<'_>,
        parents: &Parents<'_>,
    ) -> Committed<CommittedFiles> {
        let texts = &parents.texts;
        let is_merge = parents.both[1].is_some();
        let lines = if is_merge { texts[0].differing(&texts[1]) } else { Vec::new() };
        let kept: Vec<(&[u8], FileSource)> = lines.iter().filter_map(kept_of).collect();
        let mut edits: Vec<LineEdit> = Vec::new();
        let mut listed: Vec<Box<[u8]>> = Vec::new();
        let mut waiting = TextsOfCommit::default();
        let mut bases = None;
        let mut copied_here: Vec<(usize, Vec<u8>, [Node; 2])> = Vec::new();
        for (at, file) in all_files(of.files, &kept).into_iter().enumerate() {
            if at % TICK_INTERVAL == TICK_INTERVAL - 1 {
                self.progress.tick()?;
            }
            let ListedFile { path, prefetched, file } = file;
            // read even if the changeset has another content, or none
            let prefetched = prefetched.map(|blob| self.next_content(blob)).transpose()?;
            let is_of_tree = matches!(file, FileSource::Tree { .. });
            let prefetched = prefetched.filter(|_| is_of_tree);
            let entries = [texts[0].entry(path), texts[1].entry(path)];
            let flag = match file {
                FileSource::Unchanged => continue,
                FileSource::Removed => {
                    if entries[0].is_some() {
                        edits.push(LineEdit { path: path.into(), entry: None });
                    }
                    if self.lists_removed(path, entries, parents, &mut bases)? {
                        listed.push(path.into());
                    }
                    continue;
                }
                FileSource::Tree { flag, .. } | FileSource::First { flag, .. } => *flag,
                FileSource::Made(_) => Flag::Regular,
            };
            let made = self.file_revision((path, file), of.texts, entries, parents)?;
            let node = match made {
                FileOutcome::Kept(node) => {
                    if entries[0].is_some_and(|(_, before)| before != flag) {
                        listed.push(path.into());
                    } else if entries[0] == Some((node, flag)) {
                        continue;
                    }
                    node
                }
                FileOutcome::New { parents, blob, copied } => {
                    let content = match prefetched {
                        Some(content) => content,
                        None => self.content((path, file), entries[0])?,
                    };
                    let content = match accepted(self.rules, path, content) {
                        Ok(content) => content,
                        Err(reason) => return Ok(Err(Refused((reason, path.into())))),
                    };
                    let is_copy = copied.is_some();
                    let text = match copied {
                        Some((source, node)) => {
                            let text = self.copied(&source, node, &content)?;
                            let olds = entries.map(|it| it.map_or(Node::NULL, |(node, _)| node));
                            copied_here.push((edits.len(), source, olds));
                            text
                        }
                        None => self.escaped(content)?,
                    };
                    let content = Some(RevisionContent { blob, is_copy });
                    waiting.add(edits.len(), NewText { path, parents, text, content });
                    listed.push(path.into());
                    Node::NULL // until it is hashed
                }
            };
            edits.push(LineEdit { path: path.into(), entry: Some((node, flag)) });
            if waiting.bytes > MOST_HASHED {
                self.add_texts(&mut waiting, &mut edits)?;
            }
        }
        self.add_texts(&mut waiting, &mut edits)?;
        let copy = |(at, source, olds): (usize, Vec<u8>, [Node; 2])| {
            let LineEdit { path, entry } = &edits[at];
            let is_new = entry.is_some_and(|(node, _)| !olds.contains(&node));
            is_new.then(|| CopySource { path: path.to_vec(), source })
        };
        let copies = copied_here.into_iter().filter_map(copy).collect();
        let manifest = if listed.is_empty() && edits.is_empty() {
            parents.above[0]
        } else {
            self.manifests.add(parents.above, &edits, self.link()?)?
        };
        Ok(Ok(CommittedFiles { manifest, listed, copies }))
    }

    /// Whether a changeset lists a file that it removes. `bases` is a cache for one changeset.
    fn lists_removed(
        &mut self,
        path: &[u8],
        entries: [Option<(Node, Flag)>; 2],
        parents: &Parents<'_>,
        bases: &mut Option<Vec<Number>>,
    ) -> Result<bool> {
        let kept = match (entries, parents.both) {
            ([None, None], _) => return Ok(false),
            (_, [_, None]) | ([Some(_), Some(_)], _) => return Ok(true),
            ([one, two], _) => one.or(two),
        };
        let bases = match bases {
            Some(bases) => bases,
            None => bases.insert(self.bases(parents)?),
        };
        for base in bases {
            if self.manifests.text(*base)?.entry(path) != kept {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Manifests of the heads of the common ancestors; without any, the null manifest.
    fn bases(&mut self, parents: &Parents<'_>) -> Result<Vec<Number>> {
        let imports = self.imports.as_mut().ok_or_else(no_rules)?;
        let [Some(one), Some(two)] =
            parents.both.map(|parent| Some(parent?.imported.as_ref()?.number))
        else {
            return Ok(vec![None]);
        };
        let mut bases = Vec::new();
        for head in imports.graph.common_heads(one, two) {
            bases.push(imports.graph.manifest(head, &mut self.manifests)?);
        }
        if bases.is_empty() {
            bases.push(None);
        }
        Ok(bases)
    }

    /// Decides whether a file has a new revision, and its parents.
    fn file_revision(
        &mut self,
        (path, file): (&[u8], &FileSource),
        commit: &ImportedCommit,
        entries: [Option<(Node, Flag)>; 2],
        parents: &Parents<'_>,
    ) -> Result<FileOutcome> {
        let [one, two] = entries.map(|entry| entry.map_or(Node::NULL, |(node, _)| node));
        let source = match file {
            FileSource::Tree { .. } => commit.sources.get(path).cloned(),
            FileSource::First { node, .. } => self.copied_here(parents.both[0], path, *node)?,
            _ => None,
        };
        let blob = match file {
            FileSource::Tree { blob, .. } => *blob,
            FileSource::Made(content) => blob_of(content),
            FileSource::First { node, .. } => {
                // most are kept: their content need not be known
                if source.is_none() {
                    let both = self.file_parents(path, [one, two])?;
                    if both == [one, Node::NULL] {
                        return Ok(FileOutcome::Kept(one));
                    }
                }
                self.history()?.content(path, *node)?.blob
            }
            FileSource::Unchanged | FileSource::Removed => Oid::EMPTY_BLOB,
        };
        let mut copy = None;
        let mut both = None;
        if let Some(source) = source.filter(|source| **source != *path) {
            let there = [&parents.texts[0], &parents.texts[1]]
                .map(|text| text.entry(&source).map(|(node, _)| node));
            let is_second = !parents.texts[1].is_empty()
                && (two == Node::NULL || there[0].is_none())
                && there[1].is_some();
            let (copied, other) = if is_second { (there[1], one) } else { (there[0], two) };
            both = Some(if copied.is_some() { [Node::NULL, other] } else { [one, two] });
            copy = copied.map(|node| (source, node));
        }
        let both = match both {
            Some(both) => both,
            None => self.file_parents(path, [one, two])?,
        };
        let is_kept = both[0] != Node::NULL && both[1] == Node::NULL && {
            let before = match file {
                // without a merge, the revision of the first parent has the content of its tree
                FileSource::Tree { old: Some(old), .. }
                    if parents.both[1].is_none() && !is_special(path) =>
                {
                    *old
                }
                _ => self.history()?.content(path, both[0])?.blob,
            };
            before == blob
        };
        Ok(if is_kept {
            FileOutcome::Kept(both[0])
        } else {
            FileOutcome::New { parents: both, blob, copied: copy }
        })
    }

    /// Parents of a file revision without copies, given the revisions in both manifests.
    fn file_parents(&mut self, path: &[u8], [one, two]: [Node; 2]) -> Result<[Node; 2]> {
        if one == Node::NULL {
            return Ok([two, Node::NULL]);
        }
        if two == Node::NULL {
            return Ok([one, Node::NULL]);
        }
        let mut history = self.history()?;
        Ok(if history.is_ancestor(path, one, two)? {
            [two, Node::NULL]
        } else if history.is_ancestor(path, two, one)? {
            [one, Node::NULL]
        } else {
            [one, two]
        })
    }

    /// Source of a copy, if the changeset made this revision of the copy.
    fn copied_here(
        &mut self,
        changeset: Option<&Converted>,
        path: &[u8],
        node: Node,
    ) -> Result<Option<Vec<u8>>> {
        let number = self.files.number_of(path, node);
        let is_copy = |number| self.files.facts(number).is_some_and(|facts| facts.content.is_copy);
        if number.is_some_and(|number| !is_copy(number)) {
            return Ok(None);
        }
        let Some(facts) = changeset.and_then(|changeset| changeset.imported.clone()) else {
            return Ok(None);
        };
        for above in facts.above.into_iter().flatten() {
            if self.manifests.nodes_at(above, &[path])? == [Some(node)] {
                return Ok(None);
            }
        }
        let text = self.history()?.text(path, node)?;
        let metadata = split_metadata(&text).metadata.unwrap_or_default();
        Ok(copy_source(metadata).map(<[u8]>::to_vec))
    }

    /// Content of a new revision that was not prefetched; `None` if it is too long.
    fn content(
        &mut self,
        (path, file): (&[u8], &FileSource),
        first: Option<(Node, Flag)>,
    ) -> Result<Option<Arc<Buffer>>> {
        let same = match (file, first) {
            (FileSource::Made(content), _) => {
                let mut room = self.room();
                room.extend_from_slice(content)?;
                return Ok(Some(Arc::new(room)));
            }
            (FileSource::Tree { blob, .. }, first) => {
                let first = first.map(|(node, _)| node);
                let is_same = match first {
                    Some(node) => self.history()?.content(path, node)?.blob == *blob,
                    None => false,
                };
                if !is_same {
                    let oids = [*blob];
                    let late = self.trees.blobs(&oids)?.next(self.room(), self.most_bytes)?;
                    return Ok(late.map(Arc::new));
                }
                first
            }
            (FileSource::First { node, .. }, _) => Some(*node),
            _ => None,
        };
        let Some(node) = same else { return Ok(None) };
        let text = self.history()?.text(path, node)?;
        let content = split_metadata(&text).content;
        let mut room = self.room();
        room.reserve_exact(content.len())?;
        room.extend_from_slice(content)?;
        Ok(Some(Arc::new(room)))
    }
}

/// Commit with the changes of its tree.
struct ImportedTree<'a> {
    texts: &'a ImportedCommit,
    files: &'a [ChangedFile],
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

/// Outcome of a file.
enum FileOutcome {
    /// Existing revision.
    Kept(Node),
    /// New revision, with the source of a copy.
    New { parents: [Node; 2], blob: Oid, copied: Option<(Vec<u8>, Node)> },
}

/// File that a changeset may list.
struct ListedFile<'a> {
    path: &'a [u8],
    prefetched: Option<Oid>,
    file: &'a FileSource,
}

fn no_rules() -> Error {
    Error::Wrong("a dialect has no rules for this commit".to_owned())
}

/// Whether a changeset may have another content than the tree.
fn is_special(path: &[u8]) -> bool {
    [MODULES, SUB, SUB_STATE].contains(&path)
}

/// Sets the change of a path.
fn set(files: &mut Vec<ChangedFile>, path: &[u8], file: FileSource) {
    match files.binary_search_by(|other| (*other.path).cmp(path)) {
        Ok(at) => files[at].file = file,
        Err(at) => files.insert(at, ChangedFile { path: path.into(), prefetched: None, file }),
    }
}

/// File that both manifests have with other revisions: a merge takes the revision of the first parent.
fn kept_of<'a>(line: &DifferingLine<'a>) -> Option<(&'a [u8], FileSource)> {
    let [Some((node, flag)), Some((other, _))] = line.entries else { return None };
    (node != other).then_some((line.path, FileSource::First { node, flag }))
}

/// Changed and kept files, ascending by path.
fn all_files<'a>(
    files: &'a [ChangedFile],
    kept: &'a [(&'a [u8], FileSource)],
) -> Vec<ListedFile<'a>> {
    let mut all = Vec::with_capacity(files.len() + kept.len());
    let (mut files, mut kept) = (files.iter().peekable(), kept.iter().peekable());
    loop {
        let order = match (files.peek(), kept.peek()) {
            (None, None) => return all,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(file), Some((path, _))) => (*file.path).cmp(path),
        };
        let changed = if order.is_le() { files.next() } else { None };
        let same = if order.is_ge() { kept.next() } else { None };
        let prefetched = changed.and_then(|file| file.prefetched);
        let is_change = |file: &&ChangedFile| !matches!(file.file, FileSource::Unchanged);
        match (changed.filter(is_change), same) {
            (Some(ChangedFile { path, file, .. }), _) => {
                all.push(ListedFile { path, prefetched, file });
            }
            (None, Some((path, file))) => all.push(ListedFile { path, prefetched, file }),
            // the content is read all the same
            (None, None) => all.extend(changed.map(|ChangedFile { path, file, .. }| ListedFile {
                path,
                prefetched,
                file,
            })),
        }
    }
}
