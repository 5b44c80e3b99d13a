//! Errors of handshake packets.

use thiserror::Error;

use crate::ids::SessionIndex;

/// Reason for which an initiation cannot be written. The caller is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WriteError {
    /// The messages do not fit into a datagram.
    #[error("initiation with {bytes} bytes of messages, at most {capacity} fit: send the rest later")]
    MessagesTooLong {
        /// Length of the messages, in bytes.
        bytes: usize,
        /// Greatest length of messages that fits, in bytes.
        capacity: usize,
    },
    /// The responder's key is weak: key agreement with it yields zeros.
    #[error("the responder's key has low order: get its true key")]
    WeakKey,
}

/// Reason for which an initiation is dropped. The peer or an attacker on the path is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InitiationError {
    /// The sender does not know this node's key.
    #[error("invalid mac1 of an initiation: its sender does not know this node's key; drop it and count it")]
    WrongMac1,
    /// The initiation was not sealed for this node, or was modified in transit.
    #[error("cannot decrypt the initiation with this node's key: drop it and count it")]
    Forged,
    /// A key in the packet is weak: key agreement with it yields zeros.
    #[error("a key in the initiation has low order: drop it and count it")]
    WeakKey,
}

/// Reason for which an accepted initiation cannot be answered in this manner. The caller is at
/// fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AcceptError {
    /// The response would be longer than its initiation.
    #[error("response with {bytes} bytes of messages, at most {capacity} fit: send the rest afterwards")]
    MessagesTooLong {
        /// Length of the messages, in bytes.
        bytes: usize,
        /// Greatest length of messages that fits, in bytes.
        capacity: usize,
    },
}

/// Reason for which a response is rejected. The state is unchanged, because the true response may
/// still arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ResponseError {
    /// The response answers another initiation.
    #[error("response for {index}, expected {expected}: drop it and count it")]
    WrongIndex {
        /// Session index in the response.
        index: SessionIndex,
        /// Session index in this handshake's initiation.
        expected: SessionIndex,
    },
    /// The response is not from the responder, was modified in transit, or was sealed with another
    /// pre-shared key.
    #[error("cannot decrypt the response: drop it and count it; if all fail, compare the pre-shared keys")]
    Forged,
    /// A key in the packet is weak: key agreement with it yields zeros.
    #[error("the key in the response has low order: drop it and count it")]
    WeakKey,
    /// The responder's response was read before.
    #[error("handshake already complete: drop the response and count it")]
    Closed,
}
