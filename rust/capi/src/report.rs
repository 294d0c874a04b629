//! Progress and cancellation of long calls.
//!
//! The job runs in a thread of its own. The calling thread calls C's report about ten times a
//! second, with or without progress, because Python runs its signal handlers there. No other thread
//! calls back.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use std::{panic, thread};

use crate::failure::Failure;

const INTERVAL: Duration = Duration::from_millis(100);

/// Report of a call: its `handle`, its `phase`, and `done` of `total`.
///
/// `total` is 0 if unknown. Each call documents its phases and their units. Reports come at most
/// ten times a second while the call works, on the calling thread only. A nonzero result stops the
/// call, which then returns `CANCELLED`. May be null.
pub type ReportFn =
    Option<unsafe extern "C" fn(handle: *mut c_void, phase: u32, done: u64, total: u64) -> i32>;

/// Position of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Phase of the job, as documented by the call.
    pub phase: u32,
    /// Units of the phase that are done.
    pub done: u64,
    /// All units of the phase; 0 if unknown.
    pub total: u64,
}

/// Position of a job and the request to stop it, shared by its threads.
#[derive(Debug, Default)]
pub struct Progress {
    phase: AtomicU32,
    done: AtomicU64,
    total: AtomicU64,
    cancelled: AtomicBool,
}

impl Progress {
    /// Begins a phase of `total` units; 0 if unknown.
    pub fn begin(&self, phase: u32, total: u64) {
        self.phase.store(phase, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// Sets the position, for jobs that count themselves. Returns true to stop the job.
    pub fn set(&self, phase: u32, done: u64, total: u64) -> bool {
        self.phase.store(phase, Ordering::Relaxed);
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Position of the job.
    fn position(&self) -> Position {
        Position {
            phase: self.phase.load(Ordering::Relaxed),
            done: self.done.load(Ordering::Relaxed),
            total: self.total.load(Ordering::Relaxed),
        }
    }

    /// Counts `more` units as done, from any thread.
    ///
    /// # Errors
    ///
    /// [`Failure::cancelled`] if the job should stop.
    pub fn advance(&self, more: u64) -> Result<(), Failure> {
        self.done.fetch_add(more, Ordering::Relaxed);
        if self.cancelled.load(Ordering::Relaxed) { Err(Failure::cancelled()) } else { Ok(()) }
    }
}

/// Report of C for one call. It stays on the calling thread: it is neither `Send` nor `Sync`.
#[derive(Debug)]
pub struct Reporter {
    report: ReportFn,
    handle: *mut c_void,
}

impl Reporter {
    /// Wraps the arguments of C.
    ///
    /// # Safety
    ///
    /// `report` may be called with `handle` on this thread until the call ends.
    #[must_use]
    pub unsafe fn new(report: ReportFn, handle: *mut c_void) -> Self {
        Self { report, handle }
    }

    /// Reports `position` once.
    ///
    /// # Errors
    ///
    /// [`Failure::cancelled`] if C stops the call.
    pub fn report(&self, position: Position) -> Result<(), Failure> {
        if self.wants_more(position) { Ok(()) } else { Err(Failure::cancelled()) }
    }

    /// Runs `job` in a thread, reports its `progress`, and stops it if C asks for it.
    ///
    /// # Errors
    ///
    /// The errors of `job`, which has always ended; or an I/O error if no thread starts.
    ///
    /// # Panics
    ///
    /// If `job` panics.
    pub fn supervise<T: Send>(
        &self,
        progress: &Progress,
        job: impl FnOnce() -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        let (ending, end) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let worker = thread::Builder::new()
                .spawn_scoped(scope, move || {
                    let _disconnects_when_the_job_ends = ending;
                    job()
                })
                .map_err(|source| Failure::io("thread".as_ref(), &source))?;
            let mut stopping = false;
            while end.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if !stopping && !self.wants_more(progress.position()) {
                    progress.cancelled.store(true, Ordering::Relaxed);
                    stopping = true;
                }
            }
            worker.join().unwrap_or_else(|payload| panic::resume_unwind(payload))
        })
    }

    /// Reports a position. Returns false to stop the job.
    fn wants_more(&self, Position { phase, done, total }: Position) -> bool {
        // SAFETY: `new` was promised that this call is allowed; we are on that thread.
        self.report.is_none_or(|report| unsafe { report(self.handle, phase, done, total) } == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::entry;
    use crate::failure::{ErrorInfo, Status};
    use std::time::Instant;

    /// Asks to stop at the third report; `handle` counts them.
    unsafe extern "C" fn stop_at_third(handle: *mut c_void, _: u32, _: u64, _: u64) -> i32 {
        // SAFETY: the test passes a `u32` that outlives the call.
        let calls = unsafe { &mut *handle.cast::<u32>() };
        *calls += 1;
        i32::from(*calls == 3)
    }

    /// Appends each report to the list at `handle`.
    unsafe extern "C" fn list(handle: *mut c_void, phase: u32, done: u64, total: u64) -> i32 {
        // SAFETY: the test passes a list that outlives the call.
        unsafe { &mut *handle.cast::<Vec<Position>>() }.push(Position { phase, done, total });
        0
    }

    #[test]
    fn a_job_is_reported_ten_times_a_second_at_most() {
        let mut told: Vec<Position> = Vec::new();
        let progress = Progress::default();
        // SAFETY: `told` outlives the supervised job.
        let reporter = unsafe { Reporter::new(Some(list), (&raw mut told).cast()) };
        let start = Instant::now();
        let job = || {
            progress.begin(3, 40);
            for _ in 0..40 {
                thread::sleep(Duration::from_millis(10));
                progress.advance(1)?;
            }
            Ok(7)
        };
        assert_eq!(reporter.supervise(&progress, job).expect("ends"), 7);
        assert!(told.len() >= 2);
        assert!(INTERVAL * u32::try_from(told.len()).expect("few") <= start.elapsed());
        assert!(told.iter().all(|position| (position.phase, position.total) == (3, 40)));
        assert!(told.is_sorted_by_key(|position| position.done));
    }

    #[test]
    fn a_panic_in_a_worker_becomes_a_bug_with_its_place() {
        // SAFETY: the report is null.
        let reporter = unsafe { Reporter::new(None, std::ptr::null_mut()) };
        let line = line!() + 1;
        let job = || -> Result<(), Failure> { panic!("asked to panic") };
        let mut told = ErrorInfo::default();
        let body = || reporter.supervise(&Progress::default(), job);
        // SAFETY: a structure of ours.
        let status = unsafe { entry(&raw mut told, body) };
        let message = String::from_utf8_lossy(&told.message[..told.message_len as usize]);
        assert_eq!((status, told.status), (Status::Bug, Status::Bug as i32));
        assert!(message.contains(&format!("report.rs:{line}:")), "{message}");
        assert!(message.ends_with(": asked to panic"), "{message}");
    }

    #[test]
    fn a_panic_prints_nothing() {
        let test = "report::tests::a_panic_in_a_worker_becomes_a_bug_with_its_place";
        let this = std::env::current_exe().expect("is known");
        let mut command = std::process::Command::new(this);
        let done = command.args(["--exact", test, "--nocapture"]).output().expect("is started");
        assert!(String::from_utf8_lossy(&done.stdout).contains("1 passed"));
        assert_eq!(String::from_utf8_lossy(&done.stderr), "");
    }

    #[test]
    fn a_job_is_reported_and_stopped() {
        let mut calls = 0_u32;
        let progress = Progress::default();
        // SAFETY: `calls` outlives the supervised job.
        let reporter = unsafe { Reporter::new(Some(stop_at_third), (&raw mut calls).cast()) };
        let start = Instant::now();
        let result = reporter.supervise(&progress, || {
            progress.begin(0, 0);
            loop {
                progress.advance(1)?;
                thread::sleep(Duration::from_millis(1));
            }
            #[expect(unreachable_code, reason = "gives the closure its type")]
            Ok(())
        });
        assert_eq!(result.expect_err("stopped").status(), Status::Cancelled);
        assert_eq!(calls, 3);
        assert!(start.elapsed() >= 3 * INTERVAL);
    }
}
