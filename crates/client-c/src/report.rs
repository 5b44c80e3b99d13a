//! What became of packets, as C has it.

use byway_client::{FlowReport, mean_repair_time};

use crate::registration::number_of;

/// What became of the packets of two flows. Counters are of packets: a datagram of more than 1,354 bytes is two.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Report {
    /// 1 if the peer has reported anything of what is sent to it; else the fields of what is sent are zero.
    pub has_sent: i32,
    /// The service of what is sent, now: BYWAY_SERVICE_...
    pub service: i32,
    /// 1 if the peer is reached directly, as far as is known.
    pub is_direct: i32,
    /// What is sent: the longest row of lost packets.
    pub sent_longest_burst: u32,
    /// What is sent: first delivered by the direct path.
    pub sent_direct: u64,
    /// What is sent: lost on the direct path, before any repair.
    pub sent_lost: u64,
    /// Of these, repaired in time.
    pub sent_repaired: u64,
    /// What is sent: first delivered by relays, unasked.
    pub sent_forwarded: u64,
    /// What is sent: came too late.
    pub sent_late: u64,
    /// The true loss of the direct path in packets of a million.
    pub sent_lost_per_million: u64,
    /// How much later than the fastest packets came within the last interval: half, 95 % and 99 % at most, in microseconds.
    pub sent_delay_p50_us: u64,
    /// See sent_delay_p50_us.
    pub sent_delay_p95_us: u64,
    /// See sent_delay_p50_us.
    pub sent_delay_p99_us: u64,
    /// What came: by the direct path.
    pub received_direct: u64,
    /// What came: noticed to be lost on the direct path.
    pub received_lost: u64,
    /// Of these, repaired in time.
    pub received_repaired: u64,
    /// What came: first by relays, unasked.
    pub received_forwarded: u64,
    /// What came: too late, and was not delivered.
    pub received_late: u64,
    /// How long repairs in time took in the mean, in microseconds; 0 if there were none.
    pub received_repair_time_us: u64,
}

/// The IP bytes of a client by what they carry, since it was made.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Segments {
    /// Originals, to peers.
    pub direct_sent: u64,
    /// Copies and repair packets, to relays.
    pub copies_sent: u64,
    /// What is given for others' repairs, to relays.
    pub answers_sent: u64,
    /// Handshakes, requests, reports and probes.
    pub messages_sent: u64,
    /// Originals, from peers.
    pub direct_received: u64,
    /// Repairs, from relays.
    pub repairs_received: u64,
    /// What relays deliver unasked.
    pub forwarded_received: u64,
    /// Handshakes, reports, probes and in-stream repair packets.
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
            received_repaired: received.in_stream + received.cooperative + received.cached,
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
