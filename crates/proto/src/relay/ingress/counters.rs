//! Counters of the ingress half: its packets, and a reason for each packet that it leaves out.

use crate::counters::counters;

counters! {
/// Counters since the start. Bytes are those of sealed packets and of their repair packets, without
/// headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IngressCounters {
    /// Copies accepted from senders.
    pub copies: u64,
    /// Bytes of the packets that [`Self::copies`] counts.
    pub copies_bytes: u64,
    /// Copies that arrived twice.
    pub copies_duplicate: u64,
    /// Copies discarded because they exceed the flow's registered rate, or the rate of its grant.
    pub copies_beyond_rate: u64,
    /// Copies whose coded bytes are longer than any packet may be.
    pub copies_too_long: u64,
    /// Copies discarded because their sequence number is too far below the flow's highest.
    pub copies_too_old: u64,
    /// Copies that their senders sent again after a copy NACK.
    pub copies_retransmitted: u64,
    /// Copies that this relay requested from their senders by copy NACKs.
    pub copies_nacked: u64,
    /// Copies forwarded to an egress relay.
    pub copies_relayed: u64,
    /// Bytes of the packets that [`Self::copies_relayed`] counts.
    pub copies_relayed_bytes: u64,
    /// Copies sent to egress relays because these requested them by copy NACKs.
    pub retransmitted: u64,
    /// Bytes of the packets that [`Self::retransmitted`] counts.
    pub retransmitted_bytes: u64,
    /// Requested copies that expired, or never arrived at this relay.
    pub retransmits_expired: u64,
    /// Copies requested more often than allowed, or beyond the flow's rate.
    pub retransmits_refused: u64,
    /// Copies sent to receivers at this relay on behalf of their senders.
    pub duplicated: u64,
    /// Bytes of the packets that [`Self::duplicated`] counts.
    pub duplicated_bytes: u64,
    /// Source packets in cross-stream batches with repair packets.
    pub covered: u64,
    /// Source packets alone in their batch, and therefore without cross-stream repair.
    pub uncovered_alone: u64,
    /// Source packets of batches that the overhead budget did not suffice for.
    pub uncovered_budget: u64,
    /// Source packets of batches without repair packets, because their group loses no packets.
    pub uncovered_lossless: u64,
    /// Source packets that arrived before an egress relay knew their flow.
    pub uncovered_unknown: u64,
    /// Source packets left out of a batch, because their tenant has reached its memory limit.
    pub uncovered_memory: u64,
    /// Lost packets of coded flows that egress relays reported.
    pub losses_reported: u64,
    /// Reports of a flow's losses that were ignored, because they exceed its packets.
    pub losses_refused: u64,
    /// Cross-stream repair packets made.
    pub cross_stream: u64,
    /// Bytes of the packets that [`Self::cross_stream`] counts.
    pub cross_stream_bytes: u64,
    /// In-stream repair packets made.
    pub in_stream: u64,
    /// Bytes of the packets that [`Self::in_stream`] counts.
    pub in_stream_bytes: u64,
    /// In-stream repair packets not made, because a flow of the coding group has an outage and its
    /// packets are forwarded.
    pub in_stream_saved: u64,
    /// In-stream repair packets made by the flows' senders, and forwarded.
    pub sender_fec: u64,
    /// Bytes of the packets that [`Self::sender_fec`] counts.
    pub sender_fec_bytes: u64,
    /// In-stream repair packets of senders whose registration does not include sender FEC.
    pub sender_fec_refused: u64,
    /// Source packets left out of an in-stream block because they arrived too late for it.
    pub in_stream_left_out: u64,
}
}
