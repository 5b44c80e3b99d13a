//! What can be wrong with the packets of a handshake.

use thiserror::Error;

use crate::ids::SessionIndex;

/// Why an initiation cannot be written. The caller is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WriteError {
    /// More messages than one datagram carries.
    #[error("an initiation with {bytes} bytes of messages, there is room for {room}: send the rest later")]
    MessagesTooLong {
        /// The bytes of messages.
        bytes: usize,
        /// How many fit.
        room: usize,
    },
    /// A responder's key with which nothing secret can be agreed.
    #[error("the responder's key is one of the few that agree on nothing: get its true key")]
    WeakKey,
}

/// Why an initiation is not answered. The peer, or somebody on the way, is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InitiationError {
    /// The sender does not know this node's key.
    #[error("the initiation's mac1 is wrong: its sender does not know this node's key; drop it and count it")]
    WrongMac1,
    /// Not sealed for this node, or changed on the way.
    #[error("the initiation does not open with this node's key: drop it and count it")]
    Forged,
    /// A key with which nothing secret can be agreed.
    #[error("a key in the initiation is one of the few that agree on nothing: drop it and count it")]
    WeakKey,
}

/// Why an accepted initiation cannot be answered like this. The caller is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AcceptError {
    /// A response must not be longer than the initiation it answers.
    #[error("a response with {bytes} bytes of messages, there is room for {room}: send the rest afterwards")]
    MessagesTooLong {
        /// The bytes of messages.
        bytes: usize,
        /// How many fit.
        room: usize,
    },
}

/// Why a response is not taken. The state survives: the true response may still come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ResponseError {
    /// A response to another initiation.
    #[error("a response for {index}, this handshake has {expected}: drop it and count it")]
    WrongIndex {
        /// The index it names.
        index: SessionIndex,
        /// The index of this handshake.
        expected: SessionIndex,
    },
    /// Not from the responder, changed on the way, or the pre-shared keys differ.
    #[error("the response does not open: drop it and count it; if all do not, compare the pre-shared keys")]
    Forged,
    /// A key with which nothing secret can be agreed.
    #[error("the key in the response is one of the few that agree on nothing: drop it and count it")]
    WeakKey,
    /// A response after the true one.
    #[error("this handshake is complete: drop the response and count it")]
    Closed,
}
