//! Delivery statistics and byte counts in the C interface.

use byway_client::{FlowReport, mean_repair_time};

use crate::registration::number_of;

/// Delivery statistics of a pair of flows, as measured by the receiver of each direction. They
/// count packets: a datagram of more than 1,354 bytes takes two packets.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Report {
    /// 1 if the peer has sent a report. Otherwise the fields of the sent flow are zero.
    pub has_sent: i32,
    /// Current service of the sent flow: BYWAY_SERVICE_...
    pub service: i32,
    /// 1 if the session with the peer uses the direct path, as far as known.
    pub is_direct: i32,
    /// Sent flow: packets in the longest burst of losses.
    pub sent_longest_burst: u32,
    /// Sent flow: packets first delivered by the direct path.
    pub sent_direct: u64,
    /// Sent flow: packets lost on the direct path, before any repair.
    pub sent_lost: u64,
    /// Sent flow: lost packets that were repaired in time.
    pub sent_repaired: u64,
    /// Sent flow: packets first delivered by relays, without a NACK.
    pub sent_forwarded: u64,
    /// Sent flow: packets that arrived after the latency budget.
    pub sent_late: u64,
    /// Loss rate of the direct path before any repair, in packets per million.
    pub sent_lost_per_million: u64,
    /// Median of the delays above that of the fastest packets, in the last reported interval, in
    /// microseconds.
    pub sent_delay_p50_us: u64,
    /// 95th percentile of the delays above that of the fastest packets, in microseconds.
    pub sent_delay_p95_us: u64,
    /// 99th percentile of the delays above that of the fastest packets, in microseconds.
    pub sent_delay_p99_us: u64,
    /// Received flow: packets delivered by the direct path.
    pub received_direct: u64,
    /// Received flow: packets detected as lost on the direct path.
    pub received_lost: u64,
    /// Received flow: lost packets that were repaired in time.
    pub received_repaired: u64,
    /// Received flow: packets first delivered by relays, without a NACK.
    pub received_forwarded: u64,
    /// Received flow: packets that arrived after the latency budget, and were not delivered.
    pub received_late: u64,
    /// Mean time of repairs in time, in microseconds; 0 without repairs.
    pub received_repair_time_us: u64,
}

/// Numbers of IP bytes that a client sent and received since it was created, by content.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Segments {
    /// Bytes of source packets to peers.
    pub direct_sent: u64,
    /// Bytes of copies and repair packets to relays.
    pub copies_sent: u64,
    /// Bytes of packets for the repair of other flows, to relays.
    pub answers_sent: u64,
    /// Bytes of handshakes, requests, reports and probes sent.
    pub messages_sent: u64,
    /// Bytes of source packets from peers.
    pub direct_received: u64,
    /// Bytes of repairs from relays.
    pub repairs_received: u64,
    /// Bytes of packets that relays deliver without a NACK.
    pub forwarded_received: u64,
    /// Bytes of handshakes, reports, probes and in-stream repair packets received.
    pub messages_received: u64,
}

impl From<&byway_client::Segments> for Segments {
    fn from(segments: &byway_client::Segments) -> Self {
        let byway_client::Segments {
            direct_sent,
            copies_sent,
            answers_sent,
            messages_sent,
            direct_received,
            repairs_received,
            forwarded_received,
            messages_received,
        } = *segments;
        Self {
            direct_sent,
            copies_sent,
            answers_sent,
            messages_sent,
            direct_received,
            repairs_received,
            forwarded_received,
            messages_received,
        }
    }
}

impl From<&FlowReport> for Report {
    fn from(report: &FlowReport) -> Self {
        let received = &report.received;
        let base = Self {
            service: number_of(report.status.service),
            is_direct: report.status.is_direct.into(),
            received_direct: received.direct,
            received_lost: received.lost,
            received_repaired: received.repaired(),
            received_forwarded: received.forwarded,
            received_late: received.late,
            received_repair_time_us: mean_repair_time(received).map_or(0, byway_units::Duration::as_micros),
            ..Self::default()
        };
        let Some(sent) = &report.sent else {
            return base;
        };
        Self {
            has_sent: 1,
            sent_longest_burst: sent.longest_burst,
            sent_direct: sent.counted.direct,
            sent_lost: sent.counted.lost,
            sent_repaired: sent.repaired(),
            sent_forwarded: sent.counted.forwarded,
            sent_late: sent.counted.late,
            sent_lost_per_million: sent.lost_per_million(),
            sent_delay_p50_us: sent.delay.p50.duration().as_micros(),
            sent_delay_p95_us: sent.delay.p95.duration().as_micros(),
            sent_delay_p99_us: sent.delay.p99.duration().as_micros(),
            ..base
        }
    }
}
