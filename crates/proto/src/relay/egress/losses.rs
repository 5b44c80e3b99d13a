//! Losses of coded flows, counted by the losses of their batches, for reports to ingress relays.
//!
//! A packet counts once, by the first NACK that names it. If its batch arrives later, it counts in
//! that batch from then on. Packets that an open-ended NACK covers count when their batch arrives,
//! because only then it is known that they exist. Losses while the queueing delay of the direct
//! path grows are no reason for more redundancy (RFC 9265), and are not counted.

use alloc::vec::Vec;

use byway_units::Time;
use byway_wire::{SequenceNumber, Service};

use super::counted_losses::FlowLossCount;
use super::feedback::batch_index;
use super::flow::{BatchRef, EgressFlowState, FlowSlot};
use super::{BatchEntry, Egress, find_flow};
use crate::limits::LOSS_REPORT_INTERVAL;

/// Flows with losses that the relay has not reported yet, and the time of the latest report.
#[derive(Debug, Default)]
pub(super) struct UnreportedLosses {
    /// Each flow once, while it has a count.
    flows: Vec<FlowSlot>,
    reported_at: Option<Time>,
}

/// Returns the time of the next loss report; `None` without losses to report.
pub(crate) fn loss_report_at(egress: &Egress) -> Option<Time> {
    let UnreportedLosses { flows, reported_at } = &egress.unreported;
    (!flows.is_empty()).then(|| reported_at.map_or(Time::START, |at| at + LOSS_REPORT_INTERVAL))
}

/// Begins a loss report; returns false if none is due.
pub(crate) fn begin_loss_report(egress: &mut Egress, now: Time) -> bool {
    let is_due = loss_report_at(egress).is_some_and(|at| at <= now);
    if is_due {
        egress.unreported.reported_at = Some(now);
    }
    is_due
}

/// Returns the losses of the next flow to report. They count as reported.
pub(crate) fn pop_losses(egress: &mut Egress) -> Option<(FlowSlot, FlowLossCount)> {
    while let Some(slot) = egress.unreported.flows.pop() {
        let active = find_flow(&mut egress.flows, slot).and_then(|flow| flow.active_mut());
        let Some((active, mut count)) =
            active.and_then(|active| active.missing.unreported.take().map(|count| (active, count)))
        else {
            continue;
        };
        count.is_open_ended = active.outage.is_some_and(|outage| outage.to.is_none());
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
        covered += u64::from(batch.is_some_and(|batch| count_in_batch(egress, batch, slot, sequence)));
    }
    if let Some(count) = count_of(egress, slot) {
        count.add_alone((last - first + 1).saturating_sub(covered));
    }
}

/// Records that an open-ended NACK of a coded flow is in force, for the next loss report.
pub(super) fn count_open_ended(egress: &mut Egress, slot: FlowSlot) {
    if egress.flow(slot).is_some_and(|flow| flow.service == Service::Coding) {
        let _ = count_of(egress, slot);
    }
}

/// Counts the packets of a new batch that their receivers have lost.
pub(super) fn count_in_new_batch(egress: &mut Egress, batch: BatchRef, entries: &[BatchEntry], now: Time) {
    for entry in entries {
        let Some((slot, flow)) = entry.flow.and_then(|slot| Some((slot, egress.flow(slot)?))) else {
            continue;
        };
        let is_coded = flow.service == Service::Coding;
        let Some(active) = flow.active().filter(|active| is_coded && is_lost(active, entry.sequence)) else {
            continue;
        };
        let was_alone = active.nacked.covering(entry.sequence, now).is_some();
        if count_in_batch(egress, batch, slot, entry.sequence) && was_alone {
            if let Some(count) = count_of(egress, slot) {
                count.losses[0] = count.losses[0].saturating_sub(1);
            }
        }
    }
}

/// Counts a lost packet in its batch. Returns `false` if the batch is gone, or has counted it.
fn count_in_batch(egress: &mut Egress, batch: BatchRef, slot: FlowSlot, sequence: SequenceNumber) -> bool {
    let Some(batches) = egress.batches.get_mut(usize::from(batch.ingress)) else {
        return false;
    };
    let index = batches
        .get(batch.number)
        .and_then(|known| batch_index(batches.entries(known.entries), slot, sequence));
    let Some((index, known)) = index.zip(batches.get_mut(batch.number)) else {
        return false;
    };
    let (before, bit) = (known.lost.count_ones(), 1 << index);
    let is_new = known.lost & bit == 0;
    if is_new {
        known.lost |= bit;
        if let Some(count) = count_of(egress, slot) {
            count.add_to_batch(before);
        }
    }
    is_new
}

/// True if the receiver has lost this packet, and not because a queue grew.
fn is_lost(active: &EgressFlowState, sequence: SequenceNumber) -> bool {
    active.is_lost(sequence) && !active.missing.counted.is_excluded(sequence)
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
