//! Work on all cores.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// How many of so many jobs are under way at a time: one for each core, at most.
pub(crate) fn at_a_time(count: usize) -> NonZero<usize> {
    let cores = thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    NonZero::new(count).map_or(NonZero::<usize>::MIN, |count| count.min(cores))
}

/// Does jobs 0 to `count - 1` on all cores, those of low numbers first; `done` is told of each as it ends, on this thread, and
/// no job is begun after it says that it has enough.
pub(crate) fn each<T: Send>(
    count: usize,
    job: impl Fn(usize) -> T + Sync,
    mut done: impl FnMut(usize, T) -> bool,
) {
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..at_a_time(count).get() {
            let (sender, next, job) = (sender.clone(), &next, &job);
            scope.spawn(move || {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    // Nobody listens any more if there was enough.
                    if nth >= count || sender.send((nth, job(nth))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (nth, result) in results {
            if !done(nth, result) {
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
        each(
            100,
            |nth| nth * 2,
            |nth, twice| {
                found.push((nth, twice));
                true
            },
        );
        found.sort_unstable();
        assert_eq!(found, (0..100).map(|nth| (nth, nth * 2)).collect::<Vec<_>>());
        each(0, |nth| nth, |_, _| unreachable!("there is no job"));
    }

    #[test]
    fn no_more_are_under_way_than_there_are() {
        assert_eq!([0, 1].map(|count| at_a_time(count).get()), [1, 1]);
        let (under_way, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let job = |_| {
            most.fetch_max(under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::yield_now();
            under_way.fetch_sub(1, Ordering::SeqCst);
        };
        each(1_000, job, |_, ()| true);
        assert!(most.into_inner() <= at_a_time(1_000).get());
    }

    #[test]
    fn nothing_is_begun_after_enough() {
        let begun = AtomicUsize::new(0);
        each(1_000_000, |_| begun.fetch_add(1, Ordering::Relaxed), |_, _| false);
        assert!(begun.load(Ordering::Relaxed) < 1_000_000);
    }
}
