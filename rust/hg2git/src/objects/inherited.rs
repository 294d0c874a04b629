//! Inheritance of a file from the commit of the first parent, see [`InheritedFile`].
//!
//! Commits that have another file than the trees of their manifests are known before the history is
//! replayed. So the other trees are made with the manifest's own.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use dialect::exact::tree::{TreeEntryKind, first_entry, kind_of};
use dialect::{Dialect, InheritedFile};
use gitpack::pack::Objects;
use gitpack::tree::{Mode, push_entry};
use gitpack::{ObjectKind, Oid, object_header};
use parallel::Directory;
use revlog::{Node, Parents, Rev, Revlog, RevlogKind, Scratch, Store, Texts};
use sha1lanes::{Message, digest_one};

use crate::error::Result;
use crate::map::segment::{NO_COMMIT, Table};
use crate::objects::history::{Sources, mode_of};
use crate::objects::imported::ImportedCommits;
use crate::objects::object::Object;
use crate::objects::storefiles::StoreFiles;
use crate::objects::trees::{Purpose, StoredEntry, TreeForm, stored_entries};
use crate::read::changelog::parse;
use crate::read::files::FileTable;
use crate::read::manifests::{Base, ChangesetTree};

/// Longest object that is read, in bytes.
const MOST_OBJECT_BYTES: usize = 64 << 20;

/// The file in a root tree: blob and mode; `None` if it is not there.
pub(crate) type RootFile = Option<(Oid, Mode)>;

/// Commits of a run with another file than the trees of their manifests.
pub(crate) struct Inherited<'a> {
    /// Name of the file.
    pub name: &'static [u8],
    /// The files of those commits, by the places of their changesets.
    files: HashMap<usize, RootFile>,
    /// The same, by the positions of their manifests.
    of_manifests: HashMap<usize, Vec<RootFile>>,
    stored: StoredTrees<'a>,
}

impl Inherited<'_> {
    /// The file of the commit of the changeset at this place, if the tree has another one.
    pub fn file(&self, place: usize) -> Option<RootFile> {
        self.files.get(&place).copied()
    }

    /// The files that commits have beside the tree of the manifest at `position`.
    pub fn of_manifest(&self, position: usize) -> &[RootFile] {
        self.of_manifests.get(&position).map_or(&[], Vec::as_slice)
    }

    /// The tree `oid` of an earlier run with another file.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Store`] if the tree cannot be read.
    pub fn stored_tree(&self, rev: Rev, oid: Oid, file: RootFile) -> Result<Object> {
        let content = self.stored.tree(rev, oid)?;
        let mut entries = self.stored.entries(rev, oid, &content)?;
        entries.retain(|entry| entry.name != self.name);
        let sorted = |entry: &StoredEntry<'_>| {
            let end: &[u8] = if entry.mode.is_directory() { b"/" } else { b"" };
            [entry.name, end].concat()
        };
        if let Some((id, mode)) = file {
            let at = entries.partition_point(|entry| *sorted(entry) < *self.name);
            entries.insert(at, StoredEntry { mode, name: self.name, id });
        }
        let mut payload = Vec::with_capacity(content.len() + 64);
        for StoredEntry { mode, name, id } in entries {
            push_entry(&mut payload, mode, name, &id);
        }
        let head = object_header(ObjectKind::Tree, payload.len() as u64);
        let oid = Oid::from_bytes(digest_one(Message { head: &head, body: &payload }));
        Ok(Object { kind: ObjectKind::Tree, oid, base: None, payload, purpose: Purpose::Git })
    }
}

/// Trees of earlier runs.
struct StoredTrees<'a> {
    changelog: &'a Revlog,
    objects: Objects,
}

impl StoredTrees<'_> {
    fn object(&self, rev: Rev, kind: ObjectKind, oid: Oid) -> Result<Vec<u8>> {
        let found = self.objects.read(kind, &oid).ok().flatten();
        let missing = || self.changelog.corrupt(rev, format!("git object {oid} cannot be read"));
        Ok(found.ok_or_else(missing)?)
    }

    /// The content of a tree.
    fn tree(&self, rev: Rev, oid: Oid) -> Result<Vec<u8>> {
        if oid == Oid::EMPTY_TREE {
            return Ok(Vec::new());
        }
        self.object(rev, ObjectKind::Tree, oid)
    }

    fn entries<'c>(&self, rev: Rev, oid: Oid, content: &'c [u8]) -> Result<Vec<StoredEntry<'c>>> {
        let malformed = || self.changelog.corrupt(rev, format!("git tree {oid} is malformed"));
        Ok(stored_entries(&TreeForm::GIT, content).ok_or_else(malformed)?)
    }

    /// The file in a tree.
    fn file(&self, rev: Rev, oid: Oid, name: &[u8]) -> Result<RootFile> {
        Ok(file_in(&self.tree(rev, oid)?, name))
    }

    /// The file in the tree of a commit.
    fn file_of_commit(&self, rev: Rev, commit: Oid, name: &[u8]) -> Result<RootFile> {
        let content = self.object(rev, ObjectKind::Commit, commit)?;
        let malformed = || self.changelog.corrupt(rev, format!("git commit {commit} has no tree"));
        self.file(rev, tree_of(&content).ok_or_else(malformed)?, name)
    }
}

/// Files of the root directory of a manifest.
#[derive(Clone, Copy, Debug, Default)]
struct RootFiles {
    /// The sources of the inherited file.
    sources: [Option<(Node, Mode)>; 2],
    /// The file in the tree of the manifest.
    own: RootFile,
}

/// The dialect's inherited file, if the repository has any of its sources.
///
/// # Errors
///
/// [`crate::Error::Store`] if a filelog cannot be read.
pub(crate) fn inherited_file<D: Dialect>(store: &Store) -> Result<Option<InheritedFile>> {
    for path in D::INHERITED.iter().flat_map(|file| file.sources) {
        if !store.open(RevlogKind::Filelog(path))?.index().is_empty() {
            return Ok(D::INHERITED);
        }
    }
    Ok(None)
}

/// The commits of a run with another file than their trees. `start` has the files of the first start
/// manifest, if the run has one. Calls `tick` regularly.
///
/// # Errors
///
/// [`crate::Error::Store`] if a changeset, a manifest or an object cannot be read, and the errors of
/// `tick`.
pub(crate) fn inherited_files<'a>(
    file: InheritedFile,
    run: &Sources<'a>,
    packs: &Directory,
    files: &FileTable,
    start: Option<&StoreFiles<'_>>,
    tick: impl FnMut() -> Result<()>,
) -> Result<Inherited<'a>> {
    let failed = |source| parallel::Error { path: packs.path().to_owned(), source };
    let objects = Objects::open(packs, MOST_OBJECT_BYTES).map_err(failed)?;
    let stored = StoredTrees { changelog: run.changelog, objects };
    let search = Search { run, file, files, stored, start };
    let (files, of_manifests) = search.run(tick)?;
    Ok(Inherited { name: file.name, files, of_manifests, stored: search.stored })
}

struct Search<'r, 'a> {
    run: &'r Sources<'a>,
    file: InheritedFile,
    files: &'r FileTable,
    stored: StoredTrees<'a>,
    start: Option<&'r StoreFiles<'r>>,
}

type Found = (HashMap<usize, RootFile>, HashMap<usize, Vec<RootFile>>);

impl Search<'_, '_> {
    fn run(&self, mut tick: impl FnMut() -> Result<()>) -> Result<Found> {
        let Sources { changelog, revs, trees, .. } = *self.run;
        let of_positions = self.of_positions()?;
        let (mut found, mut of_manifests) = Found::default();
        let mut states: HashMap<usize, (Oid, Mode)> = HashMap::new();
        let mut earlier: HashMap<Rev, (RootFiles, RootFile)> = HashMap::new();
        let of_place = |place: usize| match trees.get(place) {
            ChangesetTree::Empty => Ok(RootFiles::default()),
            ChangesetTree::Position(position) => Ok(of_positions[position]),
            ChangesetTree::Known(_) => self.of_changeset(revs[place]),
        };
        for (place, rev) in revs.iter().enumerate() {
            tick()?;
            let files = of_place(place)?;
            let (before, state) = match first_parent(changelog, *rev) {
                None => Default::default(),
                Some(parent) => match revs.binary_search(&parent) {
                    Ok(at) => (of_place(at)?, states.get(&at).copied()),
                    Err(_) => match earlier.get(&parent) {
                        Some(known) => *known,
                        None => {
                            let known = self.earlier(parent)?;
                            earlier.insert(parent, known);
                            known
                        }
                    },
                },
            };
            let mut state = inherited(before, state, files);
            if let Some(imported) = self.run.imported
                && let Some(commit) = imported.kept(&changelog.index().node(*rev))
            {
                state = self.of_imported(imported, commit)?;
            }
            if let Some(state) = state {
                states.insert(place, state);
            }
            if state != files.own {
                found.insert(place, state);
                if let ChangesetTree::Position(position) = trees.get(place) {
                    let all: &mut Vec<_> = of_manifests.entry(position).or_default();
                    if !all.contains(&state) {
                        all.push(state);
                    }
                }
            }
        }
        Ok((found, of_manifests))
    }

    /// The file in the tree of an imported commit.
    fn of_imported(&self, imported: &ImportedCommits<'_>, commit: Oid) -> Result<RootFile> {
        let content = imported.read(ObjectKind::Commit, commit)?;
        let tree = tree_of(&content).filter(|tree| *tree != Oid::EMPTY_TREE);
        let Some(tree) = tree else { return Ok(None) };
        Ok(file_in(&imported.read(ObjectKind::Tree, tree)?, self.file.name))
    }

    /// Files of the run's manifests, by position.
    fn of_positions(&self) -> Result<Vec<RootFiles>> {
        let Sources { map, manifest, plan, changes, edits, .. } = *self.run;
        let InheritedFile { name, sources } = self.file;
        let ids = sources.map(|source| changes.paths().position(|path| path == source));
        let mut all: Vec<RootFiles> = Vec::with_capacity(plan.revs.len());
        let mut known: HashMap<Rev, RootFiles> = HashMap::new();
        for position in 0..plan.revs.len() {
            let mut found = match changes.base(position) {
                Base::Empty => RootFiles::default(),
                Base::Position(base) => all[base],
                Base::Known(rev) => match known.entry(rev) {
                    Entry::Occupied(found) => *found.get(),
                    Entry::Vacant(place) => {
                        let root = map.oid(Table::Manifests, &manifest.index().node(rev));
                        let root = root.unwrap_or(Oid::EMPTY_TREE);
                        *place.insert(self.of_manifest(plan.revs[position], rev, root)?)
                    }
                },
            };
            for (path, file) in changes.of(position) {
                let at = ids.iter().position(|id| *id == Some(path.0 as usize));
                if let Some(at) = at {
                    found.sources[at] = file.map(|(file, mode)| (self.files.node(file), mode));
                }
            }
            found.own = edits.entry(position, name, found.own);
            all.push(found);
        }
        Ok(all)
    }

    /// Files of a manifest of an earlier run, with this root tree. `rev` is named in errors.
    fn of_manifest(&self, rev: Rev, manifest_rev: Rev, root: Oid) -> Result<RootFiles> {
        let Sources { store, manifest, directories, .. } = *self.run;
        let files = match self.start.filter(|start| start.rev == manifest_rev) {
            Some(start) => start,
            None => &StoreFiles::new(store, manifest, directories, manifest_rev),
        };
        let mut found = RootFiles::default();
        for (source, path) in found.sources.iter_mut().zip(self.file.sources) {
            *source = files.find(path)?.map(|(node, flag)| (node, mode_of(flag)));
        }
        found.own = self.stored.file(rev, root, self.file.name)?;
        Ok(found)
    }

    /// Files of the manifest of a changeset, if an earlier run converted it.
    fn of_changeset(&self, rev: Rev) -> Result<RootFiles> {
        let Sources { changelog, manifest, map, .. } = *self.run;
        let text = Texts::new(changelog, &mut Scratch::new(0), 0).get(rev)?.text;
        let node = parse(changelog, rev, &text)?.manifest;
        let Some(root) = map.oid(Table::Manifests, &node) else { return Ok(RootFiles::default()) };
        self.of_manifest(rev, manifest.find(&[node])?[0], root)
    }

    /// Files of the manifest of an earlier run's changeset, and the file of its commit.
    fn earlier(&self, rev: Rev) -> Result<(RootFiles, RootFile)> {
        let Sources { changelog, map, .. } = *self.run;
        // changesets without a commit, down to one that has one
        let mut chain = Vec::new();
        let (mut before, mut state) = Default::default();
        let mut next = Some(rev);
        while let Some(rev) = next {
            let commit = map.oid(Table::Changesets, &changelog.index().node(rev));
            if let Some(commit) = commit.filter(|commit| *commit != NO_COMMIT) {
                before = self.of_changeset(rev)?;
                state = self.stored.file_of_commit(rev, commit, self.file.name)?;
                break;
            }
            chain.push(rev);
            next = first_parent(changelog, rev);
        }
        for rev in chain.into_iter().rev() {
            let files = self.of_changeset(rev)?;
            state = inherited(before, state, files);
            before = files;
        }
        Ok((before, state))
    }
}

/// The file of a changeset with these files, whose first parent has the files `before` and a commit
/// with the file `state`.
fn inherited(before: RootFiles, state: RootFile, files: RootFiles) -> RootFile {
    if before.sources == files.sources { state } else { files.own.or(state) }
}

/// The file in a tree, which may have modes that manifests do not have, and a name twice.
pub(super) fn file_in(tree: &[u8], name: &[u8]) -> RootFile {
    let mut entries = std::iter::successors(first_entry(tree), |(.., rest)| first_entry(rest));
    let (mode, _, oid, _) = entries.find(|(_, entry, ..)| *entry == name)?;
    match kind_of(mode, &oid)? {
        TreeEntryKind::File(flag) => Some((oid, mode_of(flag))),
        TreeEntryKind::Directory | TreeEntryKind::Other => None,
    }
}

/// The tree that a commit names.
pub(super) fn tree_of(commit: &[u8]) -> Option<Oid> {
    let digits = commit.strip_prefix(b"tree ").and_then(|rest| rest.get(..40))?;
    Some(Oid::from_bytes(*Node::from_hex(digits)?.as_bytes()))
}

/// The first parent as Mercurial shows it: a stored null parent comes last.
fn first_parent(changelog: &Revlog, rev: Rev) -> Option<Rev> {
    let Parents(p1, p2) = changelog.index().parents(rev);
    p1.or(p2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_beside_a_name_that_is_there_twice() {
        let oid = Oid::from_bytes([7; 20]);
        let mut tree = Vec::new();
        let entries = [
            (Mode::FILE, ".gitmodules"),
            (Mode::GITLINK, "lib"),
            (Mode::EXECUTABLE, "lib"),
            (Mode::DIRECTORY, "lib"),
        ];
        for (mode, name) in entries {
            push_entry(&mut tree, mode, name.as_bytes(), &oid);
        }
        assert_eq!(file_in(&tree, b".gitmodules"), Some((oid, Mode::FILE)));
        assert_eq!(file_in(&tree, b"lib"), None);
        assert_eq!(file_in(&tree, b"li"), None);
        assert_eq!(file_in(&tree[..20], b".gitmodules"), None);
    }
}
