//! An index in memory: the pages of its snapshot are mapped, the rest is read.
//!
//! A file that somebody may truncate cannot be mapped. Touching a page behind its new end kills the
//! process, and the rest of its last page turns to zeros. So the pages come from a snapshot, a file
//! that only grows. The bytes after them are read from the index into the same region of memory.
//! Knows neither entries nor how snapshots are made (`docs/formats/index-snapshot.rst`).

#![expect(unsafe_code, reason = "memory mappings")]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;

use rustix::mm::{self, Advice, MapFlags, MprotectFlags, ProtFlags};

/// Bytes that are compared at once; two of them fit into the cache of a core.
const COMPARED_AT_ONCE: usize = 128 << 10;

/// Bytes before the end of a snapshot that are compared whenever it is mapped.
const COMPARED_END: usize = 4096;

/// Bytes that the kernel is asked for at once: of more, it reads no more than its read-ahead, which
/// is 128 KiB by default.
const ASKED_AT_ONCE: usize = 128 << 10;

/// Why an index could not be mapped.
#[derive(Debug, thiserror::Error)]
pub enum MappingError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The files are not what the caller saw; he may look again.
    #[error("{0}")]
    Moved(&'static str),
}

/// What to read ahead of the first access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefault {
    /// Nothing: each page is read when it is touched.
    Nothing,
    /// All of it, by the kernel, while the caller goes on.
    WillNeed,
    /// All of it, before the mapping is handed out.
    Populate,
}

/// What is about to be touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A few places, far from one another.
    FewPlaces,
    /// All of it, from one end to the other.
    Everything,
    /// Stretches: what is touched next is near to what was touched.
    Stretches,
}

/// A readable region of memory with the content of an index. It holds no descriptor.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
    /// Length of the region, in whole pages.
    reserved: usize,
    /// How much of it is of a snapshot.
    covered: usize,
    prefault: Prefault,
}

// SAFETY: the region is readable, never written after `new`, and freed by `drop` only.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of `index`, of which `snapshot` has the first `covered`.
    ///
    /// The end of what `snapshot` covers is compared with `index`: there, a history that was
    /// rewritten differs.
    ///
    /// # Errors
    ///
    /// [`MappingError::Moved`] if a file is shorter than was said, or if they differ there.
    pub fn new(
        snapshot: &File,
        covered: u64,
        index: &File,
        len: u64,
        prefault: Prefault,
    ) -> Result<Self, MappingError> {
        if covered == 0 || covered > len {
            return Err(MappingError::Moved("the snapshot covers nothing, or too much"));
        }
        let found = snapshot.metadata()?;
        if !found.is_file() {
            return Err(MappingError::Moved("the snapshot is not a regular file"));
        }
        if found.len() < covered {
            return Err(MappingError::Moved("the snapshot is cut"));
        }
        let (covered, len) = (in_memory(covered)?, in_memory(len)?);
        let mut mapping = Self::reserve(len)?;
        mapping.prefault = prefault;
        mapping.share(snapshot, covered)?;
        // What is touched here is not what will be.
        mapping.advise(Advice::Random, 0..covered);

        let compared = covered.saturating_sub(COMPARED_END)..covered;
        let mut end = [0; COMPARED_END];
        let end = &mut end[..compared.len()];
        read_exact(index, end, compared.start)?;
        if *end != mapping.bytes()[compared] {
            return Err(MappingError::Moved("the index was rewritten"));
        }
        // The last page that is shared becomes a copy of ours here, if anything follows.
        read_exact(index, &mut mapping.bytes_mut()[covered..], covered)?;
        mapping.protect()?;
        // The header, which Mercurial looks at first. Of a reference, nothing would be read.
        std::hint::black_box(mapping.bytes().first().copied());
        mapping.advise(Advice::Normal, 0..covered);
        match prefault {
            Prefault::Nothing => {}
            Prefault::WillNeed => mapping.read_ahead(0..covered),
            Prefault::Populate => mapping.populate(0..covered),
        }
        Ok(mapping)
    }

    /// Tells the kernel what of `bytes` will be touched, unless all was asked for at the beginning.
    ///
    /// By itself, it reads what surrounds a place that is touched, often megabytes. Everything is
    /// in memory when this returns, if it is to be had: a walk in any direction, one page after
    /// the other, takes longer than reading.
    pub fn expect(&self, expected: Expected, bytes: Range<usize>) {
        match (expected, self.prefault) {
            (_, Prefault::Populate) | (Expected::FewPlaces, Prefault::WillNeed) => {}
            (Expected::FewPlaces, _) => {
                self.advise(Advice::Random, bytes);
            }
            (Expected::Stretches, _) => {
                self.advise(Advice::Normal, bytes);
            }
            (Expected::Everything, _) => {
                self.advise(Advice::Normal, bytes.clone());
                self.populate(bytes);
            }
        }
    }

    /// Takes the pages that were touched from this process's memory: the next access maps them again.
    ///
    /// Only those that are a snapshot's alone: the one where it ends may be a copy with what follows.
    pub fn let_go(&self) {
        #[cfg(target_os = "linux")]
        self.advise(
            Advice::LinuxDontNeed,
            0..self.covered - self.covered % rustix::param::page_size(),
        );
    }

    /// The content.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `len` bytes from `start` on are readable until `drop`. What is mapped of a file
        // lies before an end that the file keeps, and nobody changes it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// A writable region of zeros for `len` bytes.
    fn reserve(len: usize) -> io::Result<Self> {
        let reserved = len.next_multiple_of(rustix::param::page_size());
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new region, at an address that the kernel chooses.
        let start = unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            mm::mmap_anonymous(std::ptr::null_mut(), reserved, access, flags)?
        };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len, reserved, covered: 0, prefault: Prefault::Nothing })
    }

    /// Puts the pages of the first `covered` bytes of `snapshot` over the start of the region.
    fn share(&mut self, snapshot: &File, covered: usize) -> io::Result<()> {
        let start = self.start.as_ptr().cast();
        // SAFETY: the pages lie in the region, which is ours alone, and nothing borrows from it.
        // What is written to them stays in this process.
        unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
            mm::mmap(start, covered, access, flags, snapshot, 0)?;
        }
        self.covered = covered;
        Ok(())
    }

    /// Advises the kernel on what is of the snapshot, of the pages in which `bytes` are. Answers
    /// whether it takes such advice.
    fn advise(&self, advice: Advice, bytes: Range<usize>) -> bool {
        let end = bytes.end.min(self.covered);
        let start = bytes.start - bytes.start % rustix::param::page_size();
        if start >= end {
            return true;
        }
        // SAFETY: the pages are of the region, and none of these changes what is in them. What
        // an old kernel does not know is not done.
        unsafe { mm::madvise(self.start.as_ptr().add(start).cast(), end - start, advice) }.is_ok()
    }

    /// Has the kernel read `bytes`, and does not wait for it.
    fn read_ahead(&self, bytes: Range<usize>) {
        let end = bytes.end.min(self.covered);
        for start in (bytes.start..end).step_by(ASKED_AT_ONCE) {
            self.advise(Advice::WillNeed, start..end.min(start + ASKED_AT_ONCE));
        }
    }

    /// Has `bytes` read, and mapped so that none of them costs another fault.
    #[cfg(target_os = "linux")]
    fn populate(&self, bytes: Range<usize>) {
        // Linux knows it since 5.14.
        if !self.advise(Advice::LinuxPopulateRead, bytes.clone()) {
            self.read_ahead(bytes);
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn populate(&self, bytes: Range<usize>) {
        self.read_ahead(bytes);
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as `bytes`, and exclusively borrowed; every page is a private one.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// Makes the region read-only.
    fn protect(&mut self) -> io::Result<()> {
        // SAFETY: the region is ours, and no exclusive borrow is left.
        unsafe { mm::mprotect(self.start.as_ptr().cast(), self.reserved, MprotectFlags::READ) }?;
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the region is ours, and whoever borrowed from it borrowed `self`. There is
        // nothing to do if the kernel refuses.
        let _ = unsafe { mm::munmap(self.start.as_ptr().cast(), self.reserved) };
    }
}

/// The number of bytes, of the first `covered` and the first `len`, in which both files agree.
///
/// # Errors
///
/// Those of reading. A file that is shorter than was said agrees up to its end.
pub fn common_prefix(snapshot: &File, covered: u64, index: &File, len: u64) -> io::Result<u64> {
    let end = covered.min(len);
    let (mut left, mut right) = (vec![0; COMPARED_AT_ONCE], vec![0; COMPARED_AT_ONCE]);
    let mut common = 0;
    while common < end {
        let wanted = usize::try_from(end - common).unwrap_or(usize::MAX).min(COMPARED_AT_ONCE);
        let read_left = read_some(snapshot, &mut left[..wanted], common)?;
        let read_right = read_some(index, &mut right[..wanted], common)?;
        let read = read_left.min(read_right);
        let (left, right) = (&left[..read], &right[..read]);
        if left != right {
            let same = left.iter().zip(right).take_while(|(left, right)| left == right).count();
            return Ok(common + same as u64);
        }
        common += read as u64;
        if read < wanted {
            break;
        }
    }
    Ok(common)
}

/// Fills `buffer` from `offset` of an index on.
fn read_exact(index: &File, buffer: &mut [u8], offset: usize) -> Result<(), MappingError> {
    let read = read_some(index, buffer, offset as u64)?;
    let cut = MappingError::Moved("the index is shorter than it was");
    if read == buffer.len() { Ok(()) } else { Err(cut) }
}

/// Fills as much of `buffer` as there is from `offset` on, and answers how much.
fn read_some(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

fn in_memory(len: u64) -> io::Result<usize> {
    usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory.into())
}

#[cfg(test)]
mod tests;
