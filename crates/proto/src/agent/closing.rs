//! Closing of flows, and of the agent itself.

use alloc::vec::Vec;

use byway_units::Time;
use byway_wire::messages::{Close, CloseReason, FlowRole, Unregister, UnregisterReply};
use byway_wire::{FlowKey, Message, Receiver, SequenceNumber};

use super::events::Event;
use super::flow_table::FlowTable;
use super::flows::{Timer, timer_key};
use super::offers::Offers;
use super::receive_flow::ReceiveFlowId;
use super::send_flow::SendFlowId;
use super::teardown::Teardowns;
use super::{Agent, Flow, Role};
use crate::limits::{CLOSE_RETRY, CLOSE_TRIES};
use crate::reason::Reason;
use crate::session::SessionId;

/// Life-cycle state of the agent. After `Open`, it accepts no commands, and ignores all inputs but
/// deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AgentState {
    Open,
    /// The agent has sent close messages `tries` times, and sends them again at `next`.
    Leaving {
        tries: u8,
        next: Time,
    },
    Closed,
}

impl Agent {
    /// Closes a flow that this agent sends: relays and the receiver forget it, and its number may
    /// identify another flow from now on.
    ///
    /// The agent sends unregister messages only after the flow's latency budget, because its last
    /// packets may still need repairs. The flow may be opened again at any time. A call for a
    /// closed flow has no effect.
    pub fn close_flow(&mut self, flow: SendFlowId, now: Time) {
        if let Some(budget) = self.senders.get(flow.0).map(|flow| flow.settings.latency_budget) {
            self.end_flow(Flow::Sent(flow), true, now.saturating_add(budget), now);
        }
        self.finish(now);
    }

    /// Closes a flow that this agent receives: relays and the sender forget it, and its number may
    /// identify another flow from now on. Packets in flight are not delivered any more.
    pub fn close_received_flow(&mut self, flow: ReceiveFlowId, now: Time) {
        if self.receivers.get(flow.0).is_some() {
            self.end_flow(Flow::Received(flow), true, now, now);
        }
        self.finish(now);
    }

    /// Leaves: sends close messages to all peers and relays. The agent repeats them a few times,
    /// because nobody can acknowledge them. A node that receives none of them forgets the session
    /// when its keys expire.
    ///
    /// All flows are closed at once, and all inputs but deadlines are ignored. [`Event::Left`] is
    /// the last output.
    pub fn close(&mut self, now: Time) {
        if self.state != AgentState::Open {
            return;
        }
        self.flush_reorder_buffers();
        self.senders.iter().for_each(|(_, flow)| self.closed.add_sent(flow));
        self.receivers.iter().for_each(|(_, flow)| self.closed.add_received(flow));
        (self.senders, self.receivers) = (FlowTable::new(), FlowTable::new());
        self.sent_by_key.clear();
        self.received_by_key.clear();
        self.drop_all_pending_datagrams();
        self.teardowns = Teardowns::default();
        self.offers = Offers::default();
        self.relays.iter_mut().for_each(super::relay_link::RelayLink::clear);
        self.state = AgentState::Leaving { tries: 0, next: now };
        self.send_close_if_due(now);
        self.deadline = self.close_deadline();
    }

    /// Delivers all packets in the reordering buffers of congestion-controlled flows.
    fn flush_reorder_buffers(&mut self) {
        let receivers: Vec<u32> = self.receivers.iter().map(|(number, _)| number).collect();
        for number in receivers {
            self.release_in_order(ReceiveFlowId(number), Time::MAX);
        }
    }

    /// Sends the next close messages if they are due. After the last ones, ends all sessions and
    /// reports [`Event::Left`].
    pub(super) fn send_close_if_due(&mut self, now: Time) {
        let AgentState::Leaving { tries, next } = self.state else {
            return;
        };
        if next > now {
            return;
        }
        if tries == CLOSE_TRIES {
            self.roles.keys().for_each(|session| self.sessions.remove(*session));
            self.state = AgentState::Closed;
            self.events.push_back(Event::Left);
            return;
        }
        self.state = AgentState::Leaving { tries: tries + 1, next: now + CLOSE_RETRY };
        // Peers first: some are reached through relays, which then forget this agent.
        let (peers, relays): (Vec<_>, Vec<_>) =
            self.roles.iter().partition(|(_, role)| matches!(role, Role::Peer(_)));
        for (session, _) in peers.into_iter().chain(relays) {
            if self.sessions.is_established(*session, now) {
                let close = Message::Close(Close { reason: CloseReason::Leaving });
                self.sessions.queue_message(*session, &close, now);
                self.sessions.flush(*session, now);
            }
        }
    }

    /// Returns the time of the next close messages, while the agent leaves.
    pub(super) const fn close_deadline(&self) -> Option<(Time, Reason)> {
        match self.state {
            AgentState::Leaving { next, .. } => Some((next, Reason::Closing)),
            AgentState::Open | AgentState::Closed => None,
        }
    }

    /// Forgets a flow, and schedules its unregister messages from the time `first` on: to its
    /// relays, and to the peer if `notifies_peer`.
    fn end_flow(&mut self, flow: Flow, notifies_peer: bool, first: Time, now: Time) {
        let (flow_key, role) = self.identity_of(flow);
        let unregister = Unregister { flow_key, role, far_relay: None };
        for relay in self.relays_knowing(flow) {
            self.teardowns.schedule(relay, unregister, first);
        }
        let peer = self.peer_of(flow);
        if let Some(peer) = peer.filter(|_| notifies_peer) {
            self.teardowns.schedule(peer, unregister, first);
        }
        for relay in &mut self.relays {
            relay.unbind(flow);
        }
        match flow {
            Flow::Sent(id) => self.end_sent_flow(id, now),
            Flow::Received(id) => self.end_received_flow(id, now),
            Flow::RelayProbing => {}
        }
        if let Some(Role::Peer(peer)) = peer.and_then(|peer| self.roles.get(&peer)).copied() {
            self.offers.on_flow_ended(peer, flow_key.flow());
        }
        self.send_unregisters(self.messages_end(), now);
    }

    /// Ends all flows with a peer, without a message to it, before the agent forgets the peer.
    pub(super) fn end_flows_with(&mut self, peer: SessionId, now: Time) {
        for flow in self.all_flows() {
            if self.peer_of(flow) == Some(peer) {
                self.end_flow(flow, false, now, now);
            }
        }
    }

    /// Removes the state of a sent flow, and records its totals and its next sequence number.
    fn end_sent_flow(&mut self, id: SendFlowId, now: Time) {
        self.timers.disarm(timer_key(Timer::Sender, id.0));
        self.drop_early(id);
        let Some(flow) = self.senders.remove(id.0) else {
            return;
        };
        self.sent_by_key.remove(&flow.key);
        self.service_changes.forget_sent(id.0);
        self.drop_pending_datagrams(id);
        self.closed.add_sent(&flow);
        if flow.next > SequenceNumber::FIRST {
            self.teardowns.record_final_state(flow.key, FlowRole::Sender, flow.next, now);
        }
        let mut ingresses: Vec<_> = flow.settings.paths.iter().map(|path| path.ingress).collect();
        ingresses.sort_unstable();
        ingresses.dedup();
        for ingress in ingresses {
            if let Some(relay) = self.relay_indices.get(&ingress).copied() {
                self.relays[relay].remove_flow_rate(flow.settings.rate);
            }
        }
    }

    /// Removes the state of a received flow, and records its totals and its highest sequence
    /// number.
    fn end_received_flow(&mut self, id: ReceiveFlowId, now: Time) {
        for timer in [Timer::Loss, Timer::Report, Timer::RegisterReceiver] {
            self.timers.disarm(timer_key(timer, id.0));
        }
        let Some(flow) = self.receivers.remove(id.0) else {
            return;
        };
        self.received_by_key.remove(&flow.key);
        self.service_changes.forget_received(id.0);
        self.closed.add_received(&flow);
        self.incoming.remove((flow.peer, flow.key.flow()));
        self.forget_arrival_relays(flow.peer, flow.settings.service, &flow.settings.paths);
        if let Some(highest) = flow.highest() {
            self.teardowns.record_final_state(flow.key, FlowRole::Receiver, highest, now);
        }
    }

    /// Returns the sessions with the relays at which a flow may be registered.
    fn relays_knowing(&self, flow: Flow) -> Vec<SessionId> {
        let (_, role) = self.identity_of(flow);
        let registrations = self.registrations_of(flow);
        let paths = self.settings_of(flow).paths.iter().enumerate();
        let registered = paths.filter(|(path, _)| registrations.may_be_registered(*path));
        let near_relays = registered.map(|(_, path)| path.near_relay(role));
        near_relays.filter_map(|relay| self.relay_session(relay)).collect()
    }

    /// Returns the session with the agent at a flow's other end; `None` for the pseudo-flow of
    /// relay probing.
    fn peer_of(&self, flow: Flow) -> Option<SessionId> {
        match flow {
            Flow::Sent(id) => Some(self.senders[id.0 as usize].peer),
            Flow::Received(id) => Some(self.receivers[id.0 as usize].peer),
            Flow::RelayProbing => None,
        }
    }

    /// Sends the unregister messages that are due, until the work counter reaches `end`.
    pub(super) fn send_unregisters(&mut self, end: u64, now: Time) {
        while self.may_work_on(end)
            && let Some((session, unregister)) = self.teardowns.due(now)
        {
            self.work.entries += 1;
            if self.sessions.is_established(session, now) {
                self.sessions.queue_message(session, &Message::Unregister(unregister), now);
            }
        }
    }

    /// Handles an unregister message of the peer: it has closed a flow, so this agent closes it
    /// too.
    pub(super) fn on_peer_unregister(&mut self, session: SessionId, unregister: &Unregister, now: Time) {
        let Unregister { flow_key, role, far_relay } = *unregister;
        if !self.is_flow_endpoint(session, flow_key, role) {
            self.counters.out_of_role += 1;
            return;
        }
        let own_role = if role == FlowRole::Sender { FlowRole::Receiver } else { FlowRole::Sender };
        if let Some(flow) = self.find_flow(flow_key, own_role) {
            if let Flow::Received(id) = flow {
                self.release_in_order(id, Time::MAX);
            }
            self.end_flow(flow, false, now, now);
            self.events.push_back(Event::FlowClosed(flow_key));
        }
        let reply = UnregisterReply { flow_key, role, far_relay };
        self.sessions.queue_message(session, &Message::UnregisterReply(reply), now);
    }

    /// Returns true if the session is with the agent that has this role (sender or receiver) in a
    /// flow.
    fn is_flow_endpoint(&self, session: SessionId, key: FlowKey, role: FlowRole) -> bool {
        let agent = match (role, key.receiver()) {
            (FlowRole::Sender, _) => key.sender(),
            (FlowRole::Receiver, Receiver::Agent(receiver)) => receiver,
            (FlowRole::Receiver, Receiver::Group(_)) => return false,
        };
        self.roles.get(&session) == Some(&Role::Peer(agent))
    }

    /// Handles a node's reply to an unregister message, which the agent then no longer repeats. If
    /// the flow was opened again since, the relay has just forgotten it, and the agent registers it
    /// again.
    pub(super) fn on_unregister_reply(&mut self, session: SessionId, reply: &UnregisterReply, now: Time) {
        let UnregisterReply { flow_key, role, far_relay } = *reply;
        self.teardowns.complete(session, Unregister { flow_key, role, far_relay });
        if let Some(flow) = self.find_flow(flow_key, role) {
            self.register_again(flow, session, far_relay, now);
        }
    }

    /// Releases the packet state of all flows from a peer that leaves, after delivery of buffered
    /// packets.
    pub(super) fn deactivate_flows_from(&mut self, session: SessionId) {
        self.work.entries += self.receivers.slots() as u64;
        let flows = self.receivers.iter().filter(|(_, flow)| flow.peer == session);
        let flows: Vec<u32> = flows.map(|(number, _)| number).collect();
        for number in flows {
            self.release_in_order(ReceiveFlowId(number), Time::MAX);
            self.receivers[number as usize].deactivate();
            for timer in [Timer::Loss, Timer::Report] {
                self.timers.disarm(timer_key(timer, number));
            }
        }
    }
}
