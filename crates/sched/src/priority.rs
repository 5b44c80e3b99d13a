//! Low-delay packets always go first, high-rate ones last: what Rate-Delay is not.

use byway_units::{Bytes, Time};

use crate::class::Class;
use crate::discipline::{Arrival, Departure, Discipline, Dropped};
use crate::fifo::{Fifo, Waiting};

/// A queue for each class, of which the high-rate one waits as long as others have anything: whoever marks gains, and nothing is left to the rest.
#[derive(Clone, Debug)]
pub struct StrictPriority<P> {
    queues: [Fifo<P>; Class::COUNT],
    room: Bytes,
}

impl<P> StrictPriority<P> {
    /// With room for so many bytes of each class.
    #[must_use]
    pub const fn new(room: Bytes) -> Self {
        Self { queues: [Fifo::new(), Fifo::new(), Fifo::new()], room }
    }
}

impl<P> Discipline<P> for StrictPriority<P> {
    fn enqueue(&mut self, arrival: Arrival<P>, now: Time, dropped: &mut impl FnMut(P, Dropped)) {
        let Arrival { packet, bytes, class, is_ecn_capable, .. } = arrival;
        let queue = &mut self.queues[class.place()];
        if queue.bytes() + u64::from(bytes) > self.room.count() {
            return dropped(packet, Dropped::Full);
        }
        queue.push(Waiting { packet, bytes, since: now, is_ecn_capable, is_marked: false });
    }

    fn dequeue(&mut self, now: Time, _: &mut impl FnMut(P, Dropped)) -> Option<Departure<P>> {
        let order = [Class::LowDelay, Class::LowAverage, Class::HighRate];
        let class = order.into_iter().find(|class| !self.queues[class.place()].is_empty())?;
        let Waiting { packet, since, .. } = self.queues[class.place()].pop()?;
        Some(Departure { packet, class, waited: now.saturating_since(since), is_marked: false })
    }

    fn backlog(&self) -> Bytes {
        Bytes::new(self.queues.iter().map(Fifo::bytes).sum())
    }
}
