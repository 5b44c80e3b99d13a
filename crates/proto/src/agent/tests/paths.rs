//! Tests of changes of paths, relays and addresses, and of relay probing.

use super::*;
use crate::agent::{Flow, PathState};

const NEARBY: (RelayId, Shard) = (RelayId::new(9), Shard::new(0));
const ELSEWHERE: (RelayId, Shard) = (RelayId::new(10), Shard::new(0));

/// Returns a path through an unknown relay.
fn elsewhere() -> RelayPath {
    RelayPath { ingress: ELSEWHERE, egress: ELSEWHERE, grant: Vec::new() }
}

fn registrations(network: &TestNetwork, by: usize) -> usize {
    let observed = network.relay.observed.iter();
    observed
        .filter(|(_, who, message)| *who == by && matches!(message, ObservedMessage::Register { .. }))
        .count()
}

fn ends(network: &TestNetwork) -> usize {
    network
        .relay
        .observed
        .iter()
        .filter(|(_, _, message)| matches!(message, ObservedMessage::Unregister(_)))
        .count()
}

fn states(network: &TestNetwork) -> Vec<PathState> {
    network.agents[SENDER].flow_status(network.flow).expect("the flow is open").paths
}

impl TestNetwork {
    fn changes_paths(&mut self, paths: Vec<RelayPath>) {
        self.agents[SENDER].set_paths(self.flow, paths.clone(), self.now);
        self.agents[RECEIVER].set_received_paths(self.received, paths, self.now);
        self.drain(SENDER);
        self.drain(RECEIVER);
    }
}

#[test]
fn a_path_that_stays_goes_on_and_one_that_goes_is_ended() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.changes_paths(alloc::vec![elsewhere(), path()]);
    network.run(ms(1_000));
    assert_eq!([registrations(&network, SENDER), registrations(&network, RECEIVER), ends(&network)], [0; 3]);
    assert_eq!(states(&network), [PathState::Registering, PathState::Accepted]);
    let status = network.agents[SENDER].flow_status(network.flow).expect("it is open");
    assert_eq!(status.path_in_use, Some(1), "it is the one that works");
    network.stream(5);
    network.run(ms(50));
    assert_eq!(network.agents[SENDER].counters().copies, 5);

    network.changes_paths(alloc::vec![elsewhere()]);
    network.run(ms(200));
    assert_eq!(ends(&network), 0, "the last packets may be repaired");
    network.run(ms(200));
    assert_eq!(ends(&network), 2);
    network.stream(5);
    network.run(ms(50));
    assert_eq!((network.agents[SENDER].counters().copies, network.got.len()), (5, 10));
    network.run(ms(10_000));
    assert_eq!(ends(&network), 2, "a relay that acknowledged the message receives no other");

    network.changes_paths(alloc::vec![path()]);
    network.run(ms(100));
    assert_eq!(states(&network), [PathState::Accepted]);
    network.stream(5);
    network.run(ms(50));
    assert_eq!(network.agents[SENDER].counters().copies, 10);
}

#[test]
fn a_path_that_comes_back_at_once_is_not_ended() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.changes_paths(alloc::vec![]);
    network.run(ms(100));
    network.changes_paths(alloc::vec![path()]);
    network.run(ms(20_000));
    assert_eq!((ends(&network), states(&network)), (0, alloc::vec![PathState::Accepted]));
}

#[test]
fn a_newer_grant_is_shown_until_the_relay_answers_and_copies_go_on_meanwhile() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.loses(|datagram| datagram.from == SENDER && datagram.to == RELAY);
    network.changes_paths(alloc::vec![RelayPath { grant: alloc::vec![7; 173], ..path() }]);
    network.run(ms(100));
    network.loses(|_| false);
    assert_eq!(states(&network), [PathState::Accepted]);
    network.stream(3);
    network.run(ms(2_000));
    assert_eq!(registrations(&network, SENDER), 1, "the first was lost, and one was enough");
    assert_eq!(network.agents[SENDER].counters().copies, 3);
    network.changes_paths(alloc::vec![RelayPath { grant: alloc::vec![7; 173], ..path() }]);
    network.run(ms(2_000));
    assert_eq!(registrations(&network, SENDER), 1, "that is the same one");
}

#[test]
fn the_first_path_that_works_is_no_change() {
    let settings = FlowSettings { paths: alloc::vec![elsewhere(), path()], ..settings(Service::Coding) };
    let mut network = TestNetwork::unregistered(&settings);
    network.run(ms(500));
    assert_eq!(states(&network)[1], PathState::Accepted);
    let changes = network.events.iter().filter(|(_, event)| matches!(event, Event::PathChanged { .. }));
    assert_eq!(changes.count(), 0, "{:?}", network.events);
}

#[test]
fn a_path_through_a_relay_that_is_added_later_is_asked_for_then() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    let flow = network.flow;
    network.agents[SENDER].set_paths(flow, alloc::vec![elsewhere()], network.now);
    network.run(ms(3_000));
    assert_eq!(states(&network), [PathState::Registering]);
    let added = RelayPeer {
        number: ELSEWHERE.0,
        shard: ELSEWHERE.1,
        key: secret(5).public_key(),
        address: address(RELAY),
    };
    network.agents[SENDER].add_relay(&added, network.now);
    let sent = network.sent.len();
    network.drain(SENDER);
    assert!(network.sent[sent..].iter().any(|sent| sent.to == RELAY && sent.bytes[0] == 4), "an initiation");
}

fn nearby(key: usize, at: usize) -> RelayPeer {
    let (number, shard) = NEARBY;
    RelayPeer { number, shard, key: secret(key).public_key(), address: address(at) }
}

#[test]
fn a_relay_at_another_address_is_met_there() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    let met_at = |network: &mut TestNetwork, at: usize| {
        let sent = network.sent.len();
        network.agents[SENDER].add_relay(&nearby(RELAY, at), network.now);
        network.drain(SENDER);
        network.sent[sent..].iter().filter(|sent| sent.to == at && sent.bytes[0] == 4).count()
    };
    assert_eq!(met_at(&mut network, RELAY), 0, "it is there already");
    assert_eq!(met_at(&mut network, RECEIVER), 1);
    assert_eq!(met_at(&mut network, RECEIVER), 0, "it is on its way");
}

#[test]
fn a_relay_under_another_key_is_another_relay_with_the_same_flows() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.stream(3);
    assert_eq!(network.agents[SENDER].sessions(), 2);
    network.agents[SENDER].add_relay(&nearby(7, RELAY), network.now);
    network.drain(SENDER);
    assert_eq!(
        (network.agents[SENDER].sessions(), states(&network)),
        (2, alloc::vec![PathState::Registering])
    );
    network.agents[SENDER].add_relay(&nearby(RELAY, RELAY), network.now);
    network.drain(SENDER);
    network.run(ms(200));
    assert_eq!(states(&network), [PathState::Accepted]);
    network.stream(3);
    network.run(ms(50));
    assert_eq!(network.agents[SENDER].counters().copies, 6);
}

#[test]
fn new_addresses_of_a_peer_are_tried() {
    let mut network = TestNetwork::unregistered(&settings(Service::Internet));
    network.loses(|_| true);
    let peer = |addresses| Peer {
        number: number(RECEIVER),
        key: secret(RECEIVER).public_key(),
        pre_shared: PreSharedKey::default(),
        addresses,
    };
    network.agents[SENDER].add_peer(peer(alloc::vec![address(RELAY)]), network.now);
    network.send(b"begins a session");
    let sent = network.sent.len();
    network.run(ms(1_000));
    let tried: BTreeSet<usize> =
        network.sent[sent..].iter().filter(|sent| sent.from == SENDER).map(|sent| sent.to).collect();
    assert_eq!(tried, BTreeSet::from([RECEIVER, RELAY]));
    for _ in 0..3 {
        let many = (3..200_u8).map(|last| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)), 4_600));
        network.agents[SENDER].add_peer(peer(many.collect()), network.now);
    }
    let session = network.agents[SENDER].peers[&number(RECEIVER)];
    let known = network.agents[SENDER].sessions.get(session).map(|session| session.remote.addresses.len());
    assert_eq!(known, Some(crate::limits::CANDIDATES_MAX));
}

/// Returns a network of agents that know their relay and each other, without flows.
fn visitors() -> TestNetwork {
    let mut network = TestNetwork::unregistered(&settings(Service::Internet));
    let (flow, received) = (network.flow, network.received);
    network.run(ms(100));
    network.agents[SENDER].close_flow(flow, network.now);
    network.agents[RECEIVER].close_received_flow(received, network.now);
    network.drain(SENDER);
    network.drain(RECEIVER);
    network.run(ms(10_000));
    network.agents[SENDER].stop_relay_probing(NEARBY, network.now);
    network.drain(SENDER);
    network.run(ms(100));
    network.forget();
    network
}

fn relay_status(network: &TestNetwork) -> Option<crate::agent::RelayStatus> {
    network.agents[SENDER].relay_status(NEARBY.0, NEARBY.1, network.now)
}

#[test]
fn a_visit_measures_the_way_to_a_relay_within_a_second_and_goes_on() {
    let mut network = visitors();
    assert_eq!(relay_status(&network), None, "it was left");
    network.agents[SENDER].add_relay(&nearby(RELAY, RELAY), network.now);
    network.agents[SENDER].probe_relay(path(), network.now);
    network.drain(SENDER);
    // The first probe is lost.
    let mut lost = 0;
    network.loses(move |datagram| {
        let is_probe = datagram.from == RELAY && datagram.bytes[0] == 8;
        lost += usize::from(is_probe);
        is_probe && lost == 1
    });
    network.run(ms(999));
    let status = relay_status(&network).expect("it was added");
    assert!(status.established && status.is_alive);
    assert_eq!((status.round_trip, status.address), (Some(ms(20)), Some(address(RELAY))));
    network.relayed = ms(40);
    network.run(ms(120_000));
    let later = relay_status(&network).and_then(|status| status.round_trip).expect("it is there");
    assert!(later > ms(30), "keepalives measure too: {later:?}");
    assert_eq!(network.agents[SENDER].all_flows(), [Flow::RelayProbing]);
}

#[test]
fn a_relay_that_restarts_is_visited_again() {
    let mut network = visitors();
    network.agents[SENDER].add_relay(&nearby(RELAY, RELAY), network.now);
    network.agents[SENDER].probe_relay(path(), network.now);
    network.drain(SENDER);
    network.run(ms(1_000));
    network.relay = TestRelay::new(51, network.now);
    network.run(ms(60_000));
    assert!(
        registrations(&network, SENDER) >= 1 && relay_status(&network).is_some_and(|status| status.is_alive)
    );
    network.loses(|datagram| datagram.to == RELAY || datagram.from == RELAY);
    network.run(ms(30_000));
    assert!(relay_status(&network).is_some_and(|status| !status.is_alive), "its silence is noticed");
}

#[test]
fn a_relay_that_is_of_use_is_not_left() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.agents[SENDER].probe_relay(path(), network.now);
    network.drain(SENDER);
    network.run(ms(1_000));
    network.agents[SENDER].stop_relay_probing(NEARBY, network.now);
    network.drain(SENDER);
    network.run(ms(1_000));
    assert_eq!(ends(&network), 1, "the visit has ended");
    network.stream(3);
    network.run(ms(50));
    assert_eq!(network.agents[SENDER].counters().copies, 3);
    let flow = network.flow;
    network.agents[SENDER].close_flow(flow, network.now);
    network.agents[SENDER].stop_relay_probing(NEARBY, network.now);
    assert_eq!((relay_status(&network), network.agents[SENDER].sessions()), (None, 1));
}
