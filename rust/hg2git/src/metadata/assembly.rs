//! The assembly of the metadata commit from heads and maps.

use gitpack::{Oid, PackWriter};
use revlog::Node;

use crate::context::Context;
use crate::error::Result;
use crate::map::oidmap::OidMap;
use crate::map::segment::{Pair, Table};
use crate::metadata::commit::{self, BranchHead, Covered};
use crate::metadata::heads::manifest_heads;
use crate::metadata::tables::NotesTables;
use crate::objects::branchheads::BranchHeads;

/// The maps, and the new pairs of this run.
pub(crate) struct MetadataAssembly<'a> {
    pub context: Context<'a>,
    pub metadata_map: &'a OidMap,
    /// New pairs of the run, for both maps.
    pub new: &'a [Vec<Pair>; 3],
    pub new_metadata: &'a [Vec<Pair>; 3],
}

impl MetadataAssembly<'_> {
    /// Adds the metadata commit to `pack`, with the objects that only it needs, and returns its
    /// oid.
    ///
    /// # Errors
    ///
    /// [`crate::Error`] if the pack cannot be written, or a head is not in the map.
    pub fn write(&self, pack: &mut PackWriter, heads: &BranchHeads) -> Result<Oid> {
        let Context { request, manifest, map, memory_plan, .. } = self.context;
        let [commits, _, blobs] = self.new;
        let [notes, manifests, files] = self.new_metadata;
        let mut leaves: [NotesTables<'_>; 3] = Default::default();
        let [hg2git, git2hg, files_meta] = &mut leaves;
        hg2git.add(map, Table::Changesets, commits);
        hg2git.add(self.metadata_map, Table::Manifests, manifests);
        hg2git.add(map, Table::Files, blobs);
        git2hg.add(self.metadata_map, Table::Changesets, notes);
        files_meta.add(self.metadata_map, Table::Files, files);
        let heads = self.commits_of(heads)?;
        let commit_of = |node: &Node| oid(self.metadata_map, manifests, Table::Manifests, node);
        let manifest_heads = manifest_heads(manifest, commit_of);
        commit::write(pack, Covered { heads, manifest_heads, leaves }, memory_plan, request.level)
    }

    /// Heads with their nodes and commits.
    fn commits_of(&self, heads: &BranchHeads) -> Result<Vec<BranchHead>> {
        let Context { changelog, map, .. } = self.context;
        let index = changelog.index();
        let [commits, ..] = self.new;
        let heads = heads.iter().map(|(number, branch)| {
            let rev = index.rev(number).expect("heads are revisions");
            let node = index.node(rev);
            let commit = oid(map, commits, Table::Changesets, &node);
            let commit = commit.ok_or_else(|| changelog.corrupt(rev, "it is not in the map"))?;
            Ok(BranchHead { node, branch: branch.to_owned(), commit })
        });
        heads.collect()
    }
}

/// The oid of a node, from the `new` pairs or from a table of `map`.
fn oid(map: &OidMap, new: &[Pair], table: Table, node: &Node) -> Option<Oid> {
    match new.binary_search_by_key(node, |pair| pair.node) {
        Ok(at) => Some(new[at].oid),
        Err(_) => map.oid(table, node),
    }
}
