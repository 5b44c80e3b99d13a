//! What queues have in common, so that they can be compared.

use byway_units::{Bytes, Duration, Time};

use crate::class::Class;
use crate::flows::FlowHash;

/// A packet that comes to the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<P> {
    /// Whatever stands for the packet.
    pub packet: P,
    /// Its bytes on the link.
    pub bytes: u32,
    /// What its sender chose.
    pub class: Class,
    /// Whose it is.
    pub flow: FlowHash,
    /// Who sends it: of its address alone, or the network that one source has.
    pub source: FlowHash,
    /// Whether it may be marked instead of dropped (RFC 3168).
    pub is_ecn_capable: bool,
}

/// A packet that leaves for the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure<P> {
    /// The packet.
    pub packet: P,
    /// Its class.
    pub class: Class,
    /// How long it waited.
    pub waited: Duration,
    /// Whether it is to tell of congestion (CE of RFC 3168); only what may be marked is.
    pub is_marked: bool,
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dropped {
    /// Its queue had no room.
    Full,
    /// It is longer than any packet of the link.
    TooLong,
    /// Its class got less room, as there are fewer flows in it or more in others: it could wait longer than was promised.
    Flushed,
    /// Other classes got more room.
    Trimmed,
    /// Its flow takes more than a fair share, or more than its part of what one of the high-rate class does.
    Greedy,
    /// The queue grows long, and the packet cannot be marked instead.
    Early,
    /// Packets of its flow wait too long for too long.
    Waited,
}

/// A queue before a link.
pub trait Discipline<P> {
    /// A packet comes. It waits, or is dropped; and others may be.
    fn enqueue(&mut self, arrival: Arrival<P>, now: Time, dropped: &mut impl FnMut(P, Dropped));

    /// The packet that goes next, now that the link is free.
    fn dequeue(&mut self, now: Time, dropped: &mut impl FnMut(P, Dropped)) -> Option<Departure<P>>;

    /// What waits.
    fn backlog(&self) -> Bytes;
}
