//! Reports of a link: what it shows to senders.

use byway_sched::{Class, Sample};
use byway_state::{FlowCounts, InteractiveRates, LinkId, LinkMeter, LinkSample, LinkState, NetworkId};
use byway_units::{Bytes, Duration, Rate, Time};

use super::plan::PlannedReporter;
use super::raw::PolicySetting;

/// Time constant of the shown rate in milliseconds (section 5.2 of the paper).
const SHOWN_MS: u64 = 100;

/// Capacity in per cent that is never shown (M of the paper).
const MARGIN_PERCENT: u64 = 2;

/// Index of the class of other packets in samples.
const OTHER: usize = 0;

/// Rate of the opposite direction, which has no queue.
const BACK_RATE: Rate = Rate::from_megabits_per_second(1_000);

/// Reporter of a link's both directions, and the controller's meters of them.
#[derive(Debug)]
pub(crate) struct LinkReporter {
    meters: [LinkMeter; 2],
    reports: u64,
    /// Rates by the published rule.
    published: Option<InteractiveRates>,
}

impl LinkReporter {
    /// Creates the reporter of the link with this index in the plan.
    pub(crate) fn new(index: usize) -> Self {
        Self { meters: link_ids(index).map(LinkMeter::new), reports: 0, published: None }
    }

    /// Returns the next reports of both directions.
    pub(crate) fn report(&mut self, link: &PlannedReporter, sample: &Sample, now: Time) -> [LinkSample; 2] {
        self.reports += 1;
        let class = link.class as usize;
        let is_shared = link.class != Class::HighRate;
        let rates = if is_shared { self.policy_rates(link, sample) } else { equal_rates(link.rate) };
        let shown = link.shown.filter(|(_, from)| now.saturating_since(Time::START) >= *from);
        let forward = LinkSample {
            incarnation: 1,
            number: self.reports,
            clock: now,
            sent: sample.sent[class],
            backlog: sample.backlog[class],
            shown: shown.map_or(rates.shown, |(shown, _)| shown),
            guaranteed: rates.guaranteed,
            delay: link.reported_delay(),
            target: link.target,
            flows: FlowCounts {
                interactive: sample.flows[class],
                other: if is_shared { sample.flows[OTHER] } else { 0 },
            },
        };
        let back = LinkSample {
            sent: Bytes::ZERO,
            backlog: Bytes::ZERO,
            shown: BACK_RATE,
            guaranteed: BACK_RATE,
            delay: link.propagation,
            ..forward
        };
        [forward, back]
    }

    /// Returns the rates that a link with queues by flows shows.
    fn policy_rates(&mut self, link: &PlannedReporter, sample: &Sample) -> InteractiveRates {
        if link.policy == PolicySetting::Corrected {
            return sample.rates;
        }
        let before = self.published.unwrap_or(sample.rates);
        let spare = link.rate.bits_per_second() / 100 * (100 - MARGIN_PERCENT);
        let is_other_empty = sample.backlog[OTHER].is_zero();
        let target = if is_other_empty { spare } else { before.guaranteed.bits_per_second() };
        let weight = link.reporting.every.as_millis().min(SHOWN_MS);
        let shown = before.shown.bits_per_second() * (SHOWN_MS - weight) + target * weight;
        let shown = Rate::from_bits_per_second(shown / SHOWN_MS);
        *self.published.insert(InteractiveRates { shown, ..sample.rates })
    }

    /// Handles reports at the controller, and returns the states of both directions that follow.
    pub(crate) fn on_reports(
        &mut self,
        samples: [LinkSample; 2],
        age: Duration,
        now: Time,
    ) -> [Option<LinkState>; 2] {
        let [forward, back] = &mut self.meters;
        [(forward, samples[0]), (back, samples[1])]
            .map(|(meter, sample)| meter.on_sample(sample, age, now).ok().flatten())
    }
}

/// Returns the names of both directions of the link with this index in the plan.
pub(crate) fn link_ids(index: usize) -> [LinkId; 2] {
    let number = u32::try_from(index).unwrap_or(u32::MAX / 2);
    [0, 1].map(|direction| LinkId::new(NetworkId::new(1), 2 * number + direction))
}

const fn equal_rates(rate: Rate) -> InteractiveRates {
    InteractiveRates { guaranteed: rate, shown: rate }
}
