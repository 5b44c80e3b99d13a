//! Study of loss timers: compares outage detection time and spurious NACKs.

#![allow(clippy::print_stdout, reason = "a study prints its tables")]

#[path = "../tests/support/mod.rs"]
mod support;

use byway_proto::parts::loss_timer::{FixedTimeout, TwoState};
use byway_units::Duration;
use support::loss_timer::{Outcome, Traffic, study};

fn main() {
    let ms = Duration::from_millis;
    let traffic = [
        ("paced, 100 packets/s", Traffic::Paced { interval: ms(10) }),
        ("paced, 50 packets/s", Traffic::Paced { interval: ms(20) }),
        ("paced, 1000 packets/s", Traffic::Paced { interval: ms(1) }),
        ("20 packets each 40 ms", Traffic::Frames { interval: ms(40), packets: 20 }),
        ("1 to 20 packets each 40 ms", Traffic::UnevenFrames { interval: ms(40) }),
        ("1 to 20 packets each 67 ms", Traffic::UnevenFrames { interval: ms(67) }),
        ("20 packets each 200 ms", Traffic::Frames { interval: ms(200), packets: 20 }),
        ("windows each 100 ms", Traffic::Windows),
        ("transfers of 36 packets", Traffic::Transfers),
        ("random, 100 packets/s", Traffic::Random { mean: ms(10) }),
        ("random, 5 packets/s", Traffic::Random { mean: ms(200) }),
        ("paced, 1 packet/s", Traffic::Paced { interval: ms(1_000) }),
    ];
    for rtt_ms in [30, 100, 200] {
        println!("\nround trip {rtt_ms} ms");
        println!(
            "{:<28}{:<10}{:>10}{:>12}{:>12}{:>10}{:>10}{:>14}",
            "traffic", "timer", "packets", "spurious", "in silences", "detected", "p95", "timeout"
        );
        for (name, traffic) in traffic {
            row(name, "fixed", &study(traffic, &FixedTimeout::default(), 1));
            row(name, "two state", &study(traffic, &TwoState::new(ms(rtt_ms)), 1));
        }
    }
}

fn row(name: &str, timer: &str, outcome: &Outcome) {
    println!(
        "{name:<28}{timer:<10}{:>10}{:>12}{:>12}{:>7} ms{:>7} ms{:>14}",
        outcome.packets,
        outcome.needless,
        outcome.needless_silences,
        outcome.noticed_mean.as_millis(),
        outcome.noticed_p95.as_millis(),
        outcome.timeout.to_string(),
    );
}
