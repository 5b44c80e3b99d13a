//! Strict priority between classes: low-delay packets first, high-rate ones last. For comparison
//! with Rate-Delay.

use byway_units::{Bytes, Time};

use crate::class::Class;
use crate::discipline::{Arrival, Departure, Discipline, DropReason};
use crate::fifo::{Fifo, QueuedPacket};

/// A queue for each class, in strict order. The high-rate class waits while others have packets:
/// every marking sender gains, and the rest may starve.
#[derive(Clone, Debug)]
pub struct StrictPriority<P> {
    queues: [Fifo<P>; Class::COUNT],
    capacity: Bytes,
}

impl<P> StrictPriority<P> {
    /// Creates empty queues for at most `capacity` bytes in each class.
    #[must_use]
    pub const fn new(capacity: Bytes) -> Self {
        Self { queues: [Fifo::new(), Fifo::new(), Fifo::new()], capacity }
    }
}

impl<P> Discipline<P> for StrictPriority<P> {
    fn enqueue(&mut self, arrival: Arrival<P>, now: Time, dropped: &mut impl FnMut(P, DropReason)) {
        let Arrival { packet, bytes, class, is_ecn_capable, .. } = arrival;
        let queue = &mut self.queues[class.index()];
        if queue.bytes() + u64::from(bytes) > self.capacity.count() {
            return dropped(packet, DropReason::Full);
        }
        queue.push(QueuedPacket { packet, bytes, enqueued_at: now, is_ecn_capable, is_marked: false });
    }

    fn dequeue(&mut self, now: Time, _: &mut impl FnMut(P, DropReason)) -> Option<Departure<P>> {
        let order = [Class::LowDelay, Class::LowAverage, Class::HighRate];
        let class = order.into_iter().find(|class| !self.queues[class.index()].is_empty())?;
        let QueuedPacket { packet, enqueued_at, .. } = self.queues[class.index()].pop()?;
        Some(Departure { packet, class, sojourn: now.saturating_since(enqueued_at), is_marked: false })
    }

    fn backlog(&self) -> Bytes {
        Bytes::new(self.queues.iter().map(Fifo::bytes).sum())
    }
}
