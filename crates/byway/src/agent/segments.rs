//! What goes over which segment, in IP bytes: the direct path, to relays and from them.

use std::net::SocketAddr;

use byway_api::SegmentBytes;
use byway_proto::Transmit;
use byway_proto::conventions::{self, PairUse, Progress, ip_bytes};
use byway_units::Time;

/// Counters of an agent's datagrams.
#[derive(Debug, Default)]
pub(super) struct Segments {
    carried: conventions::Segments,
    /// Datagrams of applications that were taken, and their bytes.
    pub(super) taken: u64,
    pub(super) taken_bytes: u64,
    /// Datagrams given to applications, and their bytes.
    pub(super) delivered: u64,
    pub(super) delivered_bytes: u64,
    /// Datagrams from nobody who was spoken to.
    pub(super) unsolicited: u64,
    /// Datagrams to a peer that refuses them.
    pub(super) refused: u64,
    /// Datagrams to a peer that is not in the map.
    pub(super) unknown_peer: u64,
    /// Datagrams of applications for which there is no mapping left.
    pub(super) no_room: u64,
    /// Datagrams to a peer that has no mapping left.
    pub(super) full_peer: u64,
    /// Offers of peers for which there is no mapping left.
    pub(super) refused_offers: u64,
    /// Mappings that made room for others.
    pub(super) evicted: Evictions,
}

/// Mappings that made room for others, by the reason.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evictions {
    /// Those that were never answered.
    pub(super) unanswered: u64,
    /// Those with a question and its answer.
    pub(super) answered: u64,
    /// Those with a conversation that paused.
    pub(super) idle: u64,
    /// Those in use of the owner that had most.
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
    pub(super) fn sent(&mut self, transmit: &Transmit<'_>) {
        *self.carried.sent_mut(transmit.bytes) += ip_bytes(transmit.bytes, transmit.to).count();
    }

    pub(super) fn received(&mut self, payload: &[u8], from: SocketAddr) {
        *self.carried.received_mut(payload) += ip_bytes(payload, from).count();
    }

    /// The bytes, as status says them.
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
        } = self.carried;
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

    pub(super) const fn taken(&mut self, datagram: &[u8]) {
        self.taken += 1;
        self.taken_bytes += datagram.len() as u64;
    }

    pub(super) const fn delivered(&mut self, datagram: &[u8]) {
        self.delivered += 1;
        self.delivered_bytes += datagram.len() as u64;
    }
}
