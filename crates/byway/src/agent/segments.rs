//! Counters of an agent's traffic: IP bytes by segment (direct path, to relays, from relays), and
//! datagrams by outcome.

use std::net::SocketAddr;

use byway_api::{CostTotals, SegmentBytes};
use byway_proto::conventions::{self, PairUse, Progress, ip_bytes};
use byway_proto::{Transmit, Uplink};
use byway_units::Time;

use crate::settings::UplinkDevice;

/// Counters of an agent's traffic: IP bytes by segment, and datagrams by outcome.
#[derive(Debug, Default)]
pub(super) struct Segments {
    by_segment: conventions::Segments,
    /// Datagrams accepted from applications, and their bytes.
    pub(super) accepted: u64,
    pub(super) accepted_bytes: u64,
    /// Datagrams delivered to applications, and their bytes.
    pub(super) delivered: u64,
    pub(super) delivered_bytes: u64,
    /// Datagrams dropped because they arrive at a source port from another endpoint than its
    /// target.
    pub(super) unsolicited: u64,
    /// Datagrams of applications dropped because the peer refuses them.
    pub(super) refused: u64,
    /// Datagrams of applications dropped because the peer is not on the map.
    pub(super) unknown_peer: u64,
    /// Datagrams of applications dropped because this agent has no mapping left.
    pub(super) mappings_full: u64,
    /// Datagrams of applications dropped because the peer has no mapping left.
    pub(super) peer_mappings_full: u64,
    /// Offers of peers refused because this agent has no mapping left.
    pub(super) refused_offers: u64,
    /// Mappings evicted for new ones.
    pub(super) evicted: Evictions,
    /// Costs of flows that have ended.
    pub(super) ended: CostTotals,
    pub(super) uplinks: UplinkTraffic,
}

/// Uplinks that the settings name, and the IP bytes sent by each.
#[derive(Debug, Default)]
pub(super) struct UplinkTraffic {
    pub(super) devices: Vec<UplinkDevice>,
    /// IP bytes sent by the first and the second uplink.
    sent_bytes: [u64; 2],
}

impl UplinkTraffic {
    /// Returns each uplink with its device and the bytes sent by it.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Uplink, &UplinkDevice, u64)> {
        let uplinks = [Uplink::First, Uplink::Second].into_iter().zip(&self.devices);
        uplinks.map(|(uplink, device)| (uplink, device, self.sent_bytes[uplink as usize]))
    }
}

/// Number of mappings evicted for new ones, by their state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evictions {
    /// Mappings whose datagrams were never answered.
    pub(super) unanswered: u64,
    /// Mappings with an answer, but no datagram after it.
    pub(super) answered: u64,
    /// Mappings of conversations that paused for long enough.
    pub(super) idle: u64,
    /// Mappings in use, evicted because their owner has the most mappings.
    pub(super) share: u64,
}

impl Evictions {
    pub(super) fn count(&mut self, usage: PairUse, now: Time) {
        let counter = match usage.progress() {
            _ if !usage.is_evictable(now) => &mut self.share,
            Progress::Unanswered => &mut self.unanswered,
            Progress::Answered => &mut self.answered,
            Progress::Confirmed => &mut self.idle,
        };
        *counter += 1;
    }
}

impl Segments {
    pub(super) fn count_sent(&mut self, transmit: &Transmit<'_>) {
        let bytes = ip_bytes(transmit.bytes, transmit.to).count();
        *self.by_segment.sent_mut(transmit.bytes) += bytes;
        self.uplinks.sent_bytes[transmit.from.uplink() as usize] += bytes;
    }

    pub(super) fn count_received(&mut self, payload: &[u8], from: SocketAddr) {
        *self.by_segment.received_mut(payload) += ip_bytes(payload, from).count();
    }

    /// Returns the byte counters as the status reports them.
    pub(super) const fn bytes(&self) -> SegmentBytes {
        let conventions::Segments {
            direct_sent,
            copies_sent,
            answers_sent,
            messages_sent,
            direct_received,
            repairs_received,
            forwarded_received,
            messages_received,
        } = self.by_segment;
        SegmentBytes {
            direct_sent,
            direct_received,
            copies_sent,
            answers_sent,
            messages_sent,
            messages_received,
            repairs_received,
            forwarded_received,
        }
    }

    pub(super) const fn count_accepted(&mut self, datagram: &[u8]) {
        self.accepted += 1;
        self.accepted_bytes += datagram.len() as u64;
    }

    pub(super) const fn count_delivered(&mut self, datagram: &[u8]) {
        self.delivered += 1;
        self.delivered_bytes += datagram.len() as u64;
    }
}
