//! Edits of trees: entries that a dialect has in trees in place of a manifest's files.
//!
//! All edits are made before the history is replayed, since names are numbered then.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use dialect::{Dialect, EditedEntry, FileChange, Files, TreeEdit};
use gitpack::tree::Mode;
use gitpack::{ObjectKind, Oid, object_header};
use revlog::{Revlog, Store};
use sha1lanes::{Message, digest_one};

use crate::error::Result;
use crate::objects::directory::{EntryTarget, TreeChange};
use crate::objects::inherited::RootFile;
use crate::objects::object::Object;
use crate::objects::storefiles::StoreFiles;
use crate::objects::trees::Purpose;
use crate::read::changes::ChangeLog;
use crate::read::manifests::{Base, ManifestPlan};
use crate::read::treemanifests::Directories;

/// Edits of the trees of manifests, by position, each ascending by path.
#[derive(Debug)]
pub(crate) struct TreeEdits(Vec<Vec<Arc<PathEdit>>>);

/// Edit of one path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PathEdit {
    pub path: Vec<u8>,
    /// `None` if the path has no entry.
    object: Option<Arc<(Oid, Mode)>>,
    /// Content of a new blob.
    blob: Option<Vec<u8>>,
}

impl PathEdit {
    fn new(TreeEdit { path, entry }: TreeEdit) -> Self {
        let mode = entry.as_ref().map(EditedEntry::mode);
        let (oid, blob) = match entry {
            None => (None, None),
            Some(EditedEntry::Gitlink(oid)) => (Some(oid), None),
            Some(EditedEntry::Blob(_, content)) => (Some(oid_of_blob(&content)), Some(content)),
        };
        Self { path, object: oid.zip(mode).map(Arc::new), blob }
    }

    /// The edit as a change of a tree.
    pub fn change(&self) -> TreeChange<'_> {
        TreeChange { path: &self.path, target: self.object.clone().map(EntryTarget::Object) }
    }
}

impl TreeEdits {
    /// No edits.
    pub const NONE: Self = Self(Vec::new());

    /// The edits of a run's manifests. `start` has the files of the first start manifest, if any of
    /// them can be a source of the inherited file. Calls `tick` regularly.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Store`] if a file that the dialect needs cannot be read, and the errors of
    /// `tick`.
    pub fn of<D: Dialect>(
        dialect: &mut D,
        store: &Store,
        (manifest, directories): (&Revlog, Option<&Directories<'_>>),
        (plan, log): (&ManifestPlan, &ChangeLog),
        start: Option<&StoreFiles<'_>>,
        mut tick: impl FnMut() -> Result<()>,
    ) -> Result<Self> {
        if !D::EDITS_TREES {
            return Ok(Self::NONE);
        }
        let mut edited = EditedPaths::of::<D>(log);
        let mut shared = SharedEdits::default();
        // the files of a manifest read lately, so that not all is read again for the next one
        let mut last: Option<StoreFiles<'_>> = None;
        let new = |rev| StoreFiles::new(store, manifest, directories, rev);
        for rev in log.starts().take_while(|_| start.is_some()) {
            let near = start.filter(|start| start.rev == rev).or(last.as_ref());
            let files = near.map_or_else(|| new(rev), |near| near.beside(rev));
            for path in D::INHERITED.iter().flat_map(|inherited| inherited.sources) {
                if files.find(path)?.is_some() {
                    let change = FileChange { path, is_there: true };
                    edited.add(log, edits_of(dialect, &[change], None, &files)?.1);
                }
            }
            last = Some(files);
        }
        if !edited.are.contains(&true) {
            return Ok(Self::NONE);
        }
        let edits = plan.revs.iter().enumerate().map(|(position, rev)| {
            tick()?;
            let changes = log.of(position).filter(|(path, _)| edited.are[path.0 as usize]);
            let changes: Vec<_> = changes
                .map(|(path, file)| FileChange { path: log.path(path), is_there: file.is_some() })
                .collect();
            if changes.is_empty() {
                return Ok(Vec::new());
            }
            let before = match log.base(position) {
                Base::Empty => None,
                Base::Known(rev) => Some(rev),
                Base::Position(base) => Some(plan.revs[base]),
            };
            let near = last.as_ref();
            let before = before.map(|rev| near.map_or_else(|| new(rev), |near| near.beside(rev)));
            before.as_ref().map(StoreFiles::text).transpose()?;
            let near = before.as_ref().or(near);
            let files = near.map_or_else(|| new(*rev), |near| near.beside(*rev));
            let (edits, watched) = edits_of(dialect, &changes, before.as_ref(), &files)?;
            edited.add(log, watched);
            last = Some(files);
            Ok(edits.into_iter().map(|edit| shared.share(edit)).collect())
        });
        Ok(Self(edits.collect::<Result<_>>()?))
    }

    /// Paths of all edits.
    pub fn paths(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().flatten().map(|edit| &*edit.path)
    }

    /// The entry at `path` after the edits of the manifest at `position`, `before` them given.
    pub fn entry(&self, position: usize, path: &[u8], before: RootFile) -> RootFile {
        match self.at(position).iter().find(|edit| edit.path == path) {
            None => before,
            Some(edit) => edit.object.as_deref().copied(),
        }
    }

    /// New blobs of the manifest at `position`.
    pub fn blobs(&self, position: usize) -> impl Iterator<Item = Object> {
        self.at(position).iter().filter_map(|edit| {
            let (oid, _) = **edit.object.as_ref()?;
            let (kind, payload) = (ObjectKind::Blob, edit.blob.clone()?);
            Some(Object { kind, oid, base: None, payload, purpose: Purpose::Git })
        })
    }

    /// The changes of the manifest at `position`. Edits replace changes of the same paths.
    pub fn applied<'a>(
        &'a self,
        changes: impl Iterator<Item = TreeChange<'a>>,
        position: usize,
    ) -> impl Iterator<Item = TreeChange<'a>> {
        let (mut changes, mut edits) = (changes.peekable(), self.at(position).iter().peekable());
        std::iter::from_fn(move || {
            let Some(edit) = edits.peek() else { return changes.next() };
            match changes.next_if(|change| change.path < &*edit.path) {
                None => {
                    let edit = edits.next()?;
                    changes.next_if(|change| change.path == &*edit.path);
                    Some(edit.change())
                }
                before => before,
            }
        })
    }

    fn at(&self, position: usize) -> &[Arc<PathEdit>] {
        self.0.get(position).map_or(&[], Vec::as_slice)
    }
}

/// The last edit of each path. Manifests have the same submodules for long.
#[derive(Default)]
struct SharedEdits(HashMap<Vec<u8>, Arc<PathEdit>>);

impl SharedEdits {
    /// The last edit of the path, if `edit` is the same.
    fn share(&mut self, edit: PathEdit) -> Arc<PathEdit> {
        if let Some(last) = self.0.get(&edit.path).filter(|last| ***last == edit) {
            return Arc::clone(last);
        }
        let (path, edit) = (edit.path.clone(), Arc::new(edit));
        self.0.insert(path, Arc::clone(&edit));
        edit
    }
}

/// Paths whose changes may need edits.
struct EditedPaths {
    /// By the numbers of paths.
    are: Vec<bool>,
    /// Paths that were added.
    watched: HashSet<Vec<u8>>,
}

impl EditedPaths {
    fn of<D: Dialect>(log: &ChangeLog) -> Self {
        Self { are: log.paths().map(D::is_edited).collect(), watched: HashSet::new() }
    }

    /// Adds watched paths, and those above and below.
    fn add(&mut self, log: &ChangeLog, mut watched: Vec<Vec<u8>>) {
        watched.retain(|path| !self.watched.contains(path));
        if watched.is_empty() {
            return;
        }
        let paths: BTreeSet<&[u8]> = watched.iter().map(Vec::as_slice).collect();
        let above: BTreeSet<&[u8]> = paths.iter().flat_map(|path| directories_of(path)).collect();
        for (is_edited, path) in self.are.iter_mut().zip(log.paths()) {
            *is_edited |= paths.contains(path)
                || above.contains(path)
                || directories_of(path).any(|directory| paths.contains(directory));
        }
        self.watched.extend(watched);
    }
}

/// The directories above a path, except the root.
fn directories_of(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    memchr::memchr_iter(b'/', path).map(|at| &path[..at])
}

/// The dialect's edits of the tree of a manifest, ascending by path, and the watched paths.
///
/// # Errors
///
/// [`crate::Error::Store`] if a file that the dialect needs cannot be read.
pub(crate) fn edits_of<D: Dialect>(
    dialect: &mut D,
    changes: &[FileChange<'_>],
    before: Option<&StoreFiles<'_>>,
    files: &StoreFiles<'_>,
) -> Result<(Vec<PathEdit>, Vec<Vec<u8>>)> {
    let files_before = before.map(|before| before as &dyn Files);
    let Ok(edits) = dialect.edit_tree(changes, files_before, files) else {
        let mut errors = [before, Some(files)].into_iter().flatten();
        return Err(errors.find_map(StoreFiles::take_error).expect("one is unreadable"));
    };
    let dialect::ManifestEdits { edits, watched } = edits;
    let mut edits: Vec<_> = edits.into_iter().map(PathEdit::new).collect();
    edits.sort_by(|a, b| a.path.cmp(&b.path));
    Ok((edits, watched))
}

fn oid_of_blob(content: &[u8]) -> Oid {
    let head = object_header(ObjectKind::Blob, content.len() as u64);
    Oid::from_bytes(digest_one(Message { head: &head, body: content }))
}
