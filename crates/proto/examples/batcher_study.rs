//! Study of the batcher: compares strategies, numbers of queues, delays and redundancy budgets.

#![allow(clippy::print_stdout, reason = "a study prints its tables")]

#[path = "../tests/support/mod.rs"]
mod support;

use byway_proto::parts::batcher::{BatcherSettings, FullestFirst, RedundancyPolicy, RoundRobin};
use byway_units::Duration;
use support::batcher::{Outcome, Source, budget, settings, study};

const WAIT: Duration = Duration::from_millis(40);
/// r/k of the settings.
const RATE: f64 = 2.0 / 8.0;

fn main() {
    let video = [Source::VIDEO; 8];
    heading("8 paced flows of 100 packets/s, repair packets scaled");
    for queues in [1, 2, 4, 8, 16, 32] {
        both(&[Source::MEDIA; 8], settings(queues, RedundancyPolicy::PerBatch), WAIT);
    }
    for wait_ms in [30, 40, 45] {
        heading(&format!(
            "8 video flows, bursts of 1 to 20 packets, at most {wait_ms} ms, repair packets scaled"
        ));
        for queues in [1, 2, 4, 8, 12, 16, 24, 32] {
            both(&video, settings(queues, RedundancyPolicy::PerBatch), Duration::from_millis(wait_ms));
        }
    }
    for percent in [100, 105, 110, 115, 120, 130, 150] {
        heading(&format!("8 video flows, budget of {percent} % of r/k"));
        round_robin(&video, settings(16, budget(percent, &video)), WAIT);
        for wait_ms in [40, 45, 60] {
            fullest_first(&video, settings(64, budget(percent, &video)), Duration::from_millis(wait_ms));
        }
    }
    for (name, sources) in mixes() {
        heading(&format!("{name}: round robin scaled, fullest first with a budget of 120 %"));
        round_robin(&sources, settings(8, RedundancyPolicy::PerBatch), WAIT);
        round_robin(&sources, settings(16, RedundancyPolicy::PerBatch), WAIT);
        for wait_ms in [40, 45, 60] {
            fullest_first(&sources, settings(64, budget(120, &sources)), Duration::from_millis(wait_ms));
        }
    }
}

fn mixes() -> Vec<(&'static str, Vec<Source>)> {
    let keys = [33_333, 40_000, 41_667, 33_333, 40_000, 41_667, 33_333, 40_000].map(Source::video_with_keys);
    let mix =
        |parts: &[(Source, usize)]| parts.iter().flat_map(|(source, count)| vec![*source; *count]).collect();
    vec![
        ("8 media flows of 100 packets/s", mix(&[(Source::MEDIA, 8)])),
        ("8 voice flows", mix(&[(Source::VOICE, 8)])),
        ("3 video flows", mix(&[(Source::VIDEO, 3)])),
        ("5 video flows", mix(&[(Source::VIDEO, 5)])),
        ("8 video flows", mix(&[(Source::VIDEO, 8)])),
        ("12 video flows", mix(&[(Source::VIDEO, 12)])),
        ("24 video flows", mix(&[(Source::VIDEO, 24)])),
        ("8 video flows at 24 to 30 frames/s, key frames of 40", keys.to_vec()),
        ("4 video and 4 voice flows", mix(&[(Source::VIDEO, 4), (Source::VOICE, 4)])),
        ("8 video and 8 voice flows", mix(&[(Source::VIDEO, 8), (Source::VOICE, 8)])),
        ("1 bulk and 7 voice flows", mix(&[(Source::BULK, 1), (Source::VOICE, 7)])),
    ]
}

fn heading(title: &str) {
    println!("\n{title}");
    println!(
        "{:<16}{:>7}{:>6}{:>10}{:>9}{:>9}{:>9}{:>8}{:>8}{:>8}{:>9}{:>7}",
        "strategy",
        "queues",
        "wait",
        "uncovered",
        "unfunded",
        "repeated",
        "packets",
        "bytes",
        "twice",
        "repair",
        "wait",
        "batch"
    );
}

fn both(sources: &[Source], settings: BatcherSettings, wait: Duration) {
    round_robin(sources, settings, wait);
    fullest_first(sources, settings, wait);
}

fn round_robin(sources: &[Source], settings: BatcherSettings, wait: Duration) {
    row("round robin", settings, wait, &study(sources, settings, wait, &RoundRobin::default()));
}

fn fullest_first(sources: &[Source], settings: BatcherSettings, wait: Duration) {
    row("fullest first", settings, wait, &study(sources, settings, wait, &FullestFirst));
}

fn row(name: &str, settings: BatcherSettings, wait: Duration, outcome: &Outcome) {
    println!(
        "{name:<16}{:>7}{:>6}{:>9.2}%{:>8.2}%{:>8.2}%{:>9.3}{:>8.3}{:>7.1}%{:>7.2}%{:>6.1} ms{:>7.2}",
        settings.queues,
        wait.as_millis(),
        outcome.uncovered(),
        outcome.unaffordable(),
        outcome.repeated(),
        outcome.overhead(RATE),
        outcome.byte_overhead(RATE),
        outcome.twice(),
        outcome.repairable(),
        outcome.mean_wait_ms(),
        outcome.mean_batch(),
    );
}
