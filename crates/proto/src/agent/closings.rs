//! What is left of closed flows: who has to be told, and from which number on they may begin again.

use alloc::collections::{BTreeMap, VecDeque};

use byway_units::{Duration, Time};
use byway_wire::messages::{FlowRole, Unregister};
use byway_wire::{FlowKey, SequenceNumber};

use crate::limits::{CLOSINGS_MAX, EPOCH_OPENS_FOR, UNREGISTER_RETRY, UNREGISTER_TRIES};
use crate::session::SessionId;

/// Somebody who has to hear that this agent's part in a flow has ended.
#[derive(Clone, Copy, Debug)]
struct Told {
    session: SessionId,
    unregister: Unregister,
    tries: u32,
    /// When to say it (again); `None`: when the other side is there again.
    next: Option<Time>,
}

/// Where a closed flow stood.
#[derive(Clone, Copy, Debug)]
struct Stood {
    number: SequenceNumber,
    until: Time,
}

/// What is left of closed flows.
#[derive(Debug, Default)]
pub(super) struct Closings {
    told: VecDeque<Told>,
    stood: BTreeMap<FlowKey, Stood>,
}

impl Closings {
    /// Has somebody told, from `first` on, until they have heard it. Too many at once, and the oldest is left to the end
    /// of its session.
    pub(super) fn tell(&mut self, session: SessionId, unregister: Unregister, first: Time) {
        self.heard(session, unregister);
        if self.told.len() == CLOSINGS_MAX {
            self.told.pop_front();
        }
        self.told.push_back(Told { session, unregister, tries: 0, next: Some(first) });
    }

    /// They have heard it, or forgot the flow by themselves.
    pub(super) fn heard(&mut self, session: SessionId, unregister: Unregister) {
        self.told.retain(|told| told.session != session || told.unregister != unregister);
    }

    /// Whether they have not heard it yet.
    pub(super) fn is_told(&self, session: SessionId, unregister: Unregister) -> bool {
        self.told.iter().any(|told| told.session == session && told.unregister == unregister)
    }

    /// The other side knows nothing of earlier times.
    pub(super) fn forgot(&mut self, session: SessionId) {
        self.told.retain(|told| told.session != session);
    }

    /// The other side is there again.
    pub(super) fn is_back(&mut self, session: SessionId, now: Time) {
        for told in self.told.iter_mut().filter(|told| told.session == session && told.next.is_none()) {
            told.tries = 0;
            told.next = Some(now);
        }
    }

    /// Who is to be told what now. Call until there is nobody.
    pub(super) fn due(&mut self, now: Time) -> Option<(SessionId, Unregister)> {
        let is_due = |told: &&mut Told| told.next.is_some_and(|next| next <= now);
        let told = self.told.iter_mut().find(is_due)?;
        let wait = UNREGISTER_RETRY * (1 << told.tries);
        told.tries += 1;
        told.next = (told.tries < UNREGISTER_TRIES).then(|| now + wait);
        Some((told.session, told.unregister))
    }

    /// When [`Closings::due`] has somebody.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.told.iter().filter_map(|told| told.next).min()
    }

    /// Notes where a flow stood when it was closed.
    ///
    /// A sender that begins it again goes on from there: under one key, no number may seal twice. A receiver takes
    /// nothing from before, as it does not know any more what arrived. Both may forget when the keys are gone; the
    /// sender later, so that the receiver has forgotten when it begins with 0.
    pub(super) fn stood(&mut self, key: FlowKey, role: FlowRole, number: SequenceNumber, now: Time) {
        self.stood.retain(|_, stood| stood.until > now);
        let remembered: Duration = match role {
            FlowRole::Sender => EPOCH_OPENS_FOR * 2,
            FlowRole::Receiver => EPOCH_OPENS_FOR,
        };
        self.stood.insert(key, Stood { number, until: now + remembered });
    }

    /// A flow begins (again): nobody is to be told any more that it ended. Where it stood.
    pub(super) fn begins(&mut self, key: FlowKey, role: FlowRole, now: Time) -> Option<SequenceNumber> {
        self.told.retain(|told| (told.unregister.flow_key, told.unregister.role) != (key, role));
        self.stood.remove(&key).filter(|stood| stood.until > now).map(|stood| stood.number)
    }

    /// Flows of these keys begin from 0 again: their sender restarted.
    pub(super) fn restarted(&mut self, is_its: impl Fn(FlowKey) -> bool) {
        self.stood.retain(|key, _| !is_its(*key));
    }
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

    /// When somebody is told, up to a time.
    fn tellings(closings: &mut Closings, until: u64) -> Vec<u64> {
        let mut times = Vec::new();
        while let Some(next) = closings.deadline().filter(|next| *next <= at(until)) {
            closings.due(next).expect("somebody is due");
            times.push(next.saturating_since(Time::START).as_millis());
        }
        times
    }

    #[test]
    fn who_does_not_answer_is_told_a_few_times_and_again_when_it_is_back() {
        let mut closings = Closings::default();
        closings.tell(RELAY, end_of(1), at(100));
        let times = [100, 350, 850, 1_850, 3_850, 7_850];
        assert_eq!(tellings(&mut closings, 1_000_000), times);
        assert_eq!(closings.deadline(), None);
        closings.is_back(SessionId(8), at(1_000_000));
        assert_eq!(closings.deadline(), None);
        closings.is_back(RELAY, at(1_000_000));
        assert_eq!(closings.due(at(1_000_000)), Some((RELAY, end_of(1))));
        closings.heard(RELAY, end_of(1));
        assert_eq!((closings.deadline(), closings.is_told(RELAY, end_of(1))), (None, false));
    }

    #[test]
    fn few_wait_to_be_told() {
        let mut closings = Closings::default();
        for flow in 0..10_000 {
            closings.tell(RELAY, end_of(flow), at(0));
        }
        assert_eq!(closings.told.len(), CLOSINGS_MAX);
        assert!(closings.is_told(RELAY, end_of(9_999)) && !closings.is_told(RELAY, end_of(0)));
        closings.forgot(RELAY);
        assert_eq!(closings.deadline(), None);
    }

    #[test]
    fn a_flow_that_begins_again_goes_on_where_it_stood_while_its_keys_live() {
        let mut closings = Closings::default();
        let (number, minute) = (SequenceNumber::new(77), 60_000);
        closings.tell(RELAY, end_of(1), at(0));
        closings.stood(key(1), FlowRole::Sender, number, at(0));
        closings.stood(key(2), FlowRole::Sender, number, at(0));
        closings.stood(key(3), FlowRole::Receiver, number, at(0));
        closings.stood(key(4), FlowRole::Receiver, number, at(0));
        assert_eq!(closings.begins(key(1), FlowRole::Sender, at(7 * minute)), Some(number));
        assert_eq!(closings.deadline(), None, "nobody is told any more");
        assert_eq!(closings.begins(key(2), FlowRole::Sender, at(8 * minute)), None);
        assert_eq!(closings.begins(key(3), FlowRole::Receiver, at(3 * minute)), Some(number));
        assert_eq!(closings.begins(key(4), FlowRole::Receiver, at(4 * minute)), None);
        closings.stood(key(5), FlowRole::Receiver, number, at(0));
        closings.restarted(|key| key.flow() == FlowId::new(5));
        assert_eq!(closings.begins(key(5), FlowRole::Receiver, at(1)), None);
        closings.stood(key(6), FlowRole::Sender, number, at(0));
        closings.stood(key(7), FlowRole::Sender, number, at(20 * minute));
        assert_eq!(closings.stood.len(), 1, "what is over is forgotten");
    }
}
