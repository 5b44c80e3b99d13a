//! What the packets of the handshake have in common, and the lengths of their parts.

use super::super::aead::{KEY_BYTES, Suite, TAG_BYTES};
use super::super::mac::MAC_BYTES;
use super::InitiationError;

pub(super) const INITIATION_KIND: u8 = 4;
pub(super) const RESPONSE_KIND: u8 = 5;
pub(in super::super) const COOKIE_KIND: u8 = 6;

const VERSION: u8 = 1;

/// Of an initiation, everything before the Noise message.
pub(super) const INITIATION_HEADER_BYTES: usize = 12;

/// What Noise adds to the payload of message 1: ephemeral key, sealed static key, tag.
pub(super) const MESSAGE_1_OVERHEAD: usize = KEY_BYTES + KEY_BYTES + TAG_BYTES + TAG_BYTES;

/// `stamp[8] ‖ boot[8] ‖ epoch[1]`, which begin the payload of message 1.
pub(super) const INITIATION_FIELDS_BYTES: usize = 17;

/// Both MACs.
pub(super) const MACS_BYTES: usize = 2 * MAC_BYTES;

/// An initiation without messages.
pub(super) const INITIATION_BYTES_MIN: usize =
    INITIATION_HEADER_BYTES + MESSAGE_1_OVERHEAD + INITIATION_FIELDS_BYTES + MACS_BYTES;

/// Of a response, everything before the Noise message.
pub(super) const RESPONSE_HEADER_BYTES: usize = 8;

/// What Noise adds to the payload of message 2: ephemeral key, tag.
pub(super) const MESSAGE_2_OVERHEAD: usize = KEY_BYTES + TAG_BYTES;

/// `index[4] ‖ capabilities[2] ‖ boot[8]`, which begin the payload of message 2.
pub(super) const RESPONSE_FIELDS_BYTES: usize = 14;

/// A response without messages.
pub(super) const RESPONSE_BYTES_MIN: usize =
    RESPONSE_HEADER_BYTES + MESSAGE_2_OVERHEAD + RESPONSE_FIELDS_BYTES;

// The smallest initiation can be answered.
const _: () = assert!(RESPONSE_BYTES_MIN <= INITIATION_BYTES_MIN);

const PROLOGUE: &[u8; 5] = b"byway";

/// What a session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// Between two agents.
    EndToEnd,
    /// From an agent to a relay's shard.
    AgentToRelay,
    /// From one relay's shard to another's.
    RelayToRelay,
}

impl Purpose {
    /// The purpose with this number on the wire.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::EndToEnd),
            2 => Some(Self::AgentToRelay),
            3 => Some(Self::RelayToRelay),
            _ => None,
        }
    }

    /// The number of this purpose on the wire.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::EndToEnd => 1,
            Self::AgentToRelay => 2,
            Self::RelayToRelay => 3,
        }
    }
}

/// The first bytes of an initiation, which are not encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) purpose: Purpose,
    pub(super) suite: Suite,
    pub(super) shard: u8,
    pub(super) capabilities: u16,
    pub(super) sender_index: u32,
}

impl Header {
    pub(super) const fn bytes(&self) -> [u8; INITIATION_HEADER_BYTES] {
        let [ca, cb] = self.capabilities.to_be_bytes();
        let [ia, ib, ic, id] = self.sender_index.to_be_bytes();
        let (purpose, suite) = (self.purpose.number(), self.suite.number());
        [INITIATION_KIND, VERSION, purpose, suite, self.shard, 0, ca, cb, ia, ib, ic, id]
    }

    pub(super) fn parse(bytes: &[u8; INITIATION_HEADER_BYTES]) -> Result<Self, InitiationError> {
        let [kind, version, purpose, suite, shard, _, ca, cb, ia, ib, ic, id] = *bytes;
        if kind != INITIATION_KIND {
            return Err(InitiationError::WrongKind { kind });
        }
        if version != VERSION {
            return Err(InitiationError::UnknownVersion { version });
        }
        Ok(Self {
            purpose: Purpose::from_number(purpose).ok_or(InitiationError::UnknownPurpose { purpose })?,
            suite: Suite::from_number(suite).ok_or(InitiationError::UnknownSuite { suite })?,
            shard,
            capabilities: u16::from_be_bytes([ca, cb]),
            sender_index: u32::from_be_bytes([ia, ib, ic, id]),
        })
    }
}

/// What both sides hash before anything else; `header` as it was sent, reserved byte included.
pub(super) fn prologue(header: &[u8; INITIATION_HEADER_BYTES]) -> [u8; 5 + INITIATION_HEADER_BYTES] {
    let mut prologue = [0; 5 + INITIATION_HEADER_BYTES];
    prologue[..5].copy_from_slice(PROLOGUE);
    prologue[5..].copy_from_slice(header);
    prologue
}

/// Takes the first bytes off a slice that is known to have them.
pub(super) fn take<const BYTES: usize>(from: &mut &[u8]) -> [u8; BYTES] {
    let (first, rest) = from.split_first_chunk().expect("the length has been checked");
    *from = rest;
    *first
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header {
        purpose: Purpose::AgentToRelay,
        suite: Suite::ChaCha20Poly1305,
        shard: 3,
        capabilities: 0x0102,
        sender_index: 0x0304_0506,
    };

    #[test]
    fn a_header_has_the_bytes_of_the_wire() {
        assert_eq!(HEADER.bytes(), [4, 1, 2, 2, 3, 0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(Header::parse(&HEADER.bytes()), Ok(HEADER));
    }

    #[test]
    fn each_wrong_field_of_a_header_has_its_error() {
        let parse_with = |place: usize, value: u8| {
            let mut bytes = HEADER.bytes();
            bytes[place] = value;
            Header::parse(&bytes)
        };
        assert_eq!(parse_with(0, 5), Err(InitiationError::WrongKind { kind: 5 }));
        assert_eq!(parse_with(1, 2), Err(InitiationError::UnknownVersion { version: 2 }));
        assert_eq!(parse_with(2, 0), Err(InitiationError::UnknownPurpose { purpose: 0 }));
        assert_eq!(parse_with(2, 4), Err(InitiationError::UnknownPurpose { purpose: 4 }));
        assert_eq!(parse_with(3, 3), Err(InitiationError::UnknownSuite { suite: 3 }));
        assert_eq!(parse_with(5, 0xFF), Ok(HEADER), "the reserved byte is ignored");
    }

    #[test]
    fn purposes_have_the_numbers_of_the_wire() {
        let purposes = [Purpose::EndToEnd, Purpose::AgentToRelay, Purpose::RelayToRelay];
        for (purpose, number) in purposes.into_iter().zip(1..) {
            assert_eq!(purpose.number(), number);
            assert_eq!(Purpose::from_number(number), Some(purpose));
        }
    }
}
