//! Tests of epochs: rekeying loses no packet.

use super::*;
use crate::limits::{
    EPOCH_OPENS_FOR, EPOCH_PACKETS_MAX, EPOCH_SEALS_FOR, MESSAGES_BYTES_MAX, REKEY_AFTER, REKEY_GRACE,
    REKEY_PACKETS,
};

/// Runs both sides for a time, with ten messages a second from each.
fn converse(pair: &mut SessionPair, time: Duration) -> u32 {
    let end = pair.now + time;
    let mut count = 0;
    while pair.now < end {
        pair.send_number(SMALL, count);
        pair.send_number(LARGE, count);
        count += 1;
        pair.run(ms(100));
    }
    pair.run(ms(50));
    count
}

#[test]
fn rekeying_loses_no_packet() {
    let mut pair = SessionPair::established();
    let count = converse(&mut pair, secs(300));
    let expected: Vec<u32> = (0..count).collect();
    assert_eq!(pair.nodes[LARGE].received_numbers, expected);
    assert_eq!(pair.nodes[SMALL].received_numbers, expected);
    assert_eq!(pair.handshakes(), [3, 3]);
    assert_eq!(pair.sent_by(LARGE, INITIATION).len(), 0, "the initiator begins each time");
    let fresh = |change: &SessionEvent| matches!(change, SessionEvent::Established { fresh: true, .. });
    for node in &mut pair.nodes {
        assert_eq!(node.drain_events().iter().filter(|change| fresh(change)).count(), 1);
        assert_eq!(node.sessions.counters.unsendable, 0);
    }
}

#[test]
fn the_responder_begins_the_next_epoch_if_the_initiator_does_not() {
    let mut pair = SessionPair::established();
    pair.loses(|datagram| datagram.sender == SMALL && datagram.bytes[0] == INITIATION);
    let count = converse(&mut pair, REKEY_AFTER + REKEY_GRACE + secs(5));
    assert_eq!(pair.handshakes(), [2, 2]);
    assert_eq!(
        (pair.nodes[SMALL].received_numbers.len(), pair.nodes[LARGE].received_numbers.len()),
        (count as usize, count as usize)
    );
}

#[test]
fn keys_seal_for_three_minutes_and_no_longer() {
    let mut pair = SessionPair::established();
    pair.loses(|datagram| matches!(datagram.bytes[0], INITIATION | RESPONSE));
    pair.run(EPOCH_SEALS_FOR - ms(200));
    pair.send_number(SMALL, 1);
    pair.run(ms(50));
    assert_eq!(
        (pair.nodes[LARGE].received_numbers.len(), pair.nodes[SMALL].sessions.counters.unsendable),
        (1, 0)
    );
    pair.run(ms(150));
    assert!(pair.nodes.iter().all(|node| !node.is_established(pair.now)));
    let before = pair.nodes[SMALL].sessions.counters.unsendable;
    pair.send_number(SMALL, 2);
    pair.run(ms(50));
    assert_eq!(pair.nodes[LARGE].received_numbers.len(), 1);
    assert!(pair.nodes[SMALL].sessions.counters.unsendable > before);
}

#[test]
fn what_was_sealed_last_can_be_opened_for_a_minute_more() {
    let mut pair = SessionPair::established();
    pair.loses(|_| true);
    for number in [1, 2, 3] {
        pair.envelop(SMALL, number);
    }
    let withheld: Vec<Datagram> = pair.sent.split_off(pair.sent.len() - 3);
    pair.loses(|_| false);
    let began = pair.now - ms(100);
    converse(&mut pair, secs(200));
    pair.run(secs(30));
    pair.deliver(LARGE, withheld[0].clone());
    assert_eq!(pair.nodes[LARGE].enveloped, [1]);
    let rest = (began + EPOCH_OPENS_FOR).saturating_since(pair.now);
    pair.run(rest + ms(50));
    let unknown = pair.nodes[LARGE].sessions.counters.unknown_index;
    pair.deliver(LARGE, withheld[1].clone());
    assert_eq!(pair.nodes[LARGE].enveloped, [1]);
    assert_eq!(pair.nodes[LARGE].sessions.counters.unknown_index, unknown + 1);
}

#[test]
fn three_epochs_are_kept_and_the_indices_of_others_forgotten() {
    let mut pair = SessionPair::established();
    for _ in 0..5 {
        pair.connect(SMALL);
        pair.run(ms(100));
    }
    assert_eq!(pair.handshakes(), [6, 6]);
    for node in &pair.nodes {
        assert_eq!(node.epochs(), 3);
        let indices: Vec<_> = node
            .sessions
            .get(node.peer)
            .expect("the peer")
            .epochs
            .iter()
            .map(|epoch| epoch.local_index)
            .collect();
        assert!(indices.iter().all(|index| node.sessions.by_index.get(*index) == Some(0)));
    }
    let first = pair.sent.iter().find(|datagram| datagram.sender == SMALL && datagram.bytes[0] == 8).cloned();
    pair.deliver(LARGE, first.expect("a message"));
    assert_eq!(pair.nodes[LARGE].sessions.counters.unknown_index, 1);
}

#[test]
fn a_packet_is_taken_once() {
    let mut pair = SessionPair::established();
    pair.send_number(SMALL, 1);
    pair.envelop(SMALL, 2);
    let sent: Vec<Datagram> = pair.sent[pair.sent.len() - 2..].to_vec();
    pair.run(ms(50));
    for datagram in sent {
        pair.deliver(LARGE, datagram);
    }
    assert_eq!(
        (&pair.nodes[LARGE].received_numbers[..], &pair.nodes[LARGE].enveloped[..]),
        (&[1][..], &[2][..])
    );
    assert_eq!(pair.nodes[LARGE].sessions.counters.replayed, 2);
}

#[test]
fn a_packet_may_be_overtaken_by_8191_others_and_no_more() {
    let mut pair = SessionPair::established();
    pair.loses(|datagram| datagram.bytes.get(16).is_some_and(|number| matches!(number, 1 | 2)));
    pair.envelop(SMALL, 1);
    pair.envelop(SMALL, 2);
    let withheld: Vec<Datagram> = pair.sent[pair.sent.len() - 2..].to_vec();
    for _ in 0..8_192 {
        pair.envelop(SMALL, 3);
    }
    pair.run(ms(11));
    for datagram in withheld.into_iter().rev() {
        pair.deliver(LARGE, datagram);
    }
    let enveloped = &pair.nodes[LARGE].enveloped;
    assert_eq!((enveloped.contains(&2), enveloped.contains(&1)), (false, false));
    assert_eq!(pair.nodes[LARGE].sessions.counters.too_old, 2);
    let mut pair = SessionPair::established();
    pair.loses(|datagram| datagram.bytes.get(16) == Some(&1));
    pair.envelop(SMALL, 1);
    let withheld = pair.sent.last().cloned().expect("an envelope");
    for _ in 0..8_191 {
        pair.envelop(SMALL, 3);
    }
    pair.run(ms(11));
    pair.deliver(LARGE, withheld);
    assert_eq!(pair.nodes[LARGE].enveloped.last(), Some(&1));
}

#[test]
fn what_is_forged_or_cut_off_is_counted_and_dropped() {
    let mut pair = SessionPair::established();
    pair.send_number(SMALL, 1);
    let genuine = pair.sent.last().cloned().expect("a message");
    pair.flying.clear();
    for flipped in [9, 12, genuine.bytes.len() - 1] {
        let mut forged = genuine.clone();
        forged.bytes[flipped] ^= 1;
        pair.deliver(LARGE, forged);
    }
    assert_eq!(pair.nodes[LARGE].sessions.counters.forged, 3);
    for length in 0..genuine.bytes.len() {
        pair.deliver(LARGE, Datagram { bytes: genuine.bytes[..length].to_vec(), ..genuine.clone() });
    }
    for kind in 0..=255 {
        pair.deliver(LARGE, Datagram { bytes: alloc::vec![kind; 40], ..genuine.clone() });
    }
    assert_eq!(pair.nodes[LARGE].received_numbers, []);
    pair.deliver(LARGE, genuine);
    assert_eq!(pair.nodes[LARGE].received_numbers, [1]);
}

#[test]
fn messages_that_do_not_fit_in_a_packet_go_in_the_next() {
    let mut pair = SessionPair::established();
    let (peer, alias) = (pair.nodes[SMALL].peer, Alias::new(1).expect("not zero"));
    pair.sent.clear();
    for number in 0..500 {
        pair.nodes[SMALL].sessions.queue_message(
            peer,
            &Message::Ack(Ack { alias, from_low: number }),
            pair.now,
        );
    }
    pair.send(SMALL);
    assert_eq!(pair.sent.len(), (500 * 9_usize).div_ceil(MESSAGES_BYTES_MAX / 9 * 9));
    assert!(pair.sent.iter().all(|datagram| datagram.bytes.len() <= 1_232));
    pair.run(ms(50));
    assert_eq!(pair.nodes[LARGE].received_numbers, (0..500).collect::<Vec<_>>());
}

#[test]
fn both_sides_vouch_for_packets_with_the_same_digest() {
    let pair = SessionPair::established();
    let [small, large] = &pair.nodes;
    let alias = Alias::new(3).expect("not zero");
    let digest = small.sessions.digest(small.peer, alias, 7, b"coded").expect("both want digests");
    assert!(large.sessions.verifies_digest(large.peer, alias, 7, b"coded", digest));
    assert!(!large.sessions.verifies_digest(large.peer, alias, 8, b"coded", digest));
    assert!(!large.sessions.verifies_digest(large.peer, alias, 7, b"false", digest));
}

#[test]
fn a_session_that_rests_is_as_good_as_new_ten_minutes_later() {
    let mut pair = SessionPair::established();
    pair.run(secs(600));
    pair.send_number(SMALL, 1);
    pair.send_number(LARGE, 2);
    pair.run(ms(50));
    assert_eq!((pair.nodes[LARGE].received_numbers.len(), pair.nodes[SMALL].received_numbers.len()), (1, 1));
}

/// Sets the counters of both sides to those after `packets` packets.
fn skip_to(pair: &mut SessionPair, packets: u64) {
    for node in &mut pair.nodes {
        let session = node.sessions.get_mut(node.peer).expect("the peer was added");
        session.epochs[0].skip_to(packets);
    }
}

#[test]
fn so_many_packets_are_sealed_with_one_key_and_then_another_follows() {
    let mut pair = SessionPair::established();
    skip_to(&mut pair, REKEY_PACKETS - 2);
    for number in 1..=5 {
        pair.send_number(SMALL, number);
        pair.run(ms(100));
        let handshakes = if number < 3 { [1, 1] } else { [2, 2] };
        assert_eq!(pair.handshakes(), handshakes, "after {number} packets");
    }
    assert_eq!(pair.nodes[LARGE].received_numbers, [1, 2, 3, 4, 5]);
    assert!(pair.nodes.iter().all(|node| node.sessions.counters.unsendable == 0));
}

#[test]
fn source_packets_count_as_all_others_do() {
    let mut pair = SessionPair::established();
    skip_to(&mut pair, EPOCH_PACKETS_MAX - 1);
    let (now, node) = (pair.now, &mut pair.nodes[SMALL]);
    let session = node.sessions.get_mut(node.peer).expect("the peer was added");
    let epoch = session.sealing(now).expect("one packet is left");
    epoch.seal_source(FlowId::new(1), SequenceNumber::FIRST, &mut [0; 40]);
    assert!(session.sealing(now).is_none());
}

#[test]
fn keys_seal_so_many_packets_and_no_more() {
    let mut pair = SessionPair::established();
    pair.loses(|datagram| matches!(datagram.bytes[0], INITIATION | RESPONSE));
    // The test counts only the packets below.
    pair.run(secs(3));
    skip_to(&mut pair, EPOCH_PACKETS_MAX - 2);
    pair.envelop(SMALL, 1);
    pair.envelop(SMALL, 2);
    assert_eq!(pair.nodes[SMALL].sessions.counters.unsendable, 0);
    pair.envelop(SMALL, 3);
    assert_eq!(pair.nodes[SMALL].sessions.counters.unsendable, 1);
    pair.run(ms(50));
    assert_eq!(pair.nodes[LARGE].enveloped, [1, 2]);
    assert!(!pair.nodes[SMALL].is_established(pair.now));
    pair.envelop(LARGE, 4);
    pair.run(ms(50));
    assert_eq!(pair.nodes[SMALL].enveloped, [4], "the other direction has its own");
    pair.loses(|_| false);
    pair.send_number(SMALL, 5);
    pair.run(secs(2));
    pair.envelop(SMALL, 6);
    pair.run(ms(50));
    assert_eq!(pair.nodes[LARGE].enveloped, [1, 2, 6], "and other keys follow");
}
