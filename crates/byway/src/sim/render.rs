//! Tables of outcomes for the terminal.

use std::fmt::Write as _;

use byway_scenario::{FlowOutcome, LinkOutcome, Outcome, TransfersOutcome, Verdict};

use crate::classes;
use crate::table::aligned;
use crate::verdicts::{describe_verdict, percent};

/// Renders the outcome of one seed for the terminal; with a table of its links if `with_links`.
pub(super) fn outcome(outcome: &Outcome, with_links: bool) -> String {
    let mut text = format!("{}, seed {}\n\n", outcome.title, outcome.seed);
    if let Some(stopped) = &outcome.stopped {
        let (at, of, why) = (stopped.seconds, outcome.seconds, &stopped.why);
        let again = if stopped.is_repeatable { "" } else { ", and not repeatable" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "STOPPED after {at} s of {of} s, because {why}: results up to then{again}.\n");
    }
    if outcome.unroutable > 0 {
        let _ = writeln!(text, "{} packets had destinations without a route.\n", outcome.unroutable);
    }
    let heads = [
        "flows",
        "sent",
        "lost",
        "repaired",
        "in 1 RTT",
        "late",
        "missing",
        "repair p50 ms",
        "repair p95 ms",
        "repair p99 ms",
        "relays",
    ];
    let mut rows = vec![heads.map(str::to_owned)];
    rows.extend(outcome.flows.iter().map(flow_row));
    text.push_str(&aligned(&rows));
    text.push_str(&transfers(outcome));
    if with_links {
        text.push('\n');
        text.push_str(&links(outcome));
        let links = outcome.links.iter();
        let with_classes = links.filter_map(|link| Some((&*link.from, &*link.to, link.classes.as_ref()?)));
        text.push_str(&classes::table(with_classes));
    }
    for verdict in &outcome.expectations {
        let _ = writeln!(text, "{}", describe_verdict(verdict));
    }
    text.push('\n');
    text
}

fn flow_row(flow: &FlowOutcome) -> [String; 11] {
    let time = |pick: fn(&byway_scenario::Quantiles) -> f64| {
        flow.repair_ms.as_ref().map_or_else(|| "–".to_owned(), |times| format!("{:.1}", pick(times)))
    };
    [
        format!("{} ({})", flow.name, flow.flows),
        flow.sent.to_string(),
        flow.lost_direct.to_string(),
        share(flow.repaired, flow.lost_direct),
        share(flow.repaired_within_rtt, flow.lost_direct),
        flow.late.to_string(),
        flow.missing.to_string(),
        time(|times| times.p50),
        time(|times| times.p95),
        time(|times| times.p99),
        flow.relay_share.map_or_else(|| "–".to_owned(), percent),
    ]
}

/// Renders the table of TCP transfers; empty if the scenario has none.
fn transfers(outcome: &Outcome) -> String {
    let heads = [
        "transfers",
        "started",
        "finished",
        "failed",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "max ms",
        "Mbit/s",
        "segments",
        "retransmitted",
        "timeouts",
    ];
    let mut rows = vec![heads.map(str::to_owned)];
    let of_flow = |flow: &FlowOutcome| Some(transfers_row(&flow.name, flow.transfers.as_ref()?));
    rows.extend(outcome.flows.iter().filter_map(of_flow));
    if rows.len() == 1 { String::new() } else { format!("\n{}", aligned(&rows)) }
}

fn transfers_row(name: &str, transfers: &TransfersOutcome) -> [String; 12] {
    let time = |pick: fn(&byway_scenario::TailQuantiles) -> f64| {
        transfers.completion_ms.as_ref().map_or_else(|| "–".to_owned(), |times| format!("{:.1}", pick(times)))
    };
    [
        name.to_owned(),
        transfers.begun.to_string(),
        transfers.finished.to_string(),
        transfers.failed.to_string(),
        time(|times| times.p50),
        time(|times| times.p99),
        time(|times| times.p999),
        time(|times| times.max),
        transfers.goodput_mbit.map_or_else(|| "–".to_owned(), |rate| format!("{rate:.2}")),
        transfers.segments.to_string(),
        transfers.retransmitted.to_string(),
        (transfers.timeouts + transfers.handshake_timeouts).to_string(),
    ]
}

/// Renders the table of links, each direction separately.
fn links(outcome: &Outcome) -> String {
    let heads =
        ["links", "sent", "MB", "delivered", "queue full", "random", "outage", "other", "used", "queue kB"];
    let mut rows = vec![heads.map(str::to_owned)];
    rows.extend(outcome.links.iter().map(link_row));
    aligned(&rows)
}

fn link_row(link: &LinkOutcome) -> [String; 10] {
    let lost = |reason: &str| link.lost.get(reason).copied().unwrap_or_default();
    let known = ["queue_full", "random", "outage"].map(lost);
    let other = link.lost.values().sum::<u64>() - known.iter().sum::<u64>();
    let [queue_full, random, outage] = known.map(|count| count.to_string());
    let nothing = || "–".to_owned();
    [
        format!("{} → {}", link.from, link.to),
        link.sent.to_string(),
        scaled(link.sent_bytes, 1e6),
        link.delivered.to_string(),
        queue_full,
        random,
        outage,
        other.to_string(),
        link.utilisation.map_or_else(nothing, percent),
        link.queue_bytes_max.map_or_else(nothing, |bytes| scaled(bytes, 1e3)),
    ]
}

#[allow(clippy::cast_precision_loss, reason = "bytes of a day are far below 2^53")]
fn scaled(bytes: u64, unit: f64) -> String {
    format!("{:.2}", bytes as f64 / unit)
}

#[allow(clippy::cast_precision_loss, reason = "packets of a day are far below 2^53")]
fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "–".to_owned() } else { percent(part as f64 / whole as f64) }
}

/// Summary of all seeds: the median and the worst value of each expectation.
#[derive(Debug, Default)]
pub(super) struct Summary {
    seeds: usize,
    stopped: usize,
    unmet: usize,
    /// Verdicts of each expectation, one for each seed that ran to its end.
    verdicts: Vec<Vec<Verdict>>,
}

impl Summary {
    pub(super) fn add(&mut self, outcome: &Outcome) {
        self.seeds += 1;
        self.unmet += usize::from(!outcome.is_met());
        if outcome.stopped.is_some() {
            self.stopped += 1;
            return;
        }
        self.verdicts.resize_with(outcome.expectations.len(), Vec::new);
        for (all, verdict) in self.verdicts.iter_mut().zip(&outcome.expectations) {
            all.push(verdict.clone());
        }
    }

    /// Returns the number of seeds with an unmet expectation.
    pub(super) const fn unmet(&self) -> usize {
        self.unmet
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("All {} seeds\n\n", self.seeds);
        if self.stopped > 0 {
            let _ = writeln!(text, "{} were stopped, and are excluded from these numbers:", self.stopped);
        }
        for verdicts in &self.verdicts {
            let Some(first) = verdicts.first() else {
                continue;
            };
            let mut values: Vec<f64> = verdicts.iter().filter_map(|verdict| verdict.measured).collect();
            values.sort_by(f64::total_cmp);
            let worst = if first.at_least.is_some() { values.first() } else { values.last() };
            let median = values.get(values.len().saturating_sub(1) / 2);
            // A seed without a value is worse than any other.
            let worst = worst.copied().filter(|_| values.len() == verdicts.len());
            for (name, value) in [("median", median.copied()), ("worst", worst)] {
                let _ = writeln!(text, "{name:<6} {}", describe_verdict(&first.with(value)));
            }
            let met = verdicts.iter().filter(|verdict| verdict.is_met).count();
            let _ = writeln!(text, "       met by {met} of {} seeds", verdicts.len());
        }
        text
    }
}
