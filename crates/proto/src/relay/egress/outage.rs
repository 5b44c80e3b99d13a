//! Open-ended NACKs: a receiver reports every packet from a sequence number on as missing, until
//! the direct path delivers again.
//!
//! Copies that reached the relay before the direct path delivered may cover more packets than were
//! due when the receiver detected the silence. These packets may be in flight. The relay declares
//! each packet lost a time T after its repair packets arrive; T is the delay observed for the first
//! one. The receiver would have acknowledged a delivered packet by then. If the silence continues
//! for [`IN_FLIGHT_FOR`], it is an outage, and the relay no longer waits.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use arrayvec::ArrayVec;
use byway_units::{Duration, Time};
use byway_wire::SequenceNumber;
use byway_wire::messages::Mask;

use super::Egress;
use super::action::Action;
use super::decode_failure_rate::DecodeFailureRate;
use super::feedback::NackRequest;
use super::flow::FlowSlot;
use super::losses::{count_in_outage, count_open_ended, exclude_outage};
use super::missing::Stage;
use crate::limits::{
    BATCH_PACKETS_MAX, COUNTED_SILENCE_MAX, IN_FLIGHT_FOR, IN_FLIGHT_MAX, LOSS_REPORT_BELIEVED_FOR,
    OPEN_ENDED_BACKLOG_MAX, OUTAGE_AFTER, OUTAGE_BELIEVED_FOR, OUTAGE_INTERVAL,
};

/// Range of an open-ended NACK: every packet from one sequence number on is missing, until an ACK.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutageRange {
    pub(crate) from: SequenceNumber,
    /// First packet that the direct path delivered again, according to an ACK; `None` while the
    /// outage lasts.
    pub(crate) to: Option<SequenceNumber>,
    /// Repair lifetime of each packet, from the time at which the relay can repair it.
    pub(crate) repair_lifetime: Duration,
    /// Arrival time of the outage's first NACK.
    pub(crate) since: Time,
    /// Arrival time of its latest NACK, or of the latest repair packets for a packet of it.
    pub(super) confirmed_at: Time,
    /// True if its packets count as losses, because the redundancy of their batches adapts to them.
    is_adaptive: bool,
    /// Time from the arrival of the first packet's repair packets at the relay to the outage's
    /// first NACK.
    repair_lead: Duration,
    /// Time of the latest outage report to the ingress relay.
    pub(crate) notified_at: Option<Time>,
    /// Time of the latest report to that relay that the outage is over.
    end_notified_at: Option<Time>,
    /// True if the receiver certainly misses packets: one was repairable when its NACK arrived, or
    /// it repeated the NACK.
    pub(crate) certain: bool,
    /// Failure rate of cooperative recovery in this outage.
    pub(super) decode_failures: DecodeFailureRate,
}

impl OutageRange {
    /// True if the relay has to report the outage to the ingress relay now, first or again. Either
    /// it has no copies of the flow (`is_pulled`), or cooperative recovery fails too often. Records
    /// the time of the report. The ingress relay then forwards the packets whole.
    pub(super) fn should_report(&mut self, is_pulled: bool, now: Time) -> bool {
        let is_recent =
            self.notified_at.is_some_and(|notified_at| now.saturating_since(notified_at) < OUTAGE_INTERVAL);
        let is_undecodable = self.certain && self.age(now) >= OUTAGE_AFTER && self.decode_failures.is_high();
        let needs_copies = is_pulled || is_undecodable;
        let is_due = self.to.is_none() && needs_copies && !is_recent;
        if is_due {
            self.notified_at = Some(now);
        }
        is_due
    }

    /// True if the relay has to report the end of the outage to the ingress relay again. That relay
    /// still forwards packets: the report was lost, or overtook an earlier one. Records the time of
    /// the report.
    pub(super) fn should_repeat_end(&mut self, sequence: SequenceNumber, now: Time) -> bool {
        let is_past = self.to.is_some_and(|to| sequence >= to);
        let is_due = is_past && self.end_notified_at.is_some_and(|at| at + OUTAGE_INTERVAL <= now);
        if is_due {
            self.end_notified_at = Some(now);
        }
        is_due
    }

    /// True if the outage lasts: the flow has not paused, and there was no ACK.
    pub(super) fn is_open(&self, now: Time) -> bool {
        self.to.is_none() && now < self.confirmed_at + LOSS_REPORT_BELIEVED_FOR
    }

    /// Returns the time since the first NACK.
    pub(super) fn age(&self, now: Time) -> Duration {
        now.saturating_since(self.since)
    }

    /// True if the ingress relay acts on the latest outage report and forwards the flow's packets.
    pub(super) fn is_in_force(&self, now: Time) -> bool {
        self.notified_at.is_some_and(|notified_at| now < notified_at + OUTAGE_BELIEVED_FOR)
    }

    /// True if the open-ended NACK reports this packet missing.
    pub(crate) fn covers(&self, sequence: SequenceNumber) -> bool {
        sequence >= self.from && self.to.is_none_or(|to| sequence < to)
    }

    /// Returns the time at which a covered packet counts as lost. `received_at` is the arrival time
    /// of its repair packets at the relay.
    pub(super) fn lost_at(&self, received_at: Time, now: Time) -> Time {
        // If the path delivers again, all earlier packets are lost. A long silence is no burst of
        // losses.
        if self.to.is_some() { now } else { (received_at + self.repair_lead).min(self.since + IN_FLIGHT_FOR) }
    }
}

/// Packets of all flows that open-ended NACKs cover and that may be in flight, with the time at
/// which each counts as lost. A repeated NACK changes nothing.
#[derive(Debug, Default)]
pub(super) struct InFlightPackets {
    lost_at: BTreeMap<(FlowSlot, SequenceNumber), Time>,
    by_time: BTreeSet<(Time, FlowSlot, SequenceNumber)>,
}

impl InFlightPackets {
    /// Adds a packet, unless it is in the table already. Returns `false` if the table has
    /// [`IN_FLIGHT_MAX`] packets.
    pub(super) fn add(&mut self, lost_at: Time, slot: FlowSlot, sequence: SequenceNumber) -> bool {
        if self.lost_at.contains_key(&(slot, sequence)) {
            return true;
        }
        let has_capacity = self.lost_at.len() < IN_FLIGHT_MAX;
        if has_capacity {
            self.lost_at.insert((slot, sequence), lost_at);
            self.by_time.insert((lost_at, slot, sequence));
        }
        has_capacity
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.lost_at.len()
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.by_time.first().map(|(at, ..)| *at)
    }

    fn pop(&mut self, now: Time) -> Option<(FlowSlot, SequenceNumber)> {
        self.next().filter(|at| *at <= now)?;
        let (_, slot, sequence) = self.by_time.pop_first()?;
        self.lost_at.remove(&(slot, sequence));
        Some((slot, sequence))
    }
}

impl Egress {
    /// Handles an open-ended NACK: repairs at once the packets that count as lost, and the others
    /// when they can no longer be in flight.
    pub(super) fn on_open_ended_nack(
        &mut self,
        request: &NackRequest<'_>,
        from: SequenceNumber,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        self.counters.nacks_open_ended += 1;
        let Some(flow) = self.flow_mut(request.flow) else {
            return;
        };
        // If the sender copies only after a loss, the relay may have nothing of the flow yet. The
        // NACK then applies to later copies.
        let active = flow.activate(now);
        let highest = active.highest;
        let evident = highest >= from;
        let continued = active.outage.filter(|outage| outage.to.is_none());
        let certain = request.certain || evident || continued.is_some_and(|outage| outage.certain);
        let repair_lifetime = request.repair_lifetime;
        let outage = if let Some(outage) = continued {
            OutageRange { from, repair_lifetime, certain, confirmed_at: now, ..outage }
        } else {
            let repair_lead = self.repair_lead(request.flow, (from, highest), now);
            let decode_failures = DecodeFailureRate::default();
            OutageRange {
                from,
                to: None,
                repair_lifetime,
                since: now,
                confirmed_at: now,
                is_adaptive: request.is_adaptive,
                repair_lead,
                notified_at: None,
                end_notified_at: None,
                certain,
                decode_failures,
            }
        };
        if let Some(active) = self.flow_mut(request.flow).and_then(|flow| flow.active_mut()) {
            active.outage = Some(outage);
        }
        // A queue that grows is no reason for more repair packets (RFC 9265).
        if request.is_adaptive && !request.queue_grows {
            count_open_ended(self, request.flow);
        }
        self.watch_idle(request.flow, now);
        self.pull_open_ended(request, from, now);
        if !evident {
            return;
        }
        let oldest = SequenceNumber::new(highest.number().saturating_sub(OPEN_ENDED_BACKLOG_MAX));
        let mut sequence = from.max(oldest);
        while sequence <= highest {
            self.work.numbers += 1;
            self.await_or_mark_lost((request.flow, sequence), outage, now, actions);
            sequence = sequence.plus(1);
        }
    }

    /// Returns the age of the repair packets of the first of these packets that has any; zero if
    /// none has.
    fn repair_lead(
        &self,
        slot: FlowSlot,
        (from, highest): (SequenceNumber, SequenceNumber),
        now: Time,
    ) -> Duration {
        let last = highest.min(from.plus(OPEN_ENDED_BACKLOG_MAX));
        let mut numbers = (from.number()..=last.number()).map(SequenceNumber::new);
        let received_at = numbers.find_map(|sequence| self.repair_received_at(slot, sequence));
        received_at.map_or(Duration::ZERO, |received_at| now.saturating_since(received_at))
    }

    /// Returns the arrival time of the packet's copy at the relay, or else of the first repair
    /// packet that covers it.
    fn repair_received_at(&self, slot: FlowSlot, sequence: SequenceNumber) -> Option<Time> {
        let active = self.flow(slot)?.active()?;
        let sources = active.sources(sequence);
        let of_batch = sources
            .batches
            .into_iter()
            .flatten()
            .find_map(|batch| self.batch(batch)?.repairs().next().map(|repair| repair.payload));
        let of_block = || {
            let block = active.blocks.covering(sequence)?;
            active.blocks.repairs(block).next().map(|repair| repair.payload)
        };
        self.log.stored_at(sources.packet.or(of_batch).or_else(of_block)?)
    }

    /// Repairs a packet that an open-ended NACK covers, or waits while the direct path may still
    /// deliver it.
    fn await_or_mark_lost(
        &mut self,
        (slot, sequence): (FlowSlot, SequenceNumber),
        outage: OutageRange,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let lost_at = self
            .repair_received_at(slot, sequence)
            .map_or(now, |received_at| outage.lost_at(received_at, now));
        if lost_at <= now || !self.in_flight.add(lost_at, slot, sequence) {
            self.mark_lost_in_outage((slot, sequence), outage, now, actions);
        }
    }

    /// Repairs the packets under open-ended NACKs that by now can no longer be in flight on the
    /// direct path.
    pub(super) fn expire_in_flight(&mut self, now: Time, actions: &mut Vec<Action>) {
        while let Some((slot, sequence)) = self.in_flight.pop(now) {
            let outage = self.flow(slot).and_then(|flow| flow.active()).and_then(|active| active.outage);
            if let Some(outage) = outage.filter(|outage| outage.covers(sequence)) {
                self.mark_lost_in_outage((slot, sequence), outage, now, actions);
            }
        }
    }

    /// Records a packet under an open-ended NACK as missing, and repairs it. It leaves out
    /// forwarded packets and those repaired before.
    fn mark_lost_in_outage(
        &mut self,
        (flow, sequence): (FlowSlot, SequenceNumber),
        outage: OutageRange,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        // The packet was forwarded after the outage began. If it is lost, a range names it. The
        // outage may be over: its ACK may be lost, or may have overtaken the NACK.
        if self.forwarded_at(flow, sequence).is_some_and(|at| at >= outage.since) {
            return;
        }
        if outage.is_adaptive && outage.age(now) < COUNTED_SILENCE_MAX {
            count_in_outage(self, flow, sequence);
        }
        let Some(active) = self.flow(flow).and_then(|flow| flow.active()) else {
            return;
        };
        let is_under_repair = active
            .missing
            .get(sequence)
            .is_some_and(|missing| !matches!(missing.stage, Stage::Waiting | Stage::Confirming));
        // A repeated open-ended NACK does not ask again for packets that were repaired meanwhile.
        // The receiver requests lost repairs by ranges.
        if !is_under_repair && active.repair_count(sequence) == 0 {
            self.counters.packets_nacked += 1;
            self.mark_missing(flow, sequence, (now + outage.repair_lifetime, true), now);
            self.watch_expiry(flow, now + outage.repair_lifetime);
            self.repair_recorded(flow, sequence, now, actions);
        }
    }

    /// Handles an ACK: the direct path delivers again, from this packet on. Repairs the packets
    /// before it, for which the stored repair packets may now suffice, and ends an outage report.
    /// A repeated ACK changes nothing: packets from it on may be missing for another reason.
    pub(crate) fn on_ack(
        &mut self,
        slot: FlowSlot,
        from: SequenceNumber,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let Some(active) = self.flow_mut(slot).and_then(|flow| flow.active_mut()) else {
            return;
        };
        if !active.nacked.acknowledge(from) {
            return;
        }
        let is_reported = |outage: &&mut OutageRange| outage.notified_at.is_some() && outage.to.is_none();
        if let Some(outage) = active.outage.as_mut().filter(is_reported) {
            outage.end_notified_at = Some(now);
            actions.push(Action::ReportOutage { flow: slot, is_active: false });
        }
        exclude_outage(active, from, now);
        active.nacked.truncate(from);
        let is_kept = |outage: &OutageRange| outage.from < from || outage.end_notified_at.is_some();
        active.outage = active.outage.filter(is_kept);
        if let Some(outage) = &mut active.outage {
            outage.to = Some(outage.to.map_or(from, |to| to.min(from)));
            // The receiver has received a later packet without these.
            outage.certain = true;
            active.missing.confirm_lost(outage.from, from, now);
            active.nacked.confirm_lost(outage.from, from);
        }
        active.missing.remove_waiting(from);
        let block_before = SequenceNumber::new(from.number().saturating_sub(Mask::SPAN_MAX));
        let missing = active.missing.within(block_before, from);
        let waiting = missing.filter(|missing| missing.stage == Stage::Waiting);
        let waiting: ArrayVec<SequenceNumber, BATCH_PACKETS_MAX> =
            waiting.map(|missing| missing.sequence).take(BATCH_PACKETS_MAX).collect();
        let outage = active.outage;
        for sequence in waiting {
            self.repair(slot, sequence, now, actions);
        }
        if let Some(outage) = outage {
            self.mark_in_flight_lost(slot, outage, now, actions);
        }
    }

    /// Repairs the packets of the outage before the acknowledged one, because none of them can
    /// still be in flight.
    fn mark_in_flight_lost(
        &mut self,
        slot: FlowSlot,
        outage: OutageRange,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let highest =
            self.flow(slot).and_then(|flow| flow.active()).map_or(outage.from, |active| active.highest);
        let end = outage.to.map_or(highest, |to| to.min(highest.next()));
        let oldest = SequenceNumber::new(end.number().saturating_sub(OPEN_ENDED_BACKLOG_MAX));
        let mut sequence = outage.from.max(oldest);
        while sequence < end {
            self.work.numbers += 1;
            self.mark_lost_in_outage((slot, sequence), outage, now, actions);
            sequence = sequence.plus(1);
        }
    }
}
