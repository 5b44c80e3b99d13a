//! Configuration of a Rate-Delay link.

use byway_state::{PolicyError, PolicySettings};
use byway_units::{Bytes, Duration, Probability, Rate};
use thiserror::Error;

use crate::class::Class;
use crate::limits::{DELAY_MAX, PACKET_BYTES_MAX, RATIO_MILLI_MAX};

/// Capacity, delay bound, buffers and options of a Rate-Delay link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub(crate) capacity: Rate,
    pub(crate) delay: Duration,
    pub(crate) ratio_milli: u32,
    pub(crate) sharing: Sharing,
    pub(crate) buffer: Bytes,
    pub(crate) high_rate_buffer: Bytes,
    pub(crate) packet: Bytes,
    /// Longest sojourn time of a low-average packet; `None` without the low-average class.
    pub(crate) spike: Option<Duration>,
    pub(crate) discards: DiscardPolicy,
    pub(crate) guard: GuardMode,
    pub(crate) marks: bool,
}

/// Rule by which the classes share a link.
///
/// A link has one of them: the delay bound needs short queues, and interactive flows keep one
/// packet each in the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// The rate of a high-rate flow is a multiple of that of a low-delay flow, and the sojourn time
    /// of low-delay packets is bounded (Podlesny and Gorinsky).
    #[default]
    ByRatio,
    /// The rates of both classes follow their numbers of flows. The low-delay class is interactive:
    /// its senders set their windows from the link's [`Sample`](crate::Sample)s, which keeps its
    /// queue short. No delay is promised, and no queued packet is dropped (Naman et al., section
    /// 5.2; [`Policy`](byway_state::Policy)).
    ByFlows {
        /// Least part of the capacity that interactive flows are guaranteed, in thousandths.
        floor_milli: u32,
    },
}

/// Choice of the queued low-delay packets that are dropped when their class's buffer and rate
/// shrink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiscardPolicy {
    /// Packets that would exceed the delay bound.
    #[default]
    Late,
    /// All packets, as in Figure 5 of the paper.
    All,
    /// No packets; some may exceed the delay bound (Figures 10 and 13 of the paper).
    None,
}

/// Protection of a link's flows from misbehaving senders: those that choose the wrong class, or
/// make up flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GuardMode {
    /// No protection: the link trusts senders, as in the paper.
    #[default]
    None,
    /// Protection of other low-delay senders: packets of a sender that exceeds a fair share of its
    /// class are dropped first.
    Fair,
    /// Protection of high-rate flows, too: while others lack capacity, a sender has at most a fair
    /// share of its class. It also has at most its part of a high-rate flow's rate.
    Strict,
}

/// Error in the settings of a Rate-Delay link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// The rate of the link is zero.
    #[error("rate of the link is 0 bit/s: give its rate")]
    NoRate,
    /// The rate of the link is so low that two packets take longer than any allowed delay.
    #[error(
        "two packets of {packet} take {duration} at {rate}, above the maximum delay {DELAY_MAX}: give \
        a higher rate"
    )]
    TooSlow {
        /// Rate of the link, as requested.
        rate: Rate,
        /// Longest packet of the link.
        packet: Bytes,
        /// Time that two of these packets take at this rate.
        duration: Duration,
    },
    /// The ratio of rates, in thousandths, is 1,000 or less, or above a million.
    #[error(
        "rate ratio {} out of range: give more than 1, because the high-rate class gets more than the \
        low-delay one, and at most 1000 (2 is usual)",
        f64::from(*.0) / 1_000.0
    )]
    Ratio(u32),
    /// The length of the longest packet is zero, or more than IP allows.
    #[error("invalid maximum packet size {0}: give the link's MTU in bytes, 1 to 65,535")]
    Packet(Bytes),
    /// The delay bound is shorter than the time that two packets take.
    #[error(
        "queueing delay {requested} too short, two packets of {packet} take {least}: give at least that much"
    )]
    Delay {
        /// Delay bound that was requested.
        requested: Duration,
        /// Least delay bound that the settings accept. With many flows, the bound in force may be
        /// longer: see [`LinkShare::delay`](crate::LinkShare::delay).
        least: Duration,
        /// Longest packet of the link.
        packet: Bytes,
    },
    /// The delay bound or the spike exceeds [`DELAY_MAX`].
    #[error("queueing delay {0} too long: give at most {DELAY_MAX}")]
    DelayTooLong(Duration),
    /// The rate of the link is out of the range of links that share by flows.
    #[error("rate {0} out of range for shares by flows: give 8 kbit/s to 10 Tbit/s")]
    SharedRate(Rate),
    /// The floor of interactive flows, in thousandths of the rate, is above 900.
    #[error(
        "floor of {} % for interactive flows too high: give at most 90 %, because others need a tenth",
        f64::from(*.0) / 10.0
    )]
    Floor(u32),
    /// A link that shares by flows has a low-average class.
    #[error("shares by flows are for two classes: omit the low-average class, or share by ratio")]
    SharedLowAverage,
    /// The longest sojourn time of the low-average class is less than twice its mean.
    #[error(
        "average delay {delay} causes spikes above {requested}: give a spike of at least twice as \
        much, {least}"
    )]
    Spike {
        /// Longest sojourn time (spike) that was requested.
        requested: Duration,
        /// Least spike that the settings accept: twice the mean.
        least: Duration,
        /// Bound on the mean sojourn time of the low-average class.
        delay: Duration,
    },
}

impl Settings {
    /// Creates settings for a link of this capacity with packets of at most `packet` bytes. The
    /// other values are the paper's (section V):
    /// - 10 ms of queueing delay in the low-delay class, or the time of two packets if that is
    ///   longer;
    /// - for each high-rate flow, twice the rate of a low-delay flow;
    /// - 250 ms of buffer, but at least two packets.
    ///
    /// # Errors
    /// If the capacity is zero, two packets take more than a minute, or the packet length is
    /// invalid.
    pub fn new(capacity: Rate, packet: Bytes) -> Result<Self, SettingsError> {
        if capacity.is_zero() {
            return Err(SettingsError::NoRate);
        }
        if packet.is_zero() || packet > Bytes::new(PACKET_BYTES_MAX) {
            return Err(SettingsError::Packet(packet));
        }
        let buffer = capacity.bytes_in(Duration::from_millis(250)).unwrap_or(Bytes::MAX).max(packet + packet);
        let duration = (packet + packet) / capacity;
        if duration > DELAY_MAX {
            return Err(SettingsError::TooSlow { rate: capacity, packet, duration });
        }
        let delay = Duration::from_millis(10).max(duration);
        Ok(Self {
            capacity,
            delay,
            ratio_milli: 2_000,
            sharing: Sharing::ByRatio,
            buffer,
            high_rate_buffer: buffer,
            packet,
            spike: None,
            discards: DiscardPolicy::Late,
            guard: GuardMode::None,
            marks: false,
        })
    }

    /// Sets the bound on the sojourn time of low-delay packets (d of the paper).
    ///
    /// # Errors
    /// If two packets take longer, if twice the bound exceeds the spike of a low-average class, or
    /// if it is more than a minute.
    pub fn with_delay(self, delay: Duration) -> Result<Self, SettingsError> {
        if delay > DELAY_MAX {
            return Err(SettingsError::DelayTooLong(delay));
        }
        let least = (self.packet + self.packet) / self.capacity;
        if delay < least {
            return Err(SettingsError::Delay { requested: delay, least, packet: self.packet });
        }
        Self { delay, ..self }.checked()
    }

    /// Sets the ratio between the rates of a high-rate and a low-delay flow (k of the paper), in
    /// thousandths.
    ///
    /// # Errors
    /// If it is not above 1,000 (one), or above 1,000,000.
    pub const fn with_ratio_milli(self, ratio_milli: u32) -> Result<Self, SettingsError> {
        if ratio_milli <= 1_000 || ratio_milli > RATIO_MILLI_MAX {
            return Err(SettingsError::Ratio(ratio_milli));
        }
        Ok(Self { ratio_milli, ..self })
    }

    /// Sets the rule by which the classes share the link. With [`Sharing::ByFlows`]:
    /// - each class has a buffer as large as the high-rate class's;
    /// - the delay bound, the ratio and the discards have no effect;
    /// - a [guard](Settings::with_guard) protects interactive flows from senders that do not slow
    ///   down.
    ///
    /// # Errors
    /// With shares by flows: if the rate of the link is below 8 kbit/s, the floor is above 90 %, or
    /// the link has a low-average class.
    pub fn with_sharing(self, sharing: Sharing) -> Result<Self, SettingsError> {
        if let Sharing::ByFlows { floor_milli } = sharing {
            policy_settings(self.capacity, floor_milli)?;
        }
        Self { sharing, ..self }.checked()
    }

    /// Adds a third class, low-average. Its mean sojourn time is at most the bound of the low-delay
    /// class if its senders respond to congestion signals. Single packets may wait for up to
    /// `spike`, given the counted number of flows. A flow gets the rate of a low-delay flow.
    /// Without this class, packets marked for it are high-rate.
    ///
    /// # Errors
    /// If `spike` is less than twice the bound on the delay of the low-delay class, or more than a
    /// minute, or if the link shares by flows.
    pub fn with_low_average(self, spike: Duration) -> Result<Self, SettingsError> {
        if spike > DELAY_MAX {
            return Err(SettingsError::DelayTooLong(spike));
        }
        Self { spike: Some(spike), ..self }.checked()
    }

    /// Returns the settings, or an error if the spike is less than twice the delay bound, or if a
    /// link with a low-average class shares by flows.
    fn checked(self) -> Result<Self, SettingsError> {
        let least = self.delay.saturating_add(self.delay);
        match (self.spike, self.sharing) {
            (Some(_), Sharing::ByFlows { .. }) => Err(SettingsError::SharedLowAverage),
            (Some(spike), Sharing::ByRatio) if spike < least => {
                Err(SettingsError::Spike { requested: spike, least, delay: self.delay })
            }
            _ => Ok(self),
        }
    }

    /// Returns the class in which the link serves a packet marked for `class`: high-rate instead of
    /// a class that the link does not have.
    #[inline]
    pub(crate) const fn served(&self, class: Class) -> Class {
        match (class, self.spike) {
            (Class::LowAverage, None) => Class::HighRate,
            (class, _) => class,
        }
    }

    /// Returns the number of classes that the link has.
    pub(crate) const fn classes(&self) -> usize {
        if self.spike.is_some() { Class::COUNT } else { Class::COUNT - 1 }
    }

    /// Sets the buffer of all classes together (B of the paper), at least two packets. Sets the
    /// most that the high-rate class may use of it (`B_max`), at least one packet.
    #[must_use]
    pub fn with_buffers(self, buffer: Bytes, high_rate_buffer: Bytes) -> Self {
        let two = self.packet + self.packet;
        Self { buffer: buffer.max(two), high_rate_buffer: high_rate_buffer.max(self.packet), ..self }
    }

    /// Sets which low-delay packets are dropped when their class's buffer shrinks.
    #[must_use]
    pub const fn with_discards(self, discards: DiscardPolicy) -> Self {
        Self { discards, ..self }
    }

    /// Sets the protection of the link's flows from misbehaving senders.
    #[must_use]
    pub const fn with_guard(self, guard: GuardMode) -> Self {
        Self { guard, ..self }
    }

    /// Enables ECN in all classes but the high-rate one: ECN-capable packets are marked before a
    /// queue is full. Of other packets, the same share of bytes is dropped (RFC 3168, section 5).
    #[must_use]
    pub const fn with_ecn(self) -> Self {
        Self { marks: true, ..self }
    }

    /// Returns the configured bound on the sojourn time of low-delay packets.
    #[must_use]
    pub const fn delay(&self) -> Duration {
        self.delay
    }

    /// Returns the length of the longest packet, in bytes on the link.
    #[must_use]
    pub const fn packet(&self) -> Bytes {
        self.packet
    }

    /// Returns the ratio between the rates of a high-rate and a low-delay flow, in thousandths.
    #[must_use]
    pub const fn ratio_milli(&self) -> u32 {
        self.ratio_milli
    }

    /// Returns the rule by which the classes share the link.
    #[must_use]
    pub const fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// Returns the settings of the policy that sets the rates of the classes; `None` if the link
    /// shares by ratio.
    #[must_use]
    pub fn policy(&self) -> Option<PolicySettings> {
        match self.sharing {
            Sharing::ByRatio => None,
            Sharing::ByFlows { floor_milli } => policy_settings(self.capacity, floor_milli).ok(),
        }
    }

    /// Returns the ratio between the rates that a high-rate and a low-delay flow should have, in
    /// thousandths: one if the link shares by flows.
    pub(crate) const fn flow_ratio_milli(&self) -> u32 {
        match self.sharing {
            Sharing::ByRatio => self.ratio_milli,
            Sharing::ByFlows { .. } => 1_000,
        }
    }

    /// Returns the protection of the link's flows from misbehaving senders.
    #[must_use]
    pub const fn guard(&self) -> GuardMode {
        self.guard
    }

    /// Returns the rate of the link.
    #[must_use]
    pub const fn capacity(&self) -> Rate {
        self.capacity
    }
}

/// Returns the settings of the policy of a link with this capacity, and this floor in thousandths
/// of it.
fn policy_settings(capacity: Rate, floor_milli: u32) -> Result<PolicySettings, SettingsError> {
    let floor = Probability::from_ratio(u64::from(floor_milli), 1_000);
    let floor = floor.ok_or(SettingsError::Floor(floor_milli))?;
    PolicySettings::new(capacity, floor).map_err(|error| match error {
        PolicyError::Capacity(capacity) => SettingsError::SharedRate(capacity),
        PolicyError::Floor(_) => SettingsError::Floor(floor_milli),
    })
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

    #[test]
    fn shares_by_flows_have_a_floor_below_all_and_two_classes() {
        let mtu = Bytes::new(1_500);
        let link = Settings::new(Rate::from_megabits_per_second(5), mtu).expect("a usual link");
        let by_flows = |floor_milli| link.with_sharing(Sharing::ByFlows { floor_milli });
        let shared = by_flows(900).expect("others have a tenth");
        assert_eq!((link.policy(), link.flow_ratio_milli()), (None, 2_000));
        assert_eq!(shared.policy().map(|policy| policy.capacity()), Some(link.capacity()));
        assert_eq!(shared.flow_ratio_milli(), 1_000);
        assert_eq!(shared.with_sharing(Sharing::ByRatio), Ok(link));
        for floor in [901, 1_001, u32::MAX] {
            assert_eq!(by_flows(floor), Err(SettingsError::Floor(floor)));
        }
        assert!(alloc::format!("{}", SettingsError::Floor(901)).contains("90.1 %"));
        let spike = Duration::from_millis(100);
        assert_eq!(shared.with_low_average(spike), Err(SettingsError::SharedLowAverage));
        let third = link.with_low_average(spike).expect("ten times the delay");
        assert_eq!(third.with_sharing(shared.sharing()), Err(SettingsError::SharedLowAverage));
        let slow = Settings::new(Rate::from_kilobits_per_second(7), mtu).expect("3.4 s for two packets");
        assert_eq!(slow.with_sharing(shared.sharing()), Err(SettingsError::SharedRate(slow.capacity())));
    }
}
