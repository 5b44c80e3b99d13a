//! What does a line carry: found out before anything is sent that could fill it.

use arrayvec::ArrayVec;
use byway_units::{Bytes, Duration, Rate, Time};

/// Weighs a line of unknown speed with *trains*: packets that leave at once, and arrive as far from one another as the
/// slowest link on the way needs for one of them (packet pairs: Keshav, SIGCOMM 1991, section 2.1).
///
/// Delays vary for other reasons, too. So it is the time that half a train takes that counts, the middle of all its halves,
/// and a train is so long that the line needs longer for it than most delays vary by. How long that is shows the train before:
/// each takes 40 ms at what the line is known to carry, or has to carry if that is less. A line is as fast as the fastest of them shows.
#[derive(Clone, Debug)]
pub struct LineScale {
    /// What the line carries at least; `None` before the first train.
    carries: Option<Rate>,
    /// Whether that was true once, and the next train is to show it anew.
    is_doubtful: bool,
    /// How many trains were long enough to be believed if they say that the line is slow.
    long_trains: u8,
    train: Option<Train>,
    /// How many trains in a row told nothing.
    failures: u32,
    /// How many of them since the last success lost some of their packets only.
    thinned: u8,
    next: Time,
    /// The load for which it was doubted last, and whether the line bore that until then.
    doubted: Option<(Rate, bool)>,
    /// When it may be doubted next, and how much later from then on.
    doubted_from: Time,
    patience: Duration,
}

/// How many packets a train has, and how long they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainShape {
    /// From 4 to 56.
    pub packets: usize,
    /// What each takes of the line: from 530 to 1,150.
    pub packet: Bytes,
}

/// A train on its way.
#[derive(Clone, Debug)]
struct Train {
    shape: TrainShape,
    /// When each packet arrived, by the clock of the other side in microseconds modulo 2^32.
    arrivals: ArrayVec<Option<u32>, PACKETS_MAX>,
    /// When those that are missing are not waited for any more.
    due: Time,
}

/// The first train takes 30 ms of a line that just carries a call of 460 kbit/s, and 5 ms in which delays vary are not
/// taken for a slow line by a flow of up to 1 Mbit/s. Fewer packets have no halves of which one could be doubted.
const FIRST: TrainShape = TrainShape { packets: PACKETS_MIN, packet: Bytes::new(530) };
const PACKETS_MIN: usize = 4;

/// The longest train: 64 kB, which is 5 ms at 100 Mbit/s. Faster lines are tried out.
const PACKETS_MAX: usize = 56;

/// As long as paths bear, and their longest messages.
const PACKET_MAX: Bytes = Bytes::new(1_150);

/// How long a train takes: on a line a fifth faster than a flow, the flow's packets are late for a quarter of a second.
const TRAIN_TAKES: Duration = Duration::from_millis(40);

/// A train that took so long is believed: delays vary by less on most paths.
const LONG: Duration = Duration::from_millis(30);

/// So many of them: one may have met the packets of others.
const LONG_TRAINS: u8 = 2;

/// By what part more than needed a line has to carry: one that is busy almost all of the time delays every packet that comes
/// a bit early.
const RESERVE_PART: u64 = 8;

/// How long packets of a train are waited for beyond the round trip: longer than the first train takes at 70 kbit/s.
const WAITS_FOR: Duration = Duration::from_millis(250);

/// After a train that told nothing the next waits twice so long, and twice as long each time.
const RETRY: Duration = Duration::from_millis(250);
const RETRY_DOUBLINGS_MAX: u32 = 6;

/// So many trains that lost packets, but not all of them, are repeated without doubling the wait:
/// where 30 % are lost each way, three of five trains tell nothing.
const THINNED_MAX: u8 = 8;

/// A line that was doubted is not doubted again for so long, and twice as long each time if it is as before: at first a hundredth
/// of its time is spent on trains, and soon a thousandth.
const PATIENCE_MIN: Duration = Duration::from_secs(10);
const PATIENCE_MAX: Duration = Duration::from_secs(320);

/// No train takes longer: the clock was set, or the other side invents.
const TAKES_MAX: Duration = Duration::from_secs(10);

impl Default for LineScale {
    fn default() -> Self {
        Self::new()
    }
}

impl LineScale {
    /// A line of which nothing is known.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            carries: None,
            is_doubtful: false,
            long_trains: 0,
            train: None,
            failures: 0,
            thinned: 0,
            next: Time::START,
            doubted: None,
            doubted_from: Time::START,
            patience: PATIENCE_MIN,
        }
    }

    /// Whether the line carries so much, and some more, as far as is known.
    #[must_use]
    pub fn bears(&self, load: Rate) -> bool {
        self.carries.is_some_and(|carries| carries >= with_reserve(load))
    }

    /// What the line carries at least; `None` before that was measured.
    #[must_use]
    pub const fn carries(&self) -> Option<Rate> {
        self.carries
    }

    /// Whether what is known may have changed.
    #[must_use]
    pub const fn is_doubtful(&self) -> bool {
        self.is_doubtful
    }

    /// Whether another train might show more.
    #[must_use]
    pub fn may_weigh(&self, now: Time) -> bool {
        self.train.is_none() && now >= self.next && (self.is_doubtful || self.long_trains < LONG_TRAINS)
    }

    /// The train to be sent now, if it has to be known whether the line carries so much.
    #[must_use]
    pub fn wants(&self, load: Rate, now: Time) -> Option<TrainShape> {
        let is_known = self.bears(load) && !self.is_doubtful;
        (!is_known && self.may_weigh(now)).then(|| self.shape(load))
    }

    fn shape(&self, load: Rate) -> TrainShape {
        let rate = self.carries.unwrap_or(Rate::ZERO).min(with_reserve(load));
        let bytes = rate.bytes_in(TRAIN_TAKES).unwrap_or(Bytes::MAX);
        let packets = (bytes.count() / PACKET_MAX.count()).clamp(PACKETS_MIN as u64, PACKETS_MAX as u64);
        let packet = Bytes::new(bytes.count() / packets).clamp(FIRST.packet, PACKET_MAX);
        TrainShape { packets: usize::try_from(packets).unwrap_or(PACKETS_MAX), packet }
    }

    /// Another line with the same first link carries so much: that holds until this one is weighed.
    pub fn suppose(&mut self, carries: Option<Rate>) {
        self.is_doubtful = carries.is_some();
        self.carries = carries;
    }

    /// The train left, and is answered in a round trip of this time.
    pub fn sent(&mut self, shape: TrainShape, round_trip: Duration, now: Time) {
        let arrivals = core::iter::repeat_n(None, shape.packets).collect();
        let due = now.saturating_add(round_trip + WAITS_FOR);
        self.train = Some(Train { shape, arrivals, due });
    }

    /// The packet at this place of the train arrived, by the clock of the other side in microseconds modulo 2^32.
    pub fn arrived(&mut self, place: usize, micros: u32, now: Time) {
        let Some(train) = &mut self.train else {
            return;
        };
        if let Some(arrival) = train.arrivals.get_mut(place) {
            arrival.get_or_insert(micros);
        }
        if train.arrivals.iter().all(Option::is_some) {
            self.conclude(now);
        }
    }

    /// When something is to be done: a train is not waited for any more, or another one may leave as that told nothing.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.train.as_ref().map(|train| train.due).or_else(|| (self.failures > 0).then_some(self.next))
    }

    /// Time passes.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.train.as_ref().is_some_and(|train| train.due <= now) {
            self.conclude(now);
        }
    }

    fn conclude(&mut self, now: Time) {
        let Some(train) = self.train.take() else {
            return;
        };
        let Some(took) = train.took() else {
            let is_thinned = train.arrivals.iter().any(Option::is_some) && self.thinned < THINNED_MAX;
            self.thinned += u8::from(is_thinned);
            self.failures = if is_thinned { 1 } else { (self.failures + 1).min(RETRY_DOUBLINGS_MAX) };
            let doublings = if is_thinned { 0 } else { self.failures };
            self.next = now.saturating_add(RETRY * (1 << doublings));
            return;
        };
        (self.failures, self.thinned, self.next) = (0, 0, now);
        let is_long = took >= LONG;
        let rate = match train.shape.packets {
            PACKETS_MAX if !is_long => Rate::MAX,
            packets => Rate::over(train.shape.packet * packets as u64, took).unwrap_or(Rate::MAX),
        };
        if core::mem::take(&mut self.is_doubtful) {
            self.carries = None;
        }
        self.long_trains += u8::from(is_long);
        self.carries = self.carries.max(Some(rate));
        self.judge_doubt(now);
    }

    /// Once a doubt is settled: if it was right, the next one may be right as soon.
    fn judge_doubt(&mut self, now: Time) {
        let is_settled = |(load, _): &(Rate, bool)| self.bears(*load) || self.long_trains >= LONG_TRAINS;
        if let Some((load, bore)) = self.doubted.filter(is_settled) {
            self.doubted = None;
            if self.bears(load) != bore {
                self.patience = PATIENCE_MIN * 2;
                self.doubted_from = now.saturating_add(PATIENCE_MIN);
            }
        }
    }

    /// Packets queue, or are lost, where so much is to be carried: the line may carry less than before, or more. What was known
    /// holds until it is weighed anew.
    pub fn doubt(&mut self, load: Rate, now: Time) {
        if now < self.doubted_from || self.carries.is_none() {
            return;
        }
        let is_calm = now >= self.doubted_from.saturating_add(self.patience);
        let patience = if is_calm { PATIENCE_MIN } else { self.patience };
        self.doubted_from = now.saturating_add(patience);
        self.patience = (patience * 2).min(PATIENCE_MAX);
        self.is_doubtful = true;
        self.doubted = Some((load, self.bears(load)));
        // A line that is known to be slow needs one train only to be known again.
        self.long_trains = if self.bears(load) { 0 } else { LONG_TRAINS - 1 };
    }
}

fn with_reserve(load: Rate) -> Rate {
    let bits = load.bits_per_second();
    Rate::from_bits_per_second(bits.saturating_add(bits / RESERVE_PART))
}

impl Train {
    /// How long the line took for the whole of it, by the middle of its halves; `None` if too few of them arrived.
    fn took(&self) -> Option<Duration> {
        let half = self.shape.packets / 2;
        let (early, late) = (self.arrivals.iter(), self.arrivals.iter().skip(half));
        let mut times: ArrayVec<i32, PACKETS_MAX> = early
            .zip(late)
            .filter_map(|(early, late)| Some((*late)?.wrapping_sub((*early)?).cast_signed()))
            .collect();
        if times.len() < half.div_ceil(2) {
            return None;
        }
        times.sort_unstable();
        let micros = u64::try_from(times[times.len() / 2]).unwrap_or(0);
        Some(Duration::from_micros(micros * self.shape.packets as u64 / half as u64))
            .filter(|took| *took < TAKES_MAX)
    }
}

#[cfg(test)]
mod tests;
