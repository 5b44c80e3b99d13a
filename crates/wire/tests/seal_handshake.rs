//! Handshakes between two nodes, successful and failing.

mod support;

use byway_wire::limits::DATAGRAM_BYTES_MAX;
use byway_wire::packets::{INITIATION_BYTES_MIN, RESPONSE_BYTES_MIN};
use byway_wire::seal::{
    AcceptError, Acceptance, Initiation, InitiationError, PreSharedKey, Purpose, Responder, ResponseError,
    StaticSecret, Suite, WriteError,
};
use byway_wire::{Capabilities, SessionIndex, Shard};
use support::handshakes::{
    ACCEPTANCE, INDEX, INITIATION, Refusal, accept, flipped, initiator, no_pre_shared, read, read_response,
    repair_mac1, responder_secret, screen, screened, write,
};

fn shared(byte: u8) -> PreSharedKey {
    PreSharedKey::from_bytes([byte; 32])
}

#[test]
fn both_sides_learn_what_the_other_says_and_the_same_keys() {
    for &suite in Suite::ALL {
        for pre_shared in [no_pre_shared(), shared(9)] {
            let (packet, mut awaited) = write(&Initiation { suite, ..INITIATION }, &pre_shared, 1);
            assert_eq!(packet.len(), INITIATION_BYTES_MIN + INITIATION.messages.len());
            let received = read(&packet, 2).expect("the initiation is right");
            assert_eq!(received.peer, initiator().public_key());
            assert_eq!((received.purpose, received.suite), (Purpose::AgentToRelay, suite));
            assert_eq!((received.shard, received.index), (Shard::new(3), INDEX));
            assert_eq!(received.capabilities, Capabilities::DIGESTS);
            assert_eq!(
                (received.handshake_timestamp, received.incarnation, received.epoch),
                (INITIATION.handshake_timestamp, INITIATION.incarnation, INITIATION.epoch)
            );
            assert_eq!(received.messages, INITIATION.messages);

            let (packet, keys) = received.accept(&ACCEPTANCE, &pre_shared).expect("the messages fit");
            assert_eq!(packet.len(), RESPONSE_BYTES_MIN + ACCEPTANCE.messages.len());
            let response = read_response(&mut awaited, &packet).expect("the response is right");
            assert_eq!(
                (response.index, response.capabilities, response.incarnation, response.messages.as_slice()),
                (ACCEPTANCE.index, ACCEPTANCE.capabilities, ACCEPTANCE.incarnation, ACCEPTANCE.messages)
            );
            assert_eq!((response.keys.send(), response.keys.receive()), (keys.receive(), keys.send()));
            assert_ne!(keys.send(), keys.receive());
        }
    }
}

#[test]
fn what_is_screened_is_what_was_written() {
    let (packet, _) = write(&INITIATION, &no_pre_shared(), 1);
    let header = *screened(&packet).header();
    assert_eq!((header.purpose, header.suite), (INITIATION.purpose, INITIATION.suite));
    assert_eq!((header.shard, header.capabilities), (INITIATION.shard, INITIATION.capabilities));
    assert_eq!(
        (header.sender, screened(&packet).mac1().as_slice()),
        (INDEX, &packet[packet.len() - 32..][..16])
    );
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let run = |seeds: (u8, u8)| {
        let (initiation, mut awaited) = write(&INITIATION, &no_pre_shared(), seeds.0);
        let (response, keys) = accept(&initiation, &no_pre_shared(), seeds.1);
        assert_eq!(
            read_response(&mut awaited, &response).expect("the response is right").keys.send(),
            keys.receive()
        );
        (initiation, response, *keys.send(), *keys.receive())
    };
    assert_eq!(run((1, 2)), run((1, 2)));
    let (first, other_initiator, other_responder) = (run((1, 2)), run((3, 2)), run((1, 3)));
    assert!(first.0 != other_initiator.0 && first.1 != other_initiator.1 && first.2 != other_initiator.2);
    assert!(first.0 == other_responder.0 && first.1 != other_responder.1 && first.2 != other_responder.2);
}

#[test]
fn different_pre_shared_keys_do_not_agree() {
    for (ours, theirs) in [(shared(1), shared(2)), (no_pre_shared(), shared(1)), (shared(1), no_pre_shared())]
    {
        let (packet, mut awaited) = write(&INITIATION, &ours, 1);
        let (response, _) = accept(&packet, &theirs, 2);
        assert_eq!(
            read_response(&mut awaited, &response).map(|_| ()),
            Err(Refusal::Wrong(ResponseError::Forged))
        );
    }
}

#[test]
fn a_responder_ignores_what_is_for_another_one() {
    let other = Responder::new(StaticSecret::from_bytes([0x33; 32]));
    let (mut packet, _) = write(&INITIATION, &no_pre_shared(), 1);
    assert_eq!(screen(&other, &packet).map(|_| ()), Err(Refusal::Wrong(InitiationError::WrongMac1)));
    repair_mac1(&mut packet, &StaticSecret::from_bytes([0x33; 32]).public_key());
    let screened = screen(&other, &packet).expect("mac1 is right");
    assert_eq!(other.read(&screened, &[2; 32]).map(|_| ()), Err(InitiationError::Forged));
}

#[test]
fn a_changed_bit_of_an_initiation_is_refused_or_is_of_mac2() {
    for &suite in Suite::ALL {
        let (packet, _) = write(&Initiation { suite, ..INITIATION }, &no_pre_shared(), 1);
        let mac2_from = 8 * (packet.len() - 16);
        let expected = read(&packet, 2).expect("the initiation is right").handshake_timestamp;
        for bit in 0..8 * packet.len() {
            let read = read(&flipped(&packet, bit), 2).map(|received| received.handshake_timestamp);
            if bit < mac2_from {
                assert!(read.is_err(), "bit {bit}");
            } else {
                assert_eq!(read, Ok(expected), "bit {bit}");
            }
        }
    }
}

#[test]
fn a_changed_bit_is_refused_by_noise_too() {
    for &suite in Suite::ALL {
        let (packet, _) = write(&Initiation { suite, ..INITIATION }, &no_pre_shared(), 1);
        // The header is the prologue; the rest is the Noise message.
        for bit in 0..8 * (packet.len() - 32) {
            let mut changed = flipped(&packet, bit);
            repair_mac1(&mut changed, &responder_secret().public_key());
            let error = read(&changed, 2).map(|_| ()).expect_err("a changed initiation");
            assert_ne!(error, Refusal::Wrong(InitiationError::WrongMac1), "bit {bit}");
            if bit >= 8 * 4 {
                assert_eq!(error, Refusal::Wrong(InitiationError::Forged), "bit {bit}");
            }
        }
    }
}

#[test]
fn a_changed_bit_of_a_response_is_refused_or_is_reserved() {
    for &suite in Suite::ALL {
        let (packet, _) = write(&Initiation { suite, ..INITIATION }, &no_pre_shared(), 1);
        let (response, keys) = accept(&packet, &no_pre_shared(), 2);
        for bit in 0..8 * response.len() {
            let (_, mut awaited) = write(&Initiation { suite, ..INITIATION }, &no_pre_shared(), 1);
            match read_response(&mut awaited, &flipped(&response, bit)) {
                Ok(response) => {
                    assert!((8..32).contains(&bit), "bit {bit}");
                    assert_eq!(response.keys.send(), keys.receive());
                }
                Err(_) => assert!(!(8..32).contains(&bit), "bit {bit}"),
            }
        }
    }
}

/// Forged responses before the true one.
const BAD_RESPONSES: usize = 100;

#[test]
fn bad_responses_do_not_keep_the_true_one_out() {
    for &suite in Suite::ALL {
        let (packet, mut awaited) = write(&Initiation { suite, ..INITIATION }, &no_pre_shared(), 1);
        let (response, keys) = accept(&packet, &no_pre_shared(), 2);
        let (_, other_keys) = accept(&packet, &no_pre_shared(), 3);
        assert_ne!(keys.send(), other_keys.send());
        for bad in 1..BAD_RESPONSES {
            // The changed bit lies in the ephemeral key, the payload or the tag.
            let bit = 8 * (8 + bad * (response.len() - 9) / BAD_RESPONSES);
            assert_eq!(
                read_response(&mut awaited, &flipped(&response, bit)).map(|_| ()),
                Err(Refusal::Wrong(ResponseError::Forged))
            );
        }
        let read =
            read_response(&mut awaited, &response).expect("the true one is read after any number of others");
        assert_eq!((read.keys.send(), read.keys.receive()), (keys.receive(), keys.send()));
        assert_eq!(
            read_response(&mut awaited, &response).map(|_| ()),
            Err(Refusal::Wrong(ResponseError::Closed))
        );
    }
}

#[test]
fn a_response_to_another_initiation_is_told_by_its_index() {
    let (packet, mut awaited) = write(&INITIATION, &no_pre_shared(), 1);
    let (response, _) = accept(&packet, &no_pre_shared(), 2);
    let index = SessionIndex::new(INDEX.number() ^ 0x0100_0000);
    let elsewhere = read_response(&mut awaited, &flipped(&response, 8 * 4)).map(|_| ());
    let wrong_index = ResponseError::WrongIndex { index, expected: INDEX };
    assert_eq!(elsewhere, Err(Refusal::Wrong(wrong_index)));
}

#[test]
fn a_replayed_initiation_tells_its_age_and_brings_keys_that_nobody_shares() {
    let (packet, mut awaited) = write(&INITIATION, &no_pre_shared(), 1);
    let (response, keys) = accept(&packet, &no_pre_shared(), 2);
    let ours = read_response(&mut awaited, &response).expect("the response is right").keys;

    let replayed = read(&packet, 3).expect("it still opens");
    assert_eq!(replayed.handshake_timestamp, INITIATION.handshake_timestamp);
    let (second, replayed_keys) = replayed.accept(&ACCEPTANCE, &no_pre_shared()).expect("the messages fit");
    assert_ne!(replayed_keys.send(), keys.send());
    assert_eq!(read_response(&mut awaited, &second).map(|_| ()), Err(Refusal::Wrong(ResponseError::Closed)));
    assert_eq!(ours.send(), keys.receive());
}

#[test]
fn a_response_answers_one_initiation_only() {
    let (packet, _) = write(&INITIATION, &no_pre_shared(), 1);
    let (_, mut awaited) = write(
        &Initiation { handshake_timestamp: INITIATION.handshake_timestamp + 1, ..INITIATION },
        &no_pre_shared(),
        4,
    );
    let (response, _) = accept(&packet, &no_pre_shared(), 2);
    assert_eq!(
        read_response(&mut awaited, &response).map(|_| ()),
        Err(Refusal::Wrong(ResponseError::Forged))
    );
}

#[test]
fn a_response_is_never_longer_than_its_initiation() {
    for bytes in [0, 1, 300] {
        let (packet, mut awaited) =
            write(&Initiation { messages: &vec![7; bytes], ..INITIATION }, &no_pre_shared(), 1);
        let capacity = read(&packet, 2).expect("the initiation is right").response_capacity();
        let accept = |messages: &[u8]| {
            let received = read(&packet, 2).expect("the initiation is right");
            received.accept(&Acceptance { messages, ..ACCEPTANCE }, &no_pre_shared())
        };
        let longest = vec![9; capacity + 1];
        let error = AcceptError::MessagesTooLong { bytes: capacity + 1, capacity };
        assert_eq!(accept(&longest).map(|_| ()), Err(error));
        let (response, _) = accept(&longest[1..]).expect("it fits");
        assert_eq!(response.len(), packet.len());
        assert_eq!(
            read_response(&mut awaited, &response).expect("the response is right").messages,
            longest[1..]
        );
    }
}

#[test]
fn an_initiation_holds_what_a_datagram_holds() {
    let capacity = DATAGRAM_BYTES_MAX - INITIATION_BYTES_MIN;
    let messages = vec![7; capacity + 1];
    let (key, pre_shared) = (responder_secret().public_key(), no_pre_shared());
    let too_long =
        Initiation { messages: &messages, ..INITIATION }.write(&initiator(), &key, &pre_shared, &[1; 32]);
    assert_eq!(too_long.map(|_| ()), Err(WriteError::MessagesTooLong { bytes: capacity + 1, capacity }));
    let (packet, _) = write(&Initiation { messages: &messages[1..], ..INITIATION }, &pre_shared, 1);
    assert_eq!(packet.len(), DATAGRAM_BYTES_MAX);
    assert_eq!(read(&packet, 2).expect("the initiation is right").messages, messages[1..]);
}
