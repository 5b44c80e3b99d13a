//! Rates of the classes on a link that shares by flows: steps of the policy of network state.

use byway_state::{InteractiveRates, Policy, PolicySettings, QueueObservation, SAMPLE_INTERVAL};
use byway_units::{Bytes, Time};

/// Policy of a link that shares by flows, and the time of its next step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowSharing {
    policy: Policy,
    step_at: Time,
}

impl FlowSharing {
    /// Creates the policy of a link without flows, whose high-rate class has sent these bytes so
    /// far.
    pub(crate) fn new(settings: PolicySettings, other_sent: Bytes, now: Time) -> Self {
        let mut policy = Policy::new(settings);
        // The first update begins to measure only.
        policy.update(QueueObservation { other_sent, ..QueueObservation::default() }, now);
        Self { policy, step_at: now + SAMPLE_INTERVAL }
    }

    /// Changes the settings. Rates keep their part of the capacity.
    pub(crate) fn set_settings(&mut self, settings: PolicySettings) {
        self.policy.set_settings(settings);
    }

    /// Returns the time of the next step.
    pub(crate) const fn step_at(&self) -> Time {
        self.step_at
    }

    /// Updates the rates from an observation.
    pub(crate) fn step(&mut self, observation: QueueObservation, now: Time) {
        let is_on_time = now.saturating_since(self.step_at) < SAMPLE_INTERVAL;
        self.step_at = if is_on_time { self.step_at } else { now } + SAMPLE_INTERVAL;
        self.policy.update(observation, now);
    }

    /// Returns the rates of the low-delay class.
    pub(crate) fn rates(&self) -> InteractiveRates {
        self.policy.rates()
    }
}
