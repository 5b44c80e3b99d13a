//! Study of transfers: completion times of TCP transfers, goodput of bulk transfers, delays of
//! source packets besides copies, and wake-ups of idle machines.

use std::collections::BTreeSet;

use byway_scenario::{ConversationRecord, DeliveryMethod, Outcome, PacketRecord, Transfer};
use byway_units::Duration;

use crate::findings::{Findings, Unit, number, quantile, share};
use crate::flows::milliseconds;

/// Adds the measures of a run's TCP transfers and idle machines, and the delays of source packets.
pub(crate) fn reduce(outcome: &Outcome, findings: &mut Findings) {
    idle(outcome, findings);
    source_packet_delays(outcome, findings);
    let names: BTreeSet<&str> = outcome.conversations.iter().map(|one| one.name.as_str()).collect();
    if names.is_empty() {
        return;
    }
    for group in names.iter().map(|name| Some(*name)).chain([None]) {
        let of_group = |one: &&ConversationRecord| group.is_none_or(|name| one.name == name);
        let members: Vec<&ConversationRecord> = outcome.conversations.iter().filter(of_group).collect();
        completions(&members, group, findings);
        counts(&members, group, findings);
    }
    goodputs(outcome, findings);
}

/// Computes a transfer's completion time, as measured or without some losses; `None` if it did not
/// finish.
type CompletionTime = fn(&ConversationRecord, &Transfer) -> Option<Duration>;

/// Samples of completion times: as measured, without losses of SYN-ACKs, and without losses of the
/// whole handshake. The last two are the best that copies of these segments alone can reach.
const SAMPLES: [(&str, CompletionTime); 3] = [
    ("transfer", |_, transfer| transfer.completion),
    ("transfer-less-syn-ack", |record, transfer| {
        Some(transfer.completion?.saturating_sub(beyond(transfer.syn_ack, record.back)))
    }),
    ("transfer-less-handshake", |record, transfer| {
        let handshake = beyond(transfer.syn, record.forth) + beyond(transfer.syn_ack, record.back);
        Some(transfer.completion?.saturating_sub(handshake))
    }),
];

fn beyond(time: Option<Duration>, due: Duration) -> Duration {
    time.map_or(Duration::ZERO, |time| time.saturating_sub(due))
}

/// Adds the completion times of finished transfers, and their excess over that of the fastest one.
fn completions(members: &[&ConversationRecord], group: Option<&str>, findings: &mut Findings) {
    let all = || members.iter().flat_map(|record| record.transfers.iter().map(move |one| (*record, one)));
    let fastest = all().filter_map(|(_, transfer)| transfer.completion).min().map(milliseconds);
    let mut excesses = Vec::new();
    for (name, completion) in SAMPLES {
        let times = all().filter_map(|(record, transfer)| completion(record, transfer));
        let mut times: Vec<f64> = times.map(milliseconds).collect();
        if let Some(group) = group {
            findings.sample(name, group, &times);
        }
        let mut put = |suffix: &str, value: Option<f64>| {
            findings.measure(&format!("{name}-{suffix}"), group, value, Unit::Milliseconds);
        };
        for (suffix, at) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)] {
            let time = quantile(&mut times, at);
            put(suffix, time);
            let excess = time.zip(fastest).map(|(time, fastest)| (time - fastest).max(0.0));
            put(&format!("excess-{suffix}"), excess);
            if suffix == "p999" {
                excesses.push(excess);
            }
        }
    }
    let whole = excesses.first().copied().flatten().filter(|excess| *excess > 0.0);
    for (name, left) in ["syn-ack-ceiling", "handshake-ceiling"].into_iter().zip(excesses.iter().skip(1)) {
        let ceiling = left.zip(whole).map(|(left, whole)| left / whole);
        findings.measure(name, group, ceiling, Unit::Ratio);
    }
}

fn counts(members: &[&ConversationRecord], group: Option<&str>, findings: &mut Findings) {
    let all = || members.iter().flat_map(|record| &record.transfers);
    let finished = all().filter(|transfer| transfer.completion.is_some()).count() as u64;
    let begun = all().count() as u64;
    let sum = |of: fn(&ConversationRecord) -> u64| members.iter().map(|record| of(record)).sum::<u64>();
    let segments = sum(|record| record.statistics.segments_sent);
    let retransmitted = sum(|record| record.statistics.retransmitted);
    let mut put = |name: &str, value: Option<f64>, unit: Unit| findings.measure(name, group, value, unit);
    put("transfers", Some(number(begun)), Unit::Count);
    put("transfers-unfinished", Some(number(begun - finished)), Unit::Count);
    put("tcp-retransmitted", share(retransmitted, segments), Unit::Share);
    put("tcp-timeouts", Some(number(sum(|record| record.statistics.timeouts))), Unit::Count);
    let handshakes = sum(|record| record.statistics.handshake_timeouts);
    put("tcp-handshake-timeouts", Some(number(handshakes)), Unit::Count);
}

/// Adds the goodput of bulk transfers in Mbit/s by name of the flows, and the ratios of the mean
/// goodputs between names.
fn goodputs(outcome: &Outcome, findings: &mut Findings) {
    let mut means: Vec<(&str, f64)> = Vec::new();
    for flow in &outcome.flows {
        let Some(goodput) = flow.transfers.as_ref().and_then(|transfers| transfers.goodput_mbit) else {
            continue;
        };
        findings.measure("goodput", Some(&flow.name), Some(goodput), Unit::Megabits);
        let members = outcome.conversations.iter().filter(|record| record.name == flow.name).count();
        means.push((&flow.name, goodput / number(members as u64)));
    }
    let whole = (!means.is_empty()).then(|| outcome.flows.iter().filter_map(|flow| flow.transfers.as_ref()));
    let whole = whole.map(|all| all.filter_map(|transfers| transfers.goodput_mbit).sum());
    findings.measure("goodput", None, whole, Unit::Megabits);
    for (name, mean) in &means {
        for (other, of_other) in means.iter().filter(|(other, _)| other != name) {
            let ratio = (*of_other > 0.0).then(|| mean / of_other);
            findings.measure(&format!("goodput-over-{other}"), Some(name), ratio, Unit::Ratio);
        }
    }
}

/// Adds the largest number of wake-ups of a flow's sender in the last minute: for each name of
/// flows, and for all.
fn idle(outcome: &Outcome, findings: &mut Findings) {
    let mut most: Option<f64> = None;
    for record in &outcome.records {
        let sender = outcome.nodes.iter().find(|node| node.name == record.from);
        let Some(count) = sender.and_then(|node| node.wake_ups_in_last_minute).map(number) else {
            continue;
        };
        let before = findings.value("wake-ups", Some(&record.name)).unwrap_or(0.0);
        let of_name = Some(count.max(before));
        findings.measure("wake-ups", Some(&record.name), of_name, Unit::Count);
        most = Some(most.unwrap_or(0.0).max(count));
    }
    findings.measure("wake-ups", None, most, Unit::Count);
}

/// Adds the delays of packets that arrived by the direct path. Copies that are sent before a source
/// packet increase its delay.
fn source_packet_delays(outcome: &Outcome, findings: &mut Findings) {
    let names: BTreeSet<&str> = outcome.records.iter().map(|record| record.name.as_str()).collect();
    for group in names.into_iter().map(Some).chain([None]) {
        let members = outcome.records.iter().filter(|record| group.is_none_or(|name| record.name == name));
        let fates = members.flat_map(|record| &record.packets);
        let direct = fates.filter(|fate| matches!(fate.delivered, Some((_, DeliveryMethod::Direct))));
        let mut delays: Vec<f64> = direct.filter_map(PacketRecord::delay).map(milliseconds).collect();
        for (suffix, at) in [("p50", 0.5), ("p99", 0.99)] {
            let delay = quantile(&mut delays, at);
            findings.measure(&format!("source-packet-delay-{suffix}"), group, delay, Unit::Milliseconds);
        }
    }
}

#[cfg(test)]
mod tests {
    use byway_scenario::Scenario;

    use super::*;

    const TEXT: &str = r#"
title = "Fetches and two bulk transfers"
length = "30 s"
node = [{ name = "alice", role = "agent" }, { name = "bob", role = "agent" }]
link = [{ between = ["alice", "bob"], delay = "100 ms", rate = "20 Mbit/s", loss = [{ share = "1 %" }] }]

[[flow]]
name = "web"
from = "alice"
to = "bob"
service = "internet"
sends = { kind = "fetches", request = 12, response = 50_000 }

[[flow]]
name = "one"
from = "bob"
to = "alice"
service = "internet"
sends = { kind = "bulk" }

[[flow]]
name = "other"
from = "bob"
to = "alice"
service = "internet"
count = 2
sends = { kind = "bulk" }
"#;

    #[test]
    fn transfers_are_measured_by_themselves_and_beside_each_other() {
        let scenario = Scenario::parse(TEXT).expect("it is right");
        let outcome = scenario.run(1).expect("all are joined");
        let mut findings = Findings::default();
        reduce(&outcome, &mut findings);
        let value = |name, flow| findings.value(name, flow).unwrap_or(f64::NAN);
        assert!(value("transfers", Some("web")) > 10.0, "{findings:?}");
        let (one, other) = (value("goodput", Some("one")), value("goodput", Some("other")));
        let ratio = value("goodput-over-other", Some("one"));
        assert!((ratio - one / (other / 2.0)).abs() < 1e-9 && ratio > 0.2, "{findings:?}");
        let [whole, less, least] =
            ["transfer-excess-max", "transfer-less-syn-ack-excess-max", "transfer-less-handshake-excess-max"]
                .map(|name| value(name, Some("web")));
        assert!(whole >= less && less >= least && least >= 0.0, "{whole} {less} {least}");
        assert!(value("syn-ack-ceiling", Some("web")) <= 1.0);
    }
}
