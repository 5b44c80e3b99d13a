//! What can be wrong with bytes from outside, and what does not fit into bytes of ours.

use thiserror::Error;

/// Why bytes are no packet, message or grant. The sender is to blame.
///
/// Making one allocates nothing: an attacker may cause millions. Names are those of the description of the wire
/// format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ParseError {
    /// A packet of a reserved kind, or of grease.
    #[error("no packet is of kind {kind}: the kinds are 4 to 9")]
    UnknownKind {
        /// The first byte.
        kind: u8,
    },
    /// The bytes end inside a field or before it.
    #[error("{thing}: {field} takes {needed} bytes, {left} are left")]
    TooShort {
        /// The packet or message.
        thing: &'static str,
        /// Its field that is cut off.
        field: &'static str,
        /// The bytes that the field takes at least.
        needed: usize,
        /// The bytes there are.
        left: usize,
    },
    /// More bytes than there can be.
    #[error("{thing}: {bytes} bytes, {allowed} are allowed")]
    TooLong {
        /// The packet or message.
        thing: &'static str,
        /// Its length.
        bytes: usize,
        /// The greatest length.
        allowed: usize,
    },
    /// A value that its field may not have.
    #[error("{thing}: {field} is {found}, allowed is {allowed}")]
    Illegal {
        /// The packet or message.
        thing: &'static str,
        /// The field.
        field: &'static str,
        /// What it says.
        found: u64,
        /// What it may say.
        allowed: &'static str,
    },
    /// A range of sequence numbers that does not lie behind the one before it.
    #[error(
        "{thing}: range {index} begins at {first_low}, allowed are rising ranges without overlap, within 2^32"
    )]
    RangeOutOfOrder {
        /// The message.
        thing: &'static str,
        /// Which range, from 0.
        index: usize,
        /// The low 32 bits of its first sequence number.
        first_low: u32,
    },
}

/// A message that does not fit into the packet being filled. Nothing of it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "a message of type {message_type} takes {needed} bytes, {room} are left: put it into the next packet"
)]
pub struct Full {
    /// The message's type.
    pub message_type: u8,
    /// The bytes it takes, with type and length.
    pub needed: usize,
    /// The bytes that are left.
    pub room: usize,
}
