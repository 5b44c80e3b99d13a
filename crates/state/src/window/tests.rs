extern crate std;

use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::entry::LinkEntry;
use crate::link_state::LinkState;
use crate::naive::NaiveWindow;
use crate::test_values::{at, path_entry as entry, state};

const MEGABIT: f64 = 125_000.0;
const ALL_RULES: [Rules; 4] =
    [Rules::PUBLISHED, Rules::BACKLOG_FLOOR, Rules::PUBLISHED_BOUNDS, Rules::CORRECTED];

/// Returns the state of a link, with a second's interval.
fn link(position: u32, megabits: f64, sent: f64, backlog: f64, delay: f64) -> LinkState {
    state(LinkId::unnamed(position), [1.0, sent, backlog, megabits * MEGABIT, delay])
}

fn window(rules: Rules, forward: &[LinkState], back: &[LinkState]) -> Window {
    let mut window = Window::new(rules);
    window.on_forward_entry(&entry(forward), Time::START);
    window.on_back_entry(&entry(back), Time::START);
    window
}

fn megabits(count: f64) -> Rate {
    rate(count * MEGABIT)
}

fn decide(window: &Window, delivery: f64) -> Decision {
    window.decide(megabits(delivery), Duration::ZERO).expect("there is state")
}

const BACK: f64 = 100.0;

#[test]
fn without_state_there_is_no_decision() {
    let mut window = Window::new(Rules::CORRECTED);
    assert_eq!(window.decide(Rate::ZERO, Duration::ZERO), None);
    window.on_back_entry(&entry(&[link(0, 5.0, 0.0, 0.0, 0.05)]), Time::START);
    assert_eq!(window.decide(Rate::ZERO, Duration::ZERO), None);
}

#[test]
fn a_lone_flow_gets_the_link_and_one_packet_waits() {
    let forward = [link(0, 5.0, 5.0 * MEGABIT, 1_500.0, 0.0524)];
    let window = window(Rules::PUBLISHED, &forward, &[link(0, BACK, 0.0, 0.0, 0.05)]);
    let decision = decide(&window, 5.0);
    assert_eq!(decision.rate, megabits(5.0));
    // 625,000 B/s in 102.4 ms, and the packet that waits.
    assert_eq!(decision.window, Bytes::new(64_000 + 1_500));
    assert_eq!((decision.own_backlog, decision.other_backlog), (Bytes::new(1_500), Bytes::ZERO));
    assert_eq!(decision.request_window(), Bytes::new(98_250));
    assert_eq!(decision.round_trip, Duration::from_micros(104_800));
}

#[test]
fn one_of_two_flows_gets_half_and_one_packet_waits_behind_the_others() {
    let forward = [link(0, 5.0, 5.0 * MEGABIT, 3_000.0, 0.05)];
    let window = window(Rules::CORRECTED, &forward, &[link(0, BACK, 0.0, 0.0, 0.05)]);
    let decision = decide(&window, 2.5);
    assert_eq!(decision.rate, megabits(2.5));
    assert_eq!((decision.own_backlog, decision.other_backlog), (Bytes::new(1_500), Bytes::new(1_500)));
    // 312,500 B/s in 100 ms, and half of two packets' time.
    assert_eq!(decision.window, Bytes::new(31_250 + 1_500));
}

#[test]
fn the_slowest_link_is_the_bottleneck_and_only_there_own_bytes_wait() {
    let sent = 5.0 * MEGABIT;
    let forward =
        [link(0, 50.0, sent, 0.0, 0.01), link(1, 5.0, sent, 1_500.0, 0.02), link(2, 5.0, sent, 0.0, 0.02)];
    let decision = decide(&window(Rules::PUBLISHED, &forward, &[link(0, BACK, 0.0, 0.0, 0.05)]), 5.0);
    assert_eq!(decision.bottleneck, LinkId::unnamed(1));
    assert_eq!(decision.window, Bytes::new(62_500 + 1_500));
}

#[test]
fn a_backlog_on_the_return_path_and_the_rest_of_the_path_count() {
    let forward = [link(0, 5.0, 5.0 * MEGABIT, 0.0, 0.05)];
    let window = window(Rules::PUBLISHED, &forward, &[link(0, 5.0, 0.0, 6_250.0, 0.05)]);
    let plain = decide(&window, 5.0);
    assert_eq!(plain.window, Bytes::new(62_500 + 6_250 + 1_500));
    let rest = window.decide(megabits(5.0), Duration::from_millis(40)).expect("there is state");
    assert_eq!(rest.window, plain.window + Bytes::new(25_000));
}

#[test]
fn an_overstated_rate_is_corrected_as_the_own_backlog_grows() {
    let rate_at = |backlog: f64| {
        let forward = [link(0, 7.5, 5.0 * MEGABIT, backlog, 0.05)];
        // One second of interval would be old.
        let mut window = window(Rules::CORRECTED, &forward, &forward);
        window.forward = young(&window.forward);
        decide(&window, 5.0).rate.bits_per_second().saturating_add(5_000) / 10_000
    };
    assert_eq!([1_500.0, 2_250.0, 3_000.0, 30_000.0].map(rate_at), [750, 625, 500, 500]);
    let forward = [link(0, 7.5, 5.0 * MEGABIT, 30_000.0, 0.05)];
    assert_eq!(decide(&window(Rules::PUBLISHED, &forward, &forward), 5.0).rate, megabits(7.5), "the control");
}

/// Returns the averages with a feedback delay of 50 ms.
fn young(averages: &PathAverages) -> PathAverages {
    let young = |link: &LinkAverage| {
        state(link.link, [0.05, link.throughput * 0.05, link.backlog, link.rate, link.delay])
    };
    let states: Vec<LinkState> = averages.links().iter().map(young).collect();
    // Averages of equal states are these states.
    let mut path = PathAverages::new(Corrections::All);
    path.update(&states, at(0));
    path
}

#[test]
fn a_return_path_without_news_counts_with_its_delay_only() {
    let forward = [link(0, 5.0, 5.0 * MEGABIT, 0.0, 0.05)];
    let mut window = window(Rules::CORRECTED, &forward, &[link(0, 5.0, 0.0, 6_250.0, 0.05)]);
    assert_eq!(decide(&window, 5.0).window, Bytes::new(62_500 + 6_250 + 1_500));
    window.on_forward_entry(&entry(&forward), at(999));
    assert_eq!(decide(&window, 5.0).window, Bytes::new(62_500 + 6_250 + 1_500));
    window.on_forward_entry(&entry(&forward), at(1_000));
    assert_eq!(decide(&window, 5.0).window, Bytes::new(62_500 + 1_500));
}

#[test]
fn with_old_state_the_rate_changes_by_a_step_only() {
    let forward = |backlog: f64| [link(0, 5.0, 5.0 * MEGABIT, backlog, 0.05)];
    let back = [link(0, BACK, 0.0, 0.0, 0.05)];
    // The step is 2 % of 5 Mbit/s in a feedback delay of a second.
    let decision = decide(&window(Rules::CORRECTED, &forward(100_000.0), &back), 2.5);
    assert_eq!(decision.rate, rate(312_500.0 + 1_500.0 - 50_000.0 - 12_500.0));
    let decision = decide(&window(Rules::CORRECTED, &forward(0.0), &back), 2.5);
    assert_eq!(decision.rate, rate(312_500.0 + 12_500.0));
    let small = decide(&window(Rules::CORRECTED, &forward(0.0), &back), 0.5);
    assert_eq!(small.rate, rate(62_500.0 + 22_500.0), "a tenth of the link");
    let published = decide(&window(Rules::PUBLISHED_BOUNDS, &forward(0.0), &back), 2.5);
    assert_eq!(published.rate, rate(312_500.0 + 3_000.0));
    assert_eq!(
        decide(&window(Rules::PUBLISHED, &forward(0.0), &back), 2.5).rate,
        megabits(5.0),
        "the control"
    );
}

#[test]
fn a_backlog_floor_leaves_two_flows_two_thirds_at_most() {
    let forward = [link(0, 5.0, 5.0 * MEGABIT, 0.0, 0.05)];
    let decision = decide(&window(Rules::BACKLOG_FLOOR, &forward, &forward), 2.5);
    assert_eq!(decision.rate, rate(625_000.0 / 1.5));
}

#[test]
fn an_idle_link_bounds_nothing() {
    let forward = [link(0, 5.0, 0.0, 0.0, 0.05)];
    for rules in ALL_RULES {
        assert_eq!(decide(&window(rules, &forward, &forward), 0.0).rate, megabits(5.0), "{rules:?}");
    }
}

/// Any legal state of one of five links, from the shortest to the longest intervals.
fn any_state() -> impl Strategy<Value = LinkState> {
    let interval = prop_oneof![Just(0_u64), 1_000_000_u64..200_000_000, 1_u64..10_000_000_000];
    let number = prop_oneof![0_u64..10_000, 0_u64..1 << 40];
    (
        interval,
        number.clone(),
        number,
        1_000_000_u64..1_000_000_000,
        0_u64..200_000_000,
        0_u64..2_000,
        64_u64..20_000,
    )
        .prop_map(|(interval, sent, backlog, shown, delay, age, target)| {
            let shown = Rate::from_bits_per_second(shown);
            let sendable = shown.bytes_in(Duration::from_nanos(interval)).unwrap_or(Bytes::ZERO);
            let (sent, backlog) = if interval == 0 { (0, 0) } else { (sent, backlog % (16 << 20)) };
            let entry = LinkEntry::new(
                Duration::from_nanos(interval),
                Bytes::new(sent).min(sendable * 100),
                Bytes::new(backlog),
                shown,
                Duration::from_nanos(delay),
            );
            let state =
                LinkState::new(LinkId::unnamed(0), entry.expect("in range"), Duration::from_millis(age));
            state.expect("in range").with_target(Bytes::new(target)).expect("in range")
        })
}

/// Returns the states with different links, some of which a path may lose or win.
fn named(states: Vec<LinkState>, shift: u32) -> Vec<LinkState> {
    let named = |(position, state): (u32, LinkState)| {
        let link = LinkId::unnamed((position + shift) % 9);
        let renamed = LinkState::new(link, *state.entry(), state.age()).expect("in range");
        renamed.with_target(state.target()).expect("in range")
    };
    (0..).zip(states).map(named).collect()
}

fn any_entries() -> impl Strategy<Value = Vec<(bool, Vec<LinkState>)>> {
    let one = (any::<bool>(), prop::collection::vec(any_state(), 1..8), 0_u32..3);
    let entries = prop::collection::vec(one, 1..30);
    entries.prop_map(|entries| {
        entries.into_iter().map(|(is_back, states, shift)| (is_back, named(states, shift))).collect()
    })
}

/// Any rate in bits per second, of any order of magnitude.
fn any_rate() -> impl Strategy<Value = u64> {
    (0_u32..32, any::<u32>()).prop_map(|(shift, bits)| u64::from(bits >> shift))
}

proptest! {
    #[test]
    fn windows_are_those_of_the_equations_as_written(
        entries in any_entries(),
        delivery in any_rate(),
        rest in 0_u64..100_000_000,
        rules in 0_usize..4,
    ) {
        let rules = ALL_RULES[rules];
        let (mut window, mut naive) = (Window::new(rules), NaiveWindow::default());
        for (is_back, states) in entries {
            if is_back {
                window.on_back_entry(&entry(&states), Time::START);
                naive.back.push(states);
            } else {
                window.on_forward_entry(&entry(&states), Time::START);
                naive.forward.push(states);
            }
        }
        let (delivery, rest) = (Rate::from_bits_per_second(delivery), Duration::from_nanos(rest));
        let found = window.decide(delivery, rest);
        let expected = naive.decide(rules, bytes_per_second(delivery), rest.as_secs_f64());
        prop_assert_eq!(found.is_some(), expected.is_some());
        if let (Some(found), Some(expected)) = (found, expected) {
            let is_close = |found: f64, expected: f64| (found - expected).abs() <= 1.0 + 1e-6 * expected;
            prop_assert!(is_close(bytes_per_second(found.rate), expected.rate), "{:?} {:?}", found, expected);
            let window = float(found.window.count());
            prop_assert!(is_close(window, expected.window), "{:?} {:?}", found, expected);
            prop_assert_eq!(found.bottleneck, expected.bottleneck);
        }
    }

    #[test]
    fn windows_and_rates_are_finite_for_any_inputs(
        entries in any_entries(),
        delivery in prop_oneof![any_rate(), any::<u64>()],
        rest in any::<u64>(),
    ) {
        for rules in ALL_RULES {
            let mut window = Window::new(rules);
            for (is_back, states) in &entries {
                if *is_back {
                    window.on_back_entry(&entry(states), Time::START);
                } else {
                    window.on_forward_entry(&entry(states), Time::START);
                }
            }
            let decision = window.decide(Rate::from_bits_per_second(delivery), Duration::from_nanos(rest));
            if let Some(decision) = decision {
                prop_assert!(decision.rate > Rate::ZERO && decision.rate < Rate::MAX, "{:?}", decision);
                prop_assert!(decision.window < Bytes::MAX, "{:?}", decision);
            }
        }
    }
}
