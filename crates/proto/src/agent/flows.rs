//! Flows are opened and accepted; timers and changes are looked after.

use alloc::vec::Vec;

use byway_units::{AgentId, Time};
use byway_wire::messages::FlowRole;
use byway_wire::{FlowKey, Receiver, SequenceNumber};

use super::closing::Life;
use super::events::Event;
use super::receive_flow::{ReceiveFlow, ReceiveFlowId};
use super::registration::Registrations;
use super::send_flow::{SendFlow, SendFlowId};
use super::settings::FlowSettings;
use super::{Agent, Flow, Role};
use crate::parts::timers::TimerKey;
use crate::reason::Reason;
use crate::session::{Change, Detour, SessionId};

/// What a timer of a flow is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// A receiver's: a packet should have come, or one is to be asked for.
    Loss,
    /// A receiver's: a report to the sender.
    Report,
    /// A receiver's: its relays are to be asked.
    RegisterReceiver,
    /// A sender's: its relays are to be asked, or its block of repair packets has waited long enough.
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
    /// Opens a flow to a peer that was added; `None` if it was not, if the flow is open, or if its
    /// sender is not this agent.
    pub fn open_flow(&mut self, key: FlowKey, settings: FlowSettings, now: Time) -> Option<SendFlowId> {
        let Receiver::Agent(receiver) = key.receiver() else {
            return None;
        };
        let peer = *self.peers.get(&receiver)?;
        if self.sent_by_key.contains_key(&key) || self.life != Life::Open || key.sender() != self.number {
            return None;
        }
        let next = self.closings.begins(key, FlowRole::Sender, now).unwrap_or(SequenceNumber::FIRST);
        let relays = settings.paths.iter().filter_map(|path| self.relay_places.get(&path.ingress).copied());
        let relays: Vec<usize> = relays.collect();
        let mut flow = SendFlow::new(key, settings, peer, next);
        flow.set_stand_in(self.direct_paths.is_closed(peer));
        let id = SendFlowId(self.senders.add(flow)?);
        self.sent_by_key.insert(key, id);
        for relay in relays {
            self.set_copy_rate(relay);
        }
        self.set_detour(Flow::Sent(id));
        self.register(Flow::Sent(id), now);
        self.sessions.use_session(peer, now);
        self.finish(now);
        Some(id)
    }

    /// Accepts a flow from a peer that was added; `None` if it was not, if the flow is accepted already,
    /// or if it is for another agent.
    pub fn accept_flow(&mut self, key: FlowKey, settings: FlowSettings, now: Time) -> Option<ReceiveFlowId> {
        let peer = *self.peers.get(&key.sender())?;
        let is_for_another = matches!(key.receiver(), Receiver::Agent(receiver) if receiver != self.number);
        // Packets name flows by number alone: a group's and an agent's cannot share one.
        let is_taken = self.incoming.get((peer, key.flow())).is_some();
        if is_taken || self.life != Life::Open || is_for_another {
            return None;
        }
        let stood = self.closings.begins(key, FlowRole::Receiver, now);
        let id = ReceiveFlowId(self.receivers.add(ReceiveFlow::new(key, settings, peer, stood))?);
        self.received_by_key.insert(key, id);
        self.incoming.insert((peer, key.flow()), id.0);
        self.note_ways_in(id);
        self.set_detour(Flow::Received(id));
        self.register(Flow::Received(id), now);
        self.finish(now);
        Some(id)
    }

    /// Notes the relays through which a flow may come from its sender.
    pub(super) fn note_ways_in(&mut self, id: ReceiveFlowId) {
        let flow = &self.receivers[id.0 as usize];
        let ways = self.ways_in.entry(flow.peer).or_default();
        for path in &flow.settings.paths {
            match ways.iter_mut().find(|(place, _)| *place == path.egress) {
                Some((_, paths)) => *paths += 1,
                None => ways.push((path.egress, 1)),
            }
        }
    }

    /// The way to a flow's other end through the relay of the path in use.
    pub(super) fn detour_of(&self, flow: Flow) -> Option<(SessionId, Detour)> {
        let relay = self.session_of_path(flow, self.registrations_of(flow).in_use())?;
        let (peer, agent) = self.other_end_of(flow)?;
        Some((peer, Detour { relay, agent }))
    }

    /// The session with a flow's other end, and who that is.
    fn other_end_of(&self, flow: Flow) -> Option<(SessionId, AgentId)> {
        let (key, _) = self.identity_of(flow);
        match (flow, key.receiver()) {
            (Flow::Sent(id), Receiver::Agent(receiver)) => Some((self.senders[id.0 as usize].peer, receiver)),
            (Flow::Sent(_), Receiver::Group(_)) | (Flow::Visits, _) => None,
            (Flow::Received(id), _) => Some((self.receivers[id.0 as usize].peer, key.sender())),
        }
    }

    /// Lets a peer be reached through the relay of a flow, until a direct path is open.
    pub(super) fn set_detour(&mut self, flow: Flow) {
        if let Some((peer, detour)) = self.detour_of(flow)
            && let Some(session) = self.sessions.get_mut(peer)
        {
            session.detour.get_or_insert(detour);
        }
    }

    /// Notes a relay, by its session, as one by which a flow's other end is reached.
    pub(super) fn note_detour(&mut self, flow: Flow, relay: SessionId) {
        if let Some((peer, agent)) = self.other_end_of(flow)
            && let Some(session) = self.sessions.get_mut(peer)
        {
            session.add_detour(Detour { relay, agent });
        }
    }

    /// Sends a pending handshake through a relay that has just accepted the flow. Before that, the
    /// relay passed nothing on.
    pub(super) fn send_handshake_through(&mut self, flow: Flow, relay: SessionId, now: Time) {
        if let Some((peer, agent)) = self.other_end_of(flow) {
            self.sessions.attempt_through(peer, Detour { relay, agent }, now);
        }
    }

    /// Lets copies to a relay leave as fast as the flows that go there need.
    pub(super) fn set_copy_rate(&mut self, relay: usize) {
        let place = self.relays[relay].place;
        let flows = self
            .senders
            .iter()
            .map(|(_, flow)| flow)
            .filter(|flow| flow.settings.paths.iter().any(|path| path.ingress == place));
        let bits: u64 = flows.map(|flow| flow.settings.rate.bits_per_second()).sum();
        self.relays[relay].set_flow_rate(bits);
    }

    pub(super) fn identity_of(&self, flow: Flow) -> (FlowKey, FlowRole) {
        match flow {
            Flow::Sent(id) => (self.senders[id.0 as usize].key, FlowRole::Sender),
            Flow::Received(id) => (self.receivers[id.0 as usize].key, FlowRole::Receiver),
            Flow::Visits => (self.visits.key, FlowRole::Sender),
        }
    }

    pub(super) fn settings_of(&self, flow: Flow) -> &FlowSettings {
        match flow {
            Flow::Sent(id) => &self.senders[id.0 as usize].settings,
            Flow::Received(id) => &self.receivers[id.0 as usize].settings,
            Flow::Visits => &self.visits.settings,
        }
    }

    pub(super) fn settings_of_mut(&mut self, flow: Flow) -> &mut FlowSettings {
        match flow {
            Flow::Sent(id) => &mut self.senders[id.0 as usize].settings,
            Flow::Received(id) => &mut self.receivers[id.0 as usize].settings,
            Flow::Visits => &mut self.visits.settings,
        }
    }

    pub(super) fn registrations_of(&self, flow: Flow) -> &Registrations {
        match flow {
            Flow::Sent(id) => &self.senders[id.0 as usize].registrations,
            Flow::Received(id) => &self.receivers[id.0 as usize].registrations,
            Flow::Visits => &self.visits.registrations,
        }
    }

    pub(super) fn registrations_of_mut(&mut self, flow: Flow) -> &mut Registrations {
        match flow {
            Flow::Sent(id) => &mut self.senders[id.0 as usize].registrations,
            Flow::Received(id) => &mut self.receivers[id.0 as usize].registrations,
            Flow::Visits => &mut self.visits.registrations,
        }
    }

    pub(super) fn find_flow(&self, key: FlowKey, role: FlowRole) -> Option<Flow> {
        match role {
            FlowRole::Sender if key == self.visits.key => Some(Flow::Visits),
            FlowRole::Sender => self.sent_by_key.get(&key).copied().map(Flow::Sent),
            FlowRole::Receiver => self.received_by_key.get(&key).copied().map(Flow::Received),
        }
    }

    pub(super) fn all_flows(&self) -> Vec<Flow> {
        let sent = self.sent_by_key.values().copied().map(Flow::Sent);
        let received = self.received_by_key.values().copied().map(Flow::Received);
        sent.chain(received).chain([Flow::Visits]).collect()
    }

    /// Arms the timer of a flow's registrations, and of its block if it sends.
    pub(super) fn plan_registration(&mut self, flow: Flow) {
        let key = match flow {
            Flow::Sent(id) => timer_key(Timer::Sender, id.0),
            Flow::Received(id) => timer_key(Timer::RegisterReceiver, id.0),
            Flow::Visits => {
                self.visits.deadline = self.visits.registrations.deadline();
                return;
            }
        };
        let block = if let Flow::Sent(id) = flow { self.block_due(id.0) } else { None };
        match [self.registrations_of(flow).deadline(), block].into_iter().flatten().min() {
            Some(at) => self.timers.arm(key, at),
            None => self.timers.disarm(key),
        }
    }

    pub(super) fn find_deadline(&mut self, now: Time) -> Option<(Time, Reason)> {
        if self.life != Life::Open {
            return self.leaving_deadline();
        }
        // Exact: most packets put a timer off that would come up before the next one, and setting the heap right costs
        // less than an input each time.
        let flows = self.timers.earliest().map(|(at, key)| {
            let (timer, flow) = timer_of(key);
            let reason = match timer {
                Timer::Loss => Reason::Loss,
                Timer::Report => Reason::Report,
                Timer::Sender if self.block_due(flow) == Some(at) => Reason::Coding,
                Timer::RegisterReceiver | Timer::Sender => Reason::Registration,
            };
            (at, reason)
        });
        let sessions = self.sessions.deadline().map(|at| (at, Reason::Session));
        let closings = self.closings.deadline().map(|at| (at, Reason::Closing));
        let offers = self.offers.deadline().map(|at| (at, Reason::Offer));
        let visits = self.visits.deadline.map(|at| (at, Reason::Registration));
        let closed = self.direct_paths.deadline().map(|at| (at, Reason::Session));
        let copies = self.next_copy(now).into_iter().chain(self.weighing_due).min();
        let copies = copies.map(|at| (at, Reason::Pacing));
        let waiting = self.waiting.deadline().map(|at| (at, Reason::Session));
        let early = self.early.deadline().map(|at| (at, Reason::Session));
        [flows, sessions, copies, closings, offers, visits, closed, waiting, early]
            .into_iter()
            .flatten()
            .min()
    }

    /// Handles what is due, until that has cost as much work as one input may; the rest stays due.
    pub(super) fn handle_deadline(&mut self, now: Time) {
        let end = self.work_end();
        self.sessions.handle_timeout(now);
        self.handle_timers(end, now);
        self.tell_closings(end, now);
        self.say_offers(now);
        self.take_over(now);
        if self.visits.deadline.is_some_and(|at| at <= now) {
            self.register(Flow::Visits, now);
        }
        self.send_waiting_copies(now);
        self.weigh_in_time(now);
    }

    pub(super) fn handle_timer(&mut self, key: TimerKey, now: Time) {
        let (timer, flow) = timer_of(key);
        match timer {
            Timer::Loss => self.look_for_losses(ReceiveFlowId(flow), now),
            Timer::Report => self.give_report(ReceiveFlowId(flow), now),
            Timer::RegisterReceiver => self.register(Flow::Received(ReceiveFlowId(flow)), now),
            Timer::Sender => {
                if self.block_due(flow).is_some_and(|due| due <= now) {
                    self.close_own_block(SendFlowId(flow), now);
                }
                self.register(Flow::Sent(SendFlowId(flow)), now);
            }
        }
    }

    pub(super) fn handle_changes(&mut self, now: Time) {
        while let Some(change) = self.sessions.changes.pop_front() {
            match change {
                Change::Established { session, fresh } => self.established(session, fresh, now),
                Change::Dead { session } => self.died(session, true, now),
                Change::Closed { session } => self.left(session, now),
                Change::Alive { session } => self.died(session, false, now),
                Change::Probed { session, reply, before } => self.probed(session, &reply, before, now),
                Change::Weighed { session, place, received } => {
                    let is_last = !matches!(
                        self.sessions.changes.front(),
                        Some(Change::Weighed { session: next, .. }) if *next == session
                    );
                    self.weighed(session, (place, received), is_last, now);
                }
                Change::DirectPath { session } => self.look_at_direct_path(session, now),
                Change::PathNarrowed { session, since } => self.path_narrowed(session, since, now),
                Change::Moved { .. } | Change::Ended { .. } => {}
            }
        }
    }

    fn established(&mut self, session: SessionId, fresh: bool, now: Time) {
        if fresh {
            self.closings.forgot(session);
        } else {
            self.closings.is_back(session, now);
        }
        match self.roles.get(&session).copied() {
            Some(Role::Relay(relay)) => {
                // One that was silent may have given up this agent's flows.
                let was_dead = core::mem::take(&mut self.relays[relay].is_dead);
                if fresh || was_dead {
                    self.relays[relay].unbind_all();
                    self.register_anew(session, now);
                }
                self.choose_paths(now);
            }
            Some(Role::Peer(peer)) => {
                if fresh {
                    self.restart_flows_from(session, now);
                    self.restart_reports_of(session);
                    self.early_buffer.forget_peer(session);
                    self.events.push_back(Event::PeerEstablished(peer));
                    self.name_candidates(session, now);
                }
                self.offers.established(peer, fresh, now);
                self.look_at_direct_path(session, now);
                self.say_offers(now);
            }
            None => {}
        }
    }

    fn died(&mut self, session: SessionId, dead: bool, now: Time) {
        if !dead {
            self.closings.is_back(session, now);
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

    /// The other side said that it leaves.
    fn left(&mut self, session: SessionId, now: Time) {
        match self.roles.get(&session).copied() {
            Some(Role::Relay(_)) => self.died(session, true, now),
            Some(Role::Peer(peer)) => {
                self.peer_left(session);
                self.events.push_back(Event::PeerLeft(peer));
            }
            None => {}
        }
    }

    /// A peer began anew: its sequence numbers begin anew too. What relays know by the old ones is of no use.
    fn restart_flows_from(&mut self, session: SessionId, now: Time) {
        if let Some(Role::Peer(agent)) = self.roles.get(&session).copied() {
            self.closings.restarted(|key| key.sender() == agent);
        }
        self.work.entries += self.receivers.slots() as u64;
        let flows = self.receivers.iter();
        let restarted: Vec<u32> =
            flows.filter(|(_, flow)| flow.peer == session && flow.has_begun()).map(|(id, _)| id).collect();
        for id in restarted {
            // What came before is delivered, whatever it waited for.
            self.release(ReceiveFlowId(id), Time::MAX);
            self.closed.add_received(&self.receivers[id as usize]);
            self.receivers[id as usize].restart();
            self.withdraw(Flow::Received(ReceiveFlowId(id)), now);
        }
    }

    /// A peer began anew: what it reports of the flows to it is counted from 0.
    fn restart_reports_of(&mut self, session: SessionId) {
        self.work.entries += self.senders.slots() as u64;
        for (_, flow) in self.senders.iter_mut().filter(|(_, flow)| flow.peer == session) {
            if let Some(reports) = &mut flow.reports {
                reports.restart();
            }
        }
    }
}
