//! Tests of flow teardown and of agents that leave, also if their messages are lost.

use super::*;
use crate::agent::{FORMER_PEERS, Flow, ReceiveFlowId};
use crate::limits::{CLOSE_RETRY, CLOSE_TRIES, UNREGISTER_RETRY};

/// Latency budget of flows: the delay of unregister messages.
const BUDGET: Duration = ms(250);

/// Returns the unregister messages that the relay received.
fn ends(network: &TestNetwork) -> Vec<(usize, FlowRole)> {
    let observed = network.relay.observed.iter().filter_map(|(_, who, message)| match message {
        ObservedMessage::Unregister(role) => Some((*who, *role)),
        _ => None,
    });
    observed.collect()
}

fn flows(network: &TestNetwork) -> [usize; 2] {
    [network.agents[SENDER].senders.iter().count(), network.agents[RECEIVER].receivers.iter().count()]
}

/// Returns true if an agent has no pending unregister messages.
fn is_done(agent: &Agent) -> bool {
    agent.teardowns.deadline().is_none()
}

fn close(network: &mut TestNetwork) {
    let (flow, now) = (network.flow, network.now);
    network.agents[SENDER].close_flow(flow, now);
    network.drain(SENDER);
}

fn open(network: &mut TestNetwork) {
    let now = network.now;
    let settings = settings(Service::Caching);
    network.received =
        network.agents[RECEIVER].accept_flow(key(), settings.clone(), now).expect("it was closed");
    network.flow = network.agents[SENDER].open_flow(key(), settings, now).expect("it was closed");
    network.drain(SENDER);
    network.drain(RECEIVER);
}

#[test]
fn a_flow_that_its_sender_closes_is_forgotten_by_the_relays_and_the_receiver() {
    let mut network = TestNetwork::new(&settings(Service::Caching));
    network.stream(5);
    close(&mut network);
    assert_eq!(flows(&network), [0, 1]);
    network.run(BUDGET - ms(1));
    assert_eq!((ends(&network), flows(&network)), (alloc::vec![], [0, 1]));
    network.run(ms(100));
    assert_eq!(ends(&network), [(SENDER, FlowRole::Sender), (RECEIVER, FlowRole::Receiver)]);
    assert_eq!(
        (flows(&network), network.events.as_slice()),
        ([0, 0], &[(RECEIVER, Event::FlowClosed(key()))][..])
    );
    network.run(ms(20_000));
    assert!(network.agents.iter().all(is_done));
    assert_eq!(ends(&network).len(), 2, "a node that acknowledged the message receives no other");
}

#[test]
fn a_flow_that_its_receiver_closes_is_forgotten_by_the_relays_and_the_sender() {
    let mut network = TestNetwork::new(&settings(Service::Caching));
    network.stream(5);
    let (received, now) = (network.received, network.now);
    network.agents[RECEIVER].close_received_flow(received, now);
    network.drain(RECEIVER);
    network.run(ms(50));
    assert_eq!(ends(&network), [(RECEIVER, FlowRole::Receiver), (SENDER, FlowRole::Sender)]);
    assert_eq!(
        (flows(&network), network.events.as_slice()),
        ([0, 0], &[(SENDER, Event::FlowClosed(key()))][..])
    );
    // An application that still sends on a closed flow does no harm.
    network.send(&[1; 50]);
    assert_eq!(network.agents[SENDER].counters().flows_unknown, 1);
}

#[test]
fn an_end_that_was_lost_is_told_again() {
    for lost_for in [300, 1_000, 5_000] {
        let mut network = TestNetwork::new(&settings(Service::Caching));
        network.stream(5);
        close(&mut network);
        let until = network.now + BUDGET + ms(lost_for);
        network.loses(move |datagram| datagram.at < until);
        network.run(BUDGET + ms(lost_for));
        assert_eq!((ends(&network), flows(&network)), (alloc::vec![], [0, 1]), "{lost_for}");
        network.run(ms(lost_for) + UNREGISTER_RETRY);
        assert_eq!(flows(&network), [0, 0], "{lost_for}");
        network.run(ms(10_000));
        assert!(ends(&network).contains(&(SENDER, FlowRole::Sender)), "{lost_for}");
        assert!(ends(&network).contains(&(RECEIVER, FlowRole::Receiver)), "{lost_for}");
        assert!(network.agents.iter().all(is_done));
    }
}

#[test]
fn an_answer_that_was_lost_is_given_again() {
    let mut network = TestNetwork::new(&settings(Service::Caching));
    network.stream(5);
    close(&mut network);
    let until = network.now + BUDGET + ms(200);
    network.loses(move |datagram| datagram.at < until && datagram.to == SENDER);
    network.run(ms(5_000));
    assert_eq!(ends(&network).iter().filter(|(who, _)| *who == SENDER).count(), 2);
    assert!(is_done(&network.agents[SENDER]));
    assert_eq!(network.events.iter().filter(|(_, event)| *event == Event::FlowClosed(key())).count(), 1);
}

#[test]
fn the_last_packets_of_a_flow_are_repaired_as_all_others() {
    let mut network = TestNetwork::new(&settings(Service::Caching));
    network.lose_source_packets([9]);
    network.stream(10);
    close(&mut network);
    network.run(ms(120));
    let coded = network.copy(9);
    network.send_envelope_from_relay(EnvelopeRole::CachedRepair, 9, &coded);
    network.run(ms(20));
    assert_eq!(network.delivered(Delivery::Cached), [9]);
}

#[test]
fn a_flow_that_is_opened_again_goes_on_with_its_numbers_and_takes_nothing_from_before() {
    let mut network = TestNetwork::new(&settings(Service::Caching));
    network.stream(5);
    let before: Vec<Datagram> =
        network.sent.iter().filter(|one| one.source_sequence().is_some()).cloned().collect();
    close(&mut network);
    network.run(ms(500));
    open(&mut network);
    network.run(ms(100));
    network.got.clear();
    for replayed in before {
        network.arrive(replayed);
    }
    assert_eq!(network.got, []);
    network.sent.clear();
    network.stream(3);
    network.run(ms(100));
    let numbers: Vec<u32> = network.sent.iter().filter_map(Datagram::source_sequence).collect();
    assert_eq!((numbers, network.delivered(Delivery::Direct)), (alloc::vec![5, 6, 7], alloc::vec![0, 1, 2]));
    // The relay has registered the flow again, too.
    assert_eq!(network.enveloped(EnvelopeRole::Copy), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn a_flow_that_is_opened_again_at_once_is_not_ended_by_what_was_to_be_said() {
    let mut network = TestNetwork::new(&settings(Service::Caching));
    network.stream(5);
    close(&mut network);
    let now = network.now;
    network.flow =
        network.agents[SENDER].open_flow(key(), settings(Service::Caching), now).expect("it was closed");
    network.drain(SENDER);
    network.run(ms(2_000));
    assert_eq!((ends(&network), flows(&network)), (alloc::vec![], [1, 1]));
    network.stream(3);
    network.run(ms(100));
    assert_eq!(network.got.len(), 8);
}

#[test]
fn a_flow_is_open_once() {
    let mut network = TestNetwork::new(&settings(Service::Caching));
    let now = network.now;
    assert_eq!(network.agents[SENDER].open_flow(key(), settings(Service::Caching), now), None);
    assert_eq!(network.agents[RECEIVER].accept_flow(key(), settings(Service::Caching), now), None);
}

#[test]
fn a_registration_that_is_answered_after_the_end_is_taken_back() {
    let mut network = TestNetwork::unregistered(&settings(Service::Caching));
    network.relay.answer = None;
    network.run(ms(600));
    close(&mut network);
    network.run(BUDGET + ms(100));
    assert_eq!(ends(&network).first(), Some(&(SENDER, FlowRole::Sender)));
    network.forget();
    let late = RegisterReply {
        flow_key: key(),
        role: FlowRole::Sender,
        revision: Some(0),
        far_relay: far_relay(),
        outcome: Ok(alias_of(SENDER)),
        far_round_trip: None,
        group_activity: None,
    };
    network.send_from_relay(SENDER, &Message::RegisterReply(late));
    network.run(ms(100));
    assert_eq!(ends(&network), [(SENDER, FlowRole::Sender)]);
}

#[test]
fn nobody_ends_the_flows_of_others() {
    let mut network = TestNetwork::new(&settings(Service::Caching));
    network.stream(2);
    let unregister = |flow_key, role| Message::Unregister(Unregister { flow_key, role, far_relay: None });
    // These senders have no such role: a relay for either end, and the sender for the receiver's
    // part and for another sender's flow.
    network.send_from_relay(RECEIVER, &unregister(key(), FlowRole::Sender));
    network.send_from_relay(SENDER, &unregister(key(), FlowRole::Receiver));
    let other = flow_between(AgentId::new(77), number(RECEIVER), FlowId::new(1));
    let (now, peer) = (network.now, network.agents[SENDER].senders[0].peer);
    for (flow_key, role) in [(key(), FlowRole::Receiver), (other, FlowRole::Sender)] {
        network.agents[SENDER].sessions.queue_message(peer, &unregister(flow_key, role), now);
    }
    network.agents[SENDER].finish(now);
    network.drain(SENDER);
    network.run(ms(500));
    assert_eq!((flows(&network), network.events.len()), ([1, 1], 0));
    let counted = network.agents.each_ref().map(|agent| agent.counters().out_of_role);
    assert_eq!(counted, [1, 3]);
}

#[test]
fn thousands_of_flows_leave_nothing_behind() {
    let mut network = TestNetwork::new(&settings(Service::Caching));
    for number in 2..4_000_u16 {
        let key = flow_between(super::number(SENDER), super::number(RECEIVER), FlowId::new(number));
        let now = network.now;
        let received = network.agents[RECEIVER].accept_flow(key, settings(Service::Caching), now);
        let sent = network.agents[SENDER].open_flow(key, settings(Service::Caching), now);
        network.agents[SENDER].close_flow(sent.expect("it is new"), now);
        network.agents[RECEIVER].close_received_flow(received.expect("it is new"), now);
        network.drain(SENDER);
        network.drain(RECEIVER);
        if number % 100 == 0 {
            network.run(ms(5_000));
        }
    }
    network.run(ms(20_000));
    assert_eq!(flows(&network), [1, 1]);
    for agent in &network.agents {
        assert!(is_done(agent));
        assert_eq!(agent.sent_by_key.len() + agent.received_by_key.len(), 1);
    }
}

#[test]
fn an_agent_that_leaves_says_so_to_all_and_is_gone() {
    let mut network = TestNetwork::new(&settings(Service::Caching));
    network.stream(5);
    let now = network.now;
    network.agents[SENDER].close(now);
    network.drain(SENDER);
    network.run(ms(50));
    assert_eq!(network.events, [(RECEIVER, Event::PeerLeft(number(SENDER)))]);
    assert!(!network.relay.sessions.is_established(network.relay.agents[&SENDER], network.now));
    assert!(network.agents[RECEIVER].receivers[0].active().is_none(), "its packets are of no use any more");
    // A closed agent ignores all calls.
    let (flow, now) = (network.flow, network.now);
    network.agents[SENDER].close_flow(flow, now);
    assert_eq!(network.agents[SENDER].open_flow(key(), settings(Service::Caching), now), None);
    network.run(CLOSE_RETRY * u64::from(CLOSE_TRIES));
    assert_eq!(network.events.last(), Some(&(SENDER, Event::Left)));
    assert_eq!((network.agents[SENDER].deadline(), network.agents[SENDER].sessions.count()), (None, 0));
    // It answers no input either.
    network.sent.clear();
    network.agents[RECEIVER].handle(AgentInput::Deadline, network.now);
    network.send(&[1; 50]);
    network.run(ms(2_000));
    assert!(network.sent.iter().all(|datagram| datagram.from != SENDER));
}

#[test]
fn a_farewell_that_was_lost_is_said_again() {
    let mut network = TestNetwork::new(&settings(Service::Caching));
    let now = network.now;
    let until = now + CLOSE_RETRY * u64::from(CLOSE_TRIES - 1) - ms(1);
    network.loses(move |datagram| datagram.from == SENDER && datagram.at < until);
    network.agents[SENDER].close(now);
    network.drain(SENDER);
    network.run(CLOSE_RETRY * 2 - ms(2));
    assert_eq!(network.events, []);
    network.run(ms(50));
    assert_eq!(network.events, [(RECEIVER, Event::PeerLeft(number(SENDER)))]);
    assert!(!network.relay.sessions.is_established(network.relay.agents[&SENDER], network.now));
}

#[test]
fn a_farewell_of_a_stranger_ends_nothing() {
    let mut network = TestNetwork::new(&settings(Service::Caching));
    network.stream(2);
    let now = network.now;
    network.agents[SENDER].close(now);
    let mut farewells = Vec::new();
    while let Some(output) = network.agents[SENDER].poll() {
        if let AgentOutput::Transmit(transmit) = output {
            farewells.push((transmit.to, transmit.bytes.to_vec()));
        }
    }
    let origin = Route::Direct(address(SENDER).into());
    // The receiver rejects each message with a flipped bit, and those for the relay.
    for (to, bytes) in farewells {
        for index in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[index] ^= 0x40;
            network.agents[RECEIVER].receive_from(&mut bytes, origin, Ecn::NotCapable, now);
        }
        if to == address(RELAY) {
            network.agents[RECEIVER].receive_from(&mut bytes.clone(), origin, Ecn::NotCapable, now);
        }
    }
    network.drain(RECEIVER);
    assert_eq!(network.events, []);
    let peer = network.agents[RECEIVER].receivers[0].peer;
    assert!(network.agents[RECEIVER].sessions.is_established(peer, now));
}

#[test]
fn relays_of_flows_that_were_closed_are_no_way_to_look_for_packets() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    let now = network.now;
    assert_eq!(network.agents[RECEIVER].arrival_relays.values().map(Vec::len).sum::<usize>(), 1);
    network.agents[RECEIVER].close_received_flow(ReceiveFlowId(0), now);
    assert!(network.agents[RECEIVER].arrival_relays.is_empty());
}

#[test]
fn a_peer_that_is_removed_is_forgotten_with_its_flows_and_its_key() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.stream(3);
    network.run(ms(100));
    network.forget();
    network.agents[RECEIVER].remove_peer(number(SENDER), network.now);
    network.drain(RECEIVER);
    network.run(ms(100));
    assert_eq!(
        network.events,
        [(SENDER, Event::PeerLeft(number(RECEIVER)))],
        "it receives the close message"
    );
    assert_eq!(network.agents[RECEIVER].all_flows(), [Flow::RelayProbing]);
    assert_eq!(network.agents[RECEIVER].sessions(), 1, "that with the relay");
    let before = network.got.len();
    network.stream(3);
    network.run(ms(5_000));
    assert_eq!(network.got.len(), before, "its key opens nothing");
    assert_eq!(network.agents[RECEIVER].peer_status(number(SENDER), network.now).map(|_| ()), None);
    let former: Vec<_> = network.agents[RECEIVER].totals().into_iter().collect();
    assert!(matches!(former[..], [(FORMER_PEERS, totals)] if totals.received.direct == 3), "{former:?}");
}
