//! Paths, relays and addresses change, and relays are visited.

use super::*;
use crate::agent::{Flow, PathState};

const NEARBY: (RelayId, Shard) = (RelayId::new(9), Shard::new(0));
const ELSEWHERE: (RelayId, Shard) = (RelayId::new(10), Shard::new(0));

/// A path through a relay that nobody has heard of.
fn elsewhere() -> RelayPath {
    RelayPath { ingress: ELSEWHERE, egress: ELSEWHERE, grant: Vec::new() }
}

fn registrations(hall: &Hall, by: usize) -> usize {
    let heard = hall.relay.heard.iter();
    heard.filter(|(_, who, said)| *who == by && matches!(said, Said::Register { .. })).count()
}

fn ends(hall: &Hall) -> usize {
    hall.relay.heard.iter().filter(|(_, _, said)| matches!(said, Said::Unregister(_))).count()
}

fn states(hall: &Hall) -> Vec<PathState> {
    hall.agents[SENDER].flow_status(hall.flow).expect("the flow is open").paths
}

impl Hall {
    fn changes_paths(&mut self, paths: Vec<RelayPath>) {
        self.agents[SENDER].set_paths(self.flow, paths.clone(), self.now);
        self.agents[RECEIVER].set_received_paths(self.received, paths, self.now);
        self.drain(SENDER);
        self.drain(RECEIVER);
    }
}

#[test]
fn a_path_that_stays_goes_on_and_one_that_goes_is_ended() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.changes_paths(alloc::vec![elsewhere(), path()]);
    hall.run(ms(1_000));
    assert_eq!([registrations(&hall, SENDER), registrations(&hall, RECEIVER), ends(&hall)], [0; 3]);
    assert_eq!(states(&hall), [PathState::Asking, PathState::Accepted]);
    let status = hall.agents[SENDER].flow_status(hall.flow).expect("it is open");
    assert_eq!(status.path_in_use, Some(1), "it is the one that works");
    hall.stream(5);
    hall.run(ms(50));
    assert_eq!(hall.agents[SENDER].counters().copies, 5);

    hall.changes_paths(alloc::vec![elsewhere()]);
    hall.run(ms(200));
    assert_eq!(ends(&hall), 0, "the last packets may be repaired");
    hall.run(ms(200));
    assert_eq!(ends(&hall), 2);
    hall.stream(5);
    hall.run(ms(50));
    assert_eq!((hall.agents[SENDER].counters().copies, hall.got.len()), (5, 10));
    hall.run(ms(10_000));
    assert_eq!(ends(&hall), 2, "who has heard it is told no more");

    hall.changes_paths(alloc::vec![path()]);
    hall.run(ms(100));
    assert_eq!(states(&hall), [PathState::Accepted]);
    hall.stream(5);
    hall.run(ms(50));
    assert_eq!(hall.agents[SENDER].counters().copies, 10);
}

#[test]
fn a_path_that_comes_back_at_once_is_not_ended() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.changes_paths(alloc::vec![]);
    hall.run(ms(100));
    hall.changes_paths(alloc::vec![path()]);
    hall.run(ms(20_000));
    assert_eq!((ends(&hall), states(&hall)), (0, alloc::vec![PathState::Accepted]));
}

#[test]
fn a_newer_grant_is_shown_until_the_relay_answers_and_copies_go_on_meanwhile() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.loses(|datagram| datagram.from == SENDER && datagram.to == RELAY);
    hall.changes_paths(alloc::vec![RelayPath { grant: alloc::vec![7; 173], ..path() }]);
    hall.run(ms(100));
    hall.loses(|_| false);
    assert_eq!(states(&hall), [PathState::Accepted]);
    hall.stream(3);
    hall.run(ms(2_000));
    assert_eq!(registrations(&hall, SENDER), 1, "the first was lost, and one was enough");
    assert_eq!(hall.agents[SENDER].counters().copies, 3);
    hall.changes_paths(alloc::vec![RelayPath { grant: alloc::vec![7; 173], ..path() }]);
    hall.run(ms(2_000));
    assert_eq!(registrations(&hall, SENDER), 1, "that is the same one");
}

#[test]
fn the_first_path_that_works_is_no_change() {
    let settings = FlowSettings { paths: alloc::vec![elsewhere(), path()], ..settings(Service::Coding) };
    let mut hall = Hall::unregistered(&settings);
    hall.run(ms(500));
    assert_eq!(states(&hall)[1], PathState::Accepted);
    let changes = hall.events.iter().filter(|(_, event)| matches!(event, Event::PathChanged { .. }));
    assert_eq!(changes.count(), 0, "{:?}", hall.events);
}

#[test]
fn a_path_through_a_relay_that_is_added_later_is_asked_for_then() {
    let mut hall = Hall::new(&settings(Service::Internet));
    let flow = hall.flow;
    hall.agents[SENDER].set_paths(flow, alloc::vec![elsewhere()], hall.now);
    hall.run(ms(3_000));
    assert_eq!(states(&hall), [PathState::Asking]);
    let added = RelayPeer {
        number: ELSEWHERE.0,
        shard: ELSEWHERE.1,
        key: secret(5).public_key(),
        address: address(RELAY),
    };
    hall.agents[SENDER].add_relay(&added, hall.now);
    let sent = hall.sent.len();
    hall.drain(SENDER);
    assert!(hall.sent[sent..].iter().any(|sent| sent.to == RELAY && sent.bytes[0] == 4), "an initiation");
}

fn nearby(key: usize, at: usize) -> RelayPeer {
    let (number, shard) = NEARBY;
    RelayPeer { number, shard, key: secret(key).public_key(), address: address(at) }
}

#[test]
fn a_relay_at_another_address_is_met_there() {
    let mut hall = Hall::new(&settings(Service::Coding));
    let met_at = |hall: &mut Hall, at: usize| {
        let sent = hall.sent.len();
        hall.agents[SENDER].add_relay(&nearby(RELAY, at), hall.now);
        hall.drain(SENDER);
        hall.sent[sent..].iter().filter(|sent| sent.to == at && sent.bytes[0] == 4).count()
    };
    assert_eq!(met_at(&mut hall, RELAY), 0, "it is there already");
    assert_eq!(met_at(&mut hall, RECEIVER), 1);
    assert_eq!(met_at(&mut hall, RECEIVER), 0, "it is on its way");
}

#[test]
fn a_relay_under_another_key_is_another_relay_with_the_same_flows() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.stream(3);
    assert_eq!(hall.agents[SENDER].sessions(), 2);
    hall.agents[SENDER].add_relay(&nearby(7, RELAY), hall.now);
    hall.drain(SENDER);
    assert_eq!((hall.agents[SENDER].sessions(), states(&hall)), (2, alloc::vec![PathState::Asking]));
    hall.agents[SENDER].add_relay(&nearby(RELAY, RELAY), hall.now);
    hall.drain(SENDER);
    hall.run(ms(200));
    assert_eq!(states(&hall), [PathState::Accepted]);
    hall.stream(3);
    hall.run(ms(50));
    assert_eq!(hall.agents[SENDER].counters().copies, 6);
}

#[test]
fn new_addresses_of_a_peer_are_tried() {
    let mut hall = Hall::unregistered(&settings(Service::Internet));
    hall.loses(|_| true);
    let peer = |addresses| Peer {
        number: number(RECEIVER),
        key: secret(RECEIVER).public_key(),
        pre_shared: PreSharedKey::default(),
        addresses,
    };
    hall.agents[SENDER].add_peer(peer(alloc::vec![address(RELAY)]), hall.now);
    hall.send(b"begins a session");
    let sent = hall.sent.len();
    hall.run(ms(1_000));
    let tried: BTreeSet<usize> =
        hall.sent[sent..].iter().filter(|sent| sent.from == SENDER).map(|sent| sent.to).collect();
    assert_eq!(tried, BTreeSet::from([RECEIVER, RELAY]));
    for _ in 0..3 {
        let many = (3..200_u8).map(|last| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)), 4_600));
        hall.agents[SENDER].add_peer(peer(many.collect()), hall.now);
    }
    let session = hall.agents[SENDER].peers[&number(RECEIVER)];
    let known = hall.agents[SENDER].sessions.get(session).map(|session| session.remote.addresses.len());
    assert_eq!(known, Some(crate::limits::CANDIDATES_MAX));
}

/// Agents that know their relay and each other, without flows.
fn visitors() -> Hall {
    let mut hall = Hall::unregistered(&settings(Service::Internet));
    let (flow, received) = (hall.flow, hall.received);
    hall.run(ms(100));
    hall.agents[SENDER].close_flow(flow, hall.now);
    hall.agents[RECEIVER].close_received_flow(received, hall.now);
    hall.drain(SENDER);
    hall.drain(RECEIVER);
    hall.run(ms(10_000));
    hall.agents[SENDER].leave_relay(NEARBY, hall.now);
    hall.drain(SENDER);
    hall.run(ms(100));
    hall.forget();
    hall
}

fn relay_status(hall: &Hall) -> Option<crate::agent::RelayStatus> {
    hall.agents[SENDER].relay_status(NEARBY.0, NEARBY.1, hall.now)
}

#[test]
fn a_visit_measures_the_way_to_a_relay_within_a_second_and_goes_on() {
    let mut hall = visitors();
    assert_eq!(relay_status(&hall), None, "it was left");
    hall.agents[SENDER].add_relay(&nearby(RELAY, RELAY), hall.now);
    hall.agents[SENDER].visit(path(), hall.now);
    hall.drain(SENDER);
    // The first probe gets lost.
    let mut lost = 0;
    hall.loses(move |datagram| {
        let is_probe = datagram.from == RELAY && datagram.bytes[0] == 8;
        lost += usize::from(is_probe);
        is_probe && lost == 1
    });
    hall.run(ms(999));
    let status = relay_status(&hall).expect("it was added");
    assert!(status.established && status.is_alive);
    assert_eq!((status.round_trip, status.address), (Some(ms(20)), Some(address(RELAY))));
    hall.relayed = ms(40);
    hall.run(ms(120_000));
    let later = relay_status(&hall).and_then(|status| status.round_trip).expect("it is there");
    assert!(later > ms(30), "keepalives measure too: {later:?}");
    assert_eq!(hall.agents[SENDER].all_flows(), [Flow::Visits]);
}

#[test]
fn a_relay_that_restarts_is_visited_again() {
    let mut hall = visitors();
    hall.agents[SENDER].add_relay(&nearby(RELAY, RELAY), hall.now);
    hall.agents[SENDER].visit(path(), hall.now);
    hall.drain(SENDER);
    hall.run(ms(1_000));
    hall.relay = Relay::new(51, hall.now);
    hall.run(ms(60_000));
    assert!(registrations(&hall, SENDER) >= 1 && relay_status(&hall).is_some_and(|status| status.is_alive));
    hall.loses(|datagram| datagram.to == RELAY || datagram.from == RELAY);
    hall.run(ms(30_000));
    assert!(relay_status(&hall).is_some_and(|status| !status.is_alive), "its silence is noticed");
}

#[test]
fn a_relay_that_is_of_use_is_not_left() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.agents[SENDER].visit(path(), hall.now);
    hall.drain(SENDER);
    hall.run(ms(1_000));
    hall.agents[SENDER].leave_relay(NEARBY, hall.now);
    hall.drain(SENDER);
    hall.run(ms(1_000));
    assert_eq!(ends(&hall), 1, "the visit has ended");
    hall.stream(3);
    hall.run(ms(50));
    assert_eq!(hall.agents[SENDER].counters().copies, 3);
    let flow = hall.flow;
    hall.agents[SENDER].close_flow(flow, hall.now);
    hall.agents[SENDER].leave_relay(NEARBY, hall.now);
    assert_eq!((relay_status(&hall), hall.agents[SENDER].sessions()), (None, 1));
}
