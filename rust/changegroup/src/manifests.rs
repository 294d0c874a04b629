//! Manifests of a changegroup, and their new file revisions.

use hashbrown::{HashMap, HashSet};
use revlog::{Delta, Lines, Node, Parents, Rev, Revlog, Texts};

use crate::error::Result;
use crate::plan::{Form, PlannedDelta};

/// File revision in a manifest: number of the file, node, and number of the changeset.
pub(crate) type Listed = (u32, Node, u32);

/// Manifests of changesets, in a list: a hash table would take twice the memory.
#[derive(Debug, Default)]
pub(crate) struct Wanted(Vec<(Node, u32)>);

impl Wanted {
    /// Adds the manifest of a changeset.
    pub fn add(&mut self, manifest: Node, changeset: u32) {
        self.0.push((manifest, changeset));
    }

    /// Sorts by node and keeps the first changeset of each.
    pub fn sorted(self) -> SortedWanted {
        let mut wanted = self.0;
        wanted.sort_unstable();
        wanted.dedup_by_key(|(node, _)| *node);
        SortedWanted(wanted)
    }
}

/// Manifests of changesets, sorted by node.
#[derive(Debug)]
pub(crate) struct SortedWanted(Vec<(Node, u32)>);

impl SortedWanted {
    /// Revisions of the manifests, ascending, each linked to its first changeset; and whether the
    /// null manifest is among them.
    ///
    /// # Errors
    ///
    /// [`revlog::Error::Corrupt`] with a node that the revlog lacks.
    pub fn find(&self, manifests: &Revlog) -> Result<(Vec<(Rev, u32)>, bool)> {
        let wanted = &self.0;
        let with_null = wanted.first().is_some_and(|(node, _)| *node == Node::NULL);
        let wanted = &wanted[usize::from(with_null)..];
        let index = manifests.index();
        let mut found = Vec::with_capacity(wanted.len());
        for rev in index.revs().rev() {
            if found.len() == wanted.len() {
                break;
            }
            if let Ok(at) = wanted.binary_search_by_key(&index.node(rev), |(node, _)| *node) {
                found.push((rev, wanted[at].1));
            }
        }
        if found.len() < wanted.len() {
            let known: HashSet<Node> = found.iter().map(|(rev, _)| index.node(*rev)).collect();
            let missing = wanted.iter().find(|(node, _)| !known.contains(node));
            return missing.map_or(Ok((Vec::new(), with_null)), |(node, _)| {
                Err(manifests.missing(*node).into())
            });
        }
        found.reverse();
        Ok((found, with_null))
    }
}

/// Appends to `listed` the revisions of `files` in a manifest: those in its stored delta, if that
/// is against a parent, or all. Mercurial selects file revisions in the same way, and later leaves
/// out those of the receiver. `sent` is the delta in the changegroup.
pub(crate) fn list(
    manifests: &Revlog,
    PlannedDelta { rev, link: changeset, form }: PlannedDelta,
    sent: &[u8],
    files: &HashMap<Box<[u8]>, u32>,
    texts: &mut Texts<'_>,
    listed: &mut Vec<Listed>,
) -> Result<()> {
    let index = manifests.index();
    let Parents(p1, p2) = index.parents(rev);
    // without a length in the index, a text may have any length, also 0
    let of_parent = |base: &Rev| [p1, p2].contains(&Some(*base)) && index.text_len_hint(*base) > 0;
    if let Some(base) = index.delta_base(rev).filter(of_parent) {
        let stored;
        let bytes = if form == Form::Stored(base) {
            sent
        } else {
            stored = texts.stored(rev)?;
            &stored
        };
        let start = listed.len();
        let delta = Delta::parse(bytes, index.text_len_hint(base) as usize);
        let delta = delta.map_err(|problem| manifests.corrupt(rev, problem))?;
        let is_lined = delta.hunks().all(|hunk| add(hunk.data, changeset, files, listed).is_ok());
        if is_lined {
            return Ok(());
        }
        listed.truncate(start); // a hunk does not consist of whole lines
    }
    let text = texts.get(rev)?.text;
    let read = add(&text, changeset, files, listed);
    Ok(read.map_err(|problem| manifests.corrupt(rev, problem))?)
}

fn add(
    lines: &[u8],
    changeset: u32,
    files: &HashMap<Box<[u8]>, u32>,
    listed: &mut Vec<Listed>,
) -> Result<(), revlog::manifest::MalformedManifest> {
    for line in Lines::new(lines) {
        let line = line?;
        if let Some(&file) = files.get(line.path) {
            listed.push((file, line.node, changeset));
        }
    }
    Ok(())
}
