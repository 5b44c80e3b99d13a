//! Repairs with the help of others, from message to message.

use super::*;
use byway_wire::messages::{Ack, AliasesKnown};

/// Two receivers, each of one flow that the other relay codes.
fn two_receivers() -> Desk {
    let mut desk = Desk::new(alloc::vec![grant(1, 2), grant(3, 4)]);
    for (sender, receiver) in [(1, 2), (3, 4)] {
        desk.enter(receiver);
        assert_eq!(desk.registers(receiver, flow(sender, receiver, 1), FlowRole::Receiver), Ok(1));
    }
    desk.announces(&[flow(1, 2, 1), flow(3, 4, 1)]);
    assert_eq!(desk.heard(OTHER), [Heard::Known(1, true), Heard::Known(2, true)]);
    desk
}

#[test]
fn a_lost_packet_is_restored_with_the_help_of_another_receiver() {
    let mut desk = two_receivers();
    desk.repairs(0, 5, 2);
    desk.nacks(2, 1, 5);
    assert_eq!(desk.heard(4), [Heard::Request(1, alloc::vec![5])]);
    desk.answers(4, 1, 5, &packet(2, 5));
    assert_eq!(desk.heard(2), [Heard::Envelope(EnvelopeRole::CooperativeRepair, 1, 5, packet(1, 5))]);
    assert_eq!(desk.relay.egress_counters().cooperative, 1);
}

#[test]
fn a_false_answer_bars_its_receiver() {
    let mut desk = two_receivers();
    desk.repairs(0, 5, 2);
    desk.nacks(2, 1, 5);
    desk.heard(4);
    let mut lie = packet(2, 5);
    lie[3] ^= 1;
    desk.answers(4, 1, 5, &lie);
    assert_eq!(desk.relay.egress_counters().answers_false, 1);
    assert_eq!(desk.heard(2), [], "nothing false is passed on");
    desk.repairs(1, 6, 2);
    desk.nacks(2, 1, 6);
    assert_eq!(desk.heard(4), [], "it is asked no more");
}

#[test]
fn a_flow_of_which_one_end_lies_is_coded_no_more() {
    let mut desk = two_receivers();
    desk.repairs(0, 5, 2);
    desk.nacks(2, 1, 5);
    desk.heard(OTHER);
    let mut lie = packet(2, 5);
    lie[3] ^= 1;
    desk.answers(4, 1, 5, &lie);
    assert_eq!(desk.heard(OTHER), [Heard::Known(2, false)]);
    // Neither is it after all has been registered and announced again.
    let end = byway_wire::messages::Unregister {
        flow_key: flow(3, 4, 1),
        role: FlowRole::Receiver,
        far_relay: None,
    };
    desk.says(4, &Message::Unregister(end));
    desk.heard(OTHER);
    assert!(desk.registers(4, flow(3, 4, 1), FlowRole::Receiver).is_ok());
    desk.announces(&[flow(1, 2, 1), flow(3, 4, 1)]);
    assert_eq!(desk.heard(OTHER), [Heard::Known(2, false), Heard::Known(1, true), Heard::Known(2, false)]);
}

#[test]
fn a_genuine_packet_under_a_wrong_number_is_as_false() {
    let mut desk = two_receivers();
    desk.repairs(0, 5, 2);
    desk.nacks(2, 1, 5);
    desk.answers(4, 1, 5, &packet(2, 6));
    assert_eq!(desk.relay.egress_counters().answers_false, 1);
}

#[test]
fn a_receiver_cannot_speak_for_flows_that_it_does_not_have() {
    let mut desk = two_receivers();
    desk.repairs(0, 5, 2);
    desk.nacks(2, 7, 5);
    let alias = Alias::new(9).expect("not zero");
    desk.says(2, &Message::Ack(Ack { alias, from_low: 5 }));
    desk.loses(2, 9, [5]);
    desk.answers(2, 9, 5, &packet(1, 5));
    assert_eq!(desk.relay.counters().aliases_unknown, 4);
    assert_eq!(desk.heard(4), []);
}

#[test]
fn who_speaks_out_of_role_is_not_heard() {
    let mut desk = two_receivers();
    let alias = Alias::new(1).expect("not zero");
    desk.says(
        2,
        &Message::AliasesKnown(AliasesKnown {
            aliases: byway_wire::List::collect(&mut core::iter::empty(), &mut []),
        }),
    );
    desk.says(OTHER, &Message::Ack(Ack { alias, from_low: 5 }));
    assert_eq!(desk.relay.counters().out_of_role, 2);
}

#[test]
fn the_ingress_relay_learns_of_an_outage_and_of_its_end() {
    let mut desk = two_receivers();
    for (batch, sequence) in (0..).zip(5..13) {
        desk.repairs(batch, sequence, 2);
    }
    let open = Nack {
        alias: Alias::new(1).expect("not zero"),
        open_from_low: Some(5),
        noticed_by_timer: true,
        answers_confirm: false,
        patience: Microseconds::from_duration(ms(200)),
        ranges: byway_wire::Ranges::EMPTY,
    };
    desk.says(2, &Message::Nack(open));
    desk.loses(4, 1, [5, 6, 7, 8, 9, 10, 11, 12]);
    desk.now += crate::limits::OUTAGE_AFTER;
    desk.repairs(8, 13, 2);
    // Beside that, it is asked for the packets that nobody helped to restore.
    assert!(desk.heard(OTHER).contains(&Heard::Outage(1, true)));
    desk.says(2, &Message::Ack(Ack { alias: Alias::new(1).expect("not zero"), from_low: 14 }));
    assert_eq!(desk.heard(OTHER).first(), Some(&Heard::Outage(1, false)));
}

#[test]
fn the_batches_of_a_relay_that_restarted_are_taken() {
    let mut desk = two_receivers();
    desk.repairs(50_000, 5, 2);
    desk.now += ms(5);
    desk.enter(OTHER);
    desk.repairs(0, 6, 2);
    assert_eq!(desk.relay.egress_counters().repairs_unknown, 1, "what its aliases stand for is forgotten");
    desk.announces(&[flow(1, 2, 1), flow(3, 4, 1)]);
    desk.repairs(1, 7, 2);
    desk.nacks(2, 1, 7);
    assert_eq!(desk.heard(4), [Heard::Request(1, alloc::vec![7])]);
}

#[test]
fn a_nack_of_everything_costs_the_relay_little() {
    let mut desk = two_receivers();
    desk.repairs(0, 100_000, 2);
    let mut ranges = RangeSet::new();
    assert!((0..32 * 8_192).all(|number| ranges.insert(SequenceNumber::new(number))), "they fit");
    let nack = Nack {
        alias: Alias::new(1).expect("not zero"),
        open_from_low: None,
        noticed_by_timer: false,
        answers_confirm: false,
        patience: Microseconds::from_duration(ms(200)),
        ranges: ranges.ranges(),
    };
    desk.says(2, &Message::Nack(nack));
    let counters = desk.relay.egress_counters();
    assert_eq!(counters.asked, 32 * 8_192);
    assert_eq!(counters.refused_range, 32 * 8_192 - 2 * crate::limits::NACK_REACH - 1);
    assert_eq!(counters.refused_room, 0);
    assert!(desk.relay.work().numbers < 5, "one of the numbers is known");
}

#[test]
fn a_question_is_worked_on_for_two_seconds_whatever_it_says() {
    let mut desk = two_receivers();
    desk.repairs(0, 5, 2);
    let mut ranges = RangeSet::new();
    assert!(ranges.insert(SequenceNumber::new(6)), "it fits");
    let nack = Nack {
        alias: Alias::new(1).expect("not zero"),
        open_from_low: None,
        noticed_by_timer: false,
        answers_confirm: false,
        patience: Microseconds::from_duration(ms(3_600_000)),
        ranges: ranges.ranges(),
    };
    desk.says(2, &Message::Nack(nack));
    desk.pass(crate::limits::PATIENCE_MAX - ms(1));
    assert_eq!(desk.relay.egress_counters().given_up, 0);
    desk.pass(crate::limits::SWEEP_INTERVAL + ms(1));
    assert_eq!(desk.relay.egress_counters().given_up, 1);
}

#[test]
fn a_relay_that_no_grant_names_feeds_nobody() {
    // The other relay announces a flow whose packets come from this one, and sends what it likes.
    let mut desk = Desk::new(alloc::vec![grant_here(1, 2), grant(3, 4)]);
    for (sender, receiver) in [(1, 2), (3, 4)] {
        desk.enter(receiver);
        assert!(desk.registers(receiver, flow(sender, receiver, 1), FlowRole::Receiver).is_ok());
    }
    desk.announces(&[flow(1, 2, 1), flow(3, 4, 1)]);
    assert_eq!(desk.heard(OTHER), [Heard::Known(1, false), Heard::Known(2, true)]);
    let carries = |desk: &mut Desk, alias: u16| {
        let now = desk.now;
        let client = desk.client(OTHER);
        let contents = Enveloped {
            role: EnvelopeRole::Carried,
            alias: Alias::new(alias).expect("not zero"),
            sequence_low: 1_000_000,
            coded: &packet(alias, 0),
            ecn: Ecn::NotCapable,
            owner: None,
        };
        client.sessions.send_envelope(client.session, &contents, Urgency::Scavenger, now);
        desk.exchange();
        desk.relay.counters().aliases_unknown
    };
    assert_eq!(carries(&mut desk, 1), 1);
    assert_eq!(carries(&mut desk, 2), 1);
    desk.nacks(2, 1, 5);
    assert_eq!(desk.relay.egress_counters().refused_range, 0, "its numbers are not moved");
    desk.nacks(4, 1, 5);
    assert_eq!(desk.relay.egress_counters().refused_range, 1, "as those of the other's own are");
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
        let mut desk = Desk::of(Authority::Static(grants), 1_000, before + 1);
        desk.enter(2);
        assert_eq!(desk.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
        desk.announces(&[flow(1, 2, 1)]);
        desk.heard(OTHER)
    };
    let most = u8::try_from(crate::limits::FEEDERS_MAX).expect("few");
    assert_eq!(is_fed(most - 1), [Heard::Known(1, true)]);
    assert_eq!(is_fed(most), [Heard::Known(1, false)]);
}
