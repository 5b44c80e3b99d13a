//! The initiator: writes an initiation, waits, reads the response.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use snow::HandshakeState;
use snow::error::Error;

use super::{ResponseError, WriteError};
use crate::capabilities::Capabilities;
use crate::ids::{Boot, Epoch, SessionIndex, Shard};
use crate::limits::{DATAGRAM_BYTES_MAX, KEY_BYTES};
use crate::packets::{
    CookiePacket, INITIATION_BYTES_MIN, InitiationHeader, InitiationPacket, Purpose, ResponsePacket, Suite,
};
use crate::payloads::{InitiationPayload, ResponsePayload};
use crate::seal::cookie::{self, Asked, Cookie, CookieError};
use crate::seal::mac::{self, Mac1Key};
use crate::seal::noise;
use crate::seal::split_keys::SplitKeys;
use crate::seal::static_key::{PreSharedKey, PublicKey, StaticSecret};

/// What an initiation says.
#[derive(Clone, Copy, Debug)]
pub struct Initiation<'a> {
    /// Between whom the session is.
    pub purpose: Purpose,
    /// The ciphers of handshake and session.
    pub suite: Suite,
    /// The shard of the responder that is asked for, if it is a relay.
    pub shard: Shard,
    /// What the initiator can do.
    pub capabilities: Capabilities,
    /// The initiator's index of the session.
    pub index: SessionIndex,
    /// Nanoseconds of Unix time, if the node's clock is right; more than in any initiation of this node before.
    pub stamp: u64,
    /// The run of the initiator.
    pub boot: Boot,
    /// The epoch that begins.
    pub epoch: Epoch,
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
        pre_shared: &PreSharedKey,
        seed: &[u8; KEY_BYTES],
    ) -> Result<(Vec<u8>, AwaitedResponse), WriteError> {
        let (bytes, room) = (self.messages.len(), DATAGRAM_BYTES_MAX - INITIATION_BYTES_MIN);
        if bytes > room {
            return Err(WriteError::MessagesTooLong { bytes, room });
        }
        let mut packet = InitiationPacket::with_room(self.header(), bytes);
        let mut noise = noise::initiator(self.suite, &packet.prologue(), secret, responder, pre_shared, seed);
        self.write_message(&mut noise, packet.noise_message_mut())?;
        let mac1 = mac::write_mac1(&mut packet, &Mac1Key::of(responder));
        let asked = Asked { suite: self.suite, responder: *responder, index: self.index, mac1 };
        Ok((packet.into_bytes(), AwaitedResponse { noise, asked, is_complete: false }))
    }

    fn write_message(&self, noise: &mut HandshakeState, message: &mut [u8]) -> Result<(), WriteError> {
        noise::write(noise, &self.payload(), message).map_err(|error| match error {
            Error::Dh => WriteError::WeakKey,
            other => panic!("it is the initiator's turn: {other}"),
        })
    }

    const fn header(&self) -> InitiationHeader {
        InitiationHeader {
            purpose: self.purpose,
            suite: self.suite,
            shard: self.shard,
            capabilities: self.capabilities,
            sender: self.index,
        }
    }

    fn payload(&self) -> Vec<u8> {
        let fixed = InitiationPayload { stamp: self.stamp, boot: self.boot, epoch: self.epoch };
        [&fixed.to_bytes(), self.messages].concat()
    }
}

/// What a response says.
#[derive(Debug)]
pub struct Response {
    /// The responder's index of the session.
    pub index: SessionIndex,
    /// What the responder can do.
    pub capabilities: Capabilities,
    /// The run of the responder.
    pub boot: Boot,
    /// The responder's messages, encoded.
    pub messages: Vec<u8>,
    /// The packet keys of the epoch.
    pub keys: SplitKeys,
}

impl Response {
    fn new(payload: &[u8], keys: SplitKeys) -> Self {
        let (fixed, messages) =
            ResponsePayload::parse(payload).expect("the length of the packet has been checked");
        let ResponsePayload { index, capabilities, boot } = fixed;
        Self { index, capabilities, boot, messages: messages.to_vec(), keys }
    }
}

/// An initiation that was sent, waiting for its response.
pub struct AwaitedResponse {
    noise: Box<HandshakeState>,
    asked: Asked,
    is_complete: bool,
}

impl AwaitedResponse {
    /// Reads a packet that may be the response: two key agreements. Forged ones leave the state as it was.
    ///
    /// Anybody who sees the initiation can forge any number, so the caller limits the rate of calls.
    ///
    /// # Errors
    /// If this is not the responder's response, or the true one was read before.
    pub fn read(&mut self, packet: ResponsePacket<&[u8]>) -> Result<Response, ResponseError> {
        let (index, expected) = (packet.header().receiver, self.asked.index);
        if index != expected {
            return Err(ResponseError::WrongIndex { index, expected });
        }
        if self.is_complete {
            return Err(ResponseError::Closed);
        }
        // On an error snow returns to the state after message 1, all of which message 2 starts from.
        let payload = noise::read(&mut self.noise, packet.noise_message()).map_err(|error| match error {
            Error::Dh => ResponseError::WeakKey,
            _ => ResponseError::Forged,
        })?;
        self.is_complete = true;
        Ok(Response::new(&payload, noise::split(&mut self.noise)))
    }

    /// Reads a packet that may be a cookie, for [`write_mac2`](crate::seal::write_mac2).
    ///
    /// # Errors
    /// If this is not a cookie for this initiation.
    pub fn open_cookie(&self, packet: CookiePacket<&[u8]>) -> Result<Cookie, CookieError> {
        cookie::open(packet, &self.asked)
    }
}

impl fmt::Debug for AwaitedResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AwaitedResponse(from {})", self.asked.responder)
    }
}
