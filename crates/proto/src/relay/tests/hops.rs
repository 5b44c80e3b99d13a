//! Carried copies that another relay misses, or that are missed here.

use byway_wire::messages::CopyNack;

use super::floods::range;
use super::groups::{group_flow, sending};
use super::*;
use crate::limits::{CARRIED_ASKS_MAX, COPY_REORDERING, DATAGRAM_WORK_MAX, INPUT_WORK_MAX};

/// A flow from agent 1 that is carried to the other relay, as alias 1.
fn carrying() -> Desk {
    let mut desk = Desk::new(alloc::vec![sending(OTHER)]);
    desk.enter(1);
    assert_eq!(desk.registers_for(1, group_flow(1), FlowRole::Sender, Service::Caching), Ok(1));
    desk.knows(&[1]);
    desk
}

impl Desk {
    /// The other relay asks for carried copies.
    fn misses(&mut self, alias: u16, numbers: impl IntoIterator<Item = u64>) -> Vec<Heard> {
        let mut set = RangeSet::new();
        for number in numbers {
            assert!(set.insert(SequenceNumber::new(number)), "it fits");
        }
        let alias = Alias::new(alias).expect("not zero");
        self.heard(OTHER);
        self.says(OTHER, &Message::CopyNack(CopyNack { alias, ranges: set.ranges() }));
        self.heard(OTHER)
    }

    /// The other relay carries copies of the flow that it calls alias 1.
    fn comes_carried(&mut self, sequences: impl IntoIterator<Item = u32>) {
        for sequence in sequences {
            self.envelops(OTHER, EnvelopeRole::Carried, 1, sequence, &packet(1, sequence));
        }
    }
}

fn carried(sequence: u32) -> Heard {
    Heard::Envelope(EnvelopeRole::Carried, 1, sequence, packet(1, sequence))
}

#[test]
fn what_another_relay_misses_is_carried_again() {
    let mut desk = carrying();
    (0..5).for_each(|sequence| desk.copies(1, 1, sequence, &packet(1, sequence)));
    desk.pass(ms(100));
    assert_eq!(desk.misses(1, [1, 3]), [carried(1), carried(3)]);
    assert_eq!(desk.misses(1, [7]), [], "it never was here");
    assert_eq!(desk.misses(2, [1]), [], "that alias stands for nothing");
    assert_eq!(desk.relay.counters().aliases_unknown, 1);
}

#[test]
fn a_relay_that_asks_for_everything_all_the_time_gets_each_copy_twice_more() {
    let mut desk = carrying();
    let (mut again, mut sent) = (0, 0);
    for _ in 0..12 {
        for _ in 0..5 {
            desk.copies(1, 1, sent, &packet(1, sent));
            sent += 1;
        }
        for _ in 0..4 {
            desk.pass(ms(25));
            again += desk.misses(1, 0..20_000).len();
        }
    }
    assert!(again <= usize::from(CARRIED_ASKS_MAX) * 60, "{again} of 60 copies");
    assert!(desk.relay.ingress_counters().resends_refused > 0);
}

#[test]
fn another_relay_that_asks_for_everything_in_the_longest_datagram_has_it_read_in_part() {
    let mut desk = carrying();
    (0..5).for_each(|sequence| desk.copies(1, 1, sequence, &packet(1, sequence)));
    let everything = range(0, 8_192);
    let alias = Alias::new(1).expect("not zero");
    let nack = Message::CopyNack(CopyNack { alias, ranges: everything.ranges() });
    let mut messages = alloc::vec![0; 65_000];
    let mut writer = byway_wire::Writer::new(&mut messages);
    while nack.emit(&mut writer).is_ok() {}
    let work = desk.work_of(OTHER, writer.written());
    assert!((DATAGRAM_WORK_MAX..=INPUT_WORK_MAX).contains(&work), "{work} units");
    assert!(desk.relay.counters().work_refused > 1_000);
}

#[test]
fn agents_have_no_carried_copies_to_ask_for() {
    let mut desk = carrying();
    desk.copies(1, 1, 0, &packet(1, 0));
    desk.pass(ms(100));
    let mut set = RangeSet::new();
    assert!(set.insert(SequenceNumber::new(0)));
    let alias = Alias::new(1).expect("not zero");
    desk.says(1, &Message::CopyNack(CopyNack { alias, ranges: set.ranges() }));
    assert_eq!((desk.relay.counters().out_of_role, desk.relay.ingress_counters().resent), (1, 0));
}

/// A flow from agent 1 to agent 2 that comes from the other relay.
fn fed(selective: bool) -> Desk {
    let mut desk = Desk::new(alloc::vec![grant(1, 2)]);
    desk.enter(2);
    let key = FlowKey::new(AgentId::new(1), Receiver::Agent(AgentId::new(2)), FlowId::new(1));
    assert_eq!(desk.registers_for(2, key, FlowRole::Receiver, Service::Caching), Ok(1));
    desk.announces_as(&[key], selective);
    desk.heard(OTHER);
    desk
}

#[test]
fn what_is_missed_here_of_carried_copies_is_asked_for() {
    let mut desk = fed(false);
    desk.comes_carried([0, 1, 4, 5]);
    assert_eq!(desk.heard(OTHER), []);
    desk.pass(COPY_REORDERING);
    assert_eq!(desk.heard(OTHER), [Heard::CopyNack(1, alloc::vec![2, 3])]);
    desk.comes_carried([2, 3]);
    desk.pass(ms(1_000));
    assert_eq!(desk.heard(OTHER), []);
    desk.nacks(2, 1, 2);
    assert_eq!(desk.heard(2), [Heard::Envelope(EnvelopeRole::CachedRepair, 1, 2, packet(1, 2))]);
}

#[test]
fn what_a_sender_did_not_copy_is_not_asked_for() {
    let mut desk = fed(true);
    desk.comes_carried([0, 1, 4, 5]);
    desk.pass(ms(1_000));
    assert_eq!(desk.heard(OTHER), []);
}
