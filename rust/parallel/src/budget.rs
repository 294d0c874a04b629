//! A memory budget for texts, and buffers that go to a temporary file beyond it.
//!
//! Owns the accounting. A [`Buffer`] is used like a vector, wherever its bytes are. Small buffers
//! are not counted: their owners bound how many they keep. `docs/decisions/memory.rst` says what is
//! counted and why.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::pages::{Keeper, Pages};

/// Buffers of less than this are memory, and not counted.
const SMALLEST_COUNTED: usize = 64 << 10;

/// So many bytes of memory for buffers, shared by threads.
#[derive(Debug)]
pub struct Budget {
    most_bytes: usize,
    taken_bytes: AtomicUsize,
    /// Where files are made for what exceeds it.
    dir: Directory,
    /// Started with the first of them.
    keeper: Mutex<Option<Keeper>>,
}

impl Budget {
    /// Lets buffers take `most_bytes` of memory together. What exceeds that goes to files without names
    /// on the file system of `dir`; or stays in memory, where that file system cannot reserve room.
    #[must_use]
    pub fn new(most_bytes: usize, dir: &Directory) -> Arc<Self> {
        let (taken_bytes, keeper) = (AtomicUsize::new(0), Mutex::new(None));
        Arc::new(Self { most_bytes, taken_bytes, dir: dir.clone(), keeper })
    }

    /// Bytes that buffers have now.
    #[must_use]
    pub fn taken_bytes(&self) -> usize {
        self.taken_bytes.load(Ordering::Relaxed)
    }

    /// Takes `bytes` in addition to what a buffer has, if they are left.
    fn take(&self, bytes: usize) -> bool {
        let more = |taken: usize| taken.checked_add(bytes).filter(|all| *all <= self.most_bytes);
        self.taken_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.taken_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Pages of a file; `None` where that is not safe.
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
    /// Without one, all of it is memory.
    budget: Option<Arc<Budget>>,
    /// Bytes taken of the budget.
    taken_bytes: usize,
}

#[derive(Debug)]
enum Place {
    Memory(Vec<u8>),
    /// Pages, and how many of their bytes are in use.
    File(Pages, usize),
}

impl Default for Place {
    fn default() -> Self {
        Self::Memory(Vec::new())
    }
}

impl Buffer {
    /// An empty one, within `budget` if there is one.
    #[must_use]
    pub const fn new(budget: Option<Arc<Budget>>) -> Self {
        Self { place: Place::Memory(Vec::new()), budget, taken_bytes: 0 }
    }

    /// Bytes that there is room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        match &self.place {
            Place::Memory(bytes) => bytes.capacity(),
            Place::File(pages, _) => pages.bytes().len(),
        }
    }

    /// Whether the bytes lie in memory.
    #[must_use]
    pub const fn is_memory(&self) -> bool {
        matches!(self.place, Place::Memory(_))
    }

    /// Makes room for `more` bytes after those there are, and if it has to move them, for
    /// some more than that.
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

    /// Likewise, but for no more than that.
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

    /// Makes it `len` bytes long. New ones are anything.
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

    /// Keeps the first `len` bytes; nothing, if there are fewer.
    pub fn truncate(&mut self, len: usize) {
        match &mut self.place {
            Place::Memory(vec) => vec.truncate(len),
            Place::File(_, used) => *used = len.min(*used),
        }
    }

    /// Removes all bytes, and keeps the room.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Removes all bytes, and gives the room back.
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

    /// Gets room for `len` bytes in all, wherever that is.
    fn grow(&mut self, len: usize) -> Result<()> {
        if let Some(budget) = self.budget.as_ref().filter(|_| len >= SMALLEST_COUNTED) {
            // While bytes move there are two rooms; that is not counted, and it is short.
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
            // an allocator that moves it would copy what is nothing
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
    /// Takes bytes over that nobody counts.
    fn from(bytes: Vec<u8>) -> Self {
        Self { place: Place::Memory(bytes), budget: None, taken_bytes: 0 }
    }
}

#[cfg(test)]
mod tests;
