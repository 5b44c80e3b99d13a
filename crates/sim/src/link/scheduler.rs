//! A rate, and a queue before it that tells packets apart: what leaves next is known only when the link is free.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use byway_sched::{
    Arrival, Class, Departure, Discipline, DropTail, Dropped, FlowHash, FqCodel, Marking, RateDelay,
    Settings, StrictPriority,
};
use byway_units::{Bytes, Duration, Rate, Time};

use super::bottleneck::BottleneckUse;

/// Which queue is before a link, and what it is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// One queue for all, which drops what finds no room.
    DropTail(Bytes),
    /// Rate-Delay.
    RateDelay(Settings),
    /// Low-delay packets first; each class has so much room.
    StrictPriority(Bytes),
    /// A queue for each flow, as `FqCodel` has them.
    FqCodel(Bytes),
}

/// A link that serves packets by class or flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduling {
    /// What it carries.
    pub rate: Rate,
    /// The queue before it, without the packet being sent.
    pub queueing: Queueing,
    /// Which DSCPs mean which class.
    pub marking: Marking,
    /// The longest IP packet.
    pub packet: Bytes,
}

/// What happened to the packets of a class at a link. Bytes are those of IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassUse {
    /// Packets that came.
    pub offered: u64,
    /// Packets that the queue dropped.
    pub dropped: u64,
    /// Of these, those that had waited already when their class lost room.
    pub discarded: u64,
    /// Packets that were marked (CE).
    pub marked: u64,
    /// Packets that have left the queue.
    pub left: u64,
    /// Their bytes.
    pub left_bytes: Bytes,
    /// How long they waited, together.
    pub waited: Duration,
    /// The longest that one of them waited.
    pub waited_max: Duration,
}

/// A packet that waits, by its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    pub(crate) number: u32,
    pub(crate) ip_bytes: u32,
    pub(crate) class: Class,
    flow: FlowHash,
    source: FlowHash,
    is_ecn_capable: bool,
}

/// A packet that comes to a link with a queue.
#[derive(Clone, Copy, Debug)]
pub struct Coming {
    /// Its number, by which it is known when it leaves or is dropped.
    pub number: u32,
    /// Its length as IP has it.
    pub ip_bytes: Bytes,
    /// Its DSCP, 0 to 63.
    pub dscp: u8,
    /// Its flow.
    pub flow: FlowHash,
    /// Who sends it.
    pub source: FlowHash,
    /// Whether it may be marked.
    pub is_ecn_capable: bool,
}

#[derive(Debug)]
enum Queue {
    DropTail(DropTail<Ticket>),
    RateDelay(Box<RateDelay<Ticket>>),
    StrictPriority(StrictPriority<Ticket>),
    FqCodel(FqCodel<Ticket>),
}

impl Queue {
    fn new(scheduling: &Scheduling, now: Time) -> Self {
        match scheduling.queueing {
            Queueing::DropTail(room) => Self::DropTail(DropTail::new(room)),
            Queueing::RateDelay(settings) => Self::RateDelay(Box::new(RateDelay::new(settings, now))),
            Queueing::StrictPriority(room) => Self::StrictPriority(StrictPriority::new(room)),
            Queueing::FqCodel(room) => Self::FqCodel(FqCodel::new(room, scheduling.packet)),
        }
    }

    fn enqueue(&mut self, arrival: Arrival<Ticket>, now: Time, dropped: &mut impl FnMut(Ticket, Dropped)) {
        match self {
            Self::DropTail(queue) => queue.enqueue(arrival, now, dropped),
            Self::RateDelay(queue) => queue.enqueue(arrival, now, dropped),
            Self::StrictPriority(queue) => queue.enqueue(arrival, now, dropped),
            Self::FqCodel(queue) => queue.enqueue(arrival, now, dropped),
        }
    }

    fn dequeue(&mut self, now: Time, dropped: &mut impl FnMut(Ticket, Dropped)) -> Option<Departure<Ticket>> {
        match self {
            Self::DropTail(queue) => queue.dequeue(now, dropped),
            Self::RateDelay(queue) => queue.dequeue(now, dropped),
            Self::StrictPriority(queue) => queue.dequeue(now, dropped),
            Self::FqCodel(queue) => queue.dequeue(now, dropped),
        }
    }

    fn backlog(&self) -> Bytes {
        match self {
            Self::DropTail(queue) => queue.backlog(),
            Self::RateDelay(queue) => queue.backlog(),
            Self::StrictPriority(queue) => queue.backlog(),
            Self::FqCodel(queue) => queue.backlog(),
        }
    }
}

/// A packet whose last bit leaves at an instant.
#[derive(Clone, Copy, Debug)]
struct Sending {
    ticket: Ticket,
    is_marked: bool,
    until: Time,
}

/// A packet that has left a link's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its number.
    pub number: u32,
    /// Its length as IP has it.
    pub ip_bytes: Bytes,
    /// Whether the queue marked it.
    pub is_marked: bool,
}

/// A queue at work.
pub(crate) struct Scheduler {
    scheduling: Scheduling,
    queue: Queue,
    sending: Option<Sending>,
    /// Numbers of packets that were dropped since they were asked for.
    dropped: Vec<u32>,
    uses: [ClassUse; Class::COUNT],
    held_max: Bytes,
    since: Time,
    capacity_before: Bytes,
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheduling, sending, uses, .. } = self;
        f.debug_struct("Scheduler")
            .field("scheduling", scheduling)
            .field("sending", sending)
            .field("uses", uses)
            .finish_non_exhaustive()
    }
}

impl Scheduler {
    pub(crate) fn new(scheduling: Scheduling, now: Time) -> Self {
        Self {
            scheduling,
            queue: Queue::new(&scheduling, now),
            sending: None,
            dropped: Vec::new(),
            uses: [ClassUse::default(); Class::COUNT],
            held_max: Bytes::ZERO,
            since: now,
            capacity_before: Bytes::ZERO,
        }
    }

    /// It is another one from now on. The packet being sent leaves as it would have, and what waits goes on waiting, as far as there is
    /// room; in a queue of another kind its time begins anew.
    pub(crate) fn change(&mut self, scheduling: Scheduling, now: Time) {
        if self.scheduling == scheduling {
            return;
        }
        (self.capacity_before, self.since) = (self.capacity_until(now), now);
        let mut note = drops(&mut self.dropped, &mut self.uses);
        match (&mut self.queue, scheduling.queueing) {
            (Queue::RateDelay(queue), Queueing::RateDelay(settings)) => {
                queue.change(settings, now, &mut note);
            }
            _ if scheduling.queueing == self.scheduling.queueing => {}
            (queue, _) => {
                let mut before = core::mem::replace(queue, Queue::new(&scheduling, now));
                while let Some(Departure { packet, .. }) = before.dequeue(now, &mut note) {
                    queue.enqueue(arrival(packet), now, &mut note);
                }
            }
        }
        self.scheduling = scheduling;
    }

    /// There is no queue any more: what waits is dropped.
    pub(crate) fn close(&mut self, now: Time) {
        let mut note = drops(&mut self.dropped, &mut self.uses);
        while let Some(Departure { packet, .. }) = self.queue.dequeue(now, &mut note) {
            note(packet, Dropped::Full);
        }
        if let Some(Sending { ticket, .. }) = self.sending.take() {
            note(ticket, Dropped::Full);
        }
    }

    /// A packet comes. Those that were dropped for it are among [`Scheduler::take_dropped`].
    pub(crate) fn enqueue(&mut self, coming: Coming, now: Time) {
        let ip_bytes = u32::try_from(coming.ip_bytes.count()).unwrap_or(u32::MAX);
        let class = self.scheduling.marking.class(coming.dscp << 2);
        let Coming { number, flow, source, is_ecn_capable, .. } = coming;
        let ticket = Ticket { number, ip_bytes, class, flow, source, is_ecn_capable };
        self.uses[class as usize].offered += 1;
        let arrival = arrival(ticket);
        self.queue.enqueue(arrival, now, &mut drops(&mut self.dropped, &mut self.uses));
        self.send_next(now);
        let sending = self.sending.map_or(0, |sending| u64::from(sending.ticket.ip_bytes));
        self.held_max = self.held_max.max(self.queue.backlog() + Bytes::new(sending));
    }

    /// When the packet that is being sent has left; `None` while nothing is.
    pub(crate) fn due(&self) -> Option<Time> {
        self.sending.map(|sending| sending.until)
    }

    /// Takes the packet that has left by now, and begins with the next.
    pub(crate) fn depart(&mut self, now: Time) -> Option<Sent> {
        let Sending { ticket, is_marked, until } = self.sending.filter(|sending| sending.until <= now)?;
        self.sending = None;
        self.send_next(until);
        Some(Sent { number: ticket.number, ip_bytes: Bytes::new(u64::from(ticket.ip_bytes)), is_marked })
    }

    fn send_next(&mut self, now: Time) {
        if self.sending.is_some() {
            return;
        }
        let Some(departure) = self.queue.dequeue(now, &mut drops(&mut self.dropped, &mut self.uses)) else {
            return;
        };
        let Departure { packet: ticket, waited, is_marked, .. } = departure;
        let bytes = Bytes::new(u64::from(ticket.ip_bytes));
        let class = &mut self.uses[ticket.class as usize];
        class.left += 1;
        class.left_bytes += bytes;
        class.marked += u64::from(is_marked);
        class.waited += waited;
        class.waited_max = class.waited_max.max(waited);
        self.sending = Some(Sending { ticket, is_marked, until: now + bytes / self.scheduling.rate });
    }

    /// A packet that was dropped, once.
    pub(crate) fn take_dropped(&mut self) -> Option<u32> {
        self.dropped.pop()
    }

    /// The classes, in the order of [`Class::ALL`].
    pub(crate) const fn uses(&self) -> &[ClassUse; Class::COUNT] {
        &self.uses
    }

    /// How many flows a Rate-Delay queue has counted in each class, in the order of [`Class::ALL`].
    pub(crate) fn flows(&self) -> Option<[u32; Class::COUNT]> {
        match &self.queue {
            Queue::RateDelay(queue) => Some(queue.status().flows),
            Queue::DropTail(_) | Queue::StrictPriority(_) | Queue::FqCodel(_) => None,
        }
    }

    /// How much it had to do by now.
    pub(crate) fn usage(&self, now: Time) -> BottleneckUse {
        let sending = self.sending.map_or(0, |sending| u64::from(sending.ticket.ip_bytes));
        let left = self.uses.iter().map(|class| class.left_bytes).sum::<Bytes>();
        BottleneckUse {
            held_max: self.held_max,
            passed: left.saturating_sub(Bytes::new(sending)),
            capacity: self.capacity_until(now),
        }
    }

    fn capacity_until(&self, now: Time) -> Bytes {
        let bytes = self.scheduling.rate.bytes_in(now.saturating_since(self.since)).unwrap_or(Bytes::MAX);
        self.capacity_before.saturating_add(bytes)
    }
}

/// A packet as queues know it.
const fn arrival(ticket: Ticket) -> Arrival<Ticket> {
    let Ticket { ip_bytes: bytes, class, flow, source, is_ecn_capable, .. } = ticket;
    Arrival { packet: ticket, bytes, class, flow, source, is_ecn_capable }
}

/// Notes drops.
fn drops<'a>(
    dropped: &'a mut Vec<u32>,
    uses: &'a mut [ClassUse; Class::COUNT],
) -> impl FnMut(Ticket, Dropped) + use<'a> {
    |ticket, why| {
        dropped.push(ticket.number);
        let class = &mut uses[ticket.class as usize];
        class.dropped += 1;
        class.discarded += u64::from(matches!(why, Dropped::Flushed | Dropped::Trimmed));
    }
}
