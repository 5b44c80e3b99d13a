//! Interface that all queueing disciplines of this crate implement.

use byway_units::{Bytes, Duration, Time};

use crate::class::Class;
use crate::flows::FlowHash;

/// Packet that arrives at the link, with what the discipline has to know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<P> {
    /// The packet itself, or the caller's handle of it.
    pub packet: P,
    /// Length of the packet on the link, in bytes.
    pub bytes: u32,
    /// Class that the sender chose by its marking.
    pub class: Class,
    /// Hash of the packet's flow.
    pub flow: FlowHash,
    /// Hash of the packet's source: of its address, or of the network that one source owns.
    pub source: FlowHash,
    /// True if the queue may mark the packet instead of dropping it (RFC 3168).
    pub is_ecn_capable: bool,
}

/// A packet that leaves the queue for the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure<P> {
    /// The packet itself, or the caller's handle of it.
    pub packet: P,
    /// Class in which the link served the packet.
    pub class: Class,
    /// Time that the packet spent in the queue.
    pub sojourn: Duration,
    /// True if the caller has to set the packet's CE codepoint (RFC 3168). Only ECN-capable packets
    /// are marked.
    pub is_marked: bool,
}

/// Reason for which a queue drops a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// The buffer was full when the packet arrived (tail drop).
    Full,
    /// The packet is longer than the longest that the link is configured for.
    TooLong,
    /// The buffer of the low-delay class shrank, because its number of flows fell or that of other
    /// classes rose. The packet could have exceeded the delay bound.
    Flushed,
    /// The buffer of the packet's class shrank in favour of other classes.
    Trimmed,
    /// The guard dropped the packet, because its flow or source exceeds a fair share or its cap.
    Greedy,
    /// The AQM dropped the packet before the queue was full, because the packet is not ECN-capable.
    Early,
    /// Packets of the flow have had sojourn times above the target for too long (`CoDel`).
    SojournTooLong,
}

/// Queueing discipline of a link: decides which packets wait, which are dropped, and which is next.
pub trait Discipline<P> {
    /// Queues an arriving packet, or drops it. Calls `dropped` for each packet that it drops; they
    /// may include queued ones.
    fn enqueue(&mut self, arrival: Arrival<P>, now: Time, dropped: &mut impl FnMut(P, DropReason));

    /// Removes and returns the packet to send now, when the link is free; `None` if there is none.
    /// Calls `dropped` for each packet that it drops instead.
    fn dequeue(&mut self, now: Time, dropped: &mut impl FnMut(P, DropReason)) -> Option<Departure<P>>;

    /// Returns the number of bytes in all queues of the link.
    fn backlog(&self) -> Bytes;
}
