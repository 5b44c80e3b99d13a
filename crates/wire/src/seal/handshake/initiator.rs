//! The initiator: writes an initiation and reads the response.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use snow::HandshakeState;
use snow::error::Error;

use super::{ResponseError, WriteError};
use crate::capabilities::Capabilities;
use crate::ids::{Epoch, Incarnation, SessionIndex, Shard};
use crate::limits::{DATAGRAM_BYTES_MAX, KEY_BYTES};
use crate::packets::{
    CookiePacket, INITIATION_BYTES_MIN, InitiationHeader, InitiationPacket, Purpose, ResponsePacket, Suite,
};
use crate::payloads::{InitiationPayload, ResponsePayload};
use crate::seal::cookie::{self, Cookie, CookieError, InitiationRecord};
use crate::seal::mac::{self, Mac1Key};
use crate::seal::noise;
use crate::seal::split_keys::SplitKeys;
use crate::seal::static_key::{PreSharedKey, PublicKey, StaticSecret};

/// Contents of an initiation that this side writes.
#[derive(Clone, Copy, Debug)]
pub struct Initiation<'a> {
    /// Roles of the two nodes.
    pub purpose: Purpose,
    /// Ciphers of the handshake and the session.
    pub suite: Suite,
    /// Requested shard of the responder, if it is a relay.
    pub shard: Shard,
    /// Capabilities of the initiator.
    pub capabilities: Capabilities,
    /// Session index that the initiator has chosen for packets to it.
    pub index: SessionIndex,
    /// Nanoseconds of Unix time, if the node's clock is right. Higher than in any earlier
    /// initiation of this node.
    pub handshake_timestamp: u64,
    /// Incarnation of the initiator.
    pub incarnation: Incarnation,
    /// Epoch that this handshake begins.
    pub epoch: Epoch,
    /// Messages for the responder, encoded.
    pub messages: &'a [u8],
}

impl Initiation<'_> {
    /// Writes the initiation packet, with zeros for `mac2`. Returns it, and the state for reading
    /// its response.
    ///
    /// `seed` is the ephemeral secret: 32 secret bytes, fresh for each initiation. The same input
    /// yields the same packet.
    ///
    /// # Errors
    /// If the messages do not fit into a datagram, or `responder` is a weak key.
    pub fn write(
        &self,
        secret: &StaticSecret,
        responder: &PublicKey,
        pre_shared: &PreSharedKey,
        seed: &[u8; KEY_BYTES],
    ) -> Result<(Vec<u8>, AwaitedResponse), WriteError> {
        let (bytes, capacity) = (self.messages.len(), DATAGRAM_BYTES_MAX - INITIATION_BYTES_MIN);
        if bytes > capacity {
            return Err(WriteError::MessagesTooLong { bytes, capacity });
        }
        let mut packet = InitiationPacket::with_capacity(self.header(), bytes);
        let mut noise = noise::initiator(self.suite, &packet.prologue(), secret, responder, pre_shared, seed);
        self.write_message(&mut noise, packet.noise_message_mut())?;
        let mac1 = mac::write_mac1(&mut packet, &Mac1Key::of(responder));
        let record = InitiationRecord { suite: self.suite, responder: *responder, index: self.index, mac1 };
        Ok((packet.into_bytes(), AwaitedResponse { noise, initiation: record, is_complete: false }))
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
        let fixed = InitiationPayload {
            handshake_timestamp: self.handshake_timestamp,
            incarnation: self.incarnation,
            epoch: self.epoch,
        };
        [&fixed.to_bytes(), self.messages].concat()
    }
}

/// Contents of a response that this side has read.
#[derive(Debug)]
pub struct Response {
    /// Session index that the responder has chosen for packets to it.
    pub index: SessionIndex,
    /// Capabilities of the responder.
    pub capabilities: Capabilities,
    /// Incarnation of the responder.
    pub incarnation: Incarnation,
    /// The responder's messages, encoded.
    pub messages: Vec<u8>,
    /// Packet keys of the epoch that the handshake begins.
    pub keys: SplitKeys,
}

impl Response {
    fn new(payload: &[u8], keys: SplitKeys) -> Self {
        let (fixed, messages) =
            ResponsePayload::parse(payload).expect("the length of the packet has been checked");
        let ResponsePayload { index, capabilities, incarnation } = fixed;
        Self { index, capabilities, incarnation, messages: messages.to_vec(), keys }
    }
}

/// State of the initiator from the sending of an initiation until its response.
pub struct AwaitedResponse {
    noise: Box<HandshakeState>,
    initiation: InitiationRecord,
    is_complete: bool,
}

impl AwaitedResponse {
    /// Reads a possible response, at the cost of two key agreements. A forged one leaves the state
    /// unchanged.
    ///
    /// The caller limits the rate of calls, because any observer of the initiation can forge
    /// responses.
    ///
    /// # Errors
    /// If this is not the responder's response, or the true one was read before.
    pub fn read(&mut self, packet: ResponsePacket<&[u8]>) -> Result<Response, ResponseError> {
        let (index, expected) = (packet.header().receiver, self.initiation.index);
        if index != expected {
            return Err(ResponseError::WrongIndex { index, expected });
        }
        if self.is_complete {
            return Err(ResponseError::Closed);
        }
        // On an error, snow restores the state after message 1, from which message 2 is read.
        let payload = noise::read(&mut self.noise, packet.noise_message()).map_err(|error| match error {
            Error::Dh => ResponseError::WeakKey,
            _ => ResponseError::Forged,
        })?;
        self.is_complete = true;
        Ok(Response::new(&payload, noise::split(&mut self.noise)))
    }

    /// Reads a possible cookie packet. Its cookie is for [`write_mac2`](crate::seal::write_mac2).
    ///
    /// # Errors
    /// If this is not a cookie for this initiation.
    pub fn open_cookie(&self, packet: CookiePacket<&[u8]>) -> Result<Cookie, CookieError> {
        cookie::open(packet, &self.initiation)
    }
}

impl fmt::Debug for AwaitedResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AwaitedResponse(from {})", self.initiation.responder)
    }
}
