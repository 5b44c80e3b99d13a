//! The ways of a flow through the overlay change while it is in use: a new map names other relays, or newer grants.

use alloc::vec::Vec;

use byway_units::{RelayId, Time};
use byway_wire::messages::{FlowRole, Registered, Unregister};
use byway_wire::{GrantedRelay, Shard};

use super::receive_flow::ReceiveFlowId;
use super::send_flow::SendFlowId;
use super::settings::RelayPath;
use super::{Agent, Flow};
use crate::session::SessionId;

impl RelayPath {
    /// Whether it is the same way, whatever the grant.
    fn leads_as(&self, other: &Self) -> bool {
        (self.ingress, self.egress) == (other.ingress, other.egress)
    }

    /// The relay at the other agent's end, for the agent with this role.
    pub(super) const fn far_relay(&self, role: FlowRole) -> GrantedRelay {
        let (relay, shard) = match role {
            FlowRole::Sender => self.egress,
            FlowRole::Receiver => self.ingress,
        };
        GrantedRelay { relay, shard }
    }

    /// The relay at the end of the agent with this role.
    pub(super) const fn end_of(&self, role: FlowRole) -> (RelayId, Shard) {
        match role {
            FlowRole::Sender => self.ingress,
            FlowRole::Receiver => self.egress,
        }
    }
}

impl Agent {
    /// Gives a flow that this agent sends other paths, best first. Those that it has already go on as they are, and a
    /// newer grant is shown to the relay; relays at which none begins any more are told that the flow has left, once
    /// its latency budget has passed. A flow that was closed is left alone.
    pub fn set_paths(&mut self, flow: SendFlowId, paths: Vec<RelayPath>, now: Time) {
        if self.senders.get(flow.0).is_some() {
            let before = self.change_paths(Flow::Sent(flow), paths, now);
            let after = self.senders[flow.0 as usize].settings.paths.clone();
            for path in before.iter().chain(&after) {
                if let Some(relay) = self.relay_places.get(&path.ingress).copied() {
                    self.set_copy_rate(relay);
                }
            }
        }
        self.finish(now);
    }

    /// The same for a flow that this agent receives.
    pub fn set_received_paths(&mut self, flow: ReceiveFlowId, paths: Vec<RelayPath>, now: Time) {
        if self.receivers.get(flow.0).is_some() {
            let peer = self.receivers[flow.0 as usize].peer;
            let before = self.change_paths(Flow::Received(flow), paths, now);
            self.forget_ways_in(peer, &before);
            self.note_ways_in(flow);
        }
        self.finish(now);
    }

    /// Gives a flow other paths; those before.
    pub(super) fn change_paths(&mut self, flow: Flow, paths: Vec<RelayPath>, now: Time) -> Vec<RelayPath> {
        let before = core::mem::replace(&mut self.settings_of_mut(flow).paths, paths);
        let after = self.settings_of(flow).paths.clone();
        if let Flow::Sent(id) = flow {
            self.senders[id.0 as usize].forget_failure_of_other_paths(now);
        }
        let same = |path: &RelayPath| before.iter().position(|known| known.leads_as(path));
        let kept: Vec<Option<usize>> = after.iter().map(same).collect();
        let told = self.registrations_of_mut(flow).rearrange(&kept);
        self.leave_relays(flow, &before, &told, now);
        let kept = || kept.iter().enumerate().filter_map(|(path, known)| Some((path, (*known)?)));
        if kept().any(|(path, known)| before[known].grant != after[path].grant) {
            let registrations = self.registrations_of_mut(flow);
            registrations.revise();
            for (path, _) in kept() {
                registrations.ask_again(path, now);
            }
        }
        self.register(flow, now);
        self.reach_through(flow);
        before
    }

    /// Tells the relays that may know a flow which of its paths before have ended: of those at which a path begins as
    /// before, the sender's one path; of others, all.
    fn leave_relays(&mut self, flow: Flow, before: &[RelayPath], told: &[bool], now: Time) {
        let (flow_key, role) = self.identity_of(flow);
        let settings = self.settings_of(flow);
        let first = now.saturating_add(settings.latency_budget);
        let after = settings.paths.clone();
        for path in &after {
            if let Some(relay) = self.relay_session(path.end_of(role)) {
                for far_relay in [None, Some(path.far_relay(role))] {
                    self.closings.heard(relay, Unregister { flow_key, role, far_relay });
                }
            }
        }
        for (path, _) in before.iter().zip(told).filter(|(_, is_told)| **is_told) {
            let Some(relay) = self.relay_session(path.end_of(role)) else {
                continue;
            };
            let begins_here = |other: &&RelayPath| other.end_of(role) == path.end_of(role);
            let is_left = !after.iter().any(|other| begins_here(&other));
            let has_ended = role == FlowRole::Sender && !after.iter().any(|other| other.leads_as(path));
            let far_relay = Some(path.far_relay(role)).filter(|_| !is_left);
            if is_left || has_ended {
                self.closings.tell(relay, Unregister { flow_key, role, far_relay }, first);
            }
        }
    }

    /// Lets a flow's other end be reached through the relay of the path in use.
    fn reach_through(&mut self, flow: Flow) {
        if let Some((peer, detour)) = self.detour_of(flow)
            && let Some(session) = self.sessions.get_mut(peer)
        {
            session.detour = Some(detour);
        }
    }

    /// Forgets the relays by which these paths of a peer's flow end, unless other paths of its flows do.
    pub(super) fn forget_ways_in(&mut self, peer: SessionId, paths: &[RelayPath]) {
        let Some(ways) = self.ways_in.get_mut(&peer) else {
            return;
        };
        for path in paths {
            if let Some((_, known)) = ways.iter_mut().find(|(place, _)| *place == path.egress) {
                *known -= 1;
            }
        }
        ways.retain(|(_, paths)| *paths > 0);
        if ways.is_empty() {
            self.ways_in.remove(&peer);
        }
    }
}

impl Agent {
    /// Returns the paths of a flow that begin (for a sender) or end (for a receiver) at this session's relay.
    pub(super) fn paths_through(&self, flow: Flow, session: SessionId) -> Vec<usize> {
        let paths = 0..self.settings_of(flow).paths.len();
        paths.filter(|path| self.session_of_path(flow, *path) == Some(session)).collect()
    }

    /// Returns the paths of a flow that a relay's answer to a registration is about. An acceptance is about those
    /// that lead to one far relay: each comes with a grant of its own, which the relay may not have got.
    pub(super) fn paths_registered(
        &self,
        flow: Flow,
        session: SessionId,
        registered: &Registered,
    ) -> Vec<usize> {
        if registered.outcome.is_err() {
            return self.paths_ended(flow, session, registered.far_relay);
        }
        self.paths_between(flow, session, registered.far_relay)
    }

    /// Returns the paths of a flow that end with a registration: a sender's that end at `far`, or all of a
    /// receiver's, which a relay knows as one.
    pub(super) fn paths_ended(&self, flow: Flow, session: SessionId, far: GrantedRelay) -> Vec<usize> {
        match self.identity_of(flow) {
            (_, FlowRole::Sender) => self.paths_between(flow, session, far),
            (_, FlowRole::Receiver) => self.paths_through(flow, session),
        }
    }

    fn paths_between(&self, flow: Flow, session: SessionId, far: GrantedRelay) -> Vec<usize> {
        let (_, role) = self.identity_of(flow);
        let settings = self.settings_of(flow);
        let mut paths = self.paths_through(flow, session);
        paths.retain(|path| settings.paths[*path].far_relay(role) == far);
        paths
    }
}
