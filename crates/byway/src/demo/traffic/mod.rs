//! The applications: they send video at a constant rate, and write down what comes and when.

mod receiver;
mod sender;

pub(crate) use receiver::{Arrival, Receivers};
pub(crate) use sender::Senders;

/// What senders say before the video, until they are heard: the first datagrams of a new mapping may be lost.
pub(crate) const HELLO: &[u8] = b"byway demo: hello";
