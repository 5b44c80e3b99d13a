//! Buffer sizes of the classes (Equations 5 to 9 of the paper).
//!
//! With `n_D` low-delay flows and `n_R` high-rate flows, the low-delay class is served at
//! `R_D = n_D·C / (n_D + k·n_R)`. The high-rate class gets the rest of the capacity C. A low-delay
//! packet that finds a backlog of `B_D` bytes waits for two things:
//! - the backlog, at the rate `R_D`;
//! - the packets by which the other class is ahead by chance, which takes
//!   `w = 2·(S_D·k·n_R/n_D + S_R) / C` at most.
//!
//! So the low-delay buffer has `B_D = R_D·(d - w)` bytes.

use byway_units::{Bytes, Duration, Rate};

use crate::class::Class;
use crate::settings::Settings;

/// Numbers of flows in the classes, at least one each: a class without flows still has a buffer for
/// its first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts([u32; Class::COUNT]);

impl Counts {
    pub(crate) const ONE: Self = Self([1; Class::COUNT]);

    /// Creates counts from numbers of flows in the order of [`Class::ALL`]; zero becomes one.
    pub(crate) fn of(flows: [u32; Class::COUNT]) -> Self {
        Self(flows.map(|flows| flows.max(1)))
    }
}

/// Weights by which the classes share the link's bytes while all are backlogged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weights {
    /// Weight of the high-rate class: `k·n_R`, in thousandths.
    pub(crate) high_rate: u64,
    /// Weight of the low-delay class: `n_D`, in thousandths.
    pub(crate) low_delay: u64,
    /// Number of flows of the low-average class, in thousandths; zero without that class.
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

    /// Returns the weight of the high-rate and low-average classes together. To the low-delay
    /// class, they are the paper's high-rate class.
    pub(crate) const fn all_but_low_delay(self) -> u64 {
        self.high_rate + self.low_average
    }

    /// Returns the weights of the outer division: all other classes together, and the low-delay
    /// class.
    pub(crate) const fn outer(self) -> [u64; 2] {
        [self.all_but_low_delay(), self.low_delay]
    }

    /// Returns the weights of the inner division: the high-rate class, and the low-average class.
    pub(crate) const fn inner(self) -> [u64; 2] {
        [self.high_rate, self.low_average]
    }

    /// Returns the bytes that the low-delay class sends while the link sends `bytes`, rounded up.
    pub(crate) fn of_low_delay(self, bytes: u64) -> u64 {
        let share = (u128::from(bytes) * u128::from(self.low_delay)).div_ceil(self.sum());
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// Returns the rate of each low-delay flow while all classes are backlogged.
    pub(crate) fn of_flow(self, settings: &Settings) -> Rate {
        let bits = u128::from(settings.capacity.bits_per_second()) * 1_000 / self.sum();
        Rate::from_bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX))
    }

    /// Returns the bytes that the low-delay and low-average classes send together while the link
    /// sends `bytes`, rounded down.
    pub(crate) fn but_high_rate(self, bytes: u64) -> u64 {
        let share = u128::from(bytes) * u128::from(self.low_delay + self.low_average) / self.sum();
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// Returns the rate of each class while all classes are backlogged.
    pub(crate) fn rates(self, settings: &Settings) -> [Rate; Class::COUNT] {
        [self.high_rate, self.low_delay, self.low_average].map(|weight| {
            let bits = u128::from(settings.capacity.bits_per_second()) * u128::from(weight) / self.sum();
            Rate::from_bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX))
        })
    }

    const fn sum(self) -> u128 {
        self.all_but_low_delay() as u128 + self.low_delay as u128
    }
}

/// Buffer sizes of the classes in bytes, and the resulting delay bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClassBuffers {
    pub(crate) high_rate: u64,
    pub(crate) low_delay: u64,
    pub(crate) low_average: u64,
    /// Bound on low-delay sojourn times: the configured one, or the least that is possible.
    pub(crate) delay: Duration,
}

impl ClassBuffers {
    /// Computes the buffer sizes for low-delay packets of at most `low_delay_packet` bytes.
    ///
    /// If the configured delay is too short for a buffer of one packet, the delay is raised to the
    /// least that suffices. Otherwise, no packet of the class would get through.
    pub(crate) fn of(settings: &Settings, weights: Weights, low_delay_packet: u64) -> Self {
        let packet = settings.packet.count();
        // At least one packet for each class. The high-rate class has half of the buffer at least,
        // because the other classes wait for less time.
        let buffer = settings.buffer.count().max(2 * packet * settings.classes() as u64);
        // Bytes that the link sends in d, times n_D, and the part of them that w takes.
        let least = ahead(settings, weights, low_delay_packet) + u128::from(low_delay_packet) * weights.sum();
        let requested = in_delay(settings, settings.delay);
        let needed = least.div_ceil(u128::from(weights.low_delay));
        let (sent, delay) = if requested >= needed {
            (requested, settings.delay)
        } else {
            (needed, time_of(settings, needed))
        };
        let low_delay = (sent * u128::from(weights.low_delay) - ahead(settings, weights, low_delay_packet))
            / weights.sum();
        let low_delay = u64::try_from(low_delay).unwrap_or(u64::MAX).min(buffer / 2);
        let low_average = low_average_buffer(settings, weights).min((buffer / 2 - low_delay).max(packet));
        let high_rate = (buffer - low_delay - low_average).min(settings.high_rate_buffer.count());
        Self { high_rate, low_delay, low_average, delay }
    }

    /// Returns the buffer size of a class, in bytes.
    #[inline]
    pub(crate) const fn class(&self, class: Class) -> u64 {
        match class {
            Class::HighRate => self.high_rate,
            Class::LowDelay => self.low_delay,
            Class::LowAverage => self.low_average,
        }
    }
}

/// Returns the buffer size of the low-average class: the bytes that it sends in the longest allowed
/// sojourn time, and one packet. Zero without that class.
fn low_average_buffer(settings: &Settings, weights: Weights) -> u64 {
    settings.spike.map_or(0, |spike| {
        let sent = in_delay(settings, spike) * u128::from(weights.low_average) / weights.sum();
        u64::try_from(sent).unwrap_or(u64::MAX).saturating_add(settings.packet.count())
    })
}

/// Returns the part of the delay budget that chance takes, as `w·C·n_D = 2·(S_D·k·n_R + S_R·n_D)`
/// (see the module).
fn ahead(settings: &Settings, weights: Weights, low_delay_packet: u64) -> u128 {
    let of_low_delay = u128::from(low_delay_packet) * u128::from(weights.all_but_low_delay());
    let of_high_rate = u128::from(settings.packet.count()) * u128::from(weights.low_delay);
    2 * (of_low_delay + of_high_rate)
}

/// Returns the bytes that the link sends in this time, rounded down.
fn in_delay(settings: &Settings, delay: Duration) -> u128 {
    u128::from(settings.capacity.bytes_in(delay).unwrap_or(Bytes::MAX).count())
}

/// Returns the time that the link takes for these bytes, rounded up; [`Duration::MAX`] on overflow.
fn time_of(settings: &Settings, bytes: u128) -> Duration {
    let bytes = u64::try_from(bytes).ok();
    bytes.and_then(|bytes| settings.capacity.time_for(Bytes::new(bytes))).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffers(megabits: u64, high_rate: u32, low_delay: u32) -> ClassBuffers {
        let settings =
            Settings::new(Rate::from_megabits_per_second(megabits), Bytes::new(1_040)).expect("a link");
        ClassBuffers::of(&settings, Weights::of(&settings, Counts::of([high_rate, low_delay, 0])), 1_040)
    }

    #[test]
    fn rooms_are_those_of_the_paper() {
        // 100 Mbit/s, 100 flows each, k = 2: a third of 125,000 bytes in 10 ms, less 2·(1,040·2 +
        // 1,040)/3.
        let usual = buffers(100, 100, 100);
        assert_eq!((usual.low_delay, usual.delay), (41_666 - 2_080, Duration::from_millis(10)));
        assert_eq!(usual.high_rate, 3_125_000 - usual.low_delay);
        // Without flows, the buffers are those of one flow in each class.
        assert_eq!(buffers(100, 0, 0), usual);
    }

    #[test]
    fn where_no_packet_would_fit_the_delay_is_the_least_at_which_one_does() {
        let slow = buffers(5, 10, 10);
        // R_D is 5/3 Mbit/s: w takes 3·1,040·2 bytes of the link, and one low-delay packet takes
        // 1,040·3.
        assert_eq!((slow.low_delay, slow.delay), (1_040, Duration::from_micros(9_360 * 8 / 5)));
        let few = buffers(100, 2_500, 100);
        assert_eq!(few.low_delay, 1_040);
        assert!(few.delay > Duration::from_millis(10), "{}", few.delay);
    }
}
