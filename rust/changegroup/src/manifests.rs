//! The manifests of a changegroup, and the file revisions that are new in them.

use hashbrown::HashMap;
use revlog::{Delta, Lines, Node, Parents, Rev, Revlog, Texts};

use crate::error::Result;
use crate::plan::{Form, PlannedDelta};

/// A file revision that a manifest has: number of the file, node, and number of the changeset.
pub(crate) type Listed = (u32, Node, u32);

/// The first changeset with each manifest.
#[derive(Debug, Default)]
pub(crate) struct Wanted(HashMap<Node, u32>);

impl Wanted {
    /// Notes the manifest of a changeset; those come in ascending order.
    pub fn add(&mut self, manifest: Node, changeset: u32) {
        self.0.entry(manifest).or_insert(changeset);
    }

    /// The revisions, ascending, with their links; and whether the empty tree is among them.
    ///
    /// # Errors
    ///
    /// [`revlog::Error::Corrupt`] that names a node which the revlog has not.
    pub fn find(mut self, manifests: &Revlog) -> Result<(Vec<(Rev, u32)>, bool)> {
        let with_null = self.0.remove(&Node::NULL).is_some();
        let index = manifests.index();
        let mut found = Vec::with_capacity(self.0.len());
        for rev in index.revs().rev() {
            if found.len() == self.0.len() {
                break;
            }
            if let Some(&link) = self.0.get(&index.node(rev)) {
                found.push((rev, link));
            }
        }
        if found.len() < self.0.len() {
            for (rev, _) in &found {
                self.0.remove(&index.node(*rev));
            }
            let missing = self.0.keys().min().map(|node| manifests.missing(*node));
            return missing.map_or(Ok((Vec::new(), with_null)), |problem| Err(problem.into()));
        }
        found.reverse();
        Ok((found, with_null))
    }
}

/// Appends to `listed` the revisions of `files` that a manifest has and its stored delta
/// changes; all that it has, if that delta is not of a parent. So Mercurial looks for what to send, and
/// leaves out later what the receiver has. `sent` is the delta that the manifest is sent as.
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
    if let Some(base) = index.delta_base(rev).filter(|base| [p1, p2].contains(&Some(*base))) {
        let stored;
        let bytes = if form == Form::Stored(base) {
            sent
        } else {
            stored = texts.stored(rev)?;
            &stored
        };
        let start = listed.len();
        let base_len = match index.text_len_hint(base) {
            0 => i32::MAX as usize,
            len => len as usize,
        };
        let delta = Delta::parse(bytes, base_len);
        let delta = delta.map_err(|problem| manifests.corrupt(rev, problem))?;
        let is_lined = delta.hunks().all(|hunk| add(hunk.data, changeset, files, listed).is_ok());
        if is_lined {
            return Ok(());
        }
        listed.truncate(start); // it was not made of whole lines
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
