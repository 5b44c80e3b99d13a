//! Errors of parsing received bytes, and of writing messages that do not fit into a packet.

use thiserror::Error;

/// Reason for which bytes are not a valid packet, message or grant. The sender is at fault.
///
/// Construction does not allocate, because an attacker may cause millions of these errors. Names
/// are those of the wire format's description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ParseError {
    /// Packet of a reserved kind, or a grease packet.
    #[error("unknown packet kind {kind}: allowed are 4 to 11")]
    UnknownKind {
        /// First byte of the packet.
        kind: u8,
    },
    /// The bytes of a packet, message or grant end inside a field or before it.
    #[error("{thing}: {field} needs {needed} bytes, {left} are left")]
    TooShort {
        /// Name of the packet or message.
        thing: &'static str,
        /// Name of the truncated field.
        field: &'static str,
        /// Least length of the field, in bytes.
        needed: usize,
        /// Number of bytes left for the field.
        left: usize,
    },
    /// The packet, message or grant is longer than the greatest legal length.
    #[error("{thing}: {bytes} bytes, allowed are {allowed}")]
    TooLong {
        /// Name of the packet or message.
        thing: &'static str,
        /// Length found, in bytes.
        bytes: usize,
        /// Greatest legal length, in bytes.
        allowed: usize,
    },
    /// A field of a packet, message or grant has an illegal value.
    #[error("{thing}: {field} is {found}, allowed is {allowed}")]
    Illegal {
        /// Name of the packet or message.
        thing: &'static str,
        /// Name of the field.
        field: &'static str,
        /// Value found in the field.
        found: u64,
        /// Description of the legal values.
        allowed: &'static str,
    },
    /// A message's range of sequence numbers is not above the previous one.
    #[error(
        "{thing}: range {index} begins at {first_low}; ranges must be ascending and disjoint, within 2^32"
    )]
    RangeOutOfOrder {
        /// Index of the range in the message, from 0.
        thing: &'static str,
        /// Index of the range in the message, from 0.
        index: usize,
        /// Low 32 bits of the first sequence number of the range.
        first_low: u32,
    },
}

/// Error of a message that does not fit into the packet under construction. No part of it is
/// written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "message of type {message_type} needs {needed} bytes, {remaining} are left: put it into the next packet"
)]
pub struct MessageFullError {
    /// Type number of the message.
    pub message_type: u8,
    /// Length of the message in bytes, including type and length.
    pub needed: usize,
    /// Number of bytes left for messages in the packet.
    pub remaining: usize,
}
