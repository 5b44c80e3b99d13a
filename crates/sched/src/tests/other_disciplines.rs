//! Tests of the disciplines with which Rate-Delay is compared.

use super::*;
use crate::{DropTail, FqCodel, StrictPriority};

const RATE: Rate = Rate::from_megabits_per_second(20);
const CAPACITY: Bytes = Bytes::new(60_000);

fn run<Q: Discipline<u32>>(queue: Q, arrivals: &[(u64, Class, u64, u32)]) -> TestLink<Q> {
    let mut wire = TestLink::new(queue, RATE);
    let mut now = Time::START;
    for (gap, class, number, bytes) in arrivals {
        now += Duration::from_micros(*gap);
        wire.arrive(*class, flow(*number), *bytes, now);
        assert!(wire.queue.backlog() <= Bytes::new(CAPACITY.count() * 2));
    }
    wire.send_until(Time::MAX);
    wire.check();
    wire
}

proptest! {
    #[test]
    fn each_packet_leaves_or_is_dropped(arrivals in arrivals()) {
        let fifo = run(DropTail::new(CAPACITY), &arrivals);
        prop_assert!(fifo.sent.is_sorted_by_key(|left| left.packet));
        run(StrictPriority::new(CAPACITY), &arrivals);
        run(FqCodel::new(CAPACITY, Bytes::new(u64::from(MTU))), &arrivals);
    }
}

/// Runs three seconds with a greedy high-rate flow at nearly four times the link's rate, and a
/// low-delay flow with a small packet every 20 ms.
fn beside_greed<Q: Discipline<u32>>(queue: Q) -> TestLink<Q> {
    let mut wire = TestLink::new(queue, RATE);
    for step in 0..3_000 {
        let now = Time::START + Duration::from_millis(step);
        for _ in 0..7 {
            wire.arrive(Class::HighRate, flow(1), 1_400, now);
        }
        if step % 20 == 0 {
            wire.arrive(Class::LowDelay, flow(2), 200, now);
        }
    }
    wire
}

/// Returns the share of a flow's packets that left, in percent, and their longest sojourn time.
fn fate<Q>(wire: &TestLink<Q>, number: u64) -> (usize, Duration) {
    let arrived = wire.arrived.iter().filter(|(of, _)| *of == flow(number)).count();
    let left: Vec<&SentPacket> = wire.sent.iter().filter(|left| left.flow == flow(number)).collect();
    let waited = left.iter().map(|left| left.sojourn).max().unwrap_or(Duration::ZERO);
    (left.len() * 100 / arrived, waited)
}

#[test]
fn one_queue_makes_all_wait() {
    let (left, waited) = fate(&beside_greed(DropTail::new(CAPACITY)), 2);
    // 60,000 bytes take 24 ms.
    assert!(waited >= Duration::from_millis(23) && left < 100, "{left} % left, {waited}");
}

#[test]
fn a_low_delay_packet_waits_for_one_packet_where_it_has_priority() {
    let (left, waited) = fate(&beside_greed(StrictPriority::new(CAPACITY)), 2);
    assert!(left >= 99 && waited <= Duration::from_micros(600), "{left} % left, {waited}");
}

#[test]
fn a_sparse_flow_goes_first_where_flows_have_turns() {
    let wire = beside_greed(FqCodel::new(CAPACITY, Bytes::new(u64::from(MTU))));
    let (left, waited) = fate(&wire, 2);
    assert!(left >= 99 && waited <= Duration::from_micros(1_200), "{left} % left, {waited}");
}

#[test]
fn who_waits_too_long_for_too_long_is_dropped_ever_faster() {
    // A large buffer at 5 % overload: only CoDel drops packets.
    let mut wire = TestLink::new(FqCodel::new(Bytes::new(100_000_000), Bytes::new(u64::from(MTU))), RATE);
    for step in 0..30_000_u64 {
        let now = Time::START + Duration::from_micros(step * 571);
        wire.arrive(Class::HighRate, flow(1), MTU, now);
    }
    assert!(wire.dropped.iter().all(|(_, why)| *why == DropReason::SojournTooLong));
    let of_half = |half: u32| {
        let packets = half * 15_000..(half + 1) * 15_000;
        wire.dropped.iter().filter(|(packet, _)| packets.contains(packet)).count()
    };
    assert!(of_half(0) > 20 && of_half(1) > of_half(0), "{} and then {}", of_half(0), of_half(1));
    // One packet in twenty exceeds the link's rate. CoDel drops about as many when its control law
    // has converged.
    let (left, waited) = fate(&wire, 1);
    assert!((94..100).contains(&left) && waited < Duration::from_millis(600), "{left} %, {waited}");
}
