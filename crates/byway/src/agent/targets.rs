//! Addresses of exposed targets that have DNS names.

use std::net::SocketAddr;
use std::sync::Arc;

use byway_net::Io;
use byway_units::Time;

use super::driver::AgentDriver;
use super::limits::TARGET_SILENCE_TIMEOUT;
use super::mappings::{Mapping, MappingId, Side};
use crate::name_resolution::ResolvedNames;
use crate::settings::{Endpoint, ExposedKind};

impl AgentDriver {
    /// Returns the address of an exposed target; `None` if its DNS name has not resolved yet.
    pub(super) fn target_address(&self, target: &Endpoint) -> Option<SocketAddr> {
        self.resolved.addresses(target).first().copied()
    }

    /// Replaces the addresses to which targets' DNS names resolve. Closes silent mappings to former
    /// addresses.
    pub(super) fn on_names(&mut self, resolved: Arc<ResolvedNames>, io: &mut Io) {
        self.resolved = resolved;
        self.close_former_targets(io);
    }

    /// Closes mappings to addresses that a target's name no longer resolves to, if the target is
    /// silent. The application's next datagram begins a mapping to the new address.
    pub(super) fn close_former_targets(&mut self, io: &mut Io) {
        let former: Vec<MappingId> = self
            .mappings
            .iter()
            .filter(|(_, mapping)| self.is_former_target(mapping, io.now()))
            .map(|(id, _)| id)
            .collect();
        for id in former {
            self.close_mapping(id, io);
        }
    }

    fn is_former_target(&self, mapping: &Mapping, now: Time) -> bool {
        let (Side::Exposed { index, .. }, Some(endpoint)) = (mapping.side, mapping.endpoint) else {
            return false;
        };
        let ExposedKind::Target(target @ Endpoint::Name { .. }) = &self.exposed[index].at else {
            return false;
        };
        let known = self.resolved.addresses(target);
        let is_silent = now.saturating_since(mapping.sent_last) >= TARGET_SILENCE_TIMEOUT;
        !known.is_empty() && !known.contains(&endpoint.address) && is_silent
    }
}
