//! Tests of work limits: the messages of relays and peers cost an agent a bounded number of units
//! for each input, with any amount of state.

use super::*;
use crate::limits::{DATAGRAM_WORK_MAX, INPUT_WORK_MAX, REQUESTS_MAX};
use byway_wire::messages::{
    Close, CloseReason, Confirm, CooperativeRequest, CopyNack, Offer as OfferMessage,
};
use byway_wire::{Microseconds, Writer};

/// Bytes of messages that a datagram of a peer of this version does not exceed.
const PLAINTEXT_BYTES: usize = 1_175;

/// Length of the longest datagram.
const LONGEST_BYTES: usize = 65_000;

/// Returns as many of these messages as fit the bytes, and their number.
fn filled<'a>(bytes: usize, messages: impl IntoIterator<Item = Message<'a>>) -> (Vec<u8>, u64) {
    let mut buffer = alloc::vec![0; bytes];
    let mut writer = Writer::new(&mut buffer);
    let mut count = 0;
    for message in messages {
        if message.emit(&mut writer).is_err() {
            break;
        }
        count += 1;
    }
    (writer.as_bytes().to_vec(), count)
}

fn of_relay(agent: &Agent) -> SessionId {
    agent.relays[0].session
}

fn of_peer(agent: &Agent, peer: usize) -> SessionId {
    agent.peers[&number(peer)]
}

/// Returns the work units of a datagram with these messages at an agent.
fn work_of(agent: &mut Agent, session: SessionId, messages: &[u8], now: Time) -> u64 {
    let before = agent.work().units();
    agent.on_messages(session, messages, Route::Direct(address(RELAY).into()), now);
    agent.finish(now);
    while agent.poll().is_some() {}
    agent.work().units() - before
}

fn flow(nth: u16) -> FlowKey {
    flow_between(number(SENDER), number(RECEIVER), FlowId::new(nth))
}

/// Returns a sender or receiver with sessions to the relay and the other agent, and with this
/// number of flows.
fn with_flows(who: usize, flows: u16) -> (Agent, Time) {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.run(ms(1_000));
    let TestNetwork { agents, now, .. } = network;
    let [sender, receiver] = agents;
    let mut agent = if who == SENDER { sender } else { receiver };
    for nth in 2..=flows {
        if who == SENDER {
            agent.open_flow(flow(nth), settings(Service::Coding), now).expect("the peer was added");
        } else {
            agent.accept_flow(flow(nth), settings(Service::Coding), now).expect("the peer was added");
        }
    }
    while agent.poll().is_some() {}
    (agent, now)
}

fn request(numbers: &RangeSet) -> Message<'_> {
    let repair_lifetime = Microseconds::from_duration(ms(2_000));
    let request = CooperativeRequest { alias: alias_of(RECEIVER), repair_lifetime, ranges: numbers.ranges() };
    Message::CooperativeRequest(request)
}

#[test]
fn a_request_beside_as_many_as_are_remembered_costs_what_it_names() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.stream(5);
    network.run(ms(100));
    let now = network.now;
    let agent = &mut network.agents[RECEIVER];
    let session = of_relay(agent);
    let count = REQUESTS_MAX as u64;
    for from in [1_000, 2_000, 3_000] {
        let numbers = ranges(from..from + count);
        let (messages, _) = filled(PLAINTEXT_BYTES, [request(&numbers)]);
        let work = work_of(agent, session, &messages, now);
        assert!((count..=3 * count).contains(&work), "{work} units for {count} numbers");
    }
    assert_eq!(agent.backlog().requests, REQUESTS_MAX);
}

#[test]
fn a_datagram_costs_what_one_may_and_the_rest_of_its_messages_is_refused() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.stream(20);
    network.run(ms(100));
    let now = network.now;
    let (of_flow, unknown) = (ranges(0..8_000), ranges(1_000..9_000));
    let [at_sender, at_receiver] = [SENDER, RECEIVER].map(|who| of_relay(&network.agents[who]));
    let confirm = Confirm { alias: alias_of(RECEIVER), ranges: unknown.ranges() };
    let nack = CopyNack { alias: alias_of(SENDER), ranges: of_flow.ranges() };
    let floods = [
        (RECEIVER, at_receiver, request(&unknown)),
        (RECEIVER, at_receiver, Message::Confirm(confirm)),
        (SENDER, at_sender, Message::CopyNack(nack)),
    ];
    for (who, session, message) in floods {
        let (messages, count) = filled(LONGEST_BYTES, core::iter::repeat_n(message, 10_000));
        let agent = &mut network.agents[who];
        let refused = agent.counters().work_refused;
        let work = work_of(agent, session, &messages, now);
        assert!(work >= DATAGRAM_WORK_MAX, "{work} units for {count} messages: {message:?}");
        assert!(work <= INPUT_WORK_MAX, "{work} units for {count} messages: {message:?}");
        assert!(agent.counters().work_refused > refused, "{message:?}");
        let (messages, _) = filled(PLAINTEXT_BYTES, [message]);
        assert!(work_of(agent, session, &messages, now) < 1_000, "the next datagram is read");
    }
}

#[test]
fn a_relay_that_leaves_hundreds_of_times_in_a_datagram_has_all_flows_looked_at_once() {
    const FLOWS: u16 = 500;
    let (mut agent, now) = with_flows(SENDER, FLOWS);
    let session = of_relay(&agent);
    let close = Message::Close(Close { reason: CloseReason::Leaving });
    let (messages, count) = filled(PLAINTEXT_BYTES, core::iter::repeat_n(close, 1_000));
    let work = work_of(&mut agent, session, &messages, now);
    assert!(count > 200, "{count}");
    assert!(
        (u64::from(FLOWS)..=count + 3 * u64::from(FLOWS)).contains(&work),
        "{work} units for {FLOWS} flows"
    );
}

#[test]
fn a_datagram_that_accepts_many_flows_has_all_flows_looked_at_once() {
    const FLOWS: u16 = 500;
    let (mut agent, now) = with_flows(SENDER, FLOWS);
    let session = of_relay(&agent);
    let registered = |nth: u16| {
        let alias = Alias::new(100 + nth).expect("not zero");
        let (role, far_relay) = (FlowRole::Sender, far_relay());
        Message::RegisterReply(RegisterReply {
            flow_key: flow(nth),
            role,
            revision: None,
            far_relay,
            outcome: Ok(alias),
            far_round_trip: None,
            group_activity: None,
        })
    };
    let (messages, count) = filled(PLAINTEXT_BYTES, (2..=FLOWS).map(registered));
    let work = work_of(&mut agent, session, &messages, now);
    assert!(count > 20, "{count}");
    assert!(work <= 10 * count + 2 * u64::from(FLOWS), "{work} units for {count} of {FLOWS} flows");
}

#[test]
fn the_end_of_a_flow_costs_no_more_the_more_flows_there_are() {
    let cost = |flows: u16| {
        let (mut agent, now) = with_flows(RECEIVER, flows);
        let session = of_peer(&agent, SENDER);
        let end = |nth: u16| {
            let (flow_key, role) = (flow(nth), FlowRole::Sender);
            Message::Unregister(Unregister { flow_key, role, far_relay: None })
        };
        let (messages, count) = filled(PLAINTEXT_BYTES, (2..40).map(end));
        let work = work_of(&mut agent, session, &messages, now);
        assert_eq!(agent.receivers.iter().count(), usize::from(flows) - usize::try_from(count).expect("few"));
        (work, count)
    };
    let ((few, count), (many, _)) = (cost(50), cost(1_500));
    assert!(count >= 38 && few >= count, "{few} units for {count} flows");
    assert_eq!(few, many);
}

#[test]
fn offers_beside_as_many_refusals_as_are_remembered_cost_what_one_datagram_may() {
    let (mut agent, now) = with_flows(RECEIVER, 1);
    let session = of_peer(&agent, SENDER);
    let offered = Offer { subject: alloc::vec![7; 3], ..Offer::default() };
    let offers: Vec<OfferMessage<'_>> =
        (0..4_000_u16).filter_map(|nth| offered.to_wire(FlowId::new(2 * nth + 2))).collect();
    for offers in offers.chunks(10).take(60) {
        let (messages, _) = filled(PLAINTEXT_BYTES, offers.iter().copied().map(Message::Offer));
        work_of(&mut agent, session, &messages, now);
        for offer in offers {
            agent.answer_offer(
                number(SENDER),
                offer.flow,
                Err(super::super::OfferRefusal::UnknownSubject),
                now,
            );
        }
    }
    let (messages, count) = filled(LONGEST_BYTES, offers.iter().copied().map(Message::Offer));
    let work = work_of(&mut agent, session, &messages, now);
    assert!((DATAGRAM_WORK_MAX..=INPUT_WORK_MAX).contains(&work), "{work} units for {count} offers");
}

#[test]
fn what_is_due_for_thousands_of_flows_at_once_is_done_in_parts() {
    const FLOWS: u16 = 15_000;
    let now = Time::START;
    let mut agent = agent(SENDER, 20, 1_000, now);
    let paths = alloc::vec![path(); 4];
    let settings = FlowSettings { paths, ..settings(Service::Coding) };
    for nth in 1..=FLOWS {
        agent.open_flow(flow(nth), settings.clone(), now).expect("the peer was added");
    }
    let tries = |agent: &Agent| {
        let all = agent.senders.iter().map(|(_, flow)| flow.registrations.deadline());
        all.filter(|at| at.is_some_and(|at| at > now + ms(250))).count()
    };
    let due = now + ms(250);
    assert_eq!(tries(&agent), 0);
    let mut parts = 0;
    while agent.deadline().is_some_and(|(at, _)| at <= due) {
        let before = agent.work().units();
        agent.handle(AgentInput::Deadline, due);
        while agent.poll().is_some() {}
        let work = agent.work().units() - before;
        assert!(work <= INPUT_WORK_MAX, "{work} units at once");
        parts += 1;
        assert!(parts < 10, "it comes to an end");
    }
    assert!(parts > 1, "the work of one part is less than that of all");
    assert_eq!(tries(&agent), usize::from(FLOWS), "every flow had its turn");
}
