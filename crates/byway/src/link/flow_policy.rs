//! Policy of a device that shares by flows, fed with the counters of the kernel's classes.

use byway_net::ClassCounters;
use byway_state::{FlowCounts, InteractiveRates, Policy, PolicySettings, QueueObservation};
use byway_units::Time;

use super::sharing::CLASSES;

/// Policy that sets the rates of a device's classes from their flows and queues.
pub(super) struct FlowPolicy(Policy);

impl FlowPolicy {
    /// Creates the policy of a device without flows.
    pub(super) fn new(settings: PolicySettings) -> Self {
        Self(Policy::new(settings))
    }

    /// Changes rate and floor. Rates keep their part of the device's rate.
    pub(super) fn set_settings(&mut self, settings: PolicySettings) {
        self.0.set_settings(settings);
    }

    /// Updates the rates for these numbers of flows, high rate first, and these counters of the
    /// kernel. Call it every 50 ms.
    pub(super) fn step(&mut self, flows: [u32; 2], counters: &[ClassCounters], now: Time) {
        let other = counters.iter().find(|counters| counters.id == CLASSES[0]).copied().unwrap_or_default();
        let observation = QueueObservation {
            flows: FlowCounts { interactive: flows[1], other: flows[0] },
            other_backlog: other.backlog,
            other_sent: other.sent,
        };
        self.0.update(observation, now);
    }

    /// Returns the rates of the low-delay class.
    pub(super) fn rates(&self) -> InteractiveRates {
        self.0.rates()
    }
}

#[cfg(test)]
mod tests {
    use byway_sched::{Settings, Sharing};
    use byway_units::{Bytes, Duration, Rate};

    use super::*;

    const TICK: Duration = Duration::from_millis(50);

    fn policy(megabits: u64) -> PolicySettings {
        let settings = Settings::new(Rate::from_megabits_per_second(megabits), Bytes::new(1_518));
        let settings = settings.and_then(|link| link.with_sharing(Sharing::ByFlows { floor_milli: 0 }));
        settings.expect("a usual link").policy().expect("it shares by flows")
    }

    /// Returns the rates in kbit/s after 10 s with these flows, where the high-rate class has a
    /// backlog, and sends.
    fn settled(flows: [u32; 2], backlog: u64, kilobits: u64) -> [u64; 2] {
        let mut policy = FlowPolicy::new(policy(5));
        for tick in 0..200 {
            let sent = Rate::from_kilobits_per_second(kilobits) * (TICK * tick);
            let high_rate = ClassCounters {
                id: CLASSES[0],
                sent,
                backlog: Bytes::new(backlog),
                ..ClassCounters::default()
            };
            // Counters of the low-delay class are nothing to the policy.
            let low_delay = ClassCounters { id: CLASSES[1], backlog: Bytes::new(1), ..high_rate };
            policy.step(flows, &[low_delay, high_rate], Time::START + TICK * tick);
        }
        let InteractiveRates { guaranteed, shown } = policy.rates();
        [guaranteed, shown].map(|rate| (rate.bits_per_second() + 500) / 1_000)
    }

    #[test]
    fn rates_follow_the_flows_of_both_classes_and_the_queue_of_the_other_one() {
        assert_eq!(settled([0, 1], 0, 0), [3_333, 4_900]);
        assert_eq!(settled([1, 1], 1_518, 2_500), [2_500, 2_500]);
        assert_eq!(settled([2, 1], 1_518, 3_000), [2_000, 2_000]);
        // 1 Mbit/s that never waits is not shown as spare.
        assert_eq!(settled([1, 1], 0, 1_000), [2_500, 3_900]);
    }

    #[test]
    fn a_change_of_the_rate_scales_what_was_guaranteed() {
        let mut changed = FlowPolicy::new(policy(5));
        changed.set_settings(policy(10));
        assert_eq!(changed.rates().guaranteed, Rate::from_megabits_per_second(5));
    }
}
