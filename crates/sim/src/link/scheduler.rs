//! Packet scheduler of a link with a rate. It chooses the next packet only when the link is free.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use byway_sched::{
    Arrival, Class, Departure, Discipline, DropReason, DropTail, FlowHash, FqCodel, Marking, RateDelay,
    RegisteredFlows, Sample, Settings, StrictPriority,
};
use byway_units::{Bytes, Duration, Rate, Time};

use super::bottleneck::BottleneckUsage;

/// Queue discipline of a link, and its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueDiscipline {
    /// One tail-drop queue of this many bytes for all packets.
    DropTail(Bytes),
    /// Rate-Delay scheduler with two or three classes, or with two that share by flows.
    RateDelay(Settings),
    /// Strict priority of low-delay packets; each class has a buffer of this many bytes.
    StrictPriority(Bytes),
    /// One queue for each flow, like `FqCodel`, which share a buffer of this many bytes.
    FqCodel(Bytes),
}

/// Rate of a link, and the queue discipline that serves its packets by class or flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerSettings {
    /// Rate of the link, in bytes of IP packets.
    pub rate: Rate,
    /// Queue discipline; the backlog does not include the packet in transmission.
    pub discipline: QueueDiscipline,
    /// Mapping from DSCPs to classes.
    pub marking: Marking,
    /// Length of the longest IP packet on the link.
    pub packet_bytes_max: Bytes,
}

/// Counters of the packets of a class at a link. Bytes are those of IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// Packets offered to the queue.
    pub offered: u64,
    /// Packets that the queue dropped, at their arrival or later.
    pub dropped: u64,
    /// Dropped packets that the queue had accepted: the buffer of their class shrank.
    pub discarded: u64,
    /// Packets in which the queue marked congestion (CE).
    pub marked: u64,
    /// Packets that left the queue.
    pub dequeued: u64,
    /// Bytes of the packets that left the queue.
    pub dequeued_bytes: Bytes,
    /// Sum of the sojourn times of the packets that left the queue.
    pub sojourn_total: Duration,
    /// Longest sojourn time of the packets that left the queue.
    pub sojourn_max: Duration,
}

/// Packet in a scheduler's queue, by its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuedPacket {
    pub(crate) number: u32,
    pub(crate) ip_bytes: u32,
    pub(crate) class: Class,
    flow: FlowHash,
    source: FlowHash,
    is_ecn_capable: bool,
}

/// Packet that arrives at a link with a scheduler.
#[derive(Clone, Copy, Debug)]
pub struct ArrivingPacket {
    /// Caller's number of the packet, which identifies it at its departure or drop.
    pub number: u32,
    /// Length of the IP packet.
    pub ip_bytes: Bytes,
    /// DSCP of the packet, 0 to 63.
    pub dscp: u8,
    /// Hash of the packet's flow.
    pub flow: FlowHash,
    /// Hash of the packet's source address.
    pub source: FlowHash,
    /// True if the queue may mark congestion in the packet instead of dropping it.
    pub is_ecn_capable: bool,
}

#[derive(Debug)]
enum Queue {
    DropTail(DropTail<QueuedPacket>),
    RateDelay(Box<RateDelay<QueuedPacket>>),
    StrictPriority(StrictPriority<QueuedPacket>),
    FqCodel(FqCodel<QueuedPacket>),
}

impl Queue {
    fn new(scheduling: &SchedulerSettings, now: Time) -> Self {
        match scheduling.discipline {
            QueueDiscipline::DropTail(buffer) => Self::DropTail(DropTail::new(buffer)),
            QueueDiscipline::RateDelay(settings) => Self::RateDelay(Box::new(RateDelay::new(settings, now))),
            QueueDiscipline::StrictPriority(buffer) => Self::StrictPriority(StrictPriority::new(buffer)),
            QueueDiscipline::FqCodel(buffer) => {
                Self::FqCodel(FqCodel::new(buffer, scheduling.packet_bytes_max))
            }
        }
    }

    fn enqueue(
        &mut self,
        arrival: Arrival<QueuedPacket>,
        now: Time,
        dropped: &mut impl FnMut(QueuedPacket, DropReason),
    ) {
        match self {
            Self::DropTail(queue) => queue.enqueue(arrival, now, dropped),
            Self::RateDelay(queue) => queue.enqueue(arrival, now, dropped),
            Self::StrictPriority(queue) => queue.enqueue(arrival, now, dropped),
            Self::FqCodel(queue) => queue.enqueue(arrival, now, dropped),
        }
    }

    fn dequeue(
        &mut self,
        now: Time,
        dropped: &mut impl FnMut(QueuedPacket, DropReason),
    ) -> Option<Departure<QueuedPacket>> {
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

/// Packet in transmission, and the time at which its last bit leaves.
#[derive(Clone, Copy, Debug)]
struct PacketInService {
    ticket: QueuedPacket,
    /// Class in which the queue served the packet.
    class: Class,
    is_marked: bool,
    until: Time,
}

/// Packet that has left the queue of a link's scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DequeuedPacket {
    /// Number of the packet, as in its [`ArrivingPacket`].
    pub number: u32,
    /// Length of the IP packet.
    pub ip_bytes: Bytes,
    /// True if the queue marked congestion in the packet.
    pub is_marked: bool,
}

/// State of a link's packet scheduler: its queue, the packet in transmission, and counters.
pub(crate) struct Scheduler {
    scheduling: SchedulerSettings,
    queue: Queue,
    /// Flows in the low-delay class whatever their DSCP.
    registered: RegisteredFlows,
    in_service: Option<PacketInService>,
    /// Numbers of dropped packets that `pop_dropped` has not yet returned.
    dropped: Vec<u32>,
    counters: [ClassCounters; Class::COUNT],
    backlog_max: Bytes,
    since: Time,
    capacity_before: Bytes,
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheduling, in_service: sending, counters: uses, .. } = self;
        f.debug_struct("Scheduler")
            .field("scheduling", scheduling)
            .field("sending", sending)
            .field("uses", uses)
            .finish_non_exhaustive()
    }
}

impl Scheduler {
    pub(crate) fn new(scheduling: SchedulerSettings, now: Time) -> Self {
        Self {
            scheduling,
            queue: Queue::new(&scheduling, now),
            registered: RegisteredFlows::new(),
            in_service: None,
            dropped: Vec::new(),
            counters: [ClassCounters::default(); Class::COUNT],
            backlog_max: Bytes::ZERO,
            since: now,
            capacity_before: Bytes::ZERO,
        }
    }

    /// Changes the settings. The packet in transmission leaves as before, and the backlog stays as
    /// far as the new buffer holds it. If the kind of queue changes, sojourn times restart.
    pub(crate) fn reconfigure(&mut self, scheduling: SchedulerSettings, now: Time) {
        if self.scheduling == scheduling {
            return;
        }
        (self.capacity_before, self.since) = (self.capacity_until(now), now);
        let mut note = record_drops(&mut self.dropped, &mut self.counters);
        match (&mut self.queue, scheduling.discipline) {
            (Queue::RateDelay(queue), QueueDiscipline::RateDelay(settings)) => {
                queue.reconfigure(settings, now, &mut note);
            }
            _ if scheduling.discipline == self.scheduling.discipline => {}
            (queue, _) => {
                let mut before = core::mem::replace(queue, Queue::new(&scheduling, now));
                while let Some(Departure { packet, .. }) = before.dequeue(now, &mut note) {
                    queue.enqueue(arrival(packet), now, &mut note);
                }
            }
        }
        self.scheduling = scheduling;
    }

    /// Removes the scheduler's queue and drops its backlog.
    pub(crate) fn close(&mut self, now: Time) {
        let mut note = record_drops(&mut self.dropped, &mut self.counters);
        while let Some(Departure { packet, .. }) = self.queue.dequeue(now, &mut note) {
            note(packet, DropReason::Full);
        }
        if let Some(PacketInService { ticket, .. }) = self.in_service.take() {
            note(ticket, DropReason::Full);
        }
    }

    /// Adds a packet to the queue. [`Scheduler::pop_dropped`] returns the packets that the queue
    /// drops because of it.
    pub(crate) fn enqueue(&mut self, arriving: ArrivingPacket, now: Time) {
        let ip_bytes = u32::try_from(arriving.ip_bytes.count()).unwrap_or(u32::MAX);
        let ArrivingPacket { number, flow, source, is_ecn_capable, .. } = arriving;
        let class = if self.registered.contains(flow, now) {
            Class::LowDelay
        } else {
            self.scheduling.marking.class(arriving.dscp << 2)
        };
        let ticket = QueuedPacket { number, ip_bytes, class, flow, source, is_ecn_capable };
        self.counters[class as usize].offered += 1;
        let arrival = arrival(ticket);
        self.queue.enqueue(arrival, now, &mut record_drops(&mut self.dropped, &mut self.counters));
        self.send_next(now);
        let sending = self.in_service.map_or(0, |sending| u64::from(sending.ticket.ip_bytes));
        self.backlog_max = self.backlog_max.max(self.queue.backlog() + Bytes::new(sending));
    }

    /// Returns the departure time of the packet in transmission; `None` if there is none.
    pub(crate) fn next_departure(&self) -> Option<Time> {
        self.in_service.map(|sending| sending.until)
    }

    /// Returns the packet whose last bit has left by now, and begins the transmission of the next.
    pub(crate) fn dequeue(&mut self, now: Time) -> Option<DequeuedPacket> {
        let PacketInService { ticket, is_marked, until, .. } =
            self.in_service.filter(|sending| sending.until <= now)?;
        self.in_service = None;
        self.send_next(until);
        Some(DequeuedPacket {
            number: ticket.number,
            ip_bytes: Bytes::new(u64::from(ticket.ip_bytes)),
            is_marked,
        })
    }

    fn send_next(&mut self, now: Time) {
        if self.in_service.is_some() {
            return;
        }
        let Some(departure) =
            self.queue.dequeue(now, &mut record_drops(&mut self.dropped, &mut self.counters))
        else {
            return;
        };
        let Departure { packet: ticket, class, sojourn: waited, is_marked } = departure;
        let bytes = Bytes::new(u64::from(ticket.ip_bytes));
        let counters = &mut self.counters[ticket.class as usize];
        counters.dequeued += 1;
        counters.dequeued_bytes += bytes;
        counters.marked += u64::from(is_marked);
        counters.sojourn_total += waited;
        counters.sojourn_max = counters.sojourn_max.max(waited);
        self.in_service =
            Some(PacketInService { ticket, class, is_marked, until: now + bytes / self.scheduling.rate });
    }

    /// Registers a flow as interactive until `end`; returns false if there are too many.
    pub(crate) fn register_flow(&mut self, flow: FlowHash, end: Time, now: Time) -> bool {
        self.registered.register(flow, end, now)
    }

    /// Returns the counters, backlogs and rates of a Rate-Delay queue; `None` for other queues.
    /// [`Scheduler::pop_dropped`] returns the packets that the queue drops because of it.
    ///
    /// A packet counts as sent once its last bit has left.
    pub(crate) fn sample(&mut self, now: Time) -> Option<Sample> {
        let Queue::RateDelay(queue) = &mut self.queue else {
            return None;
        };
        let mut sample = queue.sample(now, &mut record_drops(&mut self.dropped, &mut self.counters));
        if let Some(PacketInService { ticket, class, .. }) = self.in_service {
            let sent = &mut sample.sent[class as usize];
            *sent = sent.saturating_sub(Bytes::new(u64::from(ticket.ip_bytes)));
        }
        Some(sample)
    }

    /// Returns the number of a packet that the queue dropped, each once.
    pub(crate) fn pop_dropped(&mut self) -> Option<u32> {
        self.dropped.pop()
    }

    /// Returns the counters of the classes, in the order of [`Class::ALL`].
    pub(crate) const fn counters(&self) -> &[ClassCounters; Class::COUNT] {
        &self.counters
    }

    /// Returns the number of flows that a Rate-Delay queue has counted in each class, in the order
    /// of [`Class::ALL`]; `None` for other queues.
    pub(crate) fn flow_counts(&self) -> Option<[u32; Class::COUNT]> {
        match &self.queue {
            Queue::RateDelay(queue) => Some(queue.status().flows),
            Queue::DropTail(_) | Queue::StrictPriority(_) | Queue::FqCodel(_) => None,
        }
    }

    /// Returns the usage of the link's rate until now.
    pub(crate) fn usage(&self, now: Time) -> BottleneckUsage {
        let sending = self.in_service.map_or(0, |sending| u64::from(sending.ticket.ip_bytes));
        let left = self.counters.iter().map(|class| class.dequeued_bytes).sum::<Bytes>();
        BottleneckUsage {
            backlog_max: self.backlog_max,
            passed: left.saturating_sub(Bytes::new(sending)),
            capacity: self.capacity_until(now),
        }
    }

    fn capacity_until(&self, now: Time) -> Bytes {
        let bytes = self.scheduling.rate.bytes_in(now.saturating_since(self.since)).unwrap_or(Bytes::MAX);
        self.capacity_before.saturating_add(bytes)
    }
}

/// Converts a packet to the queue's input of type [`Arrival`].
const fn arrival(ticket: QueuedPacket) -> Arrival<QueuedPacket> {
    let QueuedPacket { ip_bytes: bytes, class, flow, source, is_ecn_capable, .. } = ticket;
    Arrival { packet: ticket, bytes, class, flow, source, is_ecn_capable }
}

/// Returns a closure for the queue, which records each drop in `dropped` and the counters.
fn record_drops<'a>(
    dropped: &'a mut Vec<u32>,
    uses: &'a mut [ClassCounters; Class::COUNT],
) -> impl FnMut(QueuedPacket, DropReason) + use<'a> {
    |ticket, why| {
        dropped.push(ticket.number);
        let class = &mut uses[ticket.class as usize];
        class.dropped += 1;
        class.discarded += u64::from(matches!(why, DropReason::Flushed | DropReason::Trimmed));
    }
}
