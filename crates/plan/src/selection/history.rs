//! Packets of a flow by their fate: what its paths lose, and what its service misses.

use alloc::collections::VecDeque;

use byway_units::{Duration, Probability, Time};
use byway_wire::Service;

use super::interface::Observation;
use crate::relay_loss::RelayLoss;

/// Loss of the direct path that is assumed until it is measured, so that the first service repairs
/// losses in time.
const ASSUMED_LOSS: f64 = 0.01;

/// Number of packets after which the loss counts as measured, and the time that they have to take
/// at least. Of 200 packets, a path that loses 1 % loses one at least in 7 of 8 cases. Bursts of
/// losses are seconds apart, so fewer packets in a longer time show as much as many in a short one.
const MEASURED_AFTER: [(u64, Duration); 2] =
    [(200, Duration::from_secs(20)), (1_000, Duration::from_secs(8))];

/// Time over which recent losses and missed packets count: a few reports.
pub(super) const RECENT: Duration = Duration::from_secs(5);

/// Time over which losses count.
const WINDOW: Duration = Duration::from_secs(60);

/// Most samples in the window: ten a second, more than receivers report.
const SAMPLES_MAX: usize = 600;

/// Missed packets of one burst that do not show a rate: one lost request.
const MISSED_BURST: f64 = 3.0;

/// Least number of packets that show a rate: a single one is chance.
const EVENTS_MIN: u64 = 2;

/// Packets of a flow by their fate.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    packets: u64,
    /// Packets that were sent on the direct path: all, or its samples.
    on_direct_path: u64,
    /// Packets of `on_direct_path` that the direct path lost.
    lost: u64,
    /// Packets that no path delivered, and no repair restored in time.
    missed: u64,
}

impl Counts {
    /// Returns true if most of the lost packets were missed, and not by chance alone.
    const fn misses_most(self) -> bool {
        self.missed >= EVENTS_MIN && self.missed * 2 >= self.lost
    }

    /// Returns true if the share of missed packets exceeds `residual_max`, and that is no chance:
    /// one burst of a few packets, or four standard deviations above the expected number.
    #[allow(clippy::cast_precision_loss, reason = "a threshold needs a few digits only")]
    fn exceed(self, residual_max: Probability) -> bool {
        let expected = self.packets as f64 * residual_max.value();
        let beyond = self.missed as f64 - expected - MISSED_BURST;
        beyond > 0.0 && beyond * beyond > 16.0 * expected
    }

    /// Returns the loss of the direct path: zero for a single lost packet.
    fn loss(self) -> Probability {
        let loss = if self.lost >= EVENTS_MIN { share(self.lost, self.on_direct_path) } else { 0.0 };
        Probability::new(loss.min(1.0)).unwrap_or(Probability::ONE)
    }

    const fn since(self, earlier: Self) -> Self {
        Self {
            packets: self.packets.saturating_sub(earlier.packets),
            on_direct_path: self.on_direct_path.saturating_sub(earlier.on_direct_path),
            lost: self.lost.saturating_sub(earlier.lost),
            missed: self.missed.saturating_sub(earlier.missed),
        }
    }
}

/// Counts of the latest minute, and the loss of the relay path.
#[derive(Clone, Debug)]
pub(super) struct History {
    began: Option<Time>,
    last: Observation,
    total: Counts,
    /// Packets that do not make up a whole interval of samples of the direct path yet.
    unsampled: u64,
    samples: VecDeque<(Time, Counts)>,
    /// Loss of the relay path in use, since both paths or relays alone deliver the flow.
    relay_loss: RelayLoss,
}

impl History {
    /// Returns the history of a flow that has not sent anything yet.
    pub(super) const fn new() -> Self {
        Self {
            began: None,
            last: Observation {
                direct: 0,
                lost: 0,
                repaired: 0,
                forwarded: 0,
                covered: 0,
                direct_sample_interval: 1,
                path: None,
                delays: None,
                are_delays_measured: false,
                group_activity: None,
            },
            total: Counts { packets: 0, on_direct_path: 0, lost: 0, missed: 0 },
            unsampled: 0,
            samples: VecDeque::new(),
            relay_loss: RelayLoss::new(),
        }
    }

    /// Adds what happened since the last observation, with this service in force. `is_overlap` is
    /// true shortly after a change, when counts may be about the service before.
    pub(super) fn add(
        &mut self,
        observation: &Observation,
        (in_force, is_overlap): (Service, bool),
        now: Time,
    ) {
        let since = |count: fn(&Observation) -> u64| count(observation).saturating_sub(count(&self.last));
        let (direct, lost) = (since(|counts| counts.direct), since(|counts| counts.lost));
        let (forwarded, covered) = (since(|counts| counts.forwarded), since(|counts| counts.covered));
        let packets = direct + lost + forwarded;
        let missed = lost.saturating_sub(since(|counts| counts.repaired));
        let interval = observation.direct_sample_interval.max(1);
        let sampled = packets + self.unsampled;
        self.unsampled = sampled % interval;
        self.total.packets += packets;
        self.total.on_direct_path += sampled / interval;
        self.total.missed += missed;
        // What relays lose while they alone forward the flow is no loss of the direct path.
        self.total.lost += covered + if in_force == Service::Forwarding { 0 } else { lost };
        // A report after a gap may be about packets of any time before.
        let is_gap = self.samples.back().is_some_and(|(at, _)| now.saturating_since(*at) > RECENT);
        match in_force {
            Service::Forwarding | Service::Both if is_overlap || is_gap => {}
            Service::Forwarding => self.relay_loss.add(forwarded + missed, missed),
            Service::Both => self.relay_loss.add(covered + lost, missed),
            _ => self.relay_loss = RelayLoss::new(),
        }
        self.last = *observation;
        self.began.get_or_insert(now);
        let is_past = |at: Time| now.saturating_since(at) > WINDOW;
        while self.samples.len() >= SAMPLES_MAX || self.samples.get(1).is_some_and(|(at, _)| is_past(*at)) {
            self.samples.pop_front();
        }
        self.samples.push_back((now, self.total));
    }

    /// Returns the counts of the latest `time`.
    fn counts(&self, time: Duration, now: Time) -> Counts {
        let samples = self.samples.iter().rev();
        let earliest = samples.take_while(|(at, _)| now.saturating_since(*at) <= time).last();
        earliest.map_or_else(Counts::default, |(_, counts)| self.total.since(*counts))
    }

    /// Returns the number of packets since the flow began.
    pub(super) const fn packets(&self) -> u64 {
        self.total.packets
    }

    /// Returns true if packets were sent in the time of the last few reports.
    pub(super) fn is_active(&self, now: Time) -> bool {
        self.counts(RECENT, now).packets > 0
    }

    /// Returns true if enough packets were sent to measure the loss.
    pub(super) fn is_measured(&self, now: Time) -> bool {
        let elapsed = self.began.map_or(Duration::ZERO, |began| now.saturating_since(began));
        MEASURED_AFTER.iter().any(|(packets, time)| self.total.packets >= *packets && elapsed >= *time)
    }

    /// Returns the loss of the direct path: the larger one of the recent losses and of all in the
    /// window. Before enough packets were sent, it is not less than [`ASSUMED_LOSS`].
    pub(super) fn loss(&self, now: Time) -> Probability {
        self.mean_loss(now).max(self.counts(RECENT, now).loss())
    }

    /// Returns the loss of the direct path in the window. Before enough packets were sent, it is
    /// not less than [`ASSUMED_LOSS`].
    pub(super) fn mean_loss(&self, now: Time) -> Probability {
        let assumed = if self.is_measured(now) { 0.0 } else { ASSUMED_LOSS };
        let assumed = Probability::new(assumed).unwrap_or(Probability::ZERO);
        self.counts(WINDOW, now).loss().max(assumed)
    }

    /// Returns the loss of the relay path; `None` before it is measured.
    pub(super) fn relay_loss(&self) -> Option<Probability> {
        self.relay_loss.share()
    }

    /// Forgets the loss of the relay path, which has to show anew that it delivers.
    pub(super) const fn forget_relay_loss(&mut self) {
        self.relay_loss = RelayLoss::new();
    }

    /// Returns true if a service that has been in force for `time` misses its target: more than
    /// `residual_max` of the packets, and that is no chance.
    pub(super) fn misses(&self, residual_max: Probability, time: Duration, now: Time) -> bool {
        let recent = self.counts(time.min(RECENT), now);
        let whole = self.counts(time.min(WINDOW), now);
        let is_beyond = share(recent.missed, recent.packets) > residual_max.value();
        (recent.misses_most() && is_beyond)
            || [recent, whole].iter().any(|counts| counts.exceed(residual_max))
    }
}

#[allow(clippy::cast_precision_loss, reason = "a share needs a few digits only")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::harness::{Harness, ms};

    #[test]
    fn while_relays_alone_forward_a_flow_its_direct_path_is_measured_by_samples() {
        let mut history = History::new();
        let mut observation = Observation { direct_sample_interval: 16, ..Observation::default() };
        history.add(&observation, (Service::Forwarding, false), Time::START);
        for second in 1..=60_u64 {
            // Every other report has a sample, and every fourth one a lost one.
            observation.forwarded += 8;
            observation.covered += u64::from(second.is_multiple_of(4));
            history.add(&observation, (Service::Forwarding, false), Time::START + ms(second * 1_000));
        }
        // Of 480 packets, 30 were samples.
        let now = Time::START + ms(60_000);
        assert_eq!(history.mean_loss(now), Probability::new(0.5).expect("it is a share"));
    }

    #[test]
    fn a_path_that_loses_nothing_needs_requests_only_whatever_the_budget() {
        let mut harness = Harness::new(110);
        harness.run(15, 0);
        assert_eq!(harness.service, Service::Caching, "not measured yet");
        harness.run(45, 0);
        assert_eq!(harness.services(), [Service::Retransmission]);
        assert_eq!(harness.selector.selection().map(|selection| selection.service), Some(harness.service));
    }

    #[test]
    fn the_loss_of_a_fast_flow_is_measured_sooner() {
        let measured_after = |packets: u64| {
            let mut harness = Harness::new(110);
            while harness.service == Service::Caching {
                harness.now += ms(1_000);
                harness.observation.direct += packets;
                harness.select();
            }
            harness.now
        };
        assert_eq!(measured_after(40), Time::START + ms(21_000));
        assert_eq!(measured_after(200), Time::START + ms(9_000));
    }

    #[test]
    fn packets_that_relays_deliver_first_are_no_losses() {
        let mut harness = Harness::new(110);
        harness.service = Service::Both;
        for _ in 0..60 {
            harness.now += ms(1_000);
            harness.observation.forwarded += 50;
            harness.select();
        }
        assert_eq!(harness.services().last(), Some(&Service::Retransmission));
    }

    #[test]
    fn losses_that_both_paths_hide_keep_the_flow_on_both() {
        let mut harness = Harness::new(80);
        harness.run(300, 1);
        assert_eq!(harness.services(), [Service::Both]);
        harness.run(300, 0);
        assert_eq!(harness.services(), [Service::Both, Service::Retransmission]);
    }
}
