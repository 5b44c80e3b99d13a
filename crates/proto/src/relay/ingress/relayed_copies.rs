//! Copies and senders' repair packets that the relay forwards. Recent copies are stored for egress
//! relays that request them: relayed copies that were lost, packets that too few repair packets
//! cover, and all packets of pulled flows.

use alloc::boxed::Box;

use byway_units::{Bytes, Duration, Time};
use byway_wire::messages::{InStreamHead, InStreamRepair};
use byway_wire::{CODED_OVERHEAD, Ecn, Ranges, SequenceNumber, Service};

use super::copies::{BufferedCopy, CopyRequester, RelayedCopies, retention};
use super::flow::{FlowSlot, IngressFlowState};
use super::{ArrivingCopy, Ingress, OutgoingCopy, RelayPeerId, Sink};
use crate::limits::{CODED_BYTES_MAX, RELAYED_COPY_REACH};
use crate::parts::retransmissions::RetransmitDecision;
use crate::policy::{forwards, retransmits};

impl Ingress {
    /// True if the relay forwards a pulled flow's copy without a request: the flow has an outage,
    /// or begins. A receiver that has no packet of the flow yet sends no NACK. The egress relay's
    /// tail-loss hint covers the first copies.
    pub(super) fn relays_pulled_copy(&mut self, slot: FlowSlot, now: Time) -> bool {
        let flow = self.flows[slot.0 as usize].as_mut().expect("the flow of an accepted copy exists");
        let group = flow.registration.outage_group();
        let is_first = flow.active_mut().is_some_and(IngressFlowState::count_first_copy);
        is_first || self.outages.relays_packet(group, slot, now)
    }

    /// Forwards a copy of a coded or pulled flow whole (`is_relayed`), or stores it until an egress
    /// relay fetches it.
    ///
    /// Of a coded flow, a packet that is certainly lost would use up one repair packet of its
    /// batch. Forwarding it whole costs no more bytes, and leaves all repair packets to the other
    /// flows.
    pub(super) fn relay_or_buffer_copy(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        (copy, is_relayed, has_receiver): (&ArrivingCopy<'_>, bool, bool),
        sink: &mut impl Sink,
        now: Time,
    ) {
        if is_relayed {
            self.relay_copy(slot, sequence, copy, sink, now);
        } else if has_receiver {
            self.buffer_copy(slot, sequence, copy.coded, false, now);
        }
    }

    /// Forwards a copy, and stores it for retransmission. It stores no forwarded copies of a flow
    /// whose sender copies only some packets, because egress relays cannot tell a gap from a loss.
    pub(super) fn relay_copy(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        copy: &ArrivingCopy<'_>,
        sink: &mut impl Sink,
        now: Time,
    ) {
        let ArrivingCopy { coded, ecn, is_resent, .. } = *copy;
        self.count_active(slot, sequence, now);
        let flow = self.flows[slot.0 as usize].as_mut().expect("the flow of an accepted copy exists");
        let (service, owner) = (flow.registration.service, flow.registration.owner());
        let is_resent = is_resent && retransmits(service);
        let outgoing = OutgoingCopy { coded, ecn, is_forwarded: forwards(service), is_resent };
        let (mut hop_count, mut remote_count) = (0, 0);
        for next_hop in flow.next_hops.iter().filter(|next_hop| next_hop.has_receiver) {
            hop_count += 1;
            remote_count += u64::from(sink.relay_copy(*next_hop, owner, sequence, &outgoing));
        }
        self.memory.count_sent(flow.registration.holder, remote_count * coded.len() as u64);
        self.counters.uncovered_unknown += u64::from(hop_count == 0);
        self.counters.copies_relayed += hop_count;
        self.counters.copies_relayed_bytes += hop_count * coded.len() as u64;
        // Copies from the beginning of a flow, which the egress relay does not know yet, are
        // forwarded later.
        if hop_count == 0 || (remote_count > 0 && !flow.registration.is_selective) {
            self.buffer_copy(slot, sequence, coded, hop_count > 0, now);
        }
    }

    /// Forwards the stored copies that arrived before an egress relay knew the flow, unless the
    /// latency budget has passed. It does nothing for coded and pulled flows.
    pub(crate) fn relay_buffered_copies(
        &mut self,
        slot: FlowSlot,
        peer: RelayPeerId,
        sink: &mut impl Sink,
        now: Time,
    ) {
        let Some(flow) = self.flows.get_mut(slot.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        let service = flow.registration.service;
        let next_hop =
            flow.next_hops.iter().find(|next_hop| next_hop.peer == peer && next_hop.has_receiver).copied();
        let (owner, budget) = (flow.registration.owner(), flow.registration.latency_budget);
        let holder = flow.registration.holder;
        let relayed_copies = flow.active_mut().and_then(|active| active.relayed_copies.as_deref_mut());
        let passes_on = !matches!(service, Service::Internet | Service::Coding | Service::Pull);
        let (Some(next_hop), Some(relayed_copies), true) = (next_hop, relayed_copies, passes_on) else {
            return;
        };
        let highest = relayed_copies.buffered.highest().unwrap_or(0);
        for number in highest.saturating_sub(RELAYED_COPY_REACH as u64 - 1)..=highest {
            let Some(stored) = relayed_copies.buffered.get_mut(number).filter(|stored| !stored.is_relayed)
            else {
                continue;
            };
            let is_useful =
                self.log.stored_at(stored.packet).is_some_and(|received_at| received_at + budget > now);
            if let Some(coded) = self.log.get(stored.packet, now).filter(|_| is_useful) {
                stored.is_relayed = true;
                self.counters.copies_relayed += 1;
                self.counters.copies_relayed_bytes += coded.len() as u64;
                let sequence = SequenceNumber::new(number);
                let (ecn, is_forwarded) = (Ecn::NotCapable, forwards(service));
                let copy = OutgoingCopy { coded, ecn, is_forwarded, is_resent: false };
                if sink.relay_copy(next_hop, owner, sequence, &copy) {
                    self.memory.count_sent(holder, coded.len() as u64);
                }
            }
        }
    }

    /// Stores a copy for requests of egress relays. `is_relayed`: the relay has forwarded it
    /// already.
    pub(super) fn buffer_copy(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        coded: &[u8],
        is_relayed: bool,
        now: Time,
    ) {
        let flow = self.flows[slot.0 as usize].as_mut().expect("the flow of an accepted copy exists");
        let (rate, flow_service) = (flow.registration.rate, flow.registration.service);
        let Some((packet, active)) = self.log.push(coded, now).zip(flow.active_mut()) else {
            return;
        };
        if active.relayed_copies.is_none() {
            self.memory.refresh_capacity(&mut active.memory);
            if !active.memory.has_capacity() {
                return;
            }
            let relayed_copies = Box::new(RelayedCopies::new(rate, now));
            active.memory.on_resize(0, relayed_copies.bytes());
            active.relayed_copies = Some(relayed_copies);
        }
        let IngressFlowState { memory, relayed_copies: Some(relayed_copies), .. } = active else {
            return;
        };
        let retention = retention(flow_service, is_relayed);
        let before = relayed_copies.buffered.bytes();
        // The ring calls this closure only if the copy's slot is occupied and the ring would grow.
        let is_past = |stored: BufferedCopy| {
            let is_past =
                self.log.stored_at(stored.packet).is_none_or(|received_at| received_at + retention < now);
            is_past || !self.memory.has_capacity(memory.holder())
        };
        relayed_copies.buffered.insert_over(sequence.number(), BufferedCopy { packet, is_relayed }, is_past);
        let after = relayed_copies.buffered.bytes();
        if after != before {
            memory.on_resize(before, after);
            self.memory.update_charge(memory);
        }
    }

    /// Retransmits the copies that an egress relay requests, `round_trip` away: relayed copies that
    /// were lost, or packets that too few repair packets cover.
    pub(crate) fn on_copy_nack(
        &mut self,
        (slot, peer): (FlowSlot, RelayPeerId),
        ranges: &Ranges<'_>,
        round_trip: Duration,
        sink: &mut impl Sink,
        now: Time,
    ) {
        let Some(flow) = self.flows.get_mut(slot.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        let next_hop =
            flow.next_hops.iter().find(|next_hop| next_hop.peer == peer && next_hop.has_receiver).copied();
        // The estimate takes the receiver as far from its relay as the sender from this one.
        let useful_for = flow.registration.latency_budget.saturating_sub(flow.round_trip + round_trip / 2);
        let path_count = u8::try_from(flow.next_hops.len()).expect("a flow has few next hops");
        let (service, owner) = (flow.registration.service, flow.registration.owner());
        let (is_forwarded, holder) = (forwards(service), flow.registration.holder);
        let state =
            flow.active_mut().and_then(|IngressFlowState { memory, copies, relayed_copies, .. }| {
                self.memory.refresh_capacity(memory);
                Some((memory, copies, relayed_copies.as_deref_mut()?))
            });
        let (Some(next_hop), Some((memory, copies, relayed_copies))) = (next_hop, state) else {
            return;
        };
        let requester = CopyRequester { round_trip, path_count, has_capacity: memory.has_capacity() };
        let before = relayed_copies.bytes();
        let highest = relayed_copies.buffered.highest().unwrap_or(0);
        let oldest = highest.saturating_sub(RELAYED_COPY_REACH as u64);
        for range in ranges.iter() {
            let first = copies.full_sequence(range.first_low()).number();
            let last = first.saturating_add(u64::from(range.length()) - 1);
            for number in first.max(oldest)..=last.min(highest) {
                let Some(stored) = relayed_copies.useful_copy(number, (service, useful_for), &self.log, now)
                else {
                    self.counters.retransmits_expired += 1;
                    continue;
                };
                match relayed_copies.decide_retransmit(number, stored, requester, now) {
                    RetransmitDecision::Retransmit => {
                        let coded = self.log.get(stored.0, now).expect("the packet is stored");
                        self.counters.retransmitted += 1;
                        self.counters.retransmitted_bytes += coded.len() as u64;
                        let copy =
                            OutgoingCopy { coded, ecn: Ecn::NotCapable, is_forwarded, is_resent: false };
                        if sink.relay_copy(next_hop, owner, SequenceNumber::new(number), &copy) {
                            self.memory.count_sent(holder, coded.len() as u64);
                        }
                    }
                    RetransmitDecision::InFlight => {}
                    RetransmitDecision::Refused => self.counters.retransmits_refused += 1,
                }
            }
        }
        memory.on_resize(before, relayed_copies.bytes());
        self.memory.update_charge(memory);
    }

    /// Forwards a repair packet that the flow's sender made.
    ///
    /// It is charged to the flow's rate as the source packets that it represents: the bytes of
    /// source packets for each repair packet in a block of the registered shape.
    pub(crate) fn on_sender_repair(
        &mut self,
        slot: FlowSlot,
        repair: &InStreamRepair<'_>,
        sink: &mut impl Sink,
        now: Time,
    ) {
        let Some(flow) = self.flows.get_mut(slot.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        let is_permitted = flow.registration.sender_fec && repair.payload.len() >= CODED_OVERHEAD;
        let Some(shape) = flow.registration.rates.in_stream.filter(|_| is_permitted) else {
            self.counters.sender_fec_refused += 1;
            return;
        };
        if repair.payload.len() > CODED_BYTES_MAX {
            self.counters.copies_too_long += 1;
            return;
        }
        let covered = repair.payload.len() * usize::from(shape.source_packets());
        let bytes = Bytes::from(covered / usize::from(shape.repair_packets()));
        if !flow.budget.try_consume(bytes, now) || !self.policers.try_charge(flow.policer, bytes, now) {
            self.counters.copies_beyond_rate += 1;
            return;
        }
        for next_hop in flow.next_hops.iter().filter(|next_hop| next_hop.has_receiver) {
            let head = InStreamHead { alias: next_hop.alias, ..repair.head };
            let bytes = repair.payload.len() as u64;
            self.counters.sender_fec += 1;
            self.counters.sender_fec_bytes += bytes;
            let onward_repair = InStreamRepair { head, payload: repair.payload };
            if sink.send_in_stream(next_hop.peer, flow.registration.owner(), &onward_repair) {
                self.memory.count_sent(flow.registration.holder, bytes);
            }
        }
    }
}
