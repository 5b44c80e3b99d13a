//! Queue of a received flow's direct path: of mixed traffic, whether its losses are congestion; of
//! coded flows, whether it grows, as NACKs report it to relays.

use alloc::boxed::Box;

use byway_units::Time;
use byway_wire::Timestamp;

use crate::parts::loss_cause::LossCause;
use crate::parts::queue_growth::QueueGrowth;

/// Queueing delay of a received flow's direct path. Allocated for mixed traffic and coded flows
/// only.
#[derive(Clone, Debug, Default)]
pub(super) struct PathQueue {
    cause: Option<Box<LossCause>>,
    growth: Option<Box<QueueGrowth>>,
}

impl PathQueue {
    /// Updates the cause of losses with a packet of the direct path, by its time of sending.
    pub(super) fn sample_cause(&mut self, sent: Timestamp, now: Time) {
        let cause = self.cause.get_or_insert_with(|| Box::new(LossCause::new()));
        cause.on_packet(sent.micros(), Timestamp::at(now).micros(), now);
    }

    /// Updates the growth of the queue with a packet of the direct path, by its time of sending.
    pub(super) fn sample_growth(&mut self, sent: Timestamp, now: Time) {
        let growth = self.growth.get_or_insert_default();
        growth.sample(sent.micros(), Timestamp::at(now).micros(), now);
    }

    /// Returns true if packets queue on the path, so a loss is likely a drop at a full queue.
    /// `false` before the first packets.
    pub(super) fn is_standing(&self) -> bool {
        self.cause.as_ref().is_some_and(|cause| cause.is_congestion())
    }

    /// Returns true if the queue grows, so a loss is likely a sign of congestion.
    pub(super) fn grows(&self) -> bool {
        self.growth.as_ref().is_some_and(|growth| growth.grows())
    }
}
