//! What the two packets of a handshake carry under Noise, in front of messages.

use crate::capabilities::Capabilities;
use crate::error::ParseError;
use crate::ids::{Boot, Epoch, SessionIndex};
use crate::messages::Messages;
use crate::reader::Reader;

/// The fixed part of an initiation's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitiationPayload {
    /// Nanoseconds of Unix time, if the node's clock is right; grows with every initiation of one run.
    pub stamp: u64,
    /// The run of the initiator.
    pub boot: Boot,
    /// The epoch that begins.
    pub epoch: Epoch,
}

impl InitiationPayload {
    /// Bytes of the fixed part; messages follow.
    pub const BYTES: usize = 17;

    /// Reads an opened payload.
    ///
    /// # Errors
    /// If it is shorter than its fixed part. Errors in the messages are theirs.
    pub fn parse(payload: &[u8]) -> Result<(Self, Messages<'_>), ParseError> {
        let mut reader = Reader::new("payload of an initiation", payload);
        let stamp = reader.u64("stamp")?;
        let boot = Boot::new(reader.u64("boot")?);
        let epoch = Epoch::new(reader.u8("epoch")?);
        Ok((Self { stamp, boot, epoch }, Messages::new(reader.rest())))
    }

    /// Writes the fixed part.
    pub fn emit(&self, payload: &mut [u8; Self::BYTES]) {
        let (stamp, rest) = payload.split_at_mut(8);
        let (boot, epoch) = rest.split_at_mut(8);
        stamp.copy_from_slice(&self.stamp.to_be_bytes());
        boot.copy_from_slice(&self.boot.number().to_be_bytes());
        epoch.copy_from_slice(&[self.epoch.number()]);
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

    /// Reads an opened payload.
    ///
    /// # Errors
    /// If it is shorter than its fixed part. Errors in the messages are theirs.
    pub fn parse(payload: &[u8]) -> Result<(Self, Messages<'_>), ParseError> {
        let mut reader = Reader::new("payload of a response", payload);
        let index = SessionIndex::new(reader.u32("index")?);
        let capabilities = Capabilities::from_bits(reader.u16("capabilities")?);
        let boot = Boot::new(reader.u64("boot")?);
        Ok((Self { index, capabilities, boot }, Messages::new(reader.rest())))
    }

    /// Writes the fixed part.
    pub fn emit(&self, payload: &mut [u8; Self::BYTES]) {
        let (index, rest) = payload.split_at_mut(4);
        let (capabilities, boot) = rest.split_at_mut(2);
        index.copy_from_slice(&self.index.number().to_be_bytes());
        capabilities.copy_from_slice(&self.capabilities.bits().to_be_bytes());
        boot.copy_from_slice(&self.boot.number().to_be_bytes());
    }
}
