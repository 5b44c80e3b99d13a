//! Counts of an agent's traffic by segment: the direct path, to relays, and from relays.

use core::net::SocketAddr;

use byway_units::Bytes;
use byway_wire::packets::{EnvelopeRole, Kind};

const SOURCE: u8 = Kind::Source.first_byte();
const ENVELOPE: u8 = Kind::Envelope.first_byte();

/// Returns the length of the IP packet with this UDP payload: 20 (IPv4) or 40 (IPv6) bytes of IP
/// header and 8 bytes of UDP header are added.
#[must_use]
#[inline]
pub fn ip_bytes(payload: &[u8], destination: SocketAddr) -> Bytes {
    let headers: u64 = if destination.is_ipv4() { 20 + 8 } else { 40 + 8 };
    Bytes::from(payload.len()) + Bytes::new(headers)
}

/// Counts of an agent's datagrams by segment, in bytes or another unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// Source packets sent to peers on the direct path.
    pub direct_sent: u64,
    /// Copies sent to ingress relays.
    pub copies_sent: u64,
    /// Packets sent to relays for repairs of other flows.
    pub answers_sent: u64,
    /// Handshakes, NACKs, reports, probes and other messages sent.
    pub messages_sent: u64,
    /// Source packets received from peers on the direct path.
    pub direct_received: u64,
    /// Repairs received from relays after a NACK.
    pub repairs_received: u64,
    /// Packets received from relays that forward them without a NACK.
    pub forwarded_received: u64,
    /// Handshakes, reports, probes and in-stream repair packets received.
    pub messages_received: u64,
}

impl Segments {
    /// Returns the counter of the segment to which a sent datagram with this UDP payload belongs.
    pub fn sent_mut(&mut self, payload: &[u8]) -> &mut u64 {
        match payload {
            [SOURCE, ..] => &mut self.direct_sent,
            [ENVELOPE, role, ..] if *role == EnvelopeRole::CooperativeAnswer as u8 => &mut self.answers_sent,
            [ENVELOPE, ..] => &mut self.copies_sent,
            _ => &mut self.messages_sent,
        }
    }

    /// Returns the counter of the segment to which a received datagram with this UDP payload
    /// belongs.
    pub fn received_mut(&mut self, payload: &[u8]) -> &mut u64 {
        match payload {
            [SOURCE, ..] => &mut self.direct_received,
            [ENVELOPE, role, ..] if *role == EnvelopeRole::Forwarded as u8 => &mut self.forwarded_received,
            [ENVELOPE, ..] => &mut self.repairs_received,
            _ => &mut self.messages_received,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_count_as_the_address_family_has_them() {
        let of = |address: &str| ip_bytes(&[0; 100], address.parse().expect("an address")).count();
        assert_eq!((of("192.0.2.1:1"), of("[2001:db8::1]:1")), (128, 148));
    }

    #[test]
    fn each_kind_of_datagram_has_a_counter() {
        let mut segments = Segments::default();
        let roles = [EnvelopeRole::CooperativeAnswer as u8, EnvelopeRole::Forwarded as u8];
        for payload in [&[SOURCE][..], &[ENVELOPE, roles[0]], &[ENVELOPE, roles[1]], &[ENVELOPE], &[0], &[]] {
            *segments.sent_mut(payload) += 1;
            *segments.received_mut(payload) += 1;
        }
        let sent =
            [segments.direct_sent, segments.copies_sent, segments.answers_sent, segments.messages_sent];
        assert_eq!(sent, [1, 2, 1, 2]);
        let received = [segments.direct_received, segments.repairs_received, segments.forwarded_received];
        assert_eq!((received, segments.messages_received), ([1, 2, 1], 2));
    }
}
