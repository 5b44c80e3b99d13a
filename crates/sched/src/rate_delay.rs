//! The two queues of a Rate-Delay link (Figures 3 to 5 of the paper).

use alloc::boxed::Box;

use byway_units::{Bytes, Duration, Rate, Time};

use crate::class::Class;
use crate::discipline::{Arrival, Departure, Discipline, Dropped};
use crate::fifo::{Fifo, Waiting};
use crate::flows::{FlowCounter, FlowHash};
use crate::guard::Guard;
use crate::limits::{FLOW_EXPIRY, UPDATE_INTERVAL};
use crate::marker::Marker;
use crate::settings::{Discards, Settings};
use crate::sizing::{Counts, Room, Weights};

/// How the link is shared at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// About how many flows there are in a class, 0 if there are none, in the order of [`Class::ALL`].
    pub flows: [u32; 2],
    /// The rates of the classes where both have something to send.
    pub rates: [Rate; 2],
    /// The room of their queues.
    pub room: [Bytes; 2],
    /// What waits in them.
    pub backlog: [Bytes; 2],
    /// What no low-delay packet waits longer than: what was asked for, or the least that leaves room for a packet.
    pub delay: Duration,
}

/// Two queues before one link.
///
/// [`Discipline::enqueue`] and [`Discipline::dequeue`] take constant time, but for what they drop and, every 400 ms, for counting flows. No
/// low-delay packet is dequeued later than [`Status::delay`] after it came, if the link is never free longer than its rate demands; and
/// nothing waits while the link is free.
#[derive(Clone, Debug)]
pub struct RateDelay<P> {
    settings: Settings,
    counting: Counting,
    flows: [u32; 2],
    weights: Weights,
    room: Room,
    queues: [Fifo<P>; 2],
    /// What was sent of each class since the counts began anew, in bytes (`L_R` and `L_D`); less than nothing is owed.
    sent: [i64; 2],
    /// The longest low-delay packet of the flows that there are (`S_D`).
    low_delay_packet: u32,
    update_at: Time,
    marker: Option<Marker>,
}

/// How flows are counted.
#[derive(Clone, Debug)]
enum Counting {
    /// In the order of [`Class::ALL`].
    Plain([FlowCounter; 2]),
    /// And held to what they may have.
    Guarded(Box<Guard>),
}

impl Counting {
    fn new(settings: &Settings, now: Time) -> Self {
        if settings.is_guarded {
            return Self::Guarded(Box::new(Guard::new(now)));
        }
        Self::Plain([FlowCounter::new(), FlowCounter::new()])
    }

    /// An interval ends: about how many flows there are in each class.
    fn count(&mut self, settings: &Settings, is_high_rate_idle: bool, now: Time) -> [u32; 2] {
        match self {
            Self::Plain(counters) => counters.each_mut().map(|counter| counter.count(now)),
            Self::Guarded(guard) => guard.update(settings, is_high_rate_idle, now),
        }
    }

    fn clear(&mut self) {
        match self {
            Self::Plain(counters) => counters.iter_mut().for_each(FlowCounter::clear),
            Self::Guarded(guard) => guard.clear(),
        }
    }
}

const HIGH: usize = Class::HighRate.place();
const LOW: usize = Class::LowDelay.place();

impl<P> RateDelay<P> {
    /// An idle link.
    #[must_use]
    pub fn new(settings: Settings, now: Time) -> Self {
        let weights = Weights::of(&settings, Counts::ONE);
        Self {
            settings,
            counting: Counting::new(&settings, now),
            flows: [0; 2],
            weights,
            room: Room::of(&settings, weights, 0),
            queues: [Fifo::new(), Fifo::new()],
            sent: [0; 2],
            low_delay_packet: 0,
            update_at: now + UPDATE_INTERVAL,
            marker: settings.marks.then(Marker::default),
        }
    }

    /// The link promises something else from now on. What waits stays, if it has room and will not wait too long.
    pub fn change(&mut self, settings: Settings, now: Time, dropped: &mut impl FnMut(P, Dropped)) {
        self.sent = [0, -self.debt()];
        if settings.is_guarded != self.settings.is_guarded {
            self.counting = Counting::new(&settings, now);
        }
        if settings.marks != self.settings.marks {
            self.marker = settings.marks.then(Marker::default);
        }
        self.settings = settings;
        self.weights = Weights::of(&settings, Counts::of(self.flows[HIGH], self.flows[LOW]));
        self.resize(now, dropped);
    }

    /// The class whose packet goes next: where both wait, the one that is behind its share.
    fn next(&self) -> Option<Class> {
        match (self.queues[HIGH].is_empty(), self.queues[LOW].is_empty()) {
            (true, true) => None,
            (false, true) => Some(Class::HighRate),
            (true, false) => Some(Class::LowDelay),
            (false, false) => {
                let low_delay = i128::from(self.weights.high_rate) * i128::from(self.sent[LOW]);
                let high_rate = i128::from(self.weights.low_delay) * i128::from(self.sent[HIGH]);
                Some(if low_delay > high_rate { Class::HighRate } else { Class::LowDelay })
            }
        }
    }

    /// What the low-delay class is behind its share, in bytes, rounded up (δL): it has to be sent before more of the other one, for the bound
    /// to hold.
    fn debt(&self) -> i64 {
        let due = i128::from(self.sent[HIGH]) * i128::from(self.weights.low_delay);
        let due = (due + i128::from(self.weights.high_rate) - 1) / i128::from(self.weights.high_rate);
        i64::try_from(due - i128::from(self.sent[LOW])).unwrap_or(i64::MAX).max(0)
    }

    fn update_if_due(&mut self, now: Time, dropped: &mut impl FnMut(P, Dropped)) {
        if now < self.update_at {
            return;
        }
        let idle = now.saturating_since(self.update_at);
        self.update_at = if idle < UPDATE_INTERVAL { self.update_at } else { now } + UPDATE_INTERVAL;
        self.sent = [0, -self.debt()];
        if idle > FLOW_EXPIRY {
            self.counting.clear();
        }
        self.flows = self.counting.count(&self.settings, self.queues[HIGH].is_empty(), now);
        if self.flows[LOW] == 0 && self.queues[LOW].is_empty() {
            self.low_delay_packet = 0;
        }
        self.weights = Weights::of(&self.settings, Counts::of(self.flows[HIGH], self.flows[LOW]));
        self.resize(now, dropped);
    }

    /// Gives the queues their room, and drops what has none any more.
    fn resize(&mut self, now: Time, dropped: &mut impl FnMut(P, Dropped)) {
        let before = self.room.low_delay;
        self.room = Room::of(&self.settings, self.weights, u64::from(self.low_delay_packet));
        if self.room.low_delay < before {
            self.discard(now, dropped);
        }
        while self.queues[HIGH].bytes() > self.room.high_rate {
            let Some(waiting) = self.queues[HIGH].pop_last() else {
                return;
            };
            dropped(waiting.packet, Dropped::Trimmed);
        }
    }

    /// Whether a packet has room and is let in.
    fn admit(&mut self, class: Class, flow: FlowHash, bytes: u32, now: Time) -> Result<(), Dropped> {
        let (backlog, room) = (self.queues[class.place()].bytes(), self.room_of(class));
        let is_full = backlog + u64::from(bytes) > room;
        let is_let_in = match (&mut self.counting, class) {
            (Counting::Guarded(guard), Class::LowDelay) => guard.admits(flow, bytes, backlog, room, now),
            (Counting::Guarded(guard), Class::HighRate) if !is_full => {
                guard.note_high_rate(flow, bytes);
                true
            }
            _ => true,
        };
        match (is_full, is_let_in) {
            (true, _) => Err(Dropped::Full),
            (false, false) => Err(Dropped::Greedy),
            (false, true) => Ok(()),
        }
    }

    /// Whether the low-delay packet that comes is to tell of congestion: by a mark, or by its loss.
    fn is_chosen(&mut self, bytes: u32, is_ecn_capable: bool) -> bool {
        let (backlog, room) = (self.queues[LOW].bytes(), self.room.low_delay);
        #[allow(clippy::cast_precision_loss, reason = "a packet's length")]
        let length = f64::from(bytes) / self.settings.packet.count() as f64;
        self.marker.as_mut().is_some_and(|marker| {
            if is_ecn_capable { marker.marks(backlog, room) } else { marker.drops(backlog, room, length) }
        })
    }

    /// Tells the guard if nothing of the high-rate class waits any more.
    fn note_departure(&mut self) {
        if let (Counting::Guarded(guard), true) = (&mut self.counting, self.queues[HIGH].is_empty()) {
            guard.note_idle();
        }
    }

    /// Drops the low-delay packets that would wait too long now that their class has less room.
    ///
    /// A packet that has waited for a while and has x bytes before its own end still waits for x at the class's rate, and for chance. So it
    /// is in time if x, and what the class sends in the time that it has waited, are no more than the room.
    fn discard(&mut self, now: Time, dropped: &mut impl FnMut(P, Dropped)) {
        let (room, weights, capacity) = (self.room.low_delay, self.weights, self.settings.capacity);
        let is_late = |waiting: &Waiting<P>, end: u64| match self.settings.discards {
            Discards::None => false,
            Discards::All => true,
            Discards::Late => {
                let waited = capacity.bytes_in(now.saturating_since(waiting.since)).unwrap_or(Bytes::MAX);
                end.saturating_add(weights.of_low_delay(waited.count())) > room
            }
        };
        self.queues[LOW].discard(is_late, |packet| dropped(packet, Dropped::Flushed));
    }

    const fn room_of(&self, class: Class) -> u64 {
        match class {
            Class::HighRate => self.room.high_rate,
            Class::LowDelay => self.room.low_delay,
        }
    }

    /// What waits of a class, and the room that it has.
    #[must_use]
    pub const fn fill(&self, class: Class) -> (Bytes, Bytes) {
        (Bytes::new(self.queues[class.place()].bytes()), Bytes::new(self.room_of(class)))
    }

    /// How the link is shared.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            flows: self.flows,
            rates: self.weights.rates(&self.settings),
            room: Class::ALL.map(|class| Bytes::new(self.room_of(class))),
            backlog: [HIGH, LOW].map(|place| Bytes::new(self.queues[place].bytes())),
            delay: self.room.delay,
        }
    }
}

impl<P> Discipline<P> for RateDelay<P> {
    fn enqueue(&mut self, arrival: Arrival<P>, now: Time, dropped: &mut impl FnMut(P, Dropped)) {
        self.update_if_due(now, dropped);
        let Arrival { packet, bytes, class, flow, source, is_ecn_capable } = arrival;
        if Bytes::new(u64::from(bytes)) > self.settings.packet {
            return dropped(packet, Dropped::TooLong);
        }
        match &mut self.counting {
            Counting::Guarded(guard) => guard.note(class, flow, source),
            Counting::Plain(counters) => counters[class.place()].touch(flow, now),
        }
        if class == Class::LowDelay && bytes > self.low_delay_packet {
            self.low_delay_packet = bytes;
            self.resize(now, dropped);
        }
        if let Err(why) = self.admit(class, flow, bytes, now) {
            return dropped(packet, why);
        }
        let is_chosen = class == Class::LowDelay && self.is_chosen(bytes, is_ecn_capable);
        if is_chosen && !is_ecn_capable {
            return dropped(packet, Dropped::Early);
        }
        self.queues[class.place()].push(Waiting {
            packet,
            bytes,
            since: now,
            is_ecn_capable,
            is_marked: is_chosen,
        });
    }

    fn dequeue(&mut self, now: Time, dropped: &mut impl FnMut(P, Dropped)) -> Option<Departure<P>> {
        self.update_if_due(now, dropped);
        let class = self.next()?;
        let are_both_backlogged = self.queues.iter().all(|queue| !queue.is_empty());
        let Waiting { packet, bytes, since, is_marked, .. } = self.queues[class.place()].pop()?;
        self.note_departure();
        if are_both_backlogged {
            self.sent[class.place()] += i64::from(bytes);
        } else if class == Class::HighRate {
            self.sent = [0; 2];
        } else {
            self.sent = [0, -(self.debt() - i64::from(bytes)).max(0)];
        }
        Some(Departure { packet, class, waited: now.saturating_since(since), is_marked })
    }

    fn backlog(&self) -> Bytes {
        Bytes::new(self.queues.iter().map(Fifo::bytes).sum())
    }
}
