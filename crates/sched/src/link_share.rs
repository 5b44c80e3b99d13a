//! Rates and buffers of a link's classes, as configuration of other schedulers.

use byway_units::{Bytes, Duration, Rate};

use crate::buffer_sizing::{ClassBuffers, Weights};
use crate::class::Class;
use crate::settings::Settings;

/// Rate and buffer of each class, given the number of flows in each. A
/// [`RateDelay`](crate::RateDelay) uses these after an update. They also configure other schedulers
/// that have queues with rates and lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkShare {
    /// Rates of the classes while all are backlogged, in the order of [`Class::ALL`]; zero for a
    /// class that the link does not have.
    pub rates: [Rate; Class::COUNT],
    /// Buffer sizes of the classes, in the order of [`Class::ALL`].
    pub buffers: [Bytes; Class::COUNT],
    /// Bound on the sojourn time of low-delay packets: the configured one, or the least that allows
    /// a buffer of one packet.
    ///
    /// With [`Sharing::ByFlows`](crate::Sharing::ByFlows), it is the time in which the rate of the
    /// class sends a full buffer, which is no promise.
    pub delay: Duration,
}

impl LinkShare {
    /// Computes the shares of the classes for these estimated numbers of flows (Equations 5 to 9 of
    /// the paper). Zero counts as one flow. Low-delay packets have at most `low_delay_packet`
    /// bytes.
    ///
    /// With [`Sharing::ByFlows`](crate::Sharing::ByFlows), these are the shares that the policy
    /// approaches.
    #[must_use]
    pub fn of(settings: &Settings, flows: [u32; Class::COUNT], low_delay_packet: Bytes) -> Self {
        let weights = Weights::of(settings, flows);
        Self::with(settings, weights, ClassBuffers::of(settings, weights, low_delay_packet.count()))
    }

    /// Computes the shares of a link that shares by flows, from the guaranteed rate of the
    /// low-delay class that the policy has set.
    #[must_use]
    pub fn at_rate(settings: &Settings, guaranteed: Rate) -> Self {
        let weights = Weights::at_rate(settings, guaranteed, 1);
        Self::with(settings, weights, ClassBuffers::of(settings, weights, 0))
    }

    pub(crate) fn with(settings: &Settings, weights: Weights, buffers: ClassBuffers) -> Self {
        Self {
            rates: weights.rates(settings),
            buffers: Class::ALL.map(|class| Bytes::new(buffers.class(class))),
            delay: buffers.delay,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Sharing;

    #[test]
    fn an_allotment_is_what_a_scheduler_of_this_crate_has() {
        let settings =
            Settings::new(Rate::from_megabits_per_second(100), Bytes::new(1_514)).expect("a usual link");
        let share = LinkShare::of(&settings, [10, 10, 0], Bytes::new(1_514));
        assert_eq!(share.rates.map(Rate::bits_per_second), [66_666_666, 33_333_333, 0]);
        // A third of 125,000 bytes, less 2·(1,514·2 + 1,514)/3.
        assert_eq!(share.buffers[1], Bytes::new(41_666 - 3_028));
        assert_eq!(share.buffers[0], Bytes::new(3_125_000 - (41_666 - 3_028)));
        assert_eq!(share.buffers[2], Bytes::ZERO, "no third class");
        assert_eq!(share.delay, Duration::from_millis(10));
        assert_eq!(share, LinkShare::of(&settings, [0; 3], Bytes::new(1_514)), "as if one each");
    }

    #[test]
    fn shares_by_flows_follow_the_policy_on_the_way_to_what_flows_will_have() {
        let settings =
            Settings::new(Rate::from_megabits_per_second(5), Bytes::new(1_514)).expect("a usual link");
        let settings = settings.with_sharing(Sharing::ByFlows { floor_milli: 0 }).expect("a usual floor");
        let share = LinkShare::at_rate(&settings, Rate::from_kilobits_per_second(2_250));
        assert_eq!(share.rates.map(Rate::bits_per_second), [2_750_000, 2_250_000, 0]);
        // 250 ms at 5 Mbit/s, each.
        assert_eq!(share.buffers, [156_250, 156_250, 0].map(Bytes::new));
        let settled = LinkShare::of(&settings, [2, 1, 0], Bytes::new(1_514));
        assert_eq!(settled, LinkShare::at_rate(&settings, Rate::from_megabits_per_second(2)));
    }
}
