//! Cost of a target: processor time, and memory allocated by Rust.
//!
//! Does not count memory of the C libraries that decompress; libFuzzer limits it.

#![expect(unsafe_code, reason = "a global allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with a count of the bytes that are allocated.
#[derive(Debug)]
pub struct Counting;

impl Counting {
    fn add(bytes: usize) {
        let live = LIVE_BYTES.fetch_add(bytes, Ordering::Relaxed).wrapping_add(bytes);
        PEAK_BYTES.fetch_max(live, Ordering::Relaxed);
    }
}

// SAFETY: all calls are passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::add(layout.size());
        // SAFETY: the caller keeps the contract of the trait.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::add(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::add(size);
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Cost of a call.
pub(crate) struct Spent {
    /// Processor time of all threads.
    pub time: Duration,
    /// Peak of allocated bytes, minus the bytes before the call.
    pub peak_bytes: usize,
}

/// Calls `work`, and measures its cost. Concurrent calls give wrong costs.
pub(crate) fn measure(work: impl FnOnce()) -> Spent {
    let before = LIVE_BYTES.load(Ordering::Relaxed);
    PEAK_BYTES.store(before, Ordering::Relaxed);
    let started = processor_time();
    work();
    let time = processor_time().saturating_sub(started);
    let peak_bytes = PEAK_BYTES.load(Ordering::Relaxed).saturating_sub(before);
    Spent { time, peak_bytes }
}

fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u32::try_from(now.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}
