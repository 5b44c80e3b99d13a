//! Estimated backlog of an uplink whose capacity is known.

use byway_units::{Bytes, Duration, Rate, Time};

/// Packets that wait for an uplink, as the sender estimates them from what it sends.
///
/// In an outage, a sender on a narrow uplink sends lost packets again beside new ones. Probes show
/// the queue a round trip later. By then, its buffer may have dropped packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct UplinkBacklog {
    /// Capacity of the uplink; zero while nothing is counted.
    capacity: Rate,
    /// Time at which the uplink has sent all packets.
    busy_until: Time,
}

impl UplinkBacklog {
    /// Counts packets from now on, as far as they were not counted before.
    pub const fn count_at(&mut self, capacity: Rate) {
        self.capacity = capacity;
    }

    /// Records that these bytes are sent on the uplink now.
    pub fn add(&mut self, bytes: Bytes, now: Time) {
        if let Some(time) = self.capacity.time_for(bytes) {
            self.busy_until = self.busy_until.max(now).saturating_add(time);
        }
    }

    /// True if earlier packets still wait.
    #[inline]
    #[must_use]
    pub fn is_busy(&self, now: Time) -> bool {
        self.busy_until > now
    }

    /// Returns the time for which a packet waits that is sent now.
    #[must_use]
    pub fn delay(&self, now: Time) -> Duration {
        self.busy_until.saturating_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_wait_for_those_before_them() {
        let (mut backlog, ms) = (UplinkBacklog::default(), Duration::from_millis);
        let at = |millis| Time::START + ms(millis);
        backlog.add(Bytes::new(1_000), at(0));
        assert!(!backlog.is_busy(at(0)), "the capacity is not known");
        backlog.count_at(Rate::from_kilobits_per_second(800));
        backlog.add(Bytes::new(1_000), at(100));
        backlog.add(Bytes::new(500), at(105));
        assert_eq!(backlog.delay(at(105)), ms(10));
        assert!(backlog.is_busy(at(114)) && !backlog.is_busy(at(115)));
        backlog.add(Bytes::new(1_000), at(200));
        assert_eq!(backlog.delay(at(200)), ms(10), "an idle uplink stores no time");
    }
}
