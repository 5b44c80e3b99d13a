//! Tests of links that share by flows.

use super::constant_rate::{ConstantRateSender, LENGTH, PACKET, rate_of, run};
use super::rate_delay::{class_bytes, link, lost_beside_a_flood, overloaded, wire};
use super::*;
use crate::{GuardMode, RateDelay, Sample, Settings, Sharing};

fn by_flows(megabits: u64, floor_milli: u32) -> Settings {
    link(megabits).with_sharing(Sharing::ByFlows { floor_milli }).expect("a usual floor")
}

/// Returns guaranteed and shown rate in kbit/s, rounded down.
fn kilobits(sample: &Sample) -> [u64; 2] {
    [sample.rates.guaranteed, sample.rates.shown].map(|rate| rate.bits_per_second() / 1_000)
}

impl TestLink<RateDelay<u32>> {
    fn sample(&mut self, now: Time) -> Sample {
        let dropped = &mut self.dropped;
        self.queue.sample(now, &mut |packet, why| dropped.push((packet, why)))
    }
}

const TICK: Duration = Duration::from_millis(50);

#[test]
fn backlogged_classes_share_as_their_flows_do() {
    // R_L is (n_I + 1)/(n_I + n_O + 2) of the link.
    for (flows, floor_milli, percent) in [
        ([1, 1, 0], 0, 50.0),
        ([2, 1, 0], 0, 40.0),
        ([1, 2, 0], 0, 60.0),
        ([18, 1, 0], 0, 100.0 * 2.0 / 21.0),
        ([18, 1, 0], 300, 30.0),
    ] {
        let [high_rate, low_delay, _] = class_bytes(by_flows(100, floor_milli), flows);
        #[allow(clippy::cast_precision_loss, reason = "a share to a few digits")]
        let share = low_delay as f64 * 100.0 / (high_rate + low_delay) as f64;
        // The counts begin at 2 s, when a thirtieth of the initial difference to half is left.
        assert!((share / percent - 1.0).abs() < 0.02, "{share} % instead of {percent} %: {flows:?}");
        let whole = 100_000_000 / 8 * 8;
        assert!(high_rate + low_delay >= whole - 3 * u64::from(MTU), "the link is never idle");
    }
}

#[test]
fn no_packet_that_waits_is_dropped_and_none_beyond_a_quarter_of_a_second_is_queued() {
    let mut wire = overloaded(by_flows(20, 0), [10, 10, 0], 4);
    assert!(wire.dropped.iter().all(|(_, why)| *why == DropReason::Full), "{:?}", wire.dropped.first());
    // 250 ms at 20 Mbit/s for each class.
    assert_eq!(wire.queue.status().share.buffers, [625_000, 625_000, 0].map(Bytes::new));
    let [high_rate, low_delay, _] = wire.queue.status().backlog;
    for backlog in [high_rate, low_delay] {
        assert!(backlog <= Bytes::new(625_000) && backlog > Bytes::new(625_000 - 2 * u64::from(MTU)));
    }
    // Everything that waits leaves in order, and nothing is dropped any more.
    let dropped = wire.dropped.len();
    wire.send_until(Time::MAX);
    wire.check();
    assert_eq!(wire.dropped.len(), dropped);
}

#[test]
fn a_smaller_link_trims_both_queues_from_their_ends() {
    let mut wire = overloaded(by_flows(20, 0), [1, 1, 0], 1);
    let now = Time::START + Duration::from_secs(1);
    let before = wire.dropped.len();
    let dropped = &mut wire.dropped;
    wire.queue.reconfigure(by_flows(10, 0), now, &mut |packet, why| dropped.push((packet, why)));
    let trimmed = &wire.dropped[before..];
    assert!(trimmed.iter().all(|(_, why)| *why == DropReason::Trimmed) && trimmed.len() > 100);
    let sample = wire.sample(now);
    assert!(sample.backlog.iter().all(|backlog| *backlog <= Bytes::new(312_500)), "{sample:?}");
    // Rates keep their part of the link.
    let guaranteed = sample.rates.guaranteed.bits_per_second();
    assert!((4_900_000..=5_100_000).contains(&guaranteed), "{guaranteed}");
}

#[test]
fn a_sample_has_what_was_sent_and_what_waits() {
    let mut wire = wire(by_flows(5, 0));
    for (class, number, bytes) in
        [(Class::LowDelay, 1, 1_500), (Class::LowDelay, 1, 300), (Class::HighRate, 2, 1_000)]
    {
        let arrival = Arrival {
            packet: number,
            bytes,
            class,
            flow: flow(u64::from(number)),
            source: flow(u64::from(number)),
            is_ecn_capable: false,
        };
        wire.queue.enqueue(arrival, Time::START, &mut |_, _| {});
    }
    assert!(wire.queue.dequeue(Time::START, &mut |_, _| {}).is_some());
    let sample = wire.sample(Time::START);
    assert_eq!(sample.sent, [0, 1_500, 0].map(Bytes::new));
    assert_eq!(sample.backlog, [1_000, 300, 0].map(Bytes::new));
    assert_eq!((sample.flows, kilobits(&sample)), ([0; 3], [2_500, 2_500]));
}

#[test]
fn rates_follow_the_policy_every_50_ms_and_flows_every_400_ms() {
    let mut wire = wire(by_flows(5, 0));
    wire.arrive(Class::LowDelay, flow(1), MTU, Time::START);
    wire.send_until(Time::START);
    let samples: Vec<Sample> = (1..=30).map(|tick| wire.sample(Time::START + TICK * tick)).collect();
    // Without flows, R_L stays at half. The other queue is empty: R_S goes half of the difference
    // to C - M = 4.9 Mbit/s with each step.
    let expected = [[2_500, 3_700], [2_500, 4_300], [2_500, 4_600]];
    assert_eq!(samples[..3].iter().map(kilobits).collect::<Vec<_>>(), expected);
    // One flow is counted from 400 ms on: a tenth of the difference to two thirds of the link.
    assert_eq!(samples[6].flows, [0; 3]);
    assert_eq!((samples[7].flows, kilobits(&samples[7])[0]), ([0, 1, 0], 2_583));
    assert_eq!(kilobits(&samples[8])[0], 2_658);
    // It counts at 0.8 s, and no longer at 1.2 s: a second has passed since its packet.
    assert_eq!((samples[22].flows, samples[23].flows), ([0, 1, 0], [0; 3]));
    assert!(samples[23].rates.guaranteed < samples[22].rates.guaranteed);
    assert!(wire.dropped.is_empty());
}

#[test]
fn the_shown_rate_is_the_guaranteed_one_while_others_wait() {
    let mut wire = overloaded(by_flows(100, 0), [1, 1, 0], 3);
    let sample = wire.sample(Time::START + Duration::from_secs(3));
    let [guaranteed, shown] = kilobits(&sample);
    assert!(guaranteed.abs_diff(50_000) < 500 && shown.abs_diff(50_000) < 500, "{sample:?}");
    assert_eq!(sample.flows, [1, 1, 0]);
}

#[test]
fn links_that_share_by_ratio_have_samples_too() {
    let mut wire = overloaded(link(100), [10, 10, 0], 2);
    let sample = wire.sample(Time::START + Duration::from_secs(2));
    assert_eq!(sample.flows, [10, 10, 0]);
    assert_eq!(kilobits(&sample), [33_333, 33_333], "a third");
    let sent: u64 = sample.sent.iter().map(|sent| sent.count()).sum();
    // 2 s at 100 Mbit/s, and the packet in transmission.
    assert!(sent.abs_diff(25_000_000) <= 2 * u64::from(MTU), "{sent}");
}

#[test]
fn an_interactive_sender_that_does_not_slow_down_pays_where_guards_are_on() {
    let settings = by_flows(20, 0);
    let lost = lost_beside_a_flood(settings, Class::LowDelay, [2, 20]);
    assert!(lost > 20.0, "not guarded, all pay: {lost} % lost");
    let lost = lost_beside_a_flood(settings.with_guard(GuardMode::Strict), Class::LowDelay, [2, 20]);
    assert!(lost < 5.0, "{lost} % lost");
}

#[test]
fn a_guard_leaves_an_interactive_flow_the_share_that_the_policy_guarantees() {
    // One flow beside two: 2/5 of 20 Mbit/s. A high-rate flow has 6 Mbit/s.
    let settings = by_flows(20, 0).with_guard(GuardMode::Strict);
    let rate = Rate::from_kilobits_per_second(7_500);
    let mut senders = Vec::from([ConstantRateSender::new(1, Class::LowDelay, PACKET, rate)]);
    let greedy = Rate::from_megabits_per_second(10);
    senders.extend((2..4).map(|number| ConstantRateSender::new(number, Class::HighRate, MTU, greedy)));
    let received = rate_of(&run(settings, senders, LENGTH), flow(1));
    assert!(received > 0.98 * 7_500_000.0, "{received} of 7.5 Mbit/s");
}
