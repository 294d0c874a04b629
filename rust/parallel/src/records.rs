//! Records of one length in a temporary file, for tables that grow with a history.
//!
//! The newest records are in memory, where most lookups find them. The file is read and written,
//! not mapped: a full disk is an error, and its pages do not count as memory of the process. It has
//! no name (`O_TMPFILE`), so a killed process leaves nothing. If the file system does not support
//! such files, all records stay in memory. Does not know the content of the records.

mod sorting;

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use crate::directory::Directory;

/// Limit of the records in memory. When it is reached, the older half is written to the file.
const NEWEST_BYTES: usize = 1 << 20;
/// Bytes read at a time.
const READ_BYTES: usize = 256 << 10;

/// Records by their number, in the order in which they were added.
#[derive(Debug)]
pub struct Records<const LEN: usize> {
    /// The directory of the file.
    dir: Directory,
    file: Option<File>,
    /// All records stay in memory, since no file can be made.
    is_memory: bool,
    /// Records in the file.
    older: usize,
    newest: Vec<[u8; LEN]>,
}

impl<const LEN: usize> Records<LEN> {
    /// Creates an empty table. Its file is made on the file system of `dir` once it is needed.
    #[must_use]
    pub fn new(dir: &Directory) -> Self {
        Self { dir: dir.clone(), file: None, is_memory: false, older: 0, newest: Vec::new() }
    }

    /// Number of records.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.older + self.newest.len()
    }

    /// Returns whether the table has no records.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a record. Its number is the length before.
    ///
    /// # Errors
    ///
    /// [`io::Error`] if the file cannot be made or written.
    pub fn push(&mut self, record: [u8; LEN]) -> io::Result<()> {
        self.newest.push(record);
        if self.newest.len() * LEN >= NEWEST_BYTES && !self.is_memory {
            self.move_older()?;
        }
        Ok(())
    }

    /// The record with this number.
    ///
    /// # Errors
    ///
    /// [`io::Error`] if the file cannot be read.
    ///
    /// # Panics
    ///
    /// If there is no such record.
    pub fn get(&self, number: usize) -> io::Result<[u8; LEN]> {
        match (number.checked_sub(self.older), &self.file) {
            (None, Some(file)) => {
                let mut record = [0; LEN];
                file.read_exact_at(&mut record, (number * LEN) as u64)?;
                Ok(record)
            }
            (at, _) => Ok(self.newest[at.unwrap_or(number)]),
        }
    }

    /// Calls `each` with all records, in order.
    ///
    /// # Errors
    ///
    /// [`io::Error`] if the file cannot be read, and those of `each`.
    pub fn for_each(&self, mut each: impl FnMut(&[u8; LEN]) -> io::Result<()>) -> io::Result<()> {
        if let Some(file) = &self.file {
            each_of(file, 0, self.older, &mut each)?;
        }
        self.newest.iter().try_for_each(each)
    }

    /// Moves half of the records in memory to the file.
    fn move_older(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            self.file = self.dir.create_nameless()?;
        }
        let Some(file) = &mut self.file else {
            self.is_memory = true;
            return Ok(());
        };
        let count = self.newest.len() / 2;
        file.write_all(self.newest[..count].as_flattened())?;
        self.newest.drain(..count);
        self.older += count;
        Ok(())
    }
}

/// Calls `each` with the next `left` records of `file`, from the byte at `start` on.
fn each_of<const LEN: usize>(
    file: &File,
    mut start: u64,
    mut left: usize,
    each: &mut impl FnMut(&[u8; LEN]) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0; left.min(READ_BYTES / LEN) * LEN];
    while left > 0 {
        let count = left.min(READ_BYTES / LEN);
        let bytes = &mut buffer[..count * LEN];
        file.read_exact_at(bytes, start)?;
        bytes.as_chunks().0.iter().try_for_each(&mut *each)?;
        start += bytes.len() as u64;
        left -= count;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
