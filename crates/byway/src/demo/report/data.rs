//! Data of the report.

use crate::demo::measure::{DatagramOutcome, Traffic};
use crate::demo::media::Score;
use crate::demo::plan::DEADLINE_MS;
use crate::demo::results::{AfterKill, DemoResult, RunKind, RunResult};
use byway_lab::timer_lateness::LatenessSummary;

/// Data of the whole demo.
#[derive(Clone, Debug)]
pub(crate) struct ReportData {
    pub(crate) result: DemoResult,
    /// Description of the footage, with its authors.
    pub(crate) footage: String,
    /// True if the footage is a video and not the test picture.
    pub(crate) has_real_footage: bool,
    pub(crate) pairs: usize,
    /// Number of pairs on a machine that is fast enough.
    pub(crate) pairs_wanted: usize,
    /// Length of the video in seconds.
    pub(crate) seconds: f64,
    /// Outage of the measured pair's direct path, in seconds: begin, end.
    pub(crate) outage: (f64, f64),
    /// Time of the pictures, in seconds.
    pub(crate) picture_at: f64,
    /// Picture of the original video at `picture_at`, as a JPEG.
    pub(crate) original: Vec<u8>,
    /// Reports of the runs, in the order of `result.runs`.
    pub(crate) runs: Vec<RunReport>,
    pub(crate) added_delay: Option<AddedDelay>,
}

/// Data of a run that are not in its row of `result.json`.
#[derive(Clone, Debug)]
pub(crate) struct RunReport {
    pub(crate) traffic: Traffic,
    pub(crate) score: Score,
    /// Picture on the screen during the outage, as a JPEG; `None` if there was none.
    pub(crate) picture: Option<Vec<u8>>,
    pub(crate) bins: Vec<LossBin>,
    /// Time of each repair after the direct copy was due, in milliseconds, late repairs included.
    pub(crate) repairs_ms: Vec<f64>,
    /// Share of the lost packets that were repaired within one round trip.
    pub(crate) within_rtt: Option<f64>,
    /// Timer lateness of the emulator.
    pub(crate) lateness: LatenessSummary,
    /// Datagrams that the kernel dropped at full sockets: owner and number.
    pub(crate) drops: Vec<(String, u64)>,
    /// Notes in the status of the measured pair's sending agent, such as the advice to a lone pair.
    pub(crate) notes: Vec<String>,
}

/// Delays from application to application in the two runs without losses, with Byway and without,
/// in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AddedDelay {
    pub(crate) plain_p50: f64,
    pub(crate) plain_p99: f64,
    pub(crate) byway_p50: f64,
    pub(crate) byway_p99: f64,
}

/// Outcomes of the packets that applications sent in half a second. `repaired` counts those that
/// the direct path lost, `late` and `missing` all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LossBin {
    pub(crate) repaired: u32,
    pub(crate) late: u32,
    pub(crate) missing: u32,
}

/// Time that each [`LossBin`] spans, in seconds.
pub(super) const BIN_SECONDS: f64 = 0.5;

impl ReportData {
    /// Returns each run's row of results with its report.
    pub(super) fn runs(&self) -> impl Iterator<Item = (&RunResult, &RunReport)> {
        self.result.runs.iter().zip(&self.runs)
    }

    pub(super) fn run(&self, kind: RunKind) -> Option<(&RunResult, &RunReport)> {
        self.runs().find(|(result, _)| result.service == kind)
    }

    /// Returns the comparison with the direct path after the kill of the relays.
    pub(super) fn after_kill(&self) -> Option<&AfterKill> {
        self.run(RunKind::RelaysKilled)?.0.after_kill.as_ref()
    }

    /// Returns the mean PSNR of a run during the outage.
    pub(super) fn psnr_in_outage(&self, run: &RunReport) -> Option<f64> {
        let frames_per_second = f64::from(crate::demo::media::FRAMES_PER_SECOND);
        let in_outage =
            |frame: usize| (self.outage.0..self.outage.1).contains(&(frame as f64 / frames_per_second));
        let values = run.score.psnr_db.iter().enumerate();
        let values: Vec<_> = values.filter(|&(frame, _)| in_outage(frame)).map(|(_, &value)| value).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }
}

/// Counts the packets of all pairs that were repaired, late or missing, in bins by their time of
/// sending.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times of a run of minutes, never negative"
)]
pub(crate) fn bins(pairs: &[Vec<DatagramOutcome>], seconds: f64) -> Vec<LossBin> {
    let mut bins = vec![LossBin::default(); (seconds / BIN_SECONDS).ceil() as usize];
    for fate in pairs.iter().flatten() {
        let Some(bin) = bins.get_mut((fate.sent_ms / 1e3 / BIN_SECONDS) as usize) else { continue };
        let is_in_time = fate.is_in_time(DEADLINE_MS as f64);
        match fate.delivered_ms {
            None if fate.is_spoiled => {}
            None => bin.missing += 1,
            Some(_) if !is_in_time => bin.late += 1,
            Some(_) if fate.is_lost => bin.repaired += 1,
            Some(_) => {}
        }
    }
    bins
}
