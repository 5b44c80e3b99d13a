//! Growth of the queue of a coded flow's direct path, as NACKs report it to relays.

use alloc::boxed::Box;

use byway_units::Time;
use byway_wire::Timestamp;

use super::receive_flow::ReceiveFlow;
use crate::parts::queue_growth::QueueGrowth;

/// Growth of the queueing delay of a received flow's direct path. Allocated for coded flows only.
#[derive(Clone, Debug, Default)]
pub(super) struct PathQueueGrowth(Option<Box<QueueGrowth>>);

impl PathQueueGrowth {
    /// Updates the queueing delay with a packet of the direct path, by its time of sending.
    pub(super) fn sample(&mut self, sent: Timestamp, now: Time) {
        let growth = self.0.get_or_insert_default();
        growth.sample(sent.micros(), Timestamp::at(now).micros(), now);
    }
}

impl ReceiveFlow {
    /// True if the queue of the direct path grows, so a loss is likely a sign of congestion.
    pub(super) fn queue_grows(&self) -> bool {
        let growth = self.active().and_then(|active| active.queue_growth.0.as_ref());
        growth.is_some_and(|growth| growth.grows())
    }
}
