//! Rates of a link's interactive queue.

use core::error::Error;
use core::fmt;

use byway_units::{Bytes, Probability, Rate, Time};

use crate::convert::{bytes_per_second, float, rate};
use crate::limits::{
    GUARANTEED_PART_MAX, GUARANTEED_SECONDS, LINK_RATE_MAX, LINK_RATE_MIN, MARGIN_PART, OTHER_RATE_SECONDS,
    SHOWN_SECONDS,
};
use crate::link_state::FlowCounts;

/// Service policy of one link with two queues, one of interactive flows (section 5.2 of the paper).
///
/// If both queues are backlogged, the scheduler of the link serves the interactive one at the
/// guaranteed rate, and the other one at the rest. Either may use what the other leaves. Senders
/// learn the shown rate.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    settings: PolicySettings,
    /// Guaranteed rate (`R_L`), in bytes per second.
    guaranteed: f64,
    /// Shown rate (`R_S`).
    shown: f64,
    /// Measured rate of the other queue.
    other: f64,
    last: Option<(Time, Bytes)>,
}

/// Settings of a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolicySettings {
    capacity: Rate,
    floor: f64,
}

impl PolicySettings {
    /// Creates the settings of a link with this capacity, 8 kbit/s to 10 Tbit/s. Interactive flows
    /// are guaranteed at least the part `floor` of it, at most 0.9.
    ///
    /// # Errors
    /// If a value is out of range.
    pub fn new(capacity: Rate, floor: Probability) -> Result<Self, PolicyError> {
        if !(LINK_RATE_MIN..=LINK_RATE_MAX).contains(&capacity) {
            return Err(PolicyError::Capacity(capacity));
        }
        if floor.value() > GUARANTEED_PART_MAX {
            return Err(PolicyError::Floor(floor));
        }
        Ok(Self { capacity, floor: floor.value() })
    }

    /// Returns the capacity of the link.
    #[must_use]
    pub const fn capacity(&self) -> Rate {
        self.capacity
    }

    /// Returns the guaranteed rate that so many flows have once it has settled (Equation 9).
    #[must_use]
    pub fn settled(&self, flows: FlowCounts) -> Rate {
        rate(bytes_per_second(self.capacity) * self.share(flows))
    }

    /// Returns the part of the capacity that the guaranteed rate approaches, at most 0.9.
    fn share(&self, FlowCounts { interactive, other }: FlowCounts) -> f64 {
        let (interactive, other) = (f64::from(interactive), f64::from(other));
        ((interactive + 1.0) / (interactive + other + 2.0)).max(self.floor).min(GUARANTEED_PART_MAX)
    }
}

/// Observation of a link's queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueObservation {
    /// Active flows in each queue.
    pub flows: FlowCounts,
    /// Bytes that wait in the other queue.
    pub other_backlog: Bytes,
    /// Bytes that have left the other queue so far.
    pub other_sent: Bytes,
}

/// Rates of a link's interactive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InteractiveRates {
    /// Rate of the scheduler while both queues are backlogged (`R_L`), at most the capacity.
    pub guaranteed: Rate,
    /// Rate that senders may count on (`R_S`), at most the capacity.
    pub shown: Rate,
}

impl Policy {
    /// Creates the policy of a link without flows: each queue has half of the capacity.
    #[must_use]
    pub fn new(settings: PolicySettings) -> Self {
        let half = bytes_per_second(settings.capacity) * settings.floor.max(0.5);
        Self { settings, guaranteed: half, shown: half, other: 0.0, last: None }
    }

    /// Changes the settings. Rates keep their part of the capacity.
    pub fn set_settings(&mut self, settings: PolicySettings) {
        let ratio = bytes_per_second(settings.capacity) / bytes_per_second(self.settings.capacity);
        for rate in [&mut self.guaranteed, &mut self.shown, &mut self.other] {
            *rate *= ratio;
        }
        self.settings = settings;
    }

    /// Updates the rates from an observation (Equations 9 and 10). Call it each 50 ms.
    ///
    /// The first call, and one at an earlier time than the last, begin to measure only. A counter
    /// that went backwards counts as nothing sent.
    pub fn update(&mut self, observation: QueueObservation, now: Time) -> InteractiveRates {
        let last = self.last.replace((now, observation.other_sent));
        let elapsed = last.and_then(|(at, sent)| Some((now.checked_since(at)?.as_secs_f64(), sent)));
        if let Some((elapsed, sent)) = elapsed.filter(|(elapsed, _)| *elapsed > 0.0) {
            let sent = float(observation.other_sent.saturating_sub(sent).count());
            // A counter that jumps is no rate of the link.
            let other = (sent / elapsed).min(bytes_per_second(self.settings.capacity));
            self.other += weight(elapsed, OTHER_RATE_SECONDS) * (other - self.other);
            self.step(observation, elapsed);
        }
        self.rates()
    }

    /// Returns the rates.
    #[must_use]
    pub fn rates(&self) -> InteractiveRates {
        InteractiveRates { guaranteed: rate(self.guaranteed), shown: rate(self.shown) }
    }

    fn step(&mut self, observation: QueueObservation, elapsed: f64) {
        let capacity = bytes_per_second(self.settings.capacity);
        let share = self.settings.share(observation.flows);
        let before = self.guaranteed;
        self.guaranteed += weight(elapsed, GUARANTEED_SECONDS) * (capacity * share - before);
        // A look at the other queue does not see steady traffic that never waits: its rate counts.
        let most = capacity * (1.0 - MARGIN_PART);
        let unused = (most - self.other).max(before).min(most);
        let target = if observation.other_backlog.is_zero() { unused } else { before };
        self.shown += weight(elapsed, SHOWN_SECONDS) * (target - self.shown);
    }
}

/// Returns the weight of a new value in an average with this time constant.
fn weight(elapsed: f64, time_constant: f64) -> f64 {
    (elapsed / time_constant).min(1.0)
}

/// Error of settings that no link can have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PolicyError {
    /// Capacity out of range.
    Capacity(Rate),
    /// Floor out of range.
    Floor(Probability),
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capacity(capacity) => {
                write!(f, "capacity invalid: {capacity}; at least {LINK_RATE_MIN}, at most {LINK_RATE_MAX}")
            }
            Self::Floor(floor) => {
                write!(f, "floor of interactive flows invalid: {floor}; other flows need a tenth")
            }
        }
    }
}

impl Error for PolicyError {}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use byway_units::Duration;
    use proptest::prelude::*;

    use super::*;

    const TICK: Duration = Duration::from_millis(50);

    fn settings(megabits: u64, floor: f64) -> PolicySettings {
        let floor = Probability::new(floor).expect("a share");
        PolicySettings::new(Rate::from_megabits_per_second(megabits), floor).expect("a usual link")
    }

    /// Link that sends nothing itself: tests say what its queues look like.
    struct TestLink {
        policy: Policy,
        now: Time,
        sent: Bytes,
    }

    impl TestLink {
        fn new() -> Self {
            Self { policy: Policy::new(settings(5, 0.0)), now: Time::START, sent: Bytes::ZERO }
        }

        /// Returns the rates after so many updates, in kbit/s.
        fn run(&mut self, updates: u32, flows: [u32; 2], backlog: u64, other: u64) -> [u64; 2] {
            let flows = FlowCounts { interactive: flows[0], other: flows[1] };
            for _ in 0..updates {
                self.now += TICK;
                self.sent += Rate::from_kilobits_per_second(other) * TICK;
                let observation =
                    QueueObservation { flows, other_backlog: Bytes::new(backlog), other_sent: self.sent };
                self.policy.update(observation, self.now);
            }
            let InteractiveRates { guaranteed, shown } = self.policy.rates();
            [guaranteed, shown].map(|rate| (rate.bits_per_second() + 500) / 1_000)
        }
    }

    #[test]
    fn guaranteed_rates_are_the_published_ones() {
        // Section 5.4: 2.5, 3.3, 2.5 and 2.0 Mbit/s.
        let counts = [[0, 0], [1, 0], [1, 1], [1, 2]];
        let rates = counts.map(|flows| TestLink::new().run(200, flows, 0, 0)[0]);
        assert_eq!(rates, [2_500, 3_333, 2_500, 2_000]);
        let settled =
            counts.map(|[interactive, other]| settings(5, 0.0).settled(FlowCounts { interactive, other }));
        assert_eq!(settled.map(Rate::bits_per_second), [2_500_000, 3_333_333, 2_500_000, 2_000_000]);
        let floor = settings(5, 0.5).settled(FlowCounts { interactive: 1, other: 2 });
        assert_eq!(floor, Rate::from_kilobits_per_second(2_500));
    }

    #[test]
    fn the_shown_rate_is_nearly_all_while_the_other_queue_is_empty() {
        let mut link = TestLink::new();
        assert_eq!(link.run(200, [1, 0], 0, 0), [3_333, 4_900]);
        assert_eq!(link.run(200, [1, 1], 1_500, 2_500), [2_500, 2_500]);
        assert_eq!(link.run(200, [1, 0], 0, 0), [3_333, 4_900]);
    }

    #[test]
    fn the_shown_rate_follows_within_half_a_second() {
        let mut link = TestLink::new();
        link.run(200, [1, 1], 0, 0);
        let [guaranteed, shown] = link.run(10, [1, 1], 1_500, 2_500);
        assert!(shown < guaranteed + 20, "{shown}");
    }

    #[test]
    fn steady_traffic_that_never_waits_is_not_shown_as_spare() {
        let mut link = TestLink::new();
        assert_eq!(link.run(200, [1, 1], 0, 1_000), [2_500, 3_900]);
        // The guarantee holds, whatever the other traffic sends.
        assert_eq!(link.run(200, [1, 1], 0, 4_000), [2_500, 2_500]);
    }

    #[test]
    fn a_counter_that_jumps_is_forgotten_in_three_seconds() {
        let mut link = TestLink::new();
        link.run(200, [1, 0], 0, 0);
        link.sent = Bytes::new(u64::MAX / 2);
        assert_eq!(link.run(60, [1, 0], 0, 0), [3_333, 4_900]);
    }

    #[test]
    fn other_traffic_keeps_a_tenth_however_many_flows_there_are() {
        // 8 of 9, 9 of 10, and 10 of 11 parts of 5 Mbit/s: the last one is too many.
        let guaranteed = |interactive| {
            settings(5, 0.0).settled(FlowCounts { interactive, other: 0 }).bits_per_second() / 1_000
        };
        assert_eq!([7, 8, 9, 1_000, u32::MAX].map(guaranteed), [4_444, 4_500, 4_500, 4_500, 4_500]);
        // While the other queue is backlogged, senders are shown no more than that.
        assert_eq!(TestLink::new().run(200, [1_000, 0], 1_500, 500), [4_500, 4_500]);
    }

    #[test]
    fn the_margin_is_not_shown_however_many_flows_there_are() {
        assert_eq!(TestLink::new().run(200, [1_000, 0], 0, 0), [4_500, 4_900]);
    }

    #[test]
    fn a_floor_holds_beside_many_flows_and_other_traffic_keeps_its_own() {
        let mut policy = Policy::new(settings(5, 0.3));
        let observation = |interactive, other| QueueObservation {
            flows: FlowCounts { interactive, other },
            other_backlog: Bytes::new(1),
            other_sent: Bytes::ZERO,
        };
        for tick in 0..200 {
            policy.update(observation(1, 1_000), Time::START + TICK * tick);
        }
        assert_eq!(policy.rates().guaranteed, Rate::from_kilobits_per_second(1_500));
        for tick in 200..400 {
            policy.update(observation(u32::MAX, 0), Time::START + TICK * tick);
        }
        assert!(policy.rates().guaranteed <= Rate::from_megabits_per_second(5));
    }

    #[test]
    fn a_change_of_capacity_scales_the_rates_at_once() {
        let mut link = TestLink::new();
        link.run(200, [1, 1], 1_500, 2_500);
        link.policy.set_settings(settings(10, 0.0));
        assert_eq!(link.policy.rates().shown, Rate::from_megabits_per_second(5));
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let share = |value| Probability::new(value).expect("a share");
        for capacity in [Rate::ZERO, Rate::from_kilobits_per_second(7), Rate::MAX] {
            assert_eq!(PolicySettings::new(capacity, share(0.0)), Err(PolicyError::Capacity(capacity)));
        }
        let capacity = Rate::from_megabits_per_second(5);
        let error = PolicySettings::new(capacity, share(0.95)).expect_err("others get too little");
        assert!(error.to_string().contains("95 %"), "{error}");
        assert!(PolicyError::Capacity(Rate::ZERO).to_string().contains("8 kbit/s"));
        assert_eq!(settings(5, 0.5).capacity(), capacity);
    }

    proptest! {
        #[test]
        fn rates_stay_within_the_link_for_any_observations(
            observations in prop::collection::vec(any::<(u32, u32, u64, u64, u64)>(), 1..50),
            capacity in 1_u64..10_000_000,
        ) {
            let mut policy = Policy::new(settings(capacity, 0.1));
            for (interactive, other, backlog, sent, now) in observations {
                let observation = QueueObservation {
                    flows: FlowCounts { interactive, other },
                    other_backlog: Bytes::new(backlog),
                    other_sent: Bytes::new(sent),
                };
                let rates = policy.update(observation, Time::from_nanos(now));
                let capacity = Rate::from_megabits_per_second(capacity);
                prop_assert!(rates.guaranteed > Rate::ZERO && rates.guaranteed <= capacity, "{:?}", rates);
                prop_assert!(rates.shown > Rate::ZERO && rates.shown <= capacity, "{:?}", rates);
            }
        }
    }
}
