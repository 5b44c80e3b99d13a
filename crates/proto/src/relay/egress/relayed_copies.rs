//! Copies that ingress relays forward to this relay: it stores them or forwards them to receivers,
//! and sends NACKs for gaps.
//!
//! A gap costs one entry in a list that all flows share. The relay determines its missing packets
//! when the entry's timer expires.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use byway_units::{Duration, Time};
use byway_wire::{Alias, Ecn, RangeSet, SequenceNumber, Service};

use super::action::{Action, RepairSource};
use super::flow::{EgressFlowState, FlowSlot};
use super::missing::Stage;
use super::outage::OutageRange;
use super::{Egress, find_flow};
use crate::limits::{
    CODED_GAP_MAX, COPY_REORDERING, FIRST_NUMBERS, NACK_REACH, PULL_WAIT_MAX, RELAYED_COPY_GAP_MAX,
    RELAYED_COPY_GAPS_MAX, RELAYED_COPY_NACKS_MAX,
};
use crate::parts::packet_buffer::Handle;
use crate::parts::retry::{Backoff, RetryPolicy, RetryTimer, answer_timeout, may_be_in_flight};
use crate::policy::{fetches, forwards};

/// Source of relayed copies: the ingress relay, and its alias of the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CopySource {
    pub(crate) ingress: u16,
    pub(crate) alias: Alias,
}

/// A copy that an ingress relay forwarded to this relay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RelayedCopy<'a> {
    pub(crate) sequence_low: u32,
    pub(crate) coded: &'a [u8],
    /// ECN field of its arrival.
    pub(crate) ecn: Ecn,
    /// True if the relay delivers it without a NACK, because the sender cannot reach the receiver
    /// directly.
    pub(crate) is_forwarded: bool,
    /// True if the sender of a flow with retransmission sent it again.
    pub(crate) is_resent: bool,
    /// Source to request preceding copies from; `None` if a gap is no loss.
    pub(crate) source: Option<CopySource>,
}

/// Copies of one flow that ingress relays forwarded, as far as this relay knows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ArrivedCopies {
    /// Source of the copies, and the highest sequence number from it.
    highest: Option<(CopySource, SequenceNumber)>,
    /// Number of gaps for which copy NACKs are scheduled.
    pub(super) gaps: u16,
    /// True if the relay forwarded the latest copy.
    is_forwarded: bool,
}

/// Range of sequence numbers in which relayed copies are missing, ordered by the time of the next
/// copy NACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CopyGap {
    pub(super) retry: RetryTimer,
    pub(super) flow: FlowSlot,
    pub(super) source: CopySource,
    pub(super) first: SequenceNumber,
    /// One past the last sequence number.
    pub(super) end: SequenceNumber,
    pub(super) kind: GapKind,
}

/// Kind of a range of copies that the relay requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum GapKind {
    /// Forwarded copies that did not arrive.
    Lost,
    /// Copies that the ingress relay has not forwarded, and that a receiver misses.
    Fetch,
    /// Copies of a coded flow that no repair packet covers. Those that repair packets cover
    /// meanwhile, or that the direct path delivers after a silence, are left out.
    Uncovered,
    /// All copies that the ingress relay has from the first number on.
    OpenEnded,
}

impl CopyGap {
    /// Returns the schedule of the copy NACKs. That of a fetch has one step more, at which the
    /// relay gives up and clears the packets' marks. The receiver itself repeats an open-ended
    /// NACK.
    const fn retry_policy(&self) -> RetryPolicy {
        let requests_max = match self.kind {
            GapKind::Lost | GapKind::Uncovered => RELAYED_COPY_NACKS_MAX,
            GapKind::Fetch => RELAYED_COPY_NACKS_MAX + 1,
            GapKind::OpenEnded => 1,
        };
        RetryPolicy { requests_max, backoff: Backoff::Constant }
    }
}

/// Copies of one flow that the relay requests from an ingress relay by the next copy NACK.
#[derive(Debug)]
pub(crate) struct CopyRequest {
    pub(crate) source: CopySource,
    pub(crate) missing: RangeSet,
    gap: CopyGap,
}

impl CopyRequest {
    /// Returns the flow whose later copies the ingress relay has to forward, too, because its
    /// receiver gets no packets; `None` for single copies.
    pub(crate) fn open_ended_flow(&self) -> Option<FlowSlot> {
        (self.gap.kind == GapKind::OpenEnded).then_some(self.gap.flow)
    }
}

/// Gaps in the relayed copies of all flows, the earliest copy NACK first.
///
/// A flow may have a quarter as many gaps as there are free entries. So the first gaps of a flow
/// find entries, however many another one has.
#[derive(Debug, Default)]
pub(super) struct CopyGaps(BinaryHeap<Reverse<CopyGap>>);

impl CopyGaps {
    /// Adds a gap of a flow that has `count` gaps, and counts it. Returns `false` if the flow has
    /// its share of [`RELAYED_COPY_GAPS_MAX`] gaps.
    pub(super) fn add(&mut self, gap: CopyGap, count: &mut u16) -> bool {
        let free = RELAYED_COPY_GAPS_MAX - self.0.len();
        let has_capacity = usize::from(*count) < free.div_ceil(4);
        if has_capacity {
            *count += 1;
            self.0.push(Reverse(gap));
        }
        has_capacity
    }

    fn nack_at(&self) -> Option<Time> {
        self.0.peek().map(|Reverse(gap)| gap.retry.due())
    }

    fn pop(&mut self, now: Time) -> Option<CopyGap> {
        self.nack_at().filter(|at| *at <= now)?;
        self.0.pop().map(|Reverse(gap)| gap)
    }
}

impl Egress {
    /// Records a gap of a flow in use. Returns `false`, and counts it, if the flow has too many.
    pub(super) fn add_copy_gap(&mut self, gap: CopyGap) -> bool {
        let active = find_flow(&mut self.flows, gap.flow).and_then(|flow| flow.active_mut());
        let is_added = active.is_some_and(|active| self.copy_gaps.add(gap, &mut active.relayed.gaps));
        self.counters.refused_capacity += u64::from(!is_added);
        is_added
    }

    /// Handles a copy that an ingress relay forwarded: stores it, sends it on to receivers of
    /// forwarded flows, and records a gap before it.
    pub(crate) fn on_relayed_copy(
        &mut self,
        receivers: &[FlowSlot],
        copy: &RelayedCopy<'_>,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let Some(first) = receivers.first() else {
            self.counters.repairs_unknown += 1;
            return;
        };
        // The sender of a flow with retransmission sends a packet again only if it was lost.
        if !copy.is_resent && self.is_stored_copy(*first, copy, now) {
            self.counters.copies_duplicate += 1;
            return;
        }
        let Some(packet) = self.store_packet(copy.coded, now) else {
            return;
        };
        for slot in receivers {
            self.store_or_deliver_copy(*slot, copy, packet, now, actions);
        }
        // If one receiver of a group misses a copy, all do: one gap for the first receiver
        // suffices.
        if let Some(source) = copy.source {
            let is_out = receivers.iter().any(|slot| self.is_outage_forwarded(*slot, now));
            self.record_gap((*first, is_out), source, copy.sequence_low, now);
        }
    }

    /// True if the relay has stored this packet with the same bytes. A restarted sender may use the
    /// same sequence number for another packet.
    fn is_stored_copy(&self, slot: FlowSlot, copy: &RelayedCopy<'_>, now: Time) -> bool {
        let active = self.flow(slot).and_then(|flow| flow.active());
        let packet = active.and_then(|active| active.packet(active.full_sequence(copy.sequence_low)));
        packet.and_then(|packet| self.log.get(packet, now)).is_some_and(|packet| packet == copy.coded)
    }

    fn store_or_deliver_copy(
        &mut self,
        slot: FlowSlot,
        copy: &RelayedCopy<'_>,
        packet: Handle,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let Some(flow) = find_flow(&mut self.flows, slot) else {
            return;
        };
        let service = flow.service;
        let is_forwarded = copy.is_forwarded || forwards(service);
        let active = flow.activate(now);
        let sequence = active.full_sequence(copy.sequence_low);
        let (log, memory, holder) = (&self.log, &self.memory, active.memory.holder());
        active.add_packet(sequence, packet, |packet| {
            log.get(packet, now).is_none() || !memory.has_capacity(holder)
        });
        self.memory.update_charge(&mut active.memory);
        active.relayed.is_forwarded = is_forwarded;
        self.sweeps.watch_idle(active, slot, now);
        if !is_forwarded {
            let is_fetched = active.missing.get(sequence).is_some_and(|missing| missing.is_fetched);
            if let Some(outage) = active.outage.as_mut().filter(|_| !is_fetched && fetches(service))
                && outage.should_repeat_end(sequence, now)
            {
                actions.push(Action::ReportOutage { flow: slot, is_active: false });
            }
            if matches!(service, Service::Caching | Service::Pull) {
                self.record_burst_end(slot, sequence, now);
            }
            self.on_repairable(slot, sequence, now, actions);
            if service == Service::Coding {
                self.add_fetched_copy((slot, sequence), packet, now, actions);
            }
            return;
        }
        // Forwarding the copy answers the receiver's earlier NACKs for it.
        if !active.nacked.is_empty() {
            self.memory.refresh_capacity(&mut active.memory);
            self.counters.refused_capacity += u64::from(active.accept_nacked(sequence, now) == Some(false));
            self.memory.update_charge(&mut active.memory);
        }
        if let Some(missing) = active.missing.get_mut(sequence) {
            missing.enter_stage(Stage::RepairSent, now);
            missing.is_repaired = true;
        }
        let counters = &mut self.counters;
        let (source, packets, bytes) = if copy.is_resent {
            (RepairSource::Resent, &mut counters.resent, &mut counters.resent_bytes)
        } else {
            (RepairSource::Forwarded, &mut counters.forwarded, &mut counters.forwarded_bytes)
        };
        *packets += 1;
        *bytes += packet.bytes() as u64;
        let ecn = copy.ecn;
        actions.push(Action::SendRepair { flow: slot, sequence, packet, source, ecn });
    }

    /// True if the relay forwarded the packet to the receiver so recently that a NACK for it may
    /// have crossed it.
    pub(super) fn is_in_flight(&self, slot: FlowSlot, sequence: SequenceNumber, now: Time) -> bool {
        let round_trip = self.flow(slot).map_or(Duration::ZERO, |flow| flow.round_trip);
        self.forwarded_at(slot, sequence).is_some_and(|at| may_be_in_flight(at, round_trip, now))
    }

    /// Returns the time at which the relay forwarded a packet to the receiver; `None` if the flow
    /// is not forwarded or the packet is unknown.
    pub(super) fn forwarded_at(&self, slot: FlowSlot, sequence: SequenceNumber) -> Option<Time> {
        let active = self.flow(slot)?.active().filter(|active| active.relayed.is_forwarded)?;
        self.log.stored_at(active.packet(sequence)?)
    }

    /// True if the copies of a coded or pulled flow arrive as a sequence, because of an outage or
    /// because the relay path is its only path. Any other copy of such a flow was fetched.
    pub(super) fn is_outage_forwarded(&self, slot: FlowSlot, now: Time) -> bool {
        let active = self.flow(slot).and_then(|flow| flow.active());
        let is_in_force =
            |active: &EgressFlowState| active.outage.is_some_and(|outage| outage.is_in_force(now));
        active.is_some_and(|active| active.relayed.is_forwarded || is_in_force(active))
    }

    /// Records the gap before a relayed copy, for a copy NACK, unless the copy was fetched alone.
    fn record_gap(
        &mut self,
        (slot, is_out): (FlowSlot, bool),
        source: CopySource,
        sequence_low: u32,
        now: Time,
    ) {
        let Some(flow) = find_flow(&mut self.flows, slot) else {
            return;
        };
        let is_fetched_from = fetches(flow.service);
        let Some(active) = flow.active_mut() else {
            return;
        };
        let sequence = active.full_sequence(sequence_low);
        let is_fetched = active.missing.get(sequence).is_some_and(|missing| missing.is_fetched);
        if is_fetched || (is_fetched_from && !is_out) {
            return;
        }
        if let Some((first, end)) = active.gap_before(sequence, source, is_fetched_from) {
            let retry = RetryTimer::new(now + COPY_REORDERING);
            self.add_copy_gap(CopyGap { retry, flow: slot, source, first, end, kind: GapKind::Lost });
        }
    }

    /// Returns the time of the next copy NACK to any ingress relay.
    pub(crate) fn copy_nack_at(&self) -> Option<Time> {
        self.copy_gaps.nack_at()
    }

    /// Returns the copies for the next due copy NACK. It drops gaps whose copies have all arrived,
    /// or were requested as often as allowed.
    pub(crate) fn next_copy_request(&mut self, now: Time) -> Option<CopyRequest> {
        while let Some(gap) = self.copy_gaps.pop(now) {
            let Some(active) = find_flow(&mut self.flows, gap.flow).and_then(|flow| flow.active_mut()) else {
                continue;
            };
            active.relayed.gaps = active.relayed.gaps.saturating_sub(1);
            if gap.kind == GapKind::OpenEnded && !active.begin_pulling(now) {
                continue;
            }
            if gap.retry.requests() == RELAYED_COPY_NACKS_MAX {
                active.clear_fetch(&gap);
                continue;
            }
            let numbers = (gap.first.number()..gap.end.number()).map(SequenceNumber::new);
            self.work.numbers += gap.end.number() - gap.first.number();
            let (mut missing, mut count) = (RangeSet::new(), 0);
            let is_needed = |sequence: &SequenceNumber| match gap.kind {
                GapKind::Uncovered => active.is_lost(*sequence) && !active.is_repairable(*sequence),
                _ => active.packet(*sequence).is_none(),
            };
            for sequence in numbers.filter(is_needed) {
                if !missing.insert(sequence) {
                    break;
                }
                count += 1;
            }
            if count > 0 {
                let is_exact = !matches!(gap.kind, GapKind::OpenEnded | GapKind::Uncovered);
                self.counters.copies_nacked += if is_exact { count } else { 0 };
                return Some(CopyRequest { source: gap.source, missing, gap });
            }
        }
        None
    }

    /// Schedules the next copy NACK for the same copies, to an ingress relay at this round trip.
    /// After the last one, the relay gives up.
    pub(crate) fn schedule_copy_retry(&mut self, request: &CopyRequest, round_trip: Duration, now: Time) {
        let CopyRequest { mut gap, .. } = *request;
        gap.retry.on_request(gap.retry_policy(), answer_timeout(round_trip), now);
        let is_watched = gap.retry.due() < Time::MAX && self.add_copy_gap(gap);
        if gap.kind == GapKind::Fetch
            && !is_watched
            && let Some(active) = find_flow(&mut self.flows, gap.flow).and_then(|flow| flow.active_mut())
        {
            active.clear_fetch(&gap);
        }
    }
}

impl EgressFlowState {
    /// Clears the marks of fetched packets that did not arrive. A decode attempt that lacks them,
    /// or another NACK, may fetch them again.
    fn clear_fetch(&mut self, gap: &CopyGap) {
        for sequence in (gap.first.number()..gap.end.number()).map(SequenceNumber::new) {
            let has_arrived = self.packet(sequence).is_some();
            if let Some(missing) = self.missing.get_mut(sequence).filter(|_| !has_arrived) {
                missing.is_fetched = false;
            }
        }
    }

    /// Records that the flow's copies are pulled from now on, because its open-ended NACK is still
    /// in force. Returns `false` if it is not, or if a repetition of it waited as well.
    fn begin_pulling(&mut self, now: Time) -> bool {
        let is_repetition =
            |outage: &OutageRange| outage.notified_at.is_some_and(|at| at < now && now < at + PULL_WAIT_MAX);
        let outage = self.outage.as_mut().filter(|outage| outage.to.is_none() && !is_repetition(outage));
        outage.map(|outage| outage.notified_at = Some(now)).is_some()
    }

    /// Returns the gap before a relayed copy: its first sequence number, and the copy's own as its
    /// end. The highest copy must be from the same source. Of a flow whose copies are fetched,
    /// ingress relays forward copies only during an outage.
    fn gap_before(
        &mut self,
        sequence: SequenceNumber,
        source: CopySource,
        is_fetched_from: bool,
    ) -> Option<(SequenceNumber, SequenceNumber)> {
        // Another relay forwards its own sequence of copies, and so does the same relay after the
        // flow began anew there.
        let before = self.relayed.highest.filter(|(known, highest)| {
            *known == source
                && highest.since(sequence).is_none_or(|behind| behind <= NACK_REACH)
                && (!is_fetched_from || sequence.since(*highest).is_none_or(|ahead| ahead <= CODED_GAP_MAX))
        });
        let first = match before {
            Some((_, highest)) if sequence <= highest => return None,
            Some((_, highest)) => highest.next(),
            // The flow begins at this relay, and lacks its first packets. Any other flow began
            // elsewhere.
            None if sequence.number() < FIRST_NUMBERS && !is_fetched_from => SequenceNumber::FIRST,
            None => sequence,
        };
        self.relayed.highest = Some((source, sequence));
        let oldest = SequenceNumber::new(sequence.number().saturating_sub(RELAYED_COPY_GAP_MAX));
        let first = first.max(oldest);
        (first < sequence).then_some((first, sequence))
    }
}
