//! Counters of the egress half: its actions, and a reason for each action that it leaves out.

use crate::counters::counters;

counters! {
/// Counters since the start. Bytes are those of sealed packets and of their repair packets, without
/// headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EgressCounters {
    /// Packets that NACK ranges request.
    pub packets_nacked: u64,
    /// Open-ended NACKs.
    pub nacks_open_ended: u64,
    /// In-stream repair packets sent.
    pub in_stream: u64,
    /// Bytes of the packets that [`Self::in_stream`] counts.
    pub in_stream_bytes: u64,
    /// Packets sent from the cache.
    pub cached: u64,
    /// Bytes of the packets that [`Self::cached`] counts.
    pub cached_bytes: u64,
    /// Packets that cooperative recovery decoded with the packets of other receivers, and that the
    /// relay sent.
    pub cooperative: u64,
    /// Bytes of the packets that [`Self::cooperative`] counts.
    pub cooperative_bytes: u64,
    /// Relayed copies sent on to receivers without a NACK.
    pub forwarded: u64,
    /// Bytes of the packets that [`Self::forwarded`] counts.
    pub forwarded_bytes: u64,
    /// Packets of flows with retransmission that their senders sent again, sent on to receivers.
    pub resent: u64,
    /// Bytes of the packets that [`Self::resent`] counts.
    pub resent_bytes: u64,
    /// Relayed copies that did not arrive and that the relay requested again.
    pub copies_nacked: u64,
    /// Relayed copies that arrived twice.
    pub copies_duplicate: u64,
    /// Decode attempts begun.
    pub decode_attempts: u64,
    /// Decode attempts that ended with a decode.
    pub decode_attempts_decoded: u64,
    /// Decode attempts that ended at their deadline, because no receiver waits any more.
    pub decode_attempts_expired: u64,
    /// Decode attempts that failed although enough packets were there: one is false, or has
    /// expired.
    pub decode_attempts_inconsistent: u64,
    /// Decode attempts not begun because too many are active, or because the flow's session or
    /// tenant has no memory left.
    pub decode_attempts_refused: u64,
    /// Decode attempts that lacked more packets than they could restore alone.
    pub decode_attempts_expanded: u64,
    /// Packets restored by joint decoding of several batches and blocks.
    pub jointly_decoded: u64,
    /// Packets requested from ingress relays because repair packets were too few.
    pub fetched: u64,
    /// Packets requested from cooperating receivers.
    pub requests: u64,
    /// Requests left out because a receiver has sent as much as it consented to.
    pub requests_beyond_consent: u64,
    /// Answers of cooperating receivers that the relay used.
    pub answers: u64,
    /// Answers of receivers that no decode attempt needed: not requested, or too late.
    pub answers_unsolicited: u64,
    /// Answers that do not match the packet's digest; each puts its receiver into quarantine for
    /// the flow.
    pub answers_false: u64,
    /// Repair packets of ingress relays that the relay stored.
    pub repairs_stored: u64,
    /// Repair packets not stored: duplicates, or for a batch that is full, too old or different.
    pub repairs_surplus: u64,
    /// Repair packets and relayed copies for flows without a receiver at this relay.
    pub repairs_unknown: u64,
    /// Source and repair packets longer than any may be.
    pub too_long: u64,
    /// Repairs refused because the packet was repaired as often as allowed.
    pub refused_repeated: u64,
    /// Repairs left out because the flow's repair budget is exhausted.
    pub refused_budget: u64,
    /// Requested packets too far from the flow's highest sequence number.
    pub refused_range: u64,
    /// Requested packets and repairs left out because the flow has no memory to record them.
    pub refused_capacity: u64,
    /// NACKs of flows whose service has no repair by relays.
    pub refused_service: u64,
    /// Packets that a NACK requested again within a round trip, while the earlier repairs may be in
    /// flight.
    pub refused_early: u64,
    /// Missing packets whose deadline passed without a repair.
    pub abandoned: u64,
    /// Tail-loss hints: messages to receivers with the last sequence number before a pause of the
    /// copies.
    pub tail_loss_hints: u64,
    /// Confirms: messages that ask a receiver if it still misses a packet.
    pub confirms: u64,
}
}

/// Unfinished work of the egress half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayBacklog {
    /// Received flows in use: with recent copies, repair packets or NACKs.
    pub flows: usize,
    /// Active decode attempts.
    pub decode_attempts: usize,
    /// Packets that receivers requested and whose deadline is not over.
    pub missing: usize,
}
