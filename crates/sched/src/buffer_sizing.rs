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
//!
//! If the link shares by flows instead, the policy of network state sets the rate of the low-delay
//! class, and both classes have the high-rate class's buffer.

use byway_state::FlowCounts;
use byway_units::{Bytes, Duration, Rate};

use crate::class::Class;
use crate::settings::{Settings, Sharing};

/// Weights by which the classes share the link's bytes while all are backlogged.
///
/// With shares by ratio, weights are numbers of flows in thousandths. With shares by flows, they
/// are rates in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weights {
    /// Weight of the high-rate class: `k·n_R`, or the rate that the low-delay class leaves.
    pub(crate) high_rate: u64,
    /// Weight of the low-delay class: `n_D`, or its guaranteed rate.
    pub(crate) low_delay: u64,
    /// Number of flows of the low-average class; zero without that class.
    pub(crate) low_average: u64,
    /// Weight of each low-delay flow.
    pub(crate) low_delay_flow: u64,
}

/// Returns the numbers of flows for the policy of a link that shares by flows.
pub(crate) fn flow_counts([high_rate, low_delay, low_average]: [u32; Class::COUNT]) -> FlowCounts {
    FlowCounts { interactive: low_delay, other: high_rate.saturating_add(low_average) }
}

impl Weights {
    /// Returns the weights for these numbers of flows in the order of [`Class::ALL`]: with shares
    /// by flows, those that the policy approaches.
    pub(crate) fn of(settings: &Settings, flows: [u32; Class::COUNT]) -> Self {
        match settings.policy() {
            Some(policy) => Self::at_rate(settings, policy.settled(flow_counts(flows)), flows[1]),
            None => Self::by_ratio(settings, flows),
        }
    }

    /// Returns the weights with shares by ratio. Each class counts as one flow at least: without
    /// flows, it still has a buffer for its first packet.
    fn by_ratio(settings: &Settings, flows: [u32; Class::COUNT]) -> Self {
        let [high_rate, low_delay, low_average] = flows.map(|flows| u64::from(flows.max(1)));
        Self {
            high_rate: u64::from(settings.ratio_milli) * high_rate,
            low_delay: 1_000 * low_delay,
            low_average: if settings.spike.is_some() { 1_000 * low_average } else { 0 },
            low_delay_flow: 1_000,
        }
    }

    /// Returns the weights with which the low-delay class has a rate, for its number of flows. Each
    /// class has at least one bit per second.
    pub(crate) fn at_rate(settings: &Settings, low_delay: Rate, low_delay_flows: u32) -> Self {
        let capacity = settings.capacity.bits_per_second();
        let low_delay = low_delay.bits_per_second().clamp(1, capacity.saturating_sub(1).max(1));
        Self {
            high_rate: capacity.saturating_sub(low_delay).max(1),
            low_delay,
            low_average: 0,
            low_delay_flow: (low_delay / u64::from(low_delay_flows.max(1))).max(1),
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
        let bits = u128::from(settings.capacity.bits_per_second()) * u128::from(self.low_delay_flow);
        let bits = bits / self.sum();
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
    /// Bound on low-delay sojourn times: the configured one, or the least that is possible. With
    /// shares by flows: the time in which the class's rate sends a full buffer, which is no
    /// promise.
    pub(crate) delay: Duration,
}

impl ClassBuffers {
    /// Computes the buffer sizes for low-delay packets of at most `low_delay_packet` bytes.
    ///
    /// If the configured delay is too short for a buffer of one packet, the delay is raised to the
    /// least that suffices. Otherwise, no packet of the class would get through.
    pub(crate) fn of(settings: &Settings, weights: Weights, low_delay_packet: u64) -> Self {
        if settings.sharing != Sharing::ByRatio {
            return Self::by_flows(settings, weights);
        }
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

    /// Computes the buffer sizes with shares by flows: the same for both classes, at least two
    /// packets.
    fn by_flows(settings: &Settings, weights: Weights) -> Self {
        let buffer = settings.high_rate_buffer.count().max(2 * settings.packet.count());
        let sent = u128::from(buffer) * weights.sum() / u128::from(weights.low_delay);
        Self { high_rate: buffer, low_delay: buffer, low_average: 0, delay: time_of(settings, sent) }
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
        ClassBuffers::of(&settings, Weights::of(&settings, [high_rate, low_delay, 0]), 1_040)
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

    fn by_flows(floor_milli: u32, flows: [u32; Class::COUNT]) -> (Settings, Weights) {
        let settings = Settings::new(Rate::from_megabits_per_second(5), Bytes::new(1_500)).expect("a link");
        let settings = settings.with_sharing(Sharing::ByFlows { floor_milli }).expect("a usual floor");
        (settings, Weights::of(&settings, flows))
    }

    #[test]
    fn shares_by_flows_are_the_published_ones_and_each_flow_has_its_part_of_them() {
        // R_L = C·(n_I + 1)/(n_I + n_O + 2), divided by n_I flows.
        for (flows, low_delay, low_delay_flow) in [
            ([0, 0, 0], 2_500_000, 2_500_000),
            ([0, 1, 0], 3_333_333, 3_333_333),
            ([1, 1, 0], 2_500_000, 2_500_000),
            ([2, 1, 0], 2_000_000, 2_000_000),
            ([1, 3, 0], 3_333_333, 1_111_111),
        ] {
            let (settings, weights) = by_flows(0, flows);
            let high_rate = 5_000_000 - low_delay;
            assert_eq!(
                weights,
                Weights { high_rate, low_delay, low_average: 0, low_delay_flow },
                "{flows:?}"
            );
            assert_eq!(weights.of_flow(&settings), Rate::from_bits_per_second(low_delay_flow));
            let rates = weights.rates(&settings).map(Rate::bits_per_second);
            assert_eq!(rates, [high_rate, low_delay, 0]);
        }
        let (_, weights) = by_flows(300, [1_000, 1, 0]);
        assert_eq!((weights.high_rate, weights.low_delay), (3_500_000, 1_500_000), "the floor of 30 %");
        let (settings, weights) = by_flows(0, [0, u32::MAX, 0]);
        assert_eq!((weights.high_rate, weights.low_delay), (500_000, 4_500_000), "at most 90 %");
        // A rate that leaves nothing: the other class keeps a bit per second.
        let weights = Weights::at_rate(&settings, settings.capacity, 1);
        assert_eq!((weights.high_rate, weights.low_delay), (1, 4_999_999));
    }

    #[test]
    fn both_classes_have_a_whole_buffer_with_shares_by_flows() {
        // 250 ms at 5 Mbit/s; the class sends them at 2.5 Mbit/s.
        let (settings, weights) = by_flows(0, [1, 1, 0]);
        let expected = ClassBuffers {
            high_rate: 156_250,
            low_delay: 156_250,
            low_average: 0,
            delay: Duration::from_millis(500),
        };
        assert_eq!(ClassBuffers::of(&settings, weights, 1_500), expected);
        let tiny = settings.with_buffers(Bytes::ZERO, Bytes::ZERO);
        assert_eq!(ClassBuffers::of(&tiny, weights, 1_500).low_delay, 3_000);
    }
}
