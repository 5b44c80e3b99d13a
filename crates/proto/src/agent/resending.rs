//! Retransmission: of copies that an ingress relay misses, with their source packets, and of
//! packets that the receiver of a flow with retransmission requests.
//!
//! Nothing of such a flow is copied while the direct path delivers. A source NACK requests single
//! packets. A notice of silence means every packet from a number on. If the silence lasts, the
//! sender sends all packets through relays, until the receiver reports that the direct path
//! delivers again. Both messages, and the source ACK, travel on all paths at once, because the
//! direct path may be in an outage both ways.

use byway_units::{Bytes, Duration, Time};
use byway_wire::messages::{CopyNack, Silence, SourceAck, SourceNack};
use byway_wire::packets::{ENVELOPE_OVERHEAD, EnvelopeRole, SourceHeader};
use byway_wire::{Alias, CODED_OVERHEAD, Flags, FlowKey, Message, Ranges, SequenceNumber};

use super::notice_intervals::NoticeIntervals;
use super::receive_flow::ReceiveFlowId;
use super::selection::delays;
use super::send_flow::{SendFlowId, SentPacket};
use super::settings::Traffic;
use super::uplink_probing::uplink_bytes;
use super::{Agent, Flow};
use crate::limits::{
    CARRIED_AFTER, COPIES_AFTER_LOSS, COPIES_ONLY_AFTER, RESEND_BACKLOG_MAX, RESEND_REACH,
    RESENDS_PER_PACKET_MAX, SILENCE_MARGIN,
};
use crate::outbox::TransmitMeta;
use crate::parts::packet_buffer::Handle;
use crate::parts::retransmissions::RetransmitDecision;
use crate::session::SessionId;

impl Agent {
    /// Handles an ingress relay's request for missing copies: sends them again, and their source
    /// packets within a budget.
    ///
    /// If copies and source packets leave by the same uplink, both are lost together. So the source
    /// packet is sent again too. A relay that requests everything gets one in
    /// [`PACKETS_PER_SOURCE_RESEND`](crate::limits::PACKETS_PER_SOURCE_RESEND).
    pub(super) fn on_copy_nack(&mut self, session: SessionId, nack: &CopyNack<'_>, now: Time) {
        let flow = self.relay_of(session).and_then(|relay| relay.flow(nack.alias));
        let Some(Flow::Sent(id)) = flow else {
            self.counters.flows_unknown += 1;
            return;
        };
        for low in nack.ranges.numbers_low().take(RESEND_REACH) {
            self.work.numbers += 1;
            let flow = &self.senders[id.0 as usize];
            let sequence = SequenceNumber::nearest(low, flow.next);
            match flow.sent.get(sequence.number()) {
                // Packets that were not copied, because of the uplink for example, are not sent
                // at a relay's request either.
                Some(SentPacket { packet, is_copied: true }) => {
                    self.resend_source_packet(id, sequence, packet, now);
                    self.queue_envelope(session, EnvelopeRole::ResentCopy, nack.alias, sequence, packet, now);
                }
                _ => self.counters.copies_expired += 1,
            }
        }
    }

    /// Sends a source packet again on the direct path, if the flow uses that path, its budget
    /// suffices, and the session's epoch is still the same.
    fn resend_source_packet(&mut self, id: SendFlowId, sequence: SequenceNumber, packet: Handle, now: Time) {
        let flow = &mut self.senders[id.0 as usize];
        // Transports with congestion control retransmit losses themselves, and take a late packet
        // for reordering.
        if flow.needs_relay() || flow.settings.traffic != Traffic::Datagrams {
            return;
        }
        let Some(session) = self.sessions.get_mut(flow.peer) else {
            return;
        };
        let path = session.path.network_path().copied();
        let (Some(path), Some(epoch)) = (path, session.sealing(now)) else {
            return;
        };
        let Some(coded) =
            self.retransmit_buffer.get(packet, now).filter(|coded| coded.len() >= CODED_OVERHEAD)
        else {
            return;
        };
        let flags = Flags::from_wire(coded[0]);
        if flags.epoch_low_bits() != epoch.number.low_bits() || !flow.spend_resend_credit() {
            return;
        }
        let header = SourceHeader {
            receiver: epoch.remote_index(),
            flow: flow.key.flow(),
            sequence_low: sequence.low(),
            flags,
        };
        let mut front = [0; SourceHeader::BYTES];
        header.emit(&mut front);
        self.counters.source_packets_resent += 1;
        let (meta, peer) = (TransmitMeta::plain(path), flow.peer);
        let payload_bytes = SourceHeader::CODED_START + coded.len();
        self.sessions.outbox.add(meta, |out| {
            out.extend_from_slice(&front[..SourceHeader::CODED_START]);
            out.extend_from_slice(coded);
        });
        self.senders[id.0 as usize].usage.direct.add(payload_bytes);
        self.sessions.on_sent(peer, payload_bytes, now);
    }
}

impl Agent {
    /// Sends the sender of a flow a request for these packets, on all paths.
    pub(super) fn send_source_nack(&mut self, id: ReceiveFlowId, ranges: &Ranges<'_>, now: Time) {
        self.watch_relays(Flow::Received(id), now);
        let flow = &self.receivers[id.0 as usize];
        let nack = SourceNack { flow_key: flow.key, ranges: *ranges };
        self.sessions.queue_urgent_message(flow.peer, &Message::SourceNack(nack), now);
    }

    /// Reports to the sender of a flow that the direct path delivers from a packet on, on all
    /// paths.
    pub(super) fn send_source_ack(&mut self, id: ReceiveFlowId, from: SequenceNumber, now: Time) {
        let flow = &self.receivers[id.0 as usize];
        let ack = SourceAck { flow_key: flow.key, from_low: from.low() };
        self.sessions.queue_urgent_message(flow.peer, &Message::SourceAck(ack), now);
    }

    /// Handles a receiver's request for packets that the direct path lost: sends them again, also
    /// shortly after a change of the flow's service.
    pub(super) fn on_source_nack(&mut self, session: SessionId, nack: &SourceNack<'_>, now: Time) {
        let Some(id) = self.flow_of_receiver(nack.flow_key, session) else {
            return;
        };
        if self.senders[id.0 as usize].copies_on_loss_only() && !nack.ranges.is_empty() {
            self.watch_relays(Flow::Sent(id), now);
        }
        let ingress = self.live_ingress_of(id);
        for low in nack.ranges.numbers_low().take(RESEND_REACH) {
            self.work.numbers += 1;
            let sequence = SequenceNumber::nearest(low, self.senders[id.0 as usize].next);
            self.resend(id, sequence, ingress, now);
        }
    }

    /// Handles a notice of silence for a flow with retransmission: sends again the packets that
    /// should have arrived before it. If the silence lasts, the flow uses both paths until the
    /// receiver's ACK.
    ///
    /// Once the direct path is back, the packets of one more round trip use both paths in vain.
    /// Most silences are bursts of losses, so they end before that pays: see [`CARRIED_AFTER`]. On
    /// a narrow uplink, packets that are lost leave their share to those that are sent again. If
    /// the latency budget is too short to wait for notices, every silence is taken for an outage,
    /// and all packets since its beginning are sent again. The application may only have
    /// paused. Then nothing is sent again, and the next packets use both paths.
    pub(super) fn resend_since(
        &mut self,
        id: SendFlowId,
        from: SequenceNumber,
        silence: &Silence,
        now: Time,
    ) {
        let flow = &mut self.senders[id.0 as usize];
        if flow.resending(now).acknowledged_from.is_some_and(|acknowledged| from <= acknowledged) {
            return;
        }
        self.watch_relays(Flow::Sent(id), now);
        let Some((index, alias)) = self.live_ingress_of(id) else {
            return;
        };
        let elapsed = silence.elapsed.duration();
        let is_certain = self.is_lost_since(id, from, elapsed, now);
        let round_trip = self.sessions.round_trip(self.senders[id.0 as usize].peer);
        let (can_wait, is_wide) = (self.repairs_silence_in_time(id, now), self.sustains_all_twice(index));
        let carried_after = match (can_wait, is_wide) {
            (false, _) => Duration::ZERO,
            (true, false) => COPIES_ONLY_AFTER,
            (true, true) => CARRIED_AFTER,
        };
        let is_outage = elapsed >= carried_after;
        if is_outage {
            self.use_relays(Flow::Sent(id), now);
            let flow = &mut self.senders[id.0 as usize];
            let was_in_outage = flow.is_in_outage(now);
            let resending = flow.resending(now);
            resending.is_outage_certain = (is_certain && (elapsed >= COPIES_ONLY_AFTER || !is_wide))
                || (resending.is_outage_certain && was_in_outage);
            flow.outage_since = Some(silence.direct);
            flow.copies_until = now + COPIES_AFTER_LOSS;
        }
        // On a narrow uplink, copies of packets that may still arrive would delay later ones.
        let sends_all = !can_wait && is_wide;
        let due = if sends_all { now } else { now.saturating_sub(round_trip + SILENCE_MARGIN) };
        // Copies arrive by relays, which may take longer.
        let wait = round_trip / 2 + self.relayed_delay(id) + SILENCE_MARGIN + round_trip / 8;
        let copies_due = due.min(now.saturating_sub(wait + self.backlog_wait(now)));
        let next = self.senders[id.0 as usize].next.number();
        for number in from.number().max(next.saturating_sub(RESEND_REACH as u64))..next {
            self.work.numbers += 1;
            let sent = self.senders[id.0 as usize].sent.get(number);
            let sent_at = sent.and_then(|sent| self.retransmit_buffer.stored_at(sent.packet));
            let due = if sent.is_some_and(|sent| sent.is_copied) { copies_due } else { due };
            if sent_at.is_some_and(|sent_at| sent_at <= due) {
                self.resend(id, SequenceNumber::new(number), Some((index, alias)), now);
            }
        }
    }

    /// Returns the longest time for which packets may have waited for the uplink; zero if it has no
    /// backlog.
    fn backlog_wait(&self, now: Time) -> Duration {
        if self.uplink.backlog.is_busy(now) { RESEND_BACKLOG_MAX } else { Duration::ZERO }
    }

    /// Returns the delay of a flow's relay path; that of the direct path if it is not known.
    fn relayed_delay(&self, id: SendFlowId) -> Duration {
        let relayed = self.flow_delays(id).map(delays).map(|known| known.relayed());
        relayed.unwrap_or_else(|| self.sessions.round_trip(self.senders[id.0 as usize].peer) / 2)
    }

    /// Returns true if a packet that a silence loses is in time when relays deliver it after the
    /// next notice, by half round trips. The buffer has to have it until then: a fast flow's
    /// latest packets are all in flight.
    fn repairs_silence_in_time(&self, id: SendFlowId, now: Time) -> bool {
        let flow = &self.senders[id.0 as usize];
        let budget = flow.settings.latency_budget;
        let round_trip = self.sessions.round_trip(flow.peer);
        let wait = NoticeIntervals::within(budget, round_trip).repeat + SILENCE_MARGIN;
        let oldest = flow
            .next
            .number()
            .checked_sub(RESEND_REACH as u64)
            .and_then(|number| self.retransmit_buffer.stored_at(flow.sent.get(number)?.packet));
        let is_buffered = oldest.is_none_or(|oldest| oldest + round_trip + wait <= now);
        is_buffered && round_trip * 9 / 8 + wait + self.relayed_delay(id) <= budget
    }

    /// Returns the ingress relay of a flow's path in use, by its index, and its alias for the flow,
    /// unless the relay is dead or has not accepted the flow.
    pub(super) fn live_ingress_of(&self, id: SendFlowId) -> Option<(usize, Alias)> {
        self.ingress_of(id).filter(|(index, _)| !self.relays[*index].is_dead)
    }

    /// Handles a receiver's report that the direct path of a flow with retransmission delivers
    /// again.
    pub(super) fn on_source_ack(&mut self, session: SessionId, ack: &SourceAck, now: Time) {
        let Some(id) = self.flow_of_receiver(ack.flow_key, session) else {
            return;
        };
        let flow = &mut self.senders[id.0 as usize];
        if !flow.copies_on_loss_only() {
            return;
        }
        let from = SequenceNumber::nearest(ack.from_low, flow.next);
        if from >= flow.next {
            return;
        }
        let resending = flow.resending(now);
        resending.acknowledged_from = resending.acknowledged_from.max(Some(from));
        if !flow.is_in_outage(now) {
            return;
        }
        (flow.is_unproven, flow.outage_since, flow.copies_until) = (false, None, Time::START);
        flow.resending(now).is_outage_certain = false;
    }

    /// Returns the flow with this key if this agent sends it to the peer of a session. Counts a
    /// flow that it does not send.
    fn flow_of_receiver(&mut self, key: FlowKey, session: SessionId) -> Option<SendFlowId> {
        let Some(id) = self.sent_by_key.get(&key).copied() else {
            self.counters.flows_unknown += 1;
            return None;
        };
        (self.senders[id.0 as usize].peer == session).then_some(id)
    }

    /// Returns true if packets to a relay, by its index, queue, as far as is known.
    fn has_queue(&self, relay: usize) -> bool {
        let link = &self.relays[relay];
        link.is_queueing() || !link.pending.is_empty()
    }

    /// Returns true if the uplink has room for lost packets of a relay's flows, by its index.
    fn admits_resends(&mut self, relay: usize, now: Time) -> bool {
        self.uplink.backlog.set_capacity(self.narrow_capacity(relay));
        let is_admitted = self.uplink.backlog.delay(now) <= RESEND_BACKLOG_MAX;
        self.counters.copies_suppressed += u64::from(!is_admitted);
        is_admitted
    }

    /// Sends a packet again through the flow's ingress relay, by its index, or on the direct path
    /// if none works. It does nothing if the packet cannot be in time, may be in flight, or was
    /// sent again as often as allowed.
    fn resend(
        &mut self,
        id: SendFlowId,
        sequence: SequenceNumber,
        ingress: Option<(usize, Alias)>,
        now: Time,
    ) {
        // A queue on the uplink delays packets that were sent again before.
        let has_queue = ingress.is_some_and(|(relay, _)| self.has_queue(relay));
        if ingress.is_some_and(|(relay, _)| !self.admits_resends(relay, now)) {
            return;
        }
        let backlog_wait = self.backlog_wait(now);
        let relayed_delay = self.relayed_delay(id);
        let flow = &mut self.senders[id.0 as usize];
        let round_trip = self.sessions.round_trip(flow.peer);
        let sent = flow.sent.get(sequence.number());
        let sent = sent.and_then(|sent| Some((sent, self.retransmit_buffer.stored_at(sent.packet)?)));
        // The delay of the relays may be an assumption.
        let travel = if ingress.is_some() { relayed_delay.min(round_trip / 2) } else { round_trip / 2 };
        let in_time = now + self.uplink.backlog.delay(now) + travel;
        let Some((sent, sent_at)) =
            sent.filter(|(_, sent_at)| sent_at.saturating_add(flow.settings.latency_budget) > in_time)
        else {
            self.counters.copies_expired += 1;
            return;
        };
        let relayed_at = sent.is_copied.then_some(sent_at);
        // The next notice that can show its arrival comes after the delays of both ways.
        let in_flight_for = round_trip.max(round_trip / 2 + relayed_delay + SILENCE_MARGIN) + backlog_wait;
        let (number, limits) = (sequence.number(), (RESENDS_PER_PACKET_MAX, true));
        let resending = flow.resending(now);
        if has_queue && resending.packets.was_resent(number) {
            return;
        }
        let decision = resending.packets.decide(number, relayed_at, in_flight_for, limits, now);
        if decision != RetransmitDecision::Retransmit
            || !resending.budget.try_consume(Bytes::from(sent.packet.bytes()), now)
        {
            return;
        }
        resending.packets.record(number, now);
        match ingress {
            Some((relay, alias)) => {
                self.uplink.backlog.add(uplink_bytes(sent.packet.bytes() + ENVELOPE_OVERHEAD), now);
                let relay = self.relays[relay].session;
                self.queue_envelope(relay, EnvelopeRole::ResentCopy, alias, sequence, sent.packet, now);
            }
            None => self.resend_source_packet(id, sequence, sent.packet, now),
        }
    }
}
