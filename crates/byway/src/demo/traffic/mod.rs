//! The applications: they send video at a constant rate, and write down what comes and when.

mod receiver;
mod sender;

pub(crate) use receiver::{Arrival, Receivers};
pub(crate) use sender::Senders;

/// What senders say before the video, until they are heard: the first datagrams of a new mapping may be lost. It is longer than what goes
/// as one packet everywhere, so that agents have found out what the paths carry before each datagram of the video is to be one packet.
pub(crate) const HELLO: &[u8] = &[0; 1_200];
