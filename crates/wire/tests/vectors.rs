//! The published test vectors, made by the script `docs/wire-vectors.py`.

mod support;

use byway_units::FlowId;
use byway_wire::packets::{Kind, TransitPacket};
use byway_wire::{
    Address, CodedBytes, Credential, Flags, Grant, InitiationPayload, Message, Messages, Packet, ParseError,
    Plaintext, ResponsePayload, SessionIndex, associated_data,
};
use support::describe::{self, FieldList};
use support::emitted;
use support::vectors::{Vector, all, bytes};

/// Returns all vectors that begin with `directive`.
fn vectors(directive: &str) -> Vec<Vector> {
    let mut vectors = all();
    vectors.retain(|vector| vector.directive == directive);
    assert!(!vectors.is_empty(), "there are no vectors {directive}");
    vectors
}

/// Returns the bytes of the only field with this name.
fn field(vector: &Vector, name: &str) -> Vec<u8> {
    let values: Vec<_> = vector.fields.iter().filter_map(|field| field.split_once(' ')).collect();
    let (_, hex) = values.iter().find(|(found, _)| *found == name).expect("the vector has the field");
    bytes(hex)
}

fn names(vectors: &[Vector]) -> Vec<&'static str> {
    let mut names: Vec<_> = vectors.iter().map(|vector| vector.name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[test]
fn packets_say_what_is_published() {
    let vectors = vectors("packet");
    assert_eq!(names(&vectors).len(), Kind::ALL.len());
    for mut vector in vectors {
        let packet = Packet::parse(&mut vector.bytes).unwrap_or_else(|error| panic!("{error}"));
        let (name, lines) = describe::packet(packet);
        assert_eq!((name, lines.0), (vector.name, vector.fields.iter().map(ToString::to_string).collect()));
    }
}

/// Writes the packet's header over zeros.
fn with_header_rewritten(bytes: &[u8]) -> Vec<u8> {
    fn over<const N: usize>(bytes: &[u8], emit: impl FnOnce(&mut [u8; N])) -> Vec<u8> {
        let mut rewritten = bytes.to_vec();
        let header = rewritten.first_chunk_mut().expect("packets are longer than headers");
        *header = [0; N];
        emit(header);
        rewritten
    }

    match Packet::parse(&mut bytes.to_vec()).expect("published packets are legal") {
        Packet::Initiation(packet) => over(bytes, |header| packet.header().emit(header)),
        Packet::Response(packet) => over(bytes, |header| packet.header().emit(header)),
        Packet::Cookie(packet) => over(bytes, |header| packet.header().emit(header)),
        Packet::Source(packet) => over(bytes, |header| packet.header().emit(header)),
        Packet::Message(packet) => over(bytes, |header| packet.header().emit(header)),
        Packet::Envelope(packet) => over(bytes, |header| packet.header().emit(header)),
        Packet::Transit(packet) => {
            let index = packet.index();
            let without = packet.readdressed(SessionIndex::new(0));
            TransitPacket::parse(without).expect("its kind stays").readdressed(index).to_vec()
        }
    }
}

#[test]
fn headers_are_written_as_published() {
    for vector in vectors("packet") {
        assert_eq!(with_header_rewritten(&vector.bytes), vector.bytes, "{}", vector.name);
    }
}

#[test]
fn messages_say_what_is_published_and_are_written_so() {
    let vectors = vectors("message");
    // Every type of wire.md, and an undefined one.
    assert_eq!(names(&vectors).len(), 35);
    for vector in vectors {
        let message = only_message(&vector.bytes).unwrap_or_else(|error| panic!("{}: {error}", vector.name));
        let (name, lines) = describe::message(&message);
        assert_eq!((name, lines.0), (vector.name, vector.fields.iter().map(ToString::to_string).collect()));
        assert_eq!(emitted(&[message]), vector.bytes, "{name}");
    }
}

fn only_message(bytes: &[u8]) -> Result<Message<'_>, ParseError> {
    let mut messages = Messages::new(bytes);
    let first = messages.next().expect("there is a message");
    assert!(messages.next().is_none(), "there is one message");
    first
}

#[test]
fn what_later_versions_add_is_ignored() {
    for vector in vectors("accepted") {
        let message = only_message(&vector.bytes).unwrap_or_else(|error| panic!("{}: {error}", vector.name));
        let (name, lines) = describe::message(&message);
        assert_eq!((name, lines.0), (vector.name, vector.fields.iter().map(ToString::to_string).collect()));
        let rewritten = emitted(&[message]);
        assert_ne!(rewritten, vector.bytes, "{name}: nothing was ignored");
        assert_eq!(only_message(&rewritten), Ok(message), "{name}");
    }
}

#[test]
fn the_other_parts_say_what_is_published_and_are_written_so() {
    let vectors = vectors("part");
    assert_eq!(names(&vectors).len(), 9);
    for vector in vectors {
        let (lines, rewritten) = part(&vector);
        assert_eq!(lines.0, vector.fields, "{}", vector.name);
        assert_eq!(rewritten, vector.bytes, "{}", vector.name);
    }
}

/// Returns the flags of the packet with this plaintext.
fn flags(name: &str) -> Flags {
    Flags::from_wire(if name == "plaintext" { 0 } else { 1 << 6 })
}

/// Returns the fields of a part's bytes, and the bytes encoded again.
fn part(vector: &Vector) -> (FieldList, Vec<u8>) {
    let bytes = &vector.bytes;
    let mut lines = FieldList::default();
    let rewritten = match vector.name {
        "plaintext" | "plaintext-with-dscp" => {
            let plaintext = Plaintext::parse(bytes, flags(vector.name)).expect("published parts are legal");
            lines
                .add("sent", plaintext.sent.micros())
                .word("ecn", plaintext.traffic_class.ecn())
                .add("unprotected", plaintext.unprotected.bits());
            plaintext.dscp().iter().for_each(|dscp| _ = lines.add("dscp", *dscp));
            lines.hex("datagram", plaintext.datagram);
            [&plaintext.head()[..], plaintext.dscp().as_slice(), plaintext.datagram].concat()
        }
        "coded" => {
            let mut copy = bytes.clone();
            let coded = CodedBytes::parse(copy.as_mut_slice()).expect("published parts are legal");
            let rewritten = coded.as_bytes().to_vec();
            lines.flags(coded.flags()).hex("sealed", &coded.as_bytes()[1..]);
            rewritten
        }
        "associated-data" => associated(bytes, &mut lines),
        "initiation-payload" => initiation_payload(bytes, &mut lines),
        "response-payload" => response_payload(bytes, &mut lines),
        "grant" => {
            let grant = Grant::parse(bytes).expect("published parts are legal");
            lines = describe::grant(&grant);
            grant.to_bytes().to_vec()
        }
        "credential" => {
            let credential = Credential::parse(bytes).expect("published parts are legal");
            lines = describe::credential(&credential);
            credential.to_bytes().to_vec()
        }
        "mapped-address" => mapped_address(vector, &mut lines),
        name => panic!("not a part: {name}"),
    };
    (lines, rewritten)
}

/// Associated data have no parser of their own, so the fields come from a packet that ends in coded
/// bytes.
fn associated(bytes: &[u8], lines: &mut FieldList) -> Vec<u8> {
    let &[f0, f1, s0, s1, s2, s3, flags] = bytes else { panic!("not associated data: {bytes:?}") };
    let coded = [&[flags][..], &[0; 21]].concat();
    let flags: Flags = CodedBytes::parse(coded).expect("published flags are legal").flags();
    let (flow, sequence_low) = (u16::from_be_bytes([f0, f1]), u32::from_be_bytes([s0, s1, s2, s3]));
    lines.add("flow", flow).add("sequence-low", sequence_low).flags(flags);
    associated_data(FlowId::new(flow), sequence_low, flags).to_vec()
}

fn initiation_payload(bytes: &[u8], lines: &mut FieldList) -> Vec<u8> {
    let (payload, messages) = InitiationPayload::parse(bytes).expect("published parts are legal");
    lines
        .add("handshake-timestamp", payload.handshake_timestamp)
        .add("incarnation", payload.incarnation.number());
    lines.add("epoch", payload.epoch.number()).hex("messages", messages);
    [&payload.to_bytes(), emitted_again(messages).as_slice()].concat()
}

fn response_payload(bytes: &[u8], lines: &mut FieldList) -> Vec<u8> {
    let (payload, messages) = ResponsePayload::parse(bytes).expect("published parts are legal");
    lines.add("index", payload.index.number()).add("capabilities", payload.capabilities.bits());
    lines.add("incarnation", payload.incarnation.number()).hex("messages", messages);
    [&payload.to_bytes(), emitted_again(messages).as_slice()].concat()
}

/// Parses the messages and encodes them again.
fn emitted_again(messages: &[u8]) -> Vec<u8> {
    let messages: Vec<_> = Messages::new(messages).map(|message| message.expect("it is legal")).collect();
    emitted(&messages)
}

/// Mapped addresses have no parser, so the address comes from the vector.
fn mapped_address(vector: &Vector, lines: &mut FieldList) -> Vec<u8> {
    let shown = vector.fields[0].strip_prefix("address ").expect("the vector has an address");
    let (ip, port) = shown.split_once(' ').expect("an address has a port");
    let address = Address { ip: ip.parse().expect("an IP address"), port: port.parse().expect("a port") };
    lines.add("address", shown);
    address.mapped().to_vec()
}

#[test]
fn what_is_published_as_illegal_is_refused() {
    for mut vector in vectors("refused") {
        let error = match vector.name {
            "packet" => Packet::parse(&mut vector.bytes).map(|packet| format!("{packet:?}")),
            "message" => only_message(&vector.bytes).map(|message| format!("{message:?}")),
            "plaintext" | "plaintext-with-dscp" => {
                Plaintext::parse(&vector.bytes, flags(vector.name)).map(|part| format!("{part:?}"))
            }
            "coded" => CodedBytes::parse(&vector.bytes).map(|part| format!("{part:?}")),
            "initiation-payload" => InitiationPayload::parse(&vector.bytes).map(|part| format!("{part:?}")),
            "response-payload" => ResponsePayload::parse(&vector.bytes).map(|part| format!("{part:?}")),
            "grant" => Grant::parse(&vector.bytes).map(|part| format!("{part:?}")),
            "credential" => Credential::parse(&vector.bytes).map(|part| format!("{part:?}")),
            name => panic!("not a thing: {name}"),
        };
        assert!(error.is_err(), "{} reads as {error:?}", vector.name);
    }
}

#[test]
fn the_registered_grant_is_the_published_one() {
    let registers = vectors("message").into_iter().filter(|vector| vector.name == "register");
    let grants: Vec<_> = registers.filter_map(|vector| Grant::parse(&field(&vector, "grant")).ok()).collect();
    assert_eq!(grants.len(), 1);
}
