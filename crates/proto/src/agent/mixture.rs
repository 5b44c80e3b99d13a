//! Losses of congestion within flows of which nobody knows what they carry: they are left to those who cause them.

use alloc::boxed::Box;

use byway_units::{Duration, Time};
use byway_wire::Timestamp;

use super::Agent;
use super::receive_flow::ReceiveFlowId;
use crate::parts::queue_delay::QueueDelay;

/// A queue this long stands: routers that keep theirs short let it be 5 ms (RFC 8289), and jitter of less says nothing.
const STANDING_FROM: Duration = Duration::from_millis(10);

/// Whether packets queue on the direct path of a flow. Allocated for mixtures alone.
#[derive(Clone, Debug, Default)]
pub(super) struct PathQueue(Option<Box<QueueDelay>>);

impl PathQueue {
    /// Takes note of a packet of the direct path.
    pub(super) fn sample(&mut self, sent: Timestamp, now: Time) {
        let queue = self.0.get_or_insert_with(|| Box::new(QueueDelay::new()));
        queue.sample(sent.micros(), Timestamp::at(now).micros(), now);
    }

    /// Whether a loss is likely one of a full queue. Nothing is known before the first packets.
    pub(super) fn is_standing(&self) -> bool {
        let delay = self.0.as_ref().and_then(|queue| queue.delay());
        delay.is_some_and(|delay| delay >= STANDING_FROM)
    }
}

impl Agent {
    /// Has what is noticed to be lost while packets queue stay lost. A path that is silent altogether is no full one: what an
    /// outage takes is asked for.
    pub(super) fn leave_congestion(&mut self, id: ReceiveFlowId, now: Time) {
        let flow = &mut self.receivers[id.0 as usize];
        let Some(active) = flow.active_mut().filter(|active| active.queue.is_standing()) else {
            return;
        };
        let left = active.tracker.leave_due(now);
        flow.statistics.congestion_losses += left;
    }
}
