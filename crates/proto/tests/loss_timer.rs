//! Tests of loss timers over ten simulated minutes, with up to 5 ms of jitter.

mod support;

use byway_proto::parts::loss_timer::{FixedTimeout, TwoState};
use byway_units::Duration;
use support::loss_timer::{Outcome, Traffic, study};

const SEEDS: [u64; 3] = [1, 2, 3];

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn two_state(traffic: Traffic, rtt: Duration, seed: u64) -> Outcome {
    study(traffic, &TwoState::new(rtt), seed)
}

#[test]
fn paced_flows_are_practically_never_asked_for_needlessly() {
    for seed in SEEDS {
        let outcome = two_state(Traffic::Paced { interval: ms(10) }, ms(60), seed);
        assert!(outcome.needless <= 1, "{outcome:?}");
        assert!((ms(15)..=ms(25)).contains(&outcome.timeout), "{outcome:?}");
        assert!(outcome.noticed_p95 < ms(20), "{outcome:?}");
    }
}

#[test]
fn frames_are_waited_for_and_outages_noticed_soon_after_the_next_was_due() {
    let even = Traffic::Frames { interval: ms(40), packets: 20 };
    for traffic in [even, Traffic::UnevenFrames { interval: ms(40) }] {
        for seed in SEEDS {
            let outcome = two_state(traffic, ms(60), seed);
            assert!(outcome.needless <= 5, "{outcome:?}");
            assert!(outcome.noticed_p95 < ms(65), "{outcome:?}");
        }
    }
}

#[test]
fn on_and_off_flows_are_asked_for_needlessly_ten_times_less_than_with_a_fixed_timeout() {
    for traffic in [Traffic::Windows, Traffic::Transfers] {
        for seed in SEEDS {
            let fixed = study(traffic, &FixedTimeout::default(), seed);
            for rtt in [ms(30), ms(100), ms(200)] {
                let outcome = two_state(traffic, rtt, seed);
                assert!(outcome.needless * 10 < fixed.needless, "{outcome:?} {fixed:?}");
                assert!(outcome.noticed_mean < ms(300), "{outcome:?}");
            }
        }
    }
}

#[test]
fn in_windows_that_follow_each_other_every_silence_is_foreseen() {
    let outcome = two_state(Traffic::Windows, ms(100), 1);
    assert!(outcome.needless_silences <= 3, "{outcome:?}");
}

#[test]
fn without_any_rule_at_most_a_tenth_of_the_packets_is_followed_by_a_needless_question() {
    for mean in [ms(10), ms(200), ms(1_000)] {
        let outcome = two_state(Traffic::Random { mean }, ms(60), 1);
        assert!(outcome.needless_silences * 10 <= outcome.packets + 100, "{outcome:?}");
    }
}
