//! One queue that drops what finds no room: what most links have.

use byway_units::{Bytes, Time};

use crate::discipline::{Arrival, Departure, Discipline, Dropped};
use crate::fifo::{Fifo, Waiting};

/// First in, first out, whatever the class.
#[derive(Clone, Debug)]
pub struct DropTail<P> {
    queue: Fifo<(P, crate::Class)>,
    room: Bytes,
}

impl<P> DropTail<P> {
    /// With room for so many bytes.
    #[must_use]
    pub const fn new(room: Bytes) -> Self {
        Self { queue: Fifo::new(), room }
    }
}

impl<P> Discipline<P> for DropTail<P> {
    fn enqueue(&mut self, arrival: Arrival<P>, now: Time, dropped: &mut impl FnMut(P, Dropped)) {
        let Arrival { packet, bytes, class, is_ecn_capable, .. } = arrival;
        if self.queue.bytes() + u64::from(bytes) > self.room.count() {
            return dropped(packet, Dropped::Full);
        }
        self.queue.push(Waiting {
            packet: (packet, class),
            bytes,
            since: now,
            is_ecn_capable,
            is_marked: false,
        });
    }

    fn dequeue(&mut self, now: Time, _: &mut impl FnMut(P, Dropped)) -> Option<Departure<P>> {
        let Waiting { packet: (packet, class), since, .. } = self.queue.pop()?;
        Some(Departure { packet, class, waited: now.saturating_since(since), is_marked: false })
    }

    fn backlog(&self) -> Bytes {
        Bytes::new(self.queue.bytes())
    }
}
