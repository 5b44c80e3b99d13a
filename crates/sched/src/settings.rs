//! What a link promises.

use byway_units::{Bytes, Duration, Rate};
use thiserror::Error;

use crate::class::Class;
use crate::limits::{DELAY_MAX, PACKET_BYTES_MAX, RATIO_MILLI_MAX};

/// What a Rate-Delay link promises, and what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub(crate) capacity: Rate,
    pub(crate) delay: Duration,
    pub(crate) ratio_milli: u32,
    pub(crate) buffer: Bytes,
    pub(crate) high_rate_buffer: Bytes,
    pub(crate) packet: Bytes,
    /// What a low-average packet may wait; `None` where there is no such class.
    pub(crate) spike: Option<Duration>,
    pub(crate) discards: Discards,
    pub(crate) guard: GuardMode,
    pub(crate) marks: bool,
}

/// Which low-delay packets are dropped when their class gets less room, and with it a lower rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discards {
    /// Those that would wait longer than was promised.
    #[default]
    Late,
    /// All, as Figure 5 of the paper has it.
    All,
    /// None: they may wait longer then (Figures 10 and 13 of the paper).
    None,
}

/// Protection of a link's flows from misbehaving senders: those that choose the wrong class, or make up flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GuardMode {
    /// None: the link takes senders at their word, as that of the paper does.
    #[default]
    None,
    /// A sender that takes more than a fair share of its class loses packets before others do.
    Fair,
    /// A sender has no more than a fair share of its class where others are short of anything, nor more than its part of what a high-rate flow gets.
    Strict,
}

/// Why a link cannot promise that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// A rate of zero.
    #[error("a link of 0 bit/s sends nothing: give its rate")]
    NoRate,
    /// A rate at which two packets take longer than any delay that is promised.
    #[error(
        "two packets of {packet} take {taken} at {rate}, and no delay above {DELAY_MAX} is promised: give a higher rate"
    )]
    TooSlow {
        /// What was asked for.
        rate: Rate,
        /// The longest packet.
        packet: Bytes,
        /// How long two of them take.
        taken: Duration,
    },
    /// A ratio of one or less, or above a thousand; in thousandths.
    #[error(
        "a rate ratio of {}: give more than 1, so that the high-rate class gets more than the low-delay one, and up to 1000 (2 is usual)",
        f64::from(*.0) / 1_000.0
    )]
    Ratio(u32),
    /// A packet of no bytes, or one longer than IP allows.
    #[error("packets of at most {0} are none that IP has: give the link's MTU in bytes, 1 to 65,535")]
    Packet(Bytes),
    /// Less delay than packets need.
    #[error(
        "a queueing delay of {given} is less than the {least} that two packets of {packet} take: give at least that much"
    )]
    Delay {
        /// What was asked for.
        given: Duration,
        /// Below this it is refused. Flows may make more of it: see [`Allotment::delay`](crate::Allotment::delay).
        least: Duration,
        /// The longest packet.
        packet: Bytes,
    },
    /// More delay than anybody waits for.
    #[error("a queueing delay of {0} is longer than any link needs: give {DELAY_MAX} or less")]
    DelayTooLong(Duration),
    /// Spikes below the average.
    #[error(
        "a delay of {delay} on average spikes above {given}: give a spike of at least twice as much, {least}"
    )]
    Spike {
        /// What was asked for.
        given: Duration,
        /// What can be.
        least: Duration,
        /// The average.
        delay: Duration,
    },
}

impl Settings {
    /// A link of this capacity with packets of at most `packet` bytes, 10 ms of queueing delay in the low-delay class, twice its rate for each
    /// flow of the high-rate class, and 250 ms of buffer (the paper's choices, section V). Where two packets take longer than 10 ms, the delay is
    /// as much as they take.
    ///
    /// # Errors
    /// If the capacity is zero or two packets take more than a minute of it, or no such packet exists.
    pub fn new(capacity: Rate, packet: Bytes) -> Result<Self, SettingsError> {
        if capacity.is_zero() {
            return Err(SettingsError::NoRate);
        }
        if packet.is_zero() || packet > Bytes::new(PACKET_BYTES_MAX) {
            return Err(SettingsError::Packet(packet));
        }
        let buffer = capacity.bytes_in(Duration::from_millis(250)).unwrap_or(Bytes::MAX).max(packet + packet);
        let taken = (packet + packet) / capacity;
        if taken > DELAY_MAX {
            return Err(SettingsError::TooSlow { rate: capacity, packet, taken });
        }
        let delay = Duration::from_millis(10).max(taken);
        Ok(Self {
            capacity,
            delay,
            ratio_milli: 2_000,
            buffer,
            high_rate_buffer: buffer,
            packet,
            spike: None,
            discards: Discards::Late,
            guard: GuardMode::None,
            marks: false,
        })
    }

    /// With another bound on the queueing delay of low-delay packets (d of the paper).
    ///
    /// # Errors
    /// If two packets take longer, if half of the third class's spike is shorter, or if it is more than a minute.
    pub fn with_delay(self, delay: Duration) -> Result<Self, SettingsError> {
        if delay > DELAY_MAX {
            return Err(SettingsError::DelayTooLong(delay));
        }
        let least = (self.packet + self.packet) / self.capacity;
        if delay < least {
            return Err(SettingsError::Delay { given: delay, least, packet: self.packet });
        }
        Self { delay, ..self }.checked()
    }

    /// With another ratio of the rates of flows, high-rate to low-delay (k of the paper), in thousandths.
    ///
    /// # Errors
    /// If it is not above one, or above 1,000.
    pub const fn with_ratio_milli(self, ratio_milli: u32) -> Result<Self, SettingsError> {
        if ratio_milli <= 1_000 || ratio_milli > RATIO_MILLI_MAX {
            return Err(SettingsError::Ratio(ratio_milli));
        }
        Ok(Self { ratio_milli, ..self })
    }

    /// With a third class, whose packets wait as long on average as those of the low-delay class at most, where their senders slow down when they
    /// are told of congestion, and where need be as long as `spike`, if there are so many flows as were counted. A flow gets the rate of a
    /// low-delay one. Without, what is marked for this class is high-rate.
    ///
    /// # Errors
    /// If `spike` is less than twice the bound on the delay of the low-delay class, or more than a minute.
    pub fn with_low_average(self, spike: Duration) -> Result<Self, SettingsError> {
        if spike > DELAY_MAX {
            return Err(SettingsError::DelayTooLong(spike));
        }
        Self { spike: Some(spike), ..self }.checked()
    }

    /// If spikes are above the average.
    fn checked(self) -> Result<Self, SettingsError> {
        let least = self.delay.saturating_add(self.delay);
        match self.spike {
            Some(given) if given < least => Err(SettingsError::Spike { given, least, delay: self.delay }),
            _ => Ok(self),
        }
    }

    /// The class in which a packet is served that is marked for one.
    #[inline]
    pub(crate) const fn served(&self, class: Class) -> Class {
        match (class, self.spike) {
            (Class::LowAverage, None) => Class::HighRate,
            (class, _) => class,
        }
    }

    /// How many classes there are.
    pub(crate) const fn classes(&self) -> usize {
        if self.spike.is_some() { Class::COUNT } else { Class::COUNT - 1 }
    }

    /// With other buffers: of all classes together (B of the paper), at least a packet of each, and of the high-rate class at most (`B_max`), at least
    /// one.
    #[must_use]
    pub fn with_buffers(self, buffer: Bytes, high_rate_buffer: Bytes) -> Self {
        let two = self.packet + self.packet;
        Self { buffer: buffer.max(two), high_rate_buffer: high_rate_buffer.max(self.packet), ..self }
    }

    /// With other rules of which low-delay packets go when their class gets less room.
    #[must_use]
    pub const fn with_discards(self, discards: Discards) -> Self {
        Self { discards, ..self }
    }

    /// With another protection from misbehaving senders.
    #[must_use]
    pub const fn with_guard(self, guard: GuardMode) -> Self {
        Self { guard, ..self }
    }

    /// With ECN in all classes but the high-rate one: packets are marked before a queue is full, and of those that may not be marked as many
    /// bytes are dropped (RFC 3168, section 5).
    #[must_use]
    pub const fn with_ecn(self) -> Self {
        Self { marks: true, ..self }
    }

    /// The bound on queueing delay.
    #[must_use]
    pub const fn delay(&self) -> Duration {
        self.delay
    }

    /// The longest packet, in bytes on the link.
    #[must_use]
    pub const fn packet(&self) -> Bytes {
        self.packet
    }

    /// The ratio of the rates of flows, high-rate to low-delay, in thousandths.
    #[must_use]
    pub const fn ratio_milli(&self) -> u32 {
        self.ratio_milli
    }

    /// The protection from misbehaving senders.
    #[must_use]
    pub const fn guard(&self) -> GuardMode {
        self.guard
    }

    /// What the link carries.
    #[must_use]
    pub const fn capacity(&self) -> Rate {
        self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_promised_is_refused_with_the_bound_that_it_breaks() {
        let mtu = Bytes::new(1_500);
        assert_eq!(Settings::new(Rate::ZERO, mtu), Err(SettingsError::NoRate));
        let slow = |bits| Settings::new(Rate::from_bits_per_second(bits), mtu);
        assert!(slow(400).is_ok_and(|link| link.with_delay(link.delay()).is_ok()), "a minute");
        let refused = slow(399).expect_err("more than a minute");
        assert!(alloc::format!("{refused}").contains("399 bit/s"), "{refused}");
        let link = Settings::new(Rate::from_megabits_per_second(100), mtu).expect("a usual link");
        assert_eq!(link.with_ratio_milli(1_000), Err(SettingsError::Ratio(1_000)));
        assert!(link.with_ratio_milli(1_001).is_ok() && link.with_ratio_milli(2_000_000).is_err());
        let least = Duration::from_micros(240);
        assert!(link.with_delay(least).is_ok());
        let refused = link.with_delay(Duration::from_micros(239)).expect_err("two packets take 240 us");
        assert!(alloc::format!("{refused}").contains("240 us"), "{refused}");
        for bytes in [0, 65_536] {
            let packet = Bytes::new(bytes);
            let refused = Settings::new(Rate::from_megabits_per_second(1), packet);
            assert_eq!(refused, Err(SettingsError::Packet(packet)));
        }
        let days = Duration::from_secs(110_000 * 86_400);
        assert_eq!(link.with_delay(days), Err(SettingsError::DelayTooLong(days)));
        assert_eq!(link.with_low_average(days), Err(SettingsError::DelayTooLong(days)));
        let refused = link.with_ratio_milli(1_000_500).expect_err("it is too large");
        assert!(alloc::format!("{refused}").contains("1000.5"), "{refused}");
        let spike = |millis| link.with_low_average(Duration::from_millis(millis));
        assert!(spike(20).is_ok_and(|link| link.with_delay(Duration::from_millis(11)).is_err()));
        let refused = spike(19).expect_err("twice the delay is 20 ms");
        assert!(alloc::format!("{refused}").contains("20 ms"), "{refused}");
        let slow = Settings::new(Rate::from_megabits_per_second(1), mtu).expect("a slow link");
        assert_eq!(slow.delay(), Duration::from_millis(24), "as two packets take that long");
    }
}
