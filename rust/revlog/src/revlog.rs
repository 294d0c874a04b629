//! One revlog: its checked index and its data file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::index::{Index, Rev};
use crate::node::Node;

/// An open revlog; threads may share it. Reading its texts needs a [`crate::Texts`] each.
#[derive(Debug)]
pub struct Revlog {
    index: Index,
    name: String,
    index_path: PathBuf,
    data_path: PathBuf,
    data_file: OnceLock<File>,
}

impl Revlog {
    pub(crate) const fn new(
        index: Index,
        name: String,
        index_path: PathBuf,
        data_path: PathBuf,
    ) -> Self {
        Self { index, name, index_path, data_path, data_file: OnceLock::new() }
    }

    /// The entries.
    #[must_use]
    pub const fn index(&self) -> &Index {
        &self.index
    }

    /// The error that blames `rev` for `what`.
    #[must_use]
    pub fn corrupt(&self, rev: Rev, what: impl std::fmt::Display) -> Error {
        Error::Corrupt {
            revlog: self.name.clone(),
            path: self.index_path.clone(),
            what: format!("revision {}: {what}", rev.number()),
        }
    }

    /// The error that blames `rev` for something valid that is not known here.
    #[must_use]
    pub fn unsupported(&self, rev: Rev, what: impl std::fmt::Display) -> Error {
        let what = format!("revision {}: {what}", rev.number());
        Error::Unsupported { revlog: self.name.clone(), what }
    }

    /// The error for a node that the index has not.
    #[must_use]
    pub fn missing(&self, node: Node) -> Error {
        let what = format!("there is no revision {node}");
        Error::Corrupt { revlog: self.name.clone(), path: self.index_path.clone(), what }
    }

    /// The revisions with these nodes, in their order; the newest are found first.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] that names the first node which is not in the index.
    pub fn find(&self, nodes: &[Node]) -> Result<Vec<Rev>> {
        let mut wanted: HashMap<Node, Option<Rev>> =
            nodes.iter().map(|&node| (node, None)).collect();
        let mut left = wanted.len();
        for rev in self.index.revs().rev() {
            if left == 0 {
                break;
            }
            if let Some(found @ None) = wanted.get_mut(&self.index.node(rev)) {
                *found = Some(rev);
                left -= 1;
            }
        }
        nodes.iter().map(|node| wanted[node].ok_or_else(|| self.missing(*node))).collect()
    }

    /// Reads at least `least` bytes, and at most the room of `out`, from byte `offset` of the
    /// data file; cuts `out` to what was read.
    pub(crate) fn read_data(&self, offset: u64, least: usize, out: &mut Vec<u8>) -> Result<()> {
        let failed = |source| Error::Io { path: self.data_path.clone(), source };
        let file = match self.data_file.get() {
            Some(file) => file,
            None => {
                let opened = File::open(&self.data_path).map_err(failed)?;
                self.data_file.get_or_init(|| opened)
            }
        };
        let mut filled = 0;
        while filled < out.len() {
            match file.read_at(&mut out[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(problem) if problem.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(failed(source)),
            }
        }
        out.truncate(filled);
        if filled < least {
            let what = format!("data file ends before byte {}", offset + least as u64);
            return Err(Error::Corrupt {
                revlog: self.name.clone(),
                path: self.data_path.clone(),
                what,
            });
        }
        Ok(())
    }
}
