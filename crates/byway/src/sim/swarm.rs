//! `byway sim swarm`: random scenarios, and whether all is as it must be whatever happens.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use byway_scenario::{Outcome, Watching, swarm_faults, swarm_files, swarm_scenario};
use byway_typed::TypedDuration;
use byway_units::Duration;

use crate::allowance::{Allowance, Guard};
use crate::exit::{Cause, Failure};
use crate::interrupt;
use crate::parallel;

/// One seed in so many runs twice, and has to come out the same.
const TWICE_EVERY: u64 = 10;

/// What a seed may take of real time: it takes a tenth of a second, and one that takes so much is a fault.
const AT_MOST: Duration = Duration::from_secs(300);

/// What is run.
#[derive(Debug, clap::Args)]
pub(crate) struct SwarmFlags {
    /// How many seeds.
    #[arg(long, value_name = "N", default_value_t = 200)]
    seeds: u64,
    /// The first of them.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    from: u64,
    /// A file of seeds that failed once, one in each line, which run first.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Adds seeds that fail to the file of `--replay`.
    #[arg(long, requires = "replay")]
    keep: bool,
    /// Writes the scenario of a seed as `swarm-SEED.toml`, and the recordings that it names, into this folder, and runs nothing.
    #[arg(long, value_name = "SEED")]
    write: Option<u64>,
    /// As JSON, one line for each seed.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    allowance: Allowance,
}

/// What came of one seed.
struct Fate {
    lost: u64,
    repaired: u64,
    digest: String,
    faults: Vec<String>,
}

/// Does it.
///
/// # Errors
/// If a seed is not as it must be, or a file cannot be read or written.
pub(super) fn run(flags: &SwarmFlags) -> Result<(), Failure> {
    if let Some(seed) = flags.write {
        return swarm_files(seed).iter().try_for_each(|(name, text)| write(Path::new(name), text));
    }
    interrupt::listen()?;
    let usual = TypedDuration(AT_MOST);
    let allowance = Allowance { at_most: flags.allowance.at_most.or(Some(usual)), ..flags.allowance };
    let kept = flags.replay.as_deref().map(kept).transpose()?.unwrap_or_default();
    let fresh = (flags.from..flags.from.saturating_add(flags.seeds)).filter(|seed| !kept.contains(seed));
    let seeds: Vec<u64> = kept.iter().copied().chain(fresh).collect();
    let (mut failed, mut lost, mut repaired) = (BTreeSet::new(), 0, 0);
    let told = |seed: u64, fate: &Fate| {
        if flags.json {
            let Fate { lost, repaired, digest, faults } = fate;
            println!(
                "{}",
                serde_json::json!({ "seed": seed, "digest": digest, "lost": lost, "repaired": repaired, "faults": faults })
            );
        } else {
            fate.faults.iter().for_each(|fault| println!("seed {seed}: {fault}"));
        }
    };
    parallel::each(
        seeds.len(),
        |nth| fate(seeds[nth], || allowance.begin(parallel::at_a_time(seeds.len()))),
        |nth, fate| {
            told(seeds[nth], &fate);
            (lost, repaired) = (lost + fate.lost, repaired + fate.repaired);
            if !fate.faults.is_empty() {
                failed.insert(seeds[nth]);
            }
            interrupt::check().is_ok()
        },
    );
    interrupt::check().map_err(|interrupted| Failure::new(Cause::Interrupted, interrupted))?;
    if let Some(file) = flags.replay.as_deref().filter(|_| flags.keep) {
        keep(file, failed.difference(&kept))?;
    }
    verdict(seeds.len(), &failed, (lost, repaired), flags.json)
}

fn verdict(
    count: usize,
    failed: &BTreeSet<u64>,
    (lost, repaired): (u64, u64),
    json: bool,
) -> Result<(), Failure> {
    if !json {
        println!(
            "{count} seeds, {} failed; {repaired} of {lost} packets that direct paths lost were repaired in time",
            failed.len()
        );
    }
    if let Some(seed) = failed.first() {
        let message = format!(
            "seed {seed} fails, and {} others: byway sim swarm --write {seed}; byway sim trace swarm-{seed}.toml",
            failed.len() - 1
        );
        return Err(Failure::new(Cause::Unmet, message));
    }
    // A swarm in which nothing is lost, or nothing repaired, proves nothing.
    if count > 0 && repaired == 0 {
        return Err(Failure::new(Cause::Unmet, "nothing was repaired: run more seeds"));
    }
    Ok(())
}

/// Runs a seed, and some of them again.
fn fate(seed: u64, begin: impl Fn() -> Guard) -> Fate {
    let once = || -> Result<Outcome, String> {
        let scenario = swarm_scenario(seed).map_err(|problem| problem.to_string())?;
        let watching = Watching { records: true, ..Watching::default() };
        let guard = begin();
        let outcome = scenario.run_watched(seed, &watching, |progress| guard.look(&progress));
        outcome.map_err(|error| error.to_string())
    };
    let outcome = match once() {
        Ok(outcome) => outcome,
        Err(fault) => return Fate { lost: 0, repaired: 0, digest: String::new(), faults: vec![fault] },
    };
    let mut faults = swarm_faults(&outcome);
    // What a clock has stopped comes out otherwise anyway.
    if outcome.stopped.is_none() && seed.is_multiple_of(TWICE_EVERY) {
        let again = once();
        let is_stopped = again.as_ref().is_ok_and(|again| again.stopped.is_some());
        if !is_stopped && again.as_ref() != Ok(&outcome) {
            faults.push("it comes out otherwise the second time".to_owned());
        }
    }
    let sum = |of: fn(&byway_scenario::FlowOutcome) -> u64| outcome.flows.iter().map(of).sum();
    Fate {
        lost: sum(|flow| flow.lost_direct),
        repaired: sum(|flow| flow.repaired),
        digest: outcome.digest,
        faults,
    }
}

/// The seeds of a file; empty lines and what follows `#` are for people.
#[allow(clippy::disallowed_methods, reason = "this is where seeds that failed are read")]
fn kept(file: &Path) -> Result<BTreeSet<u64>, Failure> {
    let wrong = |message: String| Failure::new(Cause::Settings, format!("{}: {message}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| wrong(format!("{error}; name a file of seeds")))?;
    let mut seeds = BTreeSet::new();
    for (number, line) in (1..).zip(text.lines()) {
        let seed = line.split('#').next().unwrap_or_default().trim();
        if !seed.is_empty() {
            let parsed = seed
                .parse()
                .map_err(|_| wrong(format!("line {number}: {seed:?} is no seed: write a number")))?;
            seeds.insert(parsed);
        }
    }
    Ok(seeds)
}

#[allow(clippy::disallowed_methods, reason = "this is where seeds that fail are kept")]
fn keep<'a>(file: &Path, seeds: impl Iterator<Item = &'a u64>) -> Result<(), Failure> {
    let lines: Vec<String> = seeds.map(|seed| format!("{seed}\n")).collect();
    let written = fs::OpenOptions::new()
        .append(true)
        .open(file)
        .and_then(|mut file| file.write_all(lines.concat().as_bytes()));
    written.map_err(|error| {
        Failure::machine(format!("{}: {error}; name a file that may be written", file.display()))
    })
}

#[allow(clippy::disallowed_methods, reason = "this is where the files of a seed are written")]
fn write(file: &Path, text: &str) -> Result<(), Failure> {
    fs::write(file, text).map_err(|error| {
        Failure::machine(format!("{}: {error}; work in a folder that may be written", file.display()))
    })
}
