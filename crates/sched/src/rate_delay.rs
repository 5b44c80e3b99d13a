//! The queues of a Rate-Delay link (Figures 3 to 5 of the paper), and a third one.

use byway_units::{Bytes, Time};

use crate::allotment::Allotment;
use crate::class::Class;
use crate::counting::Counting;
use crate::discipline::{Arrival, Departure, Discipline, Dropped};
use crate::fifo::{Fifo, Waiting};
use crate::flows::FlowHash;
use crate::governor::Governor;
use crate::limits::{FLOW_EXPIRY, UPDATE_INTERVAL};
use crate::longest::Longest;
use crate::marker::Marker;
use crate::settings::{Discards, Settings};
use crate::sizing::{Counts, Room, Weights};
use crate::split::Split;

/// How the link is shared, as of the last packet that came or left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// About how many flows there are in a class, 0 if there are none, in the order of [`Class::ALL`].
    pub flows: [u32; Class::COUNT],
    /// What waits in their queues.
    pub backlog: [Bytes; Class::COUNT],
    /// What each class gets.
    pub allotment: Allotment,
}

/// The queues before one link: of both classes of the paper, and of a third one if the settings have it.
///
/// To the low-delay class, all others together are the high-rate one of the paper: they share what is not its own by the same rule.
///
/// [`Discipline::enqueue`] and [`Discipline::dequeue`] take constant time, but for what they drop, every 400 ms for counting flows, and for a packet that is longer than those
/// of a second before it, which has what waits looked through. No low-delay packet is dequeued later than [`Allotment::delay`] after it came, if the link is never free longer
/// than its rate demands; and nothing waits while the link is free.
#[derive(Clone, Debug)]
pub struct RateDelay<P> {
    settings: Settings,
    counting: Counting,
    flows: [u32; Class::COUNT],
    weights: Weights,
    room: Room,
    /// In the order of [`Class::ALL`].
    queues: [Fifo<P>; Class::COUNT],
    /// Between all others and the low-delay class.
    outer: Split,
    /// Between the high-rate class and the low-average one.
    inner: Split,
    longest: Longest,
    update_at: Time,
    /// Of low-delay packets.
    marker: Option<Marker>,
    /// Of low-average packets.
    governor: Governor,
}

const HIGH: usize = Class::HighRate.place();
const LOW: usize = Class::LowDelay.place();
const AVERAGE: usize = Class::LowAverage.place();

impl<P> RateDelay<P> {
    /// An idle link.
    #[must_use]
    pub fn new(settings: Settings, now: Time) -> Self {
        let weights = Weights::of(&settings, Counts::ONE);
        Self {
            settings,
            counting: Counting::new(&settings, now),
            flows: [0; Class::COUNT],
            weights,
            room: Room::of(&settings, weights, 0),
            queues: [Fifo::new(), Fifo::new(), Fifo::new()],
            outer: Split::new(weights.outer()),
            inner: Split::new(weights.inner()),
            longest: Longest::default(),
            update_at: now + UPDATE_INTERVAL,
            marker: settings.marks.then(Marker::default),
            governor: Governor::new(settings.delay, now),
        }
    }

    /// The link promises something else from now on. What waits stays, if it has room and will not wait too long.
    ///
    /// What is promised holds for packets that come later, once high-rate packets have left that are longer than packets of the link are from now on, and the one that is under
    /// way at another rate.
    pub fn change(&mut self, settings: Settings, now: Time, dropped: &mut impl FnMut(P, Dropped)) {
        if !Counting::is_same(&settings, &self.settings) {
            self.counting = Counting::new(&settings, now);
        }
        if settings.marks != self.settings.marks {
            self.marker = settings.marks.then(Marker::default);
        }
        self.governor.aim(settings.delay);
        self.settings = settings;
        self.share(now, dropped);
    }

    /// Divides the link among the flows that were counted.
    fn share(&mut self, now: Time, dropped: &mut impl FnMut(P, Dropped)) {
        self.weights = Weights::of(&self.settings, Counts::of(self.flows));
        self.outer.begin(self.weights.outer());
        self.inner.begin(self.weights.inner());
        self.resize(now, dropped);
    }

    /// Which classes have something to send, in the order of [`Class::ALL`].
    fn waiting(&self) -> [bool; Class::COUNT] {
        let [high_rate, low_delay, low_average] = &self.queues;
        [!high_rate.is_empty(), !low_delay.is_empty(), !low_average.is_empty()]
    }

    /// The class whose packet goes next: where several wait, one that is behind its share.
    fn next(&self, [high_rate, low_delay, low_average]: [bool; Class::COUNT]) -> Option<Class> {
        if low_delay && (!(high_rate || low_average) || self.outer.next() == 1) {
            return Some(Class::LowDelay);
        }
        if low_average && (!high_rate || self.inner.next() == 1) {
            return Some(Class::LowAverage);
        }
        high_rate.then_some(Class::HighRate)
    }

    /// A packet of a class is sent, of so many bytes; which classes waited, it among them.
    fn note_sent(&mut self, class: Class, bytes: u32, waiting: [bool; Class::COUNT]) {
        let [high_rate, low_delay, low_average] = waiting;
        let did_all_wait = low_delay && (high_rate || low_average);
        self.outer.note(usize::from(class == Class::LowDelay), bytes, did_all_wait);
        if class != Class::LowDelay {
            self.inner.note(usize::from(class == Class::LowAverage), bytes, high_rate && low_average);
        }
    }

    #[inline]
    fn update_if_due(&mut self, now: Time, dropped: &mut impl FnMut(P, Dropped)) {
        if now >= self.update_at {
            self.update(now, dropped);
        }
    }

    #[cold]
    fn update(&mut self, now: Time, dropped: &mut impl FnMut(P, Dropped)) {
        let idle = now.saturating_since(self.update_at);
        self.update_at = if idle < UPDATE_INTERVAL { self.update_at } else { now } + UPDATE_INTERVAL;
        if idle > FLOW_EXPIRY {
            self.counting.clear(idle);
            self.longest.forget();
        }
        self.flows = self.counting.count(&self.settings, now);
        let waiting = &self.queues[LOW];
        self.longest.end_interval(|| waiting.longest());
        self.share(now, dropped);
    }

    /// Gives the queues their room, and drops what has none any more.
    #[cold]
    fn resize(&mut self, now: Time, dropped: &mut impl FnMut(P, Dropped)) {
        let before = self.room.low_delay;
        let longest = self.longest.bytes(self.settings.packet.count());
        self.room = Room::of(&self.settings, self.weights, longest);
        if self.room.low_delay < before {
            self.discard(now, dropped);
        }
        for class in [Class::HighRate, Class::LowAverage] {
            let queue = &mut self.queues[class.place()];
            while queue.bytes() > self.room.class(class) {
                let Some(waiting) = queue.pop_last() else {
                    break;
                };
                dropped(waiting.packet, Dropped::Trimmed);
            }
        }
    }

    /// Whether a packet has room and is let in.
    ///
    /// What is let in counts for its sender, also where it finds no room: what counts is what was brought.
    fn admit(&mut self, class: Class, names: [FlowHash; 2], bytes: u32, now: Time) -> Result<(), Dropped> {
        let (backlog, room) = (self.queues[class.place()].bytes(), self.room.class(class));
        let is_full = backlog + u64::from(bytes) > room;
        let is_let_in = match (&mut self.counting, class) {
            (Counting::Guarded(guard), Class::LowDelay | Class::LowAverage) => {
                guard.admits(class, names, bytes, [backlog, room], now)
            }
            (Counting::Guarded(guard), Class::HighRate) if !is_full => {
                guard.note_high_rate(names[0], bytes, now);
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

    /// Whether the packet that comes is to tell of congestion: by a mark if `is_marked`, or by its loss.
    fn is_chosen(&mut self, class: Class, bytes: u32, is_marked: bool, now: Time) -> bool {
        #[allow(clippy::cast_precision_loss, reason = "a packet's length")]
        let length = |settings: &Settings| f64::from(bytes) / settings.packet.count() as f64;
        match (class, &mut self.marker) {
            (Class::HighRate, _) | (Class::LowDelay, None) => false,
            (Class::LowDelay, Some(marker)) => {
                let (backlog, room) = (self.queues[LOW].bytes(), self.room.low_delay);
                if is_marked {
                    marker.marks(backlog, room)
                } else {
                    marker.drops(backlog, room, length(&self.settings))
                }
            }
            (Class::LowAverage, _) => {
                let oldest = self.queues[AVERAGE].since().unwrap_or(now);
                let waited = now.saturating_since(oldest);
                self.governor.chooses(waited, is_marked, length(&self.settings), now)
            }
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

    /// What waits of a class, and the room that it has.
    #[must_use]
    pub const fn fill(&self, class: Class) -> (Bytes, Bytes) {
        (Bytes::new(self.queues[class.place()].bytes()), Bytes::new(self.room.class(class)))
    }

    /// How the link is shared.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            flows: self.flows,
            backlog: Class::ALL.map(|class| Bytes::new(self.queues[class.place()].bytes())),
            allotment: Allotment::with(&self.settings, self.weights, self.room),
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
        let class = self.settings.served(class);
        self.counting.note(class, [flow, source], bytes, now);
        if class == Class::LowDelay && self.longest.note(bytes) {
            self.resize(now, dropped);
        }
        if let Err(why) = self.admit(class, [flow, source], bytes, now) {
            return dropped(packet, why);
        }
        let is_marked = self.settings.marks && is_ecn_capable;
        let is_chosen = self.is_chosen(class, bytes, is_marked, now);
        if is_chosen && !is_marked {
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
        let waiting = self.waiting();
        let class = self.next(waiting)?;
        let Waiting { packet, bytes, since, is_marked, .. } = self.queues[class.place()].pop()?;
        self.note_sent(class, bytes, waiting);
        if self.queues[HIGH].is_empty() {
            self.counting.note_idle(now);
        }
        Some(Departure { packet, class, waited: now.saturating_since(since), is_marked })
    }

    fn backlog(&self) -> Bytes {
        Bytes::new(self.queues.iter().map(Fifo::bytes).sum())
    }
}
