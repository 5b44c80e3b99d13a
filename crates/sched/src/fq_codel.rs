//! `FqCodel` (RFC 8290): a queue for each flow, served by deficit round robin, and `CoDel` (RFC
//! 8289) in each, which limits the sojourn time.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use byway_units::{Bytes, Duration, Time};

use crate::class::Class;
use crate::discipline::{Arrival, Departure, Discipline, DropReason};
use crate::fifo::{Fifo, QueuedPacket};
use crate::limits::{CODEL_INTERVAL, CODEL_TARGET, FQ_CODEL_QUEUES};

/// State of `CoDel` in one queue (RFC 8289, section 5).
#[derive(Clone, Copy, Debug, Default)]
struct Codel {
    /// Time at which the sojourn time will have exceeded the target for an interval; `None` while
    /// it is below the target.
    first_above: Option<Time>,
    drop_next: Time,
    count: u32,
    last_count: u32,
    is_dropping: bool,
}

impl Codel {
    /// True if packets may be dropped: the sojourn times of head packets have exceeded the target
    /// for an interval.
    fn may_drop(&mut self, sojourn: Duration, backlog: u64, packet: u64, now: Time) -> bool {
        if sojourn < CODEL_TARGET || backlog <= packet {
            self.first_above = None;
            return false;
        }
        let first_above = *self.first_above.get_or_insert(now + CODEL_INTERVAL);
        now >= first_above
    }

    /// Returns the time of the next drop after `time`. The more packets were dropped, the sooner it
    /// is (the control law).
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

    /// Begins the dropping state, at a higher drop rate if the last one ended shortly before.
    fn start_dropping(&mut self, now: Time) {
        self.is_dropping = true;
        let recent = self.count - self.last_count;
        let is_recent = now.saturating_since(self.drop_next) < CODEL_INTERVAL * 16;
        self.count = if recent > 1 && is_recent { recent } else { 1 };
        self.last_count = self.count;
        self.drop_next = self.next_after(now);
    }
}

/// Queue of the flows whose hashes choose it.
#[derive(Clone, Debug)]
struct FlowQueue<P> {
    packets: Fifo<(P, Class)>,
    codel: Codel,
    /// Bytes that the queue may send before its turn in the round robin ends.
    deficit: i64,
    is_listed: bool,
}

/// Packet that leaves its queue for the link.
struct DequeuedPacket<P> {
    packet: QueuedPacket<(P, Class)>,
    is_marked: bool,
}

/// Queueing discipline with a queue for each flow, and `CoDel` in each queue (RFC 8290).
#[derive(Clone, Debug)]
pub struct FqCodel<P> {
    queues: Box<[FlowQueue<P>]>,
    /// Indices of new queues, which have not had their first turn, and of old queues.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    quantum: i64,
    capacity: u64,
    backlog: u64,
}

impl<P> FqCodel<P> {
    /// Creates queues for `capacity` bytes in total, with the longest packet as quantum.
    #[must_use]
    pub fn new(capacity: Bytes, packet: Bytes) -> Self {
        let queue =
            || FlowQueue { packets: Fifo::new(), codel: Codel::default(), deficit: 0, is_listed: false };
        let queues: Vec<FlowQueue<P>> = (0..FQ_CODEL_QUEUES).map(|_| queue()).collect();
        Self {
            queues: queues.into_boxed_slice(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            quantum: i64::try_from(packet.count()).unwrap_or(i64::MAX).max(1),
            capacity: capacity.count(),
            backlog: 0,
        }
    }

    /// Removes and returns the oldest packet of the queue at this index.
    fn pop(&mut self, index: usize) -> Option<QueuedPacket<(P, Class)>> {
        let waiting = self.queues[index].packets.pop()?;
        self.backlog -= u64::from(waiting.bytes);
        Some(waiting)
    }

    /// Drops the oldest packets of the longest queue until the backlog of all fits into the buffer.
    fn drop_from_longest(&mut self, dropped: &mut impl FnMut(P, DropReason)) {
        while self.backlog > self.capacity {
            let longest = (0..self.queues.len()).max_by_key(|index| self.queues[*index].packets.bytes());
            let Some(waiting) = longest.and_then(|index| self.pop(index)) else {
                return;
            };
            dropped(waiting.packet.0, DropReason::Full);
        }
    }

    /// Removes and returns the next packet of the queue at this index. Before, drops packets as
    /// `CoDel` requires, or marks the next one.
    fn dequeue_from(
        &mut self,
        index: usize,
        now: Time,
        dropped: &mut impl FnMut(P, DropReason),
    ) -> Option<DequeuedPacket<P>> {
        loop {
            let Some(waiting) = self.pop(index) else {
                self.queues[index].codel.is_dropping = false;
                return None;
            };
            let queue = &mut self.queues[index];
            let backlog = queue.packets.bytes() + u64::from(waiting.bytes);
            let sojourn = now.saturating_since(waiting.enqueued_at);
            let may_drop = queue.codel.may_drop(sojourn, backlog, u64::from(waiting.bytes), now);
            let codel = &mut queue.codel;
            if !may_drop {
                codel.is_dropping = false;
                return Some(DequeuedPacket { packet: waiting, is_marked: false });
            }
            if !codel.is_dropping {
                codel.start_dropping(now);
            } else if now >= codel.drop_next {
                codel.count += 1;
                codel.drop_next = codel.next_after(codel.drop_next);
            } else {
                return Some(DequeuedPacket { packet: waiting, is_marked: false });
            }
            if waiting.is_ecn_capable {
                return Some(DequeuedPacket { packet: waiting, is_marked: true });
            }
            dropped(waiting.packet.0, DropReason::SojournTooLong);
        }
    }
}

impl<P> Discipline<P> for FqCodel<P> {
    fn enqueue(&mut self, arrival: Arrival<P>, now: Time, dropped: &mut impl FnMut(P, DropReason)) {
        let Arrival { packet, bytes, class, flow, is_ecn_capable, .. } = arrival;
        let index = flow.slot(self.queues.len());
        let queue = &mut self.queues[index];
        queue.packets.push(QueuedPacket {
            packet: (packet, class),
            bytes,
            enqueued_at: now,
            is_ecn_capable,
            is_marked: false,
        });
        self.backlog += u64::from(bytes);
        if !queue.is_listed {
            (queue.is_listed, queue.deficit) = (true, self.quantum);
            self.new.push_back(index);
        }
        self.drop_from_longest(dropped);
    }

    fn dequeue(&mut self, now: Time, dropped: &mut impl FnMut(P, DropReason)) -> Option<Departure<P>> {
        loop {
            let is_new = !self.new.is_empty();
            let index = *self.new.front().or_else(|| self.old.front())?;
            if self.queues[index].deficit <= 0 {
                self.queues[index].deficit += self.quantum;
                if is_new {
                    self.new.pop_front()
                } else {
                    self.old.pop_front()
                };
                self.old.push_back(index);
                continue;
            }
            let Some(DequeuedPacket { packet: waiting, is_marked }) = self.dequeue_from(index, now, dropped)
            else {
                // An empty new queue becomes an old one. Otherwise, its next packet would be served
                // first again.
                if is_new {
                    self.new.pop_front();
                    self.old.push_back(index);
                } else {
                    self.old.pop_front();
                    self.queues[index].is_listed = false;
                }
                continue;
            };
            self.queues[index].deficit -= i64::from(waiting.bytes);
            let (packet, class) = waiting.packet;
            return Some(Departure {
                packet,
                class,
                sojourn: now.saturating_since(waiting.enqueued_at),
                is_marked,
            });
        }
    }

    fn backlog(&self) -> Bytes {
        Bytes::new(self.backlog)
    }
}
