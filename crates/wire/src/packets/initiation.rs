//! Initiations: the first packet of a handshake.

use super::{Kind, checked_header, illegal, part, split_end_mut, split_start_mut};
use crate::capabilities::Capabilities;
use crate::codes::{Code, codes};
use crate::error::ParseError;
use crate::handshake::InitiationPayload;
use crate::ids::{SessionIndex, Shard};
use crate::limits::TAG_BYTES;

const THING: &str = "initiation";

/// The version of the wire format.
const VERSION: u8 = 1;

/// Bytes of a MAC.
const MAC_BYTES: usize = 16;

/// Bytes of an X25519 public key.
pub(crate) const KEY_BYTES: usize = 32;

codes! {
    /// Between whom the session is to be.
    pub enum Purpose {
        /// Two agents, end to end.
        EndToEnd = 1,
        /// An agent and a relay.
        AgentToRelay = 2,
        /// Two relays.
        RelayToRelay = 3,
    }
}

codes! {
    /// The cryptography of the session; the initiator chooses.
    pub enum Suite {
        /// `Noise_IKpsk2_25519_AESGCM_BLAKE2s`.
        Aes256Gcm = 1,
        /// `Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s`.
        ChaCha20Poly1305 = 2,
    }
}

/// The header of an initiation, which is part of the Noise prologue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitiationHeader {
    /// Between whom the session is to be.
    pub purpose: Purpose,
    /// The cryptography of the session.
    pub suite: Suite,
    /// The shard of the responder, if it is a relay.
    pub shard: Shard,
    /// What the initiator can do.
    pub capabilities: Capabilities,
    /// The initiator's index of the session.
    pub sender: SessionIndex,
}

impl InitiationHeader {
    /// Bytes of the header; the Noise message follows.
    pub const BYTES: usize = 12;

    /// Writes the header.
    pub const fn emit(&self, header: &mut [u8; Self::BYTES]) {
        let [c0, c1] = self.capabilities.bits().to_be_bytes();
        let [i0, i1, i2, i3] = self.sender.number().to_be_bytes();
        let (kind, purpose, suite) = (Kind::Initiation.first_byte(), self.purpose as u8, self.suite as u8);
        *header = [kind, VERSION, purpose, suite, self.shard.number(), 0, c0, c1, i0, i1, i2, i3];
    }

    fn parse(header: &[u8; Self::BYTES]) -> Result<Self, ParseError> {
        let [_, version, purpose, suite, shard, _, c0, c1, i0, i1, i2, i3] = *header;
        if version != VERSION {
            return Err(illegal(THING, "version", version, "1"));
        }
        Ok(Self {
            purpose: Purpose::from_code(purpose)
                .ok_or_else(|| illegal(THING, "purpose", purpose, Purpose::ALLOWED))?,
            suite: Suite::from_code(suite).ok_or_else(|| illegal(THING, "suite", suite, Suite::ALLOWED))?,
            shard: Shard::new(shard),
            capabilities: Capabilities::from_bits(u16::from_be_bytes([c0, c1])),
            sender: SessionIndex::new(u32::from_be_bytes([i0, i1, i2, i3])),
        })
    }
}

/// A checked initiation.
#[derive(Clone, Copy, Debug)]
pub struct Initiation<B> {
    header: InitiationHeader,
    bytes: B,
}

/// Bytes of an initiation beyond its payload: header, ephemeral and sealed static key, tag, two MACs.
pub const INITIATION_OVERHEAD: usize =
    InitiationHeader::BYTES + 2 * KEY_BYTES + 2 * TAG_BYTES + 2 * MAC_BYTES;

impl<B: AsRef<[u8]>> Initiation<B> {
    /// Checks length and header.
    ///
    /// # Errors
    /// If the packet is of another kind, too short for the fixed part of its payload, or a field of its header is
    /// illegal.
    pub fn parse(bytes: B) -> Result<Self, ParseError> {
        let bytes_min = INITIATION_OVERHEAD + InitiationPayload::BYTES;
        let header = checked_header(THING, Kind::Initiation, bytes_min, bytes.as_ref())?;
        Ok(Self { header: InitiationHeader::parse(header)?, bytes })
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &InitiationHeader {
        &self.header
    }

    /// The header's bytes, which end the Noise prologue.
    #[must_use]
    pub fn prologue(&self) -> &[u8; InitiationHeader::BYTES] {
        part(self.bytes.as_ref(), 0)
    }

    /// The first Noise message, in one piece.
    #[must_use]
    pub fn noise_message(&self) -> &[u8] {
        &self.before_mac1()[InitiationHeader::BYTES..]
    }

    /// What `mac1` authenticates.
    #[must_use]
    pub fn before_mac1(&self) -> &[u8] {
        let bytes = self.bytes.as_ref();
        &bytes[..bytes.len() - 2 * MAC_BYTES]
    }

    /// Shows that the sender knows the responder's public key.
    #[must_use]
    pub fn mac1(&self) -> &[u8; MAC_BYTES] {
        let bytes = self.bytes.as_ref();
        part(bytes, bytes.len() - 2 * MAC_BYTES)
    }

    /// What `mac2` authenticates.
    #[must_use]
    pub fn before_mac2(&self) -> &[u8] {
        let bytes = self.bytes.as_ref();
        &bytes[..bytes.len() - MAC_BYTES]
    }

    /// Shows that the sender got a cookie; zeros without one.
    #[must_use]
    pub fn mac2(&self) -> &[u8; MAC_BYTES] {
        let bytes = self.bytes.as_ref();
        part(bytes, bytes.len() - MAC_BYTES)
    }
}

/// The parts of the first Noise message, for decrypting in place.
#[derive(Debug)]
pub struct InitiationParts<'a> {
    /// The header's bytes, which end the Noise prologue.
    pub prologue: &'a [u8; InitiationHeader::BYTES],
    /// The initiator's ephemeral public key.
    pub ephemeral: &'a [u8; KEY_BYTES],
    /// The initiator's long-term public key, sealed, and its tag.
    pub sealed_static: &'a mut [u8; KEY_BYTES + TAG_BYTES],
    /// The sealed payload and its tag.
    pub sealed_payload: &'a mut [u8],
}

impl<'a> Initiation<&'a mut [u8]> {
    /// The parts of the first Noise message.
    #[must_use]
    pub fn into_parts(self) -> InitiationParts<'a> {
        let (prologue, rest) = split_start_mut(self.bytes);
        let (ephemeral, rest) = split_start_mut(rest);
        let (sealed_static, rest) = split_start_mut(rest);
        let (sealed_payload, _macs) = split_end_mut::<{ 2 * MAC_BYTES }>(rest);
        InitiationParts { prologue, ephemeral, sealed_static, sealed_payload }
    }
}
