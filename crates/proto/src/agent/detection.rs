//! Prediction of the time in which a receiver detects a loss, by the flow's pace.

use byway_plan::Delays;
use byway_units::{Duration, Time};
use byway_wire::messages::Report;

use super::notice_intervals::NoticeIntervals;
use super::sent_usage::SentUsage;
use crate::limits::{REORDERING_TIME, SILENCE_MARGIN, TAIL_PAUSE_MIN};
use crate::parts::loss_timer::TwoState;
use crate::policy::batch_wait;

/// Longest interval of a paced flow, as a multiple of the reported detection time, in halves: the
/// timeout is 25 % above a step of 14 to 25 %. A longer mean interval contains pauses.
const INTERVAL_HALVES_MAX: u64 = 5;

/// Multiple of the shortest pause from which on an egress relay takes each interval for a pause.
const PAUSES_OF_INTERVAL: u64 = 6;

/// Longest burst of a prediction, in packets. The receiver reports it, and may report anything;
/// bursts beyond it are outages, of which notices tell the sender.
const BURST_MAX: u32 = 1_024;

/// Pace of a sent flow, and the bursts of its losses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Pace {
    /// Interval between packets; zero before the second one.
    interval: Duration,
    /// Mean and longest number of consecutive losses.
    bursts: Option<(f64, u32)>,
}

impl Pace {
    /// Returns the pace of a flow, by its packets and the latest report of its receiver.
    /// `detection` is the detection time that the receiver reports.
    pub(super) fn of(
        usage: &SentUsage,
        report: Option<&Report>,
        detection: Option<Duration>,
        now: Time,
    ) -> Self {
        let lasting = usage.began.map_or(Duration::ZERO, |began| now.saturating_since(began));
        let mean = lasting.as_nanos().checked_div(usage.source.packets.saturating_sub(1));
        let mean = Duration::from_nanos(mean.unwrap_or(0));
        let paced = detection.map_or(mean, |detection| mean.min(detection * INTERVAL_HALVES_MAX / 2));
        Self { interval: paced, bursts: report.and_then(bursts) }
    }

    /// True if an egress relay with a cache takes each interval for a pause.
    pub(super) fn has_hints(self) -> bool {
        self.interval >= TAIL_PAUSE_MIN * PAUSES_OF_INTERVAL
    }

    /// Returns the share of the bursts of losses that are silences, of which the receiver notifies
    /// its sender.
    pub(super) fn noticed(self, delays: &Delays) -> f64 {
        let silence = delays.detection + SILENCE_MARGIN + delays.direct / 4;
        let before = silence.as_nanos().checked_div(self.interval.as_nanos()).unwrap_or(u64::MAX);
        let goes_on = 1.0 - 1.0 / self.burst();
        // Nearly no burst is longer than this.
        (0..before.min(BURST_MAX.into())).fold(1.0, |share, _| share * goes_on)
    }

    /// Returns the mean number of consecutive losses.
    pub(super) fn burst(self) -> f64 {
        self.bursts.map_or(1.0, |(mean, _)| mean)
    }

    /// Returns these delays with the time in which this share of the losses is detected.
    pub(super) fn detect(self, delays: Delays, share: f64, latency_budget: Duration) -> Delays {
        let excess = TwoState::detection_excess(self.interval);
        let timer = delays.detection.saturating_sub(excess).max(Duration::from_millis(1));
        let has_expired = timer <= self.interval;
        let reordering = if has_expired { Duration::ZERO } else { REORDERING_TIME };
        let next = self.interval.saturating_add(reordering);
        let hint = if self.has_hints() {
            let hinted = delays.relayed() + TAIL_PAUSE_MIN;
            (hinted.max(delays.direct) + REORDERING_TIME).saturating_sub(delays.direct)
        } else {
            Duration::MAX
        };
        let notices = NoticeIntervals::within(latency_budget, delays.direct_round_trip());
        let lost = self.interval.checked_mul(self.lost_from(share).into()).unwrap_or(Duration::MAX);
        let after_burst = lost.saturating_add(reordering);
        Delays {
            detection: timer.min(next).min(hint),
            detection_afar: after_burst.min(timer.saturating_add(notices.first)),
            encoding: batch_wait(latency_budget),
            ..delays
        }
    }

    /// Returns the number of consecutive losses from a lost packet on, itself included, that this
    /// share of lost packets does not exceed. The lengths of bursts have a geometric distribution.
    fn lost_from(self, share: f64) -> u32 {
        let Some((mean, longest)) = self.bursts else {
            return 1;
        };
        let goes_on = 1.0 - 1.0 / mean;
        let (mut count, mut beyond) = (1, goes_on);
        while beyond > 1.0 - share && count < longest {
            (count, beyond) = (count + 1, beyond * goes_on);
        }
        count
    }
}

/// Returns the mean and the longest number of consecutive losses in a report, each at least 1;
/// `None` before the first burst. Losses that relays cover belong to bursts of the direct path.
/// After forwarding, the mean is too large: samples count in `covered`, and not in `bursts`.
fn bursts(report: &Report) -> Option<(f64, u32)> {
    let longest = report.longest_burst.clamp(1, BURST_MAX);
    let mean = (f64::from(report.lost) + f64::from(report.covered)) / f64::from(report.bursts);
    (report.bursts > 0).then(|| (mean.clamp(1.0, f64::from(longest)), longest))
}

/// Returns the ratio of the variance to the mean of the number of losses in a long time: 1 for
/// independent ones. The lengths of bursts have a geometric distribution.
pub(super) fn dispersion(report: Option<&Report>) -> f64 {
    report.and_then(bursts).map_or(1.0, |(mean, _)| 2.0 * mean - 1.0)
}
