//! Bytes of a node map on disk: mapped if they cannot change, otherwise read.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::unix::fs::FileExt;

use memmap2::{Advice, Mmap, MmapOptions};

/// Beginning of a file.
#[derive(Debug)]
pub(super) enum NodeBytes {
    Mapped(Mmap),
    Read(Vec<u8>),
}

impl NodeBytes {
    /// Maps the first `len` bytes of an append-only file that is never truncated below `len`.
    ///
    /// That holds for our files and for Mercurial's, since Mercurial's own readers rely on it.
    pub(super) fn map(file: &File, len: u64) -> io::Result<Option<Self>> {
        let Some(len) = fitting(file, len)? else { return Ok(None) };
        if len == 0 {
            return Ok(Some(Self::Read(Vec::new())));
        }
        // SAFETY: the mapped bytes do not change, as said above: files grow, and are replaced by
        // others with another name. Editing them by hand breaks that contract.
        #[allow(unsafe_code)]
        let map = unsafe { MmapOptions::new().len(len).map(file) }?;
        // a lookup needs single pages: read-ahead would fetch 32 for each
        map.advise(Advice::Random)?;
        Ok(Some(Self::Mapped(map)))
    }

    /// Reads the first `len` bytes of a file.
    pub(super) fn read(file: &File, len: u64) -> io::Result<Option<Self>> {
        let Some(len) = fitting(file, len)? else { return Ok(None) };
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(Some(Self::Read(bytes)))
    }
}

/// `len`, if the file is a regular one with at least `len` bytes.
fn fitting(file: &File, len: u64) -> io::Result<Option<usize>> {
    let found = file.metadata()?;
    Ok(if found.is_file() && found.len() >= len { usize::try_from(len).ok() } else { None })
}

impl Deref for NodeBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Read(bytes) => bytes,
        }
    }
}
