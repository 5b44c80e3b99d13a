//! Flows that applications registered as interactive. A link serves them in the low-delay class,
//! whatever their DSCP.

use alloc::collections::BTreeMap;

use byway_units::Time;

use crate::flows::FlowHash;
use crate::limits::REGISTERED_FLOWS_MAX;

/// Registered flows of a link, by their hash and with the end of their lease.
#[derive(Clone, Debug, Default)]
pub struct RegisteredFlows {
    ends: BTreeMap<FlowHash, Time>,
}

impl RegisteredFlows {
    /// Creates a table without flows.
    #[must_use]
    pub const fn new() -> Self {
        Self { ends: BTreeMap::new() }
    }

    /// Registers a flow until `end`, or renews its lease. Returns false if the table is full: then
    /// only the flow's DSCP decides about its class.
    ///
    /// A registration at a full table scans it. So the caller limits the rate of registrations.
    pub fn register(&mut self, flow: FlowHash, end: Time, now: Time) -> bool {
        if self.ends.len() >= REGISTERED_FLOWS_MAX && !self.ends.contains_key(&flow) {
            self.ends.retain(|_, end| *end > now);
            if self.ends.len() >= REGISTERED_FLOWS_MAX {
                return false;
            }
        }
        self.ends.insert(flow, end);
        true
    }

    /// True if a flow is registered and its lease has not ended.
    #[must_use]
    pub fn contains(&self, flow: FlowHash, now: Time) -> bool {
        self.ends.get(&flow).is_some_and(|end| *end > now)
    }
}

#[cfg(test)]
mod tests {
    use byway_units::Duration;

    use super::*;

    const LEASE: Duration = Duration::from_secs(60);

    fn flow(number: u64) -> FlowHash {
        FlowHash::new(number)
    }

    fn at(seconds: u64) -> Time {
        Time::START + Duration::from_secs(seconds)
    }

    #[test]
    fn a_flow_is_registered_until_its_lease_ends_unless_it_is_renewed() {
        let mut flows = RegisteredFlows::new();
        assert!(!flows.contains(flow(1), at(0)));
        assert!(
            flows.register(flow(1), at(0) + LEASE, at(0)) && flows.register(flow(2), at(0) + LEASE, at(0))
        );
        assert!(flows.register(flow(1), at(50) + LEASE, at(50)));
        assert_eq!([1, 2].map(|number| flows.contains(flow(number), at(59))), [true, true]);
        assert_eq!([1, 2].map(|number| flows.contains(flow(number), at(60))), [true, false]);
    }

    #[test]
    fn a_full_table_accepts_renewals_and_forgets_leases_that_have_ended() {
        let mut flows = RegisteredFlows::new();
        let all = u64::try_from(REGISTERED_FLOWS_MAX).expect("it is small");
        for number in 0..all {
            assert!(flows.register(flow(number), at(number % 2) + LEASE, at(0)));
        }
        assert!(!flows.register(flow(all), at(120), at(59)));
        assert!(flows.register(flow(1), at(120), at(59)), "a renewal");
        // Flows with even numbers have expired.
        assert!(flows.register(flow(all), at(120), at(60)));
        assert_eq!(flows.ends.len(), REGISTERED_FLOWS_MAX / 2 + 1);
    }
}
