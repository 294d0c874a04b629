//! Work on many threads, with results in order.
//!
//! Jobs are drawn one at a time and done in parallel. The calling thread consumes the results in
//! the order of drawing, so the output does not depend on the number of threads. The number and the
//! bytes of waiting jobs are bounded. Does not know the content of jobs.
//!
//! (rayon either collects everything to keep the order, or streams without order. A conversion
//! needs a bounded stream in order.)

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// Longest time that the calling thread waits without calling `tick`.
const TICK: Duration = Duration::from_millis(100);
/// Maximum number of drawn but not yet consumed jobs, per thread.
const WINDOW_PER_THREAD: u64 = 8;

/// The announced bytes of a job, and its result.
type Ready<R, E> = (u64, Result<R, E>);

/// Limits of parallel work: threads and memory.
#[derive(Clone, Copy, Debug)]
pub struct Width {
    /// Number of worker threads.
    pub threads: usize,
    /// Maximum announced bytes of all drawn but not yet consumed jobs. A single job may have more.
    pub window_bytes: u64,
}

struct Outbox<R, E> {
    ready: BTreeMap<u64, Ready<R, E>>,
    consumed: u64,
    /// Bytes of the drawn but not yet consumed jobs.
    bytes: u64,
    /// Number of jobs, once known.
    end: Option<u64>,
    stop: bool,
}

struct Shared<R, E> {
    outbox: Mutex<Outbox<R, E>>,
    changed: Condvar,
}

impl<R, E> Shared<R, E> {
    fn lock(&self) -> MutexGuard<'_, Outbox<R, E>> {
        // a panic elsewhere is passed on when its thread is joined
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Outbox<R, E>)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
}

/// A guard that stops all threads when its thread unwinds or the consumer fails.
struct StopOnDrop<'a, R, E>(&'a Shared<R, E>);

impl<R, E> Drop for StopOnDrop<'_, R, E> {
    fn drop(&mut self) {
        self.0.change(|outbox| outbox.stop = true);
    }
}

/// Does `work` on each of `jobs` in parallel, and passes the results to `consume` in order.
///
/// Each job comes with the approximate bytes of its result. Worker threads do the work, or the
/// calling thread if the system starts none. `tick` is called on the calling thread after each
/// result, and ten times a second while none arrives.
///
/// Drawing is sequential: an iterator that computes in `next` is a stage of its own.
///
/// # Errors
///
/// The first error of drawing or `work` in job order, or an error of `consume` or `tick`. No
/// further result is consumed after it.
pub fn run<J, R, E, S>(
    Width { threads, window_bytes }: Width,
    jobs: impl Iterator<Item = Result<(u64, J), E>> + Send,
    new_scratch: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, J) -> Result<R, E> + Sync,
    mut consume: impl FnMut(R) -> Result<(), E>,
    mut tick: impl FnMut() -> Result<(), E>,
) -> Result<(), E>
where
    J: Send,
    R: Send,
    E: Send,
{
    let outbox = Outbox { ready: BTreeMap::new(), consumed: 0, bytes: 0, end: None, stop: false };
    let shared = Shared { outbox: Mutex::new(outbox), changed: Condvar::new() };
    let drawer = Mutex::new((0u64, jobs.fuse()));
    let window = WINDOW_PER_THREAD * threads as u64;
    let draw = || {
        // the thread that holds the drawer waits for room; the others wait for the drawer
        let Ok(mut drawer) = drawer.lock() else { return None };
        let mut outbox = shared.lock();
        let is_full = |outbox: &Outbox<R, E>| {
            let waiting = drawer.0 - outbox.consumed;
            waiting >= window || (waiting > 0 && outbox.bytes >= window_bytes)
        };
        while !outbox.stop && is_full(&outbox) {
            outbox = shared.changed.wait(outbox).unwrap_or_else(PoisonError::into_inner);
        }
        if outbox.stop || outbox.end.is_some() {
            return None;
        }
        drop(outbox);
        let position = drawer.0;
        match drawer.1.next() {
            None => {
                shared.change(|outbox| outbox.end = Some(position));
                None
            }
            Some(job) => {
                drawer.0 += 1;
                let bytes = job.as_ref().map_or(0, |(bytes, _)| *bytes);
                shared.lock().bytes += bytes;
                Some((position, bytes, job.map(|(_, job)| job)))
            }
        }
    };
    let worker = || {
        let guard = StopOnDrop(&shared);
        let mut scratch = new_scratch();
        while let Some((position, bytes, job)) = draw() {
            let result = job.and_then(|job| work(&mut scratch, job));
            shared.change(|outbox| {
                outbox.ready.insert(position, (bytes, result));
            });
        }
        std::mem::forget(guard); // a worker that ends normally stops no other
    };
    let mut consumed = |bytes: u64, result: R| {
        consume(result)?;
        shared.change(|outbox| {
            outbox.consumed += 1;
            outbox.bytes -= bytes;
        });
        Ok(())
    };
    std::thread::scope(|scope| {
        let _stops_workers = StopOnDrop(&shared);
        // the system may start fewer threads
        let start = |_| Builder::new().spawn_scoped(scope, worker).ok();
        if (0..threads.max(1)).map_while(start).count() > 0 {
            while let Some((bytes, result)) = next_result(&shared, &mut tick)? {
                consumed(bytes, result?)?;
                tick()?;
            }
        } else {
            let mut scratch = new_scratch();
            while let Some((_, bytes, job)) = draw() {
                consumed(bytes, work(&mut scratch, job?)?)?;
                tick()?;
            }
        }
        Ok(())
    })
}

/// Waits for the next result in order; `None` after the last, or when a worker has panicked.
fn next_result<R, E>(
    shared: &Shared<R, E>,
    tick: &mut impl FnMut() -> Result<(), E>,
) -> Result<Option<Ready<R, E>>, E> {
    loop {
        let mut outbox = shared.lock();
        let position = outbox.consumed;
        if let Some(result) = outbox.ready.remove(&position) {
            return Ok(Some(result));
        }
        if outbox.stop || outbox.end == Some(position) {
            return Ok(None);
        }
        let waited = shared.changed.wait_timeout(outbox, TICK);
        let (outbox, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        drop(outbox);
        if timeout.timed_out() {
            tick()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn width(threads: usize) -> Width {
        Width { threads, window_bytes: 48 << 20 }
    }

    fn squares(threads: usize, count: u64, fail_at: Option<u64>) -> (Vec<u64>, Result<(), u64>) {
        let mut seen = Vec::new();
        let outcome = run(
            width(threads),
            (0..count).map(|job| Ok((job << 20, job))),
            || (),
            |(), job| {
                std::thread::sleep(Duration::from_micros((job * 7919) % 300));
                if fail_at == Some(job) { Err(job) } else { Ok(job * job) }
            },
            |result| {
                seen.push(result);
                Ok(())
            },
            || Ok(()),
        );
        (seen, outcome)
    }

    #[test]
    fn results_arrive_in_order_whatever_the_threads() {
        let expected: Vec<u64> = (0..200).map(|number| number * number).collect();
        for threads in [1, 2, 8] {
            assert_eq!(squares(threads, 200, None), (expected.clone(), Ok(())));
        }
        assert_eq!(squares(2, 0, None), (Vec::new(), Ok(())));
    }

    #[test]
    fn the_first_error_in_order_ends_it() {
        let (seen, outcome) = squares(8, 200, Some(50));
        assert_eq!((seen.len(), outcome), (50, Err(50)));
    }

    #[test]
    fn an_error_of_the_consumer_ends_it() {
        let jobs = (0..).map(|job: u32| Ok::<_, &str>((1, job)));
        let outcome = run(width(4), jobs, || (), |(), job| Ok(job), |_| Err("full"), || Ok(()));
        assert_eq!(outcome, Err("full"));
    }

    #[test]
    fn a_refused_tick_ends_a_wait() {
        let slow = |(): &mut (), ()| {
            std::thread::sleep(Duration::from_millis(350));
            Ok(())
        };
        let jobs = std::iter::once(Ok::<_, &str>((1, ())));
        let outcome = run(width(2), jobs, || (), slow, |()| Ok(()), || Err("interrupted"));
        assert_eq!(outcome, Err("interrupted"));
    }

    #[test]
    fn a_panic_of_a_worker_reaches_the_caller() {
        let outcome = std::panic::catch_unwind(|| {
            let work = |(): &mut (), job: u32| if job == 3 { panic!("three") } else { Ok(job) };
            run(
                width(2),
                (0..9).map(|job| Ok::<_, ()>((1, job))),
                || (),
                work,
                |_| Ok(()),
                || Ok(()),
            )
        });
        assert!(outcome.is_err());
    }
}
