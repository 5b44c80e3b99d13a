//! A device that somebody has set down: packets go without Byway, also those of peers, until it is up again.

use byway_net::Io;
use byway_units::Duration;

use super::{Doors, Tunnelled};
use crate::agent::mappings::{MappingId, Side};
use crate::agent::role::AgentRole;

/// The time between looks whether the device is up again: packets are captured within two seconds then.
const DEVICE_POLL_INTERVAL: Duration = Duration::from_secs(1);

impl Tunnelled {
    /// True if the device takes no packets, as somebody has set it down.
    pub(in crate::agent) fn is_down(&self) -> bool {
        !self.state.is_up()
    }

    /// Publishes the doors, if they changed.
    pub(super) fn set_doors(&self, doors: Doors) {
        self.doors.send_if_modified(|before| {
            let is_news = *before != doors;
            *before = doors;
            is_news
        });
    }
}

impl AgentRole {
    /// Closes the mappings of the device while it is down, and all doors.
    ///
    /// Peers learn by it that their packets have to go without Byway.
    pub(super) fn close_device_mappings(&mut self, io: &mut Io) {
        let of_device = |side| matches!(side, Side::Network { .. } | Side::Capture { .. });
        let mappings = self.mappings.iter().filter(|(_, mapping)| of_device(mapping.side));
        let mappings: Vec<MappingId> = mappings.map(|(id, _)| id).collect();
        for id in mappings {
            self.close_mapping(id, io);
        }
        if let Some(tunnel) = &mut self.tunnel {
            let captures = vec![false; tunnel.settings.captures.len()];
            tunnel.set_doors(Doors { generation: tunnel.generation, captures, ..Doors::default() });
            tunnel.next_look = io.now() + DEVICE_POLL_INTERVAL;
        }
    }
}
