//! `byway demo` on a busy machine. It is a separate file, because the load would delay other tests.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the program use files, processes and threads"
)]

mod demo_bench;
mod support;

use std::sync::atomic::{AtomicBool, Ordering};

use demo_bench::DemoBench;
use support::text;

/// Number of busy programs for each core.
const LOAD_PER_CORE: usize = 2;

/// Number of runs of a demo that are compared.
const RUNS: usize = 7;

/// Most runs that may fail beside the load, with the one that cannot be decoded.
const FAILED_MAX: usize = 3;

/// Guard that ends the load at any end of the test.
struct LoadGuard<'a>(&'a AtomicBool);

impl Drop for LoadGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` while other threads keep all cores of this machine busy.
fn beside_load<T>(work: impl FnOnce() -> T) -> T {
    let ends = &AtomicBool::new(false);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..LOAD_PER_CORE * cores {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let _ends = LoadGuard(ends);
        work()
    })
}

#[test]
fn a_busy_machine_gets_a_report_that_names_what_it_spoiled_and_a_run_that_fails_is_a_row() {
    let bench = DemoBench::new();
    bench.put_ffmpeg_that_decodes_all_but("caching");
    let output = beside_load(|| bench.run(&[]));
    let message = text(&output.stdout);
    assert!(output.status.success(), "{message}{}", text(&output.stderr));
    let row = message.lines().find(|line| line.starts_with("Caching ")).expect("a row");
    assert!(row.contains(" failed "), "{message}");
    assert!(message.contains("Caching failed: ") && message.contains("Invalid data found"), "{message}");
    assert!(message.contains("Affected figures:") && message.contains(" * "), "{message}");
    let read =
        |name: &str| std::fs::read_to_string(bench.bench.path("output").join(name)).expect("it is there");
    let result: serde_json::Value = serde_json::from_str(&read("result.json")).expect("JSON");
    // The load may spoil other runs so much that they cannot be evaluated: each of them is then a
    // row, too, and none is lost.
    let [runs, failed] = ["runs", "failed"].map(|list| result[list].as_array().expect("a list").clone());
    assert!(failed.iter().any(|run| run["service"] == "caching"), "{failed:?} in {message}");
    assert!(runs.len() + failed.len() == RUNS && failed.len() <= FAILED_MAX, "{failed:?} in {message}");
    let page = read("report.html");
    assert!(page.contains("Caching failed: ") && page.contains("Affected figures:"), "{page}");
    assert_eq!(bench.left_behind(), 0);
}
