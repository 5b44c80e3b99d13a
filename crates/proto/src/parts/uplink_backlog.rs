//! Estimated backlog of an uplink whose capacity is known.

use byway_units::{Bytes, Duration, Rate, Time};

/// Longest backlog that counts: buffers of access links hold about 100 ms, and drop the rest.
const BACKLOG_MAX: Duration = Duration::from_millis(100);

/// Packets that wait for an uplink, as the sender estimates them from what it sends in outages.
///
/// In an outage, a sender on a narrow uplink sends lost packets again beside new ones. Probes show
/// the queue a round trip later. By then, its buffer may have dropped packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct UplinkBacklog {
    /// Capacity of the uplink; zero without an estimate.
    capacity: Rate,
    /// Time at which the uplink has sent all packets.
    busy_until: Time,
}

impl UplinkBacklog {
    /// Sets the capacity of the uplink; `None` if it sustains everything. Then nothing waits.
    pub fn set_capacity(&mut self, capacity: Option<Rate>) {
        match capacity {
            Some(capacity) => self.capacity = capacity,
            None => *self = Self::default(),
        }
    }

    /// Records that these bytes are sent on the uplink now.
    pub fn add(&mut self, bytes: Bytes, now: Time) {
        if let Some(time) = self.capacity.time_for(bytes) {
            let until = self.busy_until.max(now).saturating_add(time);
            self.busy_until = until.min(now.saturating_add(BACKLOG_MAX));
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
        backlog.set_capacity(Some(Rate::from_kilobits_per_second(800)));
        backlog.add(Bytes::new(1_000), at(100));
        backlog.add(Bytes::new(500), at(105));
        assert_eq!(backlog.delay(at(105)), ms(10));
        assert!(backlog.is_busy(at(114)) && !backlog.is_busy(at(115)));
        backlog.add(Bytes::new(1_000), at(200));
        assert_eq!(backlog.delay(at(200)), ms(10), "an idle uplink stores no time");
        for _ in 0..50 {
            backlog.add(Bytes::new(1_000), at(200));
        }
        assert_eq!(backlog.delay(at(200)), BACKLOG_MAX, "the uplink drops what exceeds its buffer");
        backlog.set_capacity(None);
        backlog.add(Bytes::new(1_000), at(200));
        assert!(!backlog.is_busy(at(200)), "nothing waits for a wide uplink");
    }
}
