//! What became of the packets of a flow, as its receiver saw it.

use alloc::boxed::Box;
use core::ops::{Deref, DerefMut};

use byway_units::Duration;

/// Counters of one receiving flow, since it was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl ReceiveStatistics {
    /// Nothing was counted.
    const NONE: Self = Self {
        direct: 0,
        lost: 0,
        in_stream: 0,
        cooperative: 0,
        cached: 0,
        forwarded: 0,
        late: 0,
        held: 0,
        gaps_passed: 0,
        marked_dropped: 0,
        duplicates: 0,
        forged: 0,
        false_repairs: 0,
        nacks: 0,
        open_nacks: 0,
        acks: 0,
        given: 0,
        given_bytes: 0,
        beyond_consent: 0,
        bursts: 0,
        longest_burst: 0,
        lateness_max: Duration::ZERO,
    };
}

/// What an agent has not finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentBacklog {
    /// Flows of whose packets something is kept.
    pub flows: usize,
    /// Packets that are not here yet, and not given up.
    pub missing: usize,
    /// Packets that others asked for and that are not here yet.
    pub requests: usize,
}

/// Statistics that take no memory before something is counted: of many flows, nothing ever comes.
#[derive(Debug, Default)]
pub(super) struct Counted(Option<Box<ReceiveStatistics>>);

impl Deref for Counted {
    type Target = ReceiveStatistics;

    fn deref(&self) -> &ReceiveStatistics {
        self.0.as_deref().unwrap_or(&ReceiveStatistics::NONE)
    }
}

impl DerefMut for Counted {
    fn deref_mut(&mut self) -> &mut ReceiveStatistics {
        self.0.get_or_insert_with(|| Box::new(ReceiveStatistics::NONE))
    }
}
