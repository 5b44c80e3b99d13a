//! Relay probing: sessions with relays that no flow uses, which measure their round trips and keep
//! this agent reachable through them.

use byway_units::{AgentId, Duration, FlowId, Rate, RelayId, Time};
use byway_wire::messages::{Close, CloseReason};
use byway_wire::{FlowKey, Message, Service, Shard};

use super::registration_state::Registrations;
use super::settings::{FlowSettings, RelayPath, flow_between};
use super::{Agent, Flow};
use crate::outbox::Priority;
use crate::policy::CodingRates;

/// Pseudo-flow from an agent to itself, without packets; each probed relay is a path of it.
#[derive(Debug)]
pub(super) struct RelayProbing {
    pub(super) key: FlowKey,
    pub(super) settings: FlowSettings,
    pub(super) registrations: Registrations,
    /// Time of the pseudo-flow's next registration request.
    pub(super) deadline: Option<Time>,
}

impl RelayProbing {
    pub(super) fn new(agent: AgentId) -> Self {
        let settings = FlowSettings {
            service: Service::Internet,
            rates: CodingRates { in_stream: None, batch: None },
            rate: Rate::from_bits_per_second(0),
            latency_budget: Duration::ZERO,
            ..FlowSettings::default()
        };
        let key = flow_between(agent, agent, FlowId::new(0));
        Self { key, settings, registrations: Registrations::new(0), deadline: None }
    }
}

impl Agent {
    /// Opens a session with a relay that was added, even if no flow uses it. The path begins and
    /// ends at the relay. Its grant is for flow 0 from this agent to itself, with the service
    /// `internet`. [`Agent::relay_status`] then reports the relay's round trip. Another grant for
    /// the same relay replaces the former one.
    pub fn probe_relay(&mut self, path: RelayPath, now: Time) {
        let mut paths = self.relay_probing.settings.paths.clone();
        match paths.iter_mut().find(|known| known.ingress == path.ingress) {
            Some(known) => *known = path,
            None => paths.push(path),
        }
        self.change_paths(Flow::RelayProbing, paths, now);
        self.finish(now);
    }

    /// Stops probing a relay shard. If no path of a flow begins or ends there, the session ends
    /// too, and the relay has to be added again before use.
    pub fn stop_relay_probing(&mut self, id: (RelayId, Shard), now: Time) {
        let mut paths = self.relay_probing.settings.paths.clone();
        paths.retain(|path| path.ingress != id);
        self.change_paths(Flow::RelayProbing, paths, now);
        let flows = self.all_flows();
        let is_used = flows.into_iter().any(|flow| {
            let (_, role) = self.identity_of(flow);
            self.settings_of(flow).paths.iter().any(|path| path.near_relay(role) == id)
        });
        if let Some(relay) = self.relay_indices.get(&id).copied().filter(|_| !is_used) {
            let close = Message::Close(Close { reason: CloseReason::Leaving });
            let session = self.relays[relay].session;
            if self.sessions.is_established(session, now) {
                self.sessions.send_alone(session, &close, Priority::Source, now);
            }
            self.remove_relay(relay);
        }
        self.finish(now);
    }
}
