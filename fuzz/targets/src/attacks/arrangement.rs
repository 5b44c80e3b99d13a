//! Arrangements: the service of the honest flow, and the relays on its paths.

use std::fmt;

use byway_wire::Service;

use crate::harness::topology::{EGRESS, INGRESS, NodeId};

/// Relays of the standby path, if there are four.
const STANDBY: [NodeId; 2] = [NodeId::Relay(3), NodeId::Relay(4)];

/// Service and relays of the honest flow. The attacked relay is its egress relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrangement {
    /// Service of the honest flow.
    pub service: Service,
    /// Number of relays: one for both ends, one for each end, or two of these and two on standby.
    pub relays: usize,
}

impl Arrangement {
    /// The arrangement of the table of all attacks. The attacked relay is on the flow's only path.
    pub const USUAL: Self = Self { service: Service::Forwarding, relays: 2 };

    /// Returns all arrangements.
    pub fn all() -> impl Iterator<Item = Self> {
        let services = [Service::Caching, Service::Coding, Service::Forwarding];
        services.into_iter().flat_map(|service| [1, 2, 4].map(|relays| Self { service, relays }))
    }

    /// Returns ingress and egress relay of each path, the best path first.
    pub(super) fn paths(self) -> Vec<[NodeId; 2]> {
        match self.relays {
            1 => vec![[EGRESS; 2]],
            2 => vec![[INGRESS, EGRESS]],
            _ => vec![[INGRESS, EGRESS], STANDBY],
        }
    }

    /// Returns the relay of the accomplice.
    pub(super) fn mate_relay(self) -> NodeId {
        self.paths()[0][0]
    }

    /// Returns all relays, the attacked one first.
    pub(super) fn nodes(self) -> Vec<NodeId> {
        let mut nodes = vec![EGRESS];
        for node in self.paths().into_iter().flatten() {
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        nodes
    }
}

impl fmt::Display for Arrangement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let service = match self.service {
            Service::Caching => "caching",
            Service::Coding => "coding",
            _ => "forwarding",
        };
        write!(f, "{service} | {}", self.relays)
    }
}
