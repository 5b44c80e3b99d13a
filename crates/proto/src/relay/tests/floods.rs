//! Floods of one session: the work that they cause is bounded, whatever the messages and the state
//! of the relay.

use super::*;
use crate::limits::{AGENT_MESSAGES_BYTES_MAX, FLOWS_PER_SESSION_MAX, NACK_REACH, UNDECODABLE_ATTEMPTS_MAX};
use crate::relay::egress::RelayedCopy;
use byway_wire::messages::{RelayedPacket, Unregister};
use byway_wire::{Ranges, Writer};

/// Datagrams of a flood, at ten thousand a second.
const DATAGRAMS: u32 = 10_000;

const INTERVAL: Duration = Duration::from_micros(100);

/// Most units of work that a datagram of [`PLAINTEXT_BYTES`] costs on average: five microseconds.
const WORK_PER_DATAGRAM: u64 = 250;

/// Space for messages in a datagram of 1,200 bytes.
const PLAINTEXT_BYTES: usize = 1_175;

/// Returns as many of these messages as fit a datagram.
pub(super) fn filled<'a>(messages: impl IntoIterator<Item = Message<'a>>) -> Vec<u8> {
    let mut bytes = [0; PLAINTEXT_BYTES];
    let mut writer = Writer::new(&mut bytes);
    for message in messages {
        if message.emit(&mut writer).is_err() {
            break;
        }
    }
    writer.as_bytes().to_vec()
}

fn alias(number: u16) -> Alias {
    Alias::new(number).expect("not zero")
}

/// Returns a range of this many sequence numbers.
pub(super) fn range(first: u64, count: u64) -> RangeSet {
    let mut ranges = RangeSet::new();
    assert!((first..first + count).all(|number| ranges.insert(SequenceNumber::new(number))), "they fit");
    ranges
}

impl RelayHarness {
    fn session(&self, who: u8) -> SessionId {
        let purpose = if who == OTHER { Purpose::RelayToRelay } else { Purpose::AgentToRelay };
        let session = self.relay.sessions.find(secret(who).public_key(), purpose, Shard::new(0));
        session.expect("it entered")
    }

    /// Handles authenticated messages of a session, and all timers that are due.
    pub(super) fn process(&mut self, who: u8, messages: &[u8]) {
        let session = self.session(who);
        let now = self.now;
        self.relay.on_messages(session, messages, Route::Direct(address(who).into()), now);
        self.relay.dispatch_actions(now);
        self.relay.handle_session_events(now);
        self.relay.flush(now);
        while self.relay.deadline().is_some_and(|(at, _)| at <= now) {
            self.relay.handle(RelayInput::Deadline, now);
        }
        while self.relay.poll().is_some() {}
    }

    /// Returns the work that one datagram of an agent costs.
    pub(super) fn work_of(&mut self, who: u8, messages: &[u8]) -> u64 {
        let before = self.relay.work().units();
        self.process(who, messages);
        self.relay.work().units() - before
    }

    /// Floods the relay for a second as an agent. Fails as soon as that costs too much work.
    fn withstands(&mut self, who: u8, messages: impl Fn(u32) -> Vec<u8>) {
        let before = self.relay.work().units();
        for nth in 0..DATAGRAMS {
            self.process(who, &messages(nth));
            self.now += INTERVAL;
            let work = self.relay.work().units() - before;
            let bound = u64::from(DATAGRAMS) * WORK_PER_DATAGRAM;
            assert!(work <= bound, "{work} units of work for {} datagrams", nth + 1);
        }
    }

    /// Registers this many flows for a receiver.
    pub(super) fn receives(&mut self, sender: u8, who: u8, flows: u16) {
        self.has_thousands = true;
        for number in 1..=flows {
            let register = register(flow(sender, who, number), FlowRole::Receiver, Service::Coding, CONSENT);
            let register = self.as_granted(&register);
            self.process(who, &filled([Message::Register(register)]));
            self.now += ms(1);
        }
    }

    /// Advertises this many flows as the other relay, from alias 1 on.
    fn receive_advertisements(&mut self, sender: u8, receiver: u8, flows: u16) {
        let numbers: Vec<u16> = (1..=flows).collect();
        for numbers in numbers.chunks(50) {
            let mut scratch = [[0; AliasAnnouncement::BYTES]; 50];
            let mut announced = numbers.iter().map(|number| AliasAnnouncement {
                alias: alias(*number),
                flow_key: flow(sender, receiver, *number),
                service: Service::Coding,
                selective: false,
                adaptive_redundancy: false,
                rate: KilobitsPerSecond::new(2_000),
            });
            let flows = AliasAnnouncements::collect(&mut announced, &mut scratch);
            self.process(OTHER, &filled([Message::Aliases(Aliases { flows })]));
        }
    }
}

pub(super) fn nack(alias: Alias, ranges: Ranges<'_>) -> Message<'_> {
    let repair_lifetime = Microseconds::from_duration(ms(2_000));
    let (noticed_by_timer, answers_confirm) = (false, false);
    Message::Nack(Nack {
        alias,
        open_from_low: None,
        noticed_by_timer,
        answers_confirm,
        queue_grows: false,
        repair_lifetime,
        ranges,
    })
}

/// A relay with two receivers, the first with this many flows. The relay stores repair packets for
/// one flow of each receiver: sequence numbers from [`KNOWN_FROM`] on, as far as a NACK reaches.
fn knowing(flows: u16) -> RelayHarness {
    let mut harness = RelayHarness::new(alloc::vec![grant(1, 2), grant(3, 4)]);
    harness.enter(2);
    harness.enter(4);
    harness.receives(1, 2, flows);
    harness.receives(3, 4, 1);
    harness.announces(&[flow(1, 2, 1), flow(3, 4, 1)]);
    for nth in 0..u32::try_from(NACK_REACH).expect("few") {
        harness.repairs(nth, u32::try_from(KNOWN_FROM).expect("small") + nth, 2);
        harness.now += INTERVAL;
    }
    harness
}

const KNOWN_FROM: u64 = 100_000;

#[test]
fn a_flood_of_nacks_costs_no_more_than_its_bytes_are_worth() {
    let mut harness = knowing(1);
    // No two of these ranges are equal.
    let ranges: Vec<RangeSet> = (0..60).map(|nth| range(KNOWN_FROM + nth, NACK_REACH - 2 * nth)).collect();
    harness.withstands(2, |_| filled(ranges.iter().map(|ranges| nack(alias(1), ranges.ranges()))));
}

#[test]
fn a_flood_of_nacks_for_thousands_of_flows_costs_no_more_and_takes_little_memory() {
    let flows = u16::try_from(FLOWS_PER_SESSION_MAX).expect("few");
    let mut harness = knowing(flows);
    let everything = range(0, 8_192);
    let before = allocation_counter::measure(|| {});
    assert_eq!(before.bytes_current, 0);
    let used = allocation_counter::measure(|| {
        harness.withstands(2, |nth| {
            let flow = |index: u32| alias(u16::try_from((nth * 55 + index) % 4_096 + 1).expect("few"));
            filled((0..60).map(|index| nack(flow(index), everything.ranges())))
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
    assert!(cost(2) < 50, "the relay has nothing of the flow");
}

#[test]
fn a_flood_of_nacks_of_a_flow_that_the_relay_never_relays_costs_nothing() {
    let own = Grant { services: Services::NONE.with(Service::Internet), ..grant(1, 2) };
    let mut harness = RelayHarness::new(alloc::vec![own]);
    harness.enter(2);
    assert_eq!(harness.registers_for(2, flow(1, 2, 1), FlowRole::Receiver, Service::Internet), Ok(1));
    let everything = range(0, 8_192);
    let messages = filled((0..60).map(|_| nack(alias(1), everything.ranges())));
    let count = Messages::new(&messages).count() as u64;
    assert!(harness.work_of(2, &messages) <= 2 * count);
    assert_eq!(harness.relay.egress_counters().refused_service, count);
    assert_eq!(harness.relay.backlog().flows, 0, "no state of it remains");
}

#[test]
fn a_flood_of_lost_costs_no_more_than_its_bytes_are_worth() {
    let mut harness = knowing(1);
    harness.nacks(2, 1, KNOWN_FROM + 2_000);
    assert!(!harness.drain_events(4).is_empty(), "it gets a request");
    let numbers = range(KNOWN_FROM, NACK_REACH);
    let lost = Message::CooperativeRefusal(CooperativeRefusal { alias: alias(1), ranges: numbers.ranges() });
    harness.withstands(4, |_| filled(core::iter::repeat_n(lost, 100)));
}

fn unregister(key: FlowKey, role: FlowRole) -> Message<'static> {
    Message::Unregister(Unregister { flow_key: key, role, far_relay: None })
}

/// Returns messages that register and unregister a flow repeatedly.
fn comings_and_goings(harness: &RelayHarness, key: FlowKey, role: FlowRole) -> Vec<u8> {
    let begin = harness.as_granted(&register(key, role, Service::Coding, CONSENT));
    filled((0..60).flat_map(|_| [Message::Register(begin), unregister(key, role)]))
}

/// A receiver with `flows` registered flows, at a relay that knows `aliases` aliases of another
/// relay.
fn crowded(flows: u16, aliases: u16) -> RelayHarness {
    let mut harness = RelayHarness::new(alloc::vec![grant(1, 2)]);
    harness.enter(2);
    harness.receives(1, 2, flows);
    harness.receive_advertisements(7, 8, aliases);
    harness.advance(ms(20_000));
    harness
}

#[test]
fn a_flood_of_registrations_costs_no_more_than_its_bytes_are_worth() {
    let mut harness = crowded(4_000, 1);
    let messages = comings_and_goings(&harness, flow(1, 2, 60_000), FlowRole::Receiver);
    harness.withstands(2, |_| messages.clone());
}

#[test]
fn one_registration_costs_the_same_however_many_flows_and_aliases_there_are() {
    let cost = |flows, aliases| {
        let mut harness = crowded(flows, aliases);
        let messages = comings_and_goings(&harness, flow(1, 2, 60_000), FlowRole::Receiver);
        harness.work_of(2, &messages)
    };
    let cheap = cost(1, 1);
    assert_eq!((cost(4_000, 1), cost(1, 65_000)), (cheap, cheap));
}

#[test]
fn a_flood_of_registrations_beside_thousands_of_aliases_costs_no_more_than_its_bytes_are_worth() {
    let mut harness = crowded(1, 65_000);
    let messages = comings_and_goings(&harness, flow(1, 2, 60_000), FlowRole::Receiver);
    harness.withstands(2, |_| messages.clone());
}

#[test]
fn a_flood_of_senders_that_come_and_go_costs_no_more_than_its_bytes_are_worth() {
    let egress = GrantedRelay { relay: RelayId::new(OTHER.into()), shard: Shard::new(0) };
    let mut harness = RelayHarness::new(alloc::vec![Grant { egress, ..grant_here(1, 2) }]);
    harness.has_thousands = true;
    harness.enter(1);
    for number in 1..=1_000 {
        let register = register(flow(1, 2, number), FlowRole::Sender, Service::Coding, CONSENT);
        harness.process(1, &filled([Message::Register(harness.as_granted(&register))]));
    }
    let messages = comings_and_goings(&harness, flow(1, 2, 60_000), FlowRole::Sender);
    harness.withstands(1, |_| messages.clone());
}

#[test]
fn a_flood_of_answers_that_nobody_asked_for_costs_no_more_than_its_bytes_are_worth() {
    let mut harness = RelayHarness::new(alloc::vec![grant(1, 2), grant(3, 4)]);
    harness.has_thousands = true;
    for (sender, receiver) in [(1, 2), (3, 4)] {
        harness.enter(receiver);
        assert!(harness.registers(receiver, flow(sender, receiver, 1), FlowRole::Receiver).is_ok());
    }
    harness.announces(&[flow(1, 2, 1), flow(3, 4, 1)]);
    // No batch suffices alone, and two batches cover each packet.
    let stuck = u32::try_from(UNDECODABLE_ATTEMPTS_MAX).expect("few");
    for sequence in 0..stuck {
        harness.repairs(sequence, sequence, 2);
        harness.repairs(stuck + sequence, sequence, 2);
    }
    for sequence in 0..u64::from(stuck) {
        harness.nacks(2, 1, sequence);
        harness.nacks(4, 1, sequence);
    }
    assert!(harness.relay.egress_counters().decode_attempts_expanded >= u64::from(stuck));
    let before = harness.relay.work().units();
    for nth in 0..500 {
        harness.send_answer(4, 1, 1_000 + nth, &[7; 1_150]);
        let work = harness.relay.work().units() - before;
        assert!(
            work <= u64::from(nth + 1) * WORK_PER_DATAGRAM,
            "{work} units of work for {} answers",
            nth + 1
        );
    }
    assert_eq!(harness.relay.egress_counters().answers_unsolicited, 500);
}

#[test]
fn the_same_answer_again_and_again_is_used_once() {
    let mut harness = knowing(1);
    harness.nacks(2, 1, KNOWN_FROM + 2_000);
    let sequence = u32::try_from(KNOWN_FROM).expect("small") + 2_000;
    harness.send_answer(4, 1, sequence, &packet(2, sequence));
    assert_eq!(harness.relay.egress_counters().answers, 1);
    let before = harness.relay.work().units();
    let buffered_bytes = harness.relay.buffered_bytes();
    for _ in 0..500 {
        harness.send_answer(4, 1, sequence, &packet(2, sequence));
    }
    assert_eq!(harness.relay.egress_counters().answers, 1);
    assert!(harness.relay.work().units() - before <= 500 * WORK_PER_DATAGRAM);
    assert_eq!(harness.relay.buffered_bytes(), buffered_bytes);
}

/// Two agents at the relay, with this many flows from the first to the second.
fn acquainted(flows: u16) -> RelayHarness {
    let mut harness = RelayHarness::new(alloc::vec![grant_here(1, 2)]);
    harness.enter(1);
    harness.enter(2);
    harness.receives(1, 2, flows);
    for number in 1..=flows {
        let register = register(flow(1, 2, number), FlowRole::Sender, Service::Coding, CONSENT);
        harness.process(1, &filled([Message::Register(harness.as_granted(&register))]));
        harness.now += ms(1);
    }
    harness
}

#[test]
fn a_flood_of_offers_costs_no_more_than_its_bytes_are_worth() {
    let short = [8; 40];
    let offer =
        Message::RelayedPacket(RelayedPacket::new(AgentId::new(2), &short).expect("a message packet"));
    let messages = filled(core::iter::repeat_n(offer, 60));
    let cost = |flows| acquainted(flows).work_of(1, &messages);
    assert_eq!(cost(1), cost(1_000));
    acquainted(1_000).withstands(1, |_| messages.clone());
}

#[test]
fn no_datagram_of_an_agent_has_more_messages_or_bytes_than_agents_send() {
    let mut harness = acquainted(1);
    let mut bytes = alloc::vec![0; 60_000];
    let mut writer = Writer::new(&mut bytes);
    let ack = Message::Ack(byway_wire::messages::Ack { alias: alias(1), from_low: 5 });
    while ack.emit(&mut writer).is_ok() {}
    let messages = writer.as_bytes();
    let ack_bytes = messages.len() / Messages::new(messages).count();
    let work = harness.work_of(2, messages);
    assert_eq!((work, harness.relay.counters().datagrams_too_long), (0, 1));
    let longest = AGENT_MESSAGES_BYTES_MAX / ack_bytes * ack_bytes;
    let excess = AGENT_MESSAGES_BYTES_MAX / ack_bytes - crate::limits::AGENT_MESSAGES_MAX;
    harness.process(2, &messages[..longest]);
    assert_eq!(harness.relay.counters().messages_too_many, excess as u64);
}

#[test]
fn a_session_that_floods_a_relay_leaves_others_their_repairs() {
    let mut harness = knowing(1);
    let ranges: Vec<RangeSet> = (0..60).map(|nth| range(KNOWN_FROM + nth, NACK_REACH - 2 * nth)).collect();
    let flood = filled(ranges.iter().map(|ranges| nack(alias(1), ranges.ranges())));
    for _ in 0..DATAGRAMS {
        harness.process(2, &flood);
    }
    assert!(harness.relay.counters().work_refused > 0);
    let sequence = u32::try_from(KNOWN_FROM + NACK_REACH).expect("small");
    harness.repairs(50_000, sequence, 2);
    harness.drain_events(2);
    harness.nacks(4, 1, u64::from(sequence));
    assert_eq!(harness.drain_events(2), [ClientEvent::Request(1, alloc::vec![sequence])]);
}

#[test]
fn a_receiver_of_two_hundred_flows_with_an_outage_of_three_seconds_is_served_to_the_end() {
    let flows = 200;
    let mut harness = RelayHarness::new(alloc::vec![grant(1, 2)]);
    harness.enter(2);
    harness.receives(1, 2, flows);
    let slots: Vec<_> =
        (1..=flows).map(|nth| harness.relay.flow_table.receivers_of(flow(1, 2, nth))[0]).collect();
    // Steps of 50 ms, a hundred packets a second. Each packet gets four NACKs at growing intervals,
    // because no repair arrives. One packet in twenty gets no NACK.
    let asked_after = [1, 4, 10, 22];
    for step in 0..60 + 22_u32 {
        harness.now += ms(50);
        let copies = (0..5).map(|nth| step * 5 + nth).filter(|_| step < 60);
        for (slot, sequence_low) in slots.iter().flat_map(|slot| copies.clone().map(move |low| (*slot, low)))
        {
            let (coded, ecn) = (&[7; 60], Ecn::NotCapable);
            let copy =
                RelayedCopy { sequence_low, coded, ecn, is_forwarded: false, is_resent: false, source: None };
            harness.relay.egress.on_relayed_copy(&[slot], &copy, harness.now, &mut harness.relay.actions);
        }
        for begun in asked_after.iter().filter_map(|after| step.checked_sub(*after)).filter(|step| *step < 60)
        {
            let ranges = range(u64::from(begun) * 5, 5);
            let is_lost = |nth: &u16| (u32::from(*nth) + begun) % 20 > 0;
            let asking: Vec<u16> = (1..=flows).filter(is_lost).collect();
            for aliases in asking.chunks(50) {
                let nacks = aliases.iter().map(|number| nack(alias(*number), ranges.ranges()));
                harness.process(2, &filled(nacks));
            }
        }
    }
    assert_eq!(harness.relay.counters().work_refused, 0);
    let repaired = harness.relay.egress_counters().cached + harness.relay.egress_counters().cooperative;
    assert!(repaired >= u64::from(flows) * 300 * 19 / 20, "{repaired}");
}
