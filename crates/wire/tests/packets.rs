//! Packets survive a round trip, their parts are at the documented offsets, and no bytes cause a
//! panic.

mod support;

use byway_units::{AgentId, FlowId, RelayId};
use byway_wire::limits::DATAGRAM_BYTES_MAX;
use byway_wire::packets::{
    COOKIE_PACKET_BYTES, CookieHeader, CookiePacket, ENVELOPE_OVERHEAD, Envelope, EnvelopeHeader,
    EnvelopeRole, INITIATION_BYTES_MIN, INITIATION_OVERHEAD, InitiationHeader, InitiationPacket, Kind,
    MESSAGE_OVERHEAD, MessageHeader, MessagePacket, Purpose, RESPONSE_BYTES_MIN, RESPONSE_OVERHEAD,
    ResponseHeader, ResponsePacket, SOURCE_OVERHEAD, SourceHeader, SourcePacket, Suite, TransitPacket,
};
use byway_wire::{
    CODED_OVERHEAD, CodedBytes, Credential, Ecn, Epoch, Flags, Grant, Incarnation, InitiationPayload, Member,
    Packet, ParseError, Plaintext, ResponsePayload, SequenceNumber, SessionIndex, Shard, TrafficClass,
    TransitLabel, UnprotectedMask, associated_data,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use support::strategies::*;

/// Returns a packet of `length` bytes. `emit` writes its beginning; the rest counts up.
fn packet<const N: usize>(length: usize, emit: impl FnOnce(&mut [u8; N])) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..=250).cycle().take(length).collect();
    emit(bytes.first_chunk_mut().expect("packets are longer than headers"));
    bytes
}

proptest! {
    #[test]
    fn source_packets_survive(
        receiver in index(), flow in any::<u16>(), sequence_low in any::<u32>(), flags in flags(),
        application_bytes in 0..1_500_usize,
    ) {
        let header = SourceHeader { receiver, flow: FlowId::new(flow), sequence_low, flags };
        let mut bytes = packet(SOURCE_OVERHEAD + application_bytes, |header_bytes| header.emit(header_bytes));
        let copy = bytes.clone();
        let read = SourcePacket::parse(bytes.as_slice()).expect("the packet is legal");
        prop_assert_eq!(read.header(), &header);
        prop_assert_eq!(read.coded().flags(), flags);
        prop_assert_eq!(read.coded().into_bytes(), &copy[11..]);

        let read = SourcePacket::parse(bytes.as_mut_slice()).expect("the packet is legal");
        prop_assert_eq!(associated_data(header.flow, sequence_low, flags).to_vec(), &copy[5..12]);
        let (ciphertext, tag) = read.into_coded().into_sealed().split();
        prop_assert_eq!((&*ciphertext, tag.as_slice()), copy[12..].split_at(application_bytes + 5));
    }

    #[test]
    fn envelopes_survive(
        role in select(EnvelopeRole::ALL), receiver in index(), counter_low in any::<u32>(), alias in alias(),
        sequence_low in any::<u32>(), application_bytes in 0..1_500_usize,
    ) {
        let header = EnvelopeHeader { role, receiver, counter_low, alias, sequence_low };
        let length = ENVELOPE_OVERHEAD + CODED_OVERHEAD + application_bytes;
        let mut bytes = packet(length, |header_bytes| header.emit(header_bytes));
        let copy = bytes.clone();
        let read = Envelope::parse(bytes.as_slice()).expect("the packet is legal");
        prop_assert_eq!((read.header(), read.coded()), (&header, &copy[16..length - 16]));
        let (authenticated, tag) = read.authenticated();
        prop_assert_eq!((authenticated, tag.as_slice()), copy.split_at(length - 16));
        let read = Envelope::parse(bytes.as_mut_slice()).expect("the packet is legal");
        prop_assert_eq!(read.into_coded(), &copy[16..length - 16]);
        let read = Envelope::parse(bytes.as_mut_slice()).expect("the packet is legal");
        prop_assert_eq!(&*read.into_bytes(), copy.as_slice());
    }

    #[test]
    fn message_packets_survive(receiver in index(), counter_low in any::<u32>(), messages_bytes in 0..1_500_usize) {
        let header = MessageHeader { receiver, counter_low };
        let mut bytes = packet(MESSAGE_OVERHEAD + messages_bytes, |header_bytes| header.emit(header_bytes));
        let copy = bytes.clone();
        let read = MessagePacket::parse(bytes.as_mut_slice()).expect("the packet is legal");
        prop_assert_eq!((read.header(), read.sealed()), (&header, &copy[9..]));
        prop_assert_eq!(&*read.into_bytes(), copy.as_slice());
        let read = MessagePacket::parse(bytes.as_mut_slice()).expect("the packet is legal");
        let (associated, sealed) = read.into_parts();
        let (ciphertext, tag) = sealed.split();
        prop_assert_eq!(associated, &copy[..9]);
        prop_assert_eq!((&*ciphertext, tag.as_slice()), copy[9..].split_at(messages_bytes));
    }

    #[test]
    fn transit_packets_are_message_packets_and_envelopes_of_other_kinds(
        receiver in index(), counter_low in any::<u32>(), alias in alias(), field in index(), bytes in 0..1_500_usize,
    ) {
        let message = MessageHeader { receiver, counter_low };
        let (role, sequence_low) = (EnvelopeRole::RelayedCopy, 7);
        let envelope = EnvelopeHeader { role, receiver, counter_low, alias, sequence_low };
        let mut packets = [
            packet(MESSAGE_OVERHEAD + bytes, |header_bytes| message.emit(header_bytes)),
            packet(ENVELOPE_OVERHEAD + CODED_OVERHEAD + bytes, |header_bytes| envelope.emit(header_bytes)),
        ];
        for (packet, kind) in packets.iter_mut().zip([Kind::TransitMessage, Kind::TransitEnvelope]) {
            packet[0] = kind.first_byte();
            let copy = packet.clone();
            let read = TransitPacket::parse(packet.as_mut_slice()).expect("the packet is legal");
            prop_assert_eq!((read.kind(), read.index(), read.counter_low()), (kind, receiver, counter_low));
            prop_assert_eq!(read.tag().as_slice(), &copy[copy.len() - 16..]);
            let labelled = TransitPacket::parse(read.readdressed(field)).expect("the packet is legal");
            prop_assert_eq!((labelled.index(), labelled.counter_low()), (field, counter_low));
            prop_assert_eq!(&*labelled.readdressed(receiver), copy.as_slice(), "no other byte changes");
        }
        let read = MessagePacket::parse_transit(packets[0].as_slice()).expect("the packet is legal");
        prop_assert_eq!(read.header(), &message);
        let read = Envelope::parse_transit(packets[1].as_slice()).expect("the packet is legal");
        prop_assert_eq!(read.header(), &envelope);
        prop_assert!(MessagePacket::parse(packets[0].as_slice()).is_err());
        prop_assert!(Envelope::parse(packets[1].as_slice()).is_err());
    }

    #[test]
    fn initiations_survive(
        purpose in select(Purpose::ALL), suite in select(Suite::ALL), shard in any::<u8>(),
        capabilities in capabilities(), sender in index(), payload_bytes in 17..300_usize,
    ) {
        let header = InitiationHeader { purpose, suite, shard: Shard::new(shard), capabilities, sender };
        let length = INITIATION_OVERHEAD + payload_bytes;
        let mut bytes = packet(length, |header_bytes| header.emit(header_bytes));
        bytes[5] = 0xFF;
        let read = InitiationPacket::parse(bytes.as_slice()).expect("the reserved byte is ignored");
        prop_assert_eq!(read.header(), &header);
        prop_assert_eq!((read.before_mac1(), read.mac1().as_slice()), bytes[..length - 16].split_at(length - 32));
        prop_assert_eq!((read.before_mac2(), read.mac2().as_slice()), bytes.split_at(length - 16));
        prop_assert_eq!(read.noise_message(), &bytes[12..length - 32]);
        prop_assert_eq!(read.prologue().to_vec(), [b"byway", &bytes[..12]].concat(), "as it was sent");
    }

    #[test]
    fn responses_survive(receiver in index(), payload_bytes in 14..300_usize) {
        let header = ResponseHeader { receiver };
        let length = RESPONSE_OVERHEAD + payload_bytes;
        let bytes = packet(length, |header_bytes| header.emit(header_bytes));
        let read = ResponsePacket::parse(bytes.as_slice()).expect("the packet is legal");
        prop_assert_eq!((read.header(), read.noise_message()), (&header, &bytes[8..]));
    }

    #[test]
    fn cookies_survive(receiver in index(), salt in any::<[u8; 16]>()) {
        let header = CookieHeader { receiver, salt };
        let bytes = packet(COOKIE_PACKET_BYTES, |header_bytes| header.emit(header_bytes));
        let read = CookiePacket::parse(bytes.as_slice()).expect("the packet is legal");
        prop_assert_eq!(read.header(), &header);
        let (cookie, tag) = read.sealed();
        prop_assert_eq!((cookie.as_slice(), tag.as_slice()), bytes[24..].split_at(16));
    }

    #[test]
    fn plaintexts_survive(sent in timestamp(), marks in any::<u8>(), dscp in 0..64_u8, flags in flags(), datagram in payload()) {
        let (traffic_class, unprotected) = (TrafficClass::new(dscp, Ecn::from_bits(marks)), UnprotectedMask::from_bits(marks >> 2));
        let plaintext = Plaintext { sent, traffic_class, unprotected, datagram: &datagram };
        let bytes = [&plaintext.head()[..], plaintext.dscp().as_slice(), &datagram].concat();
        prop_assert_eq!((bytes[4], bytes.len()), (marks, 5 + usize::from(dscp > 0) + datagram.len()));
        prop_assert_eq!(Plaintext::parse(&bytes, flags.with_dscp_of(traffic_class)), Ok(plaintext));
    }

    #[test]
    fn payloads_of_handshakes_survive(
        handshake_timestamp in any::<u64>(), incarnation in any::<u64>(), epoch in any::<u8>(), index in index(),
        capabilities in capabilities(), messages in payload(),
    ) {
        let payload = InitiationPayload { handshake_timestamp, incarnation: Incarnation::new(incarnation), epoch: Epoch::new(epoch) };
        let bytes = [&payload.to_bytes()[..], &messages].concat();
        prop_assert_eq!(InitiationPayload::parse(&bytes), Ok((payload, messages.as_slice())));
        let payload = ResponsePayload { index, capabilities, incarnation: Incarnation::new(incarnation) };
        let bytes = [&payload.to_bytes()[..], &messages].concat();
        prop_assert_eq!(ResponsePayload::parse(&bytes), Ok((payload, messages.as_slice())));
    }

    #[test]
    fn grants_survive(grant in grant()) {
        let bytes = grant.to_bytes();
        prop_assert_eq!(Grant::parse(&bytes), Ok(grant));
        prop_assert_eq!([grant.fields().as_slice(), &grant.signature].concat(), bytes);
    }

    #[test]
    fn a_grant_that_is_read_gives_its_bytes_again(grant in grant(), index in 0..173_usize, byte in any::<u8>()) {
        let mut bytes = grant.to_bytes();
        bytes[index] = byte;
        if let Ok(grant) = Grant::parse(&bytes) {
            prop_assert_eq!(grant.to_bytes(), bytes);
        }
    }

    #[test]
    fn credentials_survive(
        is_agent in any::<bool>(), number in any::<u32>(), not_after_unix_seconds in any::<u64>(), key in key(),
        signature in signature(),
    ) {
        let member = if is_agent {
            Member::Agent(AgentId::new(number >> 1))
        } else {
            Member::Relay(RelayId::new(number))
        };
        let credential = Credential { member, not_after_unix_seconds, key, signature };
        let bytes = credential.to_bytes();
        prop_assert_eq!(Credential::parse(&bytes), Ok(credential));
        prop_assert_eq!([credential.fields().as_slice(), &signature].concat(), bytes);
    }

    #[test]
    fn any_datagram_is_survived(kind in 3..13_u8, rest in vec(any::<u8>(), 0..200)) {
        let mut bytes = [&[kind][..], &rest].concat();
        if let Ok(packet) = Packet::parse(&mut bytes) {
            prop_assert_eq!(packet.kind().first_byte(), kind);
        }
    }

    #[test]
    fn any_other_bytes_are_survived(bytes in vec(prop_oneof![any::<u8>(), 0..3_u8], 0..200)) {
        if let Ok(coded) = CodedBytes::parse(bytes.clone().as_mut_slice()) {
            let (ciphertext, tag) = coded.into_sealed().split();
            prop_assert_eq!((&*ciphertext, tag.as_slice()), bytes[1..].split_at(bytes.len() - 17));
        }
        if let Ok(grant) = Grant::parse(&bytes) {
            prop_assert!(grant.to_bytes() == *bytes);
        }
        if let Ok(credential) = Credential::parse(&bytes) {
            prop_assert!(credential.to_bytes() == *bytes);
        }
        let _ = Plaintext::parse(&bytes, Flags::from_wire(bytes.first().copied().unwrap_or(0)));
        let _ = (InitiationPayload::parse(&bytes), ResponsePayload::parse(&bytes));
    }
}

#[test]
fn sizes_are_those_of_the_description() {
    assert_eq!(SOURCE_OVERHEAD, 33);
    assert_eq!(ENVELOPE_OVERHEAD + CODED_OVERHEAD, 54);
    assert_eq!((INITIATION_BYTES_MIN, RESPONSE_BYTES_MIN, COOKIE_PACKET_BYTES), (157, 70, 56));
    assert_eq!((Grant::BYTES, Credential::BYTES), (173, 110));
    let in_stream = MESSAGE_OVERHEAD + byway_wire::messages::InStreamHead::BYTES + CODED_OVERHEAD;
    assert_eq!(in_stream, 63);
    let cross_stream = |packets, with_digests| {
        let head = byway_wire::messages::CrossStreamHead::bytes(packets, with_digests);
        MESSAGE_OVERHEAD + head + CODED_OVERHEAD
    };
    assert_eq!((cross_stream(0, false), cross_stream(1, false), cross_stream(1, true)), (58, 64, 68));
    // On a path with a payload of 1,472 bytes, repairs of ten packets of 1,354 bytes fit.
    assert_eq!(cross_stream(10, false) + 1_354, 1_472);
}

#[test]
fn datagrams_of_any_legal_length_are_read() {
    let mut bytes = vec![8; DATAGRAM_BYTES_MAX + 1];
    assert!(Packet::parse(&mut bytes[..DATAGRAM_BYTES_MAX]).is_ok());
    let too_long = ParseError::TooLong { thing: "datagram", bytes: 65_508, allowed: 65_507 };
    assert_eq!(Packet::parse(&mut bytes).map(|packet| packet.kind()), Err(too_long));
}

#[test]
fn kinds_without_packets_are_refused() {
    for kind in (0..=3).chain(12..=u8::MAX) {
        let packet = Packet::parse(&mut [kind; 200]).map(|packet| packet.kind());
        assert_eq!(packet, Err(ParseError::UnknownKind { kind }));
    }
    assert_eq!(Kind::from_first_byte(Kind::GREASE), None);
}

#[test]
fn a_view_refuses_packets_of_other_kinds() {
    for kind in Kind::ALL {
        let bytes = vec![kind.first_byte(); COOKIE_PACKET_BYTES];
        assert_eq!(SourcePacket::parse(&bytes).is_ok(), *kind == Kind::Source);
        assert_eq!(MessagePacket::parse(&bytes).is_ok(), *kind == Kind::Message);
        assert_eq!(CookiePacket::parse(&bytes).is_ok(), *kind == Kind::Cookie);
        assert_eq!(MessagePacket::parse_transit(&bytes).is_ok(), *kind == Kind::TransitMessage);
        let is_transit = matches!(kind, Kind::TransitMessage | Kind::TransitEnvelope);
        assert_eq!(TransitPacket::parse(&bytes).is_ok(), is_transit);
        let bytes = vec![kind.first_byte(); RESPONSE_BYTES_MIN];
        assert_eq!(ResponsePacket::parse(&bytes).is_ok(), *kind == Kind::Response);
        let mut bytes = [kind.first_byte(); INITIATION_BYTES_MIN];
        bytes[1..4].fill(1);
        assert_eq!(InitiationPacket::parse(&bytes).is_ok(), *kind == Kind::Initiation);
    }
}

#[test]
fn packets_of_handshakes_have_a_least_length() {
    let mut initiation = [4; INITIATION_BYTES_MIN];
    initiation[1..4].fill(1);
    for length in 0..INITIATION_BYTES_MIN {
        let needed = INITIATION_BYTES_MIN;
        let error = ParseError::TooShort { thing: "initiation", field: "all", needed, left: length };
        assert_eq!(InitiationPacket::parse(&initiation[..length]).err(), Some(error));
    }
    let response = [5; RESPONSE_BYTES_MIN];
    for length in 0..RESPONSE_BYTES_MIN {
        let needed = RESPONSE_BYTES_MIN;
        let error = ParseError::TooShort { thing: "response", field: "all", needed, left: length };
        assert_eq!(ResponsePacket::parse(&response[..length]).err(), Some(error));
    }
}

#[test]
fn a_session_index_names_its_shard() {
    let index = SessionIndex::in_shard(Shard::new(0xAB), 0xFFFF_FFFF);
    assert_eq!((index.number(), index.shard()), (0xAB7F_FFFF, Shard::new(0xAB)));
    assert_eq!(SessionIndex::new(0x0100_0000).shard(), Shard::new(1));
}

#[test]
fn a_transit_label_is_told_from_every_session_index() {
    let label = TransitLabel::new(TransitLabel::MAX).expect("127 is legal");
    let field = SessionIndex::of_transit(Shard::new(2), label, [0xCD, 0xEF]);
    assert_eq!((field.number(), field.shard()), (0x02FF_CDEF, Shard::new(2)));
    assert_eq!((field.is_transit(), field.transit_label()), (true, Some((label, [0xCD, 0xEF]))));
    let index = SessionIndex::in_shard(Shard::new(2), u32::MAX);
    assert_eq!((index.is_transit(), index.transit_label()), (false, None));
    let unassigned = SessionIndex::new(0x0280_CDEF);
    assert_eq!((unassigned.is_transit(), unassigned.transit_label()), (true, None));
    assert_eq!([0, 128, 255].map(TransitLabel::new), [None; 3]);
}

#[test]
fn epochs_go_round() {
    assert_eq!((Epoch::new(254).low_bits(), Epoch::new(254).next()), (2, Epoch::new(255)));
    assert_eq!(Epoch::new(255).next(), Epoch::new(0));
}

#[test]
fn a_sequence_number_is_found_again_from_what_a_packet_carries() {
    let number = SequenceNumber::new((3 << 32) + 5);
    let highest = SequenceNumber::new((3 << 32) - 7);
    assert_eq!(SequenceNumber::nearest(number.low(), highest), number);
    assert_eq!(SequenceNumber::FIRST.next(), SequenceNumber::new(1));
}

#[test]
#[should_panic(expected = "agent 2147483648: the numbers of agents are below 2^31")]
fn a_flow_key_of_an_agent_that_would_be_a_group_is_a_broken_invariant() {
    let receiver = byway_wire::Receiver::Agent(AgentId::new(1 << 31));
    let _ = byway_wire::FlowKey::new(AgentId::new(1), receiver, FlowId::new(1));
}
