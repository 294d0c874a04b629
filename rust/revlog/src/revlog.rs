//! Revlog: its checked index and its data file.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use parallel::Buffer;

use crate::error::{Error, Result};
use crate::index::{Index, Rev};
use crate::node::Node;

/// Open revlog, which threads may share. Each reads texts with a [`crate::Texts`] of its own.
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

    /// Index of the revlog.
    #[must_use]
    pub const fn index(&self) -> &Index {
        &self.index
    }

    /// Path of the index file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.index_path
    }

    /// Checks that all entries used so far are valid. A mapped index is checked on use.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] with the first invalid entry.
    pub fn check_used(&self) -> Result<()> {
        self.index.problem().map_or(Ok(()), |problem| {
            let (revlog, path) = (self.name.clone(), self.index_path.clone());
            Err(Error::Corrupt { revlog, path, what: problem.to_string() })
        })
    }

    /// Error about a damaged revision.
    #[must_use]
    pub fn corrupt(&self, rev: Rev, what: impl std::fmt::Display) -> Error {
        Error::Corrupt {
            revlog: self.name.clone(),
            path: self.index_path.clone(),
            what: format!("revision {}: {what}", rev.number()),
        }
    }

    /// Error about an unsupported revision.
    #[must_use]
    pub fn unsupported(&self, rev: Rev, what: impl std::fmt::Display) -> Error {
        let what = format!("revision {}: {what}", rev.number());
        Error::Unsupported { revlog: self.name.clone(), what }
    }

    /// Error about a node that the index lacks.
    #[must_use]
    pub fn missing(&self, node: Node) -> Error {
        let what = format!("there is no revision {node}");
        Error::Corrupt { revlog: self.name.clone(), path: self.index_path.clone(), what }
    }

    /// Revisions of these nodes, in their order. The search begins at the newest.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] with the first node that the index lacks.
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

    /// Replaces `out` by bytes of the data file from `offset` on: the chunk of `rev` of `len`
    /// bytes, and the bytes after it, up to `most` in all.
    pub(crate) fn read_data(
        &self,
        rev: Rev,
        (offset, len): (u64, usize),
        most: usize,
        out: &mut Buffer,
    ) -> Result<()> {
        let failed = |source| Error::Io { path: self.data_path.clone(), source };
        let blame = |what: &str| Error::Corrupt {
            revlog: self.name.clone(),
            path: self.data_path.clone(),
            what: format!("revision {}: {what}", rev.number()),
        };
        let file = match self.data_file.get() {
            Some(file) => file,
            None => {
                let opened =
                    open_file(&self.data_path).map_err(|problem| match problem.kind() {
                        io::ErrorKind::NotFound => blame("there is no data file"),
                        _ => failed(problem),
                    })?;
                self.data_file.get_or_init(|| opened)
            }
        };
        // a hostile length must not allocate more than the file has
        let there = file.metadata().map_err(failed)?.len().saturating_sub(offset);
        if there < len as u64 {
            return Err(blame("its data ends after the file"));
        }
        out.resize(usize::try_from(there).unwrap_or(most).min(most))?;
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
        // the file may have been truncated meanwhile
        if filled < len { Err(blame("its data ends after the file")) } else { Ok(()) }
    }
}

/// Opens a regular file, or a link to one. Does not block on a FIFO.
///
/// # Errors
///
/// Errors of the system; [`io::ErrorKind::InvalidInput`] if it is not a regular file.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        rustix::fs::OFlags::NONBLOCK.bits().cast_signed(),
    );
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(file)
}
