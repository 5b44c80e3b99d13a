//! Packets and bytes of a flow that its sender has sent, by uplink segment.

use byway_units::Time;
use byway_wire::Service;

/// Number of packets, and the bytes of their UDP payloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCount {
    /// Number of packets.
    pub packets: u64,
    /// Bytes of their UDP payloads.
    pub bytes: u64,
}

impl PacketCount {
    pub(super) const fn add(&mut self, payload_bytes: usize) {
        self.packets += 1;
        self.bytes += payload_bytes as u64;
    }
}

/// Packets of a flow that its sender has sent since the flow was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SentUsage {
    /// Time of the first packet; `None` before.
    pub began: Option<Time>,
    /// Source packets, each counted once, whichever path they take.
    pub source: PacketCount,
    /// Source packets on the direct path, those sent again included.
    pub direct: PacketCount,
    /// Packets to the ingress relay: copies, and packets that are sent again through relays.
    pub to_relays: PacketCount,
    /// Packets of `to_relays` that the ingress relay sends on to the egress relay at once: those of
    /// services whose copies do not wait at the ingress relay.
    pub relayed_on: PacketCount,
}

impl SentUsage {
    /// Counts a source packet on the direct path, also in the counter of all flows.
    pub(super) const fn count_direct(&mut self, payload_bytes: usize, all: &mut u64) {
        self.direct.add(payload_bytes);
        *all += 1;
    }

    /// Counts a packet to the ingress relay of a flow with this service.
    pub(super) const fn add_to_relays(&mut self, payload_bytes: usize, service: Service) {
        self.to_relays.add(payload_bytes);
        if !matches!(service, Service::Pull | Service::Coding | Service::Internet) {
            self.relayed_on.add(payload_bytes);
        }
    }
}
