//! What Rate-Delay promises, and that it is what the figures say.

use super::*;
use crate::naive::Naive;
use crate::{Discards, RateDelay, Settings};

fn link(megabits: u64) -> Settings {
    Settings::new(Rate::from_megabits_per_second(megabits), Bytes::new(u64::from(MTU))).expect("a usual link")
}

fn wire(settings: Settings) -> Wire<RateDelay<u32>> {
    Wire::new(RateDelay::new(settings, Time::START), settings.capacity())
}

proptest! {
    #[test]
    fn no_low_delay_packet_waits_longer_than_was_promised(
        megabits in prop_oneof![Just(5_u64), Just(20), Just(100)],
        ratio in 1_001_u32..8_000,
        discards in prop_oneof![Just(Discards::Late), Just(Discards::All)],
        (is_guarded, marks) in any::<(bool, bool)>(),
        arrivals in arrivals(),
    ) {
        let settings = link(megabits).with_ratio_milli(ratio).expect("above one").with_discards(discards);
        let settings = if is_guarded { settings.with_guard() } else { settings };
        let settings = if marks { settings.with_ecn() } else { settings };
        let mut wire = wire(settings);
        let (mut now, mut promised) = (Time::START, settings.delay());
        for (gap, class, number, bytes) in arrivals {
            now += Duration::from_micros(gap);
            wire.arrive(class, flow(number), bytes, now);
            promised = promised.max(wire.queue.status().delay);
        }
        wire.send_until(Time::MAX);
        wire.check();
        for left in wire.left.iter().filter(|left| left.class == Class::LowDelay) {
            prop_assert!(left.waited <= promised, "{:?}, {} was promised", left, promised);
        }
    }

    #[test]
    fn the_fast_scheduler_does_what_the_figures_say(
        ratio in 1_001_u32..8_000,
        discards in prop_oneof![Just(Discards::Late), Just(Discards::All), Just(Discards::None)],
        steps in prop::collection::vec((arrivals(), 0_u64..40), 1..4),
    ) {
        let settings = link(20).with_ratio_milli(ratio).expect("above one");
        let settings = settings.with_discards(discards);
        let (mut fast, mut naive) = (RateDelay::new(settings, Time::START), Naive::new(settings, Time::START));
        let (mut now, mut number) = (Time::START, 0_u32);
        for (arrivals, departures) in steps {
            for (gap, class, flow_number, bytes) in arrivals {
                now += Duration::from_micros(gap);
                let arrival = Arrival { packet: number, bytes, class, flow: flow(flow_number), source: flow(flow_number), is_ecn_capable: false };
                number += 1;
                let mut dropped = Vec::new();
                fast.enqueue(arrival, now, &mut |packet, why| dropped.push((packet, why)));
                prop_assert_eq!(dropped, naive.enqueue(arrival, now));
                if flow_number % 3 == 0 {
                    let mut dropped = Vec::new();
                    let left = fast.dequeue(now, &mut |packet, why| dropped.push((packet, why)));
                    prop_assert_eq!((left.map(|left| left.packet), dropped), naive.dequeue(now));
                }
            }
            for _ in 0..departures {
                let mut dropped = Vec::new();
                let left = fast.dequeue(now, &mut |packet, why| dropped.push((packet, why)));
                prop_assert_eq!((left.map(|left| left.packet), dropped), naive.dequeue(now));
            }
        }
    }
}

/// A link whose classes both always have more to send than it carries, after so many seconds.
fn overloaded(settings: Settings, flows: [u64; 2], seconds: u64) -> Wire<RateDelay<u32>> {
    let mut wire = wire(settings);
    let step = Duration::from_micros(100);
    let mut now = Time::START;
    while now < Time::START + Duration::from_secs(seconds) {
        now += step;
        for (class, count) in Class::ALL.into_iter().zip(flows) {
            for packet in 0..3 {
                let number = (now.as_nanos() / step.as_nanos() * 3 + packet) % count;
                wire.arrive(class, flow(number + 1), MTU, now);
            }
        }
    }
    wire
}

/// What the classes sent, once flows were counted for two seconds, until eight seconds later.
fn sent(settings: Settings, flows: [u64; 2]) -> [u64; 2] {
    let sent_by = |seconds| {
        let left = overloaded(settings, flows, seconds).left;
        let bytes = |class| {
            left.iter().filter(|left| left.class == class).map(|left| u64::from(left.bytes)).sum::<u64>()
        };
        Class::ALL.map(bytes)
    };
    let (before, after) = (sent_by(2), sent_by(10));
    [after[0] - before[0], after[1] - before[1]]
}

#[test]
fn the_low_delay_queue_is_as_long_as_its_bound_allows() {
    for flows in [[10, 10], [5, 50], [50, 5]] {
        let wire = overloaded(link(100), flows, 4);
        let low_delay = wire.left.iter().filter(|left| left.class == Class::LowDelay);
        let longest = low_delay.map(|left| left.waited).max().expect("some left");
        let bound = Duration::from_millis(10);
        assert!(longest <= bound && longest >= bound * 3 / 4, "{longest} with {flows:?}");
    }
}

#[test]
fn a_high_rate_flow_gets_the_ratio_of_a_low_delay_flow() {
    for ([high_rate, low_delay], ratio_milli) in
        [([10, 10], 2_000), ([50, 10], 2_000), ([10, 50], 2_000), ([20, 20], 1_500), ([20, 20], 4_000)]
    {
        let settings = link(100).with_ratio_milli(ratio_milli).expect("above one");
        let [of_high_rate, of_low_delay] = sent(settings, [high_rate, low_delay]);
        #[allow(clippy::cast_precision_loss, reason = "a ratio to a few digits")]
        let ratio = of_high_rate as f64 / high_rate as f64 / (of_low_delay as f64 / low_delay as f64);
        let asked = f64::from(ratio_milli) / 1_000.0;
        assert!(
            (ratio / asked - 1.0).abs() < 0.05,
            "{ratio} instead of {asked}, {high_rate} and {low_delay} flows"
        );
        let whole = 100_000_000 / 8 * 8;
        assert!(of_high_rate + of_low_delay >= whole - 3 * u64::from(MTU), "the link is never idle");
    }
}

#[test]
fn flows_from_before_a_long_pause_are_forgotten() {
    for pause in [2_000, 65_400, 65_800, 131_200] {
        let mut wire = wire(link(100));
        for number in 1..50 {
            wire.arrive(Class::HighRate, flow(number), MTU, Time::START);
        }
        let later = Time::START + Duration::from_millis(pause);
        wire.arrive(Class::LowDelay, flow(1), MTU, later);
        assert_eq!(wire.queue.status().flows, [0, 0], "{pause}");
        wire.arrive(Class::LowDelay, flow(1), MTU, later + Duration::from_millis(400));
        assert_eq!(wire.queue.status().flows, [0, 1], "{pause}");
    }
}
