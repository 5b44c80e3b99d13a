//! Changes of a flow's relay paths and service while it is open: a new map names other relays, or
//! newer grants, or another service is better.

use alloc::vec::Vec;

use byway_units::{RelayId, Time};
use byway_wire::messages::{FlowRole, RegisterReply, ServiceChange, ServiceChangeReply, Unregister};
use byway_wire::{Capabilities, Grant, GrantedRelay, Message, Service, Services, Shard};

use super::receive_flow::{ReceiveFlow, ReceiveFlowId};
use super::route_following::end_routes;
use super::send_flow::{SendFlow, SendFlowId};
use super::service_changes::Acceptance;
use super::settings::RelayPath;
use super::{Agent, Flow};
use crate::policy::{is_repaired_from_afar, may_have_route};
use crate::session::{Route, SessionId};

impl RelayPath {
    /// Returns true if the path's grant allows the service, or the relays' static configuration
    /// implies the grant.
    fn allows(&self, service: Service) -> bool {
        self.grant.is_empty() || Grant::parse(&self.grant).is_ok_and(|grant| grant.services.allow(service))
    }

    /// Returns true if both paths have the same relays, with any grant.
    fn is_same_path(&self, other: &Self) -> bool {
        (self.ingress, self.egress) == (other.ingress, other.egress)
    }

    /// Returns the relay near the other agent, as seen by the agent with this role.
    pub(super) const fn far_relay(&self, role: FlowRole) -> GrantedRelay {
        let (relay, shard) = match role {
            FlowRole::Sender => self.egress,
            FlowRole::Receiver => self.ingress,
        };
        GrantedRelay { relay, shard }
    }

    /// Returns the relay with which the agent with this role registers: near the sender, or near
    /// the receiver.
    pub(super) const fn near_relay(&self, role: FlowRole) -> (RelayId, Shard) {
        match role {
            FlowRole::Sender => self.ingress,
            FlowRole::Receiver => self.egress,
        }
    }
}

impl Agent {
    /// Sets the relay paths of a flow that this agent sends, best first. Paths that the flow has
    /// already keep their registration, and the agent shows a newer grant to their relay. Relays
    /// that no path uses any more receive an unregister message after the flow's latency budget. A
    /// call for a closed flow has no effect.
    pub fn set_paths(&mut self, flow: SendFlowId, paths: Vec<RelayPath>, now: Time) {
        if self.senders.get(flow.0).is_some() {
            let before = self.change_paths(Flow::Sent(flow), paths, now);
            let after = self.senders[flow.0 as usize].settings.paths.clone();
            for path in before.iter().chain(&after) {
                if let Some(relay) = self.relay_indices.get(&path.ingress).copied() {
                    self.set_copy_rate(relay);
                }
            }
        }
        self.finish(now);
    }

    /// Sets the relay paths of a flow that this agent receives, like [`Agent::set_paths`].
    pub fn set_received_paths(&mut self, flow: ReceiveFlowId, paths: Vec<RelayPath>, now: Time) {
        if self.receivers.get(flow.0).is_some() {
            let ReceiveFlow { peer, settings, .. } = &self.receivers[flow.0 as usize];
            let (peer, service) = (*peer, settings.service);
            let before = self.change_paths(Flow::Received(flow), paths, now);
            self.forget_arrival_relays(peer, service, &before);
            self.note_arrival_relays(flow);
        }
        self.finish(now);
    }

    /// Replaces the relay paths of a flow and updates its registrations; returns the former paths.
    pub(super) fn change_paths(&mut self, flow: Flow, paths: Vec<RelayPath>, now: Time) -> Vec<RelayPath> {
        let before = core::mem::replace(&mut self.settings_of_mut(flow).paths, paths);
        let after = self.settings_of(flow).paths.clone();
        if let Flow::Sent(id) = flow {
            self.senders[id.0 as usize].forget_failure_of_other_paths(now);
        }
        let same = |path: &RelayPath| before.iter().position(|known| known.is_same_path(path));
        let former: Vec<Option<usize>> = after.iter().map(same).collect();
        let registered = self.registrations_of_mut(flow).rearrange(&former);
        self.unregister_relays(flow, &before, &registered, now);
        let unchanged = || former.iter().enumerate().filter_map(|(path, known)| Some((path, (*known)?)));
        if unchanged().any(|(path, known)| before[known].grant != after[path].grant) {
            let registrations = self.registrations_of_mut(flow);
            registrations.revise();
            for (path, _) in unchanged() {
                registrations.request_again(path, now);
            }
        }
        self.register(flow, now);
        self.update_via_relay(flow);
        before
    }

    /// Schedules unregister messages for former paths of a flow, at the relays that may know it. If
    /// a relay is still near this agent on another path, only the sender's former path is
    /// unregistered, otherwise the whole flow.
    fn unregister_relays(&mut self, flow: Flow, before: &[RelayPath], registered: &[bool], now: Time) {
        let (flow_key, role) = self.identity_of(flow);
        let settings = self.settings_of(flow);
        let first = now.saturating_add(settings.latency_budget);
        let after = settings.paths.clone();
        for path in &after {
            if let Some(relay) = self.relay_session(path.near_relay(role)) {
                for far_relay in [None, Some(path.far_relay(role))] {
                    self.teardowns.complete(relay, Unregister { flow_key, role, far_relay });
                }
            }
        }
        for (path, _) in before.iter().zip(registered).filter(|(_, is_registered)| **is_registered) {
            let Some(relay) = self.relay_session(path.near_relay(role)) else {
                continue;
            };
            let begins_here = |other: &&RelayPath| other.near_relay(role) == path.near_relay(role);
            let is_unused = !after.iter().any(|other| begins_here(&other));
            let has_ended = role == FlowRole::Sender && !after.iter().any(|other| other.is_same_path(path));
            let far_relay = Some(path.far_relay(role)).filter(|_| !is_unused);
            if is_unused || has_ended {
                self.teardowns.schedule(relay, Unregister { flow_key, role, far_relay }, first);
            }
        }
    }

    /// Makes the agent at a flow's other end reachable through the relay of the path in use.
    fn update_via_relay(&mut self, flow: Flow) {
        if let Some((peer, via_relay)) = self.via_relay_of(flow)
            && let Some(session) = self.sessions.get_mut(peer)
        {
            session.via_relay = Some(via_relay);
        }
    }

    /// Removes the egress relays of these paths of a peer's flow, with this service, from those
    /// through which its packets may arrive, unless other paths use them.
    pub(super) fn forget_arrival_relays(&mut self, peer: SessionId, service: Service, paths: &[RelayPath]) {
        let Some(relays) = self.arrival_relays.get_mut(&peer) else {
            return;
        };
        let watched = usize::from(is_repaired_from_afar(service));
        for path in paths {
            if let Some(known) = relays.iter_mut().find(|known| known.relay == path.egress) {
                (known.paths, known.watched) = (known.paths - 1, known.watched - watched);
            }
        }
        relays.retain(|known| known.paths > 0);
        if relays.is_empty() {
            self.arrival_relays.remove(&peer);
        }
    }
}

impl Agent {
    /// Changes the service of a flow that this agent sends. The receiver learns of it first; then
    /// both ends register with their relays. Without an answer of the receiver, the flow keeps its
    /// service.
    ///
    /// Relays keep the copies of a flow when its service changes among coding, caching, pull and
    /// retransmission. A change from or to another service may lose packets of one round trip to
    /// the relay.
    ///
    /// A flow with a route over relays has the new service once it returns to the direct path. With
    /// [`Service::Forwarding`] or [`Service::Internet`], routes are not selected any more, and the
    /// flow changes at once.
    ///
    /// Returns `false`, and changes nothing, in these cases:
    /// - The flow was closed, or has no relay paths.
    /// - The flow has the service, is changing to it, or returns to it from its route.
    /// - A grant of the flow's paths does not allow the service.
    /// - The receiver, or an ingress relay, has an earlier version.
    pub fn set_service(&mut self, flow: SendFlowId, service: Service, now: Time) -> bool {
        let begins = if !self.may_have_service(flow, service, now) {
            false
        } else if !may_have_route(service) {
            let ends = end_routes(self, flow, now);
            self.begin_service_change(flow, service, now) || ends
        } else if self.service_changes.routes.is_routed(flow.0) {
            self.service_changes.routes.set_service(flow.0, service)
        } else {
            self.begin_service_change(flow, service, now)
        };
        self.finish(now);
        begins
    }

    /// True if an open flow with relay paths can have this service: its grants allow the service,
    /// and the receiver and the ingress relays support changes.
    fn may_have_service(&self, flow: SendFlowId, service: Service, now: Time) -> bool {
        let Some(known) = self.senders.get(flow.0).filter(|known| !known.settings.paths.is_empty()) else {
            return false;
        };
        known.settings.paths.iter().all(|path| path.allows(service))
            && self.supports_service_changes(flow, now)
    }

    /// Begins a change of service; returns false in the cases of [`Agent::set_service`].
    pub(super) fn begin_service_change(&mut self, flow: SendFlowId, service: Service, now: Time) -> bool {
        let Some(before) = self.senders.get(flow.0).map(|known| known.settings.service) else {
            return false;
        };
        let next = self.service_changes.pending_service(flow.0).unwrap_or(before);
        if next == service || !self.may_have_service(flow, service, now) {
            return false;
        }
        self.service_changes.begin(flow.0, before, service, now);
        self.send_service_changes(now);
        true
    }

    /// Returns true if a change of a sent flow's service has no answer yet.
    #[must_use]
    pub fn is_changing_service(&self, flow: SendFlowId) -> bool {
        self.service_changes.pending_service(flow.0).is_some()
    }

    /// Returns the services to which [`Agent::set_service`] may change a flow now, and the one in
    /// force. Empty if the flow was closed.
    #[must_use]
    pub fn services_for(&self, flow: SendFlowId, now: Time) -> Services {
        let Some(known) = self.senders.get(flow.0) else {
            return Services::NONE;
        };
        let in_force = Services::NONE.with(known.settings.service);
        if known.settings.paths.is_empty() || !self.supports_service_changes(flow, now) {
            return in_force;
        }
        let is_granted = |service: &&Service| {
            **service != Service::Internet && known.settings.paths.iter().all(|path| path.allows(**service))
        };
        Service::ALL.iter().filter(is_granted).fold(in_force, |all, service| all.with(*service))
    }

    /// Returns true if the receiver of a sent flow supports changes of service, and its ingress
    /// relay too. Those of its other paths may be unknown yet. The receiver answers for its egress
    /// relays.
    fn supports_service_changes(&self, flow: SendFlowId, now: Time) -> bool {
        let SendFlow { peer, settings, registrations, .. } = &self.senders[flow.0 as usize];
        let wanted = Capabilities::SERVICE_CHANGES;
        let supports = |(index, path): (usize, &RelayPath)| {
            let relay = self.relay_session(path.ingress);
            let is_unknown = index != registrations.in_use()
                && relay.is_none_or(|relay| !self.sessions.is_established(relay, now));
            is_unknown || relay.is_some_and(|relay| self.sessions.has_capabilities(relay, wanted))
        };
        self.sessions.has_capabilities(*peer, wanted) && settings.paths.iter().enumerate().all(supports)
    }

    /// Sends the service changes that are due, on all paths.
    pub(super) fn send_service_changes(&mut self, now: Time) {
        while let Some((flow, number, service)) = self.service_changes.pop_due(now) {
            let SendFlow { key, peer, .. } = self.senders[flow as usize];
            let change = ServiceChange { flow_key: key, number, service };
            self.sessions.queue_urgent_message(peer, &Message::ServiceChange(change), now);
        }
    }

    /// Handles a sender's change of a flow's service: adopts it, registers for it with the egress
    /// relays, and answers. Does not answer if an egress relay has an earlier version, or if the
    /// latest change was a moment ago.
    pub(super) fn on_service_change(
        &mut self,
        session: SessionId,
        change: &ServiceChange,
        origin: Route,
        now: Time,
    ) {
        let ServiceChange { flow_key, number, service } = *change;
        let Some(id) = self.received_by_key.get(&flow_key).copied() else {
            self.counters.flows_unknown += 1;
            return;
        };
        let flow = &self.receivers[id.0 as usize];
        let egresses = flow.settings.paths.iter().filter_map(|path| self.relay_session(path.egress));
        let is_supported = |relay: SessionId| {
            !self.sessions.is_established(relay, now)
                || self.sessions.has_capabilities(relay, Capabilities::SERVICE_CHANGES)
        };
        if flow.peer != session || !egresses.into_iter().all(is_supported) {
            return;
        }
        let before = flow.settings.service;
        match self.service_changes.accept(id.0, number, before, now) {
            Acceptance::New => self.change_service(Flow::Received(id), service, now),
            Acceptance::Known => {}
            Acceptance::TooSoon => return,
        }
        let reply = Message::ServiceChangeReply(ServiceChangeReply { flow_key, number });
        self.sessions.send_reply(session, &reply, origin, now);
    }

    /// Handles a receiver's answer to a service change: the flow has the new service from now on.
    pub(super) fn on_service_change_reply(
        &mut self,
        session: SessionId,
        reply: &ServiceChangeReply,
        now: Time,
    ) {
        let Some(id) = self.sent_by_key.get(&reply.flow_key).copied() else {
            self.counters.flows_unknown += 1;
            return;
        };
        if self.senders[id.0 as usize].peer != session {
            return;
        }
        if let Some(service) = self.service_changes.on_reply(id.0, reply.number) {
            self.change_service(Flow::Sent(id), service, now);
        }
    }

    /// Sets the service of a flow at this end, if it has another one, and registers it anew with
    /// its relays. The former registrations stay in force until the relays answer.
    pub(super) fn change_service(&mut self, flow: Flow, service: Service, now: Time) {
        let before = self.settings_of(flow).service;
        if !self.replace_service(flow, service) {
            return;
        }
        match flow {
            Flow::Received(id) => self.receivers[id.0 as usize].on_service_change(before, now),
            Flow::Sent(id) if service == Service::Forwarding => self.rely_on_relays(id, now),
            Flow::Sent(_) | Flow::RelayProbing => {}
        }
        let registrations = self.registrations_of_mut(flow);
        registrations.revise();
        for path in 0..registrations.count() {
            registrations.request_again(path, now);
        }
        self.register(flow, now);
    }

    /// Replaces the service of a flow at this end. Returns `false` if the flow has this service.
    pub(super) fn replace_service(&mut self, flow: Flow, service: Service) -> bool {
        let before = core::mem::replace(&mut self.settings_of_mut(flow).service, service);
        if let Flow::Received(id) = flow {
            let paths = self.settings_of(flow).paths.clone();
            self.forget_arrival_relays(self.receivers[id.0 as usize].peer, before, &paths);
            self.note_arrival_relays(id);
        }
        before != service
    }
}

impl Agent {
    /// Returns the indices of a flow's paths that begin (for a sender) or end (for a receiver) at
    /// this session's relay.
    pub(super) fn paths_through(&self, flow: Flow, session: SessionId) -> Vec<usize> {
        let paths = 0..self.settings_of(flow).paths.len();
        paths.filter(|path| self.session_of_path(flow, *path) == Some(session)).collect()
    }

    /// Returns the indices of a flow's paths that a relay's answer to a registration concerns. An
    /// acceptance concerns the paths to one far relay. Each path has a grant of its own, which the
    /// relay may not have received.
    pub(super) fn paths_registered(
        &self,
        flow: Flow,
        session: SessionId,
        reply: &RegisterReply,
    ) -> Vec<usize> {
        if reply.outcome.is_err() {
            return self.paths_ended(flow, session, reply.far_relay);
        }
        self.paths_between(flow, session, reply.far_relay)
    }

    /// Returns the indices of a flow's paths that end with a registration at a relay. These are a
    /// sender's paths to the relay `far`, or all of a receiver's, which have one registration.
    pub(super) fn paths_ended(&self, flow: Flow, session: SessionId, far: GrantedRelay) -> Vec<usize> {
        match self.identity_of(flow) {
            (_, FlowRole::Sender) => self.paths_between(flow, session, far),
            (_, FlowRole::Receiver) => self.paths_through(flow, session),
        }
    }

    /// Returns the indices of a flow's paths between a near relay, by its session, and a far relay.
    fn paths_between(&self, flow: Flow, session: SessionId, far: GrantedRelay) -> Vec<usize> {
        let (_, role) = self.identity_of(flow);
        let settings = self.settings_of(flow);
        let mut paths = self.paths_through(flow, session);
        paths.retain(|path| settings.paths[*path].far_relay(role) == far);
        paths
    }
}
