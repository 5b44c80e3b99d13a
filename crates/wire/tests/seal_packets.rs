//! Packets are sealed on one side and opened on the other.

mod seal_support;

use byway_units::FlowId;
use byway_wire::seal::{EpochKeys, Forged, OpenError, Portable, Suite};
use proptest::prelude::{ProptestConfig, Strategy, any, proptest};
use proptest::sample::{Index, select};
use proptest::{collection, prop_assert_eq};
use seal_support::{flipped, keys};

const FORGED: OpenError = OpenError::Forged(Forged);

fn sides(suite: Suite) -> (EpochKeys, EpochKeys) {
    let (ours, theirs) = keys(suite);
    (ours.epoch_keys(&Portable, suite), theirs.epoch_keys(&Portable, suite))
}

fn with_tag(bytes: &[u8]) -> Vec<u8> {
    [bytes, &[0; 16]].concat()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_source_packet_opens_as_it_was_sealed_and_not_otherwise(
        suite in select(&Suite::ALL[..]),
        flow in any::<u16>().prop_map(FlowId::new),
        number in any::<u64>(),
        coded in collection::vec(any::<u8>(), 1..200),
        bit in any::<Index>(),
    ) {
        let (sender, receiver) = sides(suite);
        let mut sealed = with_tag(&coded);
        sender.seal_source(flow, number, &mut sealed);
        let open = |flow, number, bytes: &[u8]| {
            receiver.open_source(flow, number, &mut bytes.to_vec()).map(|plaintext| plaintext.to_vec())
        };
        prop_assert_eq!(open(flow, number, &sealed), Ok(coded[1..].to_vec()));
        prop_assert_eq!(open(flow, number, &flipped(&sealed, bit.index(8 * sealed.len()))), Err(FORGED));
        prop_assert_eq!(open(flow, number ^ 1 << bit.index(64), &sealed), Err(FORGED));
        prop_assert_eq!(open(FlowId::new(flow.number() ^ 1 << bit.index(16)), number, &sealed), Err(FORGED));
        prop_assert_eq!(
            sender.open_source(flow, number, &mut sealed.clone()).map(|_| ()), Err(FORGED), "no reflection"
        );
    }

    #[test]
    fn a_message_packet_opens_as_it_was_sealed_and_not_otherwise(
        suite in select(&Suite::ALL[..]),
        counter in any::<u64>(),
        packet in collection::vec(any::<u8>(), 9..200),
        bit in any::<Index>(),
    ) {
        let (sender, receiver) = sides(suite);
        let mut sealed = with_tag(&packet);
        sender.seal_message(counter, &mut sealed);
        prop_assert_eq!(&sealed[..9], &packet[..9]);
        let open = |counter, bytes: &[u8]| {
            receiver.open_message(counter, &mut bytes.to_vec()).map(|messages| messages.to_vec())
        };
        prop_assert_eq!(open(counter, &sealed), Ok(packet[9..].to_vec()));
        prop_assert_eq!(open(counter, &flipped(&sealed, bit.index(8 * sealed.len()))), Err(FORGED));
        prop_assert_eq!(open(counter ^ 1 << bit.index(64), &sealed), Err(FORGED));
    }

    #[test]
    fn an_envelope_is_verified_as_it_was_tagged_and_not_otherwise(
        suite in select(&Suite::ALL[..]),
        counter in any::<u64>(),
        envelope in collection::vec(any::<u8>(), 0..700),
        bit in any::<Index>(),
    ) {
        let (sender, receiver) = sides(suite);
        let mut tagged = with_tag(&envelope);
        sender.tag_envelope(counter, &mut tagged);
        prop_assert_eq!(receiver.verify_envelope(counter, &tagged), Ok(envelope.as_slice()));
        let changed = flipped(&tagged, bit.index(8 * tagged.len()));
        prop_assert_eq!(receiver.verify_envelope(counter, &changed), Err(FORGED));
        prop_assert_eq!(receiver.verify_envelope(counter ^ 1 << bit.index(64), &tagged), Err(FORGED));
        prop_assert_eq!(sender.verify_envelope(counter, &tagged), Err(FORGED), "no reflection");
    }
}

#[test]
fn packets_too_short_to_be_sealed_are_refused() {
    let (_, receiver) = sides(Suite::Aes256Gcm);
    let flow = FlowId::new(1);
    for bytes in 0..17 {
        let error = OpenError::TooShort { bytes, needed: 17 };
        assert_eq!(receiver.open_source(flow, 0, &mut vec![0; bytes]).map(|_| ()), Err(error));
    }
    for bytes in 0..25 {
        let error = OpenError::TooShort { bytes, needed: 25 };
        assert_eq!(receiver.open_message(0, &mut vec![0; bytes]).map(|_| ()), Err(error));
    }
    for bytes in 0..16 {
        let error = OpenError::TooShort { bytes, needed: 16 };
        assert_eq!(receiver.verify_envelope(0, &vec![0; bytes]).map(|_| ()), Err(error));
    }
    assert_eq!(receiver.open_source(flow, 0, &mut [0; 17]).map(|_| ()), Err(FORGED));
}

#[test]
fn keys_of_another_epoch_open_nothing() {
    let (sender, _) = sides(Suite::Aes256Gcm);
    let (_, other) = sides(Suite::ChaCha20Poly1305);
    let mut packet = with_tag(b"header of the packet");
    sender.seal_message(0, &mut packet);
    assert_eq!(other.open_message(0, &mut packet).map(|_| ()), Err(FORGED));
}

#[test]
fn both_directions_have_digests_of_their_own() {
    let (ours, theirs) = keys(Suite::Aes256Gcm);
    let digest = ours.send_digests().digest(1, 2, b"coded");
    assert_eq!(theirs.receive_digests().digest(1, 2, b"coded"), digest);
    assert_ne!(ours.receive_digests().digest(1, 2, b"coded"), digest);
    for (alias, number, coded) in [(2, 2, b"coded"), (1, 3, b"coded"), (1, 2, b"coder")] {
        assert_ne!(ours.send_digests().digest(alias, number, coded), digest);
    }
}
