//! The tables in the terminal.

use std::fmt::Write as _;

use super::data::ReportData;
use super::format::{count, megabytes, number, percent, share, title};
use super::spoiled::{is_spoiled, spoiled};
use crate::demo::results::{FailedRun, RunKind};
use crate::table::aligned;

/// Returns the table for the terminal.
pub(crate) fn table(report: &ReportData) -> String {
    let heads = [
        "run",
        "lost",
        "in time",
        "late",
        "never",
        "in 1 RTT",
        "repair p50 ms",
        "repair p95 ms",
        "PSNR dB",
        "frozen s",
        "relays send",
    ];
    let mut rows = vec![heads.map(String::from)];
    for (result, run) in report.runs() {
        let frozen = run.score.frozen_seconds();
        let mark = if is_spoiled(result, run) { " *" } else { "" };
        rows.push([
            format!("{}{mark}", title(result.service)),
            count(result.lost_direct),
            count(result.repaired_in_time),
            count(result.late),
            count(result.unrepaired),
            run.within_rtt.map_or_else(|| "–".into(), percent),
            number(result.repair_ms.p50, 0),
            number(result.repair_ms.p95, 0),
            number(result.psnr_db.mean, 1),
            format!("{frozen:.1}"),
            megabytes(result.relay_egress_bytes),
        ]);
    }
    for failed in &report.result.failed {
        let mut row = heads.map(|_| "–".to_owned());
        (row[0], row[1]) = (title(failed.service).into(), "failed".into());
        rows.push(row);
    }
    let mut text = aligned(&rows);
    // Writing to a string cannot fail.
    let _ = write!(text, "{}", closing(report));
    text
}

fn closing(report: &ReportData) -> String {
    let mut text = String::new();
    let both = report.run(RunKind::Coding).zip(report.run(RunKind::Forwarding));
    let bytes =
        both.and_then(|((coding, _), (whole, _))| share(coding.relay_egress_bytes, whole.relay_egress_bytes));
    if let Some(bytes) = bytes {
        let _ = writeln!(
            text,
            "Coding: relays send {} of the bytes that they send with forwarding.",
            percent(bytes)
        );
    }
    if let Some(delay) = report.added_delay {
        let added = delay.byway_p99 - delay.plain_p99;
        let _ = writeln!(
            text,
            "Without loss, Byway adds {added:.2} ms to the delay (p99 {:.2} ms, plain UDP {:.2} ms).",
            delay.byway_p99, delay.plain_p99
        );
    }
    if let Some(after) = report.after_kill() {
        let missed = after.late + after.unrepaired;
        let verdict = if after.is_no_worse() {
            "no more than on the Internet alone".into()
        } else {
            format!("MORE than on the Internet alone, {} of {} pairs", after.pairs_worse, report.pairs)
        };
        let _ = writeln!(
            text,
            "Relays killed after {:.1} s: of {} packets sent from then on, the direct paths lost {} and the applications {}: {verdict}.",
            after.killed_ms / 1e3,
            count(after.sent),
            count(after.lost_direct),
            count(missed),
        );
    }
    if let Some((_, lone)) = report.run(RunKind::Lone) {
        for note in &lone.notes {
            let _ = writeln!(text, "One pair alone, byway status: {note}");
        }
    }
    for FailedRun { service, error } in &report.result.failed {
        let _ = writeln!(text, "{} failed: {error}", title(*service));
    }
    let spoiled = spoiled(report);
    if !spoiled.is_empty() {
        text.push_str(
            "* This machine was too busy to send packets on time: expect better numbers on an idle \
             one. Affected figures:\n",
        );
    }
    for words in spoiled {
        let _ = writeln!(text, "  {words}");
    }
    text
}

/// Renders the table of `--seeds` for the terminal: seed, share repaired within one round trip,
/// 95th percentile of repair times in milliseconds.
pub(crate) fn seeds_table(seeds: &[(u64, Option<f64>, Option<f64>)]) -> String {
    let mut rows = vec![["seed", "in 1 RTT", "repair p95 ms"].map(String::from)];
    for &(seed, within, p95) in seeds {
        rows.push([seed.to_string(), within.map_or_else(|| "–".into(), percent), number(p95, 1)]);
    }
    aligned(&rows)
}
