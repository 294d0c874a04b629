//! The part of a run that makes the metadata commit: what it is of, and what of it is known.

use gitpack::{Oid, PackWriter};
use revlog::{Revlog, Scratch};
use workshop::Shares;

use crate::dialect::cinnabar::heads::{ChangesetHeads, ManifestHeads};
use crate::dialect::cinnabar::leaves::Leaves;
use crate::dialect::cinnabar::metadata::{self, Covered};
use crate::dialect::cinnabar::notes::Key;
use crate::dialect::cinnabar::recovery;
use crate::dialect::cinnabar::state::{Head, State};
use crate::error::Result;
use crate::map::oidmap::OidMap;
use crate::map::segment::{Pair, Table};
use crate::out::publish::New;
use crate::request::Request;

/// What the metadata commit of a run is made from.
pub(crate) struct Tip<'a> {
    pub request: &'a Request<'a>,
    pub map: &'a OidMap,
    pub metadata_map: &'a OidMap,
    pub changelog: &'a Revlog,
    pub shares: &'a Shares,
}

impl Tip<'_> {
    /// The state before the run, and the heads of branches in it. Both are counted again if there
    /// is none, or if the changelog has lost one of its heads; notes trees are then made anew.
    ///
    /// # Errors
    ///
    /// [`crate::Error`] if the state or, to count again, the changelog cannot be read.
    pub fn state(&self, manifest: &Revlog) -> Result<(State, ChangesetHeads)> {
        let Request { map: directory, metadata, .. } = self.request;
        let state = match &metadata.state {
            Some(name) => Some(State::open(directory, name)?),
            None if self.map.is_empty() => Some(State::default()),
            None => None,
        };
        if let Some(state) = state
            && let Some(heads) = state.changeset_heads(self.changelog)
        {
            return Ok((state, heads));
        }
        let manifest_heads = recovery::manifest_heads(manifest, self.metadata_map);
        let heads =
            recovery::changeset_heads(self.changelog, self.map, &mut Scratch::of(self.shares))?;
        Ok((State { manifest_heads, ..State::default() }, heads))
    }

    /// Adds to `pack` what is new in the metadata, and answers the state after it.
    ///
    /// # Errors
    ///
    /// [`crate::Error`] if the pack cannot be written, or a head is not in the map.
    pub fn write(
        &self,
        pack: &mut PackWriter,
        before: State,
        (heads, manifest_heads): (&ChangesetHeads, ManifestHeads),
        new: &New,
    ) -> Result<State> {
        let heads = self.commits_of(heads, new)?;
        let [commits, _, blobs] = &new.map;
        let [notes, manifests, files] = &new.metadata;
        let mut leaves: [Leaves<'_>; 3] = Default::default();
        let [hg2git, git2hg, files_meta] = &mut leaves;
        hg2git.add(self.map, Table::Changesets, commits);
        hg2git.add(self.metadata_map, Table::Manifests, manifests);
        hg2git.add(self.map, Table::Files, blobs);
        git2hg.add(self.metadata_map, Table::Changesets, notes);
        files_meta.add(self.metadata_map, Table::Files, files);
        // a state that was counted again has no notes trees, and nor has that of nothing
        let is_whole = self.request.metadata.anew || before.notes == State::default().notes;
        let new_keys = (!is_whole)
            .then(|| [keys(&[commits, manifests, blobs]), keys(&[notes]), keys(&[files])]);
        let covered = Covered { heads, manifest_heads, leaves, new_keys };
        metadata::write(pack, before, covered, self.shares, self.request.level)
    }

    /// Heads with their nodes and commits.
    fn commits_of(&self, heads: &ChangesetHeads, new: &New) -> Result<Vec<(Head, Oid)>> {
        let index = self.changelog.index();
        let [commits, ..] = &new.map;
        let heads = heads.iter().map(|(number, branch)| {
            let rev = index.rev(number).expect("heads are revisions");
            let node = index.node(rev);
            let commit = match commits.binary_search_by_key(&node, |pair| pair.node) {
                Ok(at) => Some(commits[at].oid),
                Err(_) => self.map.oid(Table::Changesets, &node),
            };
            let commit =
                commit.ok_or_else(|| self.changelog.corrupt(rev, "it is not in the map"))?;
            Ok((Head { rev: number, node, branch: branch.to_owned() }, commit))
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
