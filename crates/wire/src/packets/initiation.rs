//! Initiations: the first packet of a handshake.

use alloc::vec;
use alloc::vec::Vec;

use super::{Kind, checked_header, illegal, part, part_mut};
use crate::capabilities::Capabilities;
use crate::codes::{Code, codes};
use crate::error::ParseError;
use crate::ids::{SessionIndex, Shard};
use crate::limits::{KEY_BYTES, MAC_BYTES, TAG_BYTES};
use crate::payloads::InitiationPayload;

const THING: &str = "initiation";

/// The version of the wire format.
const VERSION: u8 = 1;

/// What the Noise prologue begins with; the header follows.
const PROLOGUE_START: &[u8; 5] = b"byway";

const PROLOGUE_BYTES: usize = PROLOGUE_START.len() + InitiationHeader::BYTES;

codes! {
    /// Between whom a session is.
    pub enum Purpose {
        /// Two agents, end to end.
        EndToEnd = 1,
        /// An agent and a relay's shard.
        AgentToRelay = 2,
        /// Two relays' shards.
        RelayToRelay = 3,
    }
}

codes! {
    /// The ciphers of handshake and session; the initiator chooses.
    pub enum Suite {
        /// AES-256-GCM (NIST SP 800-38D), after a handshake by `Noise_IKpsk2_25519_AESGCM_BLAKE2s`: the faster one on
        /// processors that have instructions for it.
        Aes256Gcm = 1,
        /// ChaCha20-Poly1305 (RFC 8439), after a handshake by `Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s`: the faster one
        /// on all others.
        ChaCha20Poly1305 = 2,
    }
}

/// The header of an initiation, which is part of the Noise prologue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitiationHeader {
    /// Between whom the session is.
    pub purpose: Purpose,
    /// The ciphers of handshake and session.
    pub suite: Suite,
    /// The shard of the responder that is asked for, if it is a relay.
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
pub struct InitiationPacket<B> {
    header: InitiationHeader,
    bytes: B,
}

/// Bytes of an initiation beyond its payload: header, ephemeral and sealed static key, tag, two MACs.
pub const INITIATION_OVERHEAD: usize =
    InitiationHeader::BYTES + 2 * KEY_BYTES + 2 * TAG_BYTES + 2 * MAC_BYTES;

/// Bytes of an initiation without messages.
pub const INITIATION_BYTES_MIN: usize = INITIATION_OVERHEAD + InitiationPayload::BYTES;

impl<B: AsRef<[u8]>> InitiationPacket<B> {
    /// Checks length and header.
    ///
    /// # Errors
    /// If the packet is of another kind, shorter than [`INITIATION_BYTES_MIN`], or a field of its header is illegal.
    pub fn parse(bytes: B) -> Result<Self, ParseError> {
        let header = checked_header(THING, Kind::Initiation, INITIATION_BYTES_MIN, bytes.as_ref())?;
        Ok(Self { header: InitiationHeader::parse(header)?, bytes })
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &InitiationHeader {
        &self.header
    }

    /// The Noise prologue: `"byway"` and the header as it was sent, bits without a meaning included.
    #[must_use]
    pub fn prologue(&self) -> [u8; PROLOGUE_BYTES] {
        let mut prologue = [0; PROLOGUE_BYTES];
        let (start, header) = prologue.split_at_mut(PROLOGUE_START.len());
        start.copy_from_slice(PROLOGUE_START);
        header.copy_from_slice(&self.bytes.as_ref()[..InitiationHeader::BYTES]);
        prologue
    }

    /// The first Noise message: ephemeral key, sealed static key, sealed payload.
    #[must_use]
    pub fn noise_message(&self) -> &[u8] {
        &self.before_mac1()[InitiationHeader::BYTES..]
    }

    /// What `mac1` authenticates.
    #[must_use]
    pub fn before_mac1(&self) -> &[u8] {
        &self.bytes.as_ref()[..self.mac1_start()]
    }

    /// Shows that the sender knows the responder's public key.
    #[must_use]
    pub fn mac1(&self) -> &[u8; MAC_BYTES] {
        part(self.bytes.as_ref(), self.mac1_start())
    }

    /// What `mac2` authenticates.
    #[must_use]
    pub fn before_mac2(&self) -> &[u8] {
        &self.bytes.as_ref()[..self.mac2_start()]
    }

    /// Shows that the sender got a cookie; zeros without one.
    #[must_use]
    pub fn mac2(&self) -> &[u8; MAC_BYTES] {
        part(self.bytes.as_ref(), self.mac2_start())
    }

    /// How many bytes the packet has.
    pub(crate) fn length(&self) -> usize {
        self.bytes.as_ref().len()
    }

    fn mac1_start(&self) -> usize {
        self.length() - 2 * MAC_BYTES
    }

    fn mac2_start(&self) -> usize {
        self.length() - MAC_BYTES
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> InitiationPacket<B> {
    /// Where the first Noise message is written.
    pub(crate) fn noise_message_mut(&mut self) -> &mut [u8] {
        let end = self.mac1_start();
        &mut self.bytes.as_mut()[InitiationHeader::BYTES..end]
    }

    /// Where `mac1` is written.
    pub(crate) fn mac1_mut(&mut self) -> &mut [u8; MAC_BYTES] {
        let start = self.mac1_start();
        part_mut(self.bytes.as_mut(), start)
    }

    /// Where `mac2` is written.
    pub(crate) fn mac2_mut(&mut self) -> &mut [u8; MAC_BYTES] {
        let start = self.mac2_start();
        part_mut(self.bytes.as_mut(), start)
    }
}

impl InitiationPacket<Vec<u8>> {
    /// A packet with this header, and zeros where a Noise message with `messages_bytes` of messages and the MACs
    /// belong.
    pub(crate) fn with_room(header: InitiationHeader, messages_bytes: usize) -> Self {
        let mut bytes = vec![0; INITIATION_BYTES_MIN + messages_bytes];
        header.emit(part_mut(&mut bytes, 0));
        Self { header, bytes }
    }

    /// The packet.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
