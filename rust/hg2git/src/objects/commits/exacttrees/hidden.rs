//! Hidden files: trees do not have them from manifests.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use dialect::exact::tree::{Hides, TrackedFile, file_at};
use revlog::{Node, Rev};

use super::changes::PathChange;
use super::{Before, ExactTrees, RunTrees, flag_of};
use crate::error::Result;
use crate::map::segment::Table;
use crate::objects::history::Sources;
use crate::objects::storefiles::StoreFiles;
use crate::read::manifests::{Base, ChangesetTree};

/// Most hidden files that are kept.
const MOST_HIDDEN: usize = 1 << 18;

/// Hidden files of a manifest, by their paths. Most manifests share one.
pub(super) type HiddenFiles = Arc<BTreeMap<Box<[u8]>, TrackedFile>>;

/// The files that trees do not have from manifests, in those of the run.
pub(super) struct HiddenPaths {
    pub hides: Hides,
    /// Those that the run changes, by the numbers of their paths.
    paths: HashMap<u32, Box<[u8]>>,
    /// By the positions of manifests.
    of_positions: HashMap<usize, HiddenFiles>,
    /// Number of files in all of these that differ.
    kept: usize,
    /// By the nodes of manifests of earlier runs.
    stored: HashMap<Node, HiddenFiles>,
}

impl HiddenPaths {
    /// Those of `paths`, by their numbers, that `hides` tells.
    pub fn of<'p>(hides: Hides, paths: impl Iterator<Item = &'p [u8]>) -> Self {
        let hidden = (0..).zip(paths).filter(|(_, path)| hides(path));
        Self {
            hides,
            paths: hidden.map(|(number, path)| (number, path.into())).collect(),
            of_positions: HashMap::new(),
            kept: 0,
            stored: HashMap::new(),
        }
    }
}

impl ExactTrees<'_> {
    /// The hidden files of a manifest.
    pub(super) fn hidden_files(
        &mut self,
        tree: ChangesetTree,
        manifest: Node,
    ) -> Result<HiddenFiles> {
        let Some(hidden) = &self.hidden else { return Ok(HiddenFiles::default()) };
        let ChangesetTree::Position(position) = tree else { return self.stored_hidden(manifest) };
        // bases come before
        let (mut chain, mut at) = (Vec::new(), position);
        let mut found = loop {
            if let Some(found) = hidden.of_positions.get(&at) {
                break Arc::clone(found);
            }
            chain.push(at);
            match self.sources.changes.base(at) {
                Base::Empty => break HiddenFiles::default(),
                Base::Position(base) => at = base,
                Base::Known(rev) => {
                    break self.stored_hidden(self.sources.manifest.index().node(rev))?;
                }
            }
        };
        let Some(hidden) = &mut self.hidden else { return Ok(found) };
        for at in chain.into_iter().rev() {
            let (is_changed, before) = (!hidden.paths.is_empty(), Arc::as_ptr(&found));
            for (path, file) in self.sources.changes.of(at).filter(|_| is_changed) {
                let Some(path) = hidden.paths.get(&path.0) else { continue };
                let of = |(file, mode)| Some((flag_of(mode), self.files.oid(file)?));
                match file.and_then(of) {
                    Some(file) => Arc::make_mut(&mut found).insert(path.clone(), file),
                    None => Arc::make_mut(&mut found).remove(path),
                };
            }
            if Arc::as_ptr(&found) != before {
                hidden.kept += found.len();
            }
            if hidden.kept > MOST_HIDDEN {
                hidden.of_positions.clear(); // later ones are made from their bases again
                hidden.kept = 0;
            }
            hidden.of_positions.insert(at, Arc::clone(&found));
        }
        Ok(found)
    }

    /// The hidden files of a manifest of an earlier run.
    pub(super) fn stored_hidden(&mut self, node: Node) -> Result<HiddenFiles> {
        let Some(hidden) = &mut self.hidden else { return Ok(HiddenFiles::default()) };
        if let Some(found) = hidden.stored.get(&node) {
            return Ok(Arc::clone(found));
        }
        let mut found = BTreeMap::new();
        if node != Node::NULL {
            let Sources { store, manifest, directories, map, .. } = self.sources;
            let rev = manifest.find(&[node])?[0];
            let files = StoreFiles::new(store, manifest, *directories, rev);
            for line in files.all(hidden.hides)? {
                if let Some(oid) = map.oid(Table::Files, &line.node) {
                    found.insert(line.path.into(), (line.flag, oid));
                }
            }
        }
        let found = Arc::new(found);
        hidden.stored.insert(node, Arc::clone(&found));
        Ok(found)
    }

    /// Changes of hidden files that the tree of the first parent shows.
    pub(super) fn followed(
        &self,
        rev: Rev,
        before: &Before,
        now: &HiddenFiles,
    ) -> Result<Vec<PathChange>> {
        let mut found = Vec::new();
        if Arc::ptr_eq(&before.hidden, now) {
            return Ok(found);
        }
        let mut trees = RunTrees { trees: self, rev, before, plain: None, now, made: Vec::new() };
        // a file that the first parent's manifest does not have is not shown
        for (path, file) in before.hidden.iter() {
            let new = now.get(path).copied();
            if new != Some(*file) && file_at(&mut trees, Some(before.tree), path)? == Some(*file) {
                found.push((path.to_vec(), new));
            }
        }
        Ok(found)
    }
}
