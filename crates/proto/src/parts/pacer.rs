//! Pacing of background flows.

use byway_units::{Bytes, Duration, Rate, Time};

/// Leaky bucket: packets leave at the rate of a virtual link of their own.
///
/// A packet may leave while at most `depth` bytes are in transmission on that link, including the
/// packet itself. A packet longer than the depth may leave when the link is idle. A token bucket
/// would count bytes in transmission as allowed. Here, a flow that was silent begins with `depth`
/// bytes at once, not more.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    rate: Rate,
    depth: Bytes,
    /// Time at which the virtual link becomes idle.
    idle_from: Time,
    /// Work beyond `idle_from`, in billionths of a bit: less than the link sends in a nanosecond.
    /// It prevents drift by rounding.
    rest: u64,
}

impl Pacer {
    /// Creates a pacer with an idle link.
    #[must_use]
    pub const fn new(rate: Rate, depth: Bytes) -> Self {
        Self { rate, depth, idle_from: Time::START, rest: 0 }
    }

    /// Sets the rate for later packets. Bytes in transmission finish at the time of the old rate.
    pub fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
        self.rest = 0;
    }

    /// Returns the earliest time at which a packet of `bytes` may leave; `Time::MAX` at a rate of
    /// zero.
    #[must_use]
    pub fn earliest_send(&self, bytes: Bytes, now: Time) -> Time {
        if self.rate.is_zero() {
            return Time::MAX;
        }
        let free = self.depth.saturating_sub(bytes);
        let ahead = self.rate.time_for(free).unwrap_or(Duration::MAX);
        self.idle_from.saturating_sub(ahead).max(now)
    }

    /// Records that a packet of `bytes` leaves now, even if it leaves before its time.
    pub fn on_sent(&mut self, bytes: Bytes, now: Time) {
        if self.idle_from < now {
            self.idle_from = now;
            self.rest = 0;
        }
        let (nanos, remainder) = self.time_and_rest(bytes);
        self.idle_from = self.idle_from.saturating_add(Duration::from_nanos(nanos));
        self.rest = remainder;
    }

    /// Returns the nanoseconds that the link needs for the remaining work and these bytes, and the
    /// new remainder.
    fn time_and_rest(&self, bytes: Bytes) -> (u64, u64) {
        let rate = u128::from(self.rate.bits_per_second());
        let work = bytes.bits() * 1_000_000_000 + u128::from(self.rest);
        let nanos = work.checked_div(rate).map_or(u64::MAX, narrow);
        (nanos, work.checked_rem(rate).map_or(0, narrow))
    }
}

fn narrow(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Time {
        Time::START + Duration::from_millis(millis)
    }

    #[test]
    fn packets_leave_at_the_rate_after_a_burst_of_the_depth() {
        // 1,000 bytes each millisecond.
        let mut pacer = Pacer::new(Rate::from_megabits_per_second(8), Bytes::new(3_000));
        let packet = Bytes::new(1_000);
        let mut departures = [Time::START; 6];
        for departure in &mut departures {
            *departure = pacer.earliest_send(packet, at(10));
            pacer.on_sent(packet, *departure);
        }
        assert_eq!(departures, [10, 10, 10, 11, 12, 13].map(at));
        assert_eq!(pacer.earliest_send(packet, at(50)), at(50));
    }

    #[test]
    fn a_packet_longer_than_the_depth_leaves_when_nothing_is_under_way() {
        let mut pacer = Pacer::new(Rate::from_megabits_per_second(8), Bytes::new(500));
        assert_eq!(pacer.earliest_send(Bytes::new(1_000), at(1)), at(1));
        pacer.on_sent(Bytes::new(1_000), at(1));
        assert_eq!(pacer.earliest_send(Bytes::new(1_000), at(1)), at(2));
        assert_eq!(pacer.earliest_send(Bytes::new(100), at(1)), at(2) - Duration::from_micros(400));
    }

    #[test]
    fn nothing_leaves_at_a_rate_of_zero() {
        let mut pacer = Pacer::new(Rate::ZERO, Bytes::new(500));
        assert_eq!(pacer.earliest_send(Bytes::new(1), at(1)), Time::MAX);
        pacer.on_sent(Bytes::new(1), at(1));
        pacer.set_rate(Rate::MAX);
        assert_eq!(
            pacer.earliest_send(Bytes::new(1_000), at(1)),
            Time::MAX,
            "what was sent against the rule is still under way"
        );
    }

    proptest! {
        #[test]
        fn over_any_run_the_rate_is_kept_to_the_nanosecond(
            rate in 1_000_u64..10_000_000_000,
            sizes in proptest::collection::vec(1_u64..2_000, 1..100),
        ) {
            let rate = Rate::from_bits_per_second(rate);
            let mut pacer = Pacer::new(rate, Bytes::ZERO);
            let mut total = Bytes::ZERO;
            for size in sizes {
                let departure = pacer.earliest_send(Bytes::new(size), Time::START);
                let exact = rate.time_for(total).expect("some rate");
                prop_assert!(departure <= Time::START + exact);
                prop_assert!(departure + Duration::from_nanos(1) >= Time::START + exact);
                pacer.on_sent(Bytes::new(size), departure);
                total += Bytes::new(size);
            }
        }
    }
}
