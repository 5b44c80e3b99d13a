//! Handling of a TUN device that an administrator has set down. Until it is up again, packets
//! bypass Byway, also those of peers.

use byway_net::Io;
use byway_units::Duration;

use super::{CaptureState, TunForwarder};
use crate::agent::driver::AgentDriver;
use crate::agent::mappings::{MappingId, Side};

/// Interval between two checks of a device that is down. Once it is up, packets are captured within
/// two seconds.
const DEVICE_POLL_INTERVAL: Duration = Duration::from_secs(1);

impl TunForwarder {
    /// True if an administrator has set the TUN device down.
    pub(in crate::agent) fn is_down(&self) -> bool {
        !self.state.is_up()
    }

    /// Sends the capture state to the task that adapts the system's routing, if it has changed.
    pub(super) fn publish_capture_state(&self, state: CaptureState) {
        self.capture_state.send_if_modified(|before| {
            let has_changed = *before != state;
            *before = state;
            has_changed
        });
    }
}

impl AgentDriver {
    /// Closes all mappings of captures and exposed networks because the TUN device is down, and
    /// stops all captures.
    ///
    /// Peers learn from the closed mappings that their packets have to bypass Byway.
    pub(super) fn close_device_mappings(&mut self, io: &mut Io) {
        let of_device = |side| matches!(side, Side::Network { .. } | Side::Capture { .. });
        let mappings = self.mappings.iter().filter(|(_, mapping)| of_device(mapping.side));
        let mappings: Vec<MappingId> = mappings.map(|(id, _)| id).collect();
        for id in mappings {
            self.close_mapping(id, io);
        }
        if let Some(tunnel) = &mut self.tunnel {
            let captures = vec![false; tunnel.settings.captures.len()];
            tunnel.publish_capture_state(CaptureState {
                generation: tunnel.generation,
                captures,
                ..CaptureState::default()
            });
            tunnel.next_poll = io.now() + DEVICE_POLL_INTERVAL;
        }
    }
}
