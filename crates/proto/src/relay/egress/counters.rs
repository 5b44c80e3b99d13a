//! What happened in the egress half, and every reason why something did not.

use crate::counters::counters;

counters! {
/// Counters since the start. Bytes are those of sealed packets and of what is coded from them, without headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EgressCounters {
    /// Packets asked for by NACK ranges.
    pub asked: u64,
    /// Open-ended NACKs.
    pub open_ended: u64,
    /// In-stream repair packets sent.
    pub in_stream: u64,
    /// Their bytes.
    pub in_stream_bytes: u64,
    /// Packets sent from the cache.
    pub cached: u64,
    /// Their bytes.
    pub cached_bytes: u64,
    /// Packets decoded with others' help and sent.
    pub cooperative: u64,
    /// Their bytes.
    pub cooperative_bytes: u64,
    /// Packets forwarded unasked.
    pub forwarded: u64,
    /// Their bytes.
    pub forwarded_bytes: u64,
    /// Carried copies that did not come and were asked for again.
    pub carried_asked: u64,
    /// Carried copies that came twice.
    pub carried_repeated: u64,
    /// Cooperative rounds begun.
    pub rounds: u64,
    /// Rounds that ended in decoding.
    pub rounds_decoded: u64,
    /// Rounds given up because nobody waits any more.
    pub rounds_expired: u64,
    /// Rounds whose packets do not decode: something that went in is false.
    pub rounds_inconsistent: u64,
    /// Rounds not begun because too many are under way.
    pub rounds_refused: u64,
    /// Rounds that lacked more than they could restore alone.
    pub rounds_widened: u64,
    /// Packets found by solving several batches and blocks together.
    pub solved_together: u64,
    /// Packets asked of ingress relays, as there were too few repair packets for them.
    pub fetched: u64,
    /// Packets asked of cooperating receivers.
    pub requests: u64,
    /// Requests left out because a receiver has given what it consented to.
    pub requests_beyond_consent: u64,
    /// Answers used.
    pub answers: u64,
    /// Answers to nothing, or too late to be of use.
    pub answers_unasked: u64,
    /// Answers that do not match the digest of the packet: their receiver is asked no more.
    pub answers_false: u64,
    /// Repair packets that arrived.
    pub repairs_kept: u64,
    /// Repair packets that arrived twice, or for a batch that has enough.
    pub repairs_surplus: u64,
    /// Repair packets for flows without a receiver here.
    pub repairs_unknown: u64,
    /// Packets, and repair packets, longer than any may be.
    pub too_long: u64,
    /// Requests to repair a packet again that was repaired as often as allowed.
    pub refused_repeated: u64,
    /// Repairs left out because the flow's budget is used up.
    pub refused_budget: u64,
    /// NACKs for packets too far from what the flow has sent.
    pub refused_range: u64,
    /// NACKs without room for another missing packet.
    pub refused_room: u64,
    /// NACKs of flows whose packets no relay carries.
    pub refused_service: u64,
    /// Packets asked for again within a round trip, before anything can have changed.
    pub refused_early: u64,
    /// Missing packets that were given up without a repair.
    pub given_up: u64,
    /// Receivers told how far a flow has come whose copies pause.
    pub tails: u64,
    /// Receivers asked whether they still miss a packet.
    pub confirms: u64,
}
}

/// What the egress half has not finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayBacklog {
    /// Flows of whose packets something is kept.
    pub flows: usize,
    /// Cooperative rounds under way.
    pub rounds: usize,
    /// Packets that receivers asked for.
    pub missing: usize,
}
