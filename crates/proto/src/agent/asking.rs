//! What is missing is noticed, and asked for.

use arrayvec::ArrayVec;
use byway_units::{Duration, Time};
use byway_wire::messages::{Confirm, Lost, Nack};
use byway_wire::{Alias, Message, Microseconds, RangeSet, Ranges, SequenceNumber};

use super::Agent;
use super::flows::{Timer, timer_key};
use super::receive_flow::{Active, ReceiveFlow, ReceiveFlowId};
use super::silence::SilenceNotice;
use crate::limits::{FIRST_NUMBERS, FLOW_REST, INITIAL_ROUND_TRIP, NACK_REACH, PATHS_ASKED_MAX};
use crate::parts::gap_tracker::NumberRange;
use crate::parts::loss_timer::LossTimer;
use crate::policy::{repairs, takes_two_ways};
use crate::session::SessionId;

impl ReceiveFlow {
    /// Whether asking for a packet that is missing makes sense.
    fn may_be_repaired(&self, number: u64) -> bool {
        let is_of_use =
            |active: &Active| !active.never_copied.contains(number) && !active.clock.is_late(number);
        self.active().is_some_and(is_of_use) && !self.has_passed(number)
    }
}

/// What a NACK says beside what is missing.
#[derive(Clone, Copy, Debug, Default)]
struct Question {
    open_from: Option<SequenceNumber>,
    noticed_by_timer: bool,
    answers_confirm: bool,
}

impl Agent {
    /// The egress relays of a flow, and what they call it: all are asked, since only the sender knows which path it
    /// uses.
    pub(super) fn egresses_of(&self, id: ReceiveFlowId) -> ArrayVec<(SessionId, Alias), PATHS_ASKED_MAX> {
        let flow = &self.receivers[id.0 as usize];
        let mut egresses = ArrayVec::new();
        for (place, path) in flow.settings.paths.iter().enumerate() {
            let egress = self.relay_session(path.egress).zip(flow.registrations.alias_of(place));
            if let Some(egress) = egress.filter(|egress| !egresses.contains(egress) && !egresses.is_full()) {
                egresses.push(egress);
            }
        }
        egresses
    }

    /// Looks for packets that should be here, and asks for them.
    pub(super) fn look_for_losses(&mut self, id: ReceiveFlowId, now: Time) {
        self.give_up(id, now);
        self.release(id, now);
        self.ask_for_gaps(id, now);
        self.ask_for_what_follows(id, now);
        self.tell_silence_if_due(id, now);
        let flow = &mut self.receivers[id.0 as usize];
        if flow.active().is_some_and(|active| active.last_used + FLOW_REST <= now) {
            flow.rest();
            self.timers.disarm(timer_key(Timer::Loss, id.0));
            return;
        }
        self.plan_losses(id);
    }

    /// Gives up packets for which every repair would be late.
    pub(super) fn give_up(&mut self, id: ReceiveFlowId, now: Time) {
        let flow = &mut self.receivers[id.0 as usize];
        if flow.active().is_none_or(|active| active.tracker.missing() == 0) {
            return;
        }
        let allowance = flow.allowance(self.sessions.round_trip(flow.peer));
        let Some(active) = flow.active_mut() else {
            return;
        };
        let mut lost = 0;
        while let Some(range) = active.tracker.give_up(now.saturating_sub(allowance)) {
            lost += u64::from(range.length);
            if let Some(order) = &mut active.order {
                order.give_up(range);
            }
        }
        flow.statistics.lost += lost;
    }

    /// Asks for what later packets show to be missing.
    fn ask_for_gaps(&mut self, id: ReceiveFlowId, now: Time) {
        let again = self.ask_again_after(id);
        self.leave_congestion(id, now);
        loop {
            let Some(active) = self.receivers[id.0 as usize].active_mut() else {
                return;
            };
            self.work.entries += active.tracker.gaps() as u64;
            let due = active.tracker.due(again, now);
            if due.is_empty() {
                return;
            }
            self.tell_lost(id, &due, now);
            let mut ranges = RangeSet::new();
            for number in due.iter().flat_map(|range| range.first..range.end()) {
                self.work.numbers += 1;
                if !self.receivers[id.0 as usize].may_be_repaired(number) {
                    continue;
                }
                let sequence = SequenceNumber::new(number);
                if !ranges.insert(sequence) {
                    self.ask(id, &ranges.ranges(), Question::default(), now);
                    ranges = RangeSet::new();
                    assert!(ranges.insert(sequence), "an empty set has room");
                }
            }
            if !ranges.is_empty() {
                self.ask(id, &ranges.ranges(), Question::default(), now);
            }
        }
    }

    /// Asks for everything from the next packet on, when the silence is too long.
    fn ask_for_what_follows(&mut self, id: ReceiveFlowId, now: Time) {
        let again = self.ask_again_after(id);
        let round_trip = self.sessions.round_trip(self.receivers[id.0 as usize].peer);
        let flow = &mut self.receivers[id.0 as usize];
        let service = flow.settings.service;
        let Some(active) = flow.active_mut() else {
            return;
        };
        // What comes on the other way is not missing. Later timeouts grow too long to show that
        // packets still come there.
        let comes = takes_two_ways(service) && active.ways.are_relaying(active.timer.first(), now);
        let may_ask = repairs(service) && !comes;
        let is_repeat = active.repeat_at().is_some_and(|at| at <= now);
        let highest = active.tracker.highest().map(SequenceNumber::new);
        let is_tail = active.tail.asks(highest, now) && active.open.is_none() && !active.queue.is_standing();
        let is_silent = now.saturating_since(active.silent_since(service)) >= active.timeout();
        if !is_silent && !is_repeat && !is_tail {
            return;
        }
        active.open_asks = active.open_asks.saturating_add(1);
        if is_silent {
            active.timer.expired(now);
            if !comes && active.silence.is_none() {
                active.silence = Some(SilenceNotice::noticed(round_trip, now));
            }
            // Where this agent's address changed unnoticed, the sender hears from the new one.
            self.plan_report(id, true, now);
        }
        let flow = &mut self.receivers[id.0 as usize];
        let Some(active) = flow.active_mut().filter(|_| may_ask) else {
            return;
        };
        let from = active
            .tracker
            .highest()
            .map_or(SequenceNumber::FIRST, |highest| SequenceNumber::new(highest + 1));
        let from = *active.open.get_or_insert(from);
        active.answers_due = now + again;
        active.tracker.open(from.number(), again);
        flow.statistics.open_nacks += 1;
        let question = Question { open_from: Some(from), noticed_by_timer: true, answers_confirm: false };
        self.ask(id, &Ranges::EMPTY, question, now);
    }

    fn ask(&mut self, id: ReceiveFlowId, ranges: &Ranges<'_>, question: Question, now: Time) {
        let round_trip = self.sessions.round_trip(self.receivers[id.0 as usize].peer);
        let flow = &mut self.receivers[id.0 as usize];
        if !repairs(flow.settings.service) {
            return;
        }
        flow.statistics.nacks += u64::from(!ranges.is_empty());
        // What an open end covers is followed by nothing that could go before it.
        let is_open = question.open_from.is_some();
        let patience = if is_open { flow.allowance(round_trip) } else { flow.patience(round_trip) };
        let patience = Microseconds::from_duration(patience);
        for (session, alias) in self.egresses_of(id) {
            let nack = Nack {
                alias,
                open_from_low: question.open_from.map(SequenceNumber::low),
                noticed_by_timer: question.noticed_by_timer,
                answers_confirm: question.answers_confirm,
                patience,
                ranges: *ranges,
            };
            self.sessions.use_session(session, now);
            self.sessions.say(session, &Message::Nack(nack), now);
        }
    }

    /// A relay could repair packets now, and asks whether they are still missing.
    pub(super) fn confirm(&mut self, session: SessionId, confirm: &Confirm<'_>, now: Time) {
        let Some(id) = self.received_flow(session, confirm.alias) else {
            return;
        };
        self.note_tail(id, confirm, now);
        let flow = &self.receivers[id.0 as usize];
        let Some(active) = flow.active() else {
            return;
        };
        let open_from = active.open;
        let mut missing = RangeSet::new();
        let mut last = None;
        for low in confirm.ranges.numbers_low().take(crate::limits::REQUESTS_MAX) {
            self.work.numbers += 1;
            let sequence = flow.full(low);
            let is_missing =
                active.tracker.is_wanted(sequence.number()) || (open_from.is_some() && flow.is_new(sequence));
            let is_late = flow.has_passed(sequence.number()) || active.clock.is_late(sequence.number());
            let is_missing = is_missing && !is_late;
            if is_missing && last.is_none_or(|last| last < sequence) && missing.insert(sequence) {
                last = Some(sequence);
            }
        }
        if missing.is_empty() {
            return;
        }
        let question = Question { open_from, noticed_by_timer: false, answers_confirm: true };
        self.ask(id, &missing.ranges(), question, now);
    }

    /// Notes the packets that a relay speaks of and that lie beyond what has come.
    fn note_tail(&mut self, id: ReceiveFlowId, confirm: &Confirm<'_>, now: Time) {
        let flow = &self.receivers[id.0 as usize];
        let round_trip = self.sessions.round_trip(flow.peer);
        let Some(last) = confirm.ranges.last_low().map(|low| flow.full(low)) else {
            return;
        };
        // Of a flow that was under way before it was listened to, nobody knows what of it is missing.
        if !repairs(flow.settings.service) || (!flow.has_begun() && last.number() >= FIRST_NUMBERS) {
            return;
        }
        let is_beyond = flow.highest().is_some_and(|highest| last > highest.plus(NACK_REACH));
        let is_here = flow.highest().is_some_and(|highest| last <= highest);
        if is_beyond {
            return;
        }
        let flow = &mut self.receivers[id.0 as usize];
        if is_here {
            if let Some(active) = flow.active_mut() {
                active.tail.confirmed();
            }
            return;
        }
        flow.activate(round_trip, now).tail.said(last, now);
        self.plan_losses(id);
    }

    /// Tells the relay that packets that others ask for are lost here too.
    fn tell_lost(&mut self, id: ReceiveFlowId, due: &[NumberRange], now: Time) {
        let Some(active) = self.receivers[id.0 as usize].active_mut() else {
            return;
        };
        if active.requests.is_empty() {
            return;
        }
        let mut lost = RangeSet::new();
        for number in due.iter().flat_map(|range| range.first..range.end()) {
            self.work.numbers += 1;
            let sequence = SequenceNumber::new(number);
            if active.requests.tell(sequence) && !lost.insert(sequence) {
                break;
            }
        }
        for (session, alias) in self.egresses_of(id).into_iter().filter(|_| !lost.is_empty()) {
            self.sessions.say(session, &Message::Lost(Lost { alias, ranges: lost.ranges() }), now);
        }
    }

    /// Arms the timer for the next time that something may be missing.
    pub(super) fn plan_losses(&mut self, id: ReceiveFlowId) {
        let key = timer_key(Timer::Loss, id.0);
        let Some(active) = self.receivers[id.0 as usize].active() else {
            self.timers.disarm(key);
            return;
        };
        let timeout = active.timeout();
        let silent_since = active.silent_since(self.receivers[id.0 as usize].settings.service);
        let silence = (timeout < Duration::MAX).then(|| silent_since.saturating_add(timeout));
        let rest = active.last_used + FLOW_REST;
        let order = active.order.as_ref().and_then(|order| order.deadline());
        let notice = active.silence.and_then(SilenceNotice::deadline);
        let at =
            [silence, notice, active.repeat_at(), active.tracker.deadline(), active.tail.ask_at(), order]
                .into_iter()
                .flatten()
                .fold(rest, Time::min);
        self.timers.arm(key, at);
    }

    /// How long after a request its answer is missed: one and a half round trips to the relay.
    pub(super) fn ask_again_after(&self, id: ReceiveFlowId) -> Duration {
        let round_trips =
            self.egresses_of(id).into_iter().map(|(session, _)| self.sessions.round_trip(session));
        let round_trip = round_trips.min().unwrap_or(INITIAL_ROUND_TRIP);
        round_trip + round_trip / 2
    }
}
