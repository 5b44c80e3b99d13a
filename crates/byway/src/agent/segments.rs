//! What goes over which segment, in IP bytes: the direct path, to relays and from them.

use std::net::SocketAddr;

use byway_api::SegmentBytes;
use byway_proto::Transmit;
use byway_sim::ip_bytes;
use byway_wire::packets::{EnvelopeRole, Kind};

const SOURCE: u8 = Kind::Source.first_byte();
const ENVELOPE: u8 = Kind::Envelope.first_byte();

/// Counters of an agent's datagrams.
#[derive(Debug, Default)]
pub(super) struct Segments {
    pub(super) bytes: SegmentBytes,
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
}

impl Segments {
    pub(super) fn sent(&mut self, transmit: &Transmit<'_>) {
        let bytes = ip_bytes(transmit.bytes, transmit.to).count();
        let segment = match transmit.bytes {
            [SOURCE, ..] => &mut self.bytes.direct_sent,
            [ENVELOPE, role, ..] if *role == EnvelopeRole::CooperativeAnswer as u8 => {
                &mut self.bytes.answers_sent
            }
            [ENVELOPE, ..] => &mut self.bytes.copies_sent,
            _ => &mut self.bytes.messages_sent,
        };
        *segment += bytes;
    }

    pub(super) fn received(&mut self, payload: &[u8], from: SocketAddr) {
        let bytes = ip_bytes(payload, from).count();
        let segment = match payload {
            [SOURCE, ..] => &mut self.bytes.direct_received,
            [ENVELOPE, role, ..] if *role == EnvelopeRole::Forwarded as u8 => {
                &mut self.bytes.forwarded_received
            }
            [ENVELOPE, ..] => &mut self.bytes.repairs_received,
            _ => &mut self.bytes.messages_received,
        };
        *segment += bytes;
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
