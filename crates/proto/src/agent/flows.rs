//! Opening and acceptance of flows, their timers, and handling of session events.

use alloc::vec::Vec;

use byway_units::{AgentId, Time};
use byway_wire::messages::FlowRole;
use byway_wire::{FlowKey, Receiver, SequenceNumber};

use super::closing::AgentState;
use super::events::Event;
use super::receive_flow::{ReceiveFlow, ReceiveFlowId};
use super::registration_state::Registrations;
use super::send_flow::{SendFlow, SendFlowId};
use super::settings::FlowSettings;
use super::{Agent, ArrivalRelay, Flow, Role};
use crate::parts::timers::TimerKey;
use crate::policy::is_repaired_from_afar;
use crate::reason::Reason;
use crate::session::{SessionEvent, SessionId, ViaRelay};

/// Purpose of one of a flow's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// A received flow's packet is overdue, or a NACK for it is due.
    Loss,
    /// A received flow's report to the sender is due.
    Report,
    /// A received flow's registration with its relays is due.
    RegisterReceiver,
    /// A sent flow's registration with its relays is due, or the end of its FEC block.
    Sender,
}

const TIMERS: u32 = 4;

pub(super) fn timer_key(timer: Timer, flow: u32) -> TimerKey {
    TimerKey::new(flow * TIMERS + timer as u32)
}

const fn timer_of(key: TimerKey) -> (Timer, u32) {
    let timer = match key.number() % TIMERS {
        0 => Timer::Loss,
        1 => Timer::Report,
        2 => Timer::RegisterReceiver,
        _ => Timer::Sender,
    };
    (timer, key.number() / TIMERS)
}

impl Agent {
    /// Opens a flow from this agent to a peer. Returns `None` if the peer was not added, if the
    /// flow is open, or if its sender is not this agent.
    pub fn open_flow(&mut self, key: FlowKey, settings: FlowSettings, now: Time) -> Option<SendFlowId> {
        let Receiver::Agent(receiver) = key.receiver() else {
            return None;
        };
        let peer = *self.peers.get(&receiver)?;
        if self.sent_by_key.contains_key(&key)
            || self.state != AgentState::Open
            || key.sender() != self.number
        {
            return None;
        }
        let next = self.teardowns.on_flow_opened(key, FlowRole::Sender, now).unwrap_or(SequenceNumber::FIRST);
        let relays = settings.paths.iter().filter_map(|path| self.relay_indices.get(&path.ingress).copied());
        let relays: Vec<usize> = relays.collect();
        let mut flow = SendFlow::new(key, settings, peer, next);
        flow.set_relays_deliver(self.direct_paths.is_closed(peer));
        let id = SendFlowId(self.senders.add(flow)?);
        let settings = &self.senders[id.0 as usize].settings;
        self.service_changes.selectors.add(id.0, settings);
        self.service_changes.routes.add(id.0, peer, settings);
        self.sent_by_key.insert(key, id);
        for relay in relays {
            self.set_copy_rate(relay);
        }
        self.set_via_relay(Flow::Sent(id));
        self.register(Flow::Sent(id), now);
        self.sessions.use_session(peer, now);
        self.finish(now);
        Some(id)
    }

    /// Accepts a flow from a peer. Returns `None` if the peer was not added, if the peer's flow
    /// number is in use, or if the flow is for another agent.
    pub fn accept_flow(&mut self, key: FlowKey, settings: FlowSettings, now: Time) -> Option<ReceiveFlowId> {
        let peer = *self.peers.get(&key.sender())?;
        let is_for_another = matches!(key.receiver(), Receiver::Agent(receiver) if receiver != self.number);
        // Packets identify flows by number alone. So a group's flow and an agent's flow cannot
        // share a number.
        let is_in_use = self.incoming.get((peer, key.flow())).is_some();
        if is_in_use || self.state != AgentState::Open || is_for_another {
            return None;
        }
        let final_number = self.teardowns.on_flow_opened(key, FlowRole::Receiver, now);
        let id = ReceiveFlowId(self.receivers.add(ReceiveFlow::new(key, settings, peer, final_number))?);
        self.received_by_key.insert(key, id);
        self.incoming.insert((peer, key.flow()), id.0);
        self.note_arrival_relays(id);
        self.set_via_relay(Flow::Received(id));
        self.register(Flow::Received(id), now);
        self.finish(now);
        Some(id)
    }

    /// Records the egress relays of a received flow: its sender's packets may arrive through any of
    /// them.
    pub(super) fn note_arrival_relays(&mut self, id: ReceiveFlowId) {
        let flow = &self.receivers[id.0 as usize];
        let relays = self.arrival_relays.entry(flow.peer).or_default();
        let watched = usize::from(is_repaired_from_afar(flow.settings.service));
        for path in &flow.settings.paths {
            match relays.iter_mut().find(|known| known.relay == path.egress) {
                Some(known) => (known.paths, known.watched) = (known.paths + 1, known.watched + watched),
                None => relays.push(ArrivalRelay { relay: path.egress, paths: 1, watched }),
            }
        }
    }

    /// Returns the session with a flow's other end, and the relay of the path in use through which
    /// that agent can be reached.
    pub(super) fn via_relay_of(&self, flow: Flow) -> Option<(SessionId, ViaRelay)> {
        let relay = self.session_of_path(flow, self.registrations_of(flow).in_use())?;
        let (peer, agent) = self.other_end_of(flow)?;
        Some((peer, ViaRelay { relay, agent }))
    }

    /// Returns the session with the agent at a flow's other end, and its number; `None` for a
    /// group.
    fn other_end_of(&self, flow: Flow) -> Option<(SessionId, AgentId)> {
        let (key, _) = self.identity_of(flow);
        match (flow, key.receiver()) {
            (Flow::Sent(id), Receiver::Agent(receiver)) => Some((self.senders[id.0 as usize].peer, receiver)),
            (Flow::Sent(_), Receiver::Group(_)) | (Flow::RelayProbing, _) => None,
            (Flow::Received(id), _) => Some((self.receivers[id.0 as usize].peer, key.sender())),
        }
    }

    /// Makes the agent at a flow's other end reachable through the flow's relay, if it is not
    /// reachable through another one yet.
    pub(super) fn set_via_relay(&mut self, flow: Flow) {
        if let Some((peer, via_relay)) = self.via_relay_of(flow)
            && let Some(session) = self.sessions.get_mut(peer)
        {
            session.via_relay.get_or_insert(via_relay);
        }
    }

    /// Adds a relay, by its session, to those through which the agent at a flow's other end is
    /// reached.
    pub(super) fn add_via_relay(&mut self, flow: Flow, relay: SessionId) {
        if let Some((peer, agent)) = self.other_end_of(flow)
            && let Some(session) = self.sessions.get_mut(peer)
        {
            session.add_via_relay(ViaRelay { relay, agent });
        }
    }

    /// Sends a pending handshake with a flow's other end through a relay that has just accepted the
    /// flow. Before that, the relay forwarded nothing.
    pub(super) fn send_handshake_through(&mut self, flow: Flow, relay: SessionId, now: Time) {
        if let Some((peer, agent)) = self.other_end_of(flow) {
            self.sessions.send_initiation_via(peer, ViaRelay { relay, agent }, now);
        }
    }

    /// Sets the pacing rate of copies to a relay, by its index, from the rates of the flows that
    /// have it as ingress relay.
    pub(super) fn set_copy_rate(&mut self, relay: usize) {
        let ingress = self.relays[relay].id;
        let flows = self
            .senders
            .iter()
            .map(|(_, flow)| flow)
            .filter(|flow| flow.settings.paths.iter().any(|path| path.ingress == ingress));
        let bits: u64 = flows.map(|flow| flow.settings.rate.bits_per_second()).sum();
        self.relays[relay].set_flow_rate(bits);
    }

    pub(super) fn identity_of(&self, flow: Flow) -> (FlowKey, FlowRole) {
        match flow {
            Flow::Sent(id) => (self.senders[id.0 as usize].key, FlowRole::Sender),
            Flow::Received(id) => (self.receivers[id.0 as usize].key, FlowRole::Receiver),
            Flow::RelayProbing => (self.relay_probing.key, FlowRole::Sender),
        }
    }

    pub(super) fn settings_of(&self, flow: Flow) -> &FlowSettings {
        match flow {
            Flow::Sent(id) => &self.senders[id.0 as usize].settings,
            Flow::Received(id) => &self.receivers[id.0 as usize].settings,
            Flow::RelayProbing => &self.relay_probing.settings,
        }
    }

    pub(super) fn settings_of_mut(&mut self, flow: Flow) -> &mut FlowSettings {
        match flow {
            Flow::Sent(id) => &mut self.senders[id.0 as usize].settings,
            Flow::Received(id) => &mut self.receivers[id.0 as usize].settings,
            Flow::RelayProbing => &mut self.relay_probing.settings,
        }
    }

    pub(super) fn registrations_of(&self, flow: Flow) -> &Registrations {
        match flow {
            Flow::Sent(id) => &self.senders[id.0 as usize].registrations,
            Flow::Received(id) => &self.receivers[id.0 as usize].registrations,
            Flow::RelayProbing => &self.relay_probing.registrations,
        }
    }

    pub(super) fn registrations_of_mut(&mut self, flow: Flow) -> &mut Registrations {
        match flow {
            Flow::Sent(id) => &mut self.senders[id.0 as usize].registrations,
            Flow::Received(id) => &mut self.receivers[id.0 as usize].registrations,
            Flow::RelayProbing => &mut self.relay_probing.registrations,
        }
    }

    pub(super) fn find_flow(&self, key: FlowKey, role: FlowRole) -> Option<Flow> {
        match role {
            FlowRole::Sender if key == self.relay_probing.key => Some(Flow::RelayProbing),
            FlowRole::Sender => self.sent_by_key.get(&key).copied().map(Flow::Sent),
            FlowRole::Receiver => self.received_by_key.get(&key).copied().map(Flow::Received),
        }
    }

    pub(super) fn all_flows(&self) -> Vec<Flow> {
        let sent = self.sent_by_key.values().copied().map(Flow::Sent);
        let received = self.received_by_key.values().copied().map(Flow::Received);
        sent.chain(received).chain([Flow::RelayProbing]).collect()
    }

    /// Arms the timer of a flow for its next registration request, or for the end of its FEC block.
    pub(super) fn plan_registration(&mut self, flow: Flow) {
        let key = match flow {
            Flow::Sent(id) => timer_key(Timer::Sender, id.0),
            Flow::Received(id) => timer_key(Timer::RegisterReceiver, id.0),
            Flow::RelayProbing => {
                self.relay_probing.deadline = self.relay_probing.registrations.deadline();
                return;
            }
        };
        let block = if let Flow::Sent(id) = flow { self.fec_block_due(id.0) } else { None };
        match [self.registrations_of(flow).deadline(), block].into_iter().flatten().min() {
            Some(at) => self.timers.arm(key, at),
            None => self.timers.disarm(key),
        }
    }

    pub(super) fn find_deadline(&mut self, now: Time) -> Option<(Time, Reason)> {
        if self.state != AgentState::Open {
            return self.close_deadline();
        }
        // The deadline is exact. Most packets postpone a timer that would otherwise expire before
        // the next packet; restoring the heap each time costs less than an extra input.
        let flows = self.timers.earliest().map(|(at, key)| {
            let (timer, flow) = timer_of(key);
            let reason = match timer {
                Timer::Loss => Reason::Loss,
                Timer::Report => Reason::Report,
                Timer::Sender if self.fec_block_due(flow) == Some(at) => Reason::Coding,
                Timer::RegisterReceiver | Timer::Sender => Reason::Registration,
            };
            (at, reason)
        });
        let sessions = self.sessions.deadline().map(|at| (at, Reason::Session));
        let teardowns = self.teardowns.deadline().map(|at| (at, Reason::Closing));
        let offers = self.offers.deadline().map(|at| (at, Reason::Offer));
        let probing = self.relay_probing.deadline.map(|at| (at, Reason::Registration));
        let direct_paths = self.direct_paths.deadline().map(|at| (at, Reason::Session));
        let copies = self.next_envelope_at(now).into_iter().chain(self.uplink_probing.due).min();
        let copies = copies.map(|at| (at, Reason::Pacing));
        let pending = self.pending_datagrams.deadline().map(|at| (at, Reason::Session));
        let early = self.early.deadline().map(|at| (at, Reason::Session));
        let changes = self.service_changes.deadline().map(|at| (at, Reason::Offer));
        [flows, sessions, copies, teardowns, offers, probing, direct_paths, pending, early, changes]
            .into_iter()
            .flatten()
            .min()
    }

    /// Handles timers, messages and probes that are due, within the work limit of one input; the
    /// rest stays due.
    pub(super) fn handle_deadline(&mut self, now: Time) {
        let end = self.work_end();
        self.sessions.handle_timeout(now);
        self.handle_timers(end, now);
        self.send_unregisters(end, now);
        self.send_offers(now);
        self.send_service_changes(now);
        self.start_relay_delivery(now);
        if self.relay_probing.deadline.is_some_and(|at| at <= now) {
            self.register(Flow::RelayProbing, now);
        }
        self.send_all_pending_envelopes(now);
        self.probe_uplinks_if_due(now);
    }

    pub(super) fn handle_timer(&mut self, key: TimerKey, now: Time) {
        let (timer, flow) = timer_of(key);
        match timer {
            Timer::Loss => self.detect_losses(ReceiveFlowId(flow), now),
            Timer::Report => self.send_report(ReceiveFlowId(flow), now),
            Timer::RegisterReceiver => self.register(Flow::Received(ReceiveFlowId(flow)), now),
            Timer::Sender => {
                if self.fec_block_due(flow).is_some_and(|due| due <= now) {
                    self.close_fec_block(SendFlowId(flow), now);
                }
                self.register(Flow::Sent(SendFlowId(flow)), now);
            }
        }
    }

    pub(super) fn handle_session_events(&mut self, now: Time) {
        while let Some(event) = self.sessions.events.pop_front() {
            match event {
                SessionEvent::Established { session, fresh } => self.on_established(session, fresh, now),
                SessionEvent::Dead { session } => self.on_liveness_change(session, true, now),
                SessionEvent::Closed { session } => self.on_session_closed(session, now),
                SessionEvent::Alive { session } => self.on_liveness_change(session, false, now),
                SessionEvent::ProbeReplyReceived { session, reply, before } => {
                    self.on_probe_reply(session, &reply, before, now);
                }
                SessionEvent::ProbeTrainReceived { session, place, received } => {
                    let is_last = !matches!(
                        self.sessions.events.front(),
                        Some(SessionEvent::ProbeTrainReceived { session: next, .. }) if *next == session
                    );
                    self.on_train_packet(session, (place, received), is_last, now);
                }
                SessionEvent::DirectPath { session } => self.on_direct_path_change(session, now),
                SessionEvent::PathNarrowed { session, since } => self.on_path_narrowed(session, since, now),
                SessionEvent::AddressObserved { address } => self.note_reflexive_address(address, now),
                SessionEvent::UplinkChanged { session } => {
                    if let Some(relay) = self.relay_of(session) {
                        relay.on_uplink_changed();
                    }
                }
                SessionEvent::Moved { .. }
                | SessionEvent::Ended { .. }
                | SessionEvent::OtherProbeAnswered { .. } => {}
            }
        }
    }

    /// Handles a new epoch with a relay or peer. If `fresh`, the other side knows nothing of
    /// earlier sessions: flows are registered and offered again.
    fn on_established(&mut self, session: SessionId, fresh: bool, now: Time) {
        if fresh {
            self.teardowns.on_peer_reset(session);
        } else {
            self.teardowns.on_peer_reachable(session, now);
        }
        match self.roles.get(&session).copied() {
            Some(Role::Relay(relay)) => {
                // A relay that was silent may have dropped this agent's flows.
                let was_dead = core::mem::take(&mut self.relays[relay].is_dead);
                if fresh || was_dead {
                    self.relays[relay].unbind_all();
                    self.register_all_again(session, now);
                }
                self.choose_paths(now);
            }
            Some(Role::Peer(peer)) => {
                if fresh {
                    self.restart_flows_from(session, now);
                    self.restart_reports_of(session, now);
                    self.early_buffer.forget_peer(session);
                    self.events.push_back(Event::PeerEstablished(peer));
                    self.send_candidates(session, now);
                }
                self.offers.on_established(peer, fresh, now);
                self.on_direct_path_change(session, now);
                self.send_offers(now);
            }
            None => {}
        }
    }

    /// Handles the failure or recovery of a relay or peer: chooses the paths of flows again.
    fn on_liveness_change(&mut self, session: SessionId, dead: bool, now: Time) {
        if !dead {
            self.teardowns.on_peer_reachable(session, now);
        }
        match self.roles.get(&session).copied() {
            Some(Role::Relay(relay)) => {
                self.relays[relay].is_dead = dead;
                self.choose_paths(now);
            }
            Some(Role::Peer(peer)) => {
                self.events.extend(dead.then_some(Event::PeerLost(peer)));
                self.choose_paths_to(session, now);
            }
            None => {}
        }
    }

    /// Handles a close message of a relay or peer: a relay counts as dead, and flows from a peer
    /// release their packet state.
    fn on_session_closed(&mut self, session: SessionId, now: Time) {
        match self.roles.get(&session).copied() {
            Some(Role::Relay(_)) => self.on_liveness_change(session, true, now),
            Some(Role::Peer(peer)) => {
                self.deactivate_flows_from(session);
                self.events.push_back(Event::PeerLeft(peer));
            }
            None => {}
        }
    }

    /// Resets the flows from a peer that restarted, because its sequence numbers begin again.
    /// Withdraws their registrations at relays, which refer to the old numbers.
    fn restart_flows_from(&mut self, session: SessionId, now: Time) {
        if let Some(Role::Peer(agent)) = self.roles.get(&session).copied() {
            self.teardowns.on_sender_restart(|key| key.sender() == agent);
        }
        self.work.entries += self.receivers.slots() as u64;
        let flows = self.receivers.iter();
        let of_peer: Vec<u32> = flows.filter(|(_, flow)| flow.peer == session).map(|(id, _)| id).collect();
        for id in of_peer {
            let flow = &mut self.receivers[id as usize];
            let configured = self.service_changes.forget_received(id).unwrap_or(flow.settings.service);
            if !flow.has_begun() {
                self.change_service(Flow::Received(ReceiveFlowId(id)), configured, now);
                continue;
            }
            self.replace_service(Flow::Received(ReceiveFlowId(id)), configured);
            // Packets from before the restart are delivered, even if earlier ones are missing.
            self.release_in_order(ReceiveFlowId(id), Time::MAX);
            self.closed.add_received(&self.receivers[id as usize]);
            self.receivers[id as usize].restart();
            self.withdraw_registrations(Flow::Received(ReceiveFlowId(id)), now);
        }
    }

    /// Resets the reports of flows to a peer that restarted, because the peer's counters begin at 0
    /// again. Begins the changes of their services again, which the peer does not know.
    fn restart_reports_of(&mut self, session: SessionId, now: Time) {
        self.work.entries += self.senders.slots() as u64;
        for (id, flow) in self.senders.iter_mut().filter(|(_, flow)| flow.peer == session) {
            self.service_changes.begin_again(id, flow.settings.service, now);
            if let Some(reports) = &mut flow.reports {
                reports.restart();
            }
        }
    }
}
