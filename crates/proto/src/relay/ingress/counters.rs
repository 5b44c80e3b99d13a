//! What happened in the ingress half, and every reason why something did not.

use crate::counters::counters;

counters! {
/// Counters since the start. Bytes are those of sealed packets and of what is coded from them, without headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IngressCounters {
    /// Copies taken.
    pub copies: u64,
    /// Their bytes.
    pub copies_bytes: u64,
    /// Copies that came twice.
    pub copies_repeated: u64,
    /// Copies beyond the rate the flow was registered with.
    pub copies_beyond_rate: u64,
    /// Copies whose coded bytes are longer than any packet may be.
    pub copies_too_long: u64,
    /// Copies too far behind the newest one.
    pub copies_too_old: u64,
    /// Copies that came when they were asked for again.
    pub copies_resent: u64,
    /// Copies asked for again.
    pub copies_asked: u64,
    /// Copies carried on to an egress relay.
    pub carried: u64,
    /// Their bytes.
    pub carried_bytes: u64,
    /// Carried copies sent again, as an egress relay missed them.
    pub resent: u64,
    /// Their bytes.
    pub resent_bytes: u64,
    /// Carried copies asked for that are kept no longer, or never came here.
    pub resends_gone: u64,
    /// Carried copies asked for more often than allowed, or beyond the flow's rate.
    pub resends_refused: u64,
    /// Copies sent on to receivers here, in the place of their senders.
    pub duplicated: u64,
    /// Their bytes.
    pub duplicated_bytes: u64,
    /// Source packets in cross-stream batches that got repair packets.
    pub covered: u64,
    /// Source packets left alone in their batch, and therefore without cross-stream repair.
    pub uncovered_alone: u64,
    /// Source packets of batches that the overhead budget had nothing for.
    pub uncovered_budget: u64,
    /// Source packets that came while no egress relay knew their flow.
    pub uncovered_unknown: u64,
    /// Source packets left out of a batch, as their tenant has as much memory as it may have.
    pub uncovered_memory: u64,
    /// Cross-stream repair packets made.
    pub cross_stream: u64,
    /// Their bytes.
    pub cross_stream_bytes: u64,
    /// In-stream repair packets made.
    pub in_stream: u64,
    /// Their bytes.
    pub in_stream_bytes: u64,
    /// In-stream repair packets not made, as packets of a dark path of the flow's group are carried.
    pub in_stream_saved: u64,
    /// In-stream repair packets passed on that the flows' senders made.
    pub own_repairs: u64,
    /// Their bytes.
    pub own_repairs_bytes: u64,
    /// In-stream repair packets of senders whose flows are not registered so.
    pub own_repairs_refused: u64,
    /// Source packets left out of an in-stream block because they came too late for it.
    pub in_stream_left_out: u64,
}
}
