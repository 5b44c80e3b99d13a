//! Flows end, and agents leave, also where what says so is lost.

use super::*;
use crate::agent::{FORMER_PEERS, Flow, ReceiveFlowId};
use crate::limits::{CLOSE_RETRY, CLOSE_TRIES, UNREGISTER_RETRY};

/// The latency budget of flows, after which relays and the receiver are told.
const BUDGET: Duration = ms(250);

/// What the relay was told of ends of flows.
fn ends(hall: &Hall) -> Vec<(usize, FlowRole)> {
    let heard = hall.relay.heard.iter().filter_map(|(_, who, said)| match said {
        Said::Unregister(role) => Some((*who, *role)),
        _ => None,
    });
    heard.collect()
}

fn flows(hall: &Hall) -> [usize; 2] {
    [hall.agents[SENDER].senders.iter().count(), hall.agents[RECEIVER].receivers.iter().count()]
}

/// Whether an agent has nothing left to say of closed flows.
fn is_done(agent: &Agent) -> bool {
    agent.closings.deadline().is_none()
}

fn close(hall: &mut Hall) {
    let (flow, now) = (hall.flow, hall.now);
    hall.agents[SENDER].close_flow(flow, now);
    hall.drain(SENDER);
}

fn open(hall: &mut Hall) {
    let now = hall.now;
    let settings = settings(Service::Caching);
    hall.received = hall.agents[RECEIVER].accept_flow(key(), settings.clone(), now).expect("it was closed");
    hall.flow = hall.agents[SENDER].open_flow(key(), settings, now).expect("it was closed");
    hall.drain(SENDER);
    hall.drain(RECEIVER);
}

#[test]
fn a_flow_that_its_sender_closes_is_forgotten_by_the_relays_and_the_receiver() {
    let mut hall = Hall::new(&settings(Service::Caching));
    hall.stream(5);
    close(&mut hall);
    assert_eq!(flows(&hall), [0, 1]);
    hall.run(BUDGET - ms(1));
    assert_eq!((ends(&hall), flows(&hall)), (alloc::vec![], [0, 1]));
    hall.run(ms(100));
    assert_eq!(ends(&hall), [(SENDER, FlowRole::Sender), (RECEIVER, FlowRole::Receiver)]);
    assert_eq!((flows(&hall), hall.events.as_slice()), ([0, 0], &[(RECEIVER, Event::FlowClosed(key()))][..]));
    hall.run(ms(20_000));
    assert!(hall.agents.iter().all(is_done));
    assert_eq!(ends(&hall).len(), 2, "who has heard it is told no more");
}

#[test]
fn a_flow_that_its_receiver_closes_is_forgotten_by_the_relays_and_the_sender() {
    let mut hall = Hall::new(&settings(Service::Caching));
    hall.stream(5);
    let (received, now) = (hall.received, hall.now);
    hall.agents[RECEIVER].close_received_flow(received, now);
    hall.drain(RECEIVER);
    hall.run(ms(50));
    assert_eq!(ends(&hall), [(RECEIVER, FlowRole::Receiver), (SENDER, FlowRole::Sender)]);
    assert_eq!((flows(&hall), hall.events.as_slice()), ([0, 0], &[(SENDER, Event::FlowClosed(key()))][..]));
    // An application that has not heard of it harms nobody.
    hall.send(&[1; 50]);
    assert_eq!(hall.agents[SENDER].counters().flows_unknown, 1);
}

#[test]
fn an_end_that_was_lost_is_told_again() {
    for lost_for in [300, 1_000, 5_000] {
        let mut hall = Hall::new(&settings(Service::Caching));
        hall.stream(5);
        close(&mut hall);
        let until = hall.now + BUDGET + ms(lost_for);
        hall.loses(move |datagram| datagram.at < until);
        hall.run(BUDGET + ms(lost_for));
        assert_eq!((ends(&hall), flows(&hall)), (alloc::vec![], [0, 1]), "{lost_for}");
        hall.run(ms(lost_for) + UNREGISTER_RETRY);
        assert_eq!(flows(&hall), [0, 0], "{lost_for}");
        hall.run(ms(10_000));
        assert!(ends(&hall).contains(&(SENDER, FlowRole::Sender)), "{lost_for}");
        assert!(ends(&hall).contains(&(RECEIVER, FlowRole::Receiver)), "{lost_for}");
        assert!(hall.agents.iter().all(is_done));
    }
}

#[test]
fn an_answer_that_was_lost_is_given_again() {
    let mut hall = Hall::new(&settings(Service::Caching));
    hall.stream(5);
    close(&mut hall);
    let until = hall.now + BUDGET + ms(200);
    hall.loses(move |datagram| datagram.at < until && datagram.to == SENDER);
    hall.run(ms(5_000));
    assert_eq!(ends(&hall).iter().filter(|(who, _)| *who == SENDER).count(), 2);
    assert!(is_done(&hall.agents[SENDER]));
    assert_eq!(hall.events.iter().filter(|(_, event)| *event == Event::FlowClosed(key())).count(), 1);
}

#[test]
fn the_last_packets_of_a_flow_are_repaired_as_all_others() {
    let mut hall = Hall::new(&settings(Service::Caching));
    hall.loses_originals([9]);
    hall.stream(10);
    close(&mut hall);
    hall.run(ms(120));
    let coded = hall.copy(9);
    hall.gives(EnvelopeRole::CachedRepair, 9, &coded);
    hall.run(ms(20));
    assert_eq!(hall.delivered(Delivery::Cached), [9]);
}

#[test]
fn a_flow_that_is_opened_again_goes_on_with_its_numbers_and_takes_nothing_from_before() {
    let mut hall = Hall::new(&settings(Service::Caching));
    hall.stream(5);
    let before: Vec<Datagram> = hall.sent.iter().filter(|one| one.original().is_some()).cloned().collect();
    close(&mut hall);
    hall.run(ms(500));
    open(&mut hall);
    hall.run(ms(100));
    hall.got.clear();
    for replayed in before {
        hall.arrive(replayed);
    }
    assert_eq!(hall.got, []);
    hall.sent.clear();
    hall.stream(3);
    hall.run(ms(100));
    let numbers: Vec<u32> = hall.sent.iter().filter_map(Datagram::original).collect();
    assert_eq!((numbers, hall.delivered(Delivery::Direct)), (alloc::vec![5, 6, 7], alloc::vec![0, 1, 2]));
    // The relay knows it again, too.
    assert_eq!(hall.enveloped(EnvelopeRole::Copy), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn a_flow_that_is_opened_again_at_once_is_not_ended_by_what_was_to_be_said() {
    let mut hall = Hall::new(&settings(Service::Caching));
    hall.stream(5);
    close(&mut hall);
    let now = hall.now;
    hall.flow = hall.agents[SENDER].open_flow(key(), settings(Service::Caching), now).expect("it was closed");
    hall.drain(SENDER);
    hall.run(ms(2_000));
    assert_eq!((ends(&hall), flows(&hall)), (alloc::vec![], [1, 1]));
    hall.stream(3);
    hall.run(ms(100));
    assert_eq!(hall.got.len(), 8);
}

#[test]
fn a_flow_is_open_once() {
    let mut hall = Hall::new(&settings(Service::Caching));
    let now = hall.now;
    assert_eq!(hall.agents[SENDER].open_flow(key(), settings(Service::Caching), now), None);
    assert_eq!(hall.agents[RECEIVER].accept_flow(key(), settings(Service::Caching), now), None);
}

#[test]
fn a_registration_that_is_answered_after_the_end_is_taken_back() {
    let mut hall = Hall::unregistered(&settings(Service::Caching));
    hall.relay.answer = None;
    hall.run(ms(600));
    close(&mut hall);
    hall.run(BUDGET + ms(100));
    assert_eq!(ends(&hall).first(), Some(&(SENDER, FlowRole::Sender)));
    hall.forget();
    let late = Registered {
        flow_key: key(),
        role: FlowRole::Sender,
        revision: Some(0),
        far_relay: far_relay(),
        outcome: Ok(alias_of(SENDER)),
    };
    hall.relay_says(SENDER, &Message::Registered(late));
    hall.run(ms(100));
    assert_eq!(ends(&hall), [(SENDER, FlowRole::Sender)]);
}

#[test]
fn nobody_ends_the_flows_of_others() {
    let mut hall = Hall::new(&settings(Service::Caching));
    hall.stream(2);
    let unregister = |flow_key, role| Message::Unregister(Unregister { flow_key, role, far_relay: None });
    // A relay, for either end; and the sender, for the receiver's part and for a flow that another sends.
    hall.relay_says(RECEIVER, &unregister(key(), FlowRole::Sender));
    hall.relay_says(SENDER, &unregister(key(), FlowRole::Receiver));
    let other = flow_between(AgentId::new(77), number(RECEIVER), FlowId::new(1));
    let (now, peer) = (hall.now, hall.agents[SENDER].senders[0].peer);
    for (flow_key, role) in [(key(), FlowRole::Receiver), (other, FlowRole::Sender)] {
        hall.agents[SENDER].sessions.say(peer, &unregister(flow_key, role), now);
    }
    hall.agents[SENDER].finish(now);
    hall.drain(SENDER);
    hall.run(ms(500));
    assert_eq!((flows(&hall), hall.events.len()), ([1, 1], 0));
    let counted = hall.agents.each_ref().map(|agent| agent.counters().out_of_role);
    assert_eq!(counted, [1, 3]);
}

#[test]
fn thousands_of_flows_leave_nothing_behind() {
    let mut hall = Hall::new(&settings(Service::Caching));
    for number in 2..4_000_u16 {
        let key = flow_between(super::number(SENDER), super::number(RECEIVER), FlowId::new(number));
        let now = hall.now;
        let received = hall.agents[RECEIVER].accept_flow(key, settings(Service::Caching), now);
        let sent = hall.agents[SENDER].open_flow(key, settings(Service::Caching), now);
        hall.agents[SENDER].close_flow(sent.expect("it is new"), now);
        hall.agents[RECEIVER].close_received_flow(received.expect("it is new"), now);
        hall.drain(SENDER);
        hall.drain(RECEIVER);
        if number % 100 == 0 {
            hall.run(ms(5_000));
        }
    }
    hall.run(ms(20_000));
    assert_eq!(flows(&hall), [1, 1]);
    for agent in &hall.agents {
        assert!(is_done(agent));
        assert_eq!(agent.sent_by_key.len() + agent.received_by_key.len(), 1);
    }
}

#[test]
fn an_agent_that_leaves_says_so_to_all_and_is_gone() {
    let mut hall = Hall::new(&settings(Service::Caching));
    hall.stream(5);
    let now = hall.now;
    hall.agents[SENDER].close(now);
    hall.drain(SENDER);
    hall.run(ms(50));
    assert_eq!(hall.events, [(RECEIVER, Event::PeerLeft(number(SENDER)))]);
    assert!(!hall.relay.sessions.is_established(hall.relay.agents[&SENDER], hall.now));
    assert!(hall.agents[RECEIVER].receivers[0].active().is_none(), "its packets are of no use any more");
    // Nothing can be done with it any more.
    let (flow, now) = (hall.flow, hall.now);
    hall.agents[SENDER].close_flow(flow, now);
    assert_eq!(hall.agents[SENDER].open_flow(key(), settings(Service::Caching), now), None);
    hall.run(CLOSE_RETRY * u64::from(CLOSE_TRIES));
    assert_eq!(hall.events.last(), Some(&(SENDER, Event::Left)));
    assert_eq!((hall.agents[SENDER].deadline(), hall.agents[SENDER].sessions.count()), (None, 0));
    // Whatever comes now, it is silent.
    hall.sent.clear();
    hall.agents[RECEIVER].handle(AgentInput::Deadline, hall.now);
    hall.send(&[1; 50]);
    hall.run(ms(2_000));
    assert!(hall.sent.iter().all(|datagram| datagram.from != SENDER));
}

#[test]
fn a_farewell_that_was_lost_is_said_again() {
    let mut hall = Hall::new(&settings(Service::Caching));
    let now = hall.now;
    let until = now + CLOSE_RETRY * u64::from(CLOSE_TRIES - 1) - ms(1);
    hall.loses(move |datagram| datagram.from == SENDER && datagram.at < until);
    hall.agents[SENDER].close(now);
    hall.drain(SENDER);
    hall.run(CLOSE_RETRY * 2 - ms(2));
    assert_eq!(hall.events, []);
    hall.run(ms(50));
    assert_eq!(hall.events, [(RECEIVER, Event::PeerLeft(number(SENDER)))]);
    assert!(!hall.relay.sessions.is_established(hall.relay.agents[&SENDER], hall.now));
}

#[test]
fn a_farewell_of_a_stranger_ends_nothing() {
    let mut hall = Hall::new(&settings(Service::Caching));
    hall.stream(2);
    let now = hall.now;
    hall.agents[SENDER].close(now);
    let mut farewells = Vec::new();
    while let Some(output) = hall.agents[SENDER].poll() {
        if let AgentOutput::Transmit(transmit) = output {
            farewells.push((transmit.to, transmit.bytes.to_vec()));
        }
    }
    let origin = Origin::Address(address(SENDER).into());
    // Each bit may be wrong, and what is for the relay is not for the receiver.
    for (to, bytes) in farewells {
        for place in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[place] ^= 0x40;
            hall.agents[RECEIVER].receive_from(&mut bytes, origin, Ecn::NotCapable, now);
        }
        if to == address(RELAY) {
            hall.agents[RECEIVER].receive_from(&mut bytes.clone(), origin, Ecn::NotCapable, now);
        }
    }
    hall.drain(RECEIVER);
    assert_eq!(hall.events, []);
    let peer = hall.agents[RECEIVER].receivers[0].peer;
    assert!(hall.agents[RECEIVER].sessions.is_established(peer, now));
}

#[test]
fn relays_of_flows_that_were_closed_are_no_way_to_look_for_packets() {
    let mut hall = Hall::new(&settings(Service::Coding));
    let now = hall.now;
    assert_eq!(hall.agents[RECEIVER].ways_in.values().map(Vec::len).sum::<usize>(), 1);
    hall.agents[RECEIVER].close_received_flow(ReceiveFlowId(0), now);
    assert!(hall.agents[RECEIVER].ways_in.is_empty());
}

#[test]
fn a_peer_that_is_removed_is_forgotten_with_its_flows_and_its_key() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.stream(3);
    hall.run(ms(100));
    hall.forget();
    hall.agents[RECEIVER].remove_peer(number(SENDER), hall.now);
    hall.drain(RECEIVER);
    hall.run(ms(100));
    assert_eq!(hall.events, [(SENDER, Event::PeerLeft(number(RECEIVER)))], "it is told");
    assert_eq!(hall.agents[RECEIVER].all_flows(), [Flow::Visits]);
    assert_eq!(hall.agents[RECEIVER].sessions(), 1, "that with the relay");
    let before = hall.got.len();
    hall.stream(3);
    hall.run(ms(5_000));
    assert_eq!(hall.got.len(), before, "its key opens nothing");
    assert_eq!(hall.agents[RECEIVER].peer_status(number(SENDER), hall.now).map(|_| ()), None);
    let former: Vec<_> = hall.agents[RECEIVER].totals().into_iter().collect();
    assert!(matches!(former[..], [(FORMER_PEERS, totals)] if totals.received.direct == 3), "{former:?}");
}
