//! The changegroup that a conversion writes: what it has made, in the order that is asked for.

use std::fs::File;
use std::io::{BufWriter, Read, Write};

use changegroup::{END, GroupVersion, RevisionChunk};

use crate::convert::{ChangesetBuilder, ChangesetPairs};
use crate::error::{Error, Result};

impl<W: Write, R: Read> ChangesetBuilder<'_, W, R> {
    /// Writes the changegroup, and answers the changesets.
    pub(super) fn write(mut self, out: &File) -> Result<ChangesetPairs> {
        let mut out = BufWriter::with_capacity(1 << 20, out);
        let len = self.changesets.len();
        self.changesets.copy(0, len, &mut out)?;
        out.write_all(&END).map_err(Error::Output)?;
        let made = self.made;
        let link_node = |link: u32| made[link as usize].1;
        let (mut bytes, mut delta) = (Vec::new(), Vec::new());
        for new in self.manifests.new_ones().to_vec() {
            let base = self.manifests.delta(&new, &mut delta)?;
            let [p1, p2] = new.parents.map(|parent| self.manifests.node(parent));
            let link = link_node(new.link);
            let chunk = RevisionChunk { node: new.node, parents: [p1, p2], base, link, flags: 0 };
            bytes.clear();
            chunk.push_head(self.version, delta.len(), &mut bytes)?;
            bytes.extend_from_slice(&delta);
            out.write_all(&bytes).map_err(Error::Output)?;
        }
        out.write_all(&END).map_err(Error::Output)?;
        if self.version == GroupVersion::V03 {
            out.write_all(&END).map_err(Error::Output)?; // of the manifests of directories
        }
        self.files.write(link_node, &mut out)?;
        out.write_all(&END).map_err(Error::Output)?;
        out.flush().map_err(Error::Output)?;
        Ok(made)
    }
}
