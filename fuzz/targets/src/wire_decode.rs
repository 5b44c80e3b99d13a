//! Fuzz target: arbitrary bytes, parsed as all parts of the wire format. Legal bytes must have the
//! same meaning after encoding them again.

use byway_wire::limits::{MESSAGES_BYTES_MAX, RANGE_LENGTH_MAX};
use byway_wire::packets::{InitiationPacket, SourcePacket};
use byway_wire::{
    CodedBytes, Credential, Flags, Grant, InitiationPayload, Message, Messages, Packet, Plaintext, Ranges,
    ResponsePayload, Writer, associated_data,
};

/// Parses the bytes as a packet, as messages, and as every part of these.
///
/// # Panics
/// If parsing, encoding and parsing again disagree.
pub fn wire_decode(bytes: &[u8]) {
    packet(bytes);
    messages(bytes);
    payloads_of_handshakes(bytes);
    inside_of_source_packets(bytes);
    signed(bytes);
}

fn packet(bytes: &[u8]) {
    let mut copy = bytes.to_vec();
    let Ok(packet) = Packet::parse(&mut copy) else { return };
    assert_eq!(packet.kind().first_byte(), bytes[0]);
    header_written_again(&packet, bytes);
    // The concatenated parts of a packet must equal the packet.
    match packet {
        Packet::Initiation(packet) => initiation(packet, bytes),
        Packet::Response(packet) => assert_eq!(packet.noise_message(), &bytes[8..]),
        Packet::Cookie(packet) => {
            let (cookie, tag) = packet.sealed();
            assert_eq!([*cookie, *tag].as_flattened(), &bytes[24..]);
        }
        Packet::Source(packet) => source(packet, bytes),
        Packet::Message(packet) => {
            let (associated, sealed) = packet.into_parts();
            let (ciphertext, tag) = sealed.split();
            assert_eq!([associated, ciphertext, tag].concat(), bytes);
        }
        Packet::Envelope(packet) => {
            let (authenticated, tag) = packet.authenticated();
            assert_eq!([authenticated, tag].concat(), bytes);
            assert_eq!(&authenticated[16..], packet.coded());
        }
        Packet::Transit(packet) => {
            assert_eq!((packet.length(), packet.tag().as_slice()), (bytes.len(), &bytes[bytes.len() - 16..]));
            let index = packet.index();
            assert_eq!(packet.readdressed(index), bytes);
        }
    }
}

/// Checks that a header is unchanged after encoding and parsing it again.
fn header_written_again(packet: &Packet<'_>, bytes: &[u8]) {
    let header = header_of(packet);
    let mut again = [&header, &bytes[header.len()..]].concat();
    let packet = Packet::parse(&mut again).expect("written headers are legal");
    assert_eq!(header_of(&packet), header);
}

fn header_of(packet: &Packet<'_>) -> Vec<u8> {
    fn emit_header<const N: usize>(emit: impl FnOnce(&mut [u8; N])) -> Vec<u8> {
        let mut header = [0xAA; N];
        emit(&mut header);
        header.to_vec()
    }

    match packet {
        Packet::Initiation(packet) => emit_header(|header| packet.header().emit(header)),
        Packet::Response(packet) => emit_header(|header| packet.header().emit(header)),
        Packet::Cookie(packet) => emit_header(|header| packet.header().emit(header)),
        Packet::Source(packet) => emit_header(|header| packet.header().emit(header)),
        Packet::Message(packet) => emit_header(|header| packet.header().emit(header)),
        Packet::Envelope(packet) => emit_header(|header| packet.header().emit(header)),
        Packet::Transit(packet) => vec![packet.kind().first_byte()],
    }
}

fn initiation(packet: InitiationPacket<&[u8]>, bytes: &[u8]) {
    assert_eq!([packet.before_mac1(), packet.mac1(), packet.mac2()].concat(), bytes);
    assert_eq!([packet.before_mac2(), packet.mac2()].concat(), bytes);
    let prologue = packet.prologue();
    let header = prologue.strip_prefix(b"byway").expect("the prologue begins with it");
    assert_eq!([header, packet.noise_message()].concat(), bytes[..bytes.len() - 32]);
}

fn source(packet: SourcePacket<&mut [u8]>, bytes: &[u8]) {
    let header = *packet.header();
    let coded = packet.coded().into_bytes();
    assert_eq!(coded, &bytes[11..]);
    assert_eq!(CodedBytes::parse(coded).map(|coded| coded.flags()), Ok(header.flags));
    let associated = associated_data(header.flow, header.sequence_low, header.flags);
    assert_eq!(associated, bytes[5..12]);
    let (ciphertext, tag) = packet.into_coded().into_sealed().split();
    assert_eq!([ciphertext, tag.as_slice()].concat(), bytes[12..]);
}

/// Parses all messages. Legal ones must be unchanged after encoding and parsing them again.
fn messages(bytes: &[u8]) {
    let mut count = 0;
    for message in Messages::new(bytes) {
        count += 1;
        if let Ok(message) = message {
            written_again(&message, bytes.len());
            lists(&message);
        }
    }
    assert!(count <= bytes.len().div_ceil(3), "{count} messages in {} bytes", bytes.len());
}

/// Bytes of the fields at the ends of messages that those of earlier versions lack. A report
/// without them is written with `resent`, `detection` and the count of relays.
const LATER_FIELDS_BYTES: usize = 9;

/// Checks that a message is unchanged after encoding and parsing it again, and not longer, but for
/// fields that messages of earlier versions lack.
fn written_again(message: &Message<'_>, bytes_max: usize) {
    let mut buffer = vec![0xAA; bytes_max + LATER_FIELDS_BYTES];
    let mut writer = Writer::new(&mut buffer);
    if message.emit(&mut writer).is_err() {
        assert!(bytes_max > MESSAGES_BYTES_MAX, "{message:?} has grown");
        return;
    }
    let mut read = Messages::new(writer.as_bytes());
    assert_eq!(read.next(), Some(Ok(*message)));
    assert_eq!(read.next(), None);
    in_front(message, writer.as_bytes());
}

/// Checks that a repair's head before its payload yields the same bytes as the whole message.
fn in_front(message: &Message<'_>, written: &[u8]) {
    let mut front = [0xAA; 400];
    let (start, payload) = match message {
        Message::InStreamRepair(repair) => {
            (repair.head.emit_in_front(&mut front, repair.payload.len()), repair.payload)
        }
        Message::CrossStreamRepair(repair) => {
            (repair.head.emit_in_front(&mut front, repair.payload.len()), repair.payload)
        }
        _ => return,
    };
    let start = start.expect("heads are shorter than 400 bytes");
    assert_eq!([&front[start..], payload].concat(), written);
}

fn lists(message: &Message<'_>) {
    match message {
        Message::Nack(message) => ranges(message.ranges),
        Message::CopyNack(message) => ranges(message.ranges),
        Message::CooperativeRequest(message) => ranges(message.ranges),
        Message::CooperativeRefusal(message) => ranges(message.ranges),
        Message::Confirm(message) => ranges(message.ranges),
        Message::Aliases(message) => assert_eq!(message.flows.iter().count(), message.flows.len()),
        Message::AliasesReply(message) => {
            assert_eq!(message.aliases.iter().count(), message.aliases.len());
            assert!([0, message.aliases.len()].contains(&message.networks.iter().count()));
        }
        Message::Candidates(message) => {
            assert_eq!(message.addresses.iter().count(), message.addresses.len());
        }
        Message::CrossStreamRepair(message) => {
            let cover = message.head.cover;
            assert!((1..=32).contains(&cover.entries().iter().count()));
            assert!(cover.digests().is_none_or(|digests| digests.len() == cover.entries().len()));
        }
        Message::InStreamRepair(message) => {
            let mask = message.head.mask;
            assert!(mask.offsets().next() == Some(0) && mask.offsets().count() == mask.count() as usize);
        }
        Message::Register(message) => signed(message.grant),
        _ => {}
    }
}

/// Checks that sequence numbers rise, counted from the first.
fn ranges(ranges: Ranges<'_>) {
    assert!(ranges.len() <= 32);
    let first = ranges.iter().next().map_or(0, |range| range.first_low());
    let mut end = 0;
    for range in ranges.iter() {
        assert!((1..=RANGE_LENGTH_MAX).contains(&range.length()));
        let offset = u64::from(range.first_low().wrapping_sub(first));
        assert!(offset >= end, "{ranges:?}");
        end = offset + u64::from(range.length());
    }
    assert!(end <= 1 << 32, "{ranges:?}");
}

fn payloads_of_handshakes(bytes: &[u8]) {
    if let Ok((payload, rest)) = InitiationPayload::parse(bytes) {
        assert_eq!([&payload.to_bytes(), rest].concat(), bytes);
        messages(rest);
    }
    if let Ok((payload, rest)) = ResponsePayload::parse(bytes) {
        // Undefined capabilities are omitted.
        let again = [&payload.to_bytes(), rest].concat();
        assert_eq!(ResponsePayload::parse(&again), Ok((payload, rest)));
        messages(rest);
    }
}

fn inside_of_source_packets(bytes: &[u8]) {
    for flags in [0, 1 << 6].map(Flags::from_wire) {
        if let Ok(plaintext) = Plaintext::parse(bytes, flags) {
            let again =
                [plaintext.head().as_slice(), plaintext.dscp().as_slice(), plaintext.datagram].concat();
            assert_eq!(Plaintext::parse(&again, flags), Ok(plaintext));
        }
    }
    let mut copy = bytes.to_vec();
    if let Ok(coded) = CodedBytes::parse(copy.as_mut_slice()) {
        let (ciphertext, tag) = coded.into_sealed().split();
        assert_eq!([ciphertext, tag.as_slice()].concat(), bytes[1..]);
    }
}

/// Checks that signed structures encode to exactly the same bytes.
fn signed(bytes: &[u8]) {
    if let Ok(grant) = Grant::parse(bytes) {
        assert_eq!(grant.to_bytes(), bytes);
        assert_eq!(grant.fields(), bytes[..109]);
    }
    if let Ok(credential) = Credential::parse(bytes) {
        assert_eq!(credential.to_bytes(), bytes);
        assert_eq!(credential.fields(), bytes[..46]);
    }
}
