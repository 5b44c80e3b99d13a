//! What became of the packets of a flow, as its receiver saw it.

use byway_units::Duration;

/// Counters of one receiving flow, since it was accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceiveStatistics {
    /// Packets first delivered by the direct path.
    pub direct: u64,
    /// Packets noticed to be lost on the direct path.
    pub lost: u64,
    /// Lost packets restored from the flow's own repair packets, in time.
    pub in_stream: u64,
    /// Lost packets restored with others' help, in time.
    pub cooperative: u64,
    /// Lost packets that came from a cache, in time.
    pub cached: u64,
    /// Packets first delivered by the overlay unasked.
    pub forwarded: u64,
    /// Packets that came after their deadline, or after those that follow them had gone before, and were not
    /// delivered.
    pub late: u64,
    /// Packets of a congestion-controlled flow that waited for those before them.
    pub held: u64,
    /// Times that one went before others that were missing, as no repair came in time.
    pub gaps_passed: u64,
    /// Packets not delivered, as they were marked on the way and their transport does not understand marks.
    pub marked_dropped: u64,
    /// Packets that came again.
    pub duplicates: u64,
    /// Packets whose tag was wrong, after the direct path.
    pub forged: u64,
    /// Repairs whose packet was not what the sender sealed: somebody answered falsely.
    pub false_repairs: u64,
    /// NACKs sent with ranges.
    pub nacks: u64,
    /// Open-ended NACKs sent.
    pub open_nacks: u64,
    /// ACKs sent.
    pub acks: u64,
    /// Packets given for others.
    pub given: u64,
    /// Bytes given for others.
    pub given_bytes: u64,
    /// Requests of others beyond what is consented to.
    pub beyond_consent: u64,
    /// Bursts of losses, and the longest in packets.
    pub bursts: u64,
    /// See [`ReceiveStatistics::bursts`].
    pub longest_burst: u64,
    /// The greatest lateness of a packet that was delivered.
    pub lateness_max: Duration,
}
