//! Allowance of the time for which a node forwards a whole flow, because its receiver reports an
//! outage of the direct path.

use byway_units::{Duration, Time};

use crate::limits::{FORWARDING_PAUSE_MAX, OUTAGE_FORWARDING_MAX, OUTAGE_PERIOD};

/// Time for which a flow's packets may be forwarded at its receiver's word:
/// [`OUTAGE_FORWARDING_MAX`] in each [`OUTAGE_PERIOD`]. So a false report costs a quarter of the
/// flow's bytes at most, if its packets are no more than [`FORWARDING_PAUSE_MAX`] apart. Slower
/// flows have few bytes.
///
/// Pauses of the flow do not count, except for [`FORWARDING_PAUSE_MAX`] each: a report holds until
/// the receiver withdraws it, and the application may send nothing for a while.
#[derive(Clone, Copy, Debug)]
pub struct ForwardingAllowance {
    period_began: Time,
    used: Duration,
    /// Time of the latest forwarded packet.
    last: Option<Time>,
}

impl ForwardingAllowance {
    /// Returns the full allowance; its first period begins now.
    #[must_use]
    pub const fn new(now: Time) -> Self {
        Self { period_began: now, used: Duration::ZERO, last: None }
    }

    /// Charges a packet that is forwarded now. Returns false if the allowance is used up.
    pub fn try_forward(&mut self, now: Time) -> bool {
        if self.period_began + OUTAGE_PERIOD <= now {
            *self = Self::new(now);
        }
        let pause = self.last.map_or(Duration::ZERO, |last| now.saturating_since(last));
        self.used += pause.min(FORWARDING_PAUSE_MAX);
        self.last = Some(now);
        self.is_left(now)
    }

    /// True if a packet was charged within this time.
    #[must_use]
    pub fn was_charged_within(&self, time: Duration, now: Time) -> bool {
        self.last.is_some_and(|last| now.saturating_since(last) <= time)
    }

    /// True if the allowance is not used up.
    #[must_use]
    pub fn is_left(&self, now: Time) -> bool {
        self.used < OUTAGE_FORWARDING_MAX || self.period_began + OUTAGE_PERIOD <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of packets forwarded out of `count`, one each `interval`, from `first`
    /// on.
    fn forwarded(allowance: &mut ForwardingAllowance, first: Time, interval: Duration, count: u64) -> usize {
        (0..count).filter(|nth| allowance.try_forward(first + interval * *nth)).count()
    }

    #[test]
    fn a_steady_flow_is_forwarded_for_fifteen_seconds_a_minute() {
        let mut allowance = ForwardingAllowance::new(Time::START);
        let interval = Duration::from_millis(20);
        assert_eq!(forwarded(&mut allowance, Time::START, interval, 3_000), 750);
        let second = Time::START + OUTAGE_PERIOD;
        assert!(!allowance.is_left(second - interval) && allowance.is_left(second));
        assert_eq!(forwarded(&mut allowance, second, interval, 3_000), 750);
    }

    #[test]
    fn pauses_count_for_a_quarter_of_a_second_each() {
        let mut allowance = ForwardingAllowance::new(Time::START);
        assert_eq!(forwarded(&mut allowance, Time::START, Duration::from_millis(900), 66), 60);
    }
}
