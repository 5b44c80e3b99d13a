//! Flows end, and so does the agent.

use alloc::vec::Vec;

use byway_units::Time;
use byway_wire::messages::{Close, CloseReason, FlowRole, Unregister, Unregistered};
use byway_wire::{FlowKey, Message, Receiver, SequenceNumber};

use super::closings::Closings;
use super::events::Event;
use super::flow_table::FlowTable;
use super::flows::{Timer, timer_key};
use super::offers::Offers;
use super::receive_flow::ReceiveFlowId;
use super::send_flow::SendFlowId;
use super::{Agent, Flow, Role};
use crate::limits::{CLOSE_RETRY, CLOSE_TRIES};
use crate::reason::Reason;
use crate::session::SessionId;

/// Whether the agent is still in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Open,
    /// It said so many times that it leaves, and says it again at this time.
    Leaving {
        tries: u8,
        next: Time,
    },
    Gone,
}

impl Agent {
    /// Closes a flow that this agent sends: relays and the receiver forget it, and its number may stand for another flow
    /// from now on.
    ///
    /// They are told when the flow's latency budget has passed, so that its last packets are repaired as any others. The
    /// flow may be opened again at any time. A flow that is closed already is not closed again.
    pub fn close_flow(&mut self, flow: SendFlowId, now: Time) {
        if let Some(budget) = self.senders.get(flow.0).map(|flow| flow.settings.latency_budget) {
            self.end(Flow::Sent(flow), true, now.saturating_add(budget), now);
        }
        self.finish(now);
    }

    /// Closes a flow that this agent receives: relays and the sender forget it, and its number may stand for another flow
    /// from now on. What was sent of it is not delivered any more.
    pub fn close_received_flow(&mut self, flow: ReceiveFlowId, now: Time) {
        if self.receivers.get(flow.0).is_some() {
            self.end(Flow::Received(flow), true, now, now);
        }
        self.finish(now);
    }

    /// Leaves: peers and relays are told that their sessions with this agent end, a few times, as nobody can answer to
    /// that. Who hears none of it forgets the sessions when their keys are too old.
    ///
    /// All flows are gone at once, and all inputs but deadlines are ignored. [`Event::Left`] is the last output.
    pub fn close(&mut self, now: Time) {
        if self.life != Life::Open {
            return;
        }
        self.release_all();
        self.senders.iter().for_each(|(_, flow)| self.closed.add_sent(flow));
        self.receivers.iter().for_each(|(_, flow)| self.closed.add_received(flow));
        (self.senders, self.receivers) = (FlowTable::new(), FlowTable::new());
        self.sent_by_key.clear();
        self.received_by_key.clear();
        self.drop_all_that_waited();
        self.closings = Closings::default();
        self.offers = Offers::default();
        self.relays.iter_mut().for_each(super::relay_link::RelayLink::clear);
        self.life = Life::Leaving { tries: 0, next: now };
        self.leave(now);
        self.deadline = self.leaving_deadline();
    }

    /// What congestion-controlled flows hold back is delivered.
    fn release_all(&mut self) {
        let receivers: Vec<u32> = self.receivers.iter().map(|(number, _)| number).collect();
        for number in receivers {
            self.release(ReceiveFlowId(number), Time::MAX);
        }
    }

    /// Says that it leaves, or has said it often enough.
    pub(super) fn leave(&mut self, now: Time) {
        let Life::Leaving { tries, next } = self.life else {
            return;
        };
        if next > now {
            return;
        }
        if tries == CLOSE_TRIES {
            self.roles.keys().for_each(|session| self.sessions.remove(*session));
            self.life = Life::Gone;
            self.events.push_back(Event::Left);
            return;
        }
        self.life = Life::Leaving { tries: tries + 1, next: now + CLOSE_RETRY };
        // Peers first: some are reached through relays, which then forget this agent.
        let (peers, relays): (Vec<_>, Vec<_>) =
            self.roles.iter().partition(|(_, role)| matches!(role, Role::Peer(_)));
        for (session, _) in peers.into_iter().chain(relays) {
            if self.sessions.is_established(*session, now) {
                let close = Message::Close(Close { reason: CloseReason::Leaving });
                self.sessions.say(*session, &close, now);
                self.sessions.flush(*session, now);
            }
        }
    }

    /// When it is to be said again.
    pub(super) const fn leaving_deadline(&self) -> Option<(Time, Reason)> {
        match self.life {
            Life::Leaving { next, .. } => Some((next, Reason::Closing)),
            Life::Open | Life::Gone => None,
        }
    }

    /// Forgets a flow, and has its relays, and maybe the other end, told from `first` on.
    fn end(&mut self, flow: Flow, tells_peer: bool, first: Time, now: Time) {
        let (flow_key, role) = self.identity_of(flow);
        let unregister = Unregister { flow_key, role, far_relay: None };
        for relay in self.relays_told_of(flow) {
            self.closings.tell(relay, unregister, first);
        }
        let peer = self.peer_of(flow);
        if let Some(peer) = peer.filter(|_| tells_peer) {
            self.closings.tell(peer, unregister, first);
        }
        for relay in &mut self.relays {
            relay.unbind(flow);
        }
        match flow {
            Flow::Sent(id) => self.end_sent(id, now),
            Flow::Received(id) => self.end_received(id, now),
            Flow::Visits => {}
        }
        if let Some(Role::Peer(peer)) = peer.and_then(|peer| self.roles.get(&peer)).copied() {
            self.offers.flow_ended(peer, flow_key.flow());
        }
        self.tell_closings(self.messages_end(), now);
    }

    /// Ends all flows with a peer that is to be forgotten.
    pub(super) fn end_flows_with(&mut self, peer: SessionId, now: Time) {
        for flow in self.all_flows() {
            if self.peer_of(flow) == Some(peer) {
                self.end(flow, false, now, now);
            }
        }
    }

    fn end_sent(&mut self, id: SendFlowId, now: Time) {
        self.timers.disarm(timer_key(Timer::Sender, id.0));
        self.drop_early(id);
        let Some(flow) = self.senders.remove(id.0) else {
            return;
        };
        self.sent_by_key.remove(&flow.key);
        self.drop_what_waited(id);
        self.closed.add_sent(&flow);
        if flow.next > SequenceNumber::FIRST {
            self.closings.stood(flow.key, FlowRole::Sender, flow.next, now);
        }
        let mut places: Vec<_> = flow.settings.paths.iter().map(|path| path.ingress).collect();
        places.sort_unstable();
        places.dedup();
        for place in places {
            if let Some(relay) = self.relay_places.get(&place).copied() {
                self.relays[relay].remove_flow_rate(flow.settings.rate);
            }
        }
    }

    fn end_received(&mut self, id: ReceiveFlowId, now: Time) {
        for timer in [Timer::Loss, Timer::Report, Timer::RegisterReceiver] {
            self.timers.disarm(timer_key(timer, id.0));
        }
        let Some(flow) = self.receivers.remove(id.0) else {
            return;
        };
        self.received_by_key.remove(&flow.key);
        self.closed.add_received(&flow);
        self.incoming.remove((flow.peer, flow.key.flow()));
        self.forget_ways_in(flow.peer, &flow.settings.paths);
        if let Some(highest) = flow.highest() {
            self.closings.stood(flow.key, FlowRole::Receiver, highest, now);
        }
    }

    /// The relays that may know a flow.
    fn relays_told_of(&self, flow: Flow) -> Vec<SessionId> {
        let (_, role) = self.identity_of(flow);
        let registrations = self.registrations_of(flow);
        let paths = self.settings_of(flow).paths.iter().enumerate();
        let told = paths.filter(|(path, _)| registrations.is_told(*path));
        let places = told.map(|(_, path)| path.end_of(role));
        places.filter_map(|place| self.relay_session(place)).collect()
    }

    /// The session with a flow's other end, if it has one.
    fn peer_of(&self, flow: Flow) -> Option<SessionId> {
        match flow {
            Flow::Sent(id) => Some(self.senders[id.0 as usize].peer),
            Flow::Received(id) => Some(self.receivers[id.0 as usize].peer),
            Flow::Visits => None,
        }
    }

    /// Tells those who are to be told now that flows have ended, until so many units of work are done in all.
    pub(super) fn tell_closings(&mut self, end: u64, now: Time) {
        while self.may_work_on(end)
            && let Some((session, unregister)) = self.closings.due(now)
        {
            self.work.entries += 1;
            if self.sessions.is_established(session, now) {
                self.sessions.say(session, &Message::Unregister(unregister), now);
            }
        }
    }

    /// The other end of a flow has closed it: so does this one.
    pub(super) fn ended_by_peer(&mut self, session: SessionId, unregister: &Unregister, now: Time) {
        let Unregister { flow_key, role, far_relay } = *unregister;
        if !self.is_end_of(session, flow_key, role) {
            self.counters.out_of_role += 1;
            return;
        }
        let own_role = if role == FlowRole::Sender { FlowRole::Receiver } else { FlowRole::Sender };
        if let Some(flow) = self.find_flow(flow_key, own_role) {
            if let Flow::Received(id) = flow {
                self.release(id, Time::MAX);
            }
            self.end(flow, false, now, now);
            self.events.push_back(Event::FlowClosed(flow_key));
        }
        let unregistered = Unregistered { flow_key, role, far_relay };
        self.sessions.say(session, &Message::Unregistered(unregistered), now);
    }

    /// Whether the session is with the agent that has this part in a flow.
    fn is_end_of(&self, session: SessionId, key: FlowKey, role: FlowRole) -> bool {
        let agent = match (role, key.receiver()) {
            (FlowRole::Sender, _) => key.sender(),
            (FlowRole::Receiver, Receiver::Agent(receiver)) => receiver,
            (FlowRole::Receiver, Receiver::Group(_)) => return false,
        };
        self.roles.get(&session) == Some(&Role::Peer(agent))
    }

    /// Somebody has heard that a flow ended. A relay that says so of a flow that began again has heard it too late.
    pub(super) fn unregistered(&mut self, session: SessionId, unregistered: &Unregistered, now: Time) {
        let Unregistered { flow_key, role, far_relay } = *unregistered;
        self.closings.heard(session, Unregister { flow_key, role, far_relay });
        if let Some(flow) = self.find_flow(flow_key, role) {
            self.register_again(flow, session, far_relay, now);
        }
    }

    /// A peer leaves: what is kept of its packets is of no use to anybody any more.
    pub(super) fn peer_left(&mut self, session: SessionId) {
        self.work.entries += self.receivers.slots() as u64;
        let flows = self.receivers.iter().filter(|(_, flow)| flow.peer == session);
        let flows: Vec<u32> = flows.map(|(number, _)| number).collect();
        for number in flows {
            self.release(ReceiveFlowId(number), Time::MAX);
            self.receivers[number as usize].rest();
            for timer in [Timer::Loss, Timer::Report] {
                self.timers.disarm(timer_key(timer, number));
            }
        }
    }
}
