//! Recent copies, stored for retransmission to egress relays: relayed copies that were lost, and
//! packets that too few repair packets cover.

use alloc::boxed::Box;

use byway_units::{Bytes, Duration, Rate, Time};
use byway_wire::{Ecn, Ranges, SequenceNumber, Service};

use super::flow::{FlowSlot, IngressFlowState};
use super::{Ingress, RelayPeerId, Sink};
use crate::limits::{
    CODED_RETENTION, COPY_BURST, RELAYED_COPY_NACKS_MAX, RELAYED_COPY_REACH, RELAYED_COPY_RETENTION,
};
use crate::parts::packet_buffer::{Handle, PacketBuffer};
use crate::parts::sequence_ring::SequenceRing;
use crate::parts::token_bucket::TokenBucket;
use crate::policy::forwards;

/// A copy that an egress relay may request. The record is small, because there are many.
#[derive(Clone, Copy, Debug)]
struct BufferedCopy {
    packet: Handle,
    /// True if the relay forwarded the copy when it arrived.
    is_relayed: bool,
}

/// Retransmissions of a copy. Few packets have any.
#[derive(Clone, Copy, Debug)]
struct Retransmission {
    /// Number of retransmissions, over all next hops of the flow.
    count: u8,
    last: Time,
}

/// Parameters of a copy NACK: the egress relay that sent it, and the flow.
#[derive(Clone, Copy, Debug)]
struct CopyRequester {
    /// Round-trip time to the egress relay.
    round_trip: Duration,
    /// Time from a copy's arrival at this relay after which a retransmission is too late for the
    /// receiver.
    useful_for: Duration,
    /// Number of the flow's next hops.
    path_count: u8,
    /// True if the flow may use more memory to record retransmissions.
    has_capacity: bool,
}

/// Decision on an egress relay's request for one copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RetransmitDecision {
    Retransmit(Handle),
    /// An earlier transmission may still be in flight.
    InFlight,
    Refused,
    Expired,
}

/// Stored copies of one flow, and their retransmissions to egress relays.
#[derive(Debug)]
pub(crate) struct RelayedCopies {
    buffered: SequenceRing<BufferedCopy>,
    retransmissions: Option<Box<SequenceRing<Retransmission>>>,
    /// Retransmission budget, refilled at the flow's rate. It limits an egress relay that requests
    /// everything.
    budget: TokenBucket<Bytes>,
}

impl RelayedCopies {
    fn new(rate: Rate, now: Time) -> Self {
        let burst = rate.bytes_in(COPY_BURST).unwrap_or(Bytes::MAX);
        let budget = TokenBucket::of_bytes(rate, burst, now);
        Self { buffered: SequenceRing::new(RELAYED_COPY_REACH), retransmissions: None, budget }
    }

    /// Returns the memory of the records of stored copies and retransmissions, in bytes.
    fn bytes(&self) -> u64 {
        let retransmissions = self
            .retransmissions
            .as_ref()
            .map_or(0, |retransmissions| size_of_val(&**retransmissions) as u64 + retransmissions.bytes());
        size_of::<Self>() as u64 + self.buffered.bytes() + retransmissions
    }

    /// Decides if the relay retransmits a copy to an egress relay. If so, counts the retransmission
    /// and charges it to the budget.
    fn decide_retransmit(
        &mut self,
        number: u64,
        requester: CopyRequester,
        log: &PacketBuffer,
        now: Time,
    ) -> RetransmitDecision {
        let CopyRequester { round_trip, useful_for, path_count, has_capacity } = requester;
        let stored = self.buffered.get(number).filter(|stored| log.get(stored.packet, now).is_some());
        let received_at = stored.and_then(|stored| log.stored_at(stored.packet));
        let Some((BufferedCopy { packet, is_relayed }, received_at)) = stored.zip(received_at) else {
            return RetransmitDecision::Expired;
        };
        let useful_for = if is_relayed { useful_for } else { useful_for.min(CODED_RETENTION) };
        if received_at.saturating_add(useful_for) < now {
            return RetransmitDecision::Expired;
        }
        let resent = self.retransmissions.as_ref().and_then(|resent| resent.get(number));
        let last = resent.map(|resent| resent.last).or_else(|| is_relayed.then_some(received_at));
        // Measured round trips may be outdated; the margin of an eighth allows for that.
        if last.is_some_and(|last| last + (round_trip - round_trip / 8) > now) {
            return RetransmitDecision::InFlight;
        }
        let count = resent.map_or(0, |resent| resent.count);
        let is_past = |before: Retransmission| before.last + RELAYED_COPY_RETENTION < now;
        let can_record = has_capacity
            || self.retransmissions.as_ref().is_some_and(|resent| resent.has_slot(number, is_past));
        if !can_record {
            return RetransmitDecision::Refused;
        }
        if count >= RELAYED_COPY_NACKS_MAX * path_count
            || !self.budget.try_consume(Bytes::from(packet.bytes()), now)
        {
            return RetransmitDecision::Refused;
        }
        let resent =
            self.retransmissions.get_or_insert_with(|| Box::new(SequenceRing::new(RELAYED_COPY_REACH)));
        resent.insert_over(number, Retransmission { count: count + 1, last: now }, is_past);
        RetransmitDecision::Retransmit(packet)
    }
}

impl Ingress {
    /// Forwards a copy, and stores it for retransmission. It stores no forwarded copies of a flow
    /// whose sender copies only some packets, because egress relays cannot tell a gap from a loss.
    pub(super) fn relay_copy(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        (coded, ecn): (&[u8], Ecn),
        sink: &mut impl Sink,
        now: Time,
    ) {
        let flow = self.flows[slot.0 as usize].as_mut().expect("the flow of an accepted copy exists");
        let (is_forwarded, owner) = (forwards(flow.registration.service), flow.registration.owner());
        let (mut hop_count, mut may_be_lost) = (0, false);
        for next_hop in flow.next_hops.iter().filter(|next_hop| next_hop.has_receiver) {
            hop_count += 1;
            may_be_lost |= sink.relay_copy(*next_hop, owner, sequence, coded, ecn, is_forwarded);
        }
        self.counters.uncovered_unknown += u64::from(hop_count == 0);
        self.counters.copies_relayed += hop_count;
        self.counters.copies_relayed_bytes += hop_count * coded.len() as u64;
        // Copies from the beginning of a flow, which the egress relay does not know yet, are
        // forwarded later.
        if hop_count == 0 || (may_be_lost && !flow.registration.is_selective) {
            self.buffer_copy(slot, sequence, coded, hop_count > 0, now);
        }
    }

    /// Forwards the stored copies that arrived before an egress relay knew the flow, unless the
    /// latency budget has passed. It does nothing for coded flows.
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
        let relayed_copies = flow.active_mut().and_then(|active| active.relayed_copies.as_deref_mut());
        let passes_on = matches!(service, Service::Caching | Service::Forwarding | Service::Both);
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
                sink.relay_copy(next_hop, owner, sequence, coded, Ecn::NotCapable, forwards(service));
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
        let rate = flow.registration.rate;
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
        // Within this time, an egress relay that misses a packet of a coded flow has requested it.
        let retention = if is_relayed { RELAYED_COPY_RETENTION } else { CODED_RETENTION };
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
        let (is_forwarded, owner) = (forwards(flow.registration.service), flow.registration.owner());
        let state =
            flow.active_mut().and_then(|IngressFlowState { memory, copies, relayed_copies, .. }| {
                self.memory.refresh_capacity(memory);
                Some((memory, copies, relayed_copies.as_deref_mut()?))
            });
        let (Some(next_hop), Some((memory, copies, relayed_copies))) = (next_hop, state) else {
            return;
        };
        let requester =
            CopyRequester { round_trip, useful_for, path_count, has_capacity: memory.has_capacity() };
        let before = relayed_copies.bytes();
        let highest = relayed_copies.buffered.highest().unwrap_or(0);
        let oldest = highest.saturating_sub(RELAYED_COPY_REACH as u64);
        for range in ranges.iter() {
            let first = copies.full_sequence(range.first_low()).number();
            let last = first.saturating_add(u64::from(range.length()) - 1);
            for number in first.max(oldest)..=last.min(highest) {
                match relayed_copies.decide_retransmit(number, requester, &self.log, now) {
                    RetransmitDecision::Retransmit(packet) => {
                        let coded = self.log.get(packet, now).expect("the packet is stored");
                        self.counters.retransmitted += 1;
                        self.counters.retransmitted_bytes += coded.len() as u64;
                        let sequence = SequenceNumber::new(number);
                        sink.relay_copy(next_hop, owner, sequence, coded, Ecn::NotCapable, is_forwarded);
                    }
                    RetransmitDecision::InFlight => {}
                    RetransmitDecision::Refused => self.counters.retransmits_refused += 1,
                    RetransmitDecision::Expired => self.counters.retransmits_expired += 1,
                }
            }
        }
        memory.on_resize(before, relayed_copies.bytes());
        self.memory.update_charge(memory);
    }
}
