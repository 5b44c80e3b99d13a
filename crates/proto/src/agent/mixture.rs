//! Congestion losses in flows of mixed traffic: the agent leaves their recovery to the transports
//! that cause them.

use alloc::boxed::Box;

use byway_units::Time;
use byway_wire::Timestamp;

use super::Agent;
use super::receive_flow::ReceiveFlowId;
use super::settings::Traffic;
use crate::parts::loss_cause::LossCause;

/// Classifier of the losses on a received flow's direct path. Allocated for mixed traffic only.
#[derive(Clone, Debug, Default)]
pub(super) struct PathQueue(Option<Box<LossCause>>);

impl PathQueue {
    /// Updates the classifier with a packet of the direct path, by its time of sending.
    pub(super) fn sample(&mut self, sent: Timestamp, now: Time) {
        let queue = self.0.get_or_insert_with(|| Box::new(LossCause::new()));
        queue.on_packet(sent.micros(), Timestamp::at(now).micros(), now);
    }

    /// Returns true if packets queue on the path, so a loss is likely a drop at a full queue.
    /// `false` before the first packets.
    pub(super) fn is_standing(&self) -> bool {
        self.0.as_ref().is_some_and(|queue| queue.is_congestion())
    }
}

impl Agent {
    /// Excludes the losses that a packet reveals from NACKs if they are left to the senders'
    /// congestion control, and counts them. Packets behind them do not wait. They are left if
    /// packets queue on the direct path, or if no repair can arrive before the transports react.
    ///
    /// Outages are not excluded, because a full queue still delivers packets: the open-ended NACK
    /// covers them.
    pub(super) fn leave_congestion_losses(&mut self, id: ReceiveFlowId, now: Time) {
        let flow = &self.receivers[id.0 as usize];
        if flow.settings.traffic != Traffic::Mixture {
            return;
        }
        let is_too_late = self.reordering_hold(id, now).is_zero();
        let flow = &mut self.receivers[id.0 as usize];
        let Some(active) = flow.active_mut().filter(|active| is_too_late || active.path_queue.is_standing())
        else {
            return;
        };
        if let Some(range) = active.tracker.exclude_latest(now) {
            if let Some(order) = &mut active.reorder_buffer {
                order.abandon(range);
            }
            flow.statistics.congestion_losses += u64::from(range.length);
        }
    }
}
