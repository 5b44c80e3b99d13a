//! Congestion losses in flows of mixed traffic: the agent leaves their recovery to the transports
//! that cause them.

use alloc::boxed::Box;

use byway_units::{Duration, Time};
use byway_wire::Timestamp;

use super::Agent;
use super::receive_flow::ReceiveFlowId;
use crate::parts::queue_delay::QueueDelay;

/// Least queueing delay at which a path's losses count as congestion. AQM allows 5 ms (RFC 8289);
/// jitter hides smaller queues.
const STANDING_QUEUE_MIN: Duration = Duration::from_millis(10);

/// Queueing delay of a received flow's direct path. Allocated for mixed traffic only.
#[derive(Clone, Debug, Default)]
pub(super) struct PathQueue(Option<Box<QueueDelay>>);

impl PathQueue {
    /// Updates the queueing delay with a packet of the direct path, by its time of sending.
    pub(super) fn sample(&mut self, sent: Timestamp, now: Time) {
        let queue = self.0.get_or_insert_with(|| Box::new(QueueDelay::new()));
        queue.sample(sent.micros(), Timestamp::at(now).micros(), now);
    }

    /// Returns true if packets queue on the path, so a loss is likely a drop at a full queue.
    /// `false` before the first packets.
    pub(super) fn is_standing(&self) -> bool {
        let delay = self.0.as_ref().and_then(|queue| queue.delay());
        delay.is_some_and(|delay| delay >= STANDING_QUEUE_MIN)
    }
}

impl Agent {
    /// Excludes due losses of a flow from NACKs while packets queue on its direct path, and counts
    /// them. Outages are not excluded, because a full queue still delivers packets: the open-ended
    /// NACK covers them.
    pub(super) fn exclude_congestion_losses(&mut self, id: ReceiveFlowId, now: Time) {
        let flow = &mut self.receivers[id.0 as usize];
        let Some(active) = flow.active_mut().filter(|active| active.path_queue.is_standing()) else {
            return;
        };
        let left = active.tracker.exclude_due(now);
        flow.statistics.congestion_losses += left;
    }
}
