//! Index in memory: pages of its snapshot are mapped, the rest is read.
//!
//! A file that may be truncated cannot be mapped. Touching a page after its new end kills the
//! process, and the rest of its last page turns to zeros. So the pages come from a snapshot, a file
//! that only grows. The bytes after them are read from the index into the same region of memory.
//! Does not know entries, nor how snapshots are made (`docs/formats/index-snapshot.rst`).

#![expect(unsafe_code, reason = "memory mappings")]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::mm::{self, Advice, MapFlags, MprotectFlags, ProtFlags};

/// Bytes compared at once; two buffers fit into the cache of a core.
const COMPARED_AT_ONCE: usize = 128 << 10;

/// Bytes at the end of a snapshot that are compared whenever it is mapped.
const COMPARED_END: usize = 4096;

/// Bytes requested from the kernel at once: of more, it reads only its read-ahead, which is 128 KiB
/// by default.
const ASKED_AT_ONCE: usize = 128 << 10;

/// Pages of a mapping for each one that is read alone before all are read in order.
///
/// To read a page alone takes as long as to read 12 to 28 pages in order, on a disk without moving
/// parts (`docs/decisions/prefault.rst`).
const PAGES_PER_TOUCH: usize = 64;

/// Touched pages up to which all are read alone, in a mapping of any size.
const FEW_TOUCHES: usize = 16;

/// Length of a large page, on most processors. The kernel maps one at a time where a file has it in
/// memory in one piece, and its address is a multiple of this.
const LARGE_PAGE: usize = 2 << 20;

/// Error of mapping an index.
#[derive(Debug, thiserror::Error)]
pub enum MappingError {
    /// The operating system reported an error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The files changed; the caller may look again.
    #[error("{0}")]
    Moved(&'static str),
}

/// Prefault of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefault {
    /// None: each page is read when it is touched.
    Nothing,
    /// All of it, by the kernel in the background.
    WillNeed,
    /// All of it, before the mapping is returned.
    Populate,
}

/// Expected access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A few places, far apart.
    FewPlaces,
    /// Everything, from one end to the other.
    Everything,
    /// Stretches: the next access is near the last one.
    Stretches,
}

/// Readable region of memory with the content of an index. Holds no descriptor.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
    /// Length of the region, in whole pages.
    reserved: usize,
    /// Bytes of the snapshot in it.
    covered: usize,
    prefault: Prefault,
}

// SAFETY: the region is readable, never written after `new`, and freed by `drop` only.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of `index`; the first `covered` come from `snapshot`.
    ///
    /// The end of the snapshot's part is compared with `index`: a rewritten history differs there.
    ///
    /// # Errors
    ///
    /// [`MappingError::Moved`] if a file is too short, or if they differ there.
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
        // This access does not tell about later ones.
        mapping.advise(Advice::Random, 0..covered);

        let compared = covered.saturating_sub(COMPARED_END)..covered;
        let mut end = [0; COMPARED_END];
        let end = &mut end[..compared.len()];
        read_exact(index, end, compared.start)?;
        if *end != mapping.bytes()[compared] {
            return Err(MappingError::Moved("the index was rewritten"));
        }
        // If bytes follow, the last shared page becomes a private copy here.
        read_exact(index, &mut mapping.bytes_mut()[covered..], covered)?;
        mapping.protect()?;
        // The header, which Mercurial reads first. A mere reference would read nothing.
        std::hint::black_box(mapping.bytes().first().copied());
        mapping.advise(Advice::Normal, 0..covered);
        match prefault {
            Prefault::Nothing => {}
            Prefault::WillNeed => mapping.read_ahead(0..covered),
            Prefault::Populate => mapping.populate(0..covered),
        }
        Ok(mapping)
    }

    /// Advises the kernel on the next accesses to `bytes`, unless everything was requested at the
    /// beginning.
    ///
    /// By default the kernel reads the surroundings of a touched page, often megabytes. With
    /// `Everything`, `bytes` are read before this returns, if the kernel can: a walk in any
    /// direction, page by page, takes longer than reading.
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

    /// Releases touched pages from the memory of the process; the next access maps them again.
    ///
    /// Only pages of the snapshot alone: the last one may be a copy with the bytes that follow.
    pub fn let_go(&self) {
        #[cfg(target_os = "linux")]
        self.advise(
            Advice::LinuxDontNeed,
            0..self.covered - self.covered % rustix::param::page_size(),
        );
    }

    /// Content of the index.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `len` bytes from `start` on are readable until `drop`. Mapped pages of a file lie
        // before an end that the file keeps, and nobody changes them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// A writable region of zeros for `len` bytes.
    fn reserve(len: usize) -> io::Result<Self> {
        let reserved = len.next_multiple_of(rustix::param::page_size());
        let spare = if len < LARGE_PAGE { 0 } else { LARGE_PAGE };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new region, at an address that the kernel chooses. The spare pages around the
        // part that is kept are given back, and nothing refers to them.
        let start: *mut u8 = unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            let all = mm::mmap_anonymous(std::ptr::null_mut(), reserved + spare, access, flags)?;
            let before = all.addr().wrapping_neg() % spare.max(1);
            let start = all.byte_add(before);
            for (unused, len) in [(all, before), (start.byte_add(reserved), spare - before)] {
                if len > 0 {
                    mm::munmap(unused, len)?;
                }
            }
            start.cast()
        };
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len, reserved, covered: 0, prefault: Prefault::Nothing })
    }

    /// Maps the first `covered` bytes of `snapshot` over the start of the region.
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

    /// Gives the kernel advice on the snapshot's pages around `bytes`.
    fn advise(&self, advice: Advice, bytes: Range<usize>) {
        advise(self.shared(bytes), advice);
    }

    /// Lets the kernel read `bytes` in the background.
    fn read_ahead(&self, bytes: Range<usize>) {
        read_ahead(self.shared(bytes));
    }

    /// Reads `bytes`, and maps them so that none of them costs a fault.
    fn populate(&self, bytes: Range<usize>) {
        populate(self.shared(bytes));
    }

    /// The part of `bytes` that is in the snapshot.
    fn shared(&self, bytes: Range<usize>) -> &[u8] {
        self.bytes().get(bytes.start..bytes.end.min(self.covered)).unwrap_or_default()
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
        // SAFETY: the region is ours, and its borrowers borrowed `self`. A refusal of the kernel
        // needs no action.
        let _ = unsafe { mm::munmap(self.start.as_ptr().cast(), self.reserved) };
    }
}

/// Reads all of a mapping in order, once many of its pages had to be read alone.
///
/// Callers look up one node at a time, so nobody knows how many will follow. All is read once a
/// quarter to a half of its price was paid for pages read alone. Where pages are in memory already,
/// touches are only counted.
#[derive(Debug)]
pub(crate) struct Touches {
    count: AtomicUsize,
    /// Number of touches at which the kernel is asked how many of them waited for the disk.
    due: AtomicUsize,
    faults_before: usize,
}

impl Touches {
    /// None yet, of a mapping of `len` bytes.
    pub(crate) fn none(len: usize) -> Self {
        let due = (len / rustix::param::page_size() / PAGES_PER_TOUCH).max(FEW_TOUCHES);
        Self { count: 0.into(), due: due.into(), faults_before: major_faults() }
    }

    /// Counts a touch of a page of `bytes`, a page that was not touched lately.
    pub(crate) fn count(&self, bytes: &[u8]) {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if count < self.due.load(Ordering::Relaxed) {
            return;
        }
        let is_cold = 2 * major_faults().saturating_sub(self.faults_before) >= count;
        let due = if is_cold { usize::MAX } else { count.saturating_mul(2) };
        // of several threads, one reads
        if self.due.swap(due, Ordering::Relaxed) <= count && is_cold {
            advise(bytes, Advice::Normal);
            populate(bytes);
        }
    }
}

/// Page faults of this process that waited for a disk.
fn major_faults() -> usize {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes to the structure, and zeros are a valid one, too.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    usize::try_from(usage.ru_majflt).unwrap_or(0)
}

/// Gives the kernel advice on the pages of `bytes`. Returns whether it supports the advice.
fn advise(bytes: &[u8], advice: Advice) -> bool {
    if bytes.is_empty() {
        return true;
    }
    let before = bytes.as_ptr().addr() % rustix::param::page_size();
    let start = bytes.as_ptr().wrapping_sub(before).cast_mut().cast();
    // SAFETY: every page has some of `bytes`, which are borrowed, and no advice used here changes
    // the content of memory that is not written. An old kernel refuses unknown advice.
    unsafe { mm::madvise(start, before + bytes.len(), advice) }.is_ok()
}

/// Lets the kernel read `bytes` in the background.
fn read_ahead(bytes: &[u8]) {
    for chunk in bytes.chunks(ASKED_AT_ONCE) {
        advise(chunk, Advice::WillNeed);
    }
}

/// Reads `bytes`, and maps them so that none of them costs a fault.
fn populate(bytes: &[u8]) {
    // Since Linux 5.14.
    #[cfg(target_os = "linux")]
    if advise(bytes, Advice::LinuxPopulateRead) {
        return;
    }
    read_ahead(bytes);
}

/// Number of bytes in which the first `covered` bytes of `snapshot` and the first `len` of `index`
/// agree.
///
/// # Errors
///
/// The errors of reading. A file that is too short agrees up to its end.
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

/// Fills as much of `buffer` as the file has from `offset` on; returns the number of bytes.
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
