//! Window and rate of one flow, computed from network state.

use byway_units::{Bytes, Duration, Rate, Time};

use crate::averages::{LinkAverage, PathAverages};
use crate::convert::{bytes, bytes_per_second, float, rate, seconds};
use crate::limits::{
    CORRECTED_RATE_PART, CORRECTION_SECONDS, OLD_STATE_SECONDS, REQUEST_GAIN, STEP_PART, STEP_TARGETS,
};
use crate::link_state::LinkId;
use crate::path_entry::PathEntry;
use crate::rules::{Corrections, OldStateRule, Rules};

/// Shortest feedback delay: a link's rate changes by a finite step.
const FEEDBACK_SECONDS_MIN: f64 = 0.001;

/// Window of one flow (section 4.1 of the paper).
///
/// It sends at full rate with about one packet of the flow in the queue of its bottleneck. Its
/// inputs are the entries of both directions, and the flow's own delivery rate. All quantities
/// count IP packets with their headers.
#[derive(Clone, Debug)]
pub struct Window {
    rules: Rules,
    forward: PathAverages,
    back: PathAverages,
}

impl Window {
    /// Creates a window without state.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        let averages = PathAverages::new(rules.corrections);
        Self { rules, forward: averages.clone(), back: averages }
    }

    /// Updates the averages of the direction in which the flow sends.
    ///
    /// A new flow begins with the entries of the last 2 s, all at once: its averages are warm then.
    pub fn on_forward_entry(&mut self, entry: &PathEntry, now: Time) {
        self.forward.update(entry.links(), now);
        if self.rules.corrections == Corrections::All {
            self.back.drop_missing_backlogs(now);
        }
    }

    /// Updates the averages of the opposite direction. If it misses four updates, the next forward
    /// entry drops its backlogs.
    pub fn on_back_entry(&mut self, entry: &PathEntry, now: Time) {
        self.back.update(entry.links(), now);
    }

    /// Computes rate and window (Equations 3 to 8, and those of the rules). Returns `None` without
    /// an entry of the forward direction.
    ///
    /// `delivery` is the rate of the flow's own acknowledged bytes in the last 0.5 s
    /// ([`DeliveryRate`](crate::DeliveryRate)). `rest` is the delay of the parts of the path
    /// that the entries do not have.
    #[must_use]
    pub fn decide(&self, delivery: Rate, rest: Duration) -> Option<Decision> {
        self.decide_with(delivery, rest.as_secs_f64())
    }

    /// Computes rate and window as [`Window::decide`] does. The rest of the path may be negative if
    /// the table has too much delay.
    pub(crate) fn decide_with(&self, delivery: Rate, rest: f64) -> Option<Decision> {
        let delivery = bytes_per_second(delivery);
        let (mut forward, mut travelled) = (0.0, 0.0);
        let mut least: Option<(&LinkAverage, FlowShare)> = None;
        for link in self.forward.links() {
            let share = self.share(link, delivery, travelled);
            // Waiting behind the others' bytes, and travelling (Equation 6 without S).
            forward += share.others / share.link_rate + link.delay;
            travelled += link.delay;
            if least.is_none_or(|(_, least)| share.allowed < least.allowed) {
                least = Some((link, share));
            }
        }
        let (link, share) = least?;
        // The own bytes wait at the bottleneck only; a full packet's time is part of each delay.
        forward += link.target / share.link_rate;
        let back: f64 = self.back.links().iter().map(|link| link.backlog / link.rate + link.delay).sum();
        let round_trip = (forward + back + rest).max(0.0);
        Some(Decision {
            bottleneck: link.link,
            rate: rate(share.allowed).max(Rate::from_bits_per_second(1)),
            window: bytes(share.allowed * round_trip),
            round_trip: seconds(round_trip),
            target: bytes(link.target),
            own_backlog: bytes(share.own),
            other_backlog: bytes(share.others),
        })
    }

    /// Computes the flow's share of a link (Equations 3 and 4). Packets travel for `travelled`
    /// seconds before they reach it.
    fn share(&self, link: &LinkAverage, delivery: f64, travelled: f64) -> FlowShare {
        let backlog = match self.rules.old_state {
            OldStateRule::BacklogFloor => link.backlog.max(link.target),
            _ => link.backlog,
        };
        let has_ratio = link.throughput > 0.0 && link.throughput >= delivery;
        let ratio = if has_ratio { delivery / link.throughput } else { 1.0 };
        let own = backlog * ratio;
        let feedback = (link.feedback + travelled).max(FEEDBACK_SECONDS_MIN);
        let is_old = feedback >= OLD_STATE_SECONDS;
        let corrects = self.rules.corrections == Corrections::All && feedback < CORRECTION_SECONDS;
        let link_rate = if corrects { corrected_rate(link, own) } else { link.rate };
        let others = backlog - own;
        let allowed = link.target / (link.target + others) * link_rate;
        let share = FlowShare { link_rate, own, others, allowed };
        let steps = match self.rules.old_state {
            OldStateRule::PublishedBounds => [STEP_TARGETS * link.target / feedback; 2],
            OldStateRule::ScaledBounds if is_old => scaled_steps(link, ratio, feedback),
            _ => return share,
        };
        if link.throughput <= 0.0 {
            return share;
        }
        // Equations 13 and 14 bound the rate; the paper calls them bounds on the window.
        let [up, down] = steps;
        let fair = ratio * link_rate;
        let highest = fair + ratio * (link_rate - link.throughput).max(0.0) + up;
        let lowest = fair + (link.target - own) / feedback - down;
        FlowShare { allowed: allowed.min(highest).max(lowest), ..share }
    }

    /// Returns the round trip without queues, by the table, in seconds.
    pub(crate) fn base_delay(&self) -> f64 {
        self.forward.base_delay() + self.back.base_delay()
    }

    /// Returns the part of the delay that may be the time of full packets, in seconds.
    pub(crate) fn packet_times(&self) -> f64 {
        self.forward.packet_times() + self.back.packet_times()
    }

    /// Returns the part of the opposite direction's delay that may be the time of full packets, in
    /// seconds.
    pub(crate) fn back_packet_times(&self) -> f64 {
        self.back.packet_times()
    }

    /// Returns the time that packets wait in both directions by the table, at least and in seconds.
    pub(crate) fn wait_min(&self) -> f64 {
        self.forward.wait_min() + self.back.wait_min()
    }

    /// Returns the time that packets wait in both directions by the table, at most and in seconds.
    pub(crate) fn wait_max(&self) -> f64 {
        self.forward.wait_max() + self.back.wait_max()
    }

    /// Returns the longest time until the sender sees its effect on a link, in seconds.
    pub(crate) fn feedback_max(&self) -> f64 {
        self.forward.feedback_max().max(self.back.feedback_max())
    }

    /// True if a link of the forward direction misses four updates, or if its state is too old.
    #[must_use]
    pub fn is_missing_state(&self, now: Time) -> bool {
        self.forward.is_missing(now)
    }
}

/// Returns the steps by which the flow's rate may rise and fall in a feedback delay. In Equations
/// 13 and 14, they are n·S/τ and m·S/τ, where n and m are the operator's choice. For one of two
/// equal flows, both are two targets, or a part of a fast link.
///
/// A flow with a small part of the link may rise by more, and fall by less, than one with a large
/// part. With the same steps for all, unequal flows stay unequal, because they keep their ratio.
fn scaled_steps(link: &LinkAverage, ratio: f64, feedback: f64) -> [f64; 2] {
    let step = (STEP_TARGETS * link.target / feedback).max(STEP_PART * link.rate);
    [2.0 * (1.0 - ratio) * step, 4.0 * ratio * ratio * step]
}

/// Returns the rate of a link that the flow may count on. As its own backlog grows from one target
/// to two, that goes from the shown rate to the throughput: a link with a queue sends at its rate.
///
/// With a single flow, nothing else corrects an overstated rate: a rate of 1.5 times the real one
/// makes 20 packets wait (section 5.3 of the paper needs two flows).
fn corrected_rate(link: &LinkAverage, own: f64) -> f64 {
    if link.throughput <= 0.0 {
        return link.rate;
    }
    let weight = (own / link.target - 1.0).clamp(0.0, 1.0);
    let reached = link.throughput.max(CORRECTED_RATE_PART * link.rate).min(link.rate);
    link.rate + weight * (reached - link.rate)
}

/// Share of one flow at one link, in bytes and bytes per second.
#[derive(Clone, Copy, Debug)]
struct FlowShare {
    /// Rate of the link, corrected.
    link_rate: f64,
    /// The flow's part of the backlog.
    own: f64,
    /// The others' part of the backlog.
    others: f64,
    /// Rate of the flow that keeps one target of it in the backlog.
    allowed: f64,
}

/// Rate and window of a flow, and the reason for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Link that allows the lowest rate.
    pub bottleneck: LinkId,
    /// Rate of the flow (λ, Equation 5), never zero.
    pub rate: Rate,
    /// Bytes of the flow that may be in flight (W, Equation 8), not rounded to packets.
    pub window: Bytes,
    /// Expected round trip, with the flow's own bytes in the queue.
    pub round_trip: Duration,
    /// Bytes of the flow that should wait at the bottleneck (S).
    pub target: Bytes,
    /// Bytes of the flow that wait at the bottleneck (Equation 3).
    pub own_backlog: Bytes,
    /// Bytes of other interactive flows that wait at the bottleneck.
    pub other_backlog: Bytes,
}

impl Decision {
    /// Returns the bytes that a receiver may have requested and not received: 1.5 windows (section
    /// 4.2 of the paper).
    #[must_use]
    pub fn request_window(&self) -> Bytes {
        bytes(REQUEST_GAIN * float(self.window.count()))
    }
}

#[cfg(test)]
mod tests;
