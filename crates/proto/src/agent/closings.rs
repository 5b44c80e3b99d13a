//! What is left of closed flows: who has to be told, and from which number on they may begin again.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use byway_units::{Duration, Time};
use byway_wire::messages::{FlowRole, Unregister};
use byway_wire::{FlowKey, GrantedRelay, SequenceNumber};

use crate::limits::{CLOSINGS_MAX, EPOCH_OPENS_FOR, UNREGISTER_RETRY, UNREGISTER_TRIES};
use crate::session::SessionId;

/// This agent's part in a flow: by one path of several that begin at one relay, or altogether.
type Part = (FlowKey, FlowRole, Option<GrantedRelay>);

/// Repetition of the news that this agent's part in a flow has ended.
#[derive(Clone, Copy, Debug)]
struct Told {
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

/// What is left of closed flows. Nothing here takes longer the more flows were closed lately: ports that ask once make many.
#[derive(Debug, Default)]
pub(super) struct Closings {
    told: BTreeMap<SessionId, BTreeMap<Part, Told>>,
    due: BTreeSet<(Time, SessionId, Part)>,
    stood: BTreeMap<FlowKey, Stood>,
    stood_until: BTreeSet<(Time, FlowKey)>,
}

impl Closings {
    /// Has somebody told, from `first` on, until they have heard it. Too many at once, and one of the same session is left to
    /// the end of that: whoever answers nothing costs nobody else anything.
    pub(super) fn tell(&mut self, session: SessionId, unregister: Unregister, first: Time) {
        self.heard(session, unregister);
        let told = self.told.entry(session).or_default();
        if told.len() == CLOSINGS_MAX
            && let Some((part, Told { next: Some(next), .. })) = told.pop_first()
        {
            self.due.remove(&(next, session, part));
        }
        let part = part_of(unregister);
        told.insert(part, Told { tries: 0, next: Some(first) });
        self.due.insert((first, session, part));
    }

    /// They have heard it, or forgot the flow by themselves.
    pub(super) fn heard(&mut self, session: SessionId, unregister: Unregister) {
        let part = part_of(unregister);
        let Some(told) = self.told.get_mut(&session) else {
            return;
        };
        if let Some(Told { next: Some(next), .. }) = told.remove(&part) {
            self.due.remove(&(next, session, part));
        }
        if told.is_empty() {
            self.told.remove(&session);
        }
    }

    /// Whether they have not heard it yet.
    pub(super) fn is_told(&self, session: SessionId, unregister: Unregister) -> bool {
        self.told.get(&session).is_some_and(|told| told.contains_key(&part_of(unregister)))
    }

    /// The other side knows nothing of earlier times.
    pub(super) fn forgot(&mut self, session: SessionId) {
        for (part, told) in self.told.remove(&session).unwrap_or_default() {
            if let Some(next) = told.next {
                self.due.remove(&(next, session, part));
            }
        }
    }

    /// The other side is there again.
    pub(super) fn is_back(&mut self, session: SessionId, now: Time) {
        for (part, told) in self.told.get_mut(&session).into_iter().flatten() {
            if told.next.is_none() {
                *told = Told { tries: 0, next: Some(now) };
                self.due.insert((now, session, *part));
            }
        }
    }

    /// Who is to be told what now. Call until there is nobody.
    pub(super) fn due(&mut self, now: Time) -> Option<(SessionId, Unregister)> {
        let (_, session, part) = self.due.first().copied().filter(|(next, ..)| *next <= now)?;
        self.due.pop_first();
        let told = self.told.get_mut(&session)?.get_mut(&part)?;
        let wait = UNREGISTER_RETRY * (1 << told.tries);
        told.tries += 1;
        told.next = (told.tries < UNREGISTER_TRIES).then(|| now + wait);
        self.due.extend(told.next.map(|next| (next, session, part)));
        let (flow_key, role, far_relay) = part;
        Some((session, Unregister { flow_key, role, far_relay }))
    }

    /// When [`Closings::due`] has somebody.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.due.first().map(|(next, ..)| *next)
    }

    /// Notes where a flow stood when it was closed.
    ///
    /// A sender that begins it again goes on from there: under one key, no number may seal twice. A receiver takes
    /// nothing from before, as it does not know any more what arrived. Both may forget when the keys are gone; the
    /// sender later, so that the receiver has forgotten when it begins with 0.
    pub(super) fn stood(&mut self, key: FlowKey, role: FlowRole, number: SequenceNumber, now: Time) {
        while let Some((_, over)) = self.stood_until.first().copied().filter(|(until, _)| *until <= now) {
            self.stood_until.pop_first();
            self.stood.remove(&over);
        }
        let remembered: Duration = match role {
            FlowRole::Sender => EPOCH_OPENS_FOR * 2,
            FlowRole::Receiver => EPOCH_OPENS_FOR,
        };
        let until = now + remembered;
        if let Some(before) = self.stood.insert(key, Stood { number, until }) {
            self.stood_until.remove(&(before.until, key));
        }
        self.stood_until.insert((until, key));
    }

    /// A flow begins (again): nobody is to be told any more that it ended. Where it stood.
    pub(super) fn begins(&mut self, key: FlowKey, role: FlowRole, now: Time) -> Option<SequenceNumber> {
        for (session, told) in &mut self.told {
            let ended: Vec<Part> = told
                .range((key, role, None)..)
                .map(|(part, _)| *part)
                .take_while(|part| (part.0, part.1) == (key, role))
                .collect();
            for part in ended {
                if let Some(Told { next: Some(next), .. }) = told.remove(&part) {
                    self.due.remove(&(next, *session, part));
                }
            }
        }
        self.told.retain(|_, told| !told.is_empty());
        let stood = self.stood.remove(&key)?;
        self.stood_until.remove(&(stood.until, key));
        (stood.until > now).then_some(stood.number)
    }

    /// Flows of these keys begin from 0 again: their sender restarted.
    pub(super) fn restarted(&mut self, is_its: impl Fn(FlowKey) -> bool) {
        self.stood.retain(|key, _| !is_its(*key));
        self.stood_until.retain(|(_, key)| !is_its(*key));
    }
}

const fn part_of(unregister: Unregister) -> Part {
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
        assert_eq!((closings.told[&RELAY].len(), closings.due.len()), (CLOSINGS_MAX, CLOSINGS_MAX));
        assert!(closings.is_told(RELAY, end_of(9_999)) && !closings.is_told(RELAY, end_of(0)));
        closings.forgot(RELAY);
        assert_eq!(closings.deadline(), None);
    }

    #[test]
    fn whoever_answers_nothing_costs_nobody_else_the_news() {
        let (mut closings, silent) = (Closings::default(), SessionId(8));
        closings.tell(RELAY, end_of(1), at(0));
        for flow in 0..10_000 {
            closings.tell(silent, end_of(flow), at(0));
        }
        assert!(closings.is_told(RELAY, end_of(1)));
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
        assert_eq!((closings.stood.len(), closings.stood_until.len()), (1, 1), "what is over is forgotten");
    }
}
