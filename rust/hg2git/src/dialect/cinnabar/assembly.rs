//! The part of a run that makes the metadata commit: what it is of, and what of it is known.

use gitpack::{Oid, PackWriter};
use revlog::Scratch;

use crate::dialect::Context;
use crate::dialect::cinnabar::heads::{ChangesetHeads, ManifestHeads};
use crate::dialect::cinnabar::metadata::{self, Covered};
use crate::dialect::cinnabar::notes::Key;
use crate::dialect::cinnabar::recovery;
use crate::dialect::cinnabar::state::{BranchHead, MetadataState};
use crate::dialect::cinnabar::tables::NotesTables;
use crate::error::Result;
use crate::map::oidmap::OidMap;
use crate::map::segment::{Pair, Table};
use crate::request::MetadataFiles;

/// The state before a run, and the heads of branches in it. Both are counted again if there is none,
/// or if the changelog has lost one of its heads; notes trees are then made anew.
///
/// # Errors
///
/// [`crate::Error`] if the state or, to count again, the changelog cannot be read.
pub(crate) fn state(
    context: &Context<'_>,
    files: &MetadataFiles,
    metadata_map: &OidMap,
) -> Result<(MetadataState, ChangesetHeads)> {
    let Context { request, changelog, manifest, map, shares } = *context;
    let state = match &files.state {
        Some(name) => Some(MetadataState::open(request.map, name)?),
        None if map.is_empty() => Some(MetadataState::default()),
        None => None,
    };
    if let Some(state) = state
        && let Some(heads) = state.changeset_heads(changelog)
    {
        return Ok((state, heads));
    }
    let manifest_heads = recovery::manifest_heads(manifest, metadata_map);
    let heads = recovery::changeset_heads(changelog, map, &mut Scratch::of(shares))?;
    Ok((MetadataState { manifest_heads, ..MetadataState::default() }, heads))
}

/// What the metadata commit of a run is made from.
pub(crate) struct MetadataAssembly<'a> {
    pub context: Context<'a>,
    pub files: &'a MetadataFiles,
    pub metadata_map: &'a OidMap,
    /// What the run adds to both maps.
    pub new: &'a [Vec<Pair>; 3],
    pub new_metadata: &'a [Vec<Pair>; 3],
}

impl MetadataAssembly<'_> {
    /// Adds to `pack` what is new in the metadata, and answers the state after it.
    ///
    /// # Errors
    ///
    /// [`crate::Error`] if the pack cannot be written, or a head is not in the map.
    pub fn write(
        &self,
        pack: &mut PackWriter,
        before: MetadataState,
        (heads, manifest_heads): (&ChangesetHeads, ManifestHeads),
    ) -> Result<MetadataState> {
        let Context { request, map, shares, .. } = self.context;
        let heads = self.commits_of(heads)?;
        let [commits, _, blobs] = self.new;
        let [notes, manifests, files] = self.new_metadata;
        let mut leaves: [NotesTables<'_>; 3] = Default::default();
        let [hg2git, git2hg, files_meta] = &mut leaves;
        hg2git.add(map, Table::Changesets, commits);
        hg2git.add(self.metadata_map, Table::Manifests, manifests);
        hg2git.add(map, Table::Files, blobs);
        git2hg.add(self.metadata_map, Table::Changesets, notes);
        files_meta.add(self.metadata_map, Table::Files, files);
        // a state that was counted again has no notes trees, and nor has that of nothing
        let is_whole = self.files.anew || before.notes == MetadataState::default().notes;
        let new_keys = (!is_whole)
            .then(|| [keys(&[commits, manifests, blobs]), keys(&[notes]), keys(&[files])]);
        let covered = Covered { heads, manifest_heads, leaves, new_keys };
        metadata::write(pack, before, covered, shares, request.level)
    }

    /// Heads with their nodes and commits.
    fn commits_of(&self, heads: &ChangesetHeads) -> Result<Vec<(BranchHead, Oid)>> {
        let Context { changelog, map, .. } = self.context;
        let index = changelog.index();
        let [commits, ..] = self.new;
        let heads = heads.iter().map(|(number, branch)| {
            let rev = index.rev(number).expect("heads are revisions");
            let node = index.node(rev);
            let commit = match commits.binary_search_by_key(&node, |pair| pair.node) {
                Ok(at) => Some(commits[at].oid),
                Err(_) => map.oid(Table::Changesets, &node),
            };
            let commit = commit.ok_or_else(|| changelog.corrupt(rev, "it is not in the map"))?;
            Ok((BranchHead { rev: number, node, branch: branch.to_owned() }, commit))
        });
        heads.collect()
    }
}

/// The nodes of all tables, ascending.
fn keys(tables: &[&[Pair]]) -> Vec<Key> {
    let mut keys: Vec<_> =
        tables.iter().copied().flatten().map(|pair| *pair.node.as_bytes()).collect();
    keys.sort_unstable();
    keys
}
