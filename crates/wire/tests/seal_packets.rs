//! Packets are sealed on one side and opened on the other.

mod support;

use byway_units::FlowId;
use byway_wire::packets::{Envelope, EnvelopeHeader, EnvelopeRole, MessageHeader, MessagePacket};
use byway_wire::seal::{EpochKeys, ForgeryError, PortableProvider, Suite};
use byway_wire::{Alias, CodedBytes, Counter, SequenceNumber};
use proptest::prelude::{ProptestConfig, Strategy, any, proptest};
use proptest::sample::{Index, select};
use proptest::{collection, prop_assert, prop_assert_eq};
use support::handshakes::{Refusal, flipped, keys};
use support::strategies::{alias, flags, index};

const FORGED: Refusal<ForgeryError> = Refusal::Wrong(ForgeryError);

fn sides(suite: Suite) -> (EpochKeys, EpochKeys) {
    let (ours, theirs) = keys(suite);
    (ours.epoch_keys(&PortableProvider, suite), theirs.epoch_keys(&PortableProvider, suite))
}

/// Returns a sender's input for sealing: the packet, and space for the tag.
fn unsealed<const N: usize>(emit: impl FnOnce(&mut [u8; N]), body: &[u8]) -> Vec<u8> {
    let mut header = [0; N];
    emit(&mut header);
    [&header, body, &[0; 16]].concat()
}

fn open_source(
    keys: &EpochKeys,
    flow: FlowId,
    sequence: SequenceNumber,
    coded: &[u8],
) -> Result<Vec<u8>, Refusal<ForgeryError>> {
    let mut coded = coded.to_vec();
    let opened = keys.open_source(flow, sequence, CodedBytes::parse(coded.as_mut_slice())?);
    opened.map(|plaintext| plaintext.to_vec()).map_err(Refusal::Wrong)
}

fn open_message(keys: &EpochKeys, counter: Counter, packet: &[u8]) -> Result<Vec<u8>, Refusal<ForgeryError>> {
    let mut packet = packet.to_vec();
    let opened = keys.open_message(counter, MessagePacket::parse(packet.as_mut_slice())?);
    opened.map(|messages| messages.to_vec()).map_err(Refusal::Wrong)
}

fn verify_envelope(keys: &EpochKeys, counter: Counter, packet: &[u8]) -> Result<(), Refusal<ForgeryError>> {
    keys.verify_envelope(counter, &Envelope::parse(packet)?).map_err(Refusal::Wrong)
}

/// Returns the counter with one inverted bit.
fn other(counter: Counter, bit: Index) -> Counter {
    Counter::new(counter.number() ^ 1 << bit.index(64))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_source_packet_opens_as_it_was_sealed_and_not_otherwise(
        suite in select(Suite::ALL),
        flow in any::<u16>().prop_map(FlowId::new),
        number in any::<u64>(),
        flags in flags(),
        plaintext in collection::vec(any::<u8>(), 5..200),
        bit in any::<Index>(),
    ) {
        let ((sender, receiver), sequence) = (sides(suite), SequenceNumber::new(number));
        let mut coded = unsealed(|first: &mut [u8; 1]| first[0] = flags.to_wire(), &plaintext);
        sender.seal_source(flow, sequence, &mut coded);
        prop_assert_eq!(open_source(&receiver, flow, sequence, &coded), Ok(plaintext));
        prop_assert!(open_source(&receiver, flow, sequence, &flipped(&coded, bit.index(8 * coded.len()))).is_err());
        let other_sequence = SequenceNumber::new(number ^ 1 << bit.index(64));
        prop_assert_eq!(open_source(&receiver, flow, other_sequence, &coded), Err(FORGED));
        let other_flow = FlowId::new(flow.number() ^ 1 << bit.index(16));
        prop_assert_eq!(open_source(&receiver, other_flow, sequence, &coded), Err(FORGED));
        prop_assert_eq!(open_source(&sender, flow, sequence, &coded), Err(FORGED), "no reflection");
    }

    #[test]
    fn a_message_packet_opens_as_it_was_sealed_and_not_otherwise(
        suite in select(Suite::ALL),
        receiver_index in index(),
        counter in any::<u64>().prop_map(Counter::new),
        messages in collection::vec(any::<u8>(), 0..200),
        bit in any::<Index>(),
    ) {
        let (sender, receiver) = sides(suite);
        let header = MessageHeader { receiver: receiver_index, counter_low: counter.low() };
        let mut packet = unsealed(|bytes| header.emit(bytes), &messages);
        sender.seal_message(counter, &mut packet);
        prop_assert_eq!(MessagePacket::parse(packet.as_slice()).map(|packet| *packet.header()), Ok(header));
        prop_assert_eq!(open_message(&receiver, counter, &packet), Ok(messages));
        prop_assert!(open_message(&receiver, counter, &flipped(&packet, bit.index(8 * packet.len()))).is_err());
        prop_assert_eq!(open_message(&receiver, other(counter, bit), &packet), Err(FORGED));
        prop_assert_eq!(open_message(&sender, counter, &packet), Err(FORGED), "no reflection");
    }

    #[test]
    fn an_envelope_is_verified_as_it_was_tagged_and_not_otherwise(
        suite in select(Suite::ALL),
        (role, receiver_index, alias) in (select(EnvelopeRole::ALL), index(), alias()),
        counter in any::<u64>().prop_map(Counter::new),
        sequence_low in any::<u32>(),
        coded in collection::vec(any::<u8>(), 22..700),
        bit in any::<Index>(),
    ) {
        let (sender, receiver) = sides(suite);
        let counter_low = counter.low();
        let header = EnvelopeHeader { role, receiver: receiver_index, counter_low, alias, sequence_low };
        let mut envelope = unsealed(|bytes| header.emit(bytes), &coded);
        let before = envelope.clone();
        sender.tag_envelope(counter, &mut envelope);
        prop_assert_eq!(&envelope[..16 + coded.len()], &before[..16 + coded.len()]);
        prop_assert_eq!(verify_envelope(&receiver, counter, &envelope), Ok(()));
        let changed = flipped(&envelope, bit.index(8 * envelope.len()));
        prop_assert!(verify_envelope(&receiver, counter, &changed).is_err());
        prop_assert_eq!(verify_envelope(&receiver, other(counter, bit), &envelope), Err(FORGED));
        prop_assert_eq!(verify_envelope(&sender, counter, &envelope), Err(FORGED), "no reflection");
    }
}

#[test]
fn any_changed_bit_that_still_reads_as_a_packet_is_forged() {
    let (sender, receiver) = sides(Suite::Aes256Gcm);
    let (counter, mut packet) = (Counter::FIRST, [&[8][..], &[0; 40]].concat());
    sender.seal_message(counter, &mut packet);
    let (mut malformed, mut forged) = (0, 0);
    for bit in 0..8 * packet.len() {
        match open_message(&receiver, counter, &flipped(&packet, bit)) {
            Err(Refusal::Malformed(_)) => malformed += 1,
            Err(Refusal::Wrong(ForgeryError)) => forged += 1,
            Ok(_) => panic!("bit {bit}"),
        }
    }
    assert_eq!((malformed, forged), (8, 40 * 8), "the kind is looked at first");
}

#[test]
fn a_transit_packet_opens_as_such_alone() {
    let (sender, receiver) = sides(Suite::Aes256Gcm);
    let counter = Counter::FIRST;
    let mut message = [&[10][..], &[0; 40]].concat();
    sender.seal_transit_message(counter, &mut message);
    let mut envelope = [&[11, 2][..], &[0; 9], &[1], &[0; 50]].concat();
    sender.tag_envelope(counter, &mut envelope);
    assert_eq!(open_transit(&receiver, counter, &message), Ok(vec![0; 16]));
    assert_eq!(
        receiver.verify_envelope(counter, &Envelope::parse_transit(&envelope).expect("legal")),
        Ok(())
    );
    (message[0], envelope[0]) = (8, 9);
    assert_eq!(open_message(&receiver, counter, &message), Err(FORGED), "nobody can change the kind");
    assert_eq!(verify_envelope(&receiver, counter, &envelope), Err(FORGED));
}

fn open_transit(keys: &EpochKeys, counter: Counter, packet: &[u8]) -> Result<Vec<u8>, Refusal<ForgeryError>> {
    let mut packet = packet.to_vec();
    let opened = keys.open_message(counter, MessagePacket::parse_transit(packet.as_mut_slice())?);
    opened.map(|messages| messages.to_vec()).map_err(Refusal::Wrong)
}

#[test]
fn keys_of_another_epoch_open_nothing() {
    let (sender, _) = sides(Suite::Aes256Gcm);
    let (_, other) = sides(Suite::ChaCha20Poly1305);
    let mut packet = [&[8][..], &[0; 40]].concat();
    sender.seal_message(Counter::FIRST, &mut packet);
    assert_eq!(open_message(&other, Counter::FIRST, &packet), Err(FORGED));
}

#[test]
#[should_panic(expected = "the caller puts messages between header and tag")]
fn a_message_packet_without_its_header_is_a_broken_invariant() {
    sides(Suite::Aes256Gcm).0.seal_message(Counter::FIRST, &mut [0; 40]);
}

#[test]
#[should_panic(expected = "the caller puts a plaintext between flags and tag")]
fn coded_bytes_without_a_plaintext_are_a_broken_invariant() {
    sides(Suite::Aes256Gcm).0.seal_source(FlowId::new(1), SequenceNumber::FIRST, &mut [0; 17]);
}

#[test]
fn both_directions_have_digests_of_their_own() {
    let (ours, theirs) = keys(Suite::Aes256Gcm);
    let alias = |number| Alias::new(number).expect("aliases are not 0");
    let digest = ours.send_digests().digest(alias(1), 2, b"coded");
    assert_eq!(theirs.receive_digests().digest(alias(1), 2, b"coded"), digest);
    assert_ne!(ours.receive_digests().digest(alias(1), 2, b"coded"), digest);
    for (number, sequence_low, coded) in [(2, 2, b"coded"), (1, 3, b"coded"), (1, 2, b"coder")] {
        assert_ne!(ours.send_digests().digest(alias(number), sequence_low, coded), digest);
    }
}
