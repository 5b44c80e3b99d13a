//! The initiator: writes an initiation, waits, reads the response.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use snow::HandshakeState;
use snow::error::Error;

use super::super::aead::{KEY_BYTES, Suite};
use super::super::cookie::{self, Asked, Cookie, CookieError};
use super::super::limits::{HANDSHAKE_BYTES_MAX, RESPONSES_MAX};
use super::super::mac::{self, MAC_BYTES, Mac1Key};
use super::super::noise;
use super::super::split_keys::SplitKeys;
use super::super::static_key::{PreSharedKey, PublicKey, StaticSecret};
use super::header::{
    Header, INITIATION_BYTES_MIN, INITIATION_FIELDS_BYTES, INITIATION_HEADER_BYTES, MACS_BYTES,
    MESSAGE_2_OVERHEAD, Purpose, RESPONSE_BYTES_MIN, RESPONSE_HEADER_BYTES, RESPONSE_KIND, prologue, take,
};
use super::{ResponseError, WriteError};

/// What an initiation says.
#[derive(Clone, Copy, Debug)]
pub struct Initiation<'a> {
    /// What the session is for.
    pub purpose: Purpose,
    /// The ciphers of handshake and session.
    pub suite: Suite,
    /// The relay's shard that is asked for.
    pub shard: u8,
    /// What this side can do, bit by bit.
    pub capabilities: u16,
    /// The index that this side wants to see in what it receives.
    pub sender_index: u32,
    /// Nanoseconds, more than in any initiation of this node before.
    pub stamp: u64,
    /// Random, and constant for one run of this node.
    pub boot: u64,
    /// The number of the epoch that begins.
    pub epoch: u8,
    /// Messages for the responder, encoded.
    pub messages: &'a [u8],
}

impl Initiation<'_> {
    /// The packet, with zeros for `mac2`, and what is needed to read the response to it.
    ///
    /// `seed` is 32 secret bytes, fresh for each initiation: the ephemeral secret. The same input gives the
    /// same packet.
    ///
    /// # Errors
    /// If the messages do not fit in a datagram, or `responder` is a key that agrees on nothing.
    pub fn write(
        &self,
        secret: &StaticSecret,
        responder: &PublicKey,
        psk: &PreSharedKey,
        seed: &[u8; KEY_BYTES],
    ) -> Result<(Vec<u8>, AwaitedResponse), WriteError> {
        let (header, mut packet) = (self.header().bytes(), self.frame()?);
        let macs_at = packet.len() - MACS_BYTES;
        packet[..INITIATION_HEADER_BYTES].copy_from_slice(&header);
        let mut noise = noise::initiator(self.suite, &prologue(&header), secret, responder, psk, seed);
        self.write_message(&mut noise, &mut packet[INITIATION_HEADER_BYTES..macs_at])?;
        let mac1 = mac::write_mac1(&mut packet, &Mac1Key::of(responder));
        let (index, responder, suite) = (self.sender_index, *responder, self.suite);
        let awaited = AwaitedResponse { noise, index, responder, suite, mac1, looks_left: RESPONSES_MAX };
        Ok((packet, awaited))
    }

    fn write_message(&self, noise: &mut HandshakeState, message: &mut [u8]) -> Result<(), WriteError> {
        match noise.write_message(&self.payload(), message) {
            Ok(bytes) => debug_assert_eq!(bytes, message.len()),
            Err(Error::Dh) => return Err(WriteError::WeakKey),
            Err(other) => panic!("the frame has the message's length, and it is its turn: {other}"),
        }
        Ok(())
    }

    /// As many bytes as the packet has.
    fn frame(&self) -> Result<Vec<u8>, WriteError> {
        let (bytes, room) = (self.messages.len(), HANDSHAKE_BYTES_MAX - INITIATION_BYTES_MIN);
        if bytes > room {
            return Err(WriteError::MessagesTooLong { bytes, room });
        }
        Ok(vec![0; INITIATION_BYTES_MIN + bytes])
    }

    const fn header(&self) -> Header {
        Header {
            purpose: self.purpose,
            suite: self.suite,
            shard: self.shard,
            capabilities: self.capabilities,
            sender_index: self.sender_index,
        }
    }

    fn payload(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(INITIATION_FIELDS_BYTES + self.messages.len());
        payload.extend_from_slice(&self.stamp.to_be_bytes());
        payload.extend_from_slice(&self.boot.to_be_bytes());
        payload.push(self.epoch);
        payload.extend_from_slice(self.messages);
        payload
    }
}

/// What a response says.
#[derive(Debug)]
pub struct Response {
    /// The index that the responder wants to see in what it receives.
    pub index: u32,
    /// What the responder can do, bit by bit.
    pub capabilities: u16,
    /// Random, and constant for one run of the responder.
    pub boot: u64,
    /// The responder's messages, encoded.
    pub messages: Vec<u8>,
    /// The packet keys of the epoch.
    pub keys: SplitKeys,
}

/// An initiation that was sent, waiting for its response.
pub struct AwaitedResponse {
    noise: Box<HandshakeState>,
    index: u32,
    responder: PublicKey,
    suite: Suite,
    mac1: [u8; MAC_BYTES],
    looks_left: u8,
}

impl AwaitedResponse {
    /// Reads a packet that may be the response. Bad ones do no harm, up to [`RESPONSES_MAX`] of them.
    ///
    /// # Errors
    /// If this is not the responder's response, or nothing more is looked at.
    pub fn read(&mut self, packet: &[u8]) -> Result<Response, ResponseError> {
        let message = self.message(packet)?;
        self.looks_left = self.looks_left.checked_sub(1).ok_or(ResponseError::Closed)?;
        let mut payload = vec![0; message.len() - MESSAGE_2_OVERHEAD];
        // On an error snow returns to the state after message 1, all of which message 2 starts from.
        self.noise.read_message(message, &mut payload).map_err(|error| match error {
            Error::Dh => ResponseError::WeakKey,
            _ => ResponseError::Forged,
        })?;
        self.looks_left = 0;
        let mut rest = payload.as_slice();
        Ok(Response {
            index: u32::from_be_bytes(take(&mut rest)),
            capabilities: u16::from_be_bytes(take(&mut rest)),
            boot: u64::from_be_bytes(take(&mut rest)),
            messages: rest.to_vec(),
            keys: noise::split(&mut self.noise),
        })
    }

    /// Reads a packet that may be a cookie, for [`write_mac2`](super::super::write_mac2).
    ///
    /// # Errors
    /// If this is not a cookie for this initiation.
    pub fn open_cookie(&self, packet: &[u8]) -> Result<Cookie, CookieError> {
        let (suite, responder, index, mac1) = (self.suite, &self.responder, self.index, &self.mac1);
        cookie::open(packet, &Asked { suite, responder, index, mac1 })
    }

    /// The Noise message in a packet that has the frame of the response.
    fn message<'a>(&self, packet: &'a [u8]) -> Result<&'a [u8], ResponseError> {
        let bytes = packet.len();
        if !(RESPONSE_BYTES_MIN..=HANDSHAKE_BYTES_MAX).contains(&bytes) {
            return Err(ResponseError::WrongLength { bytes });
        }
        let (header, message) = packet.split_at(RESPONSE_HEADER_BYTES);
        if header[0] != RESPONSE_KIND {
            return Err(ResponseError::WrongKind { kind: header[0] });
        }
        let index = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        if index != self.index {
            return Err(ResponseError::WrongIndex { index, expected: self.index });
        }
        Ok(message)
    }
}

impl fmt::Debug for AwaitedResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AwaitedResponse(from {}, {} looks left)", self.responder, self.looks_left)
    }
}
