//! `byway demo` on a machine that has other things to do: a file of its own, as other tests' processes would be late beside it.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the program use files, processes and threads"
)]

mod stage;
mod support;

use std::sync::atomic::{AtomicBool, Ordering};

use stage::Stage;
use support::text;

/// Programs for each core that never wait.
const LOAD_PER_CORE: usize = 2;

/// Ends the load however the test ends.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does something while this machine computes for others on all its cores.
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
        let _ends = Ends(ends);
        work()
    })
}

#[test]
fn a_busy_machine_gets_a_report_that_names_what_it_spoiled_and_a_run_that_fails_is_a_row() {
    let stage = Stage::new();
    stage.put_ffmpeg_that_decodes_all_but("caching");
    let output = beside_load(|| stage.run(&[]));
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    let row = said.lines().find(|line| line.starts_with("Caching ")).expect("a row");
    assert!(row.contains(" failed "), "{said}");
    assert!(said.contains("Caching failed: ") && said.contains("Invalid data found"), "{said}");
    assert!(said.contains("What it spoiled:") && said.contains(" * "), "{said}");
    let read =
        |name: &str| std::fs::read_to_string(stage.bench.path("output").join(name)).expect("it is there");
    let result: serde_json::Value = serde_json::from_str(&read("result.json")).expect("JSON");
    assert_eq!(result["failed"][0]["service"], "caching");
    assert_eq!(result["runs"].as_array().map(Vec::len), Some(6));
    let page = read("report.html");
    assert!(page.contains("Caching failed: ") && page.contains("What it spoiled:"), "{page}");
    assert_eq!(stage.left_behind(), 0);
}
