//! Sessions with relays for their own sake: to know how far away they are, and to be known there.

use byway_units::{AgentId, Duration, FlowId, Rate, RelayId, Time};
use byway_wire::messages::{Close, CloseReason};
use byway_wire::{FlowKey, Message, Service, Shard};

use super::registration::Registrations;
use super::settings::{FlowSettings, RelayPath, flow_between};
use super::{Agent, Flow};
use crate::outbox::Urgency;
use crate::policy::CodingRates;

/// The flow from an agent to itself that carries nothing: each relay that the agent visits is a path of it.
#[derive(Debug)]
pub(super) struct Visits {
    pub(super) key: FlowKey,
    pub(super) settings: FlowSettings,
    pub(super) registrations: Registrations,
    /// When a relay is to be asked (again).
    pub(super) deadline: Option<Time>,
}

impl Visits {
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
    /// Has a session with a relay that was added, flows or not. The path begins and ends at the relay, and its grant is for
    /// the flow of number 0 from this agent to itself, with service internet. How far away the relay is, then says
    /// [`Agent::relay_status`]. A visit to the same relay with another grant takes the place of the one before.
    pub fn visit(&mut self, path: RelayPath, now: Time) {
        let mut paths = self.visits.settings.paths.clone();
        match paths.iter_mut().find(|known| known.ingress == path.ingress) {
            Some(known) => *known = path,
            None => paths.push(path),
        }
        self.change_paths(Flow::Visits, paths, now);
        self.finish(now);
    }

    /// Ends the visit to a relay. If no path of a flow begins or ends there, the session ends too, and the relay has to be
    /// added again before it is of use.
    pub fn leave_relay(&mut self, place: (RelayId, Shard), now: Time) {
        let mut paths = self.visits.settings.paths.clone();
        paths.retain(|path| path.ingress != place);
        self.change_paths(Flow::Visits, paths, now);
        let flows = self.all_flows();
        let is_used = flows.into_iter().any(|flow| {
            let (_, role) = self.identity_of(flow);
            self.settings_of(flow).paths.iter().any(|path| path.end_of(role) == place)
        });
        if let Some(relay) = self.relay_places.get(&place).copied().filter(|_| !is_used) {
            let close = Message::Close(Close { reason: CloseReason::Leaving });
            let session = self.relays[relay].session;
            if self.sessions.is_established(session, now) {
                self.sessions.send_alone(session, &close, Urgency::Original, now);
            }
            self.remove_relay(relay);
        }
        self.finish(now);
    }
}
