//! Writable pages of a temporary file, used like memory.
//!
//! The pages are not anonymous: the kernel writes them to the file when it needs the memory. A
//! [`Keeper`] releases touched pages many times a second. So a long text is in the page cache, and
//! not in this process.
//!
//! A full disk must be an error here, not a signal (SIGBUS) when a page is written later. That
//! needs a file system where `fallocate` reserves the blocks of later writes. The list of such file
//! systems is below. Not in the list are file systems where written blocks move (btrfs, zfs), or
//! where another machine or process allocates (NFS, FUSE). The file has no name (`O_TMPFILE`), so a
//! killed process leaves nothing, and nobody can open it.
//!
//! Does not know the content of the pages.

#![expect(unsafe_code, reason = "memory mappings")]

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

#[cfg(target_os = "linux")]
use rustix::fs::FallocateFlags;
#[cfg(target_os = "linux")]
use rustix::io::Errno;
use rustix::mm::{self, Advice, MapFlags, ProtFlags};

use crate::directory::Directory;

/// Time between two releases of pages. A core writes or reads about 20 MB in it.
const ROUND: Duration = Duration::from_millis(10);

/// The advice that releases pages. Only on Linux does it keep the written bytes.
#[cfg(target_os = "linux")]
const LET_GO: Advice = Advice::LinuxDontNeed;
#[cfg(not(target_os = "linux"))]
const LET_GO: Advice = Advice::Normal;

/// A writable mapping of a file without a name.
#[derive(Debug)]
pub(crate) struct Pages {
    start: NonNull<u8>,
    len: usize,
    live: Arc<Live>,
}

// SAFETY: only `drop` frees the region, and it is written only through `&mut self`. Releasing pages
// meanwhile changes no byte.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps a new file of `len` zero bytes on the file system of `dir`. `len` must not be 0.
    ///
    /// `None` if that file system cannot reserve room.
    pub(crate) fn new(dir: &Directory, len: usize, keeper: &Keeper) -> io::Result<Option<Self>> {
        let Some(file) = nameless(dir)? else { return Ok(None) };
        if !allocate(&file, len)? {
            return Ok(None);
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new region, at an address that the kernel chooses. Nobody else has the file,
        // so it is never truncated.
        let start =
            unsafe { mm::mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, &file, 0)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let live = Arc::clone(&keeper.live);
        live.change(|regions| regions.by_start.insert(start.as_ptr() as usize, len));
        Ok(Some(Self { start, len, live }))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `len` bytes from `start` on are readable until `drop`; `&mut` is needed to write.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and they are writable.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.live.change(|regions| {
            regions.by_start.remove(&(self.start.as_ptr() as usize));
            // SAFETY: the region is ours, and nothing borrows from it any more. `keep_small` uses
            // regions only under the lock, which this thread holds.
            let _ = unsafe { mm::munmap(self.start.as_ptr().cast(), self.len) };
        });
    }
}

/// All mapped regions, and whether the keeper has ended.
#[derive(Debug, Default)]
struct Regions {
    /// Lengths, by address.
    by_start: HashMap<usize, usize>,
    is_over: bool,
}

#[derive(Debug, Default)]
struct Live {
    regions: Mutex<Regions>,
    changed: Condvar,
}

impl Live {
    fn lock(&self) -> MutexGuard<'_, Regions> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<R>(&self, change: impl FnOnce(&mut Regions) -> R) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Releases all pages, round after round, until the keeper ends.
    fn keep_small(&self) {
        let mut regions = self.lock();
        while !regions.is_over {
            if regions.by_start.is_empty() {
                regions = self.changed.wait(regions).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            drop(regions);
            std::thread::sleep(ROUND);
            regions = self.lock();
            for (&start, &len) in &regions.by_start {
                // SAFETY: the region is mapped, since the lock is held. It is a shared mapping of a
                // file: the next access reads every byte from there. A refusal costs memory only.
                let _ = unsafe { mm::madvise(start as *mut _, len, LET_GO) };
            }
        }
    }
}

/// A thread that releases the pages of all regions while they are in use.
#[derive(Debug)]
pub(crate) struct Keeper {
    live: Arc<Live>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    pub(crate) fn start() -> io::Result<Self> {
        let live = Arc::new(Live::default());
        let thread = std::thread::Builder::new().name("let pages go".to_owned()).spawn({
            let live = Arc::clone(&live);
            move || live.keep_small()
        })?;
        Ok(Self { live, thread: Some(thread) })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.live.change(|regions| regions.is_over = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it has nothing to say
        }
    }
}

/// Creates a file without a name on the file system of `dir`.
///
/// `None` if this file system is not known to reserve room.
#[cfg(target_os = "linux")]
fn nameless(dir: &Directory) -> io::Result<Option<File>> {
    let Some(file) = dir.create_nameless()? else { return Ok(None) };
    // statfs(2): ext2 to ext4, xfs, tmpfs
    let is_known = matches!(rustix::fs::fstatfs(&file)?.f_type, 0xef53 | 0x5846_5342 | 0x0102_1994);
    Ok(is_known.then_some(file))
}

#[cfg(not(target_os = "linux"))]
fn nameless(_dir: &Directory) -> io::Result<Option<File>> {
    Ok(None)
}

/// Sets the length of `file`, and reserves disk space for it; `false` if that is not supported.
#[cfg(target_os = "linux")]
fn allocate(file: &File, len: usize) -> io::Result<bool> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len as u64) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP) => Ok(false), // ext2 and ext3
        Err(problem) => Err(problem.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn allocate(_file: &File, _len: usize) -> io::Result<bool> {
    Ok(false)
}

/// Returns freed memory from the C library to the system, with `malloc_trim(3)` of glibc.
///
/// Takes milliseconds. By itself, glibc returns only memory at the end of its heaps:
/// `docs/decisions/allocator.rst`.
pub fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        unsafe extern "C" {
            // malloc_trim(3)
            safe fn malloc_trim(pad: usize) -> std::ffi::c_int;
        }
        let _whether_any_was = malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    #[cfg(target_os = "linux")]
    use crate::directory::without_nameless_files;

    fn open(dir: &Path) -> Directory {
        Directory::open(dir).expect("is there")
    }

    #[test]
    fn bytes_stay_while_pages_are_let_go_and_no_file_is_left() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let keeper = Keeper::start().expect("a thread");
        let pages = Pages::new(&open(dir.path()), 3 << 20, &keeper).expect("room");
        let mut pages = pages.expect("tests run on a file system that reserves room");
        assert_eq!(dir.path().read_dir().expect("is there").count(), 0);
        assert!(pages.bytes().iter().all(|&byte| byte == 0));
        for round in 0..4_u8 {
            pages.bytes_mut().fill(round);
            std::thread::sleep(ROUND);
            assert!(pages.bytes().iter().all(|&byte| byte == round));
        }
    }

    #[test]
    fn room_that_there_is_not_is_an_error() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let keeper = Keeper::start().expect("a thread");
        let opened = open(dir.path());
        assert!(Pages::new(&opened, 1 << 60, &keeper).is_err());
        assert_eq!(dir.path().read_dir().expect("is there").count(), 0);
        dir.close().expect("is ours");
        assert!(Pages::new(&opened, 1, &keeper).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_system_that_reserves_nothing_has_no_pages() {
        let Some(directory) = without_nameless_files() else { return };
        let keeper = Keeper::start().expect("a thread");
        assert!(Pages::new(&directory, 1 << 20, &keeper).expect("is there").is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_file_has_no_name_for_a_moment() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let file = nameless(&open(dir.path())).expect("is writable").expect("reserves room");
        let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        let name = std::fs::read_link(link).expect("is open");
        assert!(name.to_string_lossy().ends_with(" (deleted)"), "{}", name.display());
        assert_eq!(rustix::fs::fstat(&file).expect("is open").st_nlink, 0);
        // O_EXCL: nobody can give it one
        let again = dir.path().join("name");
        let flags = rustix::fs::AtFlags::EMPTY_PATH;
        assert!(rustix::fs::linkat(&file, "", rustix::fs::CWD, &again, flags).is_err());
    }
}
