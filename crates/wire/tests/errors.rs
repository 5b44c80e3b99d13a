//! Errors name the packet or message, the field, the value found and the legal values.

use byway_wire::messages::Message;
use byway_wire::packets::{CookiePacket, SourcePacket};
use byway_wire::{Flags, Grant, Messages, Packet, ParseError, Plaintext};

/// Returns the text of an error, which must exist.
fn error_text<T>(result: Result<T, ParseError>) -> String {
    result.err().expect("the bytes are illegal").to_string()
}

#[test]
fn an_unknown_kind_is_named() {
    assert_eq!(error_text(Packet::parse(&mut [15; 40])), "unknown packet kind 15: allowed are 4 to 11");
}

#[test]
fn a_cut_field_is_named() {
    assert_eq!(error_text(Packet::parse(&mut [])), "datagram: kind needs 1 bytes, 0 are left");
    assert_eq!(error_text(Packet::parse(&mut [7; 32])), "source packet: all needs 33 bytes, 32 are left");
    assert_eq!(error_text(Packet::parse(&mut [4; 3])), "initiation: all needs 157 bytes, 3 are left");
    let nack = Message::parse(18, &[0, 1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(error_text(nack), "NACK: repair lifetime needs 4 bytes, 2 are left");
    assert_eq!(
        error_text(Plaintext::parse(&[0; 4], Flags::from_wire(0))),
        "plaintext of a source packet: marks needs 1 bytes, 0 are left"
    );
}

#[test]
fn a_cut_message_is_named() {
    let first = |bytes| Messages::new(bytes).next().expect("there is a message");
    assert_eq!(error_text(first(&[20, 0])), "message: type and length needs 3 bytes, 2 are left");
    assert_eq!(error_text(first(&[20, 0, 6, 1])), "message: body needs 6 bytes, 1 are left");
}

#[test]
fn what_is_too_long_is_named() {
    assert_eq!(error_text(CookiePacket::parse([6; 57])), "cookie: 57 bytes, allowed are 56");
    assert_eq!(error_text(Grant::parse(&[1; 174])), "grant: 174 bytes, allowed are 173");
}

#[test]
fn an_illegal_value_is_named_with_those_allowed() {
    assert_eq!(error_text(SourcePacket::parse([8; 33])), "source packet: kind is 8, allowed is 7");
    assert_eq!(
        error_text(Packet::parse(&mut [&[9, 7][..], &[9; 52]].concat())),
        "envelope: role is 7, allowed is 0, 1, 2, 3, 4, 5, 6, 8, 9"
    );
    assert_eq!(error_text(Packet::parse(&mut [4; 157])), "initiation: version is 4, allowed is 1");
    assert_eq!(error_text(Message::parse(38, &[7])), "close: reason is 7, allowed is 0, 1, 2");
    assert_eq!(error_text(Message::parse(20, &[0; 6])), "ACK: alias is 0, allowed is 1 to 65535");
}

#[test]
fn a_range_out_of_order_is_named() {
    let ranges = [0, 1, 2, 0, 0, 0, 5, 0, 2, 0, 0, 0, 6, 0, 1];
    let expected = "confirm: range 1 begins at 6; ranges must be ascending and disjoint, within 2^32";
    assert_eq!(error_text(Message::parse(23, &ranges)), expected);
}

#[test]
fn errors_are_small() {
    assert!(size_of::<ParseError>() <= 64, "{} bytes", size_of::<ParseError>());
}
