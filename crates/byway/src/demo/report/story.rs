//! Everything that the report tells.

use crate::demo::measure::{Fate, Traffic};
use crate::demo::media::Score;
use crate::demo::plan::DEADLINE_MS;
use crate::demo::results::{AfterKill, DemoResult, RunKind, RunResult};
use byway_lab::lateness::LatenessSummary;

/// The whole demo.
#[derive(Clone, Debug)]
pub(crate) struct Story {
    pub(crate) result: DemoResult,
    /// What is shown, and who made it.
    pub(crate) footage: String,
    /// Whether that is a video, and no test picture.
    pub(crate) has_real_footage: bool,
    pub(crate) pairs: usize,
    /// How many there would be on a machine that keeps time with more.
    pub(crate) pairs_wanted: usize,
    /// How long the video is.
    pub(crate) seconds: f64,
    /// When the measured pair's path is dark, in seconds: from, until.
    pub(crate) outage: (f64, f64),
    /// At which time the pictures were taken, in seconds.
    pub(crate) picture_at: f64,
    /// The original at that time, as a JPEG.
    pub(crate) original: Vec<u8>,
    /// In the order of the results.
    pub(crate) runs: Vec<RunStory>,
    pub(crate) added_delay: Option<AddedDelay>,
}

/// What a run has beside its row in the results.
#[derive(Clone, Debug)]
pub(crate) struct RunStory {
    pub(crate) traffic: Traffic,
    pub(crate) score: Score,
    /// What was on the screen during the outage, as a JPEG; `None` if nothing was.
    pub(crate) picture: Option<Vec<u8>>,
    pub(crate) bins: Vec<Bin>,
    /// How long each repair took, late ones included, in milliseconds.
    pub(crate) repairs_ms: Vec<f64>,
    /// The share of what was lost that was repaired within one round trip.
    pub(crate) within_rtt: Option<f64>,
    /// How late the emulator was.
    pub(crate) lateness: LatenessSummary,
    /// Datagrams that the kernel dropped at full sockets: whose, and how many.
    pub(crate) drops: Vec<(String, u64)>,
    /// What the sender's agent says about its flow.
    pub(crate) notes: Vec<String>,
}

/// Delays from application to application on a network without losses, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AddedDelay {
    pub(crate) plain_p50: f64,
    pub(crate) plain_p99: f64,
    pub(crate) byway_p50: f64,
    pub(crate) byway_p99: f64,
}

/// What became of the packets of all pairs that were lost on the direct path in half a second, and of those that never
/// were on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bin {
    pub(crate) repaired: u32,
    pub(crate) late: u32,
    pub(crate) missing: u32,
}

/// The length of a [`Bin`].
pub(super) const BIN_SECONDS: f64 = 0.5;

impl Story {
    /// The runs with their rows.
    pub(super) fn runs(&self) -> impl Iterator<Item = (&RunResult, &RunStory)> {
        self.result.runs.iter().zip(&self.runs)
    }

    pub(super) fn run(&self, kind: RunKind) -> Option<(&RunResult, &RunStory)> {
        self.runs().find(|(result, _)| result.service == kind)
    }

    /// What the death of the relays has cost.
    pub(super) fn after_kill(&self) -> Option<&AfterKill> {
        self.run(RunKind::RelaysKilled)?.0.after_kill.as_ref()
    }

    /// The mean PSNR of a run during the outage.
    pub(super) fn psnr_in_outage(&self, run: &RunStory) -> Option<f64> {
        let frames_per_second = f64::from(crate::demo::media::FRAMES_PER_SECOND);
        let in_outage =
            |frame: usize| (self.outage.0..self.outage.1).contains(&(frame as f64 / frames_per_second));
        let values = run.score.psnr_db.iter().enumerate();
        let values: Vec<_> = values.filter(|&(frame, _)| in_outage(frame)).map(|(_, &value)| value).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }
}

/// Sorts what was lost, late or missing by the time of sending.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times of a run of minutes, never negative"
)]
pub(crate) fn bins(pairs: &[Vec<Fate>], seconds: f64) -> Vec<Bin> {
    let mut bins = vec![Bin::default(); (seconds / BIN_SECONDS).ceil() as usize];
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
