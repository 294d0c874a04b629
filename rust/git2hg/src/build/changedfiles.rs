//! Files that a commit changes, with the renames found in it and with the files of subrepositories.

use std::io::{Read, Write};
use std::sync::Arc;

use dialect::ImportedCommit;
use dialect::hggit::{SpecialFile, Submodule, SubrepoFiles, SubrepoSources};
use gitpack::Oid;
use revlog::manifest::Flag;
use revlog::{Node, split_metadata};

use crate::build::commits::no_rules;
use crate::build::renames::{DetectedChanges, Detection};
use crate::build::{ChangesetBuilder, Converted};
use crate::error::Result;
use crate::read::commits::WindowCommit;
use crate::read::diff::{Change, FirstParentChanges, RootFiles};
use crate::read::trees::EntryKind;

const MODULES: &[u8] = b".gitmodules";
const SUB: &[u8] = b".hgsub";
const SUB_STATE: &[u8] = b".hgsubstate";

/// Changed file of a commit.
pub(super) struct ChangedFile {
    pub path: Box<[u8]>,
    /// Prefetched content, even if it is not needed.
    pub prefetched: Option<Oid>,
    pub file: FileSource,
}

/// New state of a file.
pub(super) enum FileSource {
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

impl<W: Write, R: Read> ChangesetBuilder<'_, W, R> {
    /// Renames of a commit that does not tell them, if they are to be found.
    pub(super) fn renames(
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
    pub(super) fn changed_files(
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
        if let Some(detected) = detected {
            set_detected(&mut files, detected);
        }
        self.set_subrepositories(&mut files, changes, detected, first, root)?;
        Ok(files)
    }

    /// Sets `.hgsub`, `.hgsubstate` and `.gitmodules`, if a parent or the commit has submodules.
    fn set_subrepositories(
        &mut self,
        files: &mut Vec<ChangedFile>,
        changes: &FirstParentChanges,
        detected: Option<&DetectedChanges>,
        first: Option<&Converted>,
        root: RootFiles,
    ) -> Result<()> {
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
            return Ok(());
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
                SpecialFile::Removed => set(files, path, FileSource::Removed),
                SpecialFile::Content(content) => set(files, path, FileSource::Made(content)),
            }
        }
        if hides_modules && let Some(file) = files.iter_mut().find(|file| *file.path == *MODULES) {
            file.file = FileSource::Unchanged;
        }
        Ok(())
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
}

/// Sets the change of a path.
fn set(files: &mut Vec<ChangedFile>, path: &[u8], file: FileSource) {
    match files.binary_search_by(|other| (*other.path).cmp(path)) {
        Ok(at) => files[at].file = file,
        Err(at) => files.insert(at, ChangedFile { path: path.into(), prefetched: None, file }),
    }
}

/// Limits changes to those that the detection of renames found.
fn set_detected(files: &mut Vec<ChangedFile>, detected: &DetectedChanges) {
    let found = &detected.files;
    for file in &mut *files {
        match found.get(&file.path) {
            None => file.file = FileSource::Unchanged,
            Some(false) => file.file = FileSource::Removed,
            Some(true) => {}
        }
    }
    for (path, _) in found.iter().filter(|(_, is_there)| !**is_there) {
        set(files, path, FileSource::Removed);
    }
}

/// Whether a changeset may have another content than the tree.
pub(super) fn is_special(path: &[u8]) -> bool {
    [MODULES, SUB, SUB_STATE].contains(&path)
}
