//! The bytes of an immutable file: mapped, or read whole.
//!
//! Knows no format. The caller has read the header and knows the length.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;

use memmap2::Mmap;

/// The way to read a file. Truncation of a mapped file kills the process that maps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Memory-mapped: the file takes no memory, and no time to open.
    Mapped,
    /// Read into memory, up to a limit.
    Read,
}

/// Longest file that is read into memory, in bytes.
const MOST_READ: u64 = 0x4000_0000;

/// The bytes of a file.
#[derive(Debug)]
pub(crate) enum Content {
    Mapped(Mmap),
    Read(Vec<u8>),
}

/// The error of reading a file.
#[derive(Debug)]
pub(crate) enum Unread {
    Io(io::Error),
    Other(&'static str),
}

impl Content {
    /// The content of a file of length `len`, whose `header` has been read.
    ///
    /// # Errors
    ///
    /// [`Unread`] if the file cannot be read, was cut, or is too large to be read.
    pub fn of(file: File, header: &[u8], len: u64, access: Access) -> Result<Self, Unread> {
        let content = match access {
            // SAFETY: such files are never written after the rename that named them, only unlinked,
            // so the mapped bytes do not change. An edit by hand breaks that contract. Only files
            // of trusted owners are mapped.
            #[allow(unsafe_code)]
            Access::Mapped => Self::Mapped(unsafe { Mmap::map(&file) }.map_err(Unread::Io)?),
            Access::Read if len > MOST_READ => {
                let what = "it is too large to be read, and its owner is not trusted";
                return Err(Unread::Other(what));
            }
            Access::Read => Self::Read(whole(header, file, len).map_err(Unread::Io)?),
        };
        if content.len() as u64 == len {
            Ok(content)
        } else {
            Err(Unread::Other("it was cut while it was read"))
        }
    }
}

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Read(bytes) => bytes,
        }
    }
}

/// Reads the bytes behind the header, up to the length that the file had when it was opened.
fn whole(header: &[u8], file: File, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let room = usize::try_from(len).map_err(io::Error::other)?;
    bytes.try_reserve_exact(room).map_err(io::Error::other)?;
    bytes.extend_from_slice(header);
    file.take(len.saturating_sub(header.len() as u64)).read_to_end(&mut bytes)?;
    Ok(bytes)
}
