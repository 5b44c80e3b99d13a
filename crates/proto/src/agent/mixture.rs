//! Congestion losses in flows of mixed traffic: the agent leaves their recovery to the transports
//! that cause them.

use byway_units::Time;

use super::Agent;
use super::receive_flow::ReceiveFlowId;
use super::settings::Traffic;

impl Agent {
    /// Excludes the losses that a packet reveals from NACKs if they are left to the senders'
    /// congestion control, and counts them. Packets behind them do not wait. They are left if they
    /// are congestion, or if no repair can arrive before the transports react.
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
        let Some(active) = flow.active_mut() else {
            return;
        };
        let is_congestion = active.path_queue.on_loss(now);
        if !is_congestion && !is_too_late {
            return;
        }
        if let Some(range) = active.tracker.exclude_latest(now) {
            if let Some(order) = &mut active.reorder_buffer {
                order.abandon(range);
            }
            flow.statistics.congestion_losses += u64::from(range.length);
        }
    }
}
