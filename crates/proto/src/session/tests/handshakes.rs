//! Tests of handshakes.

use super::*;
use crate::parts::token_bucket::Packets;

#[test]
fn a_handshake_establishes_both_sides() {
    let mut pair = SessionPair::established();
    for who in [SMALL, LARGE] {
        let session = pair.nodes[who].peer;
        let direct = SessionEvent::DirectPath { session };
        assert_eq!(
            pair.nodes[who].drain_events(),
            [direct, SessionEvent::Established { session, fresh: true }]
        );
    }
    assert_eq!(pair.handshakes(), [1, 1]);
    pair.send_number(SMALL, 1);
    pair.send_number(LARGE, 2);
    pair.run(ms(50));
    assert_eq!(
        (&pair.nodes[LARGE].received_numbers[..], &pair.nodes[SMALL].received_numbers[..]),
        (&[1][..], &[2][..])
    );
}

#[test]
fn an_attempt_begins_with_the_first_data() {
    let mut pair = SessionPair::new();
    pair.send_number(SMALL, 1);
    assert_eq!(pair.nodes[SMALL].sessions.counters.unsendable, 1, "the data itself is lost");
    pair.run(ms(100));
    assert_eq!(pair.handshakes(), [1, 1]);
}

#[test]
fn the_responder_sends_nothing_before_it_is_confirmed() {
    let mut pair = SessionPair::new();
    // The network loses everything after the initiation.
    pair.loses(|datagram| datagram.sender == SMALL && datagram.bytes[0] != INITIATION);
    pair.connect(SMALL);
    pair.run(ms(100));
    assert_eq!([SMALL, LARGE].map(|who| pair.nodes[who].is_established(pair.now)), [true, false]);
    pair.nodes[LARGE].sessions.queue_message(
        pair.nodes[LARGE].peer,
        &Message::Close(Close { reason: CloseReason::Leaving }),
        pair.now,
    );
    pair.send(LARGE);
    assert_eq!(pair.nodes[LARGE].sessions.counters.unsendable, 1);
    pair.loses(|_| false);
    pair.send_number(SMALL, 7);
    pair.run(ms(20));
    assert!(pair.nodes[LARGE].is_established(pair.now));
    assert_eq!(pair.nodes[LARGE].received_numbers, [7]);
}

#[test]
fn a_lost_response_is_repeated_as_it_was() {
    let mut pair = SessionPair::new();
    let mut lost = false;
    pair.loses(move |datagram| datagram.bytes[0] == RESPONSE && !core::mem::replace(&mut lost, true));
    pair.connect(SMALL);
    pair.run(ms(400));
    let initiations = pair.sent_by(SMALL, INITIATION);
    assert_eq!((initiations.len(), &initiations[0].bytes), (2, &initiations[1].bytes));
    let responses = pair.sent_by(LARGE, RESPONSE);
    assert_eq!((responses.len(), &responses[0].bytes), (2, &responses[1].bytes));
    assert_eq!(pair.handshakes(), [1, 1]);
}

/// Returns the time until `millis` milliseconds from the start.
fn pair_time(pair: &SessionPair, millis: u64) -> Duration {
    (Time::START + ms(millis)).saturating_since(pair.now)
}

#[test]
fn an_initiation_to_an_agent_is_repeated_after_100_ms_and_seven_times_before_another_follows() {
    let mut pair = SessionPair::new();
    pair.loses(|_| true);
    pair.nodes[SMALL] = TestNode::new(SMALL, 3, 1_000, true, pair.now);
    pair.connect(SMALL);
    for (until, sent) in [(99, 1), (100, 2), (300, 4), (499, 4), (1_700, 7), (2_699, 7)] {
        pair.run(pair_time(&pair, until));
        assert_eq!(pair.sent_by(SMALL, INITIATION).len(), sent, "after {until} ms");
    }
    let first = pair.sent_by(SMALL, INITIATION);
    assert!(first.iter().all(|datagram| datagram.bytes == first[0].bytes));
    pair.run(ms(1));
    let all = pair.sent_by(SMALL, INITIATION);
    assert!(all.len() == 8 && all[7].bytes != all[0].bytes);
}

#[test]
fn a_session_that_nobody_wants_is_not_tried_for_ever() {
    let mut pair = SessionPair::new();
    pair.loses(|_| true);
    pair.connect(SMALL);
    pair.run(secs(60));
    assert_eq!(pair.sent_by(SMALL, INITIATION).len(), 7);
    assert_eq!(pair.nodes[SMALL].sessions.deadline(), None);
}

#[test]
fn a_busy_responder_asks_for_a_cookie_and_then_answers() {
    let mut pair = SessionPair::new();
    let (from, now) = (pair.nodes[SMALL].address, pair.now + DELAY);
    while pair.nodes[LARGE].sessions.addresses.admits_network(from, now) {}
    pair.connect(SMALL);
    pair.run(ms(100));
    let cookies = pair.sent_by(LARGE, COOKIE);
    assert_eq!(cookies.len(), 1);
    let initiations = pair.sent_by(SMALL, INITIATION);
    assert_eq!(initiations.len(), 2);
    assert!(cookies[0].bytes.len() < initiations[0].bytes.len());
    let (first, second) = (&initiations[0].bytes, &initiations[1].bytes);
    assert_eq!(first[..first.len() - 16], second[..second.len() - 16], "only mac2 differs");
    assert_ne!(first, second);
    assert_eq!(pair.handshakes(), [1, 1]);
}

#[test]
fn a_node_that_is_busy_altogether_asks_everybody_for_cookies() {
    let mut pair = SessionPair::new();
    pair.now += secs(1);
    let now = pair.now + DELAY;
    while pair.nodes[LARGE].sessions.handshakes.try_consume(Packets::new(1), now) {}
    pair.connect(SMALL);
    pair.run(ms(100));
    assert_eq!((pair.nodes[LARGE].sessions.counters.cookies, pair.handshakes()), (1, [1, 1]));
}

#[test]
fn a_cookie_is_good_for_so_many_handshakes_and_no_more() {
    let mut pair = SessionPair::new();
    let (from, now) = (pair.nodes[SMALL].address, pair.now + DELAY);
    while pair.nodes[LARGE].sessions.addresses.admits_network(from, now) {}
    pair.connect(SMALL);
    pair.run(ms(100));
    let shown = pair.sent_by(SMALL, INITIATION)[1].clone();
    let count_refused = |pair: &mut SessionPair| {
        let before = pair.nodes[LARGE].sessions.counters.initiations_refused;
        (0..100).for_each(|_| pair.deliver(LARGE, shown.clone()));
        pair.nodes[LARGE].sessions.counters.initiations_refused - before
    };
    assert!(count_refused(&mut pair) >= 95, "by address and port");
    pair.now += secs(1);
    let now = pair.now;
    while pair.nodes[LARGE].sessions.proved_handshakes.try_consume(Packets::new(1), now) {}
    assert_eq!(count_refused(&mut pair), 100, "by what this node can do");
}

#[test]
fn an_agent_behind_a_relay_needs_a_cookie_of_its_own() {
    let behind = |relay, agent| {
        Route::ViaRelay(ViaRelay { relay: SessionId(relay), agent: AgentId::new(agent) }).cookie_address()
    };
    assert!(behind(1, 2) != behind(1, 3) && behind(1, 2) != behind(2, 2));
}

#[test]
fn what_an_unconfirmed_initiation_says_of_digests_counts_for_nothing() {
    let mut pair = SessionPair::established();
    let vouched = |pair: &SessionPair| {
        let node = &pair.nodes[LARGE];
        node.sessions.digest(node.peer, Alias::new(1).expect("not zero"), 1, b"coded bytes")
    };
    let before = vouched(&pair);
    assert!(before.is_some());
    // The initiator has the peer's key but no support for digests, and never confirms.
    pair.loses(|datagram| datagram.to == address(0));
    pair.nodes[SMALL] = TestNode::new(SMALL, 99, 2_000_000_000, true, pair.now);
    pair.nodes[SMALL].sessions.local.capabilities = Capabilities::NONE;
    pair.connect(SMALL);
    pair.run(ms(100));
    let peer = pair.nodes[LARGE].peer;
    assert!(
        pair.nodes[LARGE].sessions.get(peer).is_some_and(|session| session.answered_initiation.is_some())
    );
    assert_eq!(vouched(&pair), before);
}

#[test]
fn a_node_whose_clock_went_back_is_let_in_with_a_cookie() {
    let mut pair = SessionPair::established();
    pair.nodes[SMALL] = TestNode::new(SMALL, 99, 0, false, pair.now);
    pair.now = Time::START + ms(150);
    // The clock of the restarted node is at 1970, below its earlier timestamps.
    pair.nodes[LARGE].sessions.get_mut(SessionId(0)).expect("the peer").handshake_timestamp = u64::MAX;
    pair.nodes[LARGE].drain_events();
    pair.connect(SMALL);
    pair.run(ms(100));
    assert_eq!(pair.nodes[LARGE].sessions.counters.cookies, 1);
    let session = pair.nodes[LARGE].peer;
    assert_eq!(pair.nodes[LARGE].drain_events(), [SessionEvent::Established { session, fresh: true }]);
}

#[test]
fn a_replayed_initiation_changes_nothing() {
    let mut pair = SessionPair::established();
    let replayed = Datagram { from: address(66), ..pair.sent_by(SMALL, INITIATION)[0].clone() };
    let before = pair.nodes[LARGE].sessions.counters;
    pair.sent.clear();
    for _ in 0..3 {
        pair.deliver(LARGE, replayed.clone());
    }
    assert_eq!(pair.sent_by(LARGE, COOKIE).len(), 3, "a cookie is all that it brings");
    assert!(
        pair.sent
            .iter()
            .all(|datagram| datagram.to == address(66) && datagram.bytes.len() < replayed.bytes.len())
    );
    let session = pair.nodes[LARGE].sessions.get(pair.nodes[LARGE].peer).expect("the peer");
    assert!(session.answered_initiation.is_none() && session.path.address() == Some(&address(0)));
    assert_eq!(pair.nodes[LARGE].sessions.counters.handshakes, before.handshakes);
    pair.send_number(SMALL, 1);
    pair.send_number(LARGE, 2);
    pair.run(ms(20));
    assert_eq!((pair.nodes[LARGE].received_numbers.len(), pair.nodes[SMALL].received_numbers.len()), (1, 1));
}

#[test]
fn of_two_handshakes_that_cross_that_of_the_smaller_key_goes_on() {
    let mut pair = SessionPair::new();
    pair.connect(SMALL);
    pair.connect(LARGE);
    pair.run(secs(2));
    assert_eq!(pair.handshakes(), [1, 1]);
    let initiators =
        pair.nodes.each_ref().map(|node| node.sessions.get(node.peer).is_some_and(|one| one.initiator));
    assert_eq!(initiators, [true, false]);
    assert_eq!((pair.sent_by(SMALL, RESPONSE).len(), pair.sent_by(LARGE, RESPONSE).len()), (0, 1));
}

#[test]
fn the_smaller_key_gives_way_when_its_own_way_does_not_work() {
    let mut pair = SessionPair::new();
    pair.loses(|datagram| datagram.sender == SMALL && datagram.bytes[0] == INITIATION);
    pair.connect(SMALL);
    pair.connect(LARGE);
    pair.run(secs(3));
    assert_eq!(pair.handshakes(), [1, 1]);
    assert_eq!(pair.sent_by(SMALL, RESPONSE).len(), 1);
}

#[test]
fn an_answer_that_is_never_confirmed_is_forgotten() {
    let mut pair = SessionPair::new();
    pair.loses(|datagram| datagram.sender == LARGE);
    pair.connect(SMALL);
    pair.run(ms(50));
    let is_waiting = |pair: &SessionPair| {
        pair.nodes[LARGE]
            .sessions
            .get(pair.nodes[LARGE].peer)
            .is_some_and(|one| one.answered_initiation.is_some())
    };
    assert!(is_waiting(&pair));
    pair.loses(|_| true);
    pair.run(crate::limits::EPOCH_OPENS_FOR);
    assert!(!is_waiting(&pair));
    assert_eq!(pair.nodes[LARGE].sessions.deadline(), None);
}

#[test]
fn an_index_in_use_is_not_drawn_again() {
    let mut sessions = sessions(SMALL, 5, 0, Time::START);
    let next = byway_wire::SessionIndex::in_shard(Shard::new(0), sessions.random.clone().number());
    assert!(sessions.by_index.insert(next, 7));
    assert_ne!(sessions.allocate_index(SessionId(1)), next);
    assert_eq!(sessions.by_index.get(next), Some(7));
}

#[test]
fn stamps_rise_even_within_an_instant() {
    let mut sessions = sessions(SMALL, 5, 1_000, Time::START);
    let stamps: Vec<u64> = (0..3).map(|_| sessions.next_handshake_timestamp(Time::START)).collect();
    assert_eq!(stamps, [1_000, 1_001, 1_002]);
}

#[test]
fn the_same_peer_is_added_once() {
    let mut sessions = sessions(SMALL, 5, 0, Time::START);
    let first = sessions.add(remote(LARGE, false), Time::START);
    assert_eq!((sessions.add(remote(LARGE, true), Time::START), sessions.count()), (first, 1));
}

#[test]
fn a_relay_shard_is_known_by_its_own_number() {
    // A relay with two shards, the second of which begins a session with another relay.
    let [one, other] = secrets();
    let local = |secret: &StaticSecret, shard| LocalIdentity {
        secret: secret.clone(),
        suite: Suite::ChaCha20Poly1305,
        shard: Shard::new(shard),
        capabilities: Capabilities::DIGESTS,
        started_unix_nanos: 1_000,
        uplinks: Uplinks::One,
    };
    let relay = |key, shard| RemoteIdentity {
        key,
        shard: Shard::new(shard),
        purpose: Purpose::RelayToRelay,
        ..remote(LARGE, true)
    };
    let mut theirs = Sessions::new(local(&one, 3), &PortableProvider, Generator::new([1; 32]), Time::START);
    let peer = theirs.add(relay(other.public_key(), 0), Time::START);
    let mut ours = Sessions::new(local(&other, 0), &PortableProvider, Generator::new([2; 32]), Time::START);
    let known = ours.add(relay(one.public_key(), 3), Time::START);
    theirs.connect(peer, &[], Time::START);
    let mut initiation = theirs.outbox.pop().expect("an initiation").1.to_vec();
    let received = ours.receive_from(&mut initiation, Route::Direct(address(9).into()), Time::START);
    assert!(matches!(received, Inbound::Initiation { session, .. } if session == known), "{received:?}");
}
