//! How a link is shared, for those who have another scheduler do it.

use byway_units::{Bytes, Duration, Rate};

use crate::class::Class;
use crate::settings::Settings;
use crate::sizing::{Counts, Room, Weights};

/// What each class of a link gets, given how many flows there are in each: what a [`RateDelay`](crate::RateDelay) has at an update, also for a
/// scheduler elsewhere that has queues with rates and lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allotment {
    /// The rates of the classes where all have something to send, in the order of [`Class::ALL`]; zero of one that there is not.
    pub rates: [Rate; Class::COUNT],
    /// The room of their queues.
    pub room: [Bytes; Class::COUNT],
    /// What no low-delay packet waits longer than: what was asked for, or the least that leaves room for a packet.
    pub delay: Duration,
}

impl Allotment {
    /// With about so many flows in each class, zero counting as one, and low-delay packets of at most so many bytes (Equations 5 to 9 of the
    /// paper).
    #[must_use]
    pub fn of(settings: &Settings, flows: [u32; Class::COUNT], low_delay_packet: Bytes) -> Self {
        let weights = Weights::of(settings, Counts::of(flows));
        Self::with(settings, weights, Room::of(settings, weights, low_delay_packet.count()))
    }

    pub(crate) fn with(settings: &Settings, weights: Weights, room: Room) -> Self {
        Self {
            rates: weights.rates(settings),
            room: Class::ALL.map(|class| Bytes::new(room.class(class))),
            delay: room.delay,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allotment_is_what_a_scheduler_of_this_crate_has() {
        let settings =
            Settings::new(Rate::from_megabits_per_second(100), Bytes::new(1_514)).expect("a usual link");
        let allotment = Allotment::of(&settings, [10, 10, 0], Bytes::new(1_514));
        assert_eq!(allotment.rates.map(Rate::bits_per_second), [66_666_666, 33_333_333, 0]);
        // A third of 125,000 bytes, less 2·(1,514·2 + 1,514)/3.
        assert_eq!(allotment.room[1], Bytes::new(41_666 - 3_028));
        assert_eq!(allotment.room[0], Bytes::new(3_125_000 - (41_666 - 3_028)));
        assert_eq!(allotment.room[2], Bytes::ZERO, "no third class");
        assert_eq!(allotment.delay, Duration::from_millis(10));
        assert_eq!(allotment, Allotment::of(&settings, [0; 3], Bytes::new(1_514)), "as if one each");
    }
}
