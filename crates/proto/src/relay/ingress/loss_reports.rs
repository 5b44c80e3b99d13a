//! Losses that egress relays report, and the redundancy that follows them.

use byway_units::Time;
use byway_wire::messages::FlowLosses;

use super::flow::FlowSlot;
use super::sink::Sink;
use super::{CodingGroup, Ingress};
use crate::parts::redundancy::Redundancy;

impl Ingress {
    /// Counts a copy of a coded flow, of which the egress relay may report the loss.
    pub(super) fn count_reportable(&mut self, slot: FlowSlot) {
        if let Some(active) = self.flow_mut(slot).and_then(|flow| flow.active_mut()) {
            active.reportable = active.reportable.saturating_add(1);
        }
    }

    /// Handles the losses of a flow that its egress relay reports. It ignores those of packets that
    /// the relay never received, because a receiver can name any sequence number.
    pub(crate) fn on_losses(&mut self, slot: FlowSlot, losses: &FlowLosses, now: Time) {
        let Some(active) = self.flow_mut(slot).and_then(|flow| flow.active_mut()) else {
            return;
        };
        let lost: i32 = losses.losses.iter().map(|count| i32::from(*count)).sum();
        let counted = u16::try_from(lost.max(0)).ok().filter(|lost| *lost <= active.reportable);
        active.reportable -= counted.unwrap_or(0);
        self.counters.losses_refused += u64::from(counted.is_none());
        self.counters.losses_reported += u64::from(counted.unwrap_or(0));
        let Some(redundancy) = self.redundancy_of(slot) else {
            return;
        };
        // Growth counts first, because the losses beside it must not raise the redundancy.
        if losses.queue_grows {
            redundancy.on_queue_growth(now);
        }
        if counted.is_some() {
            redundancy.on_losses(losses.losses, now);
        }
        if losses.is_open_ended {
            redundancy.on_open_ended_nack(now);
        }
    }

    /// True if the flow's blocks need no repair packets, because batches repair its losses or it
    /// has none.
    pub(super) fn skips_block(&mut self, slot: FlowSlot, sink: &impl Sink, now: Time) -> bool {
        let next_hop = self.flow(slot).and_then(|flow| flow.next_hops.first());
        let reports_losses = next_hop.is_some_and(|next_hop| sink.reports_losses(next_hop.peer));
        let redundancy = self.redundancy_of(slot).filter(|_| reports_losses);
        redundancy.is_some_and(|redundancy| !redundancy.repairs_blocks(now))
    }

    /// Returns the redundancy of a flow's batches; `None` if it is fixed.
    fn redundancy_of(&mut self, slot: FlowSlot) -> Option<&mut Redundancy> {
        let registration = &self.flow(slot)?.registration;
        let key = registration.group.filter(|key| key.is_adaptive)?;
        let class = registration.batching.class;
        let is_own = |group: &&mut CodingGroup| group.key == key;
        self.groups.iter_mut().find(is_own)?.redundancy(class)
    }
}
