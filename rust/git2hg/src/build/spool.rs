//! Growing temporary file, readable at any place.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

use parallel::Directory;

use crate::error::{Error, Result};

/// Bytes of the write buffer.
const HELD_BYTES: usize = 128 << 10;

/// Temporary file with its write buffer.
#[derive(Debug)]
pub(crate) struct Spool {
    file: File,
    written: u64,
    held: Vec<u8>,
}

impl Spool {
    /// Creates an empty one, on the file system of `dir`.
    pub fn new(dir: &Directory, name: &str) -> Result<Self> {
        let file = match dir.create_nameless().map_err(Error::Scratch)? {
            Some(file) => file,
            None => {
                let file = dir.create(name, 0o600).map_err(Error::Scratch)?;
                dir.remove(name).map_err(Error::Scratch)?;
                file
            }
        };
        Ok(Self { file, written: 0, held: Vec::with_capacity(HELD_BYTES) })
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.written + self.held.len() as u64
    }

    /// Empties it.
    pub fn clear(&mut self) -> Result<()> {
        if self.written > 0 {
            self.file.set_len(0).map_err(Error::Scratch)?;
        }
        self.written = 0;
        self.held.clear();
        Ok(())
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) -> Result<()> {
        if self.held.len() + bytes.len() > HELD_BYTES {
            self.flush()?;
        }
        if bytes.len() > HELD_BYTES {
            self.file.write_all_at(bytes, self.written).map_err(Error::Scratch)?;
            self.written += bytes.len() as u64;
        } else {
            self.held.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.file.write_all_at(&self.held, self.written).map_err(Error::Scratch)?;
        self.written += self.held.len() as u64;
        self.held.clear();
        Ok(())
    }

    /// Replaces `out` by `len` bytes from `at` on.
    pub fn read(&mut self, at: u64, len: usize, out: &mut Vec<u8>) -> Result<()> {
        out.resize(len, 0);
        self.read_exact(at, out)
    }

    /// Fills `out` with the bytes from `at` on.
    pub fn read_exact(&mut self, at: u64, out: &mut [u8]) -> Result<()> {
        if let Some(start) = at.checked_sub(self.written).and_then(|at| usize::try_from(at).ok()) {
            // still in the write buffer
            let held = start.checked_add(out.len()).and_then(|end| self.held.get(start..end));
            if let Some(held) = held {
                out.copy_from_slice(held);
                return Ok(());
            }
        }
        if at + out.len() as u64 > self.written {
            self.flush()?;
        }
        self.file.read_exact_at(out, at).map_err(Error::Scratch)
    }

    /// Copies `len` bytes from `at` on to `out`.
    pub fn copy(&mut self, mut at: u64, len: u64, out: &mut impl Write) -> Result<()> {
        self.flush()?;
        let end = at + len;
        let mut piece = vec![0; HELD_BYTES.min(usize::try_from(len).unwrap_or(HELD_BYTES))];
        while at < end {
            let len = piece.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
            self.file.read_exact_at(&mut piece[..len], at).map_err(Error::Scratch)?;
            out.write_all(&piece[..len]).map_err(Error::Output)?;
            at += len as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_can_be_read_whether_it_was_written_or_not() {
        let scratch = tempfile::tempdir().expect("is made");
        let dir = Directory::open(scratch.path()).expect("is there");
        let mut spool = Spool::new(&dir, "spool").expect("is made");
        let mut all = Vec::new();
        for number in 0..200_u8 {
            let piece = vec![number; 1 + usize::from(number) * 13];
            spool.push(&piece).expect("is written");
            all.extend_from_slice(&piece);
            let mut read = Vec::new();
            for at in [all.len() - piece.len(), all.len() / 2, 0] {
                let len = (all.len() - at).min(3000);
                spool.read(at as u64, len, &mut read).expect("is there");
                assert_eq!(read, &all[at..at + len]);
            }
        }
        assert_eq!(spool.len(), all.len() as u64);
    }
}
