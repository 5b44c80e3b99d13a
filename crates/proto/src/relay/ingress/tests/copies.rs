//! Copies: taken, refused, asked for again, carried on.

use super::*;
use crate::limits::{CODED_BYTES_MAX, COPY_BURST, COPY_REORDERING, EGRESS_PORTS_MAX, INGRESS_FLOWS_MAX};

#[test]
fn a_gap_between_copies_is_asked_for_three_times_and_no_more() {
    let mut talk = Talk::new();
    let flow = talk.flow(coded());
    talk.ingress.set_round_trip(flow, ms(20));
    talk.copy(flow, 0);
    talk.copy(flow, 2);
    talk.wait(COPY_REORDERING.as_millis() - 1);
    assert_eq!(talk.made.asked, []);
    talk.wait(1);
    assert_eq!(talk.made.asked, [(flow, 1)]);
    talk.wait(29);
    assert_eq!(talk.made.asked.len(), 1);
    talk.wait(1);
    assert_eq!(talk.made.asked.len(), 2);
    talk.wait(1_000);
    assert_eq!((talk.made.asked.len(), talk.ingress.counters.copies_asked), (3, 3));
}

#[test]
fn a_copy_that_comes_when_asked_for_is_coded() {
    let mut talk = Talk::new();
    let flows = [0; 2].map(|_| talk.flow(batched(2, 1)));
    for sequence in [0, 2] {
        talk.copy(flows[0], sequence);
    }
    talk.wait(COPY_REORDERING.as_millis());
    let coded = packet(1, 1);
    let copy = ArrivingCopy { sequence_low: 1, coded: &coded, is_resent: true, ecn: Ecn::NotCapable };
    talk.ingress.copy(flows[0], &copy, &mut talk.made, talk.now);
    (0..3).for_each(|sequence| talk.copy(flows[1], sequence));
    let covered: Vec<_> = talk.batches().into_iter().flat_map(|batch| batch.covered).collect();
    assert!(covered.contains(&(1, 1)));
    assert_eq!((talk.ingress.counters.copies_resent, talk.ingress.counters.copies), (1, 6));
    talk.wait(1_000);
    assert_eq!(talk.made.asked.len(), 1);
}

#[test]
fn copies_beyond_the_registered_rate_are_not_taken() {
    let mut talk = Talk::new();
    let rate = Rate::from_kilobits_per_second(800);
    let flow = talk.flow(Kind { rate, ..coded() });
    let burst = rate.bytes_in(COPY_BURST).expect("small").count() / 1_000;
    (0..burst + 7).for_each(|sequence| talk.copy_of(flow, sequence, &packet_of(1, sequence, 1_000)));
    assert_eq!((talk.ingress.counters.copies, talk.ingress.counters.copies_beyond_rate), (burst, 7));
    talk.wait(100);
    (0..20).for_each(|sequence| talk.copy_of(flow, 100 + sequence, &packet_of(1, sequence, 1_000)));
    assert_eq!(talk.ingress.counters.copies, burst + 10, "800 kbit/s are ten such packets in 100 ms");
}

#[test]
fn copies_that_come_twice_or_too_late_are_counted() {
    let mut talk = Talk::new();
    let flow = talk.flow(batched(2, 1));
    for sequence in [0, 0, 100, 0, 30] {
        talk.copy(flow, sequence);
    }
    let counters = talk.ingress.counters;
    assert_eq!((counters.copies, counters.copies_repeated, counters.copies_too_old), (2, 1, 2));
}

#[test]
fn a_copy_as_long_as_any_may_be_is_coded_and_a_longer_one_is_not_taken() {
    let mut talk = Talk::new();
    let flows = [0; 2].map(|_| talk.flow(batched(2, 1)));
    talk.copy_of(flows[0], 0, &packet_of(1, 0, CODED_BYTES_MAX + 1));
    assert_eq!(talk.ingress.counters.copies_too_long, 1);
    talk.copy_of(flows[0], 1, &packet_of(1, 1, CODED_BYTES_MAX));
    talk.copy_of(flows[1], 0, &packet_of(2, 0, CODED_BYTES_MAX - 1));
    assert_eq!(talk.batches()[0].repairs[0].payload.len(), CODED_BYTES_MAX);
}

#[test]
fn an_empty_copy_is_coded_like_any_other() {
    let mut talk = Talk::new();
    let flows = [0; 2].map(|_| talk.flow(batched(2, 1)));
    for flow in &flows {
        talk.copy_of(*flow, 0, &[]);
    }
    talk.wait(50);
    assert!(talk.batches().iter().all(|batch| batch.repairs.iter().all(|repair| repair.payload.is_empty())));
}

#[test]
fn copies_to_be_cached_or_forwarded_are_carried_on_whole() {
    for service in [Service::Caching, Service::Forwarding, Service::Both] {
        let mut talk = Talk::new();
        let flow = talk.flow(Kind { service, ..coded() });
        talk.copy(flow, 3);
        talk.wait(200);
        assert_eq!(talk.made.carried, [(1, 3, packet(1, 3))]);
        assert_eq!((talk.own().len(), talk.batches().len(), talk.ingress.counters.carried), (0, 0, 1));
    }
}

#[test]
fn nothing_is_carried_where_nobody_receives() {
    let mut talk = Talk::new();
    let flow = talk.unknown_flow(Kind { service: Service::Caching, ..coded() });
    talk.copy(flow, 0);
    assert_eq!(talk.made.carried, []);
}

#[test]
fn a_group_of_receivers_is_served_through_several_egress_relays() {
    let mut talk = Talk::new();
    let flow = talk.flow(Kind { service: Service::Forwarding, ..coded() });
    for port in 1..10 {
        let known = port != 2;
        talk.ingress.add_onward(
            flow,
            Onward { port: EgressPort(port), alias: alias(FlowSlot(u32::from(port))), known },
        );
    }
    talk.copy(flow, 0);
    let through: Vec<u16> = talk.made.carried.iter().map(|(alias, ..)| *alias).collect();
    assert_eq!(through, [1, 2, 4], "of {EGRESS_PORTS_MAX} ways, one leads nowhere");
}

#[test]
fn a_relay_that_duplicates_sends_each_copy_on_once() {
    let mut talk = Talk::new();
    let flow = talk.flow(Kind { copying: Copying::ByRelay, ..coded() });
    talk.copy(flow, 0);
    talk.copy(flow, 1);
    talk.copy(flow, 1);
    let on: Vec<u64> = talk.made.duplicated.iter().map(|(_, number, _)| *number).collect();
    assert_eq!(on, [0, 1]);
}

#[test]
fn the_slot_of_a_flow_that_left_is_given_again() {
    let mut talk = Talk::new();
    let flow = talk.flow(batched(2, 1));
    talk.copy(flow, 5);
    talk.ingress.unregister(flow, talk.now);
    let next = talk.flow(batched(2, 1));
    assert_eq!(next, flow);
    talk.copy(next, 5);
    assert_eq!(talk.ingress.counters.copies_repeated, 0);
    let other = talk.flow(batched(2, 1));
    talk.copy(other, 0);
    assert_eq!(talk.batches().last().map(|batch| batch.covered.clone()), Some(alloc::vec![(1, 5), (2, 0)]));
}

#[test]
fn only_so_many_flows_are_registered_and_those_are_served() {
    let mut talk = Talk::new();
    let first = talk.flow(batched(2, 1));
    let second = talk.flow(batched(2, 1));
    let group = registration(first, batched(2, 1)).group;
    for _ in 2..INGRESS_FLOWS_MAX {
        assert_eq!(talk.ingress.check_room(group, TenantId::new(0)), Ok(()));
        let register = |slot: FlowSlot| Registration {
            placed: PlacedFlow { slot: slot.0, ..registration(first, batched(2, 1)).placed },
            ..registration(first, batched(2, 1))
        };
        talk.ingress.register(register, talk.now);
    }
    for group in [group, None] {
        assert_eq!(talk.ingress.check_room(group, TenantId::new(0)), Err(Refusal::NoRoom));
    }
    talk.copy(first, 0);
    talk.copy(second, 0);
    assert_eq!(talk.batches()[0].covered, [(1, 0), (2, 0)]);
    talk.ingress.unregister(second, talk.now);
    assert_eq!(talk.ingress.check_room(group, TenantId::new(0)), Ok(()));
}

#[test]
fn a_grant_that_follows_another_goes_on_with_its_account() {
    let mut talk = Talk::new();
    let kilobits = Rate::from_kilobits_per_second;
    let kind = Kind { ceiling: Some(kilobits(800)), ..batched(2, 1) };
    let flow = talk.flow(kind);
    let burst = kilobits(800).bytes_in(COPY_BURST).expect("small").count() / 1_000;
    (0..burst).for_each(|sequence| talk.copy_of(flow, sequence, &packet_of(1, sequence, 1_000)));
    assert_eq!(talk.ingress.counters.copies_beyond_rate, 0);
    // Another flow, or another grant for the same flows, brings nothing more at once, but another rate from now on.
    let other = talk.flow(Kind { ceiling: Some(kilobits(1_600)), ..kind });
    talk.copy_of(other, 0, &packet_of(2, 0, 1_000));
    assert_eq!(talk.ingress.counters.copies_beyond_rate, 1);
    talk.wait(50);
    (1..20).for_each(|sequence| talk.copy_of(other, sequence, &packet_of(2, sequence, 1_000)));
    assert_eq!(talk.ingress.counters.copies, burst + 10, "1,600 kbit/s are ten such packets in 50 ms");
}

#[test]
fn who_leaves_and_comes_back_finds_its_grant_as_spent_as_it_left_it() {
    let mut talk = Talk::new();
    let kind = Kind { ceiling: Some(Rate::from_kilobits_per_second(800)), ..batched(2, 1) };
    let mut copies = 0;
    for _ in 0..20 {
        let flow = talk.flow(kind);
        (0..100).for_each(|sequence| talk.copy_of(flow, sequence, &packet_of(1, sequence, 1_000)));
        talk.ingress.unregister(flow, talk.now);
        copies = talk.ingress.counters.copies;
    }
    assert_eq!(copies, 50, "half a second's worth");
    talk.wait(1_000);
    let flow = talk.flow(kind);
    (0..100).for_each(|sequence| talk.copy_of(flow, sequence, &packet_of(1, sequence, 1_000)));
    assert_eq!(talk.ingress.counters.copies, 100, "and as much again when it would be full");
}
