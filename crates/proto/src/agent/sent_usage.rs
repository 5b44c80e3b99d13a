//! Packets and bytes of a flow that its sender has sent, by uplink segment.

use core::net::SocketAddr;

use byway_units::Time;
use byway_wire::Service;

use super::Agent;
use super::interface::AgentCounters;
use super::send_flow::SendFlowId;

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
    /// Counts a source packet on the direct path, also in the agent's counters.
    pub(super) const fn count_direct(&mut self, payload_bytes: usize, counters: &mut AgentCounters) {
        self.direct.add(payload_bytes);
        counters.source_packets += 1;
    }

    /// Counts a packet to the ingress relay of a flow with this service.
    pub(super) const fn add_to_relays(&mut self, payload_bytes: usize, service: Service) {
        self.to_relays.add(payload_bytes);
        if !matches!(service, Service::Pull | Service::Coding | Service::Internet) {
            self.relayed_on.add(payload_bytes);
        }
    }
}

impl Agent {
    /// Returns the packets of a flow that this agent has sent; `None` if the flow was closed.
    #[must_use]
    pub fn sent_usage(&self, flow: SendFlowId) -> Option<SentUsage> {
        self.senders.get(flow.0).map(|flow| flow.usage)
    }

    /// Returns the address to which a flow's packets go on the direct path; `None` if the flow was
    /// closed, or there is no direct path.
    #[must_use]
    pub fn sent_address(&self, flow: SendFlowId) -> Option<SocketAddr> {
        let session = self.sessions.get(self.senders.get(flow.0)?.peer)?;
        session.path.address().copied()
    }
}
