//! Cooperative recovery, from message to message.

use super::*;
use byway_wire::messages::{Ack, AliasesReply};

/// A relay with two receivers, each of one flow that the other relay codes.
fn two_receivers() -> RelayHarness {
    two_receivers_of([0, 0])
}

/// The same relay, with these tenants of the two flows.
fn two_receivers_of(tenants: [u32; 2]) -> RelayHarness {
    let [one, other] = tenants.map(TenantId::new);
    let grants = alloc::vec![Grant { tenant: one, ..grant(1, 2) }, Grant { tenant: other, ..grant(3, 4) }];
    let mut harness = RelayHarness::new(grants);
    for (sender, receiver) in [(1, 2), (3, 4)] {
        harness.enter(receiver);
        assert_eq!(harness.registers(receiver, flow(sender, receiver, 1), FlowRole::Receiver), Ok(1));
    }
    harness.announces(&[flow(1, 2, 1), flow(3, 4, 1)]);
    assert_eq!(harness.drain_events(OTHER), [ClientEvent::Known(1, true), ClientEvent::Known(2, true)]);
    harness
}

/// Only the ingress relay knows if the redundancy of a flow adapts to the losses.
#[test]
fn losses_are_reported_and_fetched_while_the_ingress_relay_adapts_the_redundancy() {
    let mut harness = two_receivers();
    let mut after_loss = |adaptive: bool, sequence: u64| {
        harness.announces_as(&[flow(1, 2, 1), flow(3, 4, 1)], false, adaptive);
        harness.advance(ms(500));
        harness.nacks(2, 1, sequence);
        harness.advance(ms(20));
        let events = harness.drain_events(OTHER);
        let number = u32::try_from(sequence).expect("small");
        let is_fetched = events.contains(&ClientEvent::CopyNack(1, alloc::vec![number]));
        let is_reported = events.contains(&ClientEvent::Losses(1, [1, 0, 0, 0]));
        (is_fetched, is_reported)
    };
    assert_eq!(after_loss(false, 40), (false, false));
    assert_eq!(after_loss(true, 80), (true, true), "the alias is announced again");
    assert_eq!(after_loss(false, 120), (false, false));
}

#[test]
fn a_lost_packet_is_restored_with_the_help_of_another_receiver() {
    let mut harness = two_receivers();
    harness.repairs(0, 5, 2);
    harness.nacks(2, 1, 5);
    assert_eq!(harness.drain_events(4), [ClientEvent::Request(1, alloc::vec![5])]);
    harness.send_answer(4, 1, 5, &packet(2, 5));
    assert_eq!(
        harness.drain_events(2),
        [ClientEvent::Envelope(EnvelopeRole::CooperativeRepair, 1, 5, packet(1, 5))]
    );
    assert_eq!(harness.relay.egress_counters().cooperative, 1);
}

#[test]
fn who_lost_a_packet_pays_for_its_repair_and_for_the_helpers_packet() {
    let mut harness = two_receivers_of([1, 2]);
    harness.repairs(0, 5, 2);
    harness.nacks(2, 1, 5);
    harness.send_answer(4, 1, 5, &packet(2, 5));
    let [lost, returned] = [1, 2].map(|alias| packet(alias, 5).len() as u64);
    let traffic = harness.relay.tenant_traffic();
    let bytes = [1, 2].map(|tenant| traffic[&TenantId::new(tenant)]);
    assert_eq!(bytes.map(|one| (one.sent, one.returned)), [(lost, returned), (0, 0)]);
}

#[test]
fn a_false_answer_quarantines_its_receiver() {
    let mut harness = two_receivers();
    harness.repairs(0, 5, 2);
    harness.nacks(2, 1, 5);
    harness.drain_events(4);
    let mut lie = packet(2, 5);
    lie[3] ^= 1;
    harness.send_answer(4, 1, 5, &lie);
    assert_eq!(harness.relay.egress_counters().answers_false, 1);
    assert_eq!(harness.drain_events(2), [], "no false packet is forwarded");
    harness.repairs(1, 6, 2);
    harness.nacks(2, 1, 6);
    assert_eq!(harness.drain_events(4), [], "it gets no more requests");
}

#[test]
fn a_flow_with_a_faulty_end_is_coded_no_more() {
    let mut harness = two_receivers();
    harness.repairs(0, 5, 2);
    harness.nacks(2, 1, 5);
    harness.drain_events(OTHER);
    let mut lie = packet(2, 5);
    lie[3] ^= 1;
    harness.send_answer(4, 1, 5, &lie);
    assert_eq!(harness.drain_events(OTHER), [ClientEvent::Known(2, false)]);
    // The flow remains excluded after a new registration and advertisement.
    let end = byway_wire::messages::Unregister {
        flow_key: flow(3, 4, 1),
        role: FlowRole::Receiver,
        far_relay: None,
    };
    harness.send_message(4, &Message::Unregister(end));
    harness.drain_events(OTHER);
    assert!(harness.registers(4, flow(3, 4, 1), FlowRole::Receiver).is_ok());
    harness.announces(&[flow(1, 2, 1), flow(3, 4, 1)]);
    assert_eq!(
        harness.drain_events(OTHER),
        [ClientEvent::Known(2, false), ClientEvent::Known(1, true), ClientEvent::Known(2, false)]
    );
}

#[test]
fn a_genuine_packet_under_a_wrong_number_is_as_false() {
    let mut harness = two_receivers();
    harness.repairs(0, 5, 2);
    harness.nacks(2, 1, 5);
    harness.send_answer(4, 1, 5, &packet(2, 6));
    assert_eq!(harness.relay.egress_counters().answers_false, 1);
}

#[test]
fn a_receiver_cannot_speak_for_flows_that_it_does_not_have() {
    let mut harness = two_receivers();
    harness.repairs(0, 5, 2);
    harness.nacks(2, 7, 5);
    let alias = Alias::new(9).expect("not zero");
    harness.send_message(2, &Message::Ack(Ack { alias, from_low: 5 }));
    harness.loses(2, 9, [5]);
    harness.send_answer(2, 9, 5, &packet(1, 5));
    assert_eq!(harness.relay.counters().aliases_unknown, 4);
    assert_eq!(harness.drain_events(4), []);
}

#[test]
fn who_speaks_out_of_role_is_not_heard() {
    let mut harness = two_receivers();
    let alias = Alias::new(1).expect("not zero");
    harness.send_message(
        2,
        &Message::AliasesReply(AliasesReply {
            aliases: byway_wire::List::EMPTY,
            networks: byway_wire::List::EMPTY,
        }),
    );
    harness.send_message(OTHER, &Message::Ack(Ack { alias, from_low: 5 }));
    assert_eq!(harness.relay.counters().out_of_role, 2);
}

#[test]
fn the_ingress_relay_learns_of_an_outage_and_of_its_end() {
    let mut harness = two_receivers();
    for (batch, sequence) in (0..).zip(5..13) {
        harness.repairs(batch, sequence, 2);
    }
    let open = Nack {
        alias: Alias::new(1).expect("not zero"),
        open_from_low: Some(5),
        noticed_by_timer: true,
        answers_confirm: false,
        queue_grows: false,
        repair_lifetime: Microseconds::from_duration(ms(200)),
        ranges: byway_wire::Ranges::EMPTY,
    };
    harness.send_message(2, &Message::Nack(open));
    harness.loses(4, 1, [5, 6, 7, 8, 9, 10, 11, 12]);
    harness.now += crate::limits::OUTAGE_AFTER;
    harness.repairs(8, 13, 2);
    // The ingress relay also gets a request for the packets that cooperative recovery did not
    // restore.
    assert!(harness.drain_events(OTHER).contains(&ClientEvent::Outage(1, true)));
    harness.send_message(2, &Message::Ack(Ack { alias: Alias::new(1).expect("not zero"), from_low: 14 }));
    assert_eq!(harness.drain_events(OTHER).first(), Some(&ClientEvent::Outage(1, false)));
}

#[test]
fn the_batches_of_a_relay_that_restarted_are_taken() {
    let mut harness = two_receivers();
    harness.repairs(50_000, 5, 2);
    harness.now += ms(5);
    harness.enter(OTHER);
    harness.repairs(0, 6, 2);
    assert_eq!(harness.relay.egress_counters().repairs_unknown, 1, "its aliases are forgotten");
    harness.announces(&[flow(1, 2, 1), flow(3, 4, 1)]);
    harness.repairs(1, 7, 2);
    harness.nacks(2, 1, 7);
    assert_eq!(harness.drain_events(4), [ClientEvent::Request(1, alloc::vec![7])]);
}

#[test]
fn a_nack_of_everything_costs_the_relay_little() {
    let mut harness = two_receivers();
    harness.repairs(0, 100_000, 2);
    let mut ranges = RangeSet::new();
    assert!((0..32 * 8_192).all(|number| ranges.insert(SequenceNumber::new(number))), "they fit");
    let nack = Nack {
        alias: Alias::new(1).expect("not zero"),
        open_from_low: None,
        noticed_by_timer: false,
        answers_confirm: false,
        queue_grows: false,
        repair_lifetime: Microseconds::from_duration(ms(200)),
        ranges: ranges.ranges(),
    };
    harness.send_message(2, &Message::Nack(nack));
    let counters = harness.relay.egress_counters();
    assert_eq!(counters.packets_nacked, 32 * 8_192);
    assert_eq!(counters.refused_range, 32 * 8_192 - 2 * crate::limits::NACK_REACH - 1);
    assert_eq!(counters.refused_capacity, 0);
    assert!(harness.relay.work().numbers < 5, "one of the numbers is known");
}

#[test]
fn a_question_is_worked_on_for_two_seconds_whatever_it_says() {
    let mut harness = two_receivers();
    harness.repairs(0, 5, 2);
    let mut ranges = RangeSet::new();
    assert!(ranges.insert(SequenceNumber::new(6)), "it fits");
    let nack = Nack {
        alias: Alias::new(1).expect("not zero"),
        open_from_low: None,
        noticed_by_timer: false,
        answers_confirm: false,
        queue_grows: false,
        repair_lifetime: Microseconds::from_duration(ms(3_600_000)),
        ranges: ranges.ranges(),
    };
    harness.send_message(2, &Message::Nack(nack));
    harness.advance(crate::limits::REPAIR_LIFETIME_MAX - ms(1));
    assert_eq!(harness.relay.egress_counters().abandoned, 0);
    harness.advance(crate::limits::SWEEP_INTERVAL + ms(1));
    assert_eq!(harness.relay.egress_counters().abandoned, 1);
}

#[test]
fn a_relay_that_no_grant_names_feeds_nobody() {
    // The other relay advertises a flow whose packets come from this one, and sends arbitrary
    // packets.
    let mut harness = RelayHarness::new(alloc::vec![grant_here(1, 2), grant(3, 4)]);
    for (sender, receiver) in [(1, 2), (3, 4)] {
        harness.enter(receiver);
        assert!(harness.registers(receiver, flow(sender, receiver, 1), FlowRole::Receiver).is_ok());
    }
    harness.announces(&[flow(1, 2, 1), flow(3, 4, 1)]);
    assert_eq!(harness.drain_events(OTHER), [ClientEvent::Known(1, false), ClientEvent::Known(2, true)]);
    let carries = |harness: &mut RelayHarness, alias: u16| {
        let now = harness.now;
        let client = harness.client(OTHER);
        let contents = EnvelopeContents {
            role: EnvelopeRole::RelayedCopy,
            alias: Alias::new(alias).expect("not zero"),
            sequence_low: 1_000_000,
            coded: &packet(alias, 0),
            ecn: Ecn::NotCapable,
            owner: None,
        };
        client.sessions.send_envelope(client.session, &contents, Priority::Scavenger, now);
        harness.exchange();
        harness.relay.counters().aliases_unknown
    };
    assert_eq!(carries(&mut harness, 1), 1);
    assert_eq!(carries(&mut harness, 2), 1);
    harness.nacks(2, 1, 5);
    assert_eq!(harness.relay.egress_counters().refused_range, 0, "its sequence numbers are unchanged");
    harness.nacks(4, 1, 5);
    assert_eq!(harness.relay.egress_counters().refused_range, 1, "as those of the other's own are");
}

#[test]
fn a_flow_is_fed_by_only_so_many_relays() {
    let is_fed = |before: u8| {
        let through = |relay: u8| {
            let ingress = GrantedRelay { relay: RelayId::new(relay.into()), shard: Shard::new(0) };
            Grant { ingress, ..grant(1, 2) }
        };
        let others = (1..=before).map(|nth| through(OTHER + nth));
        let grants = core::iter::once(through(OTHER)).chain(others).collect();
        let mut harness = RelayHarness::of(Authority::Static(grants), 1_000, before + 1);
        harness.enter(2);
        assert_eq!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
        harness.announces(&[flow(1, 2, 1)]);
        harness.drain_events(OTHER)
    };
    let most = u8::try_from(crate::limits::INGRESS_RELAYS_MAX).expect("few");
    assert_eq!(is_fed(most - 1), [ClientEvent::Known(1, true)]);
    assert_eq!(is_fed(most), [ClientEvent::Known(1, false)]);
}
