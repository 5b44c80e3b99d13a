//! Floods of one session: what they make a relay do is bounded, whatever they say and however much the relay knows.

use super::*;
use crate::limits::{AGENT_MESSAGES_BYTES_MAX, FLOWS_PER_SESSION_MAX, NACK_REACH, STUCK_ROUNDS_MAX};
use crate::relay::egress::CarriedCopy;
use byway_wire::messages::{Relayed, Unregister};
use byway_wire::{Ranges, Writer};

/// Datagrams of a flood, at ten thousand a second.
const DATAGRAMS: u32 = 10_000;

const INTERVAL: Duration = Duration::from_micros(100);

/// Most units of work that a datagram of [`PLAINTEXT_BYTES`] costs on average: five microseconds.
const WORK_PER_DATAGRAM: u64 = 250;

/// What is left of a datagram of 1,200 bytes for messages.
const PLAINTEXT_BYTES: usize = 1_175;

/// As many of these messages as a datagram takes.
pub(super) fn filled<'a>(messages: impl IntoIterator<Item = Message<'a>>) -> Vec<u8> {
    let mut bytes = [0; PLAINTEXT_BYTES];
    let mut writer = Writer::new(&mut bytes);
    for message in messages {
        if message.emit(&mut writer).is_err() {
            break;
        }
    }
    writer.written().to_vec()
}

fn alias(number: u16) -> Alias {
    Alias::new(number).expect("not zero")
}

/// A range of so many numbers.
pub(super) fn range(first: u64, count: u64) -> RangeSet {
    let mut ranges = RangeSet::new();
    assert!((first..first + count).all(|number| ranges.insert(SequenceNumber::new(number))), "they fit");
    ranges
}

impl Desk {
    fn session(&self, who: u8) -> SessionId {
        let purpose = if who == OTHER { Purpose::RelayToRelay } else { Purpose::AgentToRelay };
        let session = self.relay.sessions.find(secret(who).public_key(), purpose, Shard::new(0));
        session.expect("it entered")
    }

    /// The relay takes messages of a session, authenticated, and does all that is due.
    pub(super) fn takes(&mut self, who: u8, messages: &[u8]) {
        let session = self.session(who);
        let now = self.now;
        self.relay.messages(session, messages, Origin::Address(address(who).into()), now);
        self.relay.perform_actions(now);
        self.relay.handle_changes(now);
        self.relay.flush(now);
        while self.relay.deadline().is_some_and(|(at, _)| at <= now) {
            self.relay.handle(RelayInput::Deadline, now);
        }
        while self.relay.poll().is_some() {}
    }

    /// The work that one datagram of an agent costs.
    pub(super) fn work_of(&mut self, who: u8, messages: &[u8]) -> u64 {
        let before = self.relay.work().units();
        self.takes(who, messages);
        self.relay.work().units() - before
    }

    /// An agent floods the relay for a second; fails as soon as that costs too much work.
    fn withstands(&mut self, who: u8, messages: impl Fn(u32) -> Vec<u8>) {
        let before = self.relay.work().units();
        for nth in 0..DATAGRAMS {
            self.takes(who, &messages(nth));
            self.now += INTERVAL;
            let work = self.relay.work().units() - before;
            let bound = u64::from(DATAGRAMS) * WORK_PER_DATAGRAM;
            assert!(work <= bound, "{work} units of work for {} datagrams", nth + 1);
        }
    }

    /// A receiver registers so many flows.
    pub(super) fn receives(&mut self, sender: u8, who: u8, flows: u16) {
        self.has_thousands = true;
        for number in 1..=flows {
            let register = register(flow(sender, who, number), FlowRole::Receiver, Service::Coding, CONSENT);
            let register = self.as_granted(&register);
            self.takes(who, &filled([Message::Register(register)]));
            self.now += ms(1);
        }
    }

    /// The other relay announces so many flows, from alias 1 on.
    fn hears_of(&mut self, sender: u8, receiver: u8, flows: u16) {
        let numbers: Vec<u16> = (1..=flows).collect();
        for numbers in numbers.chunks(50) {
            let mut scratch = [[0; AliasAnnouncement::BYTES]; 50];
            let mut announced = numbers.iter().map(|number| AliasAnnouncement {
                alias: alias(*number),
                flow_key: flow(sender, receiver, *number),
                service: Service::Coding,
                selective: false,
                rate: KilobitsPerSecond::new(2_000),
            });
            let flows = AliasAnnouncements::collect(&mut announced, &mut scratch);
            self.takes(OTHER, &filled([Message::Aliases(Aliases { flows })]));
        }
    }
}

pub(super) fn nack(alias: Alias, ranges: Ranges<'_>) -> Message<'_> {
    let patience = Microseconds::from_duration(ms(2_000));
    let (noticed_by_timer, answers_confirm) = (false, false);
    Message::Nack(Nack { alias, open_from_low: None, noticed_by_timer, answers_confirm, patience, ranges })
}

/// Two receivers; the first has so many flows, and both of them one of whose packets the relay knows repair packets: numbers from
/// [`KNOWN_FROM`] on, as far as a NACK reaches.
fn knowing(flows: u16) -> Desk {
    let mut desk = Desk::new(alloc::vec![grant(1, 2), grant(3, 4)]);
    desk.enter(2);
    desk.enter(4);
    desk.receives(1, 2, flows);
    desk.receives(3, 4, 1);
    desk.announces(&[flow(1, 2, 1), flow(3, 4, 1)]);
    for nth in 0..u32::try_from(NACK_REACH).expect("few") {
        desk.repairs(nth, u32::try_from(KNOWN_FROM).expect("small") + nth, 2);
        desk.now += INTERVAL;
    }
    desk
}

const KNOWN_FROM: u64 = 100_000;

#[test]
fn a_flood_of_nacks_costs_no_more_than_its_bytes_are_worth() {
    let mut desk = knowing(1);
    // No two of these are the same.
    let ranges: Vec<RangeSet> = (0..60).map(|nth| range(KNOWN_FROM + nth, NACK_REACH - 2 * nth)).collect();
    desk.withstands(2, |_| filled(ranges.iter().map(|ranges| nack(alias(1), ranges.ranges()))));
}

#[test]
fn a_flood_of_nacks_for_thousands_of_flows_costs_no_more_and_takes_little_memory() {
    let flows = u16::try_from(FLOWS_PER_SESSION_MAX).expect("few");
    let mut desk = knowing(flows);
    let everything = range(0, 8_192);
    let before = allocation_counter::measure(|| {});
    assert_eq!(before.bytes_current, 0);
    let used = allocation_counter::measure(|| {
        desk.withstands(2, |nth| {
            let flow = |place: u32| alias(u16::try_from((nth * 55 + place) % 4_096 + 1).expect("few"));
            filled((0..60).map(|place| nack(flow(place), everything.ranges())))
        });
    });
    let bytes = used.bytes_current / i64::from(flows);
    assert!(bytes < 2_048, "{bytes} bytes for each flow");
}

#[test]
fn one_nack_costs_the_same_however_many_flows_there_are() {
    let everything = range(0, 8_192);
    let datagram = filled([nack(alias(2), everything.ranges())]);
    let cost = |flows| knowing(flows).work_of(2, &datagram);
    assert_eq!(cost(2), cost(4_000));
    assert!(cost(2) < 50, "nothing is known of the flow");
}

#[test]
fn a_flood_of_nacks_of_a_flow_that_the_relay_never_carries_costs_nothing() {
    let own = Grant { services: Services::NONE.with(Service::Internet), ..grant(1, 2) };
    let mut desk = Desk::new(alloc::vec![own]);
    desk.enter(2);
    assert_eq!(desk.registers_for(2, flow(1, 2, 1), FlowRole::Receiver, Service::Internet), Ok(1));
    let everything = range(0, 8_192);
    let messages = filled((0..60).map(|_| nack(alias(1), everything.ranges())));
    let count = Messages::new(&messages).count() as u64;
    assert!(desk.work_of(2, &messages) <= 2 * count);
    assert_eq!(desk.relay.egress_counters().refused_service, count);
    assert_eq!(desk.relay.backlog().flows, 0, "nothing is kept of it");
}

#[test]
fn a_flood_of_lost_costs_no_more_than_its_bytes_are_worth() {
    let mut desk = knowing(1);
    desk.nacks(2, 1, KNOWN_FROM + 2_000);
    assert!(!desk.heard(4).is_empty(), "it is asked for a packet");
    let numbers = range(KNOWN_FROM, NACK_REACH);
    let lost = Message::Lost(Lost { alias: alias(1), ranges: numbers.ranges() });
    desk.withstands(4, |_| filled(core::iter::repeat_n(lost, 100)));
}

fn unregister(key: FlowKey, role: FlowRole) -> Message<'static> {
    Message::Unregister(Unregister { flow_key: key, role, far_relay: None })
}

/// A flow that is registered and ended, again and again.
fn comings_and_goings(desk: &Desk, key: FlowKey, role: FlowRole) -> Vec<u8> {
    let begin = desk.as_granted(&register(key, role, Service::Coding, CONSENT));
    filled((0..60).flat_map(|_| [Message::Register(begin), unregister(key, role)]))
}

/// A receiver with so many flows, and a relay that knows so many aliases of others.
fn crowded(flows: u16, aliases: u16) -> Desk {
    let mut desk = Desk::new(alloc::vec![grant(1, 2)]);
    desk.enter(2);
    desk.receives(1, 2, flows);
    desk.hears_of(7, 8, aliases);
    desk.pass(ms(20_000));
    desk
}

#[test]
fn a_flood_of_registrations_costs_no_more_than_its_bytes_are_worth() {
    let mut desk = crowded(4_000, 1);
    let messages = comings_and_goings(&desk, flow(1, 2, 60_000), FlowRole::Receiver);
    desk.withstands(2, |_| messages.clone());
}

#[test]
fn one_registration_costs_the_same_however_many_flows_and_aliases_there_are() {
    let cost = |flows, aliases| {
        let mut desk = crowded(flows, aliases);
        let messages = comings_and_goings(&desk, flow(1, 2, 60_000), FlowRole::Receiver);
        desk.work_of(2, &messages)
    };
    let cheap = cost(1, 1);
    assert_eq!((cost(4_000, 1), cost(1, 65_000)), (cheap, cheap));
}

#[test]
fn a_flood_of_registrations_beside_thousands_of_aliases_costs_no_more_than_its_bytes_are_worth() {
    let mut desk = crowded(1, 65_000);
    let messages = comings_and_goings(&desk, flow(1, 2, 60_000), FlowRole::Receiver);
    desk.withstands(2, |_| messages.clone());
}

#[test]
fn a_flood_of_senders_that_come_and_go_costs_no_more_than_its_bytes_are_worth() {
    let egress = GrantedRelay { relay: RelayId::new(OTHER.into()), shard: Shard::new(0) };
    let mut desk = Desk::new(alloc::vec![Grant { egress, ..grant_here(1, 2) }]);
    desk.has_thousands = true;
    desk.enter(1);
    for number in 1..=1_000 {
        let register = register(flow(1, 2, number), FlowRole::Sender, Service::Coding, CONSENT);
        desk.takes(1, &filled([Message::Register(desk.as_granted(&register))]));
    }
    let messages = comings_and_goings(&desk, flow(1, 2, 60_000), FlowRole::Sender);
    desk.withstands(1, |_| messages.clone());
}

#[test]
fn a_flood_of_answers_that_nobody_asked_for_costs_no_more_than_its_bytes_are_worth() {
    let mut desk = Desk::new(alloc::vec![grant(1, 2), grant(3, 4)]);
    desk.has_thousands = true;
    for (sender, receiver) in [(1, 2), (3, 4)] {
        desk.enter(receiver);
        assert!(desk.registers(receiver, flow(sender, receiver, 1), FlowRole::Receiver).is_ok());
    }
    desk.announces(&[flow(1, 2, 1), flow(3, 4, 1)]);
    // Batches that fail alone, each packet of which is in two.
    let stuck = u32::try_from(STUCK_ROUNDS_MAX).expect("few");
    for sequence in 0..stuck {
        desk.repairs(sequence, sequence, 2);
        desk.repairs(stuck + sequence, sequence, 2);
    }
    for sequence in 0..u64::from(stuck) {
        desk.nacks(2, 1, sequence);
        desk.nacks(4, 1, sequence);
    }
    assert!(desk.relay.egress_counters().rounds_widened >= u64::from(stuck));
    let before = desk.relay.work().units();
    for nth in 0..500 {
        desk.answers(4, 1, 1_000 + nth, &[7; 1_150]);
        let work = desk.relay.work().units() - before;
        assert!(
            work <= u64::from(nth + 1) * WORK_PER_DATAGRAM,
            "{work} units of work for {} answers",
            nth + 1
        );
    }
    assert_eq!(desk.relay.egress_counters().answers_unasked, 500);
}

#[test]
fn the_same_answer_again_and_again_is_used_once() {
    let mut desk = knowing(1);
    desk.nacks(2, 1, KNOWN_FROM + 2_000);
    let sequence = u32::try_from(KNOWN_FROM).expect("small") + 2_000;
    desk.answers(4, 1, sequence, &packet(2, sequence));
    assert_eq!(desk.relay.egress_counters().answers, 1);
    let before = desk.relay.work().units();
    let held = desk.relay.packets_held();
    for _ in 0..500 {
        desk.answers(4, 1, sequence, &packet(2, sequence));
    }
    assert_eq!(desk.relay.egress_counters().answers, 1);
    assert!(desk.relay.work().units() - before <= 500 * WORK_PER_DATAGRAM);
    assert_eq!(desk.relay.packets_held(), held);
}

/// Two agents here, the first with so many flows to the second.
fn acquainted(flows: u16) -> Desk {
    let mut desk = Desk::new(alloc::vec![grant_here(1, 2)]);
    desk.enter(1);
    desk.enter(2);
    desk.receives(1, 2, flows);
    for number in 1..=flows {
        let register = register(flow(1, 2, number), FlowRole::Sender, Service::Coding, CONSENT);
        desk.takes(1, &filled([Message::Register(desk.as_granted(&register))]));
        desk.now += ms(1);
    }
    desk
}

#[test]
fn a_flood_of_offers_costs_no_more_than_its_bytes_are_worth() {
    let short = [8; 40];
    let offer = Message::Relayed(Relayed::new(AgentId::new(2), &short).expect("a message packet"));
    let messages = filled(core::iter::repeat_n(offer, 60));
    let cost = |flows| acquainted(flows).work_of(1, &messages);
    assert_eq!(cost(1), cost(1_000));
    acquainted(1_000).withstands(1, |_| messages.clone());
}

#[test]
fn no_datagram_of_an_agent_has_more_messages_or_bytes_than_agents_send() {
    let mut desk = acquainted(1);
    let mut bytes = alloc::vec![0; 60_000];
    let mut writer = Writer::new(&mut bytes);
    let ack = Message::Ack(byway_wire::messages::Ack { alias: alias(1), from_low: 5 });
    while ack.emit(&mut writer).is_ok() {}
    let messages = writer.written();
    let ack_bytes = messages.len() / Messages::new(messages).count();
    let work = desk.work_of(2, messages);
    assert_eq!((work, desk.relay.counters().datagrams_too_long), (0, 1));
    let longest = AGENT_MESSAGES_BYTES_MAX / ack_bytes * ack_bytes;
    let excess = AGENT_MESSAGES_BYTES_MAX / ack_bytes - crate::limits::AGENT_MESSAGES_MAX;
    desk.takes(2, &messages[..longest]);
    assert_eq!(desk.relay.counters().messages_too_many, excess as u64);
}

#[test]
fn a_session_that_floods_a_relay_leaves_others_their_repairs() {
    let mut desk = knowing(1);
    let ranges: Vec<RangeSet> = (0..60).map(|nth| range(KNOWN_FROM + nth, NACK_REACH - 2 * nth)).collect();
    let flood = filled(ranges.iter().map(|ranges| nack(alias(1), ranges.ranges())));
    for _ in 0..DATAGRAMS {
        desk.takes(2, &flood);
    }
    assert!(desk.relay.counters().work_refused > 0);
    let sequence = u32::try_from(KNOWN_FROM + NACK_REACH).expect("small");
    desk.repairs(50_000, sequence, 2);
    desk.heard(2);
    desk.nacks(4, 1, u64::from(sequence));
    assert_eq!(desk.heard(2), [Heard::Request(1, alloc::vec![sequence])]);
}

#[test]
fn a_receiver_of_two_hundred_flows_that_all_are_dark_for_three_seconds_is_heard_to_the_end() {
    let flows = 200;
    let mut desk = Desk::new(alloc::vec![grant(1, 2)]);
    desk.enter(2);
    desk.receives(1, 2, flows);
    let slots: Vec<_> = (1..=flows).map(|nth| desk.relay.links.receivers_of(flow(1, 2, nth))[0]).collect();
    // In steps of 50 ms, a hundred packets a second: each is asked for four times, later and later, as no repair arrives. Beside that the
    // access line loses one packet in twenty of what it would have been asked for.
    let asked_after = [1, 4, 10, 22];
    for step in 0..60 + 22_u32 {
        desk.now += ms(50);
        let copies = (0..5).map(|nth| step * 5 + nth).filter(|_| step < 60);
        for (slot, sequence_low) in slots.iter().flat_map(|slot| copies.clone().map(move |low| (*slot, low)))
        {
            let (coded, ecn) = (&[7; 60], Ecn::NotCapable);
            let carried = CarriedCopy { sequence_low, coded, ecn, is_forwarded: false, feed: None };
            desk.relay.egress.carried(&[slot], &carried, desk.now, &mut desk.relay.actions);
        }
        for begun in asked_after.iter().filter_map(|after| step.checked_sub(*after)).filter(|step| *step < 60)
        {
            let ranges = range(u64::from(begun) * 5, 5);
            let is_lost = |nth: &u16| (u32::from(*nth) + begun) % 20 > 0;
            let asking: Vec<u16> = (1..=flows).filter(is_lost).collect();
            for aliases in asking.chunks(50) {
                let nacks = aliases.iter().map(|number| nack(alias(*number), ranges.ranges()));
                desk.takes(2, &filled(nacks));
            }
        }
    }
    assert_eq!(desk.relay.counters().work_refused, 0);
    let repaired = desk.relay.egress_counters().cached + desk.relay.egress_counters().cooperative;
    assert!(repaired >= u64::from(flows) * 300 * 19 / 20, "{repaired}");
}
