//! The whole demo: performs, evaluates and reports every run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::measure::{DatagramOutcome, percentile, repaired_within, summarise};
use super::media::{Footage, Tools, Video, prepare};
use super::plan::{DemoPlan, MEASURED_PAIR, ROUND_TRIP_MS};
use super::progress::ProgressStep;
use super::report::{AddedDelay, ReportData, RunReport, bins, page, table};
use super::results::{DemoResult, FailedRun, RunKind, RunResult};
use super::run::{RunOutcome, RunPlan};
use super::{DemoFlags, PAIRS, Prerequisites, VIDEO_SECONDS};
use crate::interrupt;
use crate::temp_dir::RunTempDir;

/// Seconds of video in the run without Byway, which serves to compare delays. They suffice for a
/// 99th percentile over all pairs.
const PLAIN_SECONDS: u64 = 8;

/// Seconds of video in a trial, which finds the number of calls with which this machine keeps time.
/// They suffice for a 99th percentile of the lateness.
const TRIAL_SECONDS: u64 = 3;

/// Fewest calls, even on a busy machine, because coding needs two.
const PAIRS_LEAST: usize = 2;

/// Order in which the demo performs its runs. The runs that show the largest effect are first.
const ORDER: [RunKind; 7] = [
    RunKind::Coding,
    RunKind::Internet,
    RunKind::Lossless,
    RunKind::Caching,
    RunKind::Forwarding,
    RunKind::RelaysKilled,
    RunKind::Lone,
];

/// File name of the HTML report in the output folder.
const REPORT: &str = "report.html";

/// Moment of the report's pictures, as a share of the outage's length after its begin.
const PICTURE_AT: f64 = 0.6;

pub(crate) fn run(flags: &DemoFlags, prerequisites: &Prerequisites) -> anyhow::Result<()> {
    let Prerequisites { footage, tools, scratch, net } = prerequisites;
    let wanted = flags.plan(net);
    greet(footage);
    let media = scratch.folder()?;
    let video = prepare_video(tools, footage, media.path())?;
    let (plan, is_busy) = scale_to_machine(wanted, &video, scratch)?;
    let demo_run = DemoRun { plan: &plan, tools, video: &video, scratch, footage, is_busy };
    let report_data = demo_run.run_all(&flags.output)?;
    println!("\n{}", table(&report_data));
    println!("Report with pictures: {}", flags.output.join(REPORT).display());
    Ok(())
}

fn greet(footage: &Footage) {
    println!(
        "A video call survives an outage: {PAIRS} calls, two relays, an emulated transatlantic \
         network, on this machine."
    );
    if *footage == Footage::Generator {
        println!(
            "No real footage found (make demo downloads it): using a TEST PICTURE of ffmpeg. --video \
             FILE sends a video of yours."
        );
    }
    println!("Duration: about four minutes on an idle machine; first pictures after one minute.\n");
}

/// Prepares the video for sending.
pub(crate) fn prepare_video(tools: &Tools, footage: &Footage, scratch: &Path) -> anyhow::Result<Video> {
    let step = ProgressStep::begin("Video");
    step.update("encoding the video");
    let video = prepare(tools, footage, VIDEO_SECONDS, scratch)?;
    step.finish(&footage.description());
    Ok(video)
}

/// Performs a run, and repeats it once if it fails or the machine was too busy to keep time. If
/// `is_busy`, only a failure causes the repetition.
///
/// # Errors
/// If the run fails twice, or the user interrupts.
pub(crate) fn run_with_retry(plan: &RunPlan<'_>, title: &str, is_busy: bool) -> anyhow::Result<RunOutcome> {
    let step = ProgressStep::begin(title);
    let fly = || plan.run(&|words| step.update(words)).with_context(|| format!("run: {title}"));
    let mut outcome = fly();
    if !outcome.as_ref().is_ok_and(|outcome| is_busy || !outcome.is_void()) {
        // An interrupt must prevent the second attempt as well.
        interrupt::check()?;
        step.update("machine too busy: repeating the run");
        outcome = less_disturbed(outcome, fly());
    }
    match &outcome {
        Ok(outcome) => step.finish(&summary(&outcome.fates)),
        Err(error) => step.finish(&format!("failed: {error:#}")),
    }
    interrupt::check()?;
    outcome
}

/// Returns the outcome of two attempts at a run that a busy machine disturbed less, or the first
/// error if both failed.
fn less_disturbed(
    first: anyhow::Result<RunOutcome>,
    second: anyhow::Result<RunOutcome>,
) -> anyhow::Result<RunOutcome> {
    let spoiled =
        |outcome: &RunOutcome| (outcome.is_void(), outcome.lateness.p99_us, outcome.lost_by_machine());
    match (first, second) {
        (Ok(first), Ok(second)) if spoiled(&first) <= spoiled(&second) => Ok(first),
        (Ok(first), Err(_)) => Ok(first),
        (_, second) => second,
    }
}

fn summary(fates: &[Vec<DatagramOutcome>]) -> String {
    let all = || fates.iter().flatten();
    let count = |of: fn(&DatagramOutcome) -> bool| all().filter(|fate| of(fate)).count();
    let (lost, missing) = (count(|fate| fate.is_lost), count(DatagramOutcome::is_missing));
    let spoiled = match count(|fate| fate.is_spoiled) {
        0 => String::new(),
        spoiled => format!(", {spoiled} dropped by this machine"),
    };
    format!("{} packets sent, {lost} lost on direct paths, {missing} never delivered{spoiled}", all().count())
}

struct DemoRun<'a> {
    plan: &'a DemoPlan,
    tools: &'a Tools,
    video: &'a Video,
    scratch: &'a RunTempDir,
    footage: &'a Footage,
    /// True if this machine does not keep time with any number of calls.
    is_busy: bool,
}

/// Results of the completed runs.
#[derive(Default)]
struct CompletedRuns {
    /// Results of each run, in the order in which the report shows the runs.
    runs: BTreeMap<RunKind, (RunResult, RunReport)>,
    failed: Vec<FailedRun>,
    added_delay: Option<AddedDelay>,
}

/// Halves the number of calls until a trial shows that this machine keeps time, because all agents
/// need a processor at once. Returns the plan, and `true` if not even the fewest calls succeed.
fn scale_to_machine(
    wanted: DemoPlan,
    video: &Video,
    scratch: &RunTempDir,
) -> anyhow::Result<(DemoPlan, bool)> {
    let step = ProgressStep::begin("trial");
    let mut plan = wanted;
    loop {
        let kind = Some(RunKind::Coding);
        let datagrams = datagrams_of(TRIAL_SECONDS, video)?;
        let trial = RunPlan { plan: &plan, video, scratch, kind, datagrams }.run(&|words| step.update(words));
        interrupt::check()?;
        let is_good = trial.is_ok_and(|trial| !trial.is_void());
        if is_good || plan.pairs <= PAIRS_LEAST {
            let words = if plan.pairs == wanted.pairs {
                "machine fast enough".to_owned()
            } else {
                format!("machine too busy for {} calls: running {}", wanted.pairs, plan.pairs)
            };
            step.finish(&words);
            return Ok((plan, !is_good));
        }
        plan.pairs /= 2;
    }
}

/// Returns the number of the video's datagrams that a sender sends in this time.
fn datagrams_of(seconds: u64, video: &Video) -> anyhow::Result<usize> {
    let datagrams = usize::try_from(seconds * 1_000_000_000 / Video::INTERVAL_NANOS)?;
    Ok(datagrams.min(video.datagrams.len()))
}

impl DemoRun<'_> {
    /// Performs all runs, the most instructive first, and writes the report again after each. A
    /// failed run is reported; if all fail, returns the last error.
    fn run_all(&self, output: &Path) -> anyhow::Result<ReportData> {
        let mut completed = CompletedRuns::default();
        let (mut failure, mut is_first) = (None, true);
        for kind in ORDER {
            match self.run_kind(kind, &mut completed) {
                Ok(()) => publish(&self.report_data(&completed)?, output)?,
                Err(error) => {
                    interrupt::check()?;
                    completed.failed.push(FailedRun { service: kind, error: format!("{error:#}") });
                    failure = Some(error);
                }
            }
            if std::mem::replace(&mut is_first, false) && !completed.runs.is_empty() {
                println!("  First pictures, updated after each run: {}", output.join(REPORT).display());
            }
        }
        if let (true, Some(failure)) = (completed.runs.is_empty(), failure) {
            return Err(failure.context("all runs failed"));
        }
        let report_data = self.report_data(&completed)?;
        publish(&report_data, output)?;
        Ok(report_data)
    }

    /// Performs one run, evaluates its video, and adds the results to `completed`.
    fn run_kind(&self, kind: RunKind, completed: &mut CompletedRuns) -> anyhow::Result<()> {
        interrupt::check()?;
        // Runs that are compared with each other follow each other directly.
        let unprotected = if kind == RunKind::Lossless { self.run_plain()? } else { None };
        let plan = self.run_plan(Some(kind), self.video.datagrams.len());
        let outcome = run_with_retry(&plan, kind.name(), self.is_busy)?;
        if let Some(unprotected) = unprotected {
            completed.added_delay = added_delay(&unprotected.fates, &outcome.fates);
        }
        let step = ProgressStep::begin(kind.name());
        step.update("evaluating the video");
        completed.runs.insert(kind, self.evaluate_run(kind, outcome, self.picture_at())?);
        Ok(())
    }

    /// Performs the run without Byway, against which added delay is measured; `None` if it fails.
    fn run_plain(&self) -> anyhow::Result<Option<RunOutcome>> {
        let datagrams = datagrams_of(PLAIN_SECONDS, self.video)?;
        let plain = run_with_retry(&self.run_plan(None, datagrams), "plain UDP", self.is_busy);
        interrupt::check()?;
        Ok(plain.ok())
    }

    fn run_plan(&self, kind: Option<RunKind>, datagrams: usize) -> RunPlan<'_> {
        RunPlan { plan: self.plan, video: self.video, scratch: self.scratch, kind, datagrams }
    }

    fn outage(&self) -> (f64, f64) {
        let (from, until) = self.plan.outage_ms;
        (seconds(from), seconds(until))
    }

    fn picture_at(&self) -> f64 {
        let (from, until) = self.outage();
        from + (until - from) * PICTURE_AT
    }

    fn report_data(&self, completed: &CompletedRuns) -> anyhow::Result<ReportData> {
        let (results, runs) = completed.runs.values().cloned().unzip();
        Ok(ReportData {
            result: DemoResult {
                seed: self.plan.seed,
                rtt_ms: seconds(ROUND_TRIP_MS) * 1e3,
                floor_ms: (self.plan.floor_ms() * 10.0).round() / 10.0,
                runs: results,
                failed: completed.failed.clone(),
            },
            footage: self.footage.description(),
            has_real_footage: *self.footage != Footage::Generator,
            pairs: self.plan.pairs,
            pairs_wanted: PAIRS,
            seconds: seconds(self.video.nanos() / 1_000_000),
            outage: self.outage(),
            picture_at: self.picture_at(),
            original: self.video.original(self.tools, self.picture_at())?,
            runs,
            added_delay: completed.added_delay,
        })
    }

    fn evaluate_run(
        &self,
        kind: RunKind,
        outcome: RunOutcome,
        picture_at: f64,
    ) -> anyhow::Result<(RunResult, RunReport)> {
        interrupt::check()?;
        let RunOutcome { fates, traffic, lateness, notes, killed_ms, drops } = outcome;
        let deadline_ms = seconds(super::plan::DEADLINE_MS) * 1e3;
        let in_time: Vec<_> = fates[MEASURED_PAIR].iter().map(|fate| fate.is_in_time(deadline_ms)).collect();
        let folder = self.scratch.path().join(kind.name());
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let score = self.video.score(self.tools, &in_time, &folder)?;
        let picture = score.picture(self.tools, &folder, picture_at)?;
        let result = summarise(kind, &fates, &traffic, Some(&score), killed_ms);
        let run = RunReport {
            traffic,
            score,
            picture,
            bins: bins(&fates, seconds(self.video.nanos() / 1_000_000)),
            repairs_ms: fates.iter().flatten().filter_map(DatagramOutcome::repair_ms).collect(),
            within_rtt: repaired_within(&fates, seconds(ROUND_TRIP_MS) * 1e3),
            lateness,
            drops,
            notes,
        };
        Ok((result, run))
    }
}

/// Compares the application-to-application delays of a run without Byway and one with it, both
/// without losses. Returns `None` if either delivered nothing.
fn added_delay(plain: &[Vec<DatagramOutcome>], byway: &[Vec<DatagramOutcome>]) -> Option<AddedDelay> {
    let delays = |fates: &[Vec<DatagramOutcome>]| -> Vec<f64> {
        fates.iter().flatten().filter_map(|fate| Some(fate.delivered_ms? - fate.sent_ms)).collect()
    };
    let (plain, byway) = (delays(plain), delays(byway));
    Some(AddedDelay {
        plain_p50: percentile(&plain, 0.5)?,
        plain_p99: percentile(&plain, 0.99)?,
        byway_p50: percentile(&byway, 0.5)?,
        byway_p99: percentile(&byway, 0.99)?,
    })
}

fn publish(report: &ReportData, output: &Path) -> anyhow::Result<()> {
    // The folder existed when the demo began, but may have been deleted since.
    fs::create_dir_all(output).with_context(|| format!("cannot create {}", output.display()))?;
    let write = |name: &str, text: String| {
        let path = output.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    write("result.json", serde_json::to_string_pretty(&report.result)? + "\n")?;
    write(REPORT, page(report))
}

fn seconds(millis: u64) -> f64 {
    millis as f64 / 1e3
}
