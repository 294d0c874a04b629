//! A memory budget for texts, and buffers that spill to a temporary file beyond it.
//!
//! Owns the accounting. A [`Buffer`] is used like a vector, in memory or in a file. Small buffers
//! are not counted: their owners limit the number that they keep. `docs/decisions/memory.rst` has
//! the rules of counting and their reasons.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::pages::{Keeper, Pages};

/// Size from which a buffer is counted. Smaller ones are always memory.
const SMALLEST_COUNTED: usize = 64 << 10;

/// A limit of memory for buffers, shared by threads.
#[derive(Debug)]
pub struct Budget {
    most_bytes: usize,
    taken_bytes: AtomicUsize,
    /// Directory of the files of spilled buffers.
    dir: Directory,
    /// Thread that releases pages of files, started with the first file.
    keeper: Mutex<Option<Keeper>>,
}

impl Budget {
    /// Creates a budget of `most_bytes` of memory for all its buffers.
    ///
    /// Buffers beyond it go to files without names on the file system of `dir`. If that file system
    /// cannot reserve room, they stay in memory.
    #[must_use]
    pub fn new(most_bytes: usize, dir: &Directory) -> Arc<Self> {
        let (taken_bytes, keeper) = (AtomicUsize::new(0), Mutex::new(None));
        Arc::new(Self { most_bytes, taken_bytes, dir: dir.clone(), keeper })
    }

    /// Memory of all counted buffers at this moment.
    #[must_use]
    pub fn taken_bytes(&self) -> usize {
        self.taken_bytes.load(Ordering::Relaxed)
    }

    /// Takes `bytes` more for a buffer; false if the budget has too few.
    fn take(&self, bytes: usize) -> bool {
        let more = |taken: usize| taken.checked_add(bytes).filter(|all| *all <= self.most_bytes);
        self.taken_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.taken_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Creates pages of a file; `None` if the file system cannot reserve room.
    fn pages(&self, len: usize) -> Result<Option<Pages>> {
        let failed = |source| Error { path: self.dir.path().to_owned(), source };
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        let keeper = match &mut *keeper {
            Some(keeper) => keeper,
            none => none.insert(Keeper::start().map_err(failed)?),
        };
        Pages::new(&self.dir, len, keeper).map_err(failed)
    }
}

/// Bytes in memory, or in the pages of a file.
#[derive(Debug, Default)]
pub struct Buffer {
    place: Place,
    /// The budget, if any. A buffer without one is always memory.
    budget: Option<Arc<Budget>>,
    /// Bytes taken from the budget.
    taken_bytes: usize,
}

#[derive(Debug)]
enum Place {
    Memory(Vec<u8>),
    /// Pages, and the number of their bytes in use.
    File(Pages, usize),
}

impl Default for Place {
    fn default() -> Self {
        Self::Memory(Vec::new())
    }
}

impl Buffer {
    /// Creates an empty buffer, within `budget` if one is given.
    #[must_use]
    pub const fn new(budget: Option<Arc<Budget>>) -> Self {
        Self { place: Place::Memory(Vec::new()), budget, taken_bytes: 0 }
    }

    /// Number of bytes that the buffer can hold without moving.
    #[must_use]
    pub fn capacity(&self) -> usize {
        match &self.place {
            Place::Memory(bytes) => bytes.capacity(),
            Place::File(pages, _) => pages.bytes().len(),
        }
    }

    /// Returns whether the bytes are in memory.
    #[must_use]
    pub const fn is_memory(&self) -> bool {
        matches!(self.place, Place::Memory(_))
    }

    /// Makes room for `more` bytes after the present ones. If these must move, the room at least
    /// doubles.
    ///
    /// # Errors
    ///
    /// [`Error`] if a file is needed and cannot be made, or the disk is full.
    pub fn reserve(&mut self, more: usize) -> Result<()> {
        if self.len() + more <= self.capacity() {
            return Ok(());
        }
        self.grow((self.len() + more).max(self.capacity() * 2))
    }

    /// Makes room for exactly `more` bytes after the present ones.
    ///
    /// # Errors
    ///
    /// As [`Self::reserve`].
    pub fn reserve_exact(&mut self, more: usize) -> Result<()> {
        if self.len() + more <= self.capacity() { Ok(()) } else { self.grow(self.len() + more) }
    }

    /// Appends `bytes`.
    ///
    /// # Errors
    ///
    /// As [`Self::reserve`].
    pub fn extend_from_slice(&mut self, bytes: &[u8]) -> Result<()> {
        self.reserve(bytes.len())?;
        match &mut self.place {
            Place::Memory(vec) => vec.extend_from_slice(bytes),
            Place::File(pages, len) => {
                pages.bytes_mut()[*len..*len + bytes.len()].copy_from_slice(bytes);
                *len += bytes.len();
            }
        }
        Ok(())
    }

    /// Changes the length to `len` bytes. Added bytes have any value.
    ///
    /// # Errors
    ///
    /// As [`Self::reserve`].
    pub fn resize(&mut self, len: usize) -> Result<()> {
        self.reserve_exact(len.saturating_sub(self.len()))?;
        match &mut self.place {
            Place::Memory(vec) => vec.resize(len, 0),
            Place::File(_, used) => *used = len,
        }
        Ok(())
    }

    /// Keeps the first `len` bytes. A shorter buffer is left unchanged.
    pub fn truncate(&mut self, len: usize) {
        match &mut self.place {
            Place::Memory(vec) => vec.truncate(len),
            Place::File(_, used) => *used = len.min(*used),
        }
    }

    /// Removes all bytes, and keeps the memory or file.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Removes all bytes, and frees the memory or file.
    pub fn discard(&mut self) {
        *self = Self::new(self.budget.clone());
    }

    /// All bytes.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match &self.place {
            Place::Memory(vec) => vec,
            Place::File(pages, len) => &pages.bytes()[..*len],
        }
    }

    /// Makes room for `len` bytes in all: memory within the budget, or a file.
    fn grow(&mut self, len: usize) -> Result<()> {
        if let Some(budget) = self.budget.as_ref().filter(|_| len >= SMALLEST_COUNTED) {
            // The old room is not counted during the short time in which bytes move.
            if self.is_memory() && budget.take(len - self.taken_bytes) {
                self.taken_bytes = len;
            } else if let Some(mut pages) = budget.pages(len)? {
                let used = self.len();
                pages.bytes_mut()[..used].copy_from_slice(self.as_slice());
                budget.give_back(std::mem::take(&mut self.taken_bytes));
                self.place = Place::File(pages, used);
                return Ok(());
            }
        }
        match &mut self.place {
            // an allocator that moves the vector would copy unused bytes
            Place::Memory(vec) if vec.is_empty() => {
                *vec = Vec::new();
                vec.reserve_exact(len);
            }
            Place::Memory(vec) => vec.reserve_exact(len - vec.len()),
            Place::File(pages, used) => {
                let mut vec = Vec::with_capacity(len);
                vec.extend_from_slice(&pages.bytes()[..*used]);
                self.place = Place::Memory(vec);
            }
        }
        Ok(())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(budget) = self.budget.as_ref().filter(|_| self.taken_bytes > 0) {
            budget.give_back(self.taken_bytes);
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.place {
            Place::Memory(vec) => vec,
            Place::File(pages, len) => &mut pages.bytes_mut()[..*len],
        }
    }
}

impl From<Vec<u8>> for Buffer {
    /// Wraps a vector in a buffer without a budget.
    fn from(bytes: Vec<u8>) -> Self {
        Self { place: Place::Memory(bytes), budget: None, taken_bytes: 0 }
    }
}

#[cfg(test)]
mod tests;
