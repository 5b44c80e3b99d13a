//! Tests of nodes with two uplinks. In this network, a node's address depends on the uplink by
//! which it sends, and its datagrams arrive at the uplink of their destination address.

use super::*;
use crate::limits::{RETURN_INTERVAL, RETURN_INTERVAL_MAX};

/// Address of the first node's second uplink.
fn second_address() -> SocketAddr {
    address(100)
}

/// Two nodes, the first of which has two uplinks.
struct TwoUplinks {
    pair: SessionPair,
    /// Uplinks that lose every datagram in both directions: the first and the second.
    are_out: [bool; 2],
}

impl TwoUplinks {
    /// Returns nodes with a session for this purpose, which the first node began.
    fn new(purpose: Purpose) -> Self {
        let mut pair = SessionPair::new();
        pair.nodes = [SMALL, LARGE].map(|who| {
            let mut sessions = sessions(who, 10 + u8::try_from(who).expect("two"), 1_000, pair.now);
            if who == SMALL {
                sessions.set_uplinks(Uplinks::Two { is_second_metered: false });
            }
            let remote = RemoteIdentity { purpose, ..remote(1 - who, who == SMALL) };
            TestNode::with_peer(who, sessions, remote, pair.now)
        });
        let mut uplinks = Self { pair, are_out: [false; 2] };
        uplinks.pair.connect(SMALL);
        uplinks.run(ms(100));
        assert!(uplinks.pair.nodes.iter().all(|node| node.is_established(uplinks.pair.now)));
        uplinks
    }

    /// Runs for a time, in steps of a millisecond.
    fn run(&mut self, time: Duration) {
        let end = self.pair.now + time;
        while self.pair.now < end {
            self.translate();
            self.pair.run(ms(1));
        }
    }

    /// Gives the datagrams in flight the addresses of their uplinks, and loses those of an uplink
    /// that is out. Delivers those to the second uplink.
    fn translate(&mut self) {
        let mut to_second = Vec::new();
        let are_out = self.are_out;
        let now = self.pair.now;
        self.pair.flying.retain_mut(|(at, datagram)| {
            let uplink = match datagram.sender {
                SMALL => datagram.local.uplink(),
                _ if datagram.to == second_address() => Uplink::Second,
                _ => Uplink::First,
            };
            if datagram.sender == SMALL && uplink == Uplink::Second {
                datagram.from = second_address();
            }
            let is_lost = are_out[uplink as usize];
            let is_due = *at <= now + ms(1);
            if datagram.to == second_address() && is_due && !is_lost {
                to_second.push(datagram.clone());
            }
            !(is_lost || (datagram.to == second_address() && is_due))
        });
        for datagram in to_second {
            let node = &mut self.pair.nodes[SMALL];
            node.asked_at = LocalAddress::any_at(Uplink::Second);
            self.pair.deliver(SMALL, datagram);
            self.pair.nodes[SMALL].asked_at = LocalAddress::ANY;
        }
    }

    /// Sends numbers from the first node for a time, ten times a second.
    fn send_for(&mut self, time: Duration) {
        let end = self.pair.now + time;
        while self.pair.now < end {
            self.pair.send_number(SMALL, 0);
            self.run(ms(100));
        }
    }

    fn uplink(&self) -> Uplink {
        let node = &self.pair.nodes[SMALL];
        node.sessions.get(node.peer).expect("it is known").path.uplink()
    }

    /// Returns the address at which the second node reaches the first.
    fn reached_at(&self) -> SocketAddr {
        let node = &self.pair.nodes[LARGE];
        *node.sessions.get(node.peer).and_then(|session| session.path.address()).expect("it was reached")
    }

    /// Returns the time until the first node uses this uplink.
    fn time_until(&mut self, uplink: Uplink) -> Duration {
        let began = self.pair.now;
        while self.uplink() != uplink {
            self.pair.send_number(SMALL, 0);
            self.run(ms(10));
            assert!(self.pair.now < began + secs(20), "{uplink:?} is never used");
        }
        self.pair.now.saturating_since(began)
    }
}

#[test]
fn packets_to_peers_prefer_the_first_uplink_and_those_to_relays_the_second() {
    let mut peers = TwoUplinks::new(Purpose::EndToEnd);
    peers.send_for(secs(2));
    assert_eq!((peers.uplink(), peers.reached_at()), (Uplink::First, address(0)));
    let mut relay = TwoUplinks::new(Purpose::AgentToRelay);
    relay.send_for(secs(2));
    assert_eq!((relay.uplink(), relay.reached_at()), (Uplink::Second, second_address()));
}

#[test]
fn a_session_leaves_an_uplink_that_is_out_in_half_a_second_and_returns_to_it() {
    for (purpose, preferred, own) in [
        (Purpose::EndToEnd, Uplink::First, address(0)),
        (Purpose::AgentToRelay, Uplink::Second, second_address()),
    ] {
        let mut uplinks = TwoUplinks::new(purpose);
        uplinks.send_for(secs(20));
        uplinks.are_out[preferred as usize] = true;
        let left = uplinks.time_until(preferred.other());
        assert!((ms(300)..=ms(600)).contains(&left), "{purpose:?}: left after {left:?}");
        uplinks.send_for(ms(200));
        assert_ne!(uplinks.reached_at(), own, "{purpose:?}: the peer follows");
        uplinks.pair.nodes[LARGE].received_numbers.clear();
        uplinks.send_for(secs(1));
        assert!(uplinks.pair.nodes[LARGE].received_numbers.len() >= 9, "{purpose:?}");
        uplinks.send_for(secs(20));
        assert_eq!(uplinks.uplink(), preferred.other(), "{purpose:?}: it is still out");
        uplinks.are_out[preferred as usize] = false;
        let returned = uplinks.time_until(preferred);
        assert!(returned <= RETURN_INTERVAL_MAX + ms(50), "{purpose:?}: back after {returned:?}");
        uplinks.send_for(ms(200));
        assert_eq!(uplinks.reached_at(), own, "{purpose:?}: the peer follows back");
    }
}

#[test]
fn a_refused_uplink_is_left_at_once_and_not_again_and_again() {
    let mut uplinks = TwoUplinks::new(Purpose::EndToEnd);
    uplinks.send_for(secs(2));
    let now = uplinks.pair.now;
    let sessions = &mut uplinks.pair.nodes[SMALL].sessions;
    sessions.on_uplink_refused(Uplink::First, address(77), now);
    sessions.on_uplink_refused(Uplink::Second, address(1), now);
    assert_eq!(uplinks.uplink(), Uplink::First, "another address, and another uplink");
    let sessions = &mut uplinks.pair.nodes[SMALL].sessions;
    sessions.on_uplink_refused(Uplink::First, address(1), now);
    sessions.on_uplink_refused(Uplink::Second, address(1), now);
    assert_eq!(uplinks.uplink(), Uplink::Second, "a second refusal at once changes nothing");
}

#[test]
fn a_node_with_one_uplink_never_leaves_it() {
    let mut pair = SessionPair::established();
    let (node, now) = (&mut pair.nodes[SMALL], pair.now);
    node.sessions.on_uplink_refused(Uplink::First, address(1), now);
    pair.loses(|_| true);
    pair.send_number(SMALL, 0);
    pair.run(secs(3));
    assert!(pair.sent.iter().all(|datagram| datagram.local.uplink() == Uplink::First));
}

/// Returns the datagrams that the first node sent by its second uplink since `before`.
fn sent_by_second(uplinks: &TwoUplinks, before: usize) -> usize {
    let sent = &uplinks.pair.sent[before..];
    let is_it = |datagram: &&Datagram| datagram.sender == SMALL && datagram.local.uplink() == Uplink::Second;
    sent.iter().filter(is_it).count()
}

#[test]
fn a_packet_at_the_other_uplink_moves_nothing_and_a_challenge_there_has_no_answer() {
    let mut uplinks = TwoUplinks::new(Purpose::EndToEnd);
    uplinks.send_for(secs(2));
    let before = uplinks.pair.sent.len();
    // The peer's packets arrive at the second uplink, its challenges too.
    uplinks.pair.nodes[SMALL].asked_at = LocalAddress::any_at(Uplink::Second);
    let now = uplinks.pair.now;
    let node = &mut uplinks.pair.nodes[LARGE];
    node.sessions.try_address(node.peer, second_address(), now);
    uplinks.pair.send(LARGE);
    uplinks.run(secs(1));
    assert_eq!(sent_by_second(&uplinks, before), 0);
    assert_eq!(uplinks.uplink(), Uplink::First);
    assert_eq!(uplinks.reached_at(), address(0));
}

#[test]
fn a_peer_at_a_new_address_is_challenged_by_the_uplink_in_use_wherever_its_packet_arrives() {
    let mut uplinks = TwoUplinks::new(Purpose::EndToEnd);
    uplinks.send_for(secs(2));
    let before = uplinks.pair.sent.len();
    uplinks.pair.send_number(LARGE, 7);
    let (_, datagram) = uplinks.pair.flying.pop_back().expect("it was just sent");
    uplinks.pair.nodes[SMALL].asked_at = LocalAddress::any_at(Uplink::Second);
    uplinks.pair.deliver(SMALL, Datagram { from: address(50), ..datagram });
    uplinks.pair.nodes[SMALL].asked_at = LocalAddress::ANY;
    uplinks.run(ms(50));
    let sent = uplinks.pair.sent[before..].iter();
    let challenges: Vec<_> = sent.filter(|sent| sent.to == address(50)).collect();
    assert!(!challenges.is_empty(), "its address may have changed");
    assert!(challenges.iter().all(|sent| sent.local.uplink() == Uplink::First), "{challenges:?}");
}

#[test]
fn a_dead_peer_gets_its_packets_by_the_preferred_uplink() {
    let mut uplinks = TwoUplinks::new(Purpose::EndToEnd);
    uplinks.send_for(secs(2));
    uplinks.are_out = [true; 2];
    uplinks.send_for(secs(3));
    let before = uplinks.pair.sent.len();
    uplinks.send_for(secs(10));
    assert_eq!(uplinks.uplink(), Uplink::First);
    let by_second = sent_by_second(&uplinks, before);
    assert!(by_second <= 40, "{by_second}: challenges and initiations alone");
    uplinks.are_out = [true, false];
    assert!(uplinks.time_until(Uplink::Second) <= RETURN_INTERVAL_MAX + ms(100));
}

#[test]
fn a_stranger_at_the_other_address_does_not_move_the_peer() {
    let mut uplinks = TwoUplinks::new(Purpose::EndToEnd);
    uplinks.send_for(secs(2));
    // A recorded packet of the node, and a forged one, from the address of its second uplink.
    let is_message = |datagram: &&Datagram| datagram.sender == SMALL && datagram.bytes[0] == 1;
    let recorded = uplinks.pair.sent.iter().rev().find(is_message).cloned();
    let recorded = recorded.unwrap_or_else(|| uplinks.pair.sent.last().cloned().expect("it sent"));
    let mut forged = recorded.clone();
    *forged.bytes.last_mut().expect("it has a tag") ^= 1;
    for datagram in [recorded, forged] {
        let before = uplinks.pair.sent.len();
        uplinks.pair.deliver(LARGE, Datagram { from: second_address(), ..datagram });
        uplinks.run(ms(500));
        let challenged = uplinks.pair.sent[before..].iter().filter(|sent| sent.to == second_address());
        assert_eq!(challenged.count(), 0, "neither earns a challenge");
        assert_eq!(uplinks.reached_at(), address(0));
    }
}

#[test]
fn a_handshake_is_tried_by_the_other_uplink_as_soon_as_it_is_repeated() {
    let mut uplinks = TwoUplinks::new(Purpose::EndToEnd);
    for node in &mut uplinks.pair.nodes {
        let who = usize::from(node.address != address(0));
        let peer = RemoteIdentity { purpose: Purpose::EndToEnd, ..remote(1 - who, who == SMALL) };
        let mut sessions = sessions(who, 77, 2_000_000_000, uplinks.pair.now);
        if who == SMALL {
            sessions.set_uplinks(Uplinks::Two { is_second_metered: false });
        }
        *node = TestNode::with_peer(who, sessions, peer, uplinks.pair.now);
    }
    uplinks.are_out[0] = true;
    uplinks.pair.connect(SMALL);
    let began = uplinks.pair.now;
    while !uplinks.pair.nodes[SMALL].is_established(uplinks.pair.now) {
        uplinks.run(ms(10));
        assert!(uplinks.pair.now < began + secs(1), "no session by the other uplink");
    }
    assert_eq!(uplinks.uplink(), Uplink::Second);
    uplinks.are_out[0] = false;
    assert!(uplinks.time_until(Uplink::First) <= RETURN_INTERVAL * 2);
}

/// Returns the addresses of the first node's events, as the second one sees it by the uplink that
/// the session does not use.
fn observed(uplinks: &TwoUplinks) -> Vec<SocketAddr> {
    let events = uplinks.pair.nodes[SMALL].events.iter();
    let observed = events.filter_map(|event| match event {
        SessionEvent::AddressObserved { address } => Some(*address),
        _ => None,
    });
    observed.collect()
}

#[test]
fn a_relay_shows_the_address_of_the_uplink_that_its_session_does_not_use_and_stays_where_it_is() {
    let mut relay = TwoUplinks::new(Purpose::AgentToRelay);
    relay.send_for(secs(2));
    assert_eq!(observed(&relay), [address(0)]);
    assert_eq!((relay.uplink(), relay.reached_at()), (Uplink::Second, second_address()));
    relay.run(secs(60));
    assert!((2..=4).contains(&observed(&relay).len()), "{:?}", observed(&relay));
    let mut peer = TwoUplinks::new(Purpose::EndToEnd);
    peer.send_for(secs(2));
    assert_eq!(observed(&peer), [], "only relays are asked");
}
