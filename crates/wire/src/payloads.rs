//! Noise payloads of the two handshake packets: fixed fields, followed by messages.

use crate::capabilities::Capabilities;
use crate::error::ParseError;
use crate::ids::{Epoch, Incarnation, SessionIndex};
use crate::reader::Reader;
use crate::writer::Output;

/// Fixed part of an initiation's payload, which precedes its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitiationPayload {
    /// Nanoseconds of Unix time by the initiator's clock, but more than in its earlier initiations.
    pub handshake_timestamp: u64,
    /// Incarnation of the initiator.
    pub incarnation: Incarnation,
    /// Epoch that this handshake begins.
    pub epoch: Epoch,
}

impl InitiationPayload {
    /// Length of the fixed part, in bytes; messages follow.
    pub const BYTES: usize = 17;

    /// Reads a decrypted payload. Returns the messages after the fixed fields unparsed, for
    /// [`Messages`](crate::Messages).
    ///
    /// # Errors
    /// If it is shorter than its fixed fields.
    pub fn parse(payload: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let mut reader = Reader::new("payload of an initiation", payload);
        let handshake_timestamp = reader.u64("handshake timestamp")?;
        let incarnation = Incarnation::new(reader.u64("incarnation")?);
        let epoch = Epoch::new(reader.u8("epoch")?);
        Ok((Self { handshake_timestamp, incarnation, epoch }, reader.rest()))
    }

    /// Encodes the fixed part of the payload, which precedes the messages.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let mut output = Output::new(&mut bytes);
        output.u64(self.handshake_timestamp);
        output.u64(self.incarnation.number());
        output.u8(self.epoch.number());
        bytes
    }
}

/// Fixed part of a response's payload, which precedes its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponsePayload {
    /// Session index that the responder has chosen for packets to it.
    pub index: SessionIndex,
    /// Capabilities of the responder.
    pub capabilities: Capabilities,
    /// Incarnation of the responder.
    pub incarnation: Incarnation,
}

impl ResponsePayload {
    /// Length of the fixed part, in bytes; messages follow.
    pub const BYTES: usize = 14;

    /// Reads a decrypted payload. Returns the messages after the fixed fields unparsed, for
    /// [`Messages`](crate::Messages).
    ///
    /// # Errors
    /// If it is shorter than its fixed fields.
    pub fn parse(payload: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let mut reader = Reader::new("payload of a response", payload);
        let index = SessionIndex::new(reader.u32("index")?);
        let capabilities = Capabilities::from_bits(reader.u16("capabilities")?);
        let incarnation = Incarnation::new(reader.u64("incarnation")?);
        Ok((Self { index, capabilities, incarnation }, reader.rest()))
    }

    /// Encodes the fixed part of the payload, which precedes the messages.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let mut output = Output::new(&mut bytes);
        output.u32(self.index.number());
        output.u16(self.capabilities.bits());
        output.u64(self.incarnation.number());
        bytes
    }
}
