//! Tests of the main use: calls over lossy paths, with an outage of seconds on one of them.
//!
//! Eight flows of 100 packets/s, each on a direct path of its own that loses 1 % in bursts of mean
//! 3; one path has an outage of 3 s. A round trip takes 100 ms, one to a relay 15 ms, and the relay
//! path is as long as the direct path. Every other segment loses 0.1 % and adds 0 to 5 ms of
//! jitter.

use byway_proto::CodingRates;
use byway_proto::agent::{Delivery, FlowSettings};
use byway_sim::checkers::{ByteBudget, Sample};
use byway_sim::overlay::{Pairs, PairsRun, PairsWorld, SendSchedule};
use byway_sim::{GilbertElliott, Jitter, Link, Loss, Seed, Span};
use byway_units::{Bytes, Duration, Probability, Rate, Time};
use byway_wire::{BlockShape, Service};

const FLOWS: usize = 8;
const INTERVAL: Duration = Duration::from_millis(10);
const DIRECT: Duration = Duration::from_millis(50);
const ROUND_TRIP: Duration = Duration::from_millis(100);
const ACCESS: Duration = Duration::from_micros(7_500);
const JITTER: Duration = Duration::from_millis(5);
const SEEDS: u64 = 20;

/// Returns a link of the relay path.
fn segment(delay: Duration) -> Link {
    Link {
        delay,
        jitter: Jitter { max: JITTER, may_reorder: false },
        loss: vec![Loss::Independent(Probability::new(0.001).expect("a probability"))],
        ..Link::default()
    }
}

fn direct_path(flow: usize, seed: u64) -> Link {
    let loss = Probability::new(0.01).expect("a probability");
    let bursts = GilbertElliott::bursts(loss, 3.0, INTERVAL).expect("bursts of three are possible");
    let dark_from = Time::START + Duration::from_secs(20 + seed % 7);
    let outage = Span::new(dark_from, Duration::from_secs(3));
    Link {
        delay: DIRECT,
        loss: vec![Loss::GilbertElliott(bursts)],
        outages: if flow == 0 { vec![outage] } else { vec![] },
        ..Link::default()
    }
}

fn call(seed: u64, service: Service) -> Pairs {
    Pairs {
        pairs: FLOWS,
        sending: SendSchedule::Paced(INTERVAL),
        datagram_bytes: 500,
        flow: FlowSettings {
            service,
            rates: CodingRates { in_stream: BlockShape::new(5, 1), batch: BlockShape::new(8, 2) },
            rate: Rate::from_kilobits_per_second(600),
            latency_budget: Duration::from_millis(200),
            ..FlowSettings::default()
        },
        direct: (0..FLOWS).map(|flow| direct_path(flow, seed)).collect(),
        back: segment(DIRECT),
        access: segment(ACCESS),
        between: segment(DIRECT - ACCESS * 2),
        begin: Duration::from_secs(2),
        length: Duration::from_secs(60),
    }
}

fn run(set_up: Pairs, seed: u64) -> (PairsWorld, PairsRun) {
    let end = Time::START + set_up.begin + set_up.length + Duration::from_secs(2);
    let (mut world, mut run) = set_up.build(Seed::new(seed));
    world.run_until(end, &mut run);
    world.check_conservation().expect("no packet appears or disappears");
    (world, run)
}

/// Returns a share in hundredths of a percent.
fn share(part: u64, whole: u64) -> u64 {
    part * 10_000 / whole
}

#[test]
fn nearly_all_losses_are_repaired_within_a_round_trip() {
    let mut repaired: Vec<u64> = (0..SEEDS)
        .map(|seed| {
            let (mut world, mut run) = run(call(seed, Service::Coding), seed);
            let summary = run.summary(&mut world, DIRECT + ROUND_TRIP, ROUND_TRIP);
            assert_eq!(summary.duplicates, 0);
            assert!(summary.lost > 500, "the paths lose {} packets", summary.lost);
            assert!(
                run.delivered_by(Delivery::Cooperative) > 100 && run.delivered_by(Delivery::InStream) > 0
            );
            share(summary.repaired_within, summary.lost)
        })
        .collect();
    repaired.sort_unstable();
    assert!(repaired[0] >= 9_900, "the worst seed repairs {} hundredths of a percent", repaired[0]);
    let median = repaired[repaired.len() / 2];
    assert!(median >= 9_950, "the median seed repairs {median} hundredths of a percent");
}

/// Returns the repair times of one kind, over a few seeds.
fn repair_times(service: Service, delivery: Delivery) -> Sample<Duration> {
    let times = (100..104).flat_map(|seed| run(call(seed, service), seed).1.repair_times);
    times.filter(|(kind, _)| *kind == delivery).map(|(_, time)| time).collect()
}

/// Asserts that half of the repairs take at most 1.15 times, and 99 % at most 1.5 times the least
/// possible time. That is the interval until the next packet shows the loss, and then this many
/// delays between relay and receiver, jitter included.
fn assert_near_floor(times: &Sample<Duration>, access_passes: u64) {
    let floor = INTERVAL + (ACCESS + JITTER / 2) * access_passes;
    let (median, p99) = (times.median().expect("there are repairs"), times.p99().expect("there are repairs"));
    assert!(median <= floor * 115 / 100, "half take {median} or more, the floor is {floor}");
    assert!(p99 <= floor * 3 / 2, "one in a hundred takes {p99} or more, the floor is {floor}");
}

#[test]
fn cooperative_repairs_take_hardly_longer_than_they_must() {
    assert_near_floor(&repair_times(Service::Coding, Delivery::Cooperative), 4);
}

#[test]
fn repairs_from_the_cache_take_hardly_longer_than_they_must() {
    assert_near_floor(&repair_times(Service::Caching, Delivery::Cached), 2);
}

#[test]
fn one_seed_gives_one_trace() {
    let digest = || run(Pairs { length: Duration::from_secs(5), ..call(7, Service::Coding) }, 7).0.digest();
    assert_eq!(digest(), digest());
    let other = run(Pairs { length: Duration::from_secs(5), ..call(8, Service::Coding) }, 8).0.digest();
    assert_ne!(digest(), other);
}

/// A call of 20 s without losses.
fn quiet_call() -> Pairs {
    let quiet = |delay| Link { delay, ..Link::default() };
    Pairs {
        direct: vec![quiet(DIRECT); FLOWS],
        back: quiet(DIRECT),
        access: quiet(ACCESS),
        between: quiet(DIRECT - ACCESS * 2),
        length: Duration::from_secs(20),
        ..call(1, Service::Coding)
    }
}

#[test]
fn repair_packets_are_as_many_as_configured() {
    let (world, run) = run(quiet_call(), 1);
    let counters = world.host(run.ingress).as_relay().ingress_counters();
    assert_eq!(counters.copies, 16_000);
    assert_eq!(counters.cross_stream, 16_000 / 8 * 2);
    // Each flow's first block begins after 0 to 4 packets, and a timer closes its last one.
    let blocks: u64 = (0..8).map(|flow| (2_000_u64 - flow % 5).div_ceil(5)).sum();
    assert_eq!(counters.in_stream, blocks);
    assert_eq!((counters.uncovered_alone, counters.uncovered_budget, counters.uncovered_unknown), (0, 0, 0));
}

/// Bytes beyond the datagram (docs/wire.md, sizes).
const SOURCE_PACKET: usize = 33;
const ENVELOPE: usize = 54;
const IN_STREAM_REPAIR: usize = 63;
/// Repair packets of a batch of 8: the first with digests, the second without, because all flows
/// are of one tenant.
const CROSS_STREAM_REPAIR: [usize; 2] = [58 + 10 * 8, 58 + 6 * 8];

/// Bytes of handshakes, registrations, probes and reports in one direction in 20 s: two thirds of a
/// per cent of a flow.
const HOUSEKEEPING: usize = 7_000;

/// Bytes between relays of the handshake of a pair of agents and of their messages over each relay
/// path.
const PER_RELAY_PATH_BYTES: usize = 500;

/// Packet train that probes the uplink before the first packet: four packets, each of 530 bytes
/// with IP and UDP.
const PROBE_TRAIN_BYTES: usize = 4 * (530 - 28);

#[test]
fn bytes_are_as_configured() {
    let set_up = quiet_call();
    let datagram = set_up.datagram_bytes;
    let (world, run) = run(set_up, 1);
    let sent = |from, to, overhead| {
        let of_length = |(length, _): &(usize, u64)| *length == datagram + overhead;
        world.observer().packets_by_length(from, to).find(of_length).map_or(0, |(_, count)| count)
    };
    let others = |from, to, overheads: &[usize]| -> usize {
        let rest = world.observer().packets_by_length(from, to);
        let rest =
            rest.filter(|(length, _)| !overheads.iter().any(|overhead| datagram + overhead == *length));
        rest.map(|(length, count)| length * usize::try_from(count).expect("few")).sum()
    };
    for pair in 0..FLOWS {
        let (sender, receiver) = (run.senders[pair], run.receivers[pair]);
        assert_eq!(sent(sender, receiver, SOURCE_PACKET), 2_000);
        assert_eq!(sent(sender, run.ingress, ENVELOPE), 2_000);
        let besides = [
            others(sender, receiver, &[SOURCE_PACKET]),
            others(sender, run.ingress, &[ENVELOPE]),
            others(run.ingress, sender, &[]),
            others(run.egress, receiver, &[]),
        ];
        let limits = [0, PROBE_TRAIN_BYTES, 0, 0].map(|more| HOUSEKEEPING + more);
        assert!(besides.iter().zip(limits).all(|(bytes, limit)| *bytes < limit), "{besides:?}");
        assert!(besides[1] > PROBE_TRAIN_BYTES);
    }
    let counters = world.host(run.ingress).as_relay().ingress_counters();
    let [first, second] = CROSS_STREAM_REPAIR;
    assert_eq!(sent(run.ingress, run.egress, first), counters.cross_stream / 2);
    assert_eq!(sent(run.ingress, run.egress, second), counters.cross_stream / 2);
    assert_eq!(sent(run.ingress, run.egress, IN_STREAM_REPAIR), counters.in_stream);
    let between = others(run.ingress, run.egress, &[first, second, IN_STREAM_REPAIR]);
    assert!(between < HOUSEKEEPING + FLOWS * PER_RELAY_PATH_BYTES, "{between}");
}

#[test]
fn the_relays_send_each_other_what_is_configured_over_any_ten_seconds() {
    let window = Duration::from_secs(10);
    let (sources, datagram) = (FLOWS * 1_000, call(0, Service::Coding).datagram_bytes);
    // Small batches cost more than full ones; an outage costs nothing here, because other receivers
    // restore its packets.
    let cross_stream = sources * 2 / 8 * (datagram + CROSS_STREAM_REPAIR[0]) * 115 / 100;
    let in_stream = sources / 5 * (datagram + IN_STREAM_REPAIR);
    for seed in 0..3 {
        let set_up = call(seed, Service::Coding);
        let end = Time::START + set_up.begin + set_up.length;
        let (mut world, mut run) = set_up.build(Seed::new(seed));
        let budget = ByteBudget::new(Bytes::from(cross_stream + in_stream + HOUSEKEEPING), window);
        world.observer_mut().set_budget(run.ingress, run.egress, budget);
        world.run_until(end, &mut run);
        assert_eq!(world.observer().over_budget, None);
        let peak = world.observer().peak(run.ingress, run.egress).expect("the relays have a budget");
        assert!(peak > Bytes::from(in_stream + cross_stream / 2), "{peak}");
    }
}

#[test]
fn the_relays_carry_each_packet_once_over_any_ten_seconds() {
    for service in [Service::Caching, Service::Forwarding, Service::Both] {
        let set_up = call(1, service);
        let end = Time::START + set_up.begin + set_up.length;
        // Losses of a segment, a thousandth each, are retransmitted.
        let once = FLOWS * 1_000 * (set_up.datagram_bytes + ENVELOPE) * 101 / 100;
        let (mut world, mut run) = set_up.build(Seed::new(1));
        let budget = ByteBudget::new(Bytes::from(once + HOUSEKEEPING), Duration::from_secs(10));
        world.observer_mut().set_budget(run.ingress, run.egress, budget);
        world.run_until(end, &mut run);
        assert_eq!(world.observer().over_budget, None, "{service:?}");
        let peak = world.observer().peak(run.ingress, run.egress).expect("the relays have a budget");
        assert!(peak > Bytes::from(once / 2), "{service:?}: {peak}");
    }
}

#[test]
fn the_repair_of_the_longest_packets_is_no_longer_than_a_path_bears() {
    let set_up = quiet_call();
    let set_up = Pairs {
        datagram_bytes: 1_354,
        flow: FlowSettings { rate: Rate::from_megabits_per_second(3), ..set_up.flow.clone() },
        ..set_up
    };
    let (world, run) = run(set_up, 1);
    let (longest, count) =
        world.observer().packets_by_length(run.ingress, run.egress).last().expect("repair packets were sent");
    assert!(longest <= 1_472 && count >= 1_000, "{count} packets of {longest} bytes");
}

#[test]
fn video_in_frames_is_covered_at_the_configured_cost() {
    let set_up = Pairs {
        sending: SendSchedule::Frames { interval: Duration::from_millis(40), packets_max: 20 },
        datagram_bytes: 1_200,
        flow: FlowSettings { rate: Rate::from_megabits_per_second(6), ..call(3, Service::Coding).flow },
        ..call(3, Service::Coding)
    };
    let (world, run) = run(set_up, 3);
    let counters = world.host(run.ingress).as_relay().ingress_counters();
    let uncovered = counters.uncovered_alone + counters.uncovered_budget;
    assert!(share(uncovered, counters.copies) < 100, "{uncovered} of {} are uncovered", counters.copies);
    let configured = counters.copies * 2 / 8;
    assert!(
        counters.cross_stream * 10 <= configured * 12,
        "{} instead of {configured}",
        counters.cross_stream
    );
}

#[test]
fn a_tunnel_s_longest_packets_pass_and_are_repaired() {
    let set_up = Pairs { datagram_bytes: 1_452, length: Duration::from_secs(20), ..call(5, Service::Coding) };
    let set_up = Pairs {
        flow: FlowSettings { rate: Rate::from_megabits_per_second(3), ..set_up.flow.clone() },
        ..set_up
    };
    let (_, run) = run(set_up, 5);
    let missing = run.deliveries.counters().missing();
    assert!(missing < 20, "{missing} of 16,000 datagrams are missing");
    assert!(run.delivered_by(Delivery::Cooperative) > 50);
}

#[test]
fn more_dark_paths_than_a_batch_can_repair_are_carried() {
    let outage = Span::new(Time::START + Duration::from_secs(10), Duration::from_secs(2));
    let mut set_up = Pairs { length: Duration::from_secs(20), ..call(9, Service::Coding) };
    for (flow, path) in set_up.direct.iter_mut().enumerate() {
        path.outages = if flow < 3 { vec![outage] } else { vec![] };
    }
    let (mut world, mut run) = run(set_up, 9);
    let summary = run.summary(&mut world, DIRECT + ROUND_TRIP, ROUND_TRIP);
    let relayed = world.host(run.ingress).as_relay().ingress_counters().copies_relayed;
    assert!((300..=600).contains(&relayed), "{relayed} of 600 packets in the outage are relayed");
    let repaired = share(summary.repaired_within, summary.lost);
    assert!(repaired >= 8_500, "{repaired} hundredths of a percent of {} are repaired", summary.lost);
}
