//! Loss detection at the receiver, and the NACKs that it sends.

use arrayvec::ArrayVec;
use byway_units::{Duration, Time};
use byway_wire::messages::{Confirm, CooperativeRefusal, Nack};
use byway_wire::{Alias, Message, Microseconds, RangeSet, Ranges, SequenceNumber};

use super::Agent;
use super::flows::{Timer, timer_key};
use super::notice_intervals::NoticeIntervals;
use super::receive_flow::{ReceiveFlow, ReceiveFlowId, ReceiveState};
use super::silence::SilenceNotice;
use crate::limits::{
    CARRIED_FOR, FIRST_NUMBERS, FLOW_IDLE_TIMEOUT, INITIAL_ROUND_TRIP, NACK_REACH, NACKED_RELAYS_MAX,
};
use crate::parts::gap_tracker::NumberRange;
use crate::parts::loss_timer::LossTimer;
use crate::parts::retry::retry_interval;
use crate::policy::{is_repaired_from_afar, repairs, retransmits, uses_both_paths};
use crate::session::SessionId;

impl ReceiveFlow {
    /// Returns true if a repair of a missing packet may exist and would be in time.
    fn may_be_repaired(&self, number: u64) -> bool {
        let is_useful = |active: &ReceiveState| {
            !active.unprotected.contains(number) && !active.owd_baseline.is_late(number)
        };
        self.active().is_some_and(is_useful) && !self.has_passed(number)
    }
}

/// Fields of a NACK besides its ranges: start of an open-ended NACK, and its cause.
#[derive(Clone, Copy, Debug, Default)]
struct NackOptions {
    open_from: Option<SequenceNumber>,
    noticed_by_timer: bool,
    answers_confirm: bool,
}

impl Agent {
    /// Returns the sessions with the egress relays of a received flow, with their aliases for it.
    /// All of them get each NACK, because only the sender knows the path in use.
    pub(super) fn egress_relays_of(
        &self,
        id: ReceiveFlowId,
    ) -> ArrayVec<(SessionId, Alias), NACKED_RELAYS_MAX> {
        let flow = &self.receivers[id.0 as usize];
        let mut egresses = ArrayVec::new();
        for (index, path) in flow.settings.paths.iter().enumerate() {
            let egress = self.relay_session(path.egress).zip(flow.registrations.alias_of(index));
            if let Some(egress) = egress.filter(|egress| !egresses.contains(egress) && !egresses.is_full()) {
                egresses.push(egress);
            }
        }
        egresses
    }

    /// Handles the loss timer of a flow: expires missing packets, sends NACKs and notices of
    /// silence that are due, and arms the timer again. Releases the packet state of an idle flow.
    pub(super) fn detect_losses(&mut self, id: ReceiveFlowId, now: Time) {
        self.expire_missing_packets(id, now);
        self.release_in_order(id, now);
        self.send_gap_nacks(id, now);
        self.send_open_ended_nack(id, now);
        self.send_silence_if_due(id, now);
        let flow = &mut self.receivers[id.0 as usize];
        if flow.active().is_some_and(|active| active.last_used + FLOW_IDLE_TIMEOUT <= now) {
            flow.deactivate();
            self.timers.disarm(timer_key(Timer::Loss, id.0));
            return;
        }
        self.arm_loss_timer(id);
    }

    /// Counts missing packets as lost if every repair of them would be late; ordered delivery then
    /// no longer waits for them.
    pub(super) fn expire_missing_packets(&mut self, id: ReceiveFlowId, now: Time) {
        let flow = &mut self.receivers[id.0 as usize];
        if flow.active().is_none_or(|active| active.tracker.missing() == 0) {
            return;
        }
        let allowance = flow.lateness_budget(self.sessions.round_trip(flow.peer));
        let Some(active) = flow.active_mut() else {
            return;
        };
        let mut lost = 0;
        while let Some(range) = active.tracker.expire(now.saturating_sub(allowance)) {
            lost += u64::from(range.length);
            if let Some(order) = &mut active.reorder_buffer {
                order.abandon(range);
            }
        }
        flow.statistics.lost += lost;
    }

    /// Sends NACKs for the gaps that are due, and refuses others' requests for these packets. Each
    /// number is requested again after [`Agent::nack_retry_interval`].
    fn send_gap_nacks(&mut self, id: ReceiveFlowId, now: Time) {
        let retry_interval = self.nack_retry_interval(id);
        loop {
            let Some(active) = self.receivers[id.0 as usize].active_mut() else {
                return;
            };
            self.work.entries += active.tracker.gaps() as u64;
            let due = active.tracker.due(retry_interval, now);
            if due.is_empty() {
                return;
            }
            self.send_cooperative_refusals(id, &due, now);
            let mut ranges = RangeSet::new();
            for number in due.iter().flat_map(|range| range.first..range.end()) {
                self.work.numbers += 1;
                if !self.receivers[id.0 as usize].may_be_repaired(number) {
                    continue;
                }
                let sequence = SequenceNumber::new(number);
                if !ranges.insert(sequence) {
                    self.send_nack(id, &ranges.ranges(), NackOptions::default(), now);
                    ranges = RangeSet::new();
                    assert!(ranges.insert(sequence), "an empty set accepts any number");
                }
            }
            if !ranges.is_empty() {
                self.send_nack(id, &ranges.ranges(), NackOptions::default(), now);
            }
        }
    }

    /// Sends or repeats an open-ended NACK for everything after the highest packet received, if the
    /// silence lasts too long or a tail-loss hint is due. A silence also starts notices to the
    /// sender.
    fn send_open_ended_nack(&mut self, id: ReceiveFlowId, now: Time) {
        let retry_interval = self.nack_retry_interval(id);
        let round_trip = self.sessions.round_trip(self.receivers[id.0 as usize].peer);
        let flow = &mut self.receivers[id.0 as usize];
        let (service, needs_relay) = (flow.settings.service, flow.settings.needs_relay());
        let latency_budget = flow.settings.latency_budget;
        let Some(active) = flow.active_mut() else {
            return;
        };
        // While packets arrive by the relay path, none is missing. The first timeout of the loss
        // timer decides, because later ones are too long to show that.
        let arrives_by_relay = uses_both_paths(service)
            && active.two_paths.is_relay_active(active.loss_timer.first_timeout(), now);
        let may_request = repairs(service) && !arrives_by_relay;
        let is_repeat = active.nack_repeat_at().is_some_and(|at| at <= now);
        let highest = active.tracker.highest().map(SequenceNumber::new);
        let is_tail = active.burst_end.poll_nack(highest, now)
            && active.open_ended.is_none()
            && !active.path_queue.is_standing();
        let timeout = active.timeout();
        let is_silent = now.saturating_since(active.silent_since(service)) >= timeout;
        if !is_silent && !is_repeat && !is_tail {
            return;
        }
        active.open_ended_nacks = active.open_ended_nacks.saturating_add(1);
        if is_silent {
            active.loss_timer.on_timeout(now);
            if !arrives_by_relay && active.silence_notice.is_none() {
                active.silence_notice = Some(if retransmits(service) {
                    let intervals = NoticeIntervals::within(latency_budget, round_trip);
                    let waited = timeout.saturating_sub(active.loss_timer.small_timeout());
                    SilenceNotice::noticed_for_resending(intervals, waited, now)
                } else {
                    SilenceNotice::noticed(needs_relay, round_trip, now)
                });
            }
            // If this agent's address changed unnoticed, the report shows the sender the new one.
            self.plan_report(id, true, now);
        }
        let flow = &mut self.receivers[id.0 as usize];
        let Some(active) = flow.active_mut().filter(|_| may_request) else {
            return;
        };
        let next = active
            .tracker
            .highest()
            .map_or(SequenceNumber::FIRST, |highest| SequenceNumber::new(highest + 1));
        let from = *active.open_ended.get_or_insert(next);
        active.repairs_due = now + retry_interval;
        let wait = if is_repaired_from_afar(service) { Duration::ZERO } else { retry_interval };
        active.tracker.begin_open_ended(from.number(), wait);
        flow.statistics.open_ended_nacks += 1;
        // Relays that carry the packets of a sender that retransmits learn of the outage late. They
        // would repair everything since its beginning.
        let from = if retransmits(service) { next } else { from };
        let options = NackOptions { open_from: Some(from), noticed_by_timer: true, answers_confirm: false };
        self.send_nack(id, &Ranges::EMPTY, options, now);
    }

    /// Sends a NACK to the sender of a flow with retransmission, or to all egress relays of another
    /// flow whose service has repairs. In an outage, relays also have packets of the former.
    fn send_nack(&mut self, id: ReceiveFlowId, ranges: &Ranges<'_>, options: NackOptions, now: Time) {
        let round_trip = self.sessions.round_trip(self.receivers[id.0 as usize].peer);
        let flow = &mut self.receivers[id.0 as usize];
        if !repairs(flow.settings.service) {
            return;
        }
        flow.statistics.nacks += u64::from(!ranges.is_empty());
        let former = self.service_changes.former_service(id.0, now);
        let services = [Some(flow.settings.service), former];
        let is_resent = services.into_iter().flatten().any(retransmits);
        let is_repaired_by_relays = services.into_iter().flatten().any(|service| !retransmits(service))
            || flow.active().is_some_and(|active| active.two_paths.is_relay_active(CARRIED_FOR, now));
        // No later packet can be delivered before those of an open-ended NACK. So they are useful
        // for the whole latency budget.
        let is_open = options.open_from.is_some();
        let repair_lifetime =
            if is_open { flow.lateness_budget(round_trip) } else { flow.repair_lifetime(round_trip) };
        let repair_lifetime = Microseconds::from_duration(repair_lifetime);
        let queue_grows = flow.active().is_some_and(|active| active.path_queue.grows());
        if is_resent && !ranges.is_empty() {
            self.send_source_nack(id, ranges, now);
        }
        if !is_repaired_by_relays {
            return;
        }
        for (session, alias) in self.egress_relays_of(id) {
            let nack = Nack {
                alias,
                open_from_low: options.open_from.map(SequenceNumber::low),
                noticed_by_timer: options.noticed_by_timer,
                answers_confirm: options.answers_confirm,
                queue_grows,
                repair_lifetime,
                ranges: *ranges,
            };
            self.sessions.use_session(session, now);
            self.sessions.queue_message(session, &Message::Nack(nack), now);
        }
    }

    /// Handles a relay's request to confirm that packets are still missing, which it can repair
    /// now. Sends a NACK for those that are.
    ///
    /// If all have arrived soon after an open-ended NACK, its ACK may be lost, and the relay would
    /// take the direct path for out. So the receiver repeats the ACK.
    pub(super) fn on_confirm(&mut self, session: SessionId, confirm: &Confirm<'_>, now: Time) {
        let Some(id) = self.flow_by_alias(session, confirm.alias) else {
            return;
        };
        self.on_tail_loss_hint(id, confirm, now);
        let flow = &self.receivers[id.0 as usize];
        let Some(active) = flow.active() else {
            return;
        };
        let open_from = active.open_ended;
        let mut missing = RangeSet::new();
        let (mut last, mut have_arrived) = (None, true);
        for low in confirm.ranges.numbers_low().take(crate::limits::REQUESTS_MAX) {
            self.work.numbers += 1;
            let sequence = flow.full_sequence(low);
            have_arrived &=
                flow.highest().is_some_and(|highest| sequence <= highest) && !flow.is_new(sequence);
            let is_covered = open_from.is_some_and(|from| sequence >= from) && flow.is_new(sequence);
            let is_missing = is_covered || active.tracker.is_wanted(sequence.number());
            let number = sequence.number();
            let is_missing = is_missing && !flow.has_passed(number) && !active.owd_baseline.is_late(number);
            if is_missing && last.is_none_or(|last| last < sequence) && missing.insert(sequence) {
                last = Some(sequence);
            }
        }
        if have_arrived {
            self.repeat_ack(id, now);
        }
        if missing.is_empty() {
            return;
        }
        let options = NackOptions { open_from, noticed_by_timer: false, answers_confirm: true };
        self.send_nack(id, &missing.ranges(), options, now);
    }

    /// Records a tail-loss hint: packets that a relay names, and that are above the highest number
    /// received. Ignores numbers too far ahead.
    fn on_tail_loss_hint(&mut self, id: ReceiveFlowId, confirm: &Confirm<'_>, now: Time) {
        let flow = &self.receivers[id.0 as usize];
        let round_trip = self.sessions.round_trip(flow.peer);
        let Some(last) = confirm.ranges.last_low().map(|low| flow.full_sequence(low)) else {
            return;
        };
        // If the flow began before this agent received it, the first missing packet is unknown.
        if !repairs(flow.settings.service) || (!flow.has_begun() && last.number() >= FIRST_NUMBERS) {
            return;
        }
        let exceeds_reach = flow.highest().is_some_and(|highest| last > highest.plus(NACK_REACH));
        let has_arrived = flow.highest().is_some_and(|highest| last <= highest);
        if exceeds_reach {
            return;
        }
        let flow = &mut self.receivers[id.0 as usize];
        if has_arrived {
            if let Some(active) = flow.active_mut() {
                active.burst_end.on_confirmed();
            }
            return;
        }
        flow.activate(round_trip, now).burst_end.on_hint(last, now);
        self.arm_loss_timer(id);
    }

    /// Notifies the flow's egress relays that requested packets are lost here too, so they try
    /// another repair.
    fn send_cooperative_refusals(&mut self, id: ReceiveFlowId, due: &[NumberRange], now: Time) {
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
            if active.requests.mark_notified(sequence) && !lost.insert(sequence) {
                break;
            }
        }
        for (session, alias) in self.egress_relays_of(id).into_iter().filter(|_| !lost.is_empty()) {
            self.sessions.queue_message(
                session,
                &Message::CooperativeRefusal(CooperativeRefusal { alias, ranges: lost.ranges() }),
                now,
            );
        }
    }

    /// Arms the loss timer of a flow for the earliest of: a silence, a NACK or notice, delivery in
    /// order, and idleness. Disarms it for an idle flow.
    pub(super) fn arm_loss_timer(&mut self, id: ReceiveFlowId) {
        let key = timer_key(Timer::Loss, id.0);
        let Some(active) = self.receivers[id.0 as usize].active() else {
            self.timers.disarm(key);
            return;
        };
        let timeout = active.timeout();
        let silent_since = active.silent_since(self.receivers[id.0 as usize].settings.service);
        let silence = (timeout < Duration::MAX).then(|| silent_since.saturating_add(timeout));
        let idle_at = active.last_used + FLOW_IDLE_TIMEOUT;
        let order = active.reorder_buffer.as_ref().and_then(|order| order.deadline());
        let notice = active.silence_notice.and_then(SilenceNotice::deadline);
        let at = [
            silence,
            notice,
            active.nack_repeat_at(),
            active.tracker.deadline(),
            active.burst_end.nack_at(),
            order,
        ]
        .into_iter()
        .flatten()
        .fold(idle_at, Time::min);
        self.timers.arm(key, at);
    }

    /// Returns the time after which a NACK of a flow is repeated, by the round trip to its nearest
    /// egress relay. If the sender or the ingress relay answers, the round trip to the sender
    /// counts.
    pub(super) fn nack_retry_interval(&self, id: ReceiveFlowId) -> Duration {
        let flow = &self.receivers[id.0 as usize];
        let round_trips =
            self.egress_relays_of(id).into_iter().map(|(session, _)| self.sessions.round_trip(session));
        let to_relay = round_trips.min().unwrap_or(INITIAL_ROUND_TRIP);
        let is_far = is_repaired_from_afar(flow.settings.service);
        let to_sender = if is_far { self.sessions.round_trip(flow.peer) } else { Duration::ZERO };
        retry_interval(to_relay.max(to_sender))
    }
}
