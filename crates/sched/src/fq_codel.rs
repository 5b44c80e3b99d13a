//! `FqCodel` (RFC 8290): a queue for each flow, served in turn, and `CoDel` (RFC 8289) in each, which drops what has waited too long.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use byway_units::{Bytes, Duration, Time};

use crate::class::Class;
use crate::discipline::{Arrival, Departure, Discipline, Dropped};
use crate::fifo::{Fifo, Waiting};
use crate::limits::{CODEL_INTERVAL, CODEL_TARGET, FQ_CODEL_QUEUES};

/// When a queue drops (RFC 8289, section 5).
#[derive(Clone, Copy, Debug, Default)]
struct Codel {
    /// When a packet has waited too long for an interval on end; nothing while they do not.
    first_above: Option<Time>,
    drop_next: Time,
    count: u32,
    last_count: u32,
    is_dropping: bool,
}

impl Codel {
    /// Whether the packet at the head has waited too long for so long that it may be dropped.
    fn may_drop(&mut self, waited: Duration, backlog: u64, packet: u64, now: Time) -> bool {
        if waited < CODEL_TARGET || backlog <= packet {
            self.first_above = None;
            return false;
        }
        let first_above = *self.first_above.get_or_insert(now + CODEL_INTERVAL);
        now >= first_above
    }

    /// When the next one is dropped: the sooner the more were (the control law).
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an interval over the root of a count"
    )]
    fn next_after(&self, time: Time) -> Time {
        let step = CODEL_INTERVAL.as_nanos() as f64 / libm::sqrt(f64::from(self.count.max(1)));
        time + Duration::from_nanos(step as u64)
    }

    /// Begins to drop; sooner, where that was necessary shortly before.
    fn begin(&mut self, now: Time) {
        self.is_dropping = true;
        let recent = self.count - self.last_count;
        let is_recent = now.saturating_since(self.drop_next) < CODEL_INTERVAL * 16;
        self.count = if recent > 1 && is_recent { recent } else { 1 };
        self.last_count = self.count;
        self.drop_next = self.next_after(now);
    }
}

/// The packets of the flows that share a hash.
#[derive(Clone, Debug)]
struct Queue<P> {
    packets: Fifo<(P, Class)>,
    codel: Codel,
    /// What it may still send before the others.
    credit: i64,
    is_listed: bool,
}

/// A packet whose turn it is.
struct Taken<P> {
    waiting: Waiting<(P, Class)>,
    is_marked: bool,
}

/// Flows in turn, none of which waits longer than it must.
#[derive(Clone, Debug)]
pub struct FqCodel<P> {
    queues: Box<[Queue<P>]>,
    /// Queues that have not had their first turn, and the others.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    quantum: i64,
    room: u64,
    backlog: u64,
}

impl<P> FqCodel<P> {
    /// With room for so many bytes, and turns of the longest packet.
    #[must_use]
    pub fn new(room: Bytes, packet: Bytes) -> Self {
        let queue = || Queue { packets: Fifo::new(), codel: Codel::default(), credit: 0, is_listed: false };
        let queues: Vec<Queue<P>> = (0..FQ_CODEL_QUEUES).map(|_| queue()).collect();
        Self {
            queues: queues.into_boxed_slice(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            quantum: i64::try_from(packet.count()).unwrap_or(i64::MAX).max(1),
            room: room.count(),
            backlog: 0,
        }
    }

    /// Takes the oldest packet of a queue.
    fn pop(&mut self, place: usize) -> Option<Waiting<(P, Class)>> {
        let waiting = self.queues[place].packets.pop()?;
        self.backlog -= u64::from(waiting.bytes);
        Some(waiting)
    }

    /// Makes room: the longest queue loses its oldest packets.
    fn shed(&mut self, dropped: &mut impl FnMut(P, Dropped)) {
        while self.backlog > self.room {
            let longest = (0..self.queues.len()).max_by_key(|place| self.queues[*place].packets.bytes());
            let Some(waiting) = longest.and_then(|place| self.pop(place)) else {
                return;
            };
            dropped(waiting.packet.0, Dropped::Full);
        }
    }

    /// The next packet of a queue, after those that have waited too long.
    fn take(&mut self, place: usize, now: Time, dropped: &mut impl FnMut(P, Dropped)) -> Option<Taken<P>> {
        loop {
            let Some(waiting) = self.pop(place) else {
                self.queues[place].codel.is_dropping = false;
                return None;
            };
            let queue = &mut self.queues[place];
            let backlog = queue.packets.bytes() + u64::from(waiting.bytes);
            let waited = now.saturating_since(waiting.since);
            let may_drop = queue.codel.may_drop(waited, backlog, u64::from(waiting.bytes), now);
            let codel = &mut queue.codel;
            if !may_drop {
                codel.is_dropping = false;
                return Some(Taken { waiting, is_marked: false });
            }
            if !codel.is_dropping {
                codel.begin(now);
            } else if now >= codel.drop_next {
                codel.count += 1;
                codel.drop_next = codel.next_after(codel.drop_next);
            } else {
                return Some(Taken { waiting, is_marked: false });
            }
            if waiting.is_ecn_capable {
                return Some(Taken { waiting, is_marked: true });
            }
            dropped(waiting.packet.0, Dropped::Waited);
        }
    }
}

impl<P> Discipline<P> for FqCodel<P> {
    fn enqueue(&mut self, arrival: Arrival<P>, now: Time, dropped: &mut impl FnMut(P, Dropped)) {
        let Arrival { packet, bytes, class, flow, is_ecn_capable, .. } = arrival;
        let place = flow.slot(self.queues.len());
        let queue = &mut self.queues[place];
        queue.packets.push(Waiting {
            packet: (packet, class),
            bytes,
            since: now,
            is_ecn_capable,
            is_marked: false,
        });
        self.backlog += u64::from(bytes);
        if !queue.is_listed {
            (queue.is_listed, queue.credit) = (true, self.quantum);
            self.new.push_back(place);
        }
        self.shed(dropped);
    }

    fn dequeue(&mut self, now: Time, dropped: &mut impl FnMut(P, Dropped)) -> Option<Departure<P>> {
        loop {
            let is_new = !self.new.is_empty();
            let place = *self.new.front().or_else(|| self.old.front())?;
            if self.queues[place].credit <= 0 {
                self.queues[place].credit += self.quantum;
                if is_new {
                    self.new.pop_front()
                } else {
                    self.old.pop_front()
                };
                self.old.push_back(place);
                continue;
            }
            let Some(Taken { waiting, is_marked }) = self.take(place, now, dropped) else {
                // A new one that is empty has its place among the old ones, so that it does not go first again at once.
                if is_new {
                    self.new.pop_front();
                    self.old.push_back(place);
                } else {
                    self.old.pop_front();
                    self.queues[place].is_listed = false;
                }
                continue;
            };
            self.queues[place].credit -= i64::from(waiting.bytes);
            let (packet, class) = waiting.packet;
            return Some(Departure { packet, class, waited: now.saturating_since(waiting.since), is_marked });
        }
    }

    fn backlog(&self) -> Bytes {
        Bytes::new(self.backlog)
    }
}
