//! Losses that egress relays report, and the redundancy that follows them.

use byway_units::Time;
use byway_wire::messages::{FlowLosses, LOSS_CLASSES};
use byway_wire::{SequenceNumber, Service};

use super::Ingress;
use super::flow::FlowSlot;
use super::sink::Sink;
use crate::parts::redundancy::Redundancy;

/// Most counts of a report that one packet can cause: as the only loss that is known at first, and
/// then in its batch with each further loss.
const COUNTS_PER_PACKET: u32 = 4;
const _: () = assert!(COUNTS_PER_PACKET as usize == LOSS_CLASSES, "one for each class");

impl Ingress {
    /// True if the redundancy of a coded flow's batches follows the losses.
    pub(crate) fn is_adaptive(&self, slot: FlowSlot) -> bool {
        self.flow(slot).is_some_and(|flow| {
            let is_adaptive = flow.registration.group.is_some_and(|group| group.is_adaptive);
            is_adaptive && flow.registration.service == Service::Coding
        })
    }

    /// Counts a copy of a coded flow, of which the egress relay may report the loss, and which may
    /// be the first one in an interval.
    pub(super) fn count_reportable(&mut self, slot: FlowSlot, sequence: SequenceNumber, now: Time) {
        if let Some(active) = self.flow_mut(slot).and_then(|flow| flow.active_mut()) {
            active.reportable = active.reportable.saturating_add(COUNTS_PER_PACKET);
            if !active.counted.contains(now) {
                self.begin_interval(slot, sequence, now);
            }
        }
    }

    /// Handles the losses of a flow that its egress relay reports. It ignores those of packets that
    /// the relay never received, because a receiver can name any sequence number.
    pub(crate) fn on_losses(&mut self, slot: FlowSlot, losses: &FlowLosses, now: Time) {
        let Some(active) = self.flow_mut(slot).and_then(|flow| flow.active_mut()) else {
            return;
        };
        let added: u32 = losses.losses.iter().map(|count| u32::from(count.max(&0).unsigned_abs())).sum();
        let is_counted = added <= active.reportable;
        active.reportable -= if is_counted { added } else { 0 };
        let lost: i64 = losses.losses.iter().map(|count| i64::from(*count)).sum();
        self.counters.losses_refused += u64::from(!is_counted);
        self.counters.losses_reported += if is_counted { lost.max(0).unsigned_abs() } else { 0 };
        let Some(redundancy) = self.redundancy_of(slot) else {
            return;
        };
        let counted = if is_counted { losses.losses } else { [0; LOSS_CLASSES] };
        if losses.queue_grows || counted != [0; LOSS_CLASSES] {
            redundancy.on_losses(slot.0, counted, losses.queue_grows, now);
        }
        if losses.is_open_ended {
            redundancy.on_open_ended_nack(now);
        }
    }

    /// True if the flow's blocks need no repair packets, because batches repair its losses or it
    /// has none.
    pub(super) fn skips_block(&mut self, slot: FlowSlot, sink: &impl Sink, now: Time) -> bool {
        if !self.is_adaptive(slot) {
            return false;
        }
        let next_hop = self.flow(slot).and_then(|flow| flow.next_hops.first());
        let reports_losses = next_hop.is_some_and(|next_hop| sink.reports_losses(next_hop.peer));
        let redundancy = self.redundancy_of(slot).filter(|_| reports_losses);
        redundancy.is_some_and(|redundancy| !redundancy.repairs_blocks(now))
    }

    /// Gives the batches of a flow at least the registered redundancy for a while, because its
    /// service has changed to coding, and its losses are unknown.
    pub(super) fn restart_redundancy(&mut self, slot: FlowSlot) {
        if self.is_adaptive(slot)
            && let Some(redundancy) = self.redundancy_of(slot)
        {
            redundancy.on_join();
        }
    }

    /// Returns the redundancy of a flow's batches; `None` if it is fixed.
    fn redundancy_of(&mut self, slot: FlowSlot) -> Option<&mut Redundancy> {
        let registration = &self.flow(slot)?.registration;
        let key = registration.group.filter(|key| key.is_adaptive)?;
        let class = registration.batching.class;
        self.group_mut(key)?.redundancy(class)
    }
}
