//! Two nodes shake hands, or fail to.

mod seal_support;

use byway_wire::seal::{
    AcceptError, Acceptance, HANDSHAKE_BYTES_MAX, Initiation, InitiationError, PreSharedKey, Purpose,
    RESPONSES_MAX, Responder, ResponseError, StaticSecret, Suite, WriteError,
};
use seal_support::{
    ACCEPTANCE, INDEX, INITIATION, accept, flipped, initiator, no_psk, read, repair_mac1, responder,
    responder_secret, write,
};

/// Kind, reserved, index, ephemeral, `index ‖ capabilities ‖ boot`, tag.
const RESPONSE_BYTES_MIN: usize = 8 + 32 + 14 + 16;

const INITIATION_BYTES_MIN: usize = 12 + 32 + 48 + 17 + 16 + 32;

fn psk(byte: u8) -> PreSharedKey {
    PreSharedKey::from_bytes([byte; 32])
}

#[test]
fn both_sides_learn_what_the_other_says_and_the_same_keys() {
    for suite in Suite::ALL {
        for psk in [no_psk(), psk(9)] {
            let (packet, mut awaited) = write(&Initiation { suite, ..INITIATION }, &psk, 1);
            assert_eq!(packet.len(), INITIATION_BYTES_MIN + INITIATION.messages.len());
            let received = read(&packet, 2).expect("the initiation is right");
            assert_eq!(received.peer, initiator().public_key());
            assert_eq!((received.purpose, received.suite), (Purpose::AgentToRelay, suite));
            assert_eq!((received.shard, received.capabilities, received.sender_index), (3, 1, INDEX));
            assert_eq!(
                (received.stamp, received.boot, received.epoch),
                (INITIATION.stamp, INITIATION.boot, INITIATION.epoch)
            );
            assert_eq!(received.messages, INITIATION.messages);

            let (packet, keys) = received.accept(&ACCEPTANCE, &psk).expect("the messages fit");
            assert_eq!(packet.len(), RESPONSE_BYTES_MIN + ACCEPTANCE.messages.len());
            let response = awaited.read(&packet).expect("the response is right");
            assert_eq!(
                (response.index, response.capabilities, response.boot, response.messages.as_slice()),
                (ACCEPTANCE.index, ACCEPTANCE.capabilities, ACCEPTANCE.boot, ACCEPTANCE.messages)
            );
            assert_eq!((response.keys.send(), response.keys.receive()), (keys.receive(), keys.send()));
            assert_ne!(keys.send(), keys.receive());
        }
    }
}

#[test]
fn what_is_screened_is_what_was_written() {
    let (packet, _) = write(&INITIATION, &no_psk(), 1);
    let responder = responder();
    let screened = responder.screen(&packet).expect("mac1 is right");
    assert_eq!((screened.purpose(), screened.suite()), (INITIATION.purpose, INITIATION.suite));
    assert_eq!((screened.shard(), screened.sender_index()), (INITIATION.shard, INDEX));
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let run = |seeds: (u8, u8)| {
        let (initiation, mut awaited) = write(&INITIATION, &no_psk(), seeds.0);
        let (response, keys) = accept(&initiation, &no_psk(), seeds.1);
        assert_eq!(awaited.read(&response).expect("the response is right").keys.send(), keys.receive());
        (initiation, response, *keys.send(), *keys.receive())
    };
    assert_eq!(run((1, 2)), run((1, 2)));
    let (first, other_initiator, other_responder) = (run((1, 2)), run((3, 2)), run((1, 3)));
    assert!(first.0 != other_initiator.0 && first.1 != other_initiator.1 && first.2 != other_initiator.2);
    assert!(first.0 == other_responder.0 && first.1 != other_responder.1 && first.2 != other_responder.2);
}

#[test]
fn different_pre_shared_keys_do_not_agree() {
    for (ours, theirs) in [(psk(1), psk(2)), (no_psk(), psk(1)), (psk(1), no_psk())] {
        let (packet, mut awaited) = write(&INITIATION, &ours, 1);
        let (response, _) = accept(&packet, &theirs, 2);
        assert_eq!(awaited.read(&response).map(|_| ()), Err(ResponseError::Forged));
    }
}

#[test]
fn a_responder_ignores_what_is_for_another_one() {
    let other = Responder::new(StaticSecret::from_bytes([0x33; 32]));
    let (mut packet, _) = write(&INITIATION, &no_psk(), 1);
    assert_eq!(other.screen(&packet).map(|_| ()), Err(InitiationError::WrongMac1));
    repair_mac1(&mut packet, &StaticSecret::from_bytes([0x33; 32]).public_key());
    let screened = other.screen(&packet).expect("mac1 is right");
    assert_eq!(other.read(&screened, &[2; 32]).map(|_| ()), Err(InitiationError::Forged));
}

#[test]
fn a_changed_bit_of_an_initiation_is_refused_or_is_of_mac2() {
    for suite in Suite::ALL {
        let (packet, _) = write(&Initiation { suite, ..INITIATION }, &no_psk(), 1);
        let mac2_from = 8 * (packet.len() - 16);
        let expected = read(&packet, 2).expect("the initiation is right").stamp;
        for bit in 0..8 * packet.len() {
            let read = read(&flipped(&packet, bit), 2).map(|received| received.stamp);
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
    for suite in Suite::ALL {
        let (packet, _) = write(&Initiation { suite, ..INITIATION }, &no_psk(), 1);
        // The header is the prologue; the rest is the Noise message.
        for bit in 0..8 * (packet.len() - 32) {
            let mut changed = flipped(&packet, bit);
            repair_mac1(&mut changed, &responder_secret().public_key());
            let error = read(&changed, 2).map(|_| ()).expect_err("a changed initiation");
            assert_ne!(error, InitiationError::WrongMac1, "bit {bit}");
            if bit >= 8 * 4 {
                assert_eq!(error, InitiationError::Forged, "bit {bit}");
            }
        }
    }
}

#[test]
fn a_changed_bit_of_a_response_is_refused_or_is_reserved() {
    for suite in Suite::ALL {
        let (packet, _) = write(&Initiation { suite, ..INITIATION }, &no_psk(), 1);
        let (response, keys) = accept(&packet, &no_psk(), 2);
        for bit in 0..8 * response.len() {
            let (_, mut awaited) = write(&Initiation { suite, ..INITIATION }, &no_psk(), 1);
            match awaited.read(&flipped(&response, bit)) {
                Ok(response) => {
                    assert!((8..32).contains(&bit), "bit {bit}");
                    assert_eq!(response.keys.send(), keys.receive());
                }
                Err(_) => assert!(!(8..32).contains(&bit), "bit {bit}"),
            }
        }
    }
}

#[test]
fn bad_responses_do_not_keep_the_true_one_out() {
    for suite in Suite::ALL {
        let (packet, mut awaited) = write(&Initiation { suite, ..INITIATION }, &no_psk(), 1);
        let (response, keys) = accept(&packet, &no_psk(), 2);
        let (_, other_keys) = accept(&packet, &no_psk(), 3);
        assert_ne!(keys.send(), other_keys.send());
        for bad in 1..usize::from(RESPONSES_MAX) {
            // Some are wrong in the ephemeral key, some in the payload, some in the tag.
            let bit = 8 * (8 + bad * (response.len() - 9) / usize::from(RESPONSES_MAX));
            assert_eq!(awaited.read(&flipped(&response, bit)).map(|_| ()), Err(ResponseError::Forged));
        }
        let read = awaited.read(&response).expect("the last look is at the true one");
        assert_eq!((read.keys.send(), read.keys.receive()), (keys.receive(), keys.send()));
        assert_eq!(awaited.read(&response).map(|_| ()), Err(ResponseError::Closed));
    }
}

#[test]
fn no_more_than_eight_responses_are_looked_at() {
    assert_eq!(RESPONSES_MAX, 8);
    let (packet, mut awaited) = write(&INITIATION, &no_psk(), 1);
    let (response, _) = accept(&packet, &no_psk(), 2);
    for _ in 0..100 {
        let elsewhere = awaited.read(&flipped(&response, 8 * 4)).map(|_| ());
        assert_eq!(
            elsewhere,
            Err(ResponseError::WrongIndex { index: INDEX ^ 0x0100_0000, expected: INDEX }),
            "costs nothing, and does not count"
        );
    }
    for _ in 0..RESPONSES_MAX {
        assert_eq!(awaited.read(&flipped(&response, 8 * 50)).map(|_| ()), Err(ResponseError::Forged));
    }
    assert_eq!(awaited.read(&response).map(|_| ()), Err(ResponseError::Closed));
}

#[test]
fn a_replayed_initiation_tells_its_age_and_brings_keys_that_nobody_shares() {
    let (packet, mut awaited) = write(&INITIATION, &no_psk(), 1);
    let (response, keys) = accept(&packet, &no_psk(), 2);
    let ours = awaited.read(&response).expect("the response is right").keys;

    let replayed = read(&packet, 3).expect("it still opens");
    assert_eq!(replayed.stamp, INITIATION.stamp);
    let (second, replayed_keys) = replayed.accept(&ACCEPTANCE, &no_psk()).expect("the messages fit");
    assert_ne!(replayed_keys.send(), keys.send());
    assert_eq!(awaited.read(&second).map(|_| ()), Err(ResponseError::Closed));
    assert_eq!(ours.send(), keys.receive());
}

#[test]
fn a_response_answers_one_initiation_only() {
    let (packet, _) = write(&INITIATION, &no_psk(), 1);
    let (_, mut awaited) = write(&Initiation { stamp: INITIATION.stamp + 1, ..INITIATION }, &no_psk(), 4);
    let (response, _) = accept(&packet, &no_psk(), 2);
    assert_eq!(awaited.read(&response).map(|_| ()), Err(ResponseError::Forged));
}

#[test]
fn a_response_is_never_longer_than_its_initiation() {
    for bytes in [0, 1, 300] {
        let (packet, mut awaited) =
            write(&Initiation { messages: &vec![7; bytes], ..INITIATION }, &no_psk(), 1);
        let room = read(&packet, 2).expect("the initiation is right").room();
        let accept = |messages: &[u8]| {
            let received = read(&packet, 2).expect("the initiation is right");
            received.accept(&Acceptance { messages, ..ACCEPTANCE }, &no_psk())
        };
        let longest = vec![9; room + 1];
        let error = AcceptError::MessagesTooLong { bytes: room + 1, room };
        assert_eq!(accept(&longest).map(|_| ()), Err(error));
        let (response, _) = accept(&longest[1..]).expect("it fits");
        assert_eq!(response.len(), packet.len());
        assert_eq!(awaited.read(&response).expect("the response is right").messages, longest[1..]);
    }
}

#[test]
fn an_initiation_holds_what_a_datagram_holds() {
    let room = HANDSHAKE_BYTES_MAX - INITIATION_BYTES_MIN;
    let messages = vec![7; room + 1];
    let (key, psk) = (responder_secret().public_key(), no_psk());
    let too_long = Initiation { messages: &messages, ..INITIATION }.write(&initiator(), &key, &psk, &[1; 32]);
    assert_eq!(too_long.map(|_| ()), Err(WriteError::MessagesTooLong { bytes: room + 1, room }));
    let (packet, _) = write(&Initiation { messages: &messages[1..], ..INITIATION }, &psk, 1);
    assert_eq!(packet.len(), HANDSHAKE_BYTES_MAX);
    assert_eq!(read(&packet, 2).expect("the initiation is right").messages, messages[1..]);
}

#[test]
fn packets_of_impossible_lengths_are_refused() {
    let (packet, mut awaited) = write(&Initiation { messages: &[], ..INITIATION }, &no_psk(), 1);
    let (response, _) = accept(&packet, &no_psk(), 2);
    for bytes in 0..packet.len() {
        let error = InitiationError::WrongLength { bytes };
        assert_eq!(responder().screen(&packet[..bytes]).map(|_| ()), Err(error));
    }
    for bytes in 0..RESPONSE_BYTES_MIN {
        let error = ResponseError::WrongLength { bytes };
        assert_eq!(awaited.read(&response[..bytes]).map(|_| ()), Err(error));
    }
    let bytes = HANDSHAKE_BYTES_MAX + 1;
    let long = vec![4; bytes];
    assert_eq!(responder().screen(&long).map(|_| ()), Err(InitiationError::WrongLength { bytes }));
    assert_eq!(awaited.read(&long).map(|_| ()), Err(ResponseError::WrongLength { bytes }));
    assert_eq!(awaited.read(&packet).map(|_| ()), Err(ResponseError::WrongKind { kind: 4 }));
    assert!(awaited.read(&response).is_ok());
}
