//! Flows and their relays.

use super::*;
use crate::agent::registration::Registrations;
use crate::agent::{Flow, PathState};
use crate::limits::{ALIASES_MAX, CANDIDATES_MAX, PATHS_ASKED_MAX};
use crate::session::Before;
use byway_wire::Timestamp;
use byway_wire::messages::{Ack, ProbeReply, Unknown};

fn registered_at(hall: &Hall, by: usize) -> Vec<u64> {
    let heard =
        hall.relay.heard.iter().filter(|(_, who, said)| *who == by && matches!(said, Said::Register { .. }));
    heard.map(|(at, ..)| at.saturating_since(Time::START).as_millis()).collect()
}

#[test]
fn both_ends_register_in_their_role() {
    let mut hall = Hall::unregistered(&settings(Service::Coding));
    hall.run(ms(200));
    let has = |who, role| {
        hall.relay.heard.contains(&(hall.relay.heard[0].0, who, Said::Register { role, selective: false }))
    };
    assert!(has(SENDER, FlowRole::Sender) && has(RECEIVER, FlowRole::Receiver));
}

#[test]
fn a_silent_relay_is_asked_ever_more_rarely() {
    let mut hall = Hall::unregistered(&settings(Service::Coding));
    hall.relay.answer = None;
    hall.run(ms(45_000));
    let at = registered_at(&hall, SENDER);
    let waits: Vec<u64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let steady = [250, 500, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000];
    assert_eq!(waits, [&steady[..], &[2_000, 4_000, 8_000, 8_000, 8_000, 8_000]].concat());
}

#[test]
fn a_refusal_is_an_event_and_is_not_argued_with() {
    let mut hall = Hall::unregistered(&settings(Service::Coding));
    hall.relay.answer = Some(Err(Refusal::NoGrant));
    hall.run(ms(30_000));
    let refused = Event::FlowRefused { flow: key(), refusal: Refusal::NoGrant };
    for who in [SENDER, RECEIVER] {
        assert_eq!(hall.events.iter().filter(|(by, event)| *by == who && *event == refused).count(), 1);
        assert_eq!(registered_at(&hall, who).len(), 1);
    }
    hall.stream(5);
    hall.run(ms(50));
    assert_eq!(
        (hall.got.len(), hall.agents[SENDER].counters().copies),
        (5, 0),
        "the direct path needs no relay"
    );
}

#[test]
fn a_relay_that_restarted_is_told_of_the_flows_again() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.stream(50);
    hall.relay = Relay::new(51, hall.now);
    for _ in 0..3 {
        hall.stream(100);
    }
    for who in [SENDER, RECEIVER] {
        assert!(!registered_at(&hall, who).is_empty());
    }
    assert!(!hall.enveloped(EnvelopeRole::Copy).is_empty(), "and gets copies");
    assert_eq!(hall.got.len(), 350 - 2);
}

#[test]
fn a_dead_relay_gets_no_copies_and_stops_no_originals() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.stream(50);
    hall.loses(|datagram| datagram.to == RELAY || datagram.from == RELAY);
    hall.stream(100);
    let copies = hall.agents[SENDER].counters().copies;
    hall.stream(100);
    assert_eq!(hall.agents[SENDER].counters().copies, copies);
    hall.run(ms(50));
    assert_eq!(hall.got.len(), 250);
}

#[test]
fn peers_that_come_and_go_are_events() {
    let mut hall = Hall::unregistered(&settings(Service::Coding));
    hall.run(ms(500));
    assert!(hall.events.contains(&(SENDER, Event::PeerEstablished(number(RECEIVER)))));
    assert!(hall.events.contains(&(RECEIVER, Event::PeerEstablished(number(SENDER)))));
    hall.loses(|datagram| datagram.to == RECEIVER && datagram.from == SENDER);
    hall.stream(100);
    assert!(hall.events.contains(&(SENDER, Event::PeerLost(number(RECEIVER)))));
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
        let mut hall = Hall::unregistered(&settings(Service::Coding));
        hall.relay.answer = None;
        hall.run(ms(200));
        let alias = Alias::new(u16::try_from(alias).expect("an alias")).expect("not zero");
        let registered = Registered {
            flow_key: key(),
            role: FlowRole::Sender,
            revision: Some(0),
            far_relay: far_relay(),
            outcome: Ok(alias),
        };
        hall.relay_says(SENDER, &Message::Registered(registered));
        hall.run(ms(50));
        hall.stream(5);
        hall.run(ms(50));
        let refused = Event::FlowRefused { flow: key(), refusal: Refusal::NoRoom };
        let is_refused = hall.events.contains(&(SENDER, refused));
        (is_refused, hall.agents[SENDER].counters().copies, hall.got.len())
    };
    assert_eq!(names(ALIASES_MAX - 1), (false, 5, 5));
    assert_eq!(names(ALIASES_MAX), (true, 0, 5));
}

#[test]
fn an_acceptance_of_one_path_is_none_of_another_that_ends_at_the_same_relay() {
    let mut hall = Hall::unregistered(&settings(Service::Coding));
    let elsewhere = RelayPath { ingress: (RelayId::new(10), Shard::new(0)), ..path() };
    hall.relay.answer = None;
    hall.agents[RECEIVER].set_received_paths(hall.received, alloc::vec![path(), elsewhere], hall.now);
    hall.drain(RECEIVER);
    hall.run(ms(200));
    let registered = Registered {
        flow_key: key(),
        role: FlowRole::Receiver,
        revision: Some(0),
        far_relay: far_relay(),
        outcome: Ok(alias_of(RECEIVER)),
    };
    hall.relay_says(RECEIVER, &Message::Registered(registered));
    hall.run(ms(50));
    let before = registered_at(&hall, RECEIVER).len();
    hall.run(ms(2_000));
    assert!(registered_at(&hall, RECEIVER).len() > before, "its grant may be lost");
}

#[test]
fn only_so_many_relays_are_asked_for_repairs() {
    let now = Time::START;
    let mut agent = agent(RECEIVER, 5, 1_000, now);
    let count = u32::try_from(PATHS_ASKED_MAX).expect("few") + 1;
    let place = |nth| (RelayId::new(100 + nth), Shard::new(0));
    for nth in 0..count {
        let (number, shard) = place(nth);
        let key = secret(10 + nth as usize).public_key();
        agent.add_relay(&RelayPeer { number, shard, key, address: address(RELAY) }, now);
    }
    let paths = (0..count).map(|nth| RelayPath { egress: place(nth), ..path() }).collect();
    let settings = FlowSettings { paths, ..settings(Service::Coding) };
    let flow = agent.accept_flow(key(), settings, now).expect("the peer was added");
    for nth in 0..count {
        let session = agent.relay_session(place(nth)).expect("it was added");
        let outcome = Ok(alias_of(RECEIVER));
        agent.registered(
            session,
            &Registered {
                flow_key: key(),
                role: FlowRole::Receiver,
                revision: Some(0),
                far_relay: far_relay(),
                outcome,
            },
            now,
        );
    }
    let asked: Vec<SessionId> = agent.egresses_of(flow).into_iter().map(|(session, _)| session).collect();
    let first: Vec<SessionId> =
        (0..count - 1).map(|nth| agent.relay_session(place(nth)).expect("it was added")).collect();
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
        };
        agent.probed(session, &reply, Before::default(), Time::START);
        agent.probed(session, &reply, Before::default(), Time::START);
    }
    let newest: Vec<SocketAddr> = (1..=CANDIDATES_MAX).map(seen).collect();
    assert_eq!(agent.seen_at, newest);
}

#[test]
fn an_agent_has_one_number_and_no_flow_of_another_s() {
    let mut hall = Hall::new(&settings(Service::Coding));
    let (now, other) = (hall.now, AgentId::new(77));
    let sent = flow_between(other, number(RECEIVER), key().flow());
    assert_eq!(hall.agents[SENDER].open_flow(sent, settings(Service::Coding), now), None);
    let received = flow_between(number(RECEIVER), other, key().flow());
    assert_eq!(hall.agents[SENDER].accept_flow(received, settings(Service::Coding), now), None);
    assert_eq!(hall.agents[SENDER].open_flow(key(), settings(Service::Coding), now), None, "it is open");
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
    for (refusal, asked) in [(Refusal::NoRoom, 1), (Refusal::QuotaReached, 1), (Refusal::NoGrant, 0)] {
        let mut hall = Hall::unregistered(&settings(Service::Coding));
        hall.relay.answer = None;
        hall.run(ms(100));
        let registered = Registered {
            flow_key: key(),
            role: FlowRole::Sender,
            revision: Some(0),
            far_relay: far_relay(),
            outcome: Err(refusal),
        };
        hall.relay_says(SENDER, &Message::Registered(registered));
        hall.run(ms(100));
        let status = hall.agents[SENDER].flow_status(hall.flow).expect("it is open");
        assert_eq!(status.paths, [PathState::Refused(refusal)], "it says why");
        let before = registered_at(&hall, SENDER).len();
        hall.run(ms(8_000));
        assert_eq!(registered_at(&hall, SENDER).len() - before, asked, "{refusal:?}");
    }
}

#[test]
fn a_newer_grant_is_shown_at_once_whether_the_one_before_was_taken_or_not() {
    for is_refused in [false, true] {
        let mut hall = Hall::new(&settings(Service::Coding));
        if is_refused {
            let outcome = Err(Refusal::GrantExpired);
            let registered = Registered {
                flow_key: key(),
                role: FlowRole::Sender,
                revision: Some(0),
                far_relay: far_relay(),
                outcome,
            };
            hall.relay_says(SENDER, &Message::Registered(registered));
            hall.run(ms(100));
        }
        let before = registered_at(&hall, SENDER).len();
        let (flow, now) = (hall.flow, hall.now);
        let newer = RelayPath { grant: alloc::vec![7; 173], ..path() };
        hall.agents[SENDER].set_paths(flow, alloc::vec![newer.clone()], now);
        assert_eq!(hall.agents[SENDER].settings_of(Flow::Sent(flow)).paths, [newer]);
        hall.run(ms(100));
        assert_eq!(registered_at(&hall, SENDER).len(), before + 1, "asked once");
        hall.stream(3);
        hall.run(ms(50));
        assert!(hall.agents[SENDER].counters().copies >= 3, "copies go on");
    }
}

#[test]
fn an_answer_to_an_earlier_registration_does_not_stand_for_a_lost_one() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.relay.answer = None;
    let (flow, now) = (hall.flow, hall.now);
    let newer = RelayPath { grant: alloc::vec![7; 173], ..path() };
    hall.agents[SENDER].set_paths(flow, alloc::vec![newer], now);
    hall.run(ms(100));
    let before = registered_at(&hall, SENDER).len();
    let earlier = Registered {
        flow_key: key(),
        role: FlowRole::Sender,
        revision: Some(0),
        far_relay: far_relay(),
        outcome: Ok(alias_of(SENDER)),
    };
    hall.relay_says(SENDER, &Message::Registered(earlier));
    hall.run(ms(1_000));
    assert!(registered_at(&hall, SENDER).len() > before, "it asks until the newer one is answered");
    hall.relay.answer = Some(Ok(()));
    hall.run(ms(2_000));
    let answered = registered_at(&hall, SENDER).len();
    hall.run(ms(10_000));
    assert_eq!(registered_at(&hall, SENDER).len(), answered);
}

#[test]
fn a_relay_that_remembers_a_former_flow_of_the_key_is_asked_for_more_than_that() {
    let mut hall = Hall::unregistered(&settings(Service::Coding));
    hall.relay.answer = None;
    hall.run(ms(100));
    let former = |revision| Registered {
        flow_key: key(),
        role: FlowRole::Sender,
        far_relay: far_relay(),
        outcome: Ok(alias_of(SENDER)),
        revision: Some(revision),
    };
    hall.relay_says(SENDER, &Message::Registered(former(5)));
    hall.run(ms(100));
    let revision = |hall: &Hall| hall.agents[SENDER].senders[hall.flow.0 as usize].registrations.revision();
    assert_eq!(revision(&hall), 6, "later than what the relay remembers");
    hall.relay_says(SENDER, &Message::Registered(former(2)));
    hall.run(ms(100));
    assert_eq!(revision(&hall), 6, "an earlier answer changes nothing");
    hall.relay.answer = Some(Ok(()));
    hall.run(ms(3_000));
    let before = registered_at(&hall, SENDER).len();
    hall.run(ms(10_000));
    assert_eq!(registered_at(&hall, SENDER).len(), before, "it is answered");
}

#[test]
fn messages_of_unknown_types_are_skipped_and_counted_whoever_sends_them() {
    let mut hall = Hall::new(&settings(Service::Coding));
    let unknown = Message::Unknown(Unknown::new(200, b"of a later version").expect("nobody knows it"));
    // Agents tell nobody that something arrived: it is known, and out of role.
    let known = Message::Ack(Ack { alias: alias_of(RECEIVER), from_low: 1 });
    let counted = |hall: &Hall| {
        let counters = hall.agents[RECEIVER].counters();
        (counters.messages_unknown, counters.out_of_role)
    };
    let (unknown_before, known_before) = counted(&hall);
    let to_receiver = hall.relay.agents[&RECEIVER];
    let peer = hall.agents[SENDER].peers[&number(RECEIVER)];
    for message in [&unknown, &known, &unknown] {
        hall.relay.sessions.say(to_receiver, message, hall.now);
        hall.agents[SENDER].sessions.say(peer, message, hall.now);
    }
    hall.drain_relay();
    hall.agents[SENDER].sessions.flush_all(hall.now);
    hall.drain(SENDER);
    hall.run(ms(100));
    let (unknown_after, known_after) = counted(&hall);
    assert_eq!((unknown_after - unknown_before, known_after - known_before), (4, 2));
}
