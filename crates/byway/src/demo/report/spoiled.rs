//! Notes on figures that a busy machine has spoiled.

use super::data::{ReportData, RunReport};
use super::format::{count, title};
use crate::demo::results::RunResult;

/// Returns a sentence for each run whose figures a busy machine spoiled, and one if the machine is
/// too slow for all calls.
pub(super) fn spoiled(report: &ReportData) -> Vec<String> {
    let fewer = (report.pairs < report.pairs_wanted).then(|| {
        format!(
            "This machine is too slow for {} calls: {} ran, and coding has fewer packets of other calls.",
            report.pairs_wanted, report.pairs
        )
    });
    fewer.into_iter().chain(report.runs().filter_map(|(result, run)| of_run(result, run))).collect()
}

/// True if the machine, rather than Byway, determined figures of the run.
pub(super) fn is_spoiled(result: &RunResult, run: &RunReport) -> bool {
    run.lateness.is_worth_a_warning() || result.lost_by_machine > 0
}

fn of_run(result: &RunResult, run: &RunReport) -> Option<String> {
    if !is_spoiled(result, run) {
        return None;
    }
    let mut causes = Vec::new();
    let late_ms = run.lateness.p99_us as f64 / 1e3;
    if run.lateness.is_void() {
        causes.push(format!(
            "the emulator was up to {late_ms:.0} ms late (p99): its times are invalid, and so are the \
             counts of late packets, frozen frames and PSNR"
        ));
    } else if run.lateness.is_worth_a_warning() {
        causes.push(format!(
            "the emulator was up to {late_ms:.1} ms late (p99): repair times are too long by as much"
        ));
    }
    if result.lost_by_machine > 0 {
        causes.push(format!(
            "{} of {} datagrams never reached the network{}: they count neither as lost nor as never \
             delivered, and the picture lacks them",
            count(result.lost_by_machine),
            count(result.sent),
            drop_list(&run.drops),
        ));
    }
    Some(format!("{}: {}.", title(result.service), causes.join("; ")))
}

/// Lists the full sockets at which the kernel dropped datagrams, with the number of drops.
fn drop_list(drops: &[(String, u64)]) -> String {
    let sockets: Vec<String> = drops.iter().map(|(owner, drops)| format!("{owner}: {drops}")).collect();
    if sockets.is_empty() {
        String::new()
    } else {
        format!(" (dropped at full sockets: {})", sockets.join(", "))
    }
}
