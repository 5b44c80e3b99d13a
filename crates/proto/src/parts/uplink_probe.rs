//! Capacity probe of an uplink: measures its capacity before packets that could congest it are
//! sent.

use arrayvec::ArrayVec;
use byway_units::{Bytes, Duration, Rate, Time};

/// Measures the capacity of an unknown uplink with *packet trains*. Their packets are sent back to
/// back, and arrive spaced by the time that the bottleneck link takes for each of them (packet
/// pairs: Keshav, SIGCOMM 1991, section 2.1).
///
/// Delays vary for other reasons, too. So the probe uses the median of the times between packets
/// that are half a train apart. A train takes longer on the uplink than most delays vary. The
/// previous train determines its length: each takes 40 ms at the known capacity, or at the load if
/// that is lower. The fastest train determines the capacity.
#[derive(Clone, Debug)]
pub struct UplinkCapacityProbe {
    /// Known lower bound of the capacity; `None` before the first train.
    capacity: Option<Rate>,
    /// True if the capacity may have changed, and the next train has to measure it again.
    is_doubtful: bool,
    /// Number of trains that were long enough to prove a low capacity.
    long_trains: u8,
    train: Option<Train>,
    /// Number of consecutive trains without a result: too few of their packets arrived.
    failures: u32,
    /// Number of trains since the last result of which some packets arrived, but too few.
    thinned: u8,
    next: Time,
    /// Load at the last doubt, and true if the known capacity sustained it; `None` once it is
    /// settled.
    doubted: Option<(Rate, bool)>,
    /// Time from which the next doubt is allowed, and the interval to the one after.
    doubted_from: Time,
    doubt_interval: Duration,
}

/// Number of packets in a train, and their length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainShape {
    /// Number of packets, from 4 to 56.
    pub packets: usize,
    /// Length of each on the uplink, from 530 to 1,150 bytes.
    pub packet: Bytes,
}

/// Packet train in flight, with the arrivals known so far.
#[derive(Clone, Debug)]
struct Train {
    shape: TrainShape,
    /// Arrival time of each packet, by the clock of the other side in microseconds modulo 2^32.
    arrivals: ArrayVec<Option<u32>, PACKETS_MAX>,
    /// Time at which missing packets count as lost.
    due: Time,
}

/// First train: it takes 30 ms on an uplink that just sustains a call of 460 kbit/s. For flows of
/// up to 1 Mbit/s, a delay variation of 5 ms does not look like a slow uplink. A train of fewer
/// packets has too few pairs for a median.
const FIRST_TRAIN: TrainShape = TrainShape { packets: PACKETS_MIN, packet: Bytes::new(530) };
const PACKETS_MIN: usize = 4;

/// Longest train: 64 kB, which is 5 ms at 100 Mbit/s. Faster uplinks are tested by use.
const PACKETS_MAX: usize = 56;

/// Longest packet that all paths and probe messages allow.
const PACKET_MAX: Bytes = Bytes::new(1_150);

/// Duration of a train: on an uplink that is 20 % faster than a flow, the flow's packets are late
/// for a quarter of a second.
const TRAIN_DURATION: Duration = Duration::from_millis(40);

/// Duration from which on a train is long enough to prove a low capacity: delays vary by less on
/// most paths.
const LONG_TRAIN_MIN: Duration = Duration::from_millis(30);

/// Number of long trains that prove a low capacity, because cross traffic may delay one.
const LONG_TRAINS: u8 = 2;

/// Divisor of the load for the headroom that the capacity needs above it. An uplink that is almost
/// always busy delays every packet that is a bit early.
const RESERVE_PART: u64 = 8;

/// Time beyond the round-trip time to wait for packets of a train: longer than the first train
/// takes at 70 kbit/s.
const TRAIN_TIMEOUT: Duration = Duration::from_millis(250);

/// Least time between trains without a result. Each further one without a result doubles it, up to
/// 2^6 times.
const RETRY: Duration = Duration::from_millis(250);
const RETRY_DOUBLINGS_MAX: u32 = 6;

/// Number of trains with some lost packets after which further ones count as failed. Until then,
/// they are repeated soon: at 30 % loss in each direction, three of five trains have no result.
const THINNED_MAX: u8 = 8;

/// Least time between two doubts of the capacity. It doubles each time the capacity is unchanged:
/// at first, a hundredth of the uplink's time is spent on trains, and soon a thousandth.
const DOUBT_INTERVAL_MIN: Duration = Duration::from_secs(10);
const DOUBT_INTERVAL_MAX: Duration = Duration::from_secs(320);

/// Longest plausible train. If a train took longer, a clock was set or the other side reports false
/// times, so it has no result.
const TRAIN_DURATION_MAX: Duration = Duration::from_secs(10);

impl Default for UplinkCapacityProbe {
    fn default() -> Self {
        Self::new()
    }
}

impl UplinkCapacityProbe {
    /// Creates the state of an unknown uplink.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            capacity: None,
            is_doubtful: false,
            long_trains: 0,
            train: None,
            failures: 0,
            thinned: 0,
            next: Time::START,
            doubted: None,
            doubted_from: Time::START,
            doubt_interval: DOUBT_INTERVAL_MIN,
        }
    }

    /// True if the known capacity exceeds this load by an eighth.
    #[must_use]
    pub fn sustains(&self, load: Rate) -> bool {
        self.capacity.is_some_and(|capacity| capacity >= with_reserve(load))
    }

    /// Returns the known lower bound of the capacity; `None` before the first measurement.
    #[must_use]
    pub const fn capacity(&self) -> Option<Rate> {
        self.capacity
    }

    /// True if the known capacity may have changed, and has to be measured again.
    #[must_use]
    pub const fn is_doubtful(&self) -> bool {
        self.is_doubtful
    }

    /// True if another train may be sent now: none is in flight, the retry time has passed, and the
    /// capacity is not proved.
    #[must_use]
    pub fn may_probe(&self, now: Time) -> bool {
        self.train.is_none() && now >= self.next && (self.is_doubtful || self.long_trains < LONG_TRAINS)
    }

    /// Returns the train to send now; `None` if the uplink is known to sustain this load, or no
    /// train may be sent.
    #[must_use]
    pub fn next_train(&self, load: Rate, now: Time) -> Option<TrainShape> {
        let is_known = self.sustains(load) && !self.is_doubtful;
        (!is_known && self.may_probe(now)).then(|| self.shape(load))
    }

    fn shape(&self, load: Rate) -> TrainShape {
        let rate = self.capacity.unwrap_or(Rate::ZERO).min(with_reserve(load));
        let bytes = rate.bytes_in(TRAIN_DURATION).unwrap_or(Bytes::MAX);
        let packets = (bytes.count() / PACKET_MAX.count()).clamp(PACKETS_MIN as u64, PACKETS_MAX as u64);
        let packet = Bytes::new(bytes.count() / packets).clamp(FIRST_TRAIN.packet, PACKET_MAX);
        TrainShape { packets: usize::try_from(packets).unwrap_or(PACKETS_MAX), packet }
    }

    /// Uses the capacity of another path with the same first link until this one is measured;
    /// `None` forgets the known one.
    pub fn assume_capacity(&mut self, capacity: Option<Rate>) {
        self.is_doubtful = capacity.is_some();
        self.capacity = capacity;
    }

    /// Records that a train was sent. Packets without an answer a round-trip time and 250 ms later
    /// count as lost.
    pub fn on_train_sent(&mut self, shape: TrainShape, round_trip: Duration, now: Time) {
        let arrivals = core::iter::repeat_n(None, shape.packets).collect();
        let due = now.saturating_add(round_trip + TRAIN_TIMEOUT);
        self.train = Some(Train { shape, arrivals, due });
    }

    /// Records the arrival time of the train's packet at this index, by the clock of the other side
    /// in microseconds modulo 2^32. The last packet completes the measurement.
    pub fn on_train_packet(&mut self, index: usize, micros: u32, now: Time) {
        let Some(train) = &mut self.train else {
            return;
        };
        if let Some(arrival) = train.arrivals.get_mut(index) {
            arrival.get_or_insert(micros);
        }
        if train.arrivals.iter().all(Option::is_some) {
            self.finish_train(now);
        }
    }

    /// Returns the time at which the train is evaluated with the packets that arrived until then.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.train.as_ref().map(|train| train.due).or_else(|| (self.failures > 0).then_some(self.next))
    }

    /// Evaluates the train in flight with the packets that arrived, if its time is over.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.train.as_ref().is_some_and(|train| train.due <= now) {
            self.finish_train(now);
        }
    }

    fn finish_train(&mut self, now: Time) {
        let Some(train) = self.train.take() else {
            return;
        };
        let Some(took) = train.duration() else {
            let is_thinned = train.arrivals.iter().any(Option::is_some) && self.thinned < THINNED_MAX;
            self.thinned += u8::from(is_thinned);
            self.failures = if is_thinned { 1 } else { (self.failures + 1).min(RETRY_DOUBLINGS_MAX) };
            let doublings = if is_thinned { 0 } else { self.failures };
            self.next = now.saturating_add(RETRY * (1 << doublings));
            return;
        };
        (self.failures, self.thinned, self.next) = (0, 0, now);
        let is_long = took >= LONG_TRAIN_MIN;
        let rate = match train.shape.packets {
            PACKETS_MAX if !is_long => Rate::MAX,
            packets => Rate::over(train.shape.packet * packets as u64, took).unwrap_or(Rate::MAX),
        };
        if core::mem::take(&mut self.is_doubtful) {
            self.capacity = None;
        }
        self.long_trains += u8::from(is_long);
        self.capacity = self.capacity.max(Some(rate));
        self.resolve_doubt(now);
    }

    /// Ends a doubt once the capacity is measured. If the measurement contradicts the old capacity,
    /// the next doubt is allowed after the shortest interval.
    fn resolve_doubt(&mut self, now: Time) {
        let is_settled = |(load, _): &(Rate, bool)| self.sustains(*load) || self.long_trains >= LONG_TRAINS;
        if let Some((load, was_sustained)) = self.doubted.filter(is_settled) {
            self.doubted = None;
            if self.sustains(load) != was_sustained {
                self.doubt_interval = DOUBT_INTERVAL_MIN * 2;
                self.doubted_from = now.saturating_add(DOUBT_INTERVAL_MIN);
            }
        }
    }

    /// Records a doubt: packets queue or are lost at this load, so the capacity may have changed.
    /// The old value is valid until the next train. Ignored soon after an earlier doubt.
    pub fn doubt(&mut self, load: Rate, now: Time) {
        if now < self.doubted_from || self.capacity.is_none() {
            return;
        }
        let is_calm = now >= self.doubted_from.saturating_add(self.doubt_interval);
        let interval = if is_calm { DOUBT_INTERVAL_MIN } else { self.doubt_interval };
        self.doubted_from = now.saturating_add(interval);
        self.doubt_interval = (interval * 2).min(DOUBT_INTERVAL_MAX);
        self.is_doubtful = true;
        self.doubted = Some((load, self.sustains(load)));
        // For an uplink that is known to be slow, one train suffices to confirm it.
        self.long_trains = if self.sustains(load) { 0 } else { LONG_TRAINS - 1 };
    }
}

fn with_reserve(load: Rate) -> Rate {
    let bits = load.bits_per_second();
    Rate::from_bits_per_second(bits.saturating_add(bits / RESERVE_PART))
}

impl Train {
    /// Returns the time that the uplink took for the whole train, from the median over halves;
    /// `None` if too few packets arrived.
    fn duration(&self) -> Option<Duration> {
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
            .filter(|took| *took < TRAIN_DURATION_MAX)
    }
}

#[cfg(test)]
mod tests;
