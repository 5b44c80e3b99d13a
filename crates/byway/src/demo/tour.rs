//! The whole demo: every run, judged, told.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::measure::{Fate, percentile, summarise, within};
use super::media::{Footage, Tools, Video, prepare};
use super::plan::{MEASURED_PAIR, Plan, ROUND_TRIP_MS};
use super::progress::Step;
use super::report::{AddedDelay, RunStory, Story, bins, page, table};
use super::results::{DemoResult, FailedRun, RunKind, RunResult};
use super::run::{Course, Outcome};
use super::{DemoFlags, PAIRS, Prerequisites, VIDEO_SECONDS};
use crate::interrupt;
use crate::scratch::Scratch;

/// How much of the video is sent without Byway, to compare delays: enough for a 99th percentile of all pairs.
const PLAIN_SECONDS: u64 = 8;

/// How much of it is sent to find out with how many calls this machine keeps time: enough for a 99th percentile of what is late.
const TRIAL_SECONDS: u64 = 3;

/// Calls that there are however busy the machine is: two are coded together.
const PAIRS_LEAST: usize = 2;

/// The order of the runs: the first pictures are those that show most.
const ORDER: [RunKind; 7] = [
    RunKind::Coding,
    RunKind::Internet,
    RunKind::Lossless,
    RunKind::Caching,
    RunKind::Forwarding,
    RunKind::RelaysKilled,
    RunKind::Lone,
];

/// The page, in the folder of the output.
const REPORT: &str = "report.html";

/// How far into the outage the pictures are taken.
const PICTURE_AT: f64 = 0.6;

pub(crate) fn run(flags: &DemoFlags, prerequisites: &Prerequisites) -> anyhow::Result<()> {
    let Prerequisites { footage, tools, scratch, net } = prerequisites;
    let wanted = flags.plan(net);
    greet(footage);
    let media = scratch.folder()?;
    let video = prepared(tools, footage, media.path())?;
    let (plan, is_busy) = scaled(wanted, &video, scratch)?;
    let tour = Tour { plan: &plan, tools, video: &video, scratch, footage, is_busy };
    let story = tour.tell(&flags.output)?;
    println!("\n{}", table(&story));
    println!("More, with pictures: {}", flags.output.join(REPORT).display());
    Ok(())
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
    println!("It takes about four minutes on an idle machine; the first pictures are there after one.\n");
}

/// The video, ready to be sent.
pub(crate) fn prepared(tools: &Tools, footage: &Footage, scratch: &Path) -> anyhow::Result<Video> {
    let step = Step::begin("Video");
    step.say("looping and encoding");
    let video = prepare(tools, footage, VIDEO_SECONDS, scratch)?;
    step.finish(&footage.description());
    Ok(video)
}

/// Runs it; again if it fails, or the machine was too busy to keep time, unless it `is_busy` all the time.
///
/// # Errors
/// If it fails twice, or the user wants no more.
pub(crate) fn flown(course: &Course<'_>, title: &str, is_busy: bool) -> anyhow::Result<Outcome> {
    let step = Step::begin(title);
    let fly = || course.run(&|words| step.say(words)).with_context(|| format!("run: {title}"));
    let mut outcome = fly();
    if !outcome.as_ref().is_ok_and(|outcome| is_busy || !outcome.is_void()) {
        // Whoever wants no more wants no second one either.
        interrupt::check()?;
        step.say("this machine was too busy: once more");
        outcome = better(outcome, fly());
    }
    match &outcome {
        Ok(outcome) => step.finish(&summary(&outcome.fates)),
        Err(error) => step.finish(&format!("failed: {error:#}")),
    }
    interrupt::check()?;
    outcome
}

/// Of two outcomes the one that the machine spoiled less.
fn better(first: anyhow::Result<Outcome>, second: anyhow::Result<Outcome>) -> anyhow::Result<Outcome> {
    let spoiled = |outcome: &Outcome| (outcome.is_void(), outcome.lateness.p99_us, outcome.lost_by_machine());
    match (first, second) {
        (Ok(first), Ok(second)) if spoiled(&first) <= spoiled(&second) => Ok(first),
        (Ok(first), Err(_)) => Ok(first),
        (_, second) => second,
    }
}

fn summary(fates: &[Vec<Fate>]) -> String {
    let all = || fates.iter().flatten();
    let count = |of: fn(&Fate) -> bool| all().filter(|fate| of(fate)).count();
    let (lost, missing) = (count(|fate| fate.is_lost), count(Fate::is_missing));
    let spoiled = match count(|fate| fate.is_spoiled) {
        0 => String::new(),
        spoiled => format!(", {spoiled} lost by this machine"),
    };
    format!("{} packets sent, {lost} lost on direct paths, {missing} never delivered{spoiled}", all().count())
}

struct Tour<'a> {
    plan: &'a Plan,
    tools: &'a Tools,
    video: &'a Video,
    scratch: &'a Scratch,
    footage: &'a Footage,
    /// Whether this machine keeps time with no number of calls.
    is_busy: bool,
}

/// The runs so far.
#[derive(Default)]
struct Told {
    /// In the order in which they are shown.
    runs: BTreeMap<RunKind, (RunResult, RunStory)>,
    failed: Vec<FailedRun>,
    added_delay: Option<AddedDelay>,
}

/// The plan with as many calls as this machine keeps time with, and whether it does so with none: each has two agents, which all want a processor at the same time.
fn scaled(wanted: Plan, video: &Video, scratch: &Scratch) -> anyhow::Result<(Plan, bool)> {
    let step = Step::begin("trial");
    let mut plan = wanted;
    loop {
        let kind = Some(RunKind::Coding);
        let datagrams = datagrams_of(TRIAL_SECONDS, video)?;
        let trial = Course { plan: &plan, video, scratch, kind, datagrams }.run(&|words| step.say(words));
        interrupt::check()?;
        let is_good = trial.is_ok_and(|trial| !trial.is_void());
        if is_good || plan.pairs <= PAIRS_LEAST {
            let words = if plan.pairs == wanted.pairs {
                "this machine keeps time".to_owned()
            } else {
                format!("this machine is too busy for {} calls: there are {}", wanted.pairs, plan.pairs)
            };
            step.finish(&words);
            return Ok((plan, !is_good));
        }
        plan.pairs /= 2;
    }
}

/// How many of the video's datagrams are sent in this time.
fn datagrams_of(seconds: u64, video: &Video) -> anyhow::Result<usize> {
    let datagrams = usize::try_from(seconds * 1_000_000_000 / Video::INTERVAL_NANOS)?;
    Ok(datagrams.min(video.datagrams.len()))
}

impl Tour<'_> {
    /// All runs, the most telling first; what there is so far is published after each.
    fn tell(&self, output: &Path) -> anyhow::Result<Story> {
        let mut told = Told::default();
        let (mut failure, mut is_first) = (None, true);
        for kind in ORDER {
            match self.told(kind, &mut told) {
                Ok(()) => publish(&self.story(&told)?, output)?,
                Err(error) => {
                    interrupt::check()?;
                    told.failed.push(FailedRun { service: kind, error: format!("{error:#}") });
                    failure = Some(error);
                }
            }
            if std::mem::replace(&mut is_first, false) && !told.runs.is_empty() {
                println!("  The first pictures, with more to come: {}", output.join(REPORT).display());
            }
        }
        if let (true, Some(failure)) = (told.runs.is_empty(), failure) {
            return Err(failure.context("every run failed"));
        }
        let story = self.story(&told)?;
        publish(&story, output)?;
        Ok(story)
    }

    /// One run, and what there was to be seen.
    fn told(&self, kind: RunKind, told: &mut Told) -> anyhow::Result<()> {
        interrupt::check()?;
        // What is compared with each other runs one after the other.
        let plain = if kind == RunKind::Lossless { self.plain()? } else { None };
        let course = self.course(Some(kind), self.video.datagrams.len());
        let outcome = flown(&course, kind.name(), self.is_busy)?;
        if let Some(plain) = plain {
            told.added_delay = added_delay(&plain.fates, &outcome.fates);
        }
        let step = Step::begin(kind.name());
        step.say("looking at the video");
        told.runs.insert(kind, self.judge_run(kind, outcome, self.picture_at())?);
        Ok(())
    }

    /// The applications without Byway; nothing if that fails.
    fn plain(&self) -> anyhow::Result<Option<Outcome>> {
        let datagrams = datagrams_of(PLAIN_SECONDS, self.video)?;
        let plain = flown(&self.course(None, datagrams), "plain UDP", self.is_busy);
        interrupt::check()?;
        Ok(plain.ok())
    }

    fn course(&self, kind: Option<RunKind>, datagrams: usize) -> Course<'_> {
        Course { plan: self.plan, video: self.video, scratch: self.scratch, kind, datagrams }
    }

    fn outage(&self) -> (f64, f64) {
        let (from, until) = self.plan.outage_ms;
        (seconds(from), seconds(until))
    }

    fn picture_at(&self) -> f64 {
        let (from, until) = self.outage();
        from + (until - from) * PICTURE_AT
    }

    fn story(&self, told: &Told) -> anyhow::Result<Story> {
        let (results, runs) = told.runs.values().cloned().unzip();
        Ok(Story {
            result: DemoResult {
                seed: self.plan.seed,
                rtt_ms: seconds(ROUND_TRIP_MS) * 1e3,
                floor_ms: (self.plan.floor_ms() * 10.0).round() / 10.0,
                runs: results,
                failed: told.failed.clone(),
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
            added_delay: told.added_delay,
        })
    }

    fn judge_run(
        &self,
        kind: RunKind,
        outcome: Outcome,
        picture_at: f64,
    ) -> anyhow::Result<(RunResult, RunStory)> {
        interrupt::check()?;
        let Outcome { fates, traffic, lateness, notes, killed_ms, drops } = outcome;
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
            drops,
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
    write(REPORT, page(story))
}

fn seconds(millis: u64) -> f64 {
    millis as f64 / 1e3
}
