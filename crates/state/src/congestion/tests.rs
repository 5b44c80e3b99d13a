extern crate std;

use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::entry::LinkEntry;
use crate::link_state::{LinkId, LinkState};
use crate::test_values::{at, millis, path_entry, state};

const PAYLOAD: u64 = 1_452;

fn control(rules: Rules) -> CongestionControl {
    CongestionControl::new(PacketSize::new(1_500, 48).expect("usual packets"), rules)
}

/// Returns the entry of a link of 5 Mbit/s and 50 ms that sends at its rate.
fn entry(backlog: u64) -> PathEntry {
    entry_with_delay(backlog, 0.05)
}

fn entry_with_delay(backlog: u64, delay: f64) -> PathEntry {
    path_entry(&[state(LinkId::unnamed(0), [0.05, 31_250.0, float(backlog), 625_000.0, delay])])
}

/// Updates both directions, as often as a second of history does.
fn update(control: &mut CongestionControl, backlog: u64, now: Time) {
    for _ in 0..20 {
        control.on_forward_entry(&entry(backlog), now);
        control.on_back_entry(&entry(0), now);
    }
}

fn ack(packets: u64, round_trip: Duration) -> Ack {
    Ack {
        bytes: Bytes::new(PAYLOAD * packets),
        packets: u32::try_from(packets).expect("few"),
        round_trip,
        is_app_limited: false,
    }
}

/// Acknowledges at the link's rate for so long, with news each 50 ms.
fn run(control: &mut CongestionControl, from: u64, to: u64, round_trip: u64) {
    for now in (from..to).step_by(5) {
        if now % 50 == 0 {
            control.on_forward_entry(&entry(1_500), at(now));
            control.on_back_entry(&entry(0), at(now));
        }
        control.on_sent(at(now));
        control.on_ack(ack(2, millis(round_trip)), at(now));
    }
}

fn packets(control: &CongestionControl) -> u64 {
    assert_eq!(control.window().count() % PAYLOAD, 0, "whole packets");
    control.window().count() / PAYLOAD
}

#[test]
fn a_flow_without_state_begins_with_ten_packets_and_doubles() {
    let mut control = control(Rules::CORRECTED);
    assert_eq!((packets(&control), control.guidance()), (10, Guidance::Delay));
    assert_eq!((control.request_window(), control.decision()), (None, None));
    assert!(control.pacing().rate > Rate::ZERO);
    for now in [100, 120, 140, 160, 180] {
        control.on_ack(ack(2, millis(100)), at(now));
    }
    assert!((19..=21).contains(&packets(&control)), "{}", packets(&control));
    // Twice the window in each round trip: 20 packets in 50 ms.
    let rate = control.pacing().rate.bits_per_second() / 100_000;
    assert!((44..=49).contains(&rate), "{rate}");
    assert_eq!(control.pacing().burst, Bytes::new(2 * PAYLOAD));
}

#[test]
fn with_state_the_window_ramps_up_to_the_decision() {
    let mut control = control(Rules::CORRECTED);
    update(&mut control, 0, at(0));
    assert_eq!((packets(&control), control.guidance()), (10, Guidance::State));
    let decision = *control.decision().expect("there is state");
    assert_eq!((decision.rate, decision.window), (Rate::from_megabits_per_second(5), Bytes::new(64_000)));
    assert_eq!(control.request_window(), Some(Bytes::new(96_000 * PAYLOAD / 1_500)));
    // 1.1 times the rate, without headers.
    assert_eq!(control.pacing().rate, Rate::from_bits_per_second(5_500_000 * PAYLOAD / 1_500));
    run(&mut control, 100, 1_000, 102);
    assert!((41..=44).contains(&packets(&control)), "{}", packets(&control));
}

#[test]
fn a_window_begins_anew_after_a_second_of_silence() {
    let mut control = control(Rules::CORRECTED);
    run(&mut control, 0, 1_000, 102);
    run(&mut control, 1_990, 1_995, 102);
    assert!(packets(&control) > 40);
    update(&mut control, 0, at(3_000));
    control.on_sent(at(3_000));
    assert!((10..=11).contains(&packets(&control)));
}

#[test]
fn without_news_the_window_is_delay_based_until_they_come_back() {
    let mut control = control(Rules::CORRECTED);
    run(&mut control, 0, 2_000, 102);
    let before = packets(&control);
    // At 5 Mbit/s, the own packets that should wait take five milliseconds.
    for now in (2_000..4_000).step_by(5) {
        control.on_ack(ack(2, millis(105)), at(now));
    }
    assert_eq!((control.guidance(), control.request_window()), (Guidance::Delay, None));
    assert!(
        packets(&control).abs_diff(before) <= 6,
        "the round trip is still short: {} {before}",
        packets(&control)
    );
    for now in (4_000..6_000).step_by(5) {
        control.on_ack(ack(2, millis(150)), at(now));
    }
    assert!(packets(&control) < before / 2, "{}", packets(&control));
    run(&mut control, 6_000, 6_400, 102);
    assert_eq!(control.guidance(), Guidance::State);
    assert!(packets(&control) >= before - 2, "{}", packets(&control));
}

#[test]
fn a_round_trip_that_the_table_does_not_explain_limits_the_window_until_it_does() {
    let mut control = control(Rules::CORRECTED);
    run(&mut control, 0, 2_000, 102);
    let before = packets(&control);
    run(&mut control, 2_000, 2_150, 400);
    assert_eq!(control.guidance(), Guidance::State, "a round trip and a half");
    for now in (2_150..4_000).step_by(5) {
        run(&mut control, now, now + 5, 400);
        assert!(control.guidance() == Guidance::StateAndDelay || now < 2_250, "{now}");
    }
    assert!(packets(&control) < before / 2, "{}", packets(&control));
    let requested = control.request_window().expect("there is state");
    assert!(requested <= Bytes::new(PAYLOAD * (packets(&control) * 3 / 2 + 2)), "{requested}");
    run(&mut control, 4_000, 9_000, 102);
    assert_eq!((control.guidance(), packets(&control).abs_diff(before) <= 2), (Guidance::State, true));
}

#[test]
fn a_round_trip_that_a_queue_of_the_table_explains_does_not() {
    let mut control = control(Rules::CORRECTED);
    run(&mut control, 0, 1_000, 102);
    for now in (1_000..3_000).step_by(5) {
        if now % 50 == 0 {
            control.on_forward_entry(&entry(62_500), at(now));
        }
        control.on_ack(ack(2, millis(200)), at(now));
    }
    assert_eq!(control.guidance(), Guidance::State);
}

#[test]
fn a_table_with_more_delay_than_round_trips_have_is_not_believed() {
    let mut control = control(Rules::CORRECTED);
    run(&mut control, 0, 2_000, 102);
    let before = packets(&control);
    for now in (2_000..4_000).step_by(5) {
        if now % 50 == 0 {
            control.on_forward_entry(&entry_with_delay(1_500, 10.0), at(now));
        }
        // The own packets that should wait take five milliseconds.
        control.on_ack(ack(2, millis(107)), at(now));
        assert!(control.guidance() == Guidance::Delay || now < 2_250, "{now}");
    }
    assert_eq!(control.request_window(), None);
    assert!(packets(&control).abs_diff(before) <= 4, "{} {before}", packets(&control));
    run(&mut control, 4_000, 4_500, 102);
    assert_eq!(control.guidance(), Guidance::State);
    assert!(packets(&control).abs_diff(before) <= 2, "{} {before}", packets(&control));
}

#[test]
fn a_queue_that_no_round_trip_has_does_not_stop_a_flow() {
    let mut control = control(Rules::CORRECTED);
    update(&mut control, 16 << 20, at(0));
    assert_eq!(packets(&control), 2);
    assert_eq!(control.pacing().rate, Rate::from_bits_per_second(2 * 8 * PAYLOAD), "two packets a second");
    for now in (50..1_050).step_by(50) {
        assert_eq!(control.guidance(), Guidance::State);
        control.on_forward_entry(&entry(16 << 20), at(now));
        if now % 500 == 0 {
            control.on_ack(ack(1, millis(102)), at(now));
        }
    }
    assert_eq!(control.guidance(), Guidance::Delay, "the second acknowledgment");
    run(&mut control, 1_050, 4_000, 102);
    assert!(packets(&control) > 36 && control.guidance() == Guidance::State, "{}", packets(&control));
}

#[test]
fn congestion_begins_a_delay_based_limit() {
    for congestion in [Congestion::Lost(Bytes::new(PAYLOAD)), Congestion::Marked, Congestion::Persistent] {
        let mut control = control(Rules::CORRECTED);
        run(&mut control, 0, 2_000, 102);
        let before = packets(&control);
        for _ in 0..4 {
            control.on_congestion(congestion, at(2_000));
        }
        assert_eq!(control.guidance(), Guidance::StateAndDelay);
        run(&mut control, 2_000, 2_250, 102);
        assert!(packets(&control) < before * 4 / 5, "{congestion:?}: {}", packets(&control));
        run(&mut control, 2_250, 6_000, 102);
        assert_eq!(control.guidance(), Guidance::State, "{congestion:?}");
    }
}

#[test]
fn a_single_loss_reduces_nothing() {
    let mut control = control(Rules::CORRECTED);
    run(&mut control, 0, 2_000, 102);
    let before = packets(&control);
    control.on_congestion(Congestion::Lost(Bytes::new(PAYLOAD)), at(2_000));
    run(&mut control, 2_000, 2_500, 102);
    assert!(packets(&control) + 2 >= before && control.guidance() == Guidance::State);
}

#[test]
fn losses_that_were_none_reduce_nothing_in_the_end() {
    let mut control = control(Rules::CORRECTED);
    run(&mut control, 0, 2_000, 102);
    let before = packets(&control);
    control.on_congestion(Congestion::Lost(Bytes::new(4 * PAYLOAD)), at(2_000));
    run(&mut control, 2_000, 2_250, 102);
    assert!(packets(&control) < before * 4 / 5, "{}", packets(&control));
    control.on_spurious_loss();
    assert!(packets(&control) + 2 >= before, "{} {before}", packets(&control));
}

#[test]
fn windows_and_bursts_are_of_packets_of_the_newest_size() {
    let mut control = control(Rules::CORRECTED);
    control.set_packet_size(PacketSize::new(1_228, 28).expect("the least size of QUIC"));
    assert_eq!(control.pacing().burst, Bytes::new(2_400));
    // 15,000 bytes of the initial window are 12.2 packets.
    assert_eq!(control.window(), Bytes::new(13 * 1_200));
}

#[test]
fn the_published_rules_know_neither_ramp_nor_delay_nor_congestion() {
    let mut control = control(Rules::PUBLISHED);
    // The averages begin at zero: 20 entries are 64 % of a second.
    update(&mut control, 0, at(0));
    assert_eq!(packets(&control), 43, "62,500 bytes and a packet");
    assert_eq!(control.pacing().rate, Rate::from_bits_per_second(6_250_000 * PAYLOAD / 1_500));
    control.on_congestion(Congestion::Persistent, at(0));
    for now in (0..5_000).step_by(5) {
        control.on_ack(ack(10, millis(500)), at(now));
    }
    assert_eq!((packets(&control), control.guidance()), (43, Guidance::State));
    assert_eq!(control.rest_of_path(at(5_000)), Duration::ZERO);
}

#[test]
fn the_rest_of_the_path_is_part_of_the_window() {
    let mut control = control(Rules::CORRECTED);
    run(&mut control, 0, 3_000, 142);
    assert!((37..=42).contains(&control.rest_of_path(at(3_000)).as_millis()));
    assert!((57..=60).contains(&packets(&control)), "{}", packets(&control));
}

/// Inputs of a transport and of a table, in any order.
#[derive(Clone, Debug)]
enum Step {
    Forward([u64; 6]),
    Back([u64; 6]),
    Sent,
    Ack([u64; 3], bool),
    Congestion(Congestion),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        any::<[u64; 6]>().prop_map(Step::Forward),
        any::<[u64; 6]>().prop_map(Step::Back),
        Just(Step::Sent),
        (any::<[u64; 3]>(), any::<bool>()).prop_map(|(numbers, limited)| Step::Ack(numbers, limited)),
        any::<u64>().prop_map(|bytes| Step::Congestion(Congestion::Lost(Bytes::new(bytes)))),
        prop_oneof![Just(Congestion::Marked), Just(Congestion::Persistent)].prop_map(Step::Congestion),
    ]
}

/// Returns an entry of one or two links, from numbers of any size.
fn any_entry([interval, sent, backlog, shown, delay, age]: [u64; 6]) -> Option<PathEntry> {
    let shown = Rate::from_bits_per_second(8_000 + shown % 10_000_000_000);
    let interval = Duration::from_nanos(interval % 200_000_000);
    let sendable = shown.bytes_in(interval).unwrap_or(Bytes::ZERO).count();
    let (sent, backlog) =
        if interval.is_zero() { (0, 0) } else { (sent % (sendable + 1), backlog % (16 << 20)) };
    let delay = Duration::from_nanos(delay % 10_000_000_000);
    let entry = LinkEntry::new(interval, Bytes::new(sent), Bytes::new(backlog), shown, delay).ok()?;
    let state =
        |link| LinkState::new(LinkId::unnamed(link), entry, Duration::from_nanos(age % 5_000_000_000)).ok();
    let links: Option<Vec<LinkState>> = (0..=u32::from(age % 3 == 0)).map(state).collect();
    PathEntry::new(1, links?).ok()
}

proptest! {
    #[test]
    fn windows_and_rates_are_in_range_for_any_inputs(
        steps in prop::collection::vec((any_step(), prop_oneof![0_u64..50_000_000, any::<u64>()]), 0..60),
        is_corrected in any::<bool>(),
    ) {
        let mut control = control(if is_corrected { Rules::CORRECTED } else { Rules::PUBLISHED });
        let mut now = Time::START;
        for (step, wait) in steps {
            // Some steps go back in time, too.
            now = Time::from_nanos(now.as_nanos().wrapping_add(wait));
            match step {
                Step::Forward(numbers) => {
                    if let Some(entry) = any_entry(numbers) {
                        control.on_forward_entry(&entry, now);
                    }
                }
                Step::Back(numbers) => {
                    if let Some(entry) = any_entry(numbers) {
                        control.on_back_entry(&entry, now);
                    }
                }
                Step::Sent => control.on_sent(now),
                Step::Ack([bytes, packets, round_trip], is_app_limited) => control.on_ack(
                    Ack {
                        bytes: Bytes::new(bytes),
                        packets: u32::try_from(packets % 1_000).unwrap_or(0),
                        round_trip: Duration::from_nanos(round_trip),
                        is_app_limited,
                    },
                    now,
                ),
                Step::Congestion(congestion) => control.on_congestion(congestion, now),
            }
            prop_assert!((2..=WINDOW_PACKETS_MAX).contains(&packets(&control)));
            prop_assert!(control.pacing().rate > Rate::ZERO);
            prop_assert!(control.request_window().is_none_or(|window| window < Bytes::MAX));
        }
    }
}
