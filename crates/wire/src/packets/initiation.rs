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

/// Version of the wire format that this crate implements.
const VERSION: u8 = 1;

/// First bytes of the Noise prologue; the header follows.
const PROLOGUE_START: &[u8; 5] = b"byway";

const PROLOGUE_BYTES: usize = PROLOGUE_START.len() + InitiationHeader::BYTES;

codes! {
    /// Roles of the two nodes of a session.
    pub enum Purpose {
        /// Session between two agents, end to end.
        EndToEnd = 1,
        /// Session between an agent and a relay's shard.
        AgentToRelay = 2,
        /// Session between two relays' shards.
        RelayToRelay = 3,
    }
}

codes! {
    /// Ciphers of a handshake and its session; the initiator chooses them.
    pub enum Suite {
        /// AES-256-GCM (NIST SP 800-38D), after a handshake by `Noise_IKpsk2_25519_AESGCM_BLAKE2s`:
        /// the faster one on processors that have instructions for it.
        Aes256Gcm = 1,
        /// ChaCha20-Poly1305 (RFC 8439), after a handshake by
        /// `Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s`: the faster one on all others.
        ChaCha20Poly1305 = 2,
    }
}

/// Header of an initiation, which is part of the Noise prologue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitiationHeader {
    /// Roles of the two nodes.
    pub purpose: Purpose,
    /// Ciphers of the handshake and the session.
    pub suite: Suite,
    /// Requested shard of the responder, if it is a relay.
    pub shard: Shard,
    /// Capabilities of the initiator.
    pub capabilities: Capabilities,
    /// Session index that the initiator has chosen for packets to it.
    pub sender: SessionIndex,
}

impl InitiationHeader {
    /// Length of the header, in bytes; the Noise message follows.
    pub const BYTES: usize = 12;

    /// Encodes the header of an initiation into `header`.
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

/// Initiation whose length and header have been checked.
#[derive(Clone, Copy, Debug)]
pub struct InitiationPacket<B> {
    header: InitiationHeader,
    bytes: B,
}

/// Number of bytes of an initiation besides its payload: header, ephemeral and sealed static key,
/// tag, two MACs.
pub const INITIATION_OVERHEAD: usize =
    InitiationHeader::BYTES + 2 * KEY_BYTES + 2 * TAG_BYTES + 2 * MAC_BYTES;

/// Length of an initiation without messages, in bytes.
pub const INITIATION_BYTES_MIN: usize = INITIATION_OVERHEAD + InitiationPayload::BYTES;

impl<B: AsRef<[u8]>> InitiationPacket<B> {
    /// Checks the length and header of an initiation.
    ///
    /// # Errors
    /// If the packet is of another kind, shorter than [`INITIATION_BYTES_MIN`], or a field of its
    /// header is illegal.
    pub fn parse(bytes: B) -> Result<Self, ParseError> {
        let header = checked_header(THING, Kind::Initiation, INITIATION_BYTES_MIN, bytes.as_ref())?;
        Ok(Self { header: InitiationHeader::parse(header)?, bytes })
    }

    /// Returns the header of the initiation.
    #[must_use]
    pub const fn header(&self) -> &InitiationHeader {
        &self.header
    }

    /// Returns the Noise prologue: `"byway"` and the header as sent, including undefined bits.
    #[must_use]
    pub fn prologue(&self) -> [u8; PROLOGUE_BYTES] {
        let mut prologue = [0; PROLOGUE_BYTES];
        let (start, header) = prologue.split_at_mut(PROLOGUE_START.len());
        start.copy_from_slice(PROLOGUE_START);
        header.copy_from_slice(&self.bytes.as_ref()[..InitiationHeader::BYTES]);
        prologue
    }

    /// Returns the first Noise message: ephemeral key, sealed static key, sealed payload.
    #[must_use]
    pub fn noise_message(&self) -> &[u8] {
        &self.before_mac1()[InitiationHeader::BYTES..]
    }

    /// Returns the bytes that `mac1` authenticates: all before it.
    #[must_use]
    pub fn before_mac1(&self) -> &[u8] {
        &self.bytes.as_ref()[..self.mac1_start()]
    }

    /// Returns the first MAC. It proves that the sender knows the responder's public key.
    #[must_use]
    pub fn mac1(&self) -> &[u8; MAC_BYTES] {
        part(self.bytes.as_ref(), self.mac1_start())
    }

    /// Returns the bytes that `mac2` authenticates: all before it.
    #[must_use]
    pub fn before_mac2(&self) -> &[u8] {
        &self.bytes.as_ref()[..self.mac2_start()]
    }

    /// Returns the second MAC. It proves that the sender has received a cookie; zeros without one.
    #[must_use]
    pub fn mac2(&self) -> &[u8; MAC_BYTES] {
        part(self.bytes.as_ref(), self.mac2_start())
    }

    /// Returns the length of the packet, in bytes.
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
    /// Returns the space of the first Noise message, for writing.
    pub(crate) fn noise_message_mut(&mut self) -> &mut [u8] {
        let end = self.mac1_start();
        &mut self.bytes.as_mut()[InitiationHeader::BYTES..end]
    }

    /// Returns the space of `mac1`, for writing.
    pub(crate) fn mac1_mut(&mut self) -> &mut [u8; MAC_BYTES] {
        let start = self.mac1_start();
        part_mut(self.bytes.as_mut(), start)
    }

    /// Returns the space of `mac2`, for writing.
    pub(crate) fn mac2_mut(&mut self) -> &mut [u8; MAC_BYTES] {
        let start = self.mac2_start();
        part_mut(self.bytes.as_mut(), start)
    }
}

impl InitiationPacket<Vec<u8>> {
    /// Creates a packet with this header, and with zeros for the MACs and for a Noise message with
    /// `messages_bytes` bytes of messages.
    pub(crate) fn with_capacity(header: InitiationHeader, messages_bytes: usize) -> Self {
        let mut bytes = vec![0; INITIATION_BYTES_MIN + messages_bytes];
        header.emit(part_mut(&mut bytes, 0));
        Self { header, bytes }
    }

    /// Returns the packet as bytes, for sending.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
