//! Window of the paper, as a reference for tests: the equations as they are written, over all
//! entries of all time.

extern crate std;

use std::collections::BTreeMap;
use std::vec::Vec;

use crate::link_state::{LinkId, LinkState};
use crate::rules::{Corrections, OldStateRule, Rules};

/// Averages of one link: λ̄ and q̄, and all states with news.
#[derive(Clone, Debug, Default)]
pub(crate) struct NaiveLink {
    lambda: f64,
    q: f64,
    backlogs: Vec<f64>,
    age_and_interval: f64,
    seconds: f64,
}

/// Entries of both directions.
#[derive(Clone, Debug, Default)]
pub(crate) struct NaiveWindow {
    pub(crate) forward: Vec<Vec<LinkState>>,
    pub(crate) back: Vec<Vec<LinkState>>,
}

/// Rate and window, in bytes per second and bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NaiveDecision {
    pub(crate) rate: f64,
    pub(crate) window: f64,
    pub(crate) bottleneck: LinkId,
}

#[allow(clippy::cast_precision_loss, reason = "numbers of bytes and bits in tests are small")]
fn float(number: u64) -> f64 {
    number as f64
}

fn capital_r(state: &LinkState) -> f64 {
    float(state.entry().shown().bits_per_second()) / 8.0
}

fn d(state: &LinkState) -> f64 {
    state.entry().delay().as_secs_f64()
}

fn s(state: &LinkState) -> f64 {
    float(state.target().count())
}

/// Equations 1 and 2 over all entries; with corrections, as means of the first second, and with a
/// bound by the last four backlogs. A link that left the path begins anew.
fn averages(entries: &[Vec<LinkState>], corrections: Corrections) -> BTreeMap<LinkId, NaiveLink> {
    let mut links: BTreeMap<LinkId, NaiveLink> = BTreeMap::new();
    for entry in entries {
        links.retain(|link, _| entry.iter().any(|state| state.link() == *link));
        for state in entry {
            let link = links.entry(state.link()).or_default();
            let delta = state.entry().interval().as_secs_f64();
            if delta > 0.0 {
                link.seconds += delta;
                let alpha = match corrections {
                    Corrections::All if link.seconds < 1.0 => delta / link.seconds,
                    _ => f64::min(1.0, delta),
                };
                link.lambda += alpha * (float(state.entry().sent().count()) / delta - link.lambda);
                link.backlogs.push(float(state.entry().backlog().count()));
                link.q += alpha * (float(state.entry().backlog().count()) - link.q);
                if corrections == Corrections::All {
                    let largest = link.backlogs.iter().rev().take(4).copied().fold(0.0, f64::max);
                    link.q = link.q.min(8.0 * (largest + s(state)));
                }
                link.age_and_interval = state.age().as_secs_f64() + delta;
            }
        }
    }
    links
}

/// Equation 3, or 11.
fn own_q(lambda_f: f64, lambda_l: f64, q: f64) -> f64 {
    if lambda_l >= lambda_f && lambda_l > 0.0 { lambda_f / lambda_l * q } else { q }
}

/// Equation 13, with the step n·S.
fn upper_bound(ratio: f64, r: f64, lambda_l: f64, step: f64, tau: f64) -> f64 {
    ratio * r + f64::max(0.0, (r - lambda_l) * ratio) + step / tau
}

/// Equation 14, with the step m·S.
fn lower_bound(ratio: f64, r: f64, s: f64, own: f64, step: f64, tau: f64) -> f64 {
    ratio * r + (s - own - step) / tau
}

impl NaiveWindow {
    pub(crate) fn decide(&self, rules: Rules, lambda_f: f64, rest: f64) -> Option<NaiveDecision> {
        let (forward, newest) = (averages(&self.forward, rules.corrections), self.forward.last()?);
        let (mut decision, mut waits, mut travelled) = (None, 0.0, 0.0);
        for state in newest {
            let link = &forward[&state.link()];
            let tau = (link.age_and_interval + travelled).max(0.001);
            let q = match rules.old_state {
                OldStateRule::BacklogFloor => link.q.max(s(state)),
                _ => link.q,
            };
            let own = own_q(lambda_f, link.lambda, q);
            let mut r = capital_r(state);
            if rules.corrections == Corrections::All && tau < 0.3 && link.lambda > 0.0 && own > s(state) {
                let led = if own >= 2.0 * s(state) { 1.0 } else { own / s(state) - 1.0 };
                r += led * (f64::min(r, f64::max(link.lambda, 0.3 * r)) - r);
            }
            // Equation 4, or 12.
            let mut rate = s(state) / (s(state) + (q - own)) * r;
            let ratio = f64::min(1.0, lambda_f / link.lambda);
            let step = f64::max(2.0 * s(state), 0.02 * capital_r(state) * tau);
            let steps = match rules.old_state {
                OldStateRule::PublishedBounds => Some((2.0 * s(state), 2.0 * s(state))),
                OldStateRule::ScaledBounds if tau >= 0.15 => {
                    Some((2.0 * (1.0 - ratio) * step, 4.0 * ratio * ratio * step))
                }
                _ => None,
            };
            if let Some((up, down)) = steps.filter(|_| link.lambda > 0.0) {
                let upper = upper_bound(ratio, r, link.lambda, up, tau);
                rate = f64::max(f64::min(rate, upper), lower_bound(ratio, r, s(state), own, down, tau));
            }
            // Equation 6, with S at the bottleneck only.
            waits += (q - own) / r + d(state);
            travelled += d(state);
            // Equation 5.
            if decision.is_none_or(|(least, _, _)| rate < least) {
                decision = Some((rate, s(state) / r, state.link()));
            }
        }
        let (rate, own_wait, bottleneck) = decision?;
        let averages = averages(&self.back, rules.corrections);
        // Equation 7.
        let back = self.back.last().map_or(0.0, |states| {
            states.iter().map(|state| averages[&state.link()].q / capital_r(state) + d(state)).sum()
        });
        // Equation 8.
        Some(NaiveDecision { rate, window: rate * (waits + own_wait + back + rest), bottleneck })
    }
}
