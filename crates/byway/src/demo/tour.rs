//! The whole demo: every run, judged, told.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::measure::{Fate, percentile, summarise, within};
use super::media::{Footage, Tools, Video, prepare};
use super::plan::{MEASURED_PAIR, Plan, ROUND_TRIP_MS};
use super::progress::Step;
use super::report::{AddedDelay, RunStory, Story, bins, page, table};
use super::results::{DemoResult, RunKind, RunResult};
use super::run::{Course, Outcome};
use super::{DemoFlags, PAIRS, Prerequisites, VIDEO_SECONDS};
use crate::scratch::Scratch;

/// How much of the video is sent without Byway, to compare delays: enough for a 99th percentile of all pairs.
const PLAIN_SECONDS: u64 = 8;

/// How far into the outage the pictures are taken.
const PICTURE_AT: f64 = 0.6;

pub(crate) fn run(flags: &DemoFlags, prerequisites: &Prerequisites) -> anyhow::Result<()> {
    let Prerequisites { footage, tools, scratch, net } = prerequisites;
    let plan = flags.plan(net);
    greet(footage);
    let media = scratch.folder()?;
    let video = prepared(tools, footage, media.path())?;
    let tour = Tour { plan: &plan, tools, video: &video, scratch };
    let outcomes = tour.fly()?;
    let story = tour.judge(outcomes, footage)?;
    publish(&story, &flags.output)
}

fn greet(footage: &Footage) {
    println!(
        "A video call survives an outage: {PAIRS} calls, two relays, one emulated ocean, on this machine."
    );
    if *footage == Footage::Generator {
        println!(
            "There is no real footage (make demo fetches it if it can): this shows ffmpeg's TEST PICTURE. --video FILE sends one of yours."
        );
    }
    println!();
}

/// The video, ready to be sent.
pub(crate) fn prepared(tools: &Tools, footage: &Footage, scratch: &Path) -> anyhow::Result<Video> {
    let step = Step::begin("Video");
    step.say("looping and encoding");
    let video = prepare(tools, footage, VIDEO_SECONDS, scratch)?;
    step.finish(&footage.description());
    Ok(video)
}

/// Runs it; again if the machine was too busy to keep time.
pub(crate) fn flown(course: &Course<'_>, title: &str) -> anyhow::Result<Outcome> {
    let step = Step::begin(title);
    let mut outcome = course.run(&|words| step.say(words)).with_context(|| format!("run: {title}"))?;
    if outcome.lateness.is_void() {
        step.say("this machine was too busy: once more");
        outcome = course.run(&|words| step.say(words)).with_context(|| format!("run: {title}, repeated"))?;
    }
    step.finish(&summary(&outcome.fates));
    Ok(outcome)
}

fn summary(fates: &[Vec<Fate>]) -> String {
    let all = || fates.iter().flatten();
    let lost = all().filter(|fate| fate.is_lost).count();
    let missing = all().filter(|fate| fate.delivered_ms.is_none()).count();
    format!("{} packets sent, {lost} lost on direct paths, {missing} never delivered", all().count())
}

struct Tour<'a> {
    plan: &'a Plan,
    tools: &'a Tools,
    video: &'a Video,
    scratch: &'a Scratch,
}

/// What all runs have brought.
struct Outcomes {
    plain: Outcome,
    runs: Vec<(RunKind, Outcome)>,
}

impl Tour<'_> {
    fn fly(&self) -> anyhow::Result<Outcomes> {
        let plain_datagrams = PLAIN_SECONDS * 1_000_000_000 / Video::INTERVAL_NANOS;
        let plain_datagrams = usize::try_from(plain_datagrams)?.min(self.video.datagrams.len());
        let plain = flown(&self.course(None, plain_datagrams), "plain UDP")?;
        let runs = RunKind::ALL.into_iter().map(|kind| {
            let course = self.course(Some(kind), self.video.datagrams.len());
            Ok((kind, flown(&course, kind.name())?))
        });
        Ok(Outcomes { plain, runs: runs.collect::<anyhow::Result<_>>()? })
    }

    fn course(&self, kind: Option<RunKind>, datagrams: usize) -> Course<'_> {
        Course { plan: self.plan, video: self.video, scratch: self.scratch, kind, datagrams }
    }

    fn judge(&self, outcomes: Outcomes, footage: &Footage) -> anyhow::Result<Story> {
        let step = Step::begin("Looking at the video");
        let lossless = outcomes.runs.iter().find(|(kind, _)| *kind == RunKind::Lossless);
        let added_delay =
            lossless.and_then(|(_, lossless)| added_delay(&outcomes.plain.fates, &lossless.fates));
        let (from, until) = self.plan.outage_ms;
        let [from, until] = [from, until].map(seconds);
        let picture_at = from + (until - from) * PICTURE_AT;
        let (mut results, mut runs) = (Vec::new(), Vec::new());
        for (kind, outcome) in outcomes.runs {
            step.say(kind.name());
            let (result, run) = self.judge_run(kind, outcome, picture_at)?;
            results.push(result);
            runs.push(run);
        }
        let original = self.video.original(self.tools, picture_at)?;
        step.finish("done");
        Ok(Story {
            result: DemoResult {
                seed: self.plan.seed,
                rtt_ms: seconds(ROUND_TRIP_MS) * 1e3,
                floor_ms: (self.plan.floor_ms() * 10.0).round() / 10.0,
                runs: results,
            },
            footage: footage.description(),
            has_real_footage: *footage != Footage::Generator,
            pairs: self.plan.pairs,
            seconds: seconds(self.video.nanos() / 1_000_000),
            outage: (from, until),
            picture_at,
            original,
            runs,
            added_delay,
        })
    }

    fn judge_run(
        &self,
        kind: RunKind,
        outcome: Outcome,
        picture_at: f64,
    ) -> anyhow::Result<(RunResult, RunStory)> {
        crate::interrupt::check()?;
        let Outcome { fates, traffic, lateness, notes, killed_ms } = outcome;
        let deadline_ms = seconds(super::plan::DEADLINE_MS) * 1e3;
        let in_time: Vec<_> = fates[MEASURED_PAIR].iter().map(|fate| fate.is_in_time(deadline_ms)).collect();
        let folder = self.scratch.path().join(kind.name());
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let score = self.video.score(self.tools, &in_time, &folder)?;
        let picture = score.picture(self.tools, &folder, picture_at)?;
        let result = summarise(kind, &fates, &traffic, Some(&score), killed_ms);
        let run = RunStory {
            traffic,
            score,
            picture,
            bins: bins(&fates, seconds(self.video.nanos() / 1_000_000)),
            repairs_ms: fates.iter().flatten().filter_map(Fate::repair_ms).collect(),
            within_rtt: within(&fates, seconds(ROUND_TRIP_MS) * 1e3),
            lateness,
            notes,
        };
        Ok((result, run))
    }
}

/// Compares the delays of two runs without losses.
fn added_delay(plain: &[Vec<Fate>], byway: &[Vec<Fate>]) -> Option<AddedDelay> {
    let delays = |fates: &[Vec<Fate>]| -> Vec<f64> {
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

fn publish(story: &Story, output: &Path) -> anyhow::Result<()> {
    // It was there when the demo began, minutes ago.
    fs::create_dir_all(output).with_context(|| format!("making {}", output.display()))?;
    let write = |name: &str, text: String| {
        let path = output.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    };
    write("result.json", serde_json::to_string_pretty(&story.result)? + "\n")?;
    write("report.html", page(story))?;
    println!("\n{}", table(story));
    println!("More, with pictures: {}", output.join("report.html").display());
    Ok(())
}

fn seconds(millis: u64) -> f64 {
    millis as f64 / 1e3
}
