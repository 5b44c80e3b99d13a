//! Teardown of closed flows: pending unregister messages, and the sequence numbers at which the
//! flows may be opened again.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use byway_units::{Duration, Time};
use byway_wire::messages::{FlowRole, Unregister};
use byway_wire::{FlowKey, GrantedRelay, SequenceNumber};

use crate::limits::{EPOCH_OPENS_FOR, TEARDOWNS_MAX, UNREGISTER_RETRY, UNREGISTER_TRIES};
use crate::session::SessionId;

/// This agent's registration of a flow: one path of several that begin at one relay, or the whole
/// flow.
type FlowPart = (FlowKey, FlowRole, Option<GrantedRelay>);

/// Unregister message that a node has not acknowledged: transmissions so far, and the next one.
#[derive(Clone, Copy, Debug)]
struct PendingUnregister {
    tries: u32,
    /// Time of the next transmission; `None` until the node is reachable again.
    next: Option<Time>,
}

/// Sequence number at which a flow was closed, at the sender the next one, at the receiver the
/// highest, and the time until which it is remembered.
#[derive(Clone, Copy, Debug)]
struct FinalState {
    number: SequenceNumber,
    until: Time,
}

/// Unregister messages and final sequence numbers of closed flows. The cost of an operation does
/// not grow with the flows closed recently, because applications that use a port for one request
/// create many.
#[derive(Debug, Default)]
pub(super) struct Teardowns {
    pending: BTreeMap<SessionId, BTreeMap<FlowPart, PendingUnregister>>,
    due: BTreeSet<(Time, SessionId, FlowPart)>,
    final_states: BTreeMap<FlowKey, FinalState>,
    final_state_expiry: BTreeSet<(Time, FlowKey)>,
}

impl Teardowns {
    /// Schedules unregister messages to a node, from the time `first` on, until it acknowledges
    /// them. If a session has too many, one of its own is dropped, so a node that does not answer
    /// costs others nothing.
    pub(super) fn schedule(&mut self, session: SessionId, unregister: Unregister, first: Time) {
        self.complete(session, unregister);
        let unregisters = self.pending.entry(session).or_default();
        if unregisters.len() == TEARDOWNS_MAX
            && let Some((part, PendingUnregister { next: Some(next), .. })) = unregisters.pop_first()
        {
            self.due.remove(&(next, session, part));
        }
        let part = part_of(unregister);
        unregisters.insert(part, PendingUnregister { tries: 0, next: Some(first) });
        self.due.insert((first, session, part));
    }

    /// Cancels an unregister message that the node has acknowledged, or whose flow it has forgotten
    /// by itself.
    pub(super) fn complete(&mut self, session: SessionId, unregister: Unregister) {
        let part = part_of(unregister);
        let Some(unregisters) = self.pending.get_mut(&session) else {
            return;
        };
        if let Some(PendingUnregister { next: Some(next), .. }) = unregisters.remove(&part) {
            self.due.remove(&(next, session, part));
        }
        if unregisters.is_empty() {
            self.pending.remove(&session);
        }
    }

    /// Returns true if the node has not acknowledged this unregister message yet.
    pub(super) fn is_pending(&self, session: SessionId, unregister: Unregister) -> bool {
        self.pending.get(&session).is_some_and(|unregisters| unregisters.contains_key(&part_of(unregister)))
    }

    /// Cancels all unregister messages to a node that has lost its state.
    pub(super) fn on_peer_reset(&mut self, session: SessionId) {
        for (part, pending) in self.pending.remove(&session).unwrap_or_default() {
            if let Some(next) = pending.next {
                self.due.remove(&(next, session, part));
            }
        }
    }

    /// Makes the unregister messages due that ended without an answer, because their node is
    /// reachable again.
    pub(super) fn on_peer_reachable(&mut self, session: SessionId, now: Time) {
        for (part, pending) in self.pending.get_mut(&session).into_iter().flatten() {
            if pending.next.is_none() {
                *pending = PendingUnregister { tries: 0, next: Some(now) };
                self.due.insert((now, session, *part));
            }
        }
    }

    /// Returns an unregister message that is due, with its session, and schedules its next
    /// transmission. Call until it returns `None`.
    pub(super) fn due(&mut self, now: Time) -> Option<(SessionId, Unregister)> {
        let (_, session, part) = self.due.first().copied().filter(|(next, ..)| *next <= now)?;
        self.due.pop_first();
        let pending = self.pending.get_mut(&session)?.get_mut(&part)?;
        let wait = UNREGISTER_RETRY * (1 << pending.tries);
        pending.tries += 1;
        pending.next = (pending.tries < UNREGISTER_TRIES).then(|| now + wait);
        self.due.extend(pending.next.map(|next| (next, session, part)));
        let (flow_key, role, far_relay) = part;
        Some((session, Unregister { flow_key, role, far_relay }))
    }

    /// Returns the time at which [`Teardowns::due`] has the next message.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.due.first().map(|(next, ..)| *next)
    }

    /// Records the sequence number at which a flow was closed: the sender's next one, or the
    /// receiver's highest.
    ///
    /// A sender that opens the flow again continues from there, because no number may be sealed
    /// twice with one key. A receiver ignores earlier packets, because it does not know any more
    /// which ones arrived. Both may forget the number when the keys have expired. The sender does
    /// so later, so the receiver has forgotten when the sender starts from 0.
    pub(super) fn record_final_state(
        &mut self,
        key: FlowKey,
        role: FlowRole,
        number: SequenceNumber,
        now: Time,
    ) {
        while let Some((_, expired)) =
            self.final_state_expiry.first().copied().filter(|(until, _)| *until <= now)
        {
            self.final_state_expiry.pop_first();
            self.final_states.remove(&expired);
        }
        let remembered: Duration = match role {
            FlowRole::Sender => EPOCH_OPENS_FOR * 2,
            FlowRole::Receiver => EPOCH_OPENS_FOR,
        };
        let until = now + remembered;
        if let Some(before) = self.final_states.insert(key, FinalState { number, until }) {
            self.final_state_expiry.remove(&(before.until, key));
        }
        self.final_state_expiry.insert((until, key));
    }

    /// Handles a flow that opens again: cancels its unregister messages, and returns the sequence
    /// number at which it was closed, if that is remembered.
    pub(super) fn on_flow_opened(
        &mut self,
        key: FlowKey,
        role: FlowRole,
        now: Time,
    ) -> Option<SequenceNumber> {
        for (session, unregisters) in &mut self.pending {
            let ended: Vec<FlowPart> = unregisters
                .range((key, role, None)..)
                .map(|(part, _)| *part)
                .take_while(|part| (part.0, part.1) == (key, role))
                .collect();
            for part in ended {
                if let Some(PendingUnregister { next: Some(next), .. }) = unregisters.remove(&part) {
                    self.due.remove(&(next, *session, part));
                }
            }
        }
        self.pending.retain(|_, unregisters| !unregisters.is_empty());
        let state = self.final_states.remove(&key)?;
        self.final_state_expiry.remove(&(state.until, key));
        (state.until > now).then_some(state.number)
    }

    /// Forgets the final sequence numbers of the selected flows, because their sender has
    /// restarted: they begin from 0 again.
    pub(super) fn on_sender_restart(&mut self, is_of_sender: impl Fn(FlowKey) -> bool) {
        self.final_states.retain(|key, _| !is_of_sender(*key));
        self.final_state_expiry.retain(|(_, key)| !is_of_sender(*key));
    }
}

const fn part_of(unregister: Unregister) -> FlowPart {
    (unregister.flow_key, unregister.role, unregister.far_relay)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use byway_units::{AgentId, FlowId};

    use super::*;
    use crate::agent::flow_between;

    const RELAY: SessionId = SessionId(7);

    fn at(millis: u64) -> Time {
        Time::START + Duration::from_millis(millis)
    }

    fn key(flow: u16) -> FlowKey {
        flow_between(AgentId::new(1), AgentId::new(2), FlowId::new(flow))
    }

    fn end_of(flow: u16) -> Unregister {
        Unregister { flow_key: key(flow), role: FlowRole::Sender, far_relay: None }
    }

    /// Returns the times of unregister messages, up to `until`.
    fn notification_times(teardowns: &mut Teardowns, until: u64) -> Vec<u64> {
        let mut times = Vec::new();
        while let Some(next) = teardowns.deadline().filter(|next| *next <= at(until)) {
            teardowns.due(next).expect("a message is due at the deadline");
            times.push(next.saturating_since(Time::START).as_millis());
        }
        times
    }

    #[test]
    fn who_does_not_answer_is_told_a_few_times_and_again_when_it_is_back() {
        let mut teardowns = Teardowns::default();
        teardowns.schedule(RELAY, end_of(1), at(100));
        let times = [100, 350, 850, 1_850, 3_850, 7_850];
        assert_eq!(notification_times(&mut teardowns, 1_000_000), times);
        assert_eq!(teardowns.deadline(), None);
        teardowns.on_peer_reachable(SessionId(8), at(1_000_000));
        assert_eq!(teardowns.deadline(), None);
        teardowns.on_peer_reachable(RELAY, at(1_000_000));
        assert_eq!(teardowns.due(at(1_000_000)), Some((RELAY, end_of(1))));
        teardowns.complete(RELAY, end_of(1));
        assert_eq!((teardowns.deadline(), teardowns.is_pending(RELAY, end_of(1))), (None, false));
    }

    #[test]
    fn few_wait_to_be_told() {
        let mut teardowns = Teardowns::default();
        for flow in 0..10_000 {
            teardowns.schedule(RELAY, end_of(flow), at(0));
        }
        assert_eq!((teardowns.pending[&RELAY].len(), teardowns.due.len()), (TEARDOWNS_MAX, TEARDOWNS_MAX));
        assert!(teardowns.is_pending(RELAY, end_of(9_999)) && !teardowns.is_pending(RELAY, end_of(0)));
        teardowns.on_peer_reset(RELAY);
        assert_eq!(teardowns.deadline(), None);
    }

    #[test]
    fn whoever_answers_nothing_costs_nobody_else_the_news() {
        let (mut teardowns, silent) = (Teardowns::default(), SessionId(8));
        teardowns.schedule(RELAY, end_of(1), at(0));
        for flow in 0..10_000 {
            teardowns.schedule(silent, end_of(flow), at(0));
        }
        assert!(teardowns.is_pending(RELAY, end_of(1)));
    }

    #[test]
    fn a_flow_that_begins_again_goes_on_where_it_stood_while_its_keys_live() {
        let mut teardowns = Teardowns::default();
        let (number, minute) = (SequenceNumber::new(77), 60_000);
        teardowns.schedule(RELAY, end_of(1), at(0));
        teardowns.record_final_state(key(1), FlowRole::Sender, number, at(0));
        teardowns.record_final_state(key(2), FlowRole::Sender, number, at(0));
        teardowns.record_final_state(key(3), FlowRole::Receiver, number, at(0));
        teardowns.record_final_state(key(4), FlowRole::Receiver, number, at(0));
        assert_eq!(teardowns.on_flow_opened(key(1), FlowRole::Sender, at(7 * minute)), Some(number));
        assert_eq!(teardowns.deadline(), None, "the unregister message is cancelled");
        assert_eq!(teardowns.on_flow_opened(key(2), FlowRole::Sender, at(8 * minute)), None);
        assert_eq!(teardowns.on_flow_opened(key(3), FlowRole::Receiver, at(3 * minute)), Some(number));
        assert_eq!(teardowns.on_flow_opened(key(4), FlowRole::Receiver, at(4 * minute)), None);
        teardowns.record_final_state(key(5), FlowRole::Receiver, number, at(0));
        teardowns.on_sender_restart(|key| key.flow() == FlowId::new(5));
        assert_eq!(teardowns.on_flow_opened(key(5), FlowRole::Receiver, at(1)), None);
        teardowns.record_final_state(key(6), FlowRole::Sender, number, at(0));
        teardowns.record_final_state(key(7), FlowRole::Sender, number, at(20 * minute));
        assert_eq!(
            (teardowns.final_states.len(), teardowns.final_state_expiry.len()),
            (1, 1),
            "expired numbers are forgotten"
        );
    }
}
