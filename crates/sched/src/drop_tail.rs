//! One FIFO queue with tail drop, as most links have.

use byway_units::{Bytes, Time};

use crate::discipline::{Arrival, Departure, Discipline, DropReason};
use crate::fifo::{Fifo, QueuedPacket};

/// One queue for all classes, first in first out, that drops arriving packets when it is full.
#[derive(Clone, Debug)]
pub struct DropTail<P> {
    queue: Fifo<(P, crate::Class)>,
    capacity: Bytes,
}

impl<P> DropTail<P> {
    /// Creates an empty queue for at most `capacity` bytes.
    #[must_use]
    pub const fn new(capacity: Bytes) -> Self {
        Self { queue: Fifo::new(), capacity }
    }
}

impl<P> Discipline<P> for DropTail<P> {
    fn enqueue(&mut self, arrival: Arrival<P>, now: Time, dropped: &mut impl FnMut(P, DropReason)) {
        let Arrival { packet, bytes, class, is_ecn_capable, .. } = arrival;
        if self.queue.bytes() + u64::from(bytes) > self.capacity.count() {
            return dropped(packet, DropReason::Full);
        }
        self.queue.push(QueuedPacket {
            packet: (packet, class),
            bytes,
            enqueued_at: now,
            is_ecn_capable,
            is_marked: false,
        });
    }

    fn dequeue(&mut self, now: Time, _: &mut impl FnMut(P, DropReason)) -> Option<Departure<P>> {
        let QueuedPacket { packet: (packet, class), enqueued_at, .. } = self.queue.pop()?;
        Some(Departure { packet, class, sojourn: now.saturating_since(enqueued_at), is_marked: false })
    }

    fn backlog(&self) -> Bytes {
        Bytes::new(self.queue.bytes())
    }
}
