//! Tests of addresses, round-trip times and liveness of peers.

use super::*;
use crate::limits::{AMPLIFICATION_MAX, PAYLOAD_BYTES_BASE, PAYLOAD_BYTES_PROBED, ROUND_TRIP_MAX};
use byway_wire::messages::Probe;
use byway_wire::{Microseconds, Timestamp};

/// Sends from one side for a time, ten times a second.
fn send_for(pair: &mut SessionPair, who: usize, time: Duration) {
    let end = pair.now + time;
    while pair.now < end {
        pair.send_number(who, 0);
        pair.run(ms(100).min(end.saturating_since(pair.now)));
    }
}

#[test]
fn probes_measure_the_round_trip_for_both_sides() {
    let mut pair = SessionPair::established();
    send_for(&mut pair, SMALL, secs(2));
    for node in &pair.nodes {
        assert_eq!(node.sessions.round_trip(node.peer), DELAY * 2);
    }
    let probed = pair.nodes[SMALL]
        .events
        .iter()
        .filter(|change| matches!(change, SessionEvent::ProbeReplyReceived { .. }))
        .count();
    assert!((10..=12).contains(&probed), "{probed} answers in two seconds");
}

#[test]
fn a_round_trip_that_is_claimed_is_believed_up_to_a_second() {
    let mut pair = SessionPair::established();
    let (node, now) = (&mut pair.nodes[SMALL], pair.now);
    let round_trip = Microseconds::from_duration(secs(3_600));
    let probe = Probe { number: 9, sent: Timestamp::at(now), round_trip };
    node.sessions.queue_message(node.peer, &Message::Probe(probe), now);
    pair.send(SMALL);
    pair.run(ms(15));
    let node = &pair.nodes[LARGE];
    assert_eq!(node.sessions.round_trip(node.peer), ROUND_TRIP_MAX);
}

/// Returns the address at which the first node reaches the second, whose IPv4 address answers later
/// than its IPv6 address.
fn reached_at(later: Duration) -> SocketAddr {
    let mut pair = SessionPair::new();
    let by_ipv4 = pair.nodes[LARGE].address;
    let by_ipv6 = "[2001:db8::1]:4600".parse().expect("it is an address");
    let node = &mut pair.nodes[SMALL];
    node.sessions.add_addresses(node.peer, &[by_ipv6], pair.now);
    pair.nodes[LARGE].address = by_ipv6;
    pair.connect(SMALL);
    pair.run(DELAY * 2);
    pair.nodes[LARGE].address = by_ipv4;
    for (at, _) in &mut pair.flying {
        *at += later;
    }
    pair.run(DELAY * 2 + later);
    let node = &pair.nodes[SMALL];
    *node.sessions.get(node.peer).and_then(|session| session.path.address()).expect("it was reached")
}

#[test]
fn a_peer_that_is_as_near_by_ipv4_is_reached_by_it() {
    assert!(reached_at(Duration::ZERO).is_ipv4());
    assert!(reached_at(DELAY).is_ipv6());
}

/// Runs one side with long packets to send, on a path that loses packets of more than `carries`
/// bytes. Returns the known payload and the number of long packets sent.
fn payload_bytes_found(carries: usize, time: Duration) -> (usize, usize) {
    let mut pair = SessionPair::established();
    pair.loses(move |datagram| datagram.bytes.len() > carries);
    let end = pair.now + time;
    let mut found = 0;
    while pair.now < end {
        let (node, now) = (&mut pair.nodes[SMALL], pair.now);
        let session = node.sessions.get_mut(node.peer).expect("it is established");
        found = session.payload_bytes(now).expect("it is direct");
        send_for(&mut pair, SMALL, ms(100));
    }
    let long = pair.sent.iter().filter(|datagram| datagram.bytes.len() > PAYLOAD_BYTES_BASE).count();
    (found, long)
}

#[test]
fn the_longest_packets_that_a_path_carries_are_found_by_padded_probes() {
    let longest = PAYLOAD_BYTES_PROBED[0];
    assert_eq!(payload_bytes_found(longest, secs(5)), (longest, 1));
    assert_eq!(payload_bytes_found(longest - 1, secs(5)), (1_392, 5));
    assert_eq!(payload_bytes_found(1_250, secs(15)), (PAYLOAD_BYTES_BASE, 28));
}

#[test]
fn who_has_nothing_long_to_send_sends_nothing_long() {
    let mut pair = SessionPair::established();
    send_for(&mut pair, SMALL, secs(30));
    assert!(pair.sent.iter().all(|datagram| datagram.bytes.len() < 200));
}

#[test]
fn a_peer_that_probes_too_often_is_answered_a_hundred_times_a_second() {
    let mut pair = SessionPair::established();
    pair.run(secs(2));
    let before = pair.nodes[LARGE].sessions.counters;
    for number in 0..3_000 {
        let probe = Probe { number, sent: Timestamp::at(pair.now), round_trip: Microseconds::new(0) };
        let node = &mut pair.nodes[SMALL];
        node.sessions.queue_message(node.peer, &Message::Probe(probe), pair.now);
        pair.send(SMALL);
        pair.run(ms(1));
    }
    pair.run(ms(100));
    let ignored = pair.nodes[LARGE].sessions.counters.probes_ignored - before.probes_ignored;
    assert!((2_550..=2_650).contains(&ignored), "{ignored} of 3,000 in three seconds, of 100 at once");
    pair.run(secs(1));
    send_for(&mut pair, SMALL, secs(1));
    assert_eq!(pair.nodes[LARGE].sessions.counters.probes_ignored - before.probes_ignored, ignored);
}

/// Returns two nodes with an idle session for a purpose, soon after the first node, which maintains
/// it, began it.
fn idle_pair(purpose: Purpose) -> SessionPair {
    let mut pair = SessionPair::new();
    pair.nodes = [SMALL, LARGE].map(|who| {
        let sessions = sessions(who, 10 + u8::try_from(who).expect("two"), 1_000, pair.now);
        TestNode::with_peer(
            who,
            sessions,
            RemoteIdentity { purpose, ..remote(1 - who, who == SMALL) },
            pair.now,
        )
    });
    pair.connect(SMALL);
    pair.run(ms(100));
    pair
}

#[test]
fn a_relay_that_dies_as_the_first_packets_are_sent_to_it_is_missed_in_600_ms() {
    let mut pair = idle_pair(Purpose::RelayToRelay);
    let (session, measured) =
        (pair.nodes[LARGE].peer, pair.nodes[LARGE].sessions.get(pair.nodes[LARGE].peer));
    assert_eq!(measured.and_then(|session| session.probes.measured()), Some(DELAY * 2));
    pair.nodes[LARGE].drain_events();
    pair.loses(|_| true);
    send_for(&mut pair, LARGE, ms(600));
    assert_eq!(pair.nodes[LARGE].drain_events(), [SessionEvent::Dead { session }]);
}

#[test]
fn a_silent_peer_is_dead_soon_and_alive_when_it_speaks_again() {
    let mut pair = SessionPair::established();
    send_for(&mut pair, SMALL, secs(1));
    pair.nodes[SMALL].drain_events();
    let session = pair.nodes[SMALL].peer;
    pair.loses(|_| true);
    send_for(&mut pair, SMALL, ms(600));
    assert_eq!(pair.nodes[SMALL].drain_events(), [SessionEvent::Dead { session }]);
    send_for(&mut pair, SMALL, secs(2));
    assert_eq!(pair.nodes[SMALL].drain_events(), [], "dead once");
    pair.loses(|_| false);
    send_for(&mut pair, SMALL, secs(4));
    let changes = pair.nodes[SMALL].drain_events();
    assert!(changes.contains(&SessionEvent::Alive { session }), "{changes:?}");
}

#[test]
fn a_responder_that_restarted_is_found_out_and_met_anew() {
    let mut pair = SessionPair::established();
    send_for(&mut pair, SMALL, secs(1));
    pair.nodes[SMALL].drain_events();
    pair.nodes[LARGE] = TestNode::new(LARGE, 77, 5_000_000_000, false, pair.now);
    send_for(&mut pair, SMALL, secs(1));
    let session = pair.nodes[SMALL].peer;
    let changes = pair.nodes[SMALL].drain_events();
    assert_eq!(
        changes[..2],
        [SessionEvent::Dead { session }, SessionEvent::Established { session, fresh: true }]
    );
    assert!(changes[2..].contains(&SessionEvent::Alive { session }));
    assert_eq!(pair.nodes[SMALL].epochs(), 1, "what the last run sealed is worth nothing");
    assert!(!pair.nodes[LARGE].received_numbers.is_empty());
}

#[test]
fn an_initiator_that_restarted_is_met_anew() {
    let mut pair = SessionPair::established();
    pair.run(secs(1));
    pair.nodes[LARGE].drain_events();
    pair.nodes[SMALL] = TestNode::new(SMALL, 77, 5_000_000_000, false, pair.now);
    pair.connect(SMALL);
    pair.run(ms(100));
    let session = pair.nodes[LARGE].peer;
    assert_eq!(pair.nodes[LARGE].drain_events(), [SessionEvent::Established { session, fresh: true }]);
    assert_eq!(pair.nodes[LARGE].epochs(), 1);
}

#[test]
fn a_peer_that_moved_is_followed_when_it_proves_itself() {
    let mut pair = SessionPair::established();
    pair.nodes[SMALL].address = address(50);
    pair.send_number(SMALL, 1);
    pair.run(ms(15));
    let in_use = |pair: &SessionPair| {
        pair.nodes[LARGE].sessions.get(pair.nodes[LARGE].peer).and_then(|one| one.path.address().copied())
    };
    assert_eq!(in_use(&pair), Some(address(0)), "not yet");
    pair.run(ms(30));
    assert_eq!(in_use(&pair), Some(address(50)));
    assert_eq!(pair.nodes[LARGE].sessions.counters.moves, 1);
    pair.send_number(LARGE, 9);
    pair.run(ms(50));
    assert_eq!(pair.nodes[SMALL].received_numbers, [9]);
}

#[test]
fn peers_that_both_moved_find_each_other_as_soon_as_one_is_heard() {
    let mut pair = SessionPair::established();
    for (who, number) in [(SMALL, 50), (LARGE, 51)] {
        pair.nodes[who].address = address(number);
    }
    // A candidate address that the node learned out of band.
    let (peer, now) = (pair.nodes[SMALL].peer, pair.now);
    pair.nodes[SMALL].sessions.try_address(peer, address(51), now);
    let in_use = |pair: &SessionPair, who: usize| {
        let node = &pair.nodes[who];
        node.sessions.get(node.peer).and_then(|one| one.path.address().copied())
    };
    pair.run(DELAY * 2 + ms(1));
    assert_eq!(in_use(&pair, SMALL), Some(address(51)), "the response came from where the challenge went");
    pair.run(DELAY);
    assert_eq!(in_use(&pair, LARGE), Some(address(50)));
}

#[test]
fn a_direct_path_that_is_in_doubt_is_open_when_the_address_answers_again() {
    let mut pair = SessionPair::established();
    pair.run(secs(5));
    let (peer, now) = (pair.nodes[SMALL].peer, pair.now);
    let sessions = &mut pair.nodes[SMALL].sessions;
    sessions.get_mut(peer).expect("it is established").is_doubtful = true;
    sessions.note_direct_path(peer);
    pair.send(SMALL);
    let is_news = |pair: &mut SessionPair| {
        pair.nodes[SMALL].drain_events().contains(&SessionEvent::DirectPath { session: peer })
    };
    assert!(is_news(&mut pair));
    pair.run(DELAY * 2 + ms(1));
    assert!(!pair.nodes[SMALL].sessions.is_direct(peer) && !is_news(&mut pair), "nobody says anything");
    pair.nodes[SMALL].sessions.try_known_addresses(peer, now);
    pair.run(DELAY * 2 + ms(1));
    assert!(pair.nodes[SMALL].sessions.is_direct(peer) && is_news(&mut pair));
}

/// Names addresses of the peer to the first node, whose relay is at this address; returns the
/// addresses that it sends to.
fn addresses_tried(relay: SocketAddr, named: &[SocketAddr]) -> Vec<SocketAddr> {
    let mut pair = SessionPair::established();
    pair.sent.clear();
    let node = &mut pair.nodes[SMALL];
    let relay = RemoteIdentity {
        purpose: Purpose::AgentToRelay,
        addresses: alloc::vec![relay],
        ..remote(LARGE, false)
    };
    node.sessions.add(relay, pair.now);
    // The direct path is in doubt, so the node tries other addresses.
    node.sessions.get_mut(node.peer).expect("it is established").is_doubtful = true;
    for address in named {
        node.sessions.try_address(node.peer, *address, pair.now);
    }
    node.sessions.add_addresses(node.peer, named, pair.now);
    node.sessions.connect(node.peer, &[], pair.now);
    pair.run(ms(300));
    named.iter().copied().filter(|named| pair.sent.iter().any(|sent| sent.to == *named)).collect()
}

#[test]
fn nothing_is_sent_to_addresses_of_no_host_and_to_the_loopback_only_if_a_relay_is_there() {
    let parse = |text: &str| -> SocketAddr { text.parse().expect("an address") };
    let loopback = ["127.0.0.1:4600", "[::1]:4600"].map(parse);
    let private = ["10.0.0.9:4600", "192.168.1.9:4600"].map(parse);
    let special = ["0.0.0.0:4600", "255.255.255.255:4600", "224.0.0.1:4600", "[ff02::1]:4600", "10.0.0.9:0"];
    let named: Vec<SocketAddr> = loopback.into_iter().chain(private).chain(special.map(parse)).collect();
    assert_eq!(addresses_tried(address(9), &named), private);
    assert_eq!(addresses_tried(parse("127.0.0.1:9"), &named), [&loopback[..], &private[..]].concat());
}

#[test]
fn whoever_passes_packets_on_from_elsewhere_gets_three_times_what_it_sent_and_no_session() {
    let mut pair = SessionPair::established();
    pair.send_number(SMALL, 1);
    let genuine = pair.sent.last().cloned().expect("a message");
    pair.flying.clear();
    pair.sent.clear();
    pair.deliver(LARGE, Datagram { from: address(66), ..genuine.clone() });
    send_for(&mut pair, LARGE, secs(5));
    let there: usize = pair.sent.iter().filter(|one| one.to == address(66)).map(|one| one.bytes.len()).sum();
    assert!(there > 0 && there <= AMPLIFICATION_MAX * genuine.bytes.len(), "{there}");
    let in_use = pair.nodes[LARGE].sessions.get(pair.nodes[LARGE].peer).and_then(|one| one.path.address());
    assert_eq!(in_use, Some(&address(0)));
    assert_eq!(pair.nodes[LARGE].sessions.counters.moves, 0);
}

#[test]
fn an_old_packet_from_an_old_address_moves_nothing() {
    let mut pair = SessionPair::established();
    pair.send_number(SMALL, 1);
    let overtaken = pair.sent.last().cloned().expect("a message");
    pair.flying.clear();
    pair.send_number(SMALL, 2);
    pair.run(ms(50));
    pair.sent.clear();
    pair.deliver(LARGE, Datagram { from: address(50), ..overtaken });
    pair.run(secs(1));
    assert!(pair.sent.iter().all(|datagram| datagram.to != address(50)));
    assert_eq!(pair.nodes[LARGE].received_numbers, [2, 1]);
}

#[test]
fn a_peer_that_leaves_is_forgotten() {
    let mut pair = SessionPair::established();
    pair.nodes[LARGE].drain_events();
    pair.close(SMALL);
    pair.run(ms(15));
    let session = pair.nodes[LARGE].peer;
    assert_eq!(pair.nodes[LARGE].drain_events(), [SessionEvent::Closed { session }]);
    assert!(!pair.nodes[LARGE].is_established(pair.now));
    let before = pair.nodes[LARGE].sessions.counters.unknown_index;
    pair.envelop(SMALL, 1);
    pair.run(ms(15));
    assert_eq!(pair.nodes[LARGE].sessions.counters.unknown_index, before + 1);
}

#[test]
fn a_peer_is_reached_through_a_relay_however_much_is_said() {
    // The relay's session also serves as the path; relayed packets are examined in their envelopes.
    let mut pair = SessionPair::established();
    let node = &mut pair.nodes[SMALL];
    let far = node
        .sessions
        .add(RemoteIdentity { purpose: Purpose::AgentToRelay, ..remote(LARGE, false) }, pair.now);
    let relay = node.peer;
    node.sessions.get_mut(far).expect("just added").via_relay =
        Some(ViaRelay { relay, agent: AgentId::new(9) });
    for bytes in [100, 1_172, 1_173, 1_174, 1_400, 2_000, 4_000] {
        let mut packet = alloc::vec![0; bytes];
        packet[0] = 8;
        let relayed =
            byway_wire::messages::RelayedPacket::new(AgentId::new(9), &packet).expect("a message packet");
        node.sessions.queue_message(relay, &Message::RelayedPacket(relayed), pair.now);
    }
    assert_eq!(node.sessions.counters.unsendable, 1, "only the last is beyond all bounds");
    pair.sent.clear();
    pair.send(SMALL);
    assert_eq!(pair.sent.len(), 6);
}

#[test]
fn an_initiation_through_a_relay_is_answered_through_it() {
    let mut pair = SessionPair::established();
    let relay = pair.nodes[LARGE].peer;
    let mut stranger = sessions(SMALL, 42, 9_000_000_000_000, pair.now);
    let far = stranger.add(remote(LARGE, false), pair.now);
    stranger.connect(far, &[], pair.now);
    let mut initiation = stranger.outbox.pop().expect("an initiation").1.to_vec();
    let via_relay = Route::ViaRelay(ViaRelay { relay, agent: AgentId::new(7) });
    let node = &mut pair.nodes[LARGE];
    match node.sessions.receive_from(&mut initiation, via_relay, pair.now) {
        Inbound::Initiation { session, initiation, origin } => {
            node.sessions.accept(session, initiation, origin, &[], pair.now);
        }
        other => panic!("{other:?}"),
    }
    pair.sent.clear();
    pair.send(LARGE);
    assert_eq!(pair.sent.len(), 1, "one packet of messages, to the relay");
    assert_eq!(pair.sent[0].bytes[0], 8);
}

#[test]
fn the_peer_is_answered_through_the_relay_that_it_used_last() {
    let mut pair = SessionPair::established();
    let mut messages = [1, 2].map(|number| {
        pair.send_number(SMALL, number);
        pair.sent.last().cloned().expect("a message").bytes
    });
    let now = pair.now;
    let node = &mut pair.nodes[LARGE];
    let (relay, peer) = (node.peer, node.peer);
    let [old, new] = [7, 8].map(|agent| ViaRelay { relay, agent: AgentId::new(agent) });
    for (message, via_relay) in [(1, new), (0, old)] {
        let received = node.sessions.receive_from(&mut messages[message], Route::ViaRelay(via_relay), now);
        assert!(matches!(received, Inbound::Messages { .. }), "{received:?}");
        assert_eq!(node.sessions.get(peer).and_then(|session| session.via_relay), Some(new));
    }
}

/// Accepts a handshake of the first node at the second on this route; returns true if the direct
/// path counts as open then.
fn is_direct_after_handshake(origin: Route) -> bool {
    let mut pair = SessionPair::established();
    let now = pair.now + secs(30);
    let [first, second] = &mut pair.nodes;
    let taken = |sessions: &mut Sessions| sessions.outbox.pop().expect("a packet").1.to_vec();
    first.sessions.connect(first.peer, &[], now);
    let mut initiation = taken(&mut first.sessions);
    let Inbound::Initiation { session, initiation, .. } =
        second.sessions.receive_from(&mut initiation, origin, now)
    else {
        panic!("it is an initiation");
    };
    second.sessions.accept(session, initiation, Route::Direct(address(0).into()), &[], now);
    let mut response = taken(&mut second.sessions);
    let received = first.sessions.receive_from(&mut response, Route::Direct(address(1).into()), now);
    assert!(matches!(received, Inbound::Response { .. }), "{received:?}");
    // The first message under the new keys confirms them.
    let mut confirms = 0;
    first.sessions.flush_all(now);
    while let Some((_, packet)) = first.sessions.outbox.pop() {
        let mut packet = packet.to_vec();
        let received = second.sessions.receive_from(&mut packet, origin, now);
        confirms += u32::from(matches!(received, Inbound::Messages { .. }));
    }
    assert!(confirms > 0);
    second.sessions.is_direct(second.peer)
}

#[test]
fn a_direct_path_is_in_doubt_that_the_peer_does_not_take() {
    let relay = SessionPair::established().nodes[LARGE].peer;
    assert!(!is_direct_after_handshake(Route::ViaRelay(ViaRelay { relay, agent: AgentId::new(7) })));
    assert!(is_direct_after_handshake(Route::Direct(address(0).into())));
}

/// Delivers a response through a relay, then once more from this address, `later` after it. Returns
/// true if that opens the direct path.
fn is_direct_after_late_response(from: SocketAddr, later: Duration) -> bool {
    let mut pair = SessionPair::new();
    let (now, relay) = (pair.now, pair.nodes[SMALL].peer);
    let via_relay = Route::ViaRelay(ViaRelay { relay, agent: AgentId::new(7) });
    let [first, second] = &mut pair.nodes;
    first.sessions.connect(first.peer, &[], now);
    let mut initiation = first.sessions.outbox.pop().expect("an initiation").1.to_vec();
    let Inbound::Initiation { session, initiation, origin } =
        second.sessions.receive_from(&mut initiation, Route::Direct(address(0).into()), now)
    else {
        panic!("it is an initiation");
    };
    second.sessions.accept(session, initiation, origin, &[], now);
    let response = second.sessions.outbox.pop().expect("a response").1.to_vec();
    let mut copy = response.clone();
    let received = first.sessions.receive_from(&mut copy, via_relay, now);
    assert!(matches!(received, Inbound::Response { .. }), "{received:?}");
    assert!(first.sessions.is_established(first.peer, now) && !first.sessions.is_direct(first.peer));
    let (handshakes, index) =
        (first.sessions.counters.handshakes, first.sessions.get(first.peer).map(|one| one.epochs.len()));
    for _ in 0..3 {
        let mut copy = response.clone();
        let received = first.sessions.receive_from(&mut copy, Route::Direct(from.into()), now + later);
        assert!(matches!(received, Inbound::Nothing), "{received:?}");
    }
    let after =
        (first.sessions.counters.handshakes, first.sessions.get(first.peer).map(|one| one.epochs.len()));
    assert_eq!(after, (handshakes, index), "it begins nothing");
    first.sessions.is_direct(first.peer)
}

#[test]
fn a_response_that_comes_by_a_relay_and_then_from_the_peer_s_address_opens_the_direct_path() {
    assert!(is_direct_after_late_response(address(1), ms(50)));
    assert!(!is_direct_after_late_response(address(66), ms(50)), "nothing was sent there");
    assert!(!is_direct_after_late_response(address(1), ms(1_000)), "a replay");
}

#[test]
fn an_initiation_that_comes_by_many_ways_is_one_handshake_and_gets_no_more_than_it_sends() {
    let mut pair = SessionPair::new();
    let (now, peer) = (pair.now, pair.nodes[LARGE].peer);
    let small = &mut pair.nodes[SMALL];
    small.sessions.connect(small.peer, &[], now);
    let packet = pair.nodes[SMALL].sessions.outbox.pop().expect("an initiation").1.to_vec();
    let sessions = &mut pair.nodes[LARGE].sessions;
    let mut indices = Vec::new();
    for number in 0..200 {
        let from = Route::Direct(address(u8::try_from(number).expect("there are few")).into());
        let mut copy = packet.clone();
        match sessions.receive_from(&mut copy, from, now) {
            Inbound::Initiation { session, initiation, origin } => {
                sessions.accept(session, initiation, origin, &[], now);
            }
            Inbound::Nothing => {}
            other => panic!("{other:?}"),
        }
        let answered = sessions.get(peer).and_then(|session| session.answered_initiation.as_ref());
        indices.push(answered.map(|answered| answered.epoch.local_index));
        let mut answers = 0;
        while let Some((_, answer)) = sessions.outbox.pop() {
            answers += 1;
            assert!(answer.len() <= packet.len(), "{} B for {} B", answer.len(), packet.len());
        }
        assert!(answers <= 1);
    }
    assert!(indices.iter().all(|index| index.is_some() && *index == indices[0]), "one answer is kept");
    assert_eq!(sessions.count(), 1);
}

/// Returns the local addresses of a node's packets since the list was cleared.
fn sources(pair: &SessionPair, who: usize) -> Vec<u16> {
    let mut sources: Vec<u16> =
        pair.sent.iter().filter(|one| one.sender == who).map(|one| one.local.number()).collect();
    sources.dedup();
    sources
}

#[test]
fn all_answers_leave_from_the_local_address_that_was_asked() {
    let mut pair = SessionPair::new();
    pair.nodes[LARGE].asked_at = LocalAddress::new(7);
    pair.nodes[SMALL].asked_at = LocalAddress::new(3);
    pair.connect(SMALL);
    pair.run(secs(1));
    assert!(pair.nodes[SMALL].is_established(pair.now));
    assert_eq!(sources(&pair, LARGE), [7]);
    assert_eq!(sources(&pair, SMALL), [0], "where the session began, the system chose");
    // The peer uses another address: after its packet, answers use it, too.
    pair.nodes[LARGE].asked_at = LocalAddress::new(8);
    pair.send_number(SMALL, 1);
    pair.run(DELAY);
    pair.sent.clear();
    pair.send_number(LARGE, 2);
    pair.run(secs(1));
    assert_eq!(sources(&pair, LARGE), [8]);
}

#[test]
fn packets_under_way_to_a_former_address_do_not_fix_a_source_that_the_system_chose() {
    let mut pair = SessionPair::new();
    pair.nodes[SMALL].asked_at = LocalAddress::ANY;
    pair.connect(SMALL);
    pair.run(secs(1));
    pair.sent.clear();
    // The route changed: packets to the former address do not show the system's present choice.
    pair.nodes[SMALL].asked_at = LocalAddress::new(4);
    pair.send_number(LARGE, 1);
    pair.run(DELAY);
    pair.send_number(SMALL, 2);
    pair.run(secs(1));
    assert_eq!(sources(&pair, SMALL), [0]);
}

#[test]
fn a_local_address_that_leads_nowhere_is_left_when_the_peer_falls_silent() {
    let mut pair = SessionPair::new();
    pair.nodes[LARGE].asked_at = LocalAddress::new(7);
    pair.connect(SMALL);
    pair.run(secs(1));
    pair.loses(|datagram| datagram.local == LocalAddress::new(7) || datagram.sender == SMALL);
    pair.sent.clear();
    send_for(&mut pair, LARGE, secs(4));
    assert!(sources(&pair, LARGE).contains(&0), "{:?}", sources(&pair, LARGE));
    pair.loses(|datagram| datagram.local == LocalAddress::new(7));
    pair.nodes[LARGE].asked_at = LocalAddress::ANY;
    send_for(&mut pair, LARGE, secs(3));
    pair.sent.clear();
    pair.send_number(LARGE, 99);
    pair.run(secs(1));
    assert_eq!(sources(&pair, LARGE), [0]);
    assert!(pair.nodes[SMALL].received_numbers.contains(&99));
}
