//! Heads counted again from the store, for when their state is lost or the store lost one of them.
//!
//! Reads every changeset that is in the map once.

use revlog::{Node, Parents, Rev, Revlog, Scratch, Texts};

use crate::dialect::cinnabar::heads::{ChangesetHeads, ManifestHeads, branch_of};
use crate::error::Result;
use crate::map::oidmap::OidMap;
use crate::map::segment::Table;
use crate::read::changelog::{KEPT_TEXT_BYTES, parse};

/// The heads of branches among the changesets of `map`.
///
/// # Errors
///
/// [`crate::Error::Store`] that names a changeset which cannot be read.
pub(crate) fn changeset_heads(
    changelog: &Revlog,
    map: &OidMap,
    scratch: &mut Scratch,
) -> Result<ChangesetHeads> {
    let mut texts = Texts::new(changelog, scratch, KEPT_TEXT_BYTES);
    let index = changelog.index();
    let mut heads = ChangesetHeads::default();
    let has = |rev: Rev| map.oid(Table::Changesets, &index.node(rev)).is_some();
    for rev in index.revs().filter(|rev| has(*rev)) {
        let text = texts.get(rev)?.text;
        let Parents(p1, p2) = index.parents(rev);
        let parents = [p1, p2].into_iter().flatten().map(Rev::number);
        heads.add(rev.number(), parents, branch_of(&parse(changelog, rev, &text)?));
        texts.recycle(text);
    }
    Ok(heads)
}

/// The heads among the manifests of the metadata's map.
pub(crate) fn manifest_heads(manifest: &Revlog, map: &OidMap) -> ManifestHeads {
    let index = manifest.index();
    let commit = |node: Node| map.oid(Table::Manifests, &node);
    let mut heads = ManifestHeads::default();
    for rev in index.revs() {
        if let Some(own) = commit(index.node(rev)) {
            let Parents(p1, p2) = index.parents(rev);
            let parents = [p1, p2].into_iter().flatten();
            let parents: Vec<_> = parents.filter_map(|parent| commit(index.node(parent))).collect();
            heads.add(own, &parents);
        }
    }
    heads
}
