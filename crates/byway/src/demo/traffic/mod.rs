//! The applications: they send video at a constant rate and record arrivals.

mod receiver;
mod sender;

pub(crate) use receiver::{Arrival, Receivers};
pub(crate) use sender::Senders;

/// Datagram that senders repeat before the video until receivers get it, because the first
/// datagrams of a new mapping may be lost. It exceeds what the minimum path MTU allows, so agents
/// discover the path MTU, and each video datagram then fits into one packet.
pub(crate) const HELLO: &[u8] = &[0; 1_200];
