//! Losses of coded flows, counted by the losses of their batches, for reports to ingress relays.
//!
//! A packet counts once, by the first NACK that names it. If its batch arrives later, it counts in
//! that batch from then on. Packets that an open-ended NACK covers count once they can no longer be
//! in flight. Those of a silence that is longer than bursts of losses do not count, because the
//! report of the open-ended NACK raises the redundancy while the silence lasts. Losses while the
//! queueing delay of the direct path grows are no reason for more redundancy (RFC 9265), and are
//! not counted.

use alloc::vec::Vec;

use byway_units::Time;
use byway_wire::{SequenceNumber, Service};

use super::counted_losses::FlowLossCount;
use super::feedback::batch_index;
use super::flow::{BatchRef, EgressFlowState, FlowSlot};
use super::outage::OutageRange;
use super::{BatchEntry, Egress, find_flow};
use crate::limits::{COUNTED_SILENCE_MAX, LOSS_REPORT_INTERVAL};

/// Flows with losses that the relay has not reported yet, and the time of the latest report.
#[derive(Debug, Default)]
pub(super) struct UnreportedLosses {
    /// Flows with a count.
    flows: Vec<FlowSlot>,
    /// Flows of the report that is being sent.
    due: Vec<FlowSlot>,
    reported_at: Option<Time>,
}

/// Returns the time of the next loss report; `None` without losses to report.
pub(crate) fn loss_report_at(egress: &Egress) -> Option<Time> {
    let UnreportedLosses { flows, due, reported_at } = &egress.unreported;
    if !due.is_empty() {
        return Some(Time::START);
    }
    (!flows.is_empty()).then(|| reported_at.map_or(Time::START, |at| at + LOSS_REPORT_INTERVAL))
}

/// Begins a loss report, if one is due and the one before is complete. Returns true if there are
/// flows to report.
pub(crate) fn begin_loss_report(egress: &mut Egress, now: Time) -> bool {
    let is_due = loss_report_at(egress).is_some_and(|at| at <= now);
    let unreported = &mut egress.unreported;
    if is_due && unreported.due.is_empty() {
        core::mem::swap(&mut unreported.flows, &mut unreported.due);
        unreported.reported_at = Some(now);
    }
    is_due
}

/// Returns the losses of the next flow to report. They count as reported. A flow with an open-ended
/// NACK in force is in the next report, too.
pub(crate) fn pop_losses(egress: &mut Egress, now: Time) -> Option<(FlowSlot, FlowLossCount)> {
    while let Some(slot) = egress.unreported.due.pop() {
        let active = find_flow(&mut egress.flows, slot).and_then(|flow| flow.active_mut());
        let Some((active, mut count)) =
            active.and_then(|active| active.missing.unreported.take().map(|count| (active, count)))
        else {
            continue;
        };
        count.is_open_ended = active.outage.is_some_and(|outage| outage.is_open(now));
        if count.is_open_ended {
            active.missing.unreported = Some(FlowLossCount::default());
            egress.unreported.flows.push(slot);
        }
        return Some((slot, count));
    }
    None
}

/// Returns the count of a flow for the next report; `None` if the relay has no state of it.
fn count_of(egress: &mut Egress, slot: FlowSlot) -> Option<&mut FlowLossCount> {
    let unreported = &mut find_flow(&mut egress.flows, slot)?.active_mut()?.missing.unreported;
    if unreported.is_none() {
        egress.unreported.flows.push(slot);
    }
    Some(unreported.get_or_insert_default())
}

/// Counts the packets of a range that no NACK has named before: each in its batch, or alone.
pub(super) fn count_nacked(
    egress: &mut Egress,
    slot: FlowSlot,
    range: (SequenceNumber, SequenceNumber),
    queue_grows: bool,
    now: Time,
) {
    let Some(flow) = find_flow(&mut egress.flows, slot).filter(|flow| flow.service == Service::Coding) else {
        return;
    };
    let active = flow.activate(now);
    let Some((first, last)) = active.missing.counted.add(range, queue_grows) else {
        return;
    };
    if queue_grows {
        if let Some(count) = count_of(egress, slot) {
            count.queue_grows = true;
        }
        return;
    }
    let range = (SequenceNumber::new(first), SequenceNumber::new(last));
    let known = active.known_range(range);
    let known = known.into_iter().flat_map(|(first, last)| first.number()..=last.number());
    let mut covered = 0;
    for number in known {
        egress.work.numbers += 1;
        let sequence = SequenceNumber::new(number);
        let batch = egress.flow(slot).and_then(|flow| flow.active()?.sources(sequence).batches[0]);
        let is_known = batch.and_then(|batch| count_in_batch(egress, batch, slot, sequence)).is_some();
        covered += u64::from(is_known);
    }
    if let Some(count) = count_of(egress, slot) {
        count.add_alone((last - first + 1).saturating_sub(covered));
    }
}

/// Records that an open-ended NACK of a coded flow is in force, for the next loss report.
pub(super) fn count_open_ended(egress: &mut Egress, slot: FlowSlot) {
    let _ = count_of(egress, slot);
}

/// Counts a packet that an open-ended NACK covers, and that can no longer be in flight.
pub(super) fn count_in_outage(egress: &mut Egress, slot: FlowSlot, sequence: SequenceNumber) {
    let Some(flow) = egress.flow(slot).filter(|flow| flow.service == Service::Coding) else {
        return;
    };
    let batch = flow.active().and_then(|active| active.sources(sequence).batches[0]);
    if let Some(batch) = batch {
        let _ = count_in_batch(egress, batch, slot, sequence);
    }
}

/// Excludes the packets of an outage that is over from the losses, if it was long. Ranges may still
/// name them.
pub(super) fn exclude_outage(active: &mut EgressFlowState, end: SequenceNumber, now: Time) {
    let lasts = |outage: OutageRange| outage.to.is_none() && outage.age(now) >= COUNTED_SILENCE_MAX;
    if active.outage.is_some_and(lasts) {
        active.missing.counted.skip_to(end);
    }
}

/// Counts the packets of a new batch that receivers requested by ranges before.
pub(super) fn count_in_new_batch(egress: &mut Egress, batch: BatchRef, entries: &[BatchEntry], now: Time) {
    for entry in entries {
        let Some((slot, flow)) = entry.flow.and_then(|slot| Some((slot, egress.flow(slot)?))) else {
            continue;
        };
        let is_coded = flow.service == Service::Coding;
        if !flow.active().is_some_and(|active| is_coded && was_counted_alone(active, entry.sequence, now)) {
            continue;
        }
        if count_in_batch(egress, batch, slot, entry.sequence) == Some(true)
            && let Some(count) = count_of(egress, slot)
        {
            count.losses[0] = count.losses[0].saturating_sub(1);
        }
    }
}

/// Counts a lost packet in its batch. Returns `None` if the batch is gone, and `Some(false)` if it
/// has counted the packet before.
fn count_in_batch(
    egress: &mut Egress,
    batch: BatchRef,
    slot: FlowSlot,
    sequence: SequenceNumber,
) -> Option<bool> {
    let batches = egress.batches.get_mut(usize::from(batch.ingress))?;
    let entries = batches.get(batch.number)?.entries;
    let index = batch_index(batches.entries(entries), slot, sequence)?;
    let known = batches.get_mut(batch.number)?;
    let (before, bit) = (known.lost.count_ones(), 1 << index);
    let is_new = known.lost & bit == 0;
    if is_new {
        known.lost |= bit;
        if let Some(count) = count_of(egress, slot) {
            count.add_to_batch(before);
        }
    }
    Some(is_new)
}

/// True if a range of a NACK waits for this packet, so that it counted alone.
fn was_counted_alone(active: &EgressFlowState, sequence: SequenceNumber, now: Time) -> bool {
    active.nacked.covering(sequence, now).is_some() && active.missing.counted.is_counted(sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_with_another_loss_moves_to_the_next_class() {
        let mut count = FlowLossCount::default();
        (0..3).for_each(|before| count.add_to_batch(before));
        assert_eq!(count.losses, [0, 0, 3, 0]);
        (3..7).for_each(|before| count.add_to_batch(before));
        assert_eq!(count.losses, [0, 0, 0, 7]);
    }
}
