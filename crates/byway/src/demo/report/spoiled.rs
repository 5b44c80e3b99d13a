//! The figures that a busy machine has spoiled, and how.

use super::story::{RunStory, Story};
use super::words::{count, title};
use crate::demo::results::RunResult;

/// A sentence for each run that the machine has spoiled, and one if there are fewer calls than there should be.
pub(super) fn spoiled(story: &Story) -> Vec<String> {
    let fewer = (story.pairs < story.pairs_wanted).then(|| {
        format!(
            "This machine does not keep time with {} calls: there are {}, and coding finds fewer packets of others.",
            story.pairs_wanted, story.pairs
        )
    });
    fewer.into_iter().chain(story.runs().filter_map(|(result, run)| of_run(result, run))).collect()
}

/// Whether figures of a run say more of the machine than of Byway.
pub(super) fn is_spoiled(result: &RunResult, run: &RunStory) -> bool {
    run.lateness.is_worth_a_warning() || result.lost_by_machine > 0
}

fn of_run(result: &RunResult, run: &RunStory) -> Option<String> {
    if !is_spoiled(result, run) {
        return None;
    }
    let mut said = Vec::new();
    let late_ms = run.lateness.p99_us as f64 / 1e3;
    if run.lateness.is_void() {
        said.push(format!(
            "the emulator was up to {late_ms:.0} ms late (p99): none of its times count, nor what was late, frozen or seen"
        ));
    } else if run.lateness.is_worth_a_warning() {
        said.push(format!(
            "the emulator was up to {late_ms:.1} ms late (p99): repair times are longer by as much"
        ));
    }
    if result.lost_by_machine > 0 {
        said.push(format!(
            "{} of {} datagrams never reached the network{}: they count neither as lost nor as never, and the picture lacks them",
            count(result.lost_by_machine),
            count(result.sent),
            places(&run.drops),
        ));
    }
    Some(format!("{}: {}.", title(result.service), said.join("; ")))
}

/// The full sockets, if the kernel dropped something there.
fn places(drops: &[(String, u64)]) -> String {
    let places: Vec<String> = drops.iter().map(|(owner, drops)| format!("{owner}: {drops}")).collect();
    if places.is_empty() {
        String::new()
    } else {
        format!(" (dropped at full sockets: {})", places.join(", "))
    }
}
