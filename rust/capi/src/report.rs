//! Progress and cancelling of a long call.
//!
//! The job runs in a thread of its own; the thread that entered watches it and calls C's
//! report about ten times a second, moved or not, since that is where Python runs its signal
//! handlers. No other thread ever calls back.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use std::{panic, thread};

use crate::failure::Failure;

const INTERVAL: Duration = Duration::from_millis(100);

/// Called with the `handle` of the call, the `phase` it is in, and `done` of `total`.
///
/// `total` is 0 when it is not known. Each call documents its phases and their units. Comes at
/// most ten times a second, only on the thread that made the call. A nonzero answer asks the
/// core to stop: the call then answers `CANCELLED`. May be null.
pub type ReportFn =
    Option<unsafe extern "C" fn(handle: *mut c_void, phase: u32, done: u64, total: u64) -> i32>;

/// Where a job is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Which part of the job, as the call documents.
    pub phase: u32,
    /// How much of this part is done.
    pub done: u64,
    /// How much there is, 0 if not known.
    pub total: u64,
}

/// What a job shares with the thread that watches it.
pub trait Watched: Sync {
    /// Where the job is. Called ten times a second while it runs.
    fn position(&self) -> Position;

    /// Asks the job to end soon, with [`Failure::cancelled`].
    fn cancel(&self);
}

/// The plain way to be [`Watched`]: three numbers and a flag.
#[derive(Debug, Default)]
pub struct Progress {
    phase: AtomicU32,
    done: AtomicU64,
    total: AtomicU64,
    cancelled: AtomicBool,
}

impl Progress {
    /// Begins `phase`, of which there is `total`, 0 if not known.
    pub fn begin(&self, phase: u32, total: u64) {
        self.phase.store(phase, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// Sets all at once, for jobs that count themselves; answers whether the job should stop.
    pub fn tell(&self, phase: u32, done: u64, total: u64) -> bool {
        self.phase.store(phase, Ordering::Relaxed);
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Counts `more` as done, from any thread.
    ///
    /// # Errors
    ///
    /// [`Failure::cancelled`] if the job should stop.
    pub fn advance(&self, more: u64) -> Result<(), Failure> {
        self.done.fetch_add(more, Ordering::Relaxed);
        if self.cancelled.load(Ordering::Relaxed) { Err(Failure::cancelled()) } else { Ok(()) }
    }
}

impl Watched for Progress {
    fn position(&self) -> Position {
        Position {
            phase: self.phase.load(Ordering::Relaxed),
            done: self.done.load(Ordering::Relaxed),
            total: self.total.load(Ordering::Relaxed),
        }
    }

    fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

/// C's report for one call. Stays on the thread that entered: it is neither `Send` nor `Sync`.
#[derive(Debug)]
pub struct Reporter {
    report: ReportFn,
    handle: *mut c_void,
}

impl Reporter {
    /// Wraps what C passed.
    ///
    /// # Safety
    ///
    /// `report` may be called with `handle` on this thread until the call ends.
    #[must_use]
    pub unsafe fn new(report: ReportFn, handle: *mut c_void) -> Self {
        Self { report, handle }
    }

    /// Reports once, between two pieces of work.
    ///
    /// # Errors
    ///
    /// [`Failure::cancelled`] if the call should stop.
    pub fn report(&self, position: Position) -> Result<(), Failure> {
        if self.wants_more(position) { Ok(()) } else { Err(Failure::cancelled()) }
    }

    /// Runs `job` in a thread, reports where `watched` is, and passes on a wish to stop.
    ///
    /// # Errors
    ///
    /// Those of `job`, which is waited for in any case; or an I/O failure if no thread starts.
    ///
    /// # Panics
    ///
    /// With what `job` panicked.
    pub fn supervise<T: Send>(
        &self,
        watched: &impl Watched,
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
                if !stopping && !self.wants_more(watched.position()) {
                    watched.cancel();
                    stopping = true;
                }
            }
            worker.join().unwrap_or_else(|payload| panic::resume_unwind(payload))
        })
    }

    /// Reports, and tells whether the job should go on.
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

    /// Pushes what it is told to the list at `handle`.
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
        // SAFETY: there is no report.
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
