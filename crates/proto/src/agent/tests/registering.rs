//! Tests of flow registration with relays.

use super::*;
use crate::agent::registration_state::Registrations;
use crate::agent::{Flow, PathState};
use crate::limits::{ALIASES_MAX, CANDIDATES_MAX, NACKED_RELAYS_MAX};
use crate::session::ProbeContext;
use byway_wire::Timestamp;
use byway_wire::messages::{Ack, ProbeReply, UnknownMessage};

fn registered_at(network: &TestNetwork, by: usize) -> Vec<u64> {
    let observed = network
        .relay
        .observed
        .iter()
        .filter(|(_, who, message)| *who == by && matches!(message, ObservedMessage::Register { .. }));
    observed.map(|(at, ..)| at.saturating_since(Time::START).as_millis()).collect()
}

#[test]
fn both_ends_register_in_their_role() {
    let mut network = TestNetwork::unregistered(&settings(Service::Coding));
    network.run(ms(200));
    let has = |who, role| {
        network.relay.observed.contains(&(
            network.relay.observed[0].0,
            who,
            ObservedMessage::Register { role, selective: false },
        ))
    };
    assert!(has(SENDER, FlowRole::Sender) && has(RECEIVER, FlowRole::Receiver));
}

#[test]
fn a_silent_relay_is_asked_ever_more_rarely() {
    let mut network = TestNetwork::unregistered(&settings(Service::Coding));
    network.relay.answer = None;
    network.run(ms(45_000));
    let at = registered_at(&network, SENDER);
    let waits: Vec<u64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let steady = [250, 500, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000];
    assert_eq!(waits, [&steady[..], &[2_000, 4_000, 8_000, 8_000, 8_000, 8_000]].concat());
}

#[test]
fn a_refusal_is_an_event_and_is_not_argued_with() {
    let mut network = TestNetwork::unregistered(&settings(Service::Coding));
    network.relay.answer = Some(Err(Refusal::NoGrant));
    network.run(ms(30_000));
    let refused = Event::FlowRefused { flow: key(), refusal: Refusal::NoGrant };
    for who in [SENDER, RECEIVER] {
        assert_eq!(network.events.iter().filter(|(by, event)| *by == who && *event == refused).count(), 1);
        assert_eq!(registered_at(&network, who).len(), 1);
    }
    network.stream(5);
    network.run(ms(50));
    assert_eq!(
        (network.got.len(), network.agents[SENDER].counters().copies),
        (5, 0),
        "the direct path needs no relay"
    );
}

#[test]
fn a_relay_that_restarted_is_told_of_the_flows_again() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.stream(50);
    network.relay = TestRelay::new(51, network.now);
    for _ in 0..3 {
        network.stream(100);
    }
    for who in [SENDER, RECEIVER] {
        assert!(!registered_at(&network, who).is_empty());
    }
    assert!(!network.enveloped(EnvelopeRole::Copy).is_empty(), "and gets copies");
    assert_eq!(network.got.len(), 350 - 2);
}

#[test]
fn a_dead_relay_gets_no_copies_and_stops_no_originals() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.stream(50);
    network.loses(|datagram| datagram.to == RELAY || datagram.from == RELAY);
    network.stream(100);
    let copies = network.agents[SENDER].counters().copies;
    network.stream(100);
    assert_eq!(network.agents[SENDER].counters().copies, copies);
    network.run(ms(50));
    assert_eq!(network.got.len(), 250);
}

#[test]
fn peers_that_come_and_go_are_events() {
    let mut network = TestNetwork::unregistered(&settings(Service::Coding));
    network.run(ms(500));
    assert!(network.events.contains(&(SENDER, Event::PeerEstablished(number(RECEIVER)))));
    assert!(network.events.contains(&(RECEIVER, Event::PeerEstablished(number(SENDER)))));
    network.loses(|datagram| datagram.to == RECEIVER && datagram.from == SENDER);
    network.stream(100);
    assert!(network.events.contains(&(SENDER, Event::PeerLost(number(RECEIVER)))));
}

#[test]
fn a_flow_asks_each_of_its_relays_and_begins_with_the_first() {
    let registrations = Registrations::new(2);
    assert_eq!(
        (registrations.in_use(), registrations.alias(), registrations.deadline()),
        (0, None, Some(Time::START))
    );
    assert_eq!(
        [0, 1, 2].map(|path| registrations.next_try(path)),
        [Some(Time::START), Some(Time::START), None]
    );
}

#[test]
fn a_relay_that_numbers_flows_beyond_all_reason_is_not_used() {
    let names = |alias: usize| {
        let mut network = TestNetwork::unregistered(&settings(Service::Coding));
        network.relay.answer = None;
        network.run(ms(200));
        let alias = Alias::new(u16::try_from(alias).expect("an alias")).expect("not zero");
        let reply = RegisterReply {
            flow_key: key(),
            role: FlowRole::Sender,
            revision: Some(0),
            far_relay: far_relay(),
            outcome: Ok(alias),
            far_round_trip: None,
            group_activity: None,
        };
        network.send_from_relay(SENDER, &Message::RegisterReply(reply));
        network.run(ms(50));
        network.stream(5);
        network.run(ms(50));
        let refused = Event::FlowRefused { flow: key(), refusal: Refusal::Full };
        let is_refused = network.events.contains(&(SENDER, refused));
        (is_refused, network.agents[SENDER].counters().copies, network.got.len())
    };
    assert_eq!(names(ALIASES_MAX - 1), (false, 5, 5));
    assert_eq!(names(ALIASES_MAX), (true, 0, 5));
}

#[test]
fn an_acceptance_of_one_path_is_none_of_another_that_ends_at_the_same_relay() {
    let mut network = TestNetwork::unregistered(&settings(Service::Coding));
    let elsewhere = RelayPath { ingress: (RelayId::new(10), Shard::new(0)), ..path() };
    network.relay.answer = None;
    network.agents[RECEIVER].set_received_paths(
        network.received,
        alloc::vec![path(), elsewhere],
        network.now,
    );
    network.drain(RECEIVER);
    network.run(ms(200));
    let reply = RegisterReply {
        flow_key: key(),
        role: FlowRole::Receiver,
        revision: Some(0),
        far_relay: far_relay(),
        outcome: Ok(alias_of(RECEIVER)),
        far_round_trip: None,
        group_activity: None,
    };
    network.send_from_relay(RECEIVER, &Message::RegisterReply(reply));
    network.run(ms(50));
    let before = registered_at(&network, RECEIVER).len();
    network.run(ms(2_000));
    assert!(registered_at(&network, RECEIVER).len() > before, "its grant may be lost");
}

#[test]
fn only_so_many_relays_are_asked_for_repairs() {
    let now = Time::START;
    let mut agent = agent(RECEIVER, 5, 1_000, now);
    let count = u32::try_from(NACKED_RELAYS_MAX).expect("few") + 1;
    let relay_id = |nth| (RelayId::new(100 + nth), Shard::new(0));
    for nth in 0..count {
        let (number, shard) = relay_id(nth);
        let key = secret(10 + nth as usize).public_key();
        agent.add_relay(&RelayPeer { number, shard, key, address: address(RELAY) }, now);
    }
    let paths = (0..count).map(|nth| RelayPath { egress: relay_id(nth), ..path() }).collect();
    let settings = FlowSettings { paths, ..settings(Service::Coding) };
    let flow = agent.accept_flow(key(), settings, now).expect("the peer was added");
    for nth in 0..count {
        let session = agent.relay_session(relay_id(nth)).expect("it was added");
        let outcome = Ok(alias_of(RECEIVER));
        agent.on_register_reply(
            session,
            &RegisterReply {
                flow_key: key(),
                role: FlowRole::Receiver,
                revision: Some(0),
                far_relay: far_relay(),
                outcome,
                far_round_trip: None,
                group_activity: None,
            },
            now,
        );
    }
    let asked: Vec<SessionId> =
        agent.egress_relays_of(flow).into_iter().map(|(session, _)| session).collect();
    let first: Vec<SessionId> =
        (0..count - 1).map(|nth| agent.relay_session(relay_id(nth)).expect("it was added")).collect();
    assert_eq!(asked, first, "the best ones");
}

#[test]
fn of_the_addresses_at_which_an_agent_was_seen_the_newest_are_named() {
    let mut agent = agent(SENDER, 5, 1_000, Time::START);
    let session = agent.relay_session((RelayId::new(9), Shard::new(0))).expect("it was added");
    let seen = |last: usize| address(100 + last);
    for last in 0..=CANDIDATES_MAX {
        let (number, sent) = (0, Timestamp::at(Time::START));
        let reply = ProbeReply {
            number,
            sent,
            received: sent,
            envelopes: 0,
            address: seen(last).into(),
            long_packets: 0,
            transit_packets: 0,
        };
        agent.on_probe_reply(session, &reply, ProbeContext::default(), Time::START);
        agent.on_probe_reply(session, &reply, ProbeContext::default(), Time::START);
    }
    let newest: Vec<SocketAddr> = (1..=CANDIDATES_MAX).map(seen).collect();
    assert_eq!(agent.reflexive_addresses, newest);
}

#[test]
fn an_agent_has_one_number_and_no_flow_of_another_s() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    let (now, other) = (network.now, AgentId::new(77));
    let sent = flow_between(other, number(RECEIVER), key().flow());
    assert_eq!(network.agents[SENDER].open_flow(sent, settings(Service::Coding), now), None);
    let received = flow_between(number(RECEIVER), other, key().flow());
    assert_eq!(network.agents[SENDER].accept_flow(received, settings(Service::Coding), now), None);
    assert_eq!(network.agents[SENDER].open_flow(key(), settings(Service::Coding), now), None, "it is open");
}

#[test]
fn one_key_under_two_numbers_is_one_peer() {
    let now = Time::START;
    let mut agent = agent(SENDER, 5, 1_000, now);
    let other = AgentId::new(77);
    agent.add_peer(
        Peer {
            number: other,
            key: secret(RECEIVER).public_key(),
            pre_shared: PreSharedKey::default(),
            addresses: Vec::new(),
        },
        now,
    );
    let to_other = flow_between(number(SENDER), other, key().flow());
    assert_eq!(agent.open_flow(to_other, settings(Service::Internet), now), None);
    assert!(agent.open_flow(key(), settings(Service::Internet), now).is_some());
}

#[test]
fn a_relay_without_room_is_asked_again_and_one_without_a_grant_is_not() {
    for (refusal, asked) in [(Refusal::Full, 1), (Refusal::QuotaReached, 1), (Refusal::NoGrant, 0)] {
        let mut network = TestNetwork::unregistered(&settings(Service::Coding));
        network.relay.answer = None;
        network.run(ms(100));
        let reply = RegisterReply {
            flow_key: key(),
            role: FlowRole::Sender,
            revision: Some(0),
            far_relay: far_relay(),
            outcome: Err(refusal),
            far_round_trip: None,
            group_activity: None,
        };
        network.send_from_relay(SENDER, &Message::RegisterReply(reply));
        network.run(ms(100));
        let status = network.agents[SENDER].flow_status(network.flow).expect("it is open");
        assert_eq!(status.paths, [PathState::Refused(refusal)], "it says why");
        let before = registered_at(&network, SENDER).len();
        network.run(ms(8_000));
        assert_eq!(registered_at(&network, SENDER).len() - before, asked, "{refusal:?}");
    }
}

#[test]
fn a_newer_grant_is_shown_at_once_whether_the_one_before_was_taken_or_not() {
    for is_refused in [false, true] {
        let mut network = TestNetwork::new(&settings(Service::Coding));
        if is_refused {
            let outcome = Err(Refusal::GrantExpired);
            let reply = RegisterReply {
                flow_key: key(),
                role: FlowRole::Sender,
                revision: Some(0),
                far_relay: far_relay(),
                outcome,
                far_round_trip: None,
                group_activity: None,
            };
            network.send_from_relay(SENDER, &Message::RegisterReply(reply));
            network.run(ms(100));
        }
        let before = registered_at(&network, SENDER).len();
        let (flow, now) = (network.flow, network.now);
        let newer = RelayPath { grant: alloc::vec![7; 173], ..path() };
        network.agents[SENDER].set_paths(flow, alloc::vec![newer.clone()], now);
        assert_eq!(network.agents[SENDER].settings_of(Flow::Sent(flow)).paths, [newer]);
        network.run(ms(100));
        assert_eq!(registered_at(&network, SENDER).len(), before + 1, "asked once");
        network.stream(3);
        network.run(ms(50));
        assert!(network.agents[SENDER].counters().copies >= 3, "copies go on");
    }
}

#[test]
fn an_answer_to_an_earlier_registration_does_not_stand_for_a_lost_one() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.relay.answer = None;
    let (flow, now) = (network.flow, network.now);
    let newer = RelayPath { grant: alloc::vec![7; 173], ..path() };
    network.agents[SENDER].set_paths(flow, alloc::vec![newer], now);
    network.run(ms(100));
    let before = registered_at(&network, SENDER).len();
    let earlier = RegisterReply {
        flow_key: key(),
        role: FlowRole::Sender,
        revision: Some(0),
        far_relay: far_relay(),
        outcome: Ok(alias_of(SENDER)),
        far_round_trip: None,
        group_activity: None,
    };
    network.send_from_relay(SENDER, &Message::RegisterReply(earlier));
    network.run(ms(1_000));
    assert!(registered_at(&network, SENDER).len() > before, "it asks until the newer one is answered");
    network.relay.answer = Some(Ok(()));
    network.run(ms(2_000));
    let answered = registered_at(&network, SENDER).len();
    network.run(ms(10_000));
    assert_eq!(registered_at(&network, SENDER).len(), answered);
}

#[test]
fn a_relay_that_remembers_a_former_flow_of_the_key_is_asked_for_more_than_that() {
    let mut network = TestNetwork::unregistered(&settings(Service::Coding));
    network.relay.answer = None;
    network.run(ms(100));
    let former = |revision| RegisterReply {
        flow_key: key(),
        role: FlowRole::Sender,
        far_relay: far_relay(),
        outcome: Ok(alias_of(SENDER)),
        revision: Some(revision),
        far_round_trip: None,
        group_activity: None,
    };
    network.send_from_relay(SENDER, &Message::RegisterReply(former(5)));
    network.run(ms(100));
    let revision = |network: &TestNetwork| {
        network.agents[SENDER].senders[network.flow.0 as usize].registrations.revision()
    };
    assert_eq!(revision(&network), 6, "later than what the relay remembers");
    network.send_from_relay(SENDER, &Message::RegisterReply(former(2)));
    network.run(ms(100));
    assert_eq!(revision(&network), 6, "an earlier answer changes nothing");
    network.relay.answer = Some(Ok(()));
    network.run(ms(3_000));
    let before = registered_at(&network, SENDER).len();
    network.run(ms(10_000));
    assert_eq!(registered_at(&network, SENDER).len(), before, "it is answered");
}

#[test]
fn messages_of_unknown_types_are_skipped_and_counted_whoever_sends_them() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    let unknown = Message::Unknown(UnknownMessage::new(200, b"of a later version").expect("nobody knows it"));
    // Agents send each other no ACKs: the message is known, and out of role.
    let known = Message::Ack(Ack { alias: alias_of(RECEIVER), from_low: 1 });
    let counted = |network: &TestNetwork| {
        let counters = network.agents[RECEIVER].counters();
        (counters.messages_unknown, counters.out_of_role)
    };
    let (unknown_before, known_before) = counted(&network);
    let to_receiver = network.relay.agents[&RECEIVER];
    let peer = network.agents[SENDER].peers[&number(RECEIVER)];
    for message in [&unknown, &known, &unknown] {
        network.relay.sessions.queue_message(to_receiver, message, network.now);
        network.agents[SENDER].sessions.queue_message(peer, message, network.now);
    }
    network.drain_relay();
    network.agents[SENDER].sessions.flush_all(network.now);
    network.drain(SENDER);
    network.run(ms(100));
    let (unknown_after, known_after) = counted(&network);
    assert_eq!((unknown_after - unknown_before, known_after - known_before), (4, 2));
}
