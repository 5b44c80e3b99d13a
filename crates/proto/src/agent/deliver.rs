//! Handling of an opened packet: updates loss state, answers pending cooperative requests, delivers
//! to the application.

use byway_units::{Duration, Time};
use byway_wire::messages::{Ack, CooperativeRefusal};
use byway_wire::packets::EnvelopeRole;
use byway_wire::{
    Ecn, Flags, Fragment, Message, Plaintext, RangeSet, ResentFragment, SequenceNumber, Service, Timestamp,
    TrafficClass,
};

use super::Agent;
use super::events::Delivery;
use super::notice_intervals::NoticeIntervals;
use super::ordering::FragmentMeta;
use super::owd::relative_delay;
use super::path_delays::ArrivalPath;
use super::receive_flow::{ReceiveFlow, ReceiveFlowId, ReceiveState};
use super::requests::Requester;
use super::settings::{FlowSettings, Traffic};
use super::silence::SilenceNotice;
use crate::limits::{ACK_REPEATED_FOR, CARRIED_FOR, DATAGRAM_BYTES_MAX};
use crate::parts::gap_tracker::ArrivalOrder;
use crate::parts::loss_timer::LossTimer;
use crate::policy::{
    buffers_packets, is_repaired_from_afar, retransmits, samples_direct_path, uses_both_paths,
};

/// Path by which a packet arrived, the ECN field of its outer packet, and whether it was buffered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) delivery: Delivery,
    /// ECN field of the IP packet in which it arrived.
    pub(super) outer_ecn: Ecn,
    /// True if the packet was buffered until the driver's consent, and is not the last of its flow.
    /// Its arrival shows no sending interval.
    pub(super) is_held: bool,
    /// True if the packet was sent with its flow's offer. It may have waited at both ends, so it
    /// shows no delay of a path.
    pub(super) is_early: bool,
}

impl Arrival {
    /// Returns the arrival of a packet that was not buffered.
    pub(super) const fn new(delivery: Delivery, outer: Ecn) -> Self {
        Self { delivery, outer_ecn: outer, is_held: false, is_early: false }
    }

    /// Returns the traffic class for the application's packet, with the path's ECN mark. `None` if
    /// the application's transport would not understand the mark, and must not get the packet.
    fn traffic_class(self, inner: TrafficClass) -> Option<TrafficClass> {
        let ecn = inner.ecn().out_of(self.outer_ecn)?;
        Some(inner.with_ecn(if self.delivery.is_repair() { ecn.repaired() } else { ecn }))
    }
}

/// Returns the fragment in a packet, and its bytes. For a retransmission in two fragments, also
/// returns the sequence number of the first transmission. `None` if it is malformed.
fn fragment_of(
    sequence: SequenceNumber,
    fragment: Fragment,
    bytes: &[u8],
) -> Option<(Fragment, Option<SequenceNumber>, &[u8])> {
    if fragment != Fragment::Resent {
        return Some((fragment, None, bytes));
    }
    let ResentFragment { sequence_low, fragment, bytes } = ResentFragment::parse(bytes).ok()?;
    let first_sequence = SequenceNumber::nearest(sequence_low, sequence);
    (first_sequence < sequence).then_some((fragment, Some(first_sequence), bytes))
}

/// Plaintext of a packet, and the fragment in it as [`fragment_of`] returns it.
type ParsedFragment<'a> = (Plaintext<'a>, (Fragment, Option<SequenceNumber>, &'a [u8]));

/// Parses the plaintext of an opened packet; `None` if it is malformed, or its datagram is too
/// long.
#[inline]
fn parse_fragment(sequence: SequenceNumber, flags: Flags, plaintext: &[u8]) -> Option<ParsedFragment<'_>> {
    let parsed = Plaintext::parse(plaintext, flags).ok()?;
    if parsed.datagram.len() > DATAGRAM_BYTES_MAX {
        return None;
    }
    let fragment = fragment_of(sequence, flags.fragment(), parsed.datagram)?;
    Some((parsed, fragment))
}

impl Agent {
    /// Handles an opened packet that has not arrived before. The scratch buffer contains its coded
    /// bytes, or is empty if there are none.
    ///
    /// A late packet is stored for others, and not delivered.
    pub(super) fn on_packet(
        &mut self,
        id: ReceiveFlowId,
        sequence: SequenceNumber,
        flags: Flags,
        plaintext: &[u8],
        arrival: Arrival,
        now: Time,
    ) {
        let Some((parsed, (fragment, first_sequence, datagram))) = parse_fragment(sequence, flags, plaintext)
        else {
            self.counters.malformed += 1;
            return;
        };
        let Plaintext { sent, traffic_class, unprotected, .. } = parsed;
        let (delivery, flow) = (arrival.delivery, &mut self.receivers[id.0 as usize]);
        let round_trip = self.sessions.round_trip(flow.peer);
        let allowance = flow.lateness_budget(round_trip);
        let is_past = delivery.is_repair() && flow.has_passed(sequence.number());
        let is_source_packet = flow.is_source_packet(sequence, delivery, now);
        let FlowSettings { service, latency_budget, traffic, .. } = flow.settings;
        let (is_mixture, is_compared) = (traffic == Traffic::Mixture, flow.settings.compares_paths());
        let is_on_both = is_compared && flow.is_on_both_paths(sequence);
        let active = flow.activate(round_trip, now);
        let is_first = active.tracker.highest().is_none()
            || (is_source_packet && active.highest_source_packet.is_none());
        active.measure_path((sequence, sent), (is_compared, is_on_both), arrival, now);
        let lateness = active.owd_baseline.on_arrival(sent, is_source_packet, now);
        let may_expire = !is_source_packet && delivery != Delivery::Direct;
        if is_past || (may_expire && lateness > allowance) {
            // The application cannot use the packet. A later direct copy is still accepted.
            active.owd_baseline.on_late(sequence);
            flow.statistics.late += 1;
            self.store_coded(id, sequence, now);
            return;
        }
        active.on_arrival(sequence, service, arrival, is_source_packet, now);
        if delivery == Delivery::Resent
            && let Some(notice) = &mut active.silence_notice
        {
            notice.on_resent(NoticeIntervals::within(latency_budget, round_trip), now);
        }
        if is_source_packet {
            active.path_queue.sample((is_mixture, service), sent, now);
        }
        active.delays.add(lateness, now);
        active.unprotected.note(sequence, unprotected);
        let before = active.tracker.highest();
        let order = flow.close_gap(sequence, (delivery, is_source_packet), round_trip, now);
        let has_lost = flow.count_delivery(sequence, delivery, (is_source_packet, lateness));
        if order == ArrivalOrder::Ahead {
            self.leave_congestion_losses(id, now);
        }
        // The sender copies its packets until a report shows that the direct path delivers.
        self.plan_report(id, has_lost || is_first, now);
        self.store_coded(id, sequence, now);
        if is_source_packet {
            self.end_open_ended_nack(id, sequence, now);
        }
        self.expire_missing_packets(id, now);
        let incoming = FragmentMeta {
            sequence,
            fragment,
            first_sequence,
            traffic_class: arrival.traffic_class(traffic_class),
            delivery,
        };
        self.deliver(id, incoming, datagram, (order, before), now);
        self.arm_loss_timer(id);
    }

    /// Stores the coded bytes in the scratch buffer, if there are any, for blocks and for other
    /// receivers. Sends them to relays whose requests wait for them.
    pub(super) fn store_coded(&mut self, id: ReceiveFlowId, sequence: SequenceNumber, now: Time) {
        let flow = &mut self.receivers[id.0 as usize];
        // Shortly after a change, relays may still repair by the former service.
        let is_buffered = buffers_packets(flow.settings.service)
            || self.service_changes.former_service(id.0, now).is_some_and(buffers_packets);
        if self.scratch.is_empty() || !is_buffered {
            return;
        }
        let Some(packet) = self.cooperation_buffer.push(&self.scratch, now) else {
            return;
        };
        let Some(active) = flow.active_mut() else {
            return;
        };
        active.buffered.insert_over(sequence.number(), packet, |packet| {
            self.cooperation_buffer.get(packet, now).is_none()
        });
        while let Some(active) = self.receivers[id.0 as usize].active_mut()
            && let Some(requester) = active.requests.pop_requester(sequence, now)
        {
            self.send_cooperative_answer(id, requester, sequence, packet, now);
        }
    }

    /// Handles the source packet of a packet that a repair, or a sample of the direct path, has
    /// already delivered: ends the open-ended NACK, because the first path delivers. If the relay
    /// path is faster than the direct path, every packet arrives like this during such a NACK.
    pub(super) fn on_late_source_packet(&mut self, id: ReceiveFlowId, sequence: SequenceNumber, now: Time) {
        let flow = &mut self.receivers[id.0 as usize];
        let service = flow.settings.service;
        let was_requested = flow.active().is_some_and(|active| active.open_ended == Some(sequence));
        flow.statistics.spurious_nacks += u64::from(was_requested);
        let Some(active) = flow.active_mut() else {
            return;
        };
        // An overtaken or retransmitted packet does not show the sending times.
        if active.highest_source_packet.is_some_and(|highest| sequence <= highest) {
            return;
        }
        let follows = active.highest_source_packet.is_some_and(|highest| sequence == highest.next());
        active.loss_timer.on_packet(follows, now);
        active.last_source_packet = now;
        active.highest_source_packet = Some(sequence);
        active.burst_end.on_packet(sequence, now);
        active.on_second_copy(sequence, service, now);
        self.end_open_ended_nack(id, sequence, now);
        if retransmits(self.receivers[id.0 as usize].settings.service) {
            // The sender still takes the direct path for out, or has not heard of it yet.
            self.stop_needless_repairs(id, now);
        }
        self.arm_loss_timer(id);
    }

    /// Ends a silence, and the open-ended NACK with an ACK to the relays, if this source packet
    /// shows that the direct path delivers again.
    ///
    /// A sender that retransmits gets the ACK only if it may send all packets through relays. If it
    /// does although the silence was short, the ACK follows the first needless packet.
    fn end_open_ended_nack(&mut self, id: ReceiveFlowId, sequence: SequenceNumber, now: Time) {
        let flow = &mut self.receivers[id.0 as usize];
        let is_resent = retransmits(flow.settings.service);
        let Some(active) = flow.active_mut() else {
            return;
        };
        let was_long = active.silence_notice.take().is_some_and(SilenceNotice::is_of_long_silence);
        if active.open_ended.is_none_or(|from| sequence < from) {
            return;
        }
        active.open_ended = None;
        active.open_ended_nacks = 0;
        active.tracker.end_open_ended();
        if !is_resent || was_long || active.two_paths.is_relay_active(CARRIED_FOR, now) {
            active.acks.ended = Some((now, sequence));
            self.send_ack(id, sequence, now);
        }
    }

    /// Repeats the ACK after a duplicate repair, because an earlier ACK was lost and relays still
    /// repair every packet. Does nothing during an open-ended NACK, or shortly after an ACK.
    pub(super) fn stop_needless_repairs(&mut self, id: ReceiveFlowId, now: Time) {
        let retry_interval = self.nack_retry_interval(id);
        let Some(active) = self.receivers[id.0 as usize].active_mut() else {
            return;
        };
        let is_recent = active.acks.last.is_some_and(|last| now.saturating_since(last) < retry_interval);
        if active.open_ended.is_none()
            && !is_recent
            && let Some(highest) = active.highest_source_packet
        {
            active.acks.ended = None;
            self.send_ack(id, highest, now);
        }
    }

    /// Repeats the ACK that ended the latest open-ended NACK to the relays, if that was not long
    /// ago, and no ACK was sent just now. Does nothing during an open-ended NACK.
    ///
    /// A later number would show relays that packets are lost that this receiver has.
    pub(super) fn repeat_ack(&mut self, id: ReceiveFlowId, now: Time) {
        let retry_interval = self.nack_retry_interval(id);
        let flow = &self.receivers[id.0 as usize];
        let Some(active) = flow.active().filter(|active| active.open_ended.is_none()) else {
            return;
        };
        let is_within = |at: Time, time| now.saturating_since(at) < time;
        let ended = active.acks.ended.filter(|(at, _)| is_within(*at, ACK_REPEATED_FOR));
        let is_recent = active.acks.last.is_some_and(|last| is_within(last, retry_interval));
        if let Some((_, from)) = ended.filter(|_| !is_recent && !retransmits(flow.settings.service)) {
            self.send_ack(id, from, now);
        }
    }

    /// Sends an ACK to the flow's egress relays, or to its sender if that retransmits: the direct
    /// path delivers from `from` on.
    fn send_ack(&mut self, id: ReceiveFlowId, from: SequenceNumber, now: Time) {
        let flow = &mut self.receivers[id.0 as usize];
        flow.statistics.acks += 1;
        if let Some(active) = flow.active_mut() {
            active.acks.last = Some(now);
        }
        if retransmits(self.receivers[id.0 as usize].settings.service) {
            self.send_source_ack(id, from, now);
            return;
        }
        for (session, alias) in self.egress_relays_of(id) {
            self.sessions.queue_message(session, &Message::Ack(Ack { alias, from_low: from.low() }), now);
        }
    }

    /// Sends a stored packet to a relay for another receiver's repair. If that exceeds the
    /// consented rate, sends a refusal instead.
    pub(super) fn send_cooperative_answer(
        &mut self,
        id: ReceiveFlowId,
        (session, alias): Requester,
        sequence: SequenceNumber,
        packet: crate::parts::packet_buffer::Handle,
        now: Time,
    ) {
        let flow = &mut self.receivers[id.0 as usize];
        if !flow.spend_consent(packet.bytes().into(), now) {
            flow.statistics.beyond_consent += 1;
            // After a refusal, the relay tries another repair at once.
            let mut refused = RangeSet::new();
            assert!(refused.insert(sequence), "an empty set accepts any number");
            self.sessions.queue_message(
                session,
                &Message::CooperativeRefusal(CooperativeRefusal { alias, ranges: refused.ranges() }),
                now,
            );
            return;
        }
        flow.statistics.lent += 1;
        flow.statistics.lent_bytes += packet.bytes() as u64;
        self.queue_envelope(session, EnvelopeRole::CooperativeAnswer, alias, sequence, packet, now);
    }
}

impl ReceiveState {
    /// Adds the delay of a new packet to those of its path, if the flow's sender compares them.
    /// `is_on_both` is true for a packet that the sender sends on both paths. An early packet is no
    /// sample.
    #[inline]
    fn measure_path(
        &mut self,
        (sequence, sent): (SequenceNumber, Timestamp),
        (is_compared, is_on_both): (bool, bool),
        arrival: Arrival,
        now: Time,
    ) {
        if is_compared
            && !arrival.is_early
            && let Some(path) = ArrivalPath::of(arrival.delivery)
        {
            let delay = relative_delay(sent, now);
            let delays = self.two_paths.delays.get_or_insert_default();
            delays.on_first(sequence, (path, delay), is_on_both, now);
        }
    }

    /// Records the arrival of a new packet: what it shows of the direct path, of an open-ended NACK
    /// in force, and of the difference between two paths.
    fn on_arrival(
        &mut self,
        sequence: SequenceNumber,
        service: Service,
        arrival: Arrival,
        is_source_packet: bool,
        now: Time,
    ) {
        let is_forwarded = arrival.delivery == Delivery::Forwarded;
        if is_source_packet {
            self.on_source_packet(sequence, arrival.is_held, now);
        }
        if is_source_packet && !is_repaired_from_afar(service) {
            self.await_open_ended_repairs(now);
        }
        let is_direct_sample = !is_source_packet && arrival.delivery == Delivery::Direct;
        if self.open_ended.is_some_and(|from| sequence >= from) && !is_direct_sample {
            self.open_ended_nacks = 0;
        }
        if uses_both_paths(service) {
            self.two_paths.on_delivery(sequence, is_forwarded, now);
        } else if is_direct_sample {
            self.two_paths.on_first_copy(sequence, now);
        } else if is_forwarded && retransmits(service) {
            self.two_paths.on_relayed(now);
        }
    }

    /// Records the arrival of a new source packet. One that was buffered until consent (`is_held`)
    /// is no sample of the sending interval.
    fn on_source_packet(&mut self, sequence: SequenceNumber, is_held: bool, now: Time) {
        if !is_held {
            // A silence with losses is no sample of the sending interval, even if the losses are
            // repaired.
            let follows = self.highest_source_packet.is_some_and(|highest| sequence == highest.next());
            self.loss_timer.on_packet(follows, now);
        }
        self.last_source_packet = now;
        self.burst_end.on_packet(sequence, now);
    }
}

impl ReceiveFlow {
    /// Counts a new packet that is in time, by the path of its arrival; returns true if it reveals
    /// that earlier packets were lost.
    fn count_delivery(
        &mut self,
        sequence: SequenceNumber,
        delivery: Delivery,
        (is_source_packet, lateness): (bool, Duration),
    ) -> bool {
        let has_lost = is_source_packet && self.count_loss_burst(sequence);
        let active = self.active();
        let is_timed = active.is_some_and(|active| active.owd_baseline.is_set());
        // In an outage, relays deliver what the direct path loses.
        let is_carried = delivery == Delivery::Forwarded
            && retransmits(self.settings.service)
            && active.is_some_and(|active| active.open_ended.is_some_and(|from| sequence >= from));
        let statistics = &mut *self.statistics;
        if is_timed {
            statistics.repair_times.add(delivery, lateness);
        }
        statistics.lost += u64::from(delivery.is_repair() || is_carried);
        self.note_copy(sequence, delivery);
        let statistics = &mut *self.statistics;
        let counter = match delivery {
            Delivery::Direct => &mut statistics.direct,
            Delivery::Forwarded if is_carried => &mut statistics.resent,
            Delivery::Forwarded => &mut statistics.forwarded,
            Delivery::InStream => &mut statistics.in_stream,
            Delivery::Cooperative => &mut statistics.cooperative,
            Delivery::Cached => &mut statistics.cached,
            Delivery::Resent => &mut statistics.resent,
        };
        *counter += 1;
        has_lost
    }

    /// Returns true if the sender sends this packet on both paths: because of the service, or as a
    /// sample of the direct path.
    fn is_on_both_paths(&self, sequence: SequenceNumber) -> bool {
        uses_both_paths(self.settings.service)
            || (self.settings.has_direct_samples() && samples_direct_path(sequence))
    }

    /// Counts the losses that relays cover, which a packet on both paths shows. It is from relays,
    /// before its copy on the direct path, or from that path, first or second.
    pub(super) fn note_copy(&mut self, sequence: SequenceNumber, delivery: Delivery) {
        if !self.is_on_both_paths(sequence) {
            return;
        }
        let number = sequence.number();
        let covered = self.active_mut().map_or(0, |active| match delivery {
            Delivery::Direct => active.two_paths.copies.on_direct(number),
            Delivery::Forwarded => active.two_paths.copies.on_forwarded(number),
            _ => 0,
        });
        self.statistics.covered += covered;
    }

    /// Handles the arrival of a delivered packet by the direct path: counts the losses that it
    /// shows, and measures the path's delay.
    pub(super) fn note_second_arrival(&mut self, sequence: SequenceNumber, now: Time) {
        self.note_copy(sequence, Delivery::Direct);
        if let Some(delays) = self.active_mut().and_then(|active| active.two_paths.delays.as_mut()) {
            delays.on_second(sequence, ArrivalPath::Direct, now);
        }
    }

    /// Returns true if relays delivered a packet first, and its arrival by the direct path would
    /// show the delay of that path.
    pub(super) fn awaits_direct_sample(&self, sequence: SequenceNumber) -> bool {
        let delays = self.active().and_then(|active| active.two_paths.delays.as_ref());
        delays.is_some_and(|delays| delays.awaits_direct(sequence))
    }

    /// Returns true if relays delivered a packet first, and its copy on the direct path is awaited.
    pub(super) fn awaits_copy(&self, sequence: SequenceNumber) -> bool {
        self.is_on_both_paths(sequence)
            && self.active().is_some_and(|active| active.two_paths.copies.awaits(sequence.number()))
    }

    /// Counts the gap before a new source packet as a burst of losses; returns true if there is a
    /// gap.
    fn count_loss_burst(&mut self, sequence: SequenceNumber) -> bool {
        let Some(active) = self.active_mut() else {
            return false;
        };
        let before = active
            .highest_source_packet
            .replace(active.highest_source_packet.map_or(sequence, |highest| highest.max(sequence)));
        let burst =
            before.and_then(|before| sequence.since(before)).map_or(0, |ahead| ahead.saturating_sub(1));
        if burst > 0 {
            self.statistics.bursts += 1;
            self.statistics.longest_burst = self.statistics.longest_burst.max(burst);
        }
        burst > 0
    }
}

impl Delivery {
    /// Returns true if the packet was lost on its first path, and a relay, a block or the sender
    /// has restored it.
    #[must_use]
    pub const fn is_repair(self) -> bool {
        matches!(self, Self::InStream | Self::Cooperative | Self::Cached | Self::Resent)
    }
}
