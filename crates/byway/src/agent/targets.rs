//! Addresses of exposed targets that have DNS names.

use std::net::SocketAddr;
use std::sync::Arc;

use byway_net::Io;
use byway_units::Time;

use super::limits::TARGET_SILENT_FOR;
use super::mappings::{Mapping, MappingId, Side};
use super::role::AgentRole;
use crate::names::Resolved;
use crate::settings::{Endpoint, ExposedAt};

impl AgentRole {
    /// Returns where datagrams for a target go; `None` if its name has not resolved yet.
    pub(super) fn target_address(&self, target: &Endpoint) -> Option<SocketAddr> {
        self.resolved.addresses(target).first().copied()
    }

    /// Names stand for these addresses from now on.
    pub(super) fn take_names(&mut self, resolved: Arc<Resolved>, io: &mut Io) {
        self.resolved = resolved;
        self.leave_former_targets(io);
    }

    /// Closes mappings to addresses that a target's name does not stand for any more, once they have fallen silent: the next
    /// datagram begins another, to the address that it has now.
    pub(super) fn leave_former_targets(&mut self, io: &mut Io) {
        let left: Vec<MappingId> = self
            .mappings
            .iter()
            .filter(|(_, mapping)| self.is_former_target(mapping, io.now()))
            .map(|(id, _)| id)
            .collect();
        for id in left {
            self.close_mapping(id, io);
        }
    }

    fn is_former_target(&self, mapping: &Mapping, now: Time) -> bool {
        let (Side::Exposed { place, .. }, Some(endpoint)) = (mapping.side, mapping.endpoint) else {
            return false;
        };
        let ExposedAt::Target(target @ Endpoint::Name { .. }) = &self.exposed[place].at else {
            return false;
        };
        let known = self.resolved.addresses(target);
        let is_silent = now.saturating_since(mapping.sent_last) >= TARGET_SILENT_FOR;
        !known.is_empty() && !known.contains(&endpoint.address) && is_silent
    }
}
