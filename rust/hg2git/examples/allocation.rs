//! Memory that an export requests, and memory that the allocator takes: `allocation STORE OUTDIR`.
//!
//! STORE is a directory `.hg/store`, OUTDIR is created. Prints a line of JSON twenty times a
//! second: seconds, phase, bytes requested by Rust code and not freed, bytes that the allocator
//! uses for them, anonymous memory of the process, and its peak so far.
//! `contrib/perf/allocators.py` runs it with several allocators. Linux: reads `/proc`.

#![expect(unsafe_code, reason = "an allocator that counts")]

mod whole;

use std::alloc::{GlobalAlloc, Layout, System};
use std::error::Error;
use std::ffi::c_void;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use dialect::Cinnabar;
use hg2git::{Phase, export};
use whole::WholeRequest;

const EVERY: Duration = Duration::from_millis(50);

/// The system's allocator, with counters.
struct Counting;

static REQUESTED: AtomicUsize = AtomicUsize::new(0);
static IN_USE: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    fn malloc_usable_size(pointer: *mut c_void) -> usize;
}

impl Counting {
    fn count(pointer: *mut u8, len: usize) {
        if !pointer.is_null() {
            REQUESTED.fetch_add(len, Ordering::Relaxed);
            // SAFETY: the memory was allocated, and not freed.
            IN_USE.fetch_add(unsafe { malloc_usable_size(pointer.cast()) }, Ordering::Relaxed);
        }
    }

    fn discount(pointer: *mut u8, len: usize) {
        REQUESTED.fetch_sub(len, Ordering::Relaxed);
        // SAFETY: the memory was allocated, and is not freed yet.
        IN_USE.fetch_sub(unsafe { malloc_usable_size(pointer.cast()) }, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed on to `System`.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises, here and below.
        let pointer = unsafe { System.alloc(layout) };
        Self::count(pointer, layout.size());
        pointer
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: see above.
        let pointer = unsafe { System.alloc_zeroed(layout) };
        Self::count(pointer, layout.size());
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        Self::discount(pointer, layout.size());
        // SAFETY: see above.
        unsafe { System.dealloc(pointer, layout) };
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        Self::discount(pointer, layout.size());
        // SAFETY: see above.
        let moved = unsafe { System.realloc(pointer, layout, len) };
        if moved.is_null() {
            Self::count(pointer, layout.size());
        } else {
            Self::count(moved, len);
        }
        moved
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [store, outdir] = arguments.as_slice() else {
        return Err("usage: allocation STORE OUTDIR".into());
    };
    let (store, outdir) = (Path::new(store), Path::new(outdir));
    let whole = WholeRequest::new(store, outdir)?;
    let clock = Clock { start: Instant::now(), phase: Mutex::new("Changesets".to_owned()) };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                clock.tell();
                std::thread::sleep(EVERY);
            }
        });
        let report = export::<Cinnabar>(&whole.request(), &mut |phase: Phase, _done, _total| {
            clock.enter(&format!("{phase:?}"));
            false
        });
        clock.enter("After");
        is_over.store(true, Ordering::Relaxed);
        report.map(drop)
    })?;
    clock.tell();
    Ok(())
}

/// A printer of memory figures over time.
struct Clock {
    start: Instant,
    phase: Mutex<String>,
}

impl Clock {
    fn enter(&self, phase: &str) {
        if let Ok(mut now) = self.phase.lock() {
            phase.clone_into(&mut now);
        }
    }

    fn tell(&self) {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<usize>().ok());
            kib.unwrap_or(0) << 10
        };
        let Ok(phase) = self.phase.lock() else { return };
        println!(
            "{{\"seconds\": {:.3}, \"phase\": \"{phase}\", \"requested\": {}, \"in_use\": {}, \
             \"system\": {}, \"peak\": {}}}",
            self.start.elapsed().as_secs_f64(),
            REQUESTED.load(Ordering::Relaxed),
            IN_USE.load(Ordering::Relaxed),
            kib("RssAnon:"),
            kib("VmHWM:"),
        );
    }
}
