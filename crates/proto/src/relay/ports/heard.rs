//! What other relays call the flows that they send here.

use alloc::vec::Vec;

use byway_wire::messages::AliasAnnouncement;
use byway_wire::{Alias, FlowKey};

use super::super::alias_table::AliasTable;
use super::{EgressPort, Heard, Ports, remove};
use crate::limits::HEARD_PER_FLOW_MAX;
use crate::policy::forwards;

/// Memory of a flow that other relays send here in the table of their keys, in bytes.
const HEARD_KEY_BYTES: u64 = 128;

impl Ports {
    /// Returns the memory of what others call their flows.
    pub(in crate::relay) fn heard_bytes(&self) -> u64 {
        let aliases: u64 = self.all.iter().map(|port| port.heard.bytes()).sum();
        aliases + self.heard.len() as u64 * HEARD_KEY_BYTES
    }

    /// Returns true if there is memory to note what another relay calls a flow.
    pub(in crate::relay) fn may_hear(&self, port: EgressPort, alias: Alias) -> bool {
        let more = self.get(port).heard.more_bytes(alias) + HEARD_KEY_BYTES;
        self.heard_bytes() + more <= self.heard_max
    }

    /// Notes what the other side calls a flow, and whether the flow's packets may come from there.
    pub(in crate::relay) fn hear(&mut self, port: EgressPort, flow: &AliasAnnouncement, is_fed: bool) {
        let heard = &mut self.all[usize::from(port.0)].heard;
        let (key, forwards, is_selective) = (flow.flow_key, forwards(flow.service), flow.selective);
        let before = heard.insert(flow.alias, Heard { key, is_fed, forwards, is_selective });
        if let Some(before) = before.filter(|before| before.key != flow.flow_key) {
            remove(&mut self.heard, before.key, (port, flow.alias));
        } else if before.is_some() {
            return;
        }
        let known = self.heard.entry(flow.flow_key).or_default();
        if known.len() == HEARD_PER_FLOW_MAX {
            known.remove(0);
        }
        known.push((port, flow.alias));
    }

    /// Forgets what the other side calls its flows.
    pub(super) fn forget_heard(&mut self, port: EgressPort) {
        let heard = core::mem::replace(&mut self.all[usize::from(port.0)].heard, AliasTable::new());
        for (alias, known) in heard.iter() {
            remove(&mut self.heard, known.key, (port, alias));
        }
    }

    /// Notes whether the packets of a flow may come from there.
    pub(in crate::relay) fn set_fed(&mut self, port: EgressPort, alias: Alias, is_fed: bool) {
        if let Some(heard) = self.all[usize::from(port.0)].heard.get_mut(alias) {
            heard.is_fed = is_fed;
        }
    }

    /// All ports and aliases by which others know a flow that they send here.
    pub(in crate::relay) fn heard_as(&self, key: FlowKey) -> Vec<(EgressPort, Alias)> {
        self.heard.get(&key).cloned().unwrap_or_default()
    }
}
