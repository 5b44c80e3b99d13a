//! Remote flows: aliases of other relays for the flows that they send to this one.

use alloc::vec::Vec;

use byway_wire::messages::AliasAnnouncement;
use byway_wire::{Alias, FlowKey, Service};

use super::super::alias_table::AliasTable;
use super::{RelayPeerId, RelayPeerTable, RemoteFlow, RemoteHandling, remove};
use crate::limits::REMOTE_ALIASES_PER_FLOW_MAX;
use crate::policy::forwards;

/// Memory of a remote flow's entry in the table by key, in bytes.
const REMOTE_FLOW_KEY_BYTES: u64 = 128;

impl RelayPeerTable {
    /// Returns the memory of the flows that other relays advertised, in bytes.
    pub(in crate::relay) fn remote_flow_bytes(&self) -> u64 {
        let aliases: u64 = self.peers.iter().map(|relay_peer| relay_peer.remote_flows.bytes()).sum();
        aliases + self.remote_aliases.len() as u64 * REMOTE_FLOW_KEY_BYTES
    }

    /// True if there is memory for another flow that a peer relay advertises under this alias.
    pub(in crate::relay) fn has_capacity_for(&self, peer: RelayPeerId, alias: Alias) -> bool {
        let more = self.get(peer).remote_flows.more_bytes(alias) + REMOTE_FLOW_KEY_BYTES;
        self.remote_flow_bytes() + more <= self.remote_flow_bytes_max
    }

    /// Records a flow that a peer relay advertises, with its alias. `is_granted` tells if the
    /// flow's packets are permitted.
    pub(in crate::relay) fn on_advertisement(
        &mut self,
        peer: RelayPeerId,
        flow: &AliasAnnouncement,
        is_granted: bool,
    ) {
        let remote_flows = &mut self.peers[usize::from(peer.0)].remote_flows;
        let handling = match flow.service {
            service if forwards(service) => RemoteHandling::Deliver,
            Service::Coding if flow.adaptive_redundancy => RemoteHandling::RepairAndReport,
            _ => RemoteHandling::Repair,
        };
        let (key, is_selective) = (flow.flow_key, flow.selective);
        let remote_flow = RemoteFlow { key, is_granted, handling, is_selective };
        let before = remote_flows.insert(flow.alias, remote_flow);
        if let Some(before) = before.filter(|before| before.key != flow.flow_key) {
            remove(&mut self.remote_aliases, before.key, (peer, flow.alias));
        } else if before.is_some() {
            return;
        }
        let known = self.remote_aliases.entry(flow.flow_key).or_default();
        if known.len() == REMOTE_ALIASES_PER_FLOW_MAX {
            known.remove(0);
        }
        known.push((peer, flow.alias));
    }

    /// Removes all flows that a peer relay advertised.
    pub(super) fn forget_remote_flows(&mut self, peer: RelayPeerId) {
        let remote_flows =
            core::mem::replace(&mut self.peers[usize::from(peer.0)].remote_flows, AliasTable::new());
        for (alias, known) in remote_flows.iter() {
            remove(&mut self.remote_aliases, known.key, (peer, alias));
        }
    }

    /// Permits or forbids a peer relay to send packets under one of its aliases.
    pub(in crate::relay) fn set_granted(&mut self, peer: RelayPeerId, alias: Alias, is_granted: bool) {
        if let Some(remote_flow) = self.peers[usize::from(peer.0)].remote_flows.get_mut(alias) {
            remote_flow.is_granted = is_granted;
        }
    }

    /// True if a peer relay adapts the redundancy of its flow with this alias to the losses.
    pub(in crate::relay) fn is_adaptive(&self, peer: RelayPeerId, alias: Alias) -> bool {
        self.get(peer)
            .remote_flows
            .get(alias)
            .is_some_and(|flow| flow.handling == RemoteHandling::RepairAndReport)
    }

    /// Returns the peer relays that advertised a flow to this one, with their aliases.
    pub(in crate::relay) fn remote_aliases_of(&self, key: FlowKey) -> &[(RelayPeerId, Alias)] {
        self.remote_aliases.get(&key).map_or(&[], Vec::as_slice)
    }
}
