//! Parallel execution of jobs on all cores.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Returns the number of jobs to run concurrently: at most `count`, and one for each core.
pub(crate) fn concurrent_jobs(count: usize) -> NonZero<usize> {
    let cores = thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    NonZero::new(count).map_or(NonZero::<usize>::MIN, |count| count.min(cores))
}

/// Runs the jobs 0 to `count - 1` on all cores; they start in this order. `done` receives each
/// job's number and result on this thread. If `done` returns false, no further job starts.
pub(crate) fn run_jobs<T: Send>(
    count: usize,
    job: impl Fn(usize) -> T + Sync,
    mut done: impl FnMut(usize, T) -> bool,
) {
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..concurrent_jobs(count).get() {
            let (sender, next, job) = (sender.clone(), &next, &job);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    // The receiver is dropped if `done` returned false.
                    if number >= count || sender.send((number, job(number))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (number, result) in results {
            if !done(number, result) {
                next.store(count, Ordering::Relaxed);
                break;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_is_done_once() {
        let mut found = Vec::new();
        run_jobs(
            100,
            |nth| nth * 2,
            |nth, twice| {
                found.push((nth, twice));
                true
            },
        );
        found.sort_unstable();
        assert_eq!(found, (0..100).map(|nth| (nth, nth * 2)).collect::<Vec<_>>());
        run_jobs(0, |nth| nth, |_, _| unreachable!("there is no job"));
    }

    #[test]
    fn no_more_are_under_way_than_there_are() {
        assert_eq!([0, 1].map(|count| concurrent_jobs(count).get()), [1, 1]);
        let (under_way, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let job = |_| {
            most.fetch_max(under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::yield_now();
            under_way.fetch_sub(1, Ordering::SeqCst);
        };
        run_jobs(1_000, job, |_, ()| true);
        assert!(most.into_inner() <= concurrent_jobs(1_000).get());
    }

    #[test]
    fn nothing_is_begun_after_enough() {
        let begun = AtomicUsize::new(0);
        run_jobs(1_000_000, |_| begun.fetch_add(1, Ordering::Relaxed), |_, _| false);
        assert!(begun.load(Ordering::Relaxed) < 1_000_000);
    }
}
