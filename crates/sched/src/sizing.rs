//! How much room each class has (Equations 5 to 9 of the paper).
//!
//! With `n_D` flows of low delay and `n_R` of high rate, the low-delay class is served at `R_D = n_D·C / (n_D + k·n_R)`, and the other one at
//! the rest of the capacity C. A low-delay packet that finds `B_D` bytes before it waits for their time at `R_D`, and for the packets by which
//! the other class is ahead by chance, which takes `w = 2·(S_D·k·n_R/n_D + S_R) / C` at most. So there are `B_D = R_D·(d - w)` bytes of room.

use byway_units::{Bytes, Duration, Rate};

use crate::class::Class;
use crate::settings::Settings;

/// How many flows there are in each class: one at least, so that whoever comes finds room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts([u32; Class::COUNT]);

impl Counts {
    pub(crate) const ONE: Self = Self([1; Class::COUNT]);

    /// In the order of [`Class::ALL`].
    pub(crate) fn of(flows: [u32; Class::COUNT]) -> Self {
        Self(flows.map(|flows| flows.max(1)))
    }
}

/// By what the classes share the link: bytes of one for bytes of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weights {
    /// `k·n_R`, in thousandths.
    pub(crate) high_rate: u64,
    /// `n_D`, in thousandths.
    pub(crate) low_delay: u64,
    /// The flows of the low-average class, in thousandths; none where there is no such class.
    pub(crate) low_average: u64,
}

impl Weights {
    pub(crate) const fn of(settings: &Settings, Counts([high_rate, low_delay, low_average]): Counts) -> Self {
        Self {
            high_rate: settings.ratio_milli as u64 * high_rate as u64,
            low_delay: 1_000 * low_delay as u64,
            low_average: if settings.spike.is_some() { 1_000 * low_average as u64 } else { 0 },
        }
    }

    /// Of all that is not low-delay: to that class, it is as `k·n_R` flows of high rate.
    pub(crate) const fn rest(self) -> u64 {
        self.high_rate + self.low_average
    }

    /// Of all others, and of the low-delay class.
    pub(crate) const fn outer(self) -> [u64; 2] {
        [self.rest(), self.low_delay]
    }

    /// Of the high-rate class and of the low-average one.
    pub(crate) const fn inner(self) -> [u64; 2] {
        [self.high_rate, self.low_average]
    }

    /// What of so many bytes of the link the low-delay class has, rounded up.
    pub(crate) fn of_low_delay(self, bytes: u64) -> u64 {
        let share = (u128::from(bytes) * u128::from(self.low_delay)).div_ceil(self.sum());
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// What each low-delay flow is served at where all classes have something to send.
    pub(crate) fn of_flow(self, settings: &Settings) -> Rate {
        let bits = u128::from(settings.capacity.bits_per_second()) * 1_000 / self.sum();
        Rate::from_bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX))
    }

    /// What of so many bytes of the link all but the high-rate class have, rounded down.
    pub(crate) fn but_high_rate(self, bytes: u64) -> u64 {
        let share = u128::from(bytes) * u128::from(self.low_delay + self.low_average) / self.sum();
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// What each class is served at where both have something to send.
    pub(crate) fn rates(self, settings: &Settings) -> [Rate; Class::COUNT] {
        [self.high_rate, self.low_delay, self.low_average].map(|weight| {
            let bits = u128::from(settings.capacity.bits_per_second()) * u128::from(weight) / self.sum();
            Rate::from_bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX))
        })
    }

    const fn sum(self) -> u128 {
        self.rest() as u128 + self.low_delay as u128
    }
}

/// The room of the classes, and the delay that this promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) high_rate: u64,
    pub(crate) low_delay: u64,
    pub(crate) low_average: u64,
    /// What was asked for, or the least that is possible.
    pub(crate) delay: Duration,
}

impl Room {
    /// With low-delay packets of at most so many bytes, as observed.
    ///
    /// Where the delay that is asked for leaves no room for one packet, it is the least one that does: without, nothing of the class would
    /// get through.
    pub(crate) fn of(settings: &Settings, weights: Weights, low_delay_packet: u64) -> Self {
        let packet = settings.packet.count();
        // Room for one packet in each class, at the least; and half of all for the high-rate class, whatever is promised to others: they may wait for less.
        let buffer = settings.buffer.count().max(2 * packet * settings.classes() as u64);
        // What the link sends in d, times n_D; and what of that w takes.
        let least = ahead(settings, weights, low_delay_packet) + u128::from(low_delay_packet) * weights.sum();
        let asked = in_delay(settings, settings.delay);
        let needed = least.div_ceil(u128::from(weights.low_delay));
        let (sent, delay) =
            if asked >= needed { (asked, settings.delay) } else { (needed, time_of(settings, needed)) };
        let low_delay = (sent * u128::from(weights.low_delay) - ahead(settings, weights, low_delay_packet))
            / weights.sum();
        let low_delay = u64::try_from(low_delay).unwrap_or(u64::MAX).min(buffer / 2);
        let low_average = room_of_low_average(settings, weights).min((buffer / 2 - low_delay).max(packet));
        let high_rate = (buffer - low_delay - low_average).min(settings.high_rate_buffer.count());
        Self { high_rate, low_delay, low_average, delay }
    }

    /// That of a class.
    #[inline]
    pub(crate) const fn class(&self, class: Class) -> u64 {
        match class {
            Class::HighRate => self.high_rate,
            Class::LowDelay => self.low_delay,
            Class::LowAverage => self.low_average,
        }
    }
}

/// What the low-average class sends in a spike, and a packet.
fn room_of_low_average(settings: &Settings, weights: Weights) -> u64 {
    settings.spike.map_or(0, |spike| {
        let sent = in_delay(settings, spike) * u128::from(weights.low_average) / weights.sum();
        u64::try_from(sent).unwrap_or(u64::MAX).saturating_add(settings.packet.count())
    })
}

/// `w·C·n_D = 2·(S_D·k·n_R + S_R·n_D)`.
fn ahead(settings: &Settings, weights: Weights, low_delay_packet: u64) -> u128 {
    let of_low_delay = u128::from(low_delay_packet) * u128::from(weights.rest());
    let of_high_rate = u128::from(settings.packet.count()) * u128::from(weights.low_delay);
    2 * (of_low_delay + of_high_rate)
}

/// What the link sends in a time, in bytes, rounded down.
fn in_delay(settings: &Settings, delay: Duration) -> u128 {
    u128::from(settings.capacity.bytes_in(delay).unwrap_or(Bytes::MAX).count())
}

/// How long the link takes for so many bytes, rounded up; for ever if that cannot be counted.
fn time_of(settings: &Settings, bytes: u128) -> Duration {
    let bytes = u64::try_from(bytes).ok();
    bytes.and_then(|bytes| settings.capacity.time_for(Bytes::new(bytes))).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(megabits: u64, high_rate: u32, low_delay: u32) -> Room {
        let settings =
            Settings::new(Rate::from_megabits_per_second(megabits), Bytes::new(1_040)).expect("a link");
        Room::of(&settings, Weights::of(&settings, Counts::of([high_rate, low_delay, 0])), 1_040)
    }

    #[test]
    fn rooms_are_those_of_the_paper() {
        // 100 Mbit/s, 100 flows each, k = 2: a third of 125,000 bytes in 10 ms, less 2·(1,040·2 + 1,040)/3.
        let usual = room(100, 100, 100);
        assert_eq!((usual.low_delay, usual.delay), (41_666 - 2_080, Duration::from_millis(10)));
        assert_eq!(usual.high_rate, 3_125_000 - usual.low_delay);
        // Nobody yet: as if there were one of each.
        assert_eq!(room(100, 0, 0), usual);
    }

    #[test]
    fn where_no_packet_would_fit_the_delay_is_the_least_at_which_one_does() {
        let slow = room(5, 10, 10);
        // R_D is 5/3 Mbit/s: w takes 3·1,040·2 bytes of the link, and a packet of its own 1,040·3.
        assert_eq!((slow.low_delay, slow.delay), (1_040, Duration::from_micros(9_360 * 8 / 5)));
        let few = room(100, 2_500, 100);
        assert_eq!(few.low_delay, 1_040);
        assert!(few.delay > Duration::from_millis(10), "{}", few.delay);
    }
}
