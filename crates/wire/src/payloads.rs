//! What the two packets of a handshake carry under Noise, in front of messages.

use crate::capabilities::Capabilities;
use crate::error::ParseError;
use crate::ids::{Boot, Epoch, SessionIndex};
use crate::reader::Reader;
use crate::writer::Output;

/// The fixed part of an initiation's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitiationPayload {
    /// Nanoseconds of Unix time, if the node's clock is right; grows with every initiation of a node.
    pub stamp: u64,
    /// The run of the initiator.
    pub boot: Boot,
    /// The epoch that begins.
    pub epoch: Epoch,
}

impl InitiationPayload {
    /// Bytes of the fixed part; messages follow.
    pub const BYTES: usize = 17;

    /// Reads an opened payload; returns the messages behind the fixed part as they are, for
    /// [`Messages`](crate::Messages).
    ///
    /// # Errors
    /// If it is shorter than its fixed part.
    pub fn parse(payload: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let mut reader = Reader::new("payload of an initiation", payload);
        let stamp = reader.u64("stamp")?;
        let boot = Boot::new(reader.u64("boot")?);
        let epoch = Epoch::new(reader.u8("epoch")?);
        Ok((Self { stamp, boot, epoch }, reader.rest()))
    }

    /// The fixed part's bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let mut output = Output::new(&mut bytes);
        output.u64(self.stamp);
        output.u64(self.boot.number());
        output.u8(self.epoch.number());
        bytes
    }
}

/// The fixed part of a response's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponsePayload {
    /// The responder's index of the session.
    pub index: SessionIndex,
    /// What the responder can do.
    pub capabilities: Capabilities,
    /// The run of the responder.
    pub boot: Boot,
}

impl ResponsePayload {
    /// Bytes of the fixed part; messages follow.
    pub const BYTES: usize = 14;

    /// Reads an opened payload; returns the messages behind the fixed part as they are, for
    /// [`Messages`](crate::Messages).
    ///
    /// # Errors
    /// If it is shorter than its fixed part.
    pub fn parse(payload: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let mut reader = Reader::new("payload of a response", payload);
        let index = SessionIndex::new(reader.u32("index")?);
        let capabilities = Capabilities::from_bits(reader.u16("capabilities")?);
        let boot = Boot::new(reader.u64("boot")?);
        Ok((Self { index, capabilities, boot }, reader.rest()))
    }

    /// The fixed part's bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let mut output = Output::new(&mut bytes);
        output.u32(self.index.number());
        output.u16(self.capabilities.bits());
        output.u64(self.boot.number());
        bytes
    }
}
