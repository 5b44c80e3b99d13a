//! `byway demo` with a script in place of ffmpeg, so the tests need neither ffmpeg nor a video.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the program use files, processes and clocks"
)]

mod demo_bench;
mod support;

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use demo_bench::DemoBench;
use support::{TIMEOUT, text};

/// Number of processes: a controller, an emulator, two relays and two agents for each of eight
/// pairs.
const PROCESSES: usize = 20;

/// Returns the running child processes of a process.
fn children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").expect("this is Linux").flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|&process| parent_of(process) == Some(parent)).collect()
}

/// Returns the parent of a process; `None` if it has ended.
fn parent_of(process: u32) -> Option<u32> {
    let line = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before it may contain any character.
    let mut words = line.rsplit_once(')')?.1.split_whitespace();
    let has_ended = words.next()? == "Z";
    words.next()?.parse().ok().filter(|_| !has_ended)
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < TIMEOUT, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A demo that is killed at the end of its test.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn without_ffmpeg_it_says_how_to_get_it() {
    let bench = DemoBench::new();
    bench.assert_refuses(&[], 3, &["ffmpeg not found", "apt-get install ffmpeg", "make demo"]);
    bench.put_ffmpeg("");
    fs::write(bench.programs().join("ffmpeg"), "#!/bin/sh\nexit 0\n").expect("the folder takes files");
    bench.assert_refuses(&["--seeds", "1"], 3, &["libx264", "full package"]);
}

#[test]
fn a_video_that_is_none_is_named() {
    let bench = DemoBench::new();
    let missing = bench.bench.path("missing.mp4").display().to_string();
    bench.assert_refuses(
        &["--video", &missing],
        2,
        &["--video", &missing, "No such file", "name a video file"],
    );
    let folder = bench.programs().display().to_string();
    bench.assert_refuses(&["--video", &folder], 2, &["--video", &folder, "a folder", "name a video file"]);
    bench.put_ffmpeg("echo 'Invalid data found' >&2; exit 1");
    let words = bench.bench.write("words.txt", "no video").display().to_string();
    bench.assert_refuses(&["--video", &words], 2, &["--video", &words, "no video", "Invalid data found"]);
    bench.assert_refuses(&["--seeds", "1"], 3, &["ffmpeg failed", "Invalid data found"]);
    assert_eq!(bench.left_behind(), 0);
}

#[test]
fn where_results_cannot_go_is_said_at_once() {
    let stage = DemoBench::new();
    stage.bench.write("output", "a file");
    stage.assert_refuses(&[], 2, &["--output", "name a writable folder"]);
}

#[test]
fn coding_is_measured_with_real_processes() {
    let bench = DemoBench::new();
    bench.put_ffmpeg_that_encodes();
    let output = bench.run(&["--seeds", "1"]);
    let message = text(&output.stdout);
    assert!(output.status.success(), "{message}{}", text(&output.stderr));
    assert!(message.contains("seed 1 ") && message.contains(" packets sent, "), "{message}");
    assert_eq!(bench.left_behind(), 0);
}

#[test]
fn nothing_stays_of_a_demo_that_is_killed() {
    let bench = DemoBench::new();
    bench.put_ffmpeg_that_encodes();
    let mut command = bench.demo(&["--seeds", "1000"]);
    let mut demo =
        Demo(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts"));
    let mut started = Vec::new();
    wait_until("all processes run", || {
        started = children(demo.0.id());
        started.len() == PROCESSES
    });
    demo.0.kill().expect("it runs");
    demo.0.wait().expect("it ends");
    wait_until("no process outlives the demo", || {
        started.iter().all(|&process| parent_of(process).is_none())
    });
    assert_eq!(bench.left_behind(), 1, "nobody could remove the folder");
    bench.put_ffmpeg("exit 1");
    bench.assert_refuses(&["--seeds", "1"], 3, &["ffmpeg failed"]);
    assert_eq!(bench.left_behind(), 0);
}

#[test]
fn ffmpeg_ends_with_the_demo() {
    let bench = DemoBench::new();
    bench.put_ffmpeg("exec /bin/sleep 1000");
    let mut command = bench.demo(&["--seeds", "1"]);
    let mut demo =
        Demo(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts"));
    let is_sleep = |process: &u32| {
        fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name.trim_end() == "sleep")
    };
    let mut encoder = None;
    wait_until("ffmpeg runs", || {
        encoder = children(demo.0.id()).into_iter().find(is_sleep);
        encoder.is_some()
    });
    demo.0.kill().expect("it runs");
    demo.0.wait().expect("it ends");
    wait_until("ffmpeg ends", || encoder.and_then(parent_of).is_none());
}
