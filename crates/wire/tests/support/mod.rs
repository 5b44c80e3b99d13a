//! Support code of the wire format's tests.

#![allow(dead_code, reason = "every test file uses its own part of this module")]

pub(crate) mod describe;
pub(crate) mod handshakes;
pub(crate) mod strategies;
pub(crate) mod vectors;

use byway_wire::{Message, Writer};

/// Encodes messages, each with type and length.
pub(crate) fn emitted(messages: &[Message<'_>]) -> Vec<u8> {
    let mut buffer = vec![0xAA; 70_000];
    let mut writer = Writer::new(&mut buffer);
    for message in messages {
        message.emit(&mut writer).expect("the buffer is long enough");
    }
    writer.into_bytes().to_vec()
}
