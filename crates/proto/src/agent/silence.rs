//! Outages that wake a sender which does not copy: the receiver's word that nothing comes, and the copies that follow it.
//!
//! A flow that waits for losses, or whose uplink is too narrow for copies, copies nothing while its path is clean. In an
//! outage, no later packet shows the receiver what is lost. So its silence has to count, and what was sent since the
//! silence began goes to the relay as well.

use byway_units::{Duration, Time};
use byway_wire::messages::{Outage, Silence};
use byway_wire::packets::EnvelopeRole;
use byway_wire::{Alias, Message, Microseconds, SequenceNumber};

use super::Agent;
use super::receive_flow::ReceiveFlowId;
use super::send_flow::{SendFlow, SendFlowId};
use crate::limits::{
    DARK_AFTER, ORIGINALS_IN_DARK, REPORT_AFTER_LOSS, RESEND_REACH, SILENCE_MARGIN, SILENCE_NOTICES,
    SILENCE_REPEAT, SILENT_PACKETS_MIN, STANDBY_FOR,
};
use crate::session::SessionId;

/// When a receiver tells the sender that nothing comes, and how often it still does.
#[derive(Clone, Copy, Debug)]
pub(super) struct SilenceNotice {
    at: Time,
    left: u8,
}

impl SilenceNotice {
    /// For a silence that the timer notices now: the sender does not believe in one that is shorter.
    pub(super) fn noticed(round_trip: Duration, now: Time) -> Self {
        Self { at: now + SILENCE_MARGIN + round_trip / 8, left: SILENCE_NOTICES }
    }

    pub(super) fn deadline(self) -> Option<Time> {
        (self.left > 0).then_some(self.at)
    }

    /// Whether it is told now; the next time follows.
    fn take(&mut self, now: Time) -> bool {
        let is_due = self.deadline().is_some_and(|at| at <= now);
        if is_due {
            *self = Self { at: now + SILENCE_REPEAT, left: self.left - 1 };
        }
        is_due
    }
}

impl Agent {
    /// Tells the sender of a flow that nothing comes, where that is due.
    pub(super) fn tell_silence_if_due(&mut self, id: ReceiveFlowId, now: Time) {
        let active = self.receivers[id.0 as usize].active_mut();
        if active.and_then(|active| active.silence.as_mut()).is_some_and(|notice| notice.take(now)) {
            self.tell_silence(id, now);
        }
    }

    /// Tells the sender of a flow that nothing comes any more, by the direct path and by relays: the direct path may be
    /// dark both ways.
    fn tell_silence(&mut self, id: ReceiveFlowId, now: Time) {
        let flow = &self.receivers[id.0 as usize];
        let Some(active) = flow.active() else {
            return;
        };
        let from = active
            .tracker
            .highest()
            .map_or(SequenceNumber::FIRST, |highest| SequenceNumber::new(highest + 1));
        let elapsed = Microseconds::from_duration(now.saturating_since(active.last_original));
        #[allow(clippy::cast_possible_truncation, reason = "the wire's counters wrap")]
        let direct = flow.statistics.direct as u32;
        let silence = Silence { flow_key: flow.key, from_low: from.low(), elapsed, direct };
        self.sessions.say_urgently(flow.peer, &Message::Silence(silence), now);
    }

    /// Takes a receiver's word that nothing comes.
    pub(super) fn silence_came(&mut self, session: SessionId, silence: &Silence, now: Time) {
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
            // One lost packet of a flow that sends few is a silence, too, and is repaired.
            // What waits for the uplink has not left.
            let telling = flow.telling_silence(now);
            let shows_within = self.sessions.round_trip(session) + telling;
            let is_long = self.has_room()
                && elapsed >= telling
                && !flow.is_settling(shows_within, now)
                && flow.sent_since(from).nth(SILENT_PACKETS_MIN - 1).is_some();
            if is_long && self.is_lost_since(id, from, elapsed, now) {
                self.take_both_ways(id, now);
            }
            return;
        }
        if flow.is_undelivered() {
            // Relays are known not to deliver: copies would not, either.
            return;
        }
        let Some((place, alias)) = self.ingress_of(id) else {
            return;
        };
        let elapsed = silence.elapsed.duration();
        // Where packets wait for the uplink, its queue keeps them from the receiver, and copies would lengthen it. A
        // narrow uplink is looked at before a second notice counts.
        if !self.has_room() {
            self.sessions.probe_soon(self.relays[place].session, now);
        }
        let relay = &self.relays[place];
        let is_room = self.has_room() || (elapsed >= DARK_AFTER && relay.has_no_queue());
        let is_outage = relay.takes_copies(now) && is_room && self.is_lost_since(id, from, elapsed, now);
        if is_outage {
            self.senders[id.0 as usize].is_unproven = false;
            self.wake(id, from, silence.direct, (place, alias), now);
        }
    }

    /// Wakes a flow of which no report has come yet, because the direct path may deliver nothing.
    ///
    /// A flow that waits for losses wakes before its first packet. If the uplink is too narrow for
    /// copies, a flow wakes once its first report is overdue.
    #[cold]
    pub(super) fn wake_if_unreported(&mut self, id: SendFlowId, now: Time) {
        let flow = &self.senders[id.0 as usize];
        if flow.needs_relay() {
            self.take_both_ways_if_unreported(id, now);
            return;
        }
        if flow.is_dark(now) {
            return;
        }
        let has_room = self.has_room();
        if has_room && !flow.settings.waits_for_losses() {
            return;
        }
        let overdue = self.sessions.round_trip(flow.peer) * 2 + REPORT_AFTER_LOSS * 2;
        if !has_room && flow.began.is_none_or(|began| began + overdue > now) {
            return;
        }
        let Some((place, alias)) =
            self.ingress_of(id).filter(|(place, _)| self.relays[*place].takes_copies(now))
        else {
            return;
        };
        self.wake(id, SequenceNumber::FIRST, 0, (place, alias), now);
    }

    /// Has a flow copy the packets that it sends from now on.
    ///
    /// If the uplink has room, packets from number `from` on are copied as well. `direct` counts
    /// the packets that the receiver had got by the direct path.
    fn wake(
        &mut self,
        id: SendFlowId,
        from: SequenceNumber,
        direct: u32,
        (place, alias): (usize, Alias),
        now: Time,
    ) {
        let has_room = self.has_room();
        let flow = &mut self.senders[id.0 as usize];
        flow.copies_until = now + STANDBY_FOR;
        flow.dark_since = Some(direct);
        let relay = self.relays[place].session;
        if !has_room || flow.settings.waits_for_losses() {
            // Flows that sleep on are in no batch with this one: what the dark path loses is carried whole.
            self.sessions.say(relay, &Message::Outage(Outage { alias, is_dark: true }), now);
        }
        // On a narrow uplink, copies of earlier packets would delay later ones beyond their budget.
        if has_room {
            self.copy_since(id, from, (relay, alias), now);
        }
    }

    /// Tells the ingress relay that the direct path delivers again.
    pub(super) fn tell_outage_is_over(&mut self, id: SendFlowId, now: Time) {
        if let Some((place, alias)) = self.ingress_of(id) {
            let relay = self.relays[place].session;
            self.sessions.say(relay, &Message::Outage(Outage { alias, is_dark: false }), now);
        }
    }

    /// Whether a packet should have come before the receiver spoke: an application that pauses is silent, too. The receiver
    /// tells how long ago the packet before came. The next one left so much later than that; where this is forgotten, two
    /// round trips have to have passed since the next one left.
    fn is_lost_since(&self, id: SendFlowId, from: SequenceNumber, elapsed: Duration, now: Time) -> bool {
        let flow = &self.senders[id.0 as usize];
        let round_trip = self.sessions.round_trip(flow.peer);
        let Some(next) = flow.sent_since(from).find_map(|(_, sent)| self.sent.came(sent.packet)) else {
            return false;
        };
        let before = from.number().checked_sub(1).and_then(|number| flow.sent.get(number));
        match before.and_then(|sent| self.sent.came(sent.packet)) {
            Some(before) => next.saturating_since(before) + SILENCE_MARGIN + round_trip / 8 <= elapsed,
            None => next + round_trip * 2 <= now,
        }
    }

    /// Copies what was sent since, and not copied, to the ingress relay, as long as it may come in time.
    fn copy_since(
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
            let is_of_use = self.sent.came(sent.packet).is_some_and(|came| came.saturating_add(budget) > now);
            if is_of_use && !core::mem::replace(&mut sent.is_copied, true) {
                let packet = sent.packet;
                let sequence = SequenceNumber::new(number);
                let flow = &mut self.senders[id.0 as usize];
                flow.uncopied = flow.uncopied.except(next - number);
                self.send_behind(session, EnvelopeRole::Copy, alias, sequence, packet, now);
            }
        }
    }

    /// The relay of the path in use, by its place, and what it calls the flow, if it passes copies on.
    fn ingress_of(&self, id: SendFlowId) -> Option<(usize, Alias)> {
        let flow = &self.senders[id.0 as usize];
        let in_use = flow.registrations.in_use();
        let path = flow.settings.paths.get(in_use).filter(|_| flow.registrations.is_accepted(in_use))?;
        Some((*self.relay_places.get(&path.ingress)?, flow.registrations.alias()?))
    }
}

impl SendFlow {
    /// The latest packets from a number on, as far as they may be copied.
    pub(super) fn sent_since(
        &self,
        from: SequenceNumber,
    ) -> impl Iterator<Item = (u64, super::send_flow::SentPacket)> + '_ {
        let next = self.next.number();
        let oldest = next.saturating_sub(RESEND_REACH as u64);
        let from = from.number().max(oldest);
        (from..next).filter_map(|number| Some((number, self.sent.get(number)?)))
    }

    /// Whether the receiver said lately that nothing comes.
    pub(super) fn is_dark(&self, now: Time) -> bool {
        self.dark_since.is_some() && self.has_lost(now)
    }

    /// Whether a packet leaves for the direct path while that is dark, and the uplink does not bear it beside its copy: a
    /// few do, which show when the path delivers again.
    pub(super) const fn probes_dark_path(sequence: SequenceNumber) -> bool {
        sequence.number().is_multiple_of(ORIGINALS_IN_DARK)
    }
}
