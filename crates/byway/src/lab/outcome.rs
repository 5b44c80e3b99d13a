//! What came of a lab's run.

use byway_lab::lateness::LatenessSummary;
use byway_scenario::{Network, Terms};
use byway_units::Duration;
use serde::Serialize;

use super::traffic::{Fate, Fates};
use crate::table::aligned;

/// What came of a run, for machines and people.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LabOutcome {
    /// The scenario's title.
    pub(super) title: String,
    /// What chance began with.
    pub(super) seed: u64,
    /// Whether relays did anything.
    pub(super) uses_relays: bool,
    /// By the names of flows.
    pub(super) flows: Vec<FlowsOutcome>,
    /// Datagrams that came more than once: none should.
    pub(super) repeated: u64,
    /// What the carrier of packets did.
    pub(super) carrier: CarrierOutcome,
}

/// What became of the flows of one name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct FlowsOutcome {
    pub(super) name: String,
    pub(super) flows: usize,
    pub(super) sent: u64,
    /// Those that came within the latency budget.
    pub(super) in_time: u64,
    /// Those that came after it.
    pub(super) late: u64,
    /// Those that never came.
    pub(super) missing: u64,
    /// What receivers counted: packets that the direct path lost, and that were repaired.
    pub(super) lost: u64,
    pub(super) repaired: u64,
    /// Delays of what came, in milliseconds.
    pub(super) delay_p50_ms: Option<f64>,
    pub(super) delay_p95_ms: Option<f64>,
    pub(super) delay_p99_ms: Option<f64>,
}

/// What the carrier did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct CarrierOutcome {
    pub(super) sent: u64,
    pub(super) lost: u64,
    pub(super) delivered: u64,
    pub(super) unroutable: u64,
    pub(super) overflowed: u64,
    pub(super) refused: u64,
    pub(super) has_precedence: bool,
    pub(super) lateness: LatenessSummary,
    /// Whether it was so late that the run counts for nothing.
    pub(super) is_void: bool,
}

/// What receivers counted of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) lost: u64,
    pub(super) repaired: u64,
}

/// What became of the flows of each name.
pub(super) fn of_flows(network: &Network, fates: &Fates, counted: &[Counted]) -> Vec<FlowsOutcome> {
    let mut names: Vec<&str> = network.flows.iter().map(|flow| flow.name.as_str()).collect();
    names.dedup();
    let of = |name: &str| {
        let members: Vec<usize> =
            (0..network.flows.len()).filter(|place| network.flows[*place].name == name).collect();
        let all = || {
            let of_member = |place: &usize| {
                let terms = network.flows[*place].terms;
                fates.of_flows[*place].iter().map(move |fate| (terms, *fate))
            };
            members.iter().flat_map(of_member)
        };
        let count = |is: fn(Terms, Fate) -> bool| all().filter(|(terms, fate)| is(*terms, *fate)).count() as u64;
        let mut delays: Vec<Duration> = all().filter_map(|(_, fate)| delay(fate)).collect();
        delays.sort_unstable();
        let counted = members.iter().map(|place| counted.get(*place).copied().unwrap_or_default());
        FlowsOutcome {
            name: name.to_owned(),
            flows: members.len(),
            sent: count(|_, fate| fate.sent.is_some()),
            in_time: count(|terms, fate| delay(fate).is_some_and(|delay| delay <= terms.budget)),
            late: count(|terms, fate| delay(fate).is_some_and(|delay| delay > terms.budget)),
            missing: count(|_, fate| fate.sent.is_some() && fate.came.is_none()),
            lost: counted.clone().map(|counted| counted.lost).sum(),
            repaired: counted.map(|counted| counted.repaired).sum(),
            delay_p50_ms: percentile(&delays, 50),
            delay_p95_ms: percentile(&delays, 95),
            delay_p99_ms: percentile(&delays, 99),
        }
    };
    names.into_iter().map(of).collect()
}

fn delay(fate: Fate) -> Option<Duration> {
    Some(fate.came?.saturating_since(fate.sent?))
}

/// What so many of a hundred do not exceed, in milliseconds.
#[allow(clippy::cast_precision_loss, reason = "delays of seconds, shown with a digit")]
fn percentile(sorted: &[Duration], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).map(|delay| delay.as_micros() as f64 / 1_000.0)
}

impl LabOutcome {
    /// For people.
    pub(super) fn text(&self) -> String {
        let relays = if self.uses_relays { "" } else { ", without relays" };
        let heads = ["flows", "sent", "lost", "repaired", "late", "missing", "p50 ms", "p95 ms", "p99 ms"];
        let mut rows = vec![heads.map(str::to_owned)];
        rows.extend(self.flows.iter().map(row));
        let mut text = format!("{}, seed {}{relays}\n\n{}", self.title, self.seed, aligned(&rows));
        let CarrierOutcome { delivered, lost, lateness, .. } = &self.carrier;
        text.push_str(&format!(
            "\n{delivered} packets carried and {lost} lost; programs got theirs late by up to {} us (half), {} us (99 of 100), {} us at most.\n",
            lateness.p50_us, lateness.p99_us, lateness.max_us
        ));
        if self.repeated > 0 {
            text.push_str(&format!("{} datagrams came more than once.\n", self.repeated));
        }
        if !self.carrier.has_precedence {
            text.push_str("The kernel gave the carrier no precedence over other threads (CAP_SYS_NICE): it may be late.\n");
        }
        if self.carrier.is_void {
            text.push_str("VOID: this machine was too busy to carry packets in time; what is told above counts for nothing.\n");
        }
        text
    }
}

fn row(flows: &FlowsOutcome) -> [String; 9] {
    let ms = |delay: Option<f64>| delay.map_or_else(|| "–".to_owned(), |delay| format!("{delay:.1}"));
    let name =
        if flows.flows == 1 { flows.name.clone() } else { format!("{} ({})", flows.name, flows.flows) };
    let counts = [flows.sent, flows.lost, flows.repaired, flows.late, flows.missing].map(|count| count.to_string());
    let [sent, lost, repaired, late, missing] = counts;
    let [p50, p95, p99] = [flows.delay_p50_ms, flows.delay_p95_ms, flows.delay_p99_ms].map(ms);
    [name, sent, lost, repaired, late, missing, p50, p95, p99]
}
