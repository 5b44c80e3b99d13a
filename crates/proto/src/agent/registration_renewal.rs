//! Renewal of registrations, after a relay or this agent has lost its state.

use byway_units::Time;
use byway_wire::messages::Unregister;
use byway_wire::{GrantedRelay, Message};

use super::{Agent, Flow};
use crate::session::SessionId;

impl Agent {
    /// Registers a flow again at a relay that forgot it: its paths to the relay `far`, or all its
    /// paths there.
    pub(super) fn register_again(
        &mut self,
        flow: Flow,
        session: SessionId,
        far: Option<GrantedRelay>,
        now: Time,
    ) {
        let paths = match far {
            Some(far) => self.paths_ended(flow, session, far),
            None => self.paths_through(flow, session),
        };
        for path in paths {
            if self.registrations_of(flow).alias_of(path).is_some() {
                self.registrations_of_mut(flow).restart(path, now);
            }
        }
        self.register(flow, now);
    }

    /// Registers all flows again at a relay that does not know them, because the relay or this
    /// agent restarted.
    pub(super) fn register_all_again(&mut self, session: SessionId, now: Time) {
        for flow in self.all_flows() {
            self.work.entries += 1;
            for path in self.paths_through(flow, session) {
                self.registrations_of_mut(flow).restart(path, now);
            }
            self.register(flow, now);
        }
    }

    /// Unregisters a flow at the relays of its paths, and registers it again.
    pub(super) fn withdraw_registrations(&mut self, flow: Flow, now: Time) {
        let (flow_key, role) = self.identity_of(flow);
        for path in 0..self.settings_of(flow).paths.len() {
            if let Some(session) = self.session_of_path(flow, path) {
                let unregister = Unregister { flow_key, role, far_relay: None };
                self.sessions.queue_message(session, &Message::Unregister(unregister), now);
            }
            self.registrations_of_mut(flow).restart(path, now);
        }
        self.register(flow, now);
    }
}
