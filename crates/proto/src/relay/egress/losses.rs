//! Losses of coded flows, counted by the losses of their batches, for reports to ingress relays.
//!
//! A packet counts once, by the first NACK that names it. If its batch arrives later, it counts in
//! that batch from then on. Packets that an open-ended NACK covers count when their batch arrives,
//! because only then it is known that they exist. Losses while the queueing delay of the direct
//! path grows are no reason for more redundancy (RFC 9265), and are not counted.

use alloc::collections::BTreeMap;

use byway_units::Time;
use byway_wire::messages::LOSS_CLASSES;
use byway_wire::{SequenceNumber, Service};

use super::feedback::batch_index;
use super::flow::{BatchRef, EgressFlowState, FlowSlot};
use super::{BatchEntry, Egress, find_flow};
use crate::limits::LOSS_REPORT_INTERVAL;
use crate::parts::redundancy::LossesByBatch;

/// Losses of a flow that the relay has not reported yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowLossCount {
    pub(crate) losses: LossesByBatch,
    pub(crate) is_open_ended: bool,
    pub(crate) queue_grows: bool,
}

/// Losses of all flows that the relay has not reported yet, and the time of the latest report.
#[derive(Debug, Default)]
pub(super) struct UnreportedLosses {
    flows: BTreeMap<FlowSlot, FlowLossCount>,
    reported_at: Option<Time>,
}

impl FlowLossCount {
    /// Counts a packet as the only loss of its batch.
    fn add_alone(&mut self, packets: u64) {
        let packets = i16::try_from(packets).unwrap_or(i16::MAX);
        self.losses[0] = self.losses[0].saturating_add(packets);
    }

    /// Counts a packet of a batch that had `before` losses. Those move on with it.
    fn add_to_batch(&mut self, before: u32) {
        let class = |losses: u32| (losses as usize).clamp(1, LOSS_CLASSES) - 1;
        let count = i16::try_from(before).unwrap_or(i16::MAX);
        if before > 0 {
            let left = &mut self.losses[class(before)];
            *left = left.saturating_sub(count);
        }
        let joined = &mut self.losses[class(before + 1)];
        *joined = joined.saturating_add(count.saturating_add(1));
    }
}

/// Returns the time of the next loss report; `None` without losses to report.
pub(crate) fn loss_report_at(egress: &Egress) -> Option<Time> {
    let UnreportedLosses { flows, reported_at } = &egress.unreported;
    (!flows.is_empty()).then(|| reported_at.map_or(Time::START, |at| at + LOSS_REPORT_INTERVAL))
}

/// Returns the losses to report, if a report is due. They count as reported.
pub(crate) fn drain_losses(egress: &mut Egress, now: Time) -> BTreeMap<FlowSlot, FlowLossCount> {
    if loss_report_at(egress).is_none_or(|at| at > now) {
        return BTreeMap::new();
    }
    egress.unreported.reported_at = Some(now);
    let mut flows = core::mem::take(&mut egress.unreported.flows);
    for (slot, count) in &mut flows {
        let outage = egress.flow(*slot).and_then(|flow| flow.active()?.outage);
        count.is_open_ended = outage.is_some_and(|outage| outage.to.is_none());
    }
    flows
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
    let count = egress.unreported.flows.entry(slot).or_default();
    if queue_grows {
        count.queue_grows = true;
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
    let count = egress.unreported.flows.entry(slot).or_default();
    count.add_alone((last - first + 1).saturating_sub(covered));
}

/// Records that an open-ended NACK of a coded flow is in force, for the next loss report.
pub(super) fn count_open_ended(egress: &mut Egress, slot: FlowSlot) {
    if egress.flow(slot).is_some_and(|flow| flow.service == Service::Coding) {
        egress.unreported.flows.entry(slot).or_default();
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
            let count = egress.unreported.flows.entry(slot).or_default();
            count.losses[0] = count.losses[0].saturating_sub(1);
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
        egress.unreported.flows.entry(slot).or_default().add_to_batch(before);
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
