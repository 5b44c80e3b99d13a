//! Notices of silence: the receiver reports an outage to a sender that does not copy, which then
//! copies.
//!
//! A flow with retransmission, or with an uplink too narrow for copies, copies nothing while its
//! path loses nothing. In an outage, no later packet reveals the losses to the receiver. So the
//! silence itself counts as a loss, and the sender also copies the packets sent since its
//! beginning.

use byway_units::{Duration, Time};
use byway_wire::messages::{Outage, Silence};
use byway_wire::packets::EnvelopeRole;
use byway_wire::{Alias, Message, Microseconds, SequenceNumber};

use super::notice_intervals::NoticeIntervals;
use super::receive_flow::ReceiveFlowId;
use super::send_flow::{SendFlow, SendFlowId};
use super::{Agent, Flow};
use crate::limits::{
    COPIES_AFTER_LOSS, COPIES_ONLY_AFTER, REPORT_AFTER_LOSS, RESEND_REACH, RESENDING_NOTICES,
    RESENDING_NOTICES_OF_OUTAGE, RESENDING_NOTICES_SOON, SILENCE_MARGIN, SILENCE_NOTICES,
    SILENCE_NOTICES_SOON, SILENCE_REPEAT, SILENT_PACKETS_MIN, SOURCE_PACKETS_IN_OUTAGE,
};
use crate::session::SessionId;

/// Schedule of a receiver's notices of silence: the time of the next one, the number left, and the
/// interval between them. The interval is constant for the notices that are due `soon`, and doubles
/// then.
#[derive(Clone, Copy, Debug)]
pub(super) struct SilenceNotice {
    at: Time,
    left: u8,
    soon: u8,
    /// Number of notices sent in this silence.
    sent: u8,
    /// Time from the next notice to the one after it. A `Duration` takes twice the memory.
    interval: Microseconds,
}

impl SilenceNotice {
    /// Returns the schedule of notices for a silence that the loss timer detects now. The first
    /// notice is delayed, because the sender ignores a shorter silence.
    ///
    /// Of a flow that needs a relay, only the first few are sent. In simulated outages of its
    /// relays, the later ones made it lose packets after the relays were back.
    pub(super) fn noticed(needs_relay: bool, round_trip: Duration, now: Time) -> Self {
        let at = now + SILENCE_MARGIN + round_trip / 8;
        let left = if needs_relay { SILENCE_NOTICES_SOON } else { SILENCE_NOTICES };
        let interval = Microseconds::from_duration(SILENCE_REPEAT);
        Self { at, left, soon: SILENCE_NOTICES_SOON, sent: 0, interval }
    }

    /// Returns the schedule of notices for a silence of a flow with retransmission, whose sender
    /// ignores none. After the first ones, their interval doubles. The first one waits too, because
    /// a burst of losses may end before: `waited` is the time for which the first lost packet may
    /// have waited already.
    pub(super) fn noticed_for_resending(intervals: NoticeIntervals, waited: Duration, now: Time) -> Self {
        let (left, soon) = (RESENDING_NOTICES, RESENDING_NOTICES_SOON);
        let at = now + intervals.first.saturating_sub(waited);
        Self { at, left, soon, sent: 0, interval: Microseconds::from_duration(intervals.repeat) }
    }

    /// Records that the sender has sent a packet again, so the silence is an outage. Each further
    /// notice requests more packets, until the sender sends all of them through relays.
    pub(super) fn on_resent(&mut self, intervals: NoticeIntervals, now: Time) {
        let again = Self::noticed_for_resending(intervals, Duration::ZERO, now);
        *self = Self { at: self.at.min(now + intervals.repeat), sent: self.sent, ..again };
    }

    /// Returns true if a sender that retransmits may have taken the silence for an outage without
    /// any sign of it at the receiver: notices reported more than [`COPIES_ONLY_AFTER`].
    pub(super) const fn is_of_long_silence(self) -> bool {
        self.sent >= RESENDING_NOTICES_OF_OUTAGE
    }

    /// Returns the time of the next notice; `None` after the last one.
    pub(super) fn deadline(self) -> Option<Time> {
        (self.left > 0).then_some(self.at)
    }

    /// Returns true if a notice is due, and schedules the next one.
    fn pop_due(&mut self, now: Time) -> bool {
        let is_due = self.deadline().is_some_and(|at| at <= now);
        if is_due {
            let soon = self.soon.saturating_sub(1);
            let interval = self.interval.duration() * if soon == 0 { 2 } else { 1 };
            let (left, sent) = (self.left - 1, self.sent.saturating_add(1));
            (self.at, self.interval) = (now + interval, Microseconds::from_duration(interval));
            (self.left, self.soon, self.sent) = (left, soon, sent);
        }
        is_due
    }
}

impl Agent {
    /// Sends the sender of a received flow a notice of silence if one is due.
    pub(super) fn send_silence_if_due(&mut self, id: ReceiveFlowId, now: Time) {
        let active = self.receivers[id.0 as usize].active_mut();
        if active.and_then(|active| active.silence_notice.as_mut()).is_some_and(|notice| notice.pop_due(now))
        {
            self.send_silence(id, now);
        }
    }

    /// Sends a notice of silence to the sender of a flow, by the direct path and by relays. The
    /// direct path may be in an outage in both directions.
    fn send_silence(&mut self, id: ReceiveFlowId, now: Time) {
        let notice = self.receivers[id.0 as usize].active().and_then(|active| active.silence_notice);
        if notice.is_none_or(SilenceNotice::is_of_long_silence) {
            self.use_relays(Flow::Received(id), now);
        } else {
            self.watch_relays(Flow::Received(id), now);
        }
        let flow = &self.receivers[id.0 as usize];
        let Some(active) = flow.active() else {
            return;
        };
        let from = active
            .tracker
            .highest()
            .map_or(SequenceNumber::FIRST, |highest| SequenceNumber::new(highest + 1));
        let elapsed = Microseconds::from_duration(now.saturating_since(active.last_source_packet));
        #[allow(clippy::cast_possible_truncation, reason = "the wire's counters wrap")]
        let direct = flow.statistics.direct as u32;
        let silence = Silence { flow_key: flow.key, from_low: from.low(), elapsed, direct };
        self.sessions.queue_urgent_message(flow.peer, &Message::Silence(silence), now);
    }

    /// Handles a receiver's notice of silence, unless the application only paused. A flow that
    /// needs a relay then uses both paths; another one sends copies.
    pub(super) fn on_silence(&mut self, session: SessionId, silence: &Silence, now: Time) {
        let Some(id) = self.sent_by_key.get(&silence.flow_key).copied() else {
            self.counters.flows_unknown += 1;
            return;
        };
        let flow = &self.senders[id.0 as usize];
        if flow.peer != session {
            return;
        }
        let from = SequenceNumber::nearest(silence.from_low, flow.next);
        self.work.numbers += flow.next.since(from).unwrap_or(0).min(RESEND_REACH as u64);
        if flow.needs_relay() {
            let elapsed = silence.elapsed.duration();
            // One lost packet of a slow flow causes a silence too, and is repaired. Packets that
            // wait for the uplink have not left yet.
            let threshold = flow.silence_threshold(now);
            let shows_within = self.sessions.round_trip(session) + threshold;
            let is_long = self.fits_uplink()
                && elapsed >= threshold
                && !flow.is_settling(shows_within, now)
                && flow.sent_since(from).nth(SILENT_PACKETS_MIN - 1).is_some();
            if is_long && self.is_lost_since(id, from, elapsed, now) {
                self.use_both_paths(id, now);
            }
            return;
        }
        if flow.copies_on_loss_only() {
            self.resend_since(id, from, silence, now);
            return;
        }
        if flow.is_undelivered() {
            // Relays do not deliver, so they would not deliver copies either.
            return;
        }
        let Some((index, alias)) = self.ingress_of(id) else {
            return;
        };
        let elapsed = silence.elapsed.duration();
        // If packets wait for the uplink, its queue delays them, and copies would lengthen it. A
        // narrow uplink is probed before a second notice counts.
        if !self.fits_uplink() {
            self.sessions.probe_soon(self.relays[index].session, now);
        }
        let relay = &self.relays[index];
        let has_capacity = if self.fits_uplink() {
            relay.accepts_copies(now)
        } else {
            // Copies will replace the source packets, so their losses before do not count.
            elapsed >= COPIES_ONLY_AFTER && relay.is_free() && !relay.explains_silence(elapsed)
        };
        let is_outage = has_capacity && self.is_lost_since(id, from, elapsed, now);
        if is_outage {
            self.senders[id.0 as usize].is_unproven = false;
            self.wake_flow(id, from, silence.direct, (index, alias), now);
        }
    }

    /// Makes a flow send copies before its receiver's first report, because the direct path may
    /// deliver nothing.
    ///
    /// If the uplink is too narrow for copies, a flow wakes once its first report is overdue.
    #[cold]
    pub(super) fn wake_if_unreported(&mut self, id: SendFlowId, now: Time) {
        let flow = &self.senders[id.0 as usize];
        if flow.needs_relay() {
            self.use_both_paths_if_unreported(id, now);
            return;
        }
        let is_acknowledged = flow.copies_on_loss_only() && !flow.is_unproven;
        if flow.is_in_outage(now) || is_acknowledged {
            return;
        }
        let has_capacity = self.fits_uplink();
        if has_capacity && !flow.settings.waits_for_losses() {
            return;
        }
        let overdue = self.sessions.round_trip(flow.peer) * 2 + REPORT_AFTER_LOSS * 2;
        if !has_capacity && flow.began().is_none_or(|began| began + overdue > now) {
            return;
        }
        let Some((index, alias)) =
            self.ingress_of(id).filter(|(index, _)| self.relays[*index].accepts_copies(now))
        else {
            return;
        };
        self.wake_flow(id, SequenceNumber::FIRST, 0, (index, alias), now);
    }

    /// Makes a flow send copies from now on, and notifies the ingress relay of an outage if needed.
    ///
    /// If the uplink has capacity, the sent packets from number `from` on are copied as well.
    /// `direct` is the number of packets that the receiver had received by the direct path.
    fn wake_flow(
        &mut self,
        id: SendFlowId,
        from: SequenceNumber,
        direct: u32,
        (index, alias): (usize, Alias),
        now: Time,
    ) {
        let has_capacity = self.fits_uplink();
        let flow = &mut self.senders[id.0 as usize];
        flow.copies_until = now + COPIES_AFTER_LOSS;
        flow.outage_since = Some(direct);
        let relay = self.relays[index].session;
        if !has_capacity && !flow.copies_on_loss_only() {
            // Too few flows may have copies behind this uplink for a batch. So the relay forwards
            // all copies of this flow during the outage.
            self.sessions.queue_message(relay, &Message::Outage(Outage { alias, is_active: true }), now);
        }
        // On a narrow uplink, copies of earlier packets would delay later ones beyond their budget.
        if has_capacity {
            self.send_copies_since(id, from, (relay, alias), now);
        }
    }

    /// Notifies a flow's ingress relay that the direct path delivers again.
    pub(super) fn notify_outage_end(&mut self, id: SendFlowId, now: Time) {
        if let Some((index, alias)) = self.ingress_of(id) {
            let relay = self.relays[index].session;
            self.sessions.queue_message(relay, &Message::Outage(Outage { alias, is_active: false }), now);
        }
    }

    /// Returns true if a packet from number `from` on should have arrived before the receiver's
    /// notice. A pause of the application is a silence too.
    ///
    /// The notice has the time since the arrival of the latest packet. The time between that packet
    /// and the next one at the sender has to be shorter by a margin. If the buffer no longer has
    /// that packet, the next one must have left two round trips ago.
    pub(super) fn is_lost_since(
        &self,
        id: SendFlowId,
        from: SequenceNumber,
        elapsed: Duration,
        now: Time,
    ) -> bool {
        let flow = &self.senders[id.0 as usize];
        let round_trip = self.sessions.round_trip(flow.peer);
        let Some(next) =
            flow.sent_since(from).find_map(|(_, sent)| self.retransmit_buffer.stored_at(sent.packet))
        else {
            return false;
        };
        let before = from.number().checked_sub(1).and_then(|number| flow.sent.get(number));
        match before.and_then(|sent| self.retransmit_buffer.stored_at(sent.packet)) {
            Some(before) => next.saturating_since(before) + SILENCE_MARGIN + round_trip / 8 <= elapsed,
            None => next + round_trip * 2 <= now,
        }
    }

    /// Copies those sent packets from a number on to the ingress relay that were not copied, if
    /// they can still be in time.
    fn send_copies_since(
        &mut self,
        id: SendFlowId,
        from: SequenceNumber,
        (session, alias): (SessionId, Alias),
        now: Time,
    ) {
        let flow = &self.senders[id.0 as usize];
        let (budget, next) = (flow.settings.latency_budget, flow.next.number());
        for number in from.number().max(next.saturating_sub(RESEND_REACH as u64))..next {
            self.work.numbers += 1;
            let Some(sent) = self.senders[id.0 as usize].sent.get_mut(number) else {
                continue;
            };
            let is_of_use = self
                .retransmit_buffer
                .stored_at(sent.packet)
                .is_some_and(|sent_at| sent_at.saturating_add(budget) > now);
            if is_of_use && !core::mem::replace(&mut sent.is_copied, true) {
                let packet = sent.packet;
                let sequence = SequenceNumber::new(number);
                let flow = &mut self.senders[id.0 as usize];
                flow.unprotected = flow.unprotected.except(next - number);
                self.queue_envelope(session, EnvelopeRole::Copy, alias, sequence, packet, now);
            }
        }
    }

    /// Returns the ingress relay of a flow's path in use, by its index, and its alias for the flow,
    /// if the relay has accepted the flow.
    pub(super) fn ingress_of(&self, id: SendFlowId) -> Option<(usize, Alias)> {
        let flow = &self.senders[id.0 as usize];
        let in_use = flow.registrations.in_use();
        let path = flow.settings.paths.get(in_use).filter(|_| flow.registrations.is_accepted(in_use))?;
        Some((*self.relay_indices.get(&path.ingress)?, flow.registrations.alias()?))
    }
}

impl SendFlow {
    /// Returns the sent packets from a number on that are in the retransmission ring, with their
    /// numbers.
    pub(super) fn sent_since(
        &self,
        from: SequenceNumber,
    ) -> impl Iterator<Item = (u64, super::send_flow::SentPacket)> + '_ {
        let next = self.next.number();
        let oldest = next.saturating_sub(RESEND_REACH as u64);
        let from = from.number().max(oldest);
        (from..next).filter_map(|number| Some((number, self.sent.get(number)?)))
    }

    /// Returns true if the receiver reported a silence recently, and no report since shows that the
    /// direct path delivers.
    pub(super) fn is_in_outage(&self, now: Time) -> bool {
        self.outage_since.is_some() && self.has_lost(now)
    }

    /// Returns true if a packet is sent on a direct path in an outage although most are left to
    /// relays. A few packets are, because they show when the path delivers again.
    pub(super) const fn probes_path_in_outage(sequence: SequenceNumber) -> bool {
        sequence.number().is_multiple_of(SOURCE_PACKETS_IN_OUTAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_time_for_which_a_packet_has_waited_already_counts() {
        let intervals = NoticeIntervals::within(ms(500), ms(100));
        let notice = |waited| SilenceNotice::noticed_for_resending(intervals, ms(waited), Time::START);
        assert_eq!(notice(0).deadline(), Some(Time::START + ms(120)));
        assert_eq!(notice(50).deadline(), Some(Time::START + ms(70)));
        assert_eq!(notice(500).deadline(), Some(Time::START));
    }
}
