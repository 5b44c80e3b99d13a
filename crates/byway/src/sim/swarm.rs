//! `byway sim swarm`: random scenarios, and a check of the invariants that hold in all of them.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use byway_config_types::DurationSetting;
use byway_scenario::{Outcome, RecordOptions, swarm_faults, swarm_files, swarm_scenario};
use byway_units::Duration;

use crate::exit::{Cause, Failure};
use crate::interrupt;
use crate::parallel;
use crate::run_limits::{RunLimits, RunMonitor};

/// Interval at which a seed runs a second time, because a repeated run must have the same outcome:
/// every tenth seed.
const REPEAT_EVERY: u64 = 10;

/// Longest real time of a seed. A seed usually takes a tenth of a second, so a seed that takes
/// longer is a fault.
const SEED_TIMEOUT: Duration = Duration::from_secs(300);

/// Options of `byway sim swarm`.
#[derive(Debug, clap::Args)]
pub(crate) struct SwarmFlags {
    /// Number of seeds.
    #[arg(long, value_name = "N", default_value_t = 200)]
    seeds: u64,
    /// First seed.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    from: u64,
    /// File of seeds that failed earlier, one a line, to run first.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Add seeds that fail to the file of `--replay`.
    #[arg(long, requires = "replay")]
    keep: bool,
    /// Write the scenario of this seed as `swarm-SEED.toml`, with its recordings, into the current
    /// folder, and run nothing.
    #[arg(long, value_name = "SEED")]
    write: Option<u64>,
    /// Print JSON, one line for each seed.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    allowance: RunLimits,
}

/// Result of one seed of the swarm: its losses and repairs, a digest of the run, and violated
/// invariants.
struct SeedOutcome {
    lost: u64,
    repaired: u64,
    digest: String,
    faults: Vec<String>,
}

/// Runs the stored and new seeds of the swarm in parallel, and reports violated invariants. With
/// `--write`, only writes a seed's files.
///
/// # Errors
/// If a seed violates an invariant, or a file cannot be read or written.
pub(super) fn run(flags: &SwarmFlags) -> Result<(), Failure> {
    if let Some(seed) = flags.write {
        return swarm_files(seed).iter().try_for_each(|(name, text)| write(Path::new(name), text));
    }
    interrupt::listen()?;
    let usual = DurationSetting(SEED_TIMEOUT);
    let allowance = RunLimits { at_most: flags.allowance.at_most.or(Some(usual)), ..flags.allowance };
    let stored = flags.replay.as_deref().map(read_seeds).transpose()?.unwrap_or_default();
    let fresh = (flags.from..flags.from.saturating_add(flags.seeds)).filter(|seed| !stored.contains(seed));
    let seeds: Vec<u64> = stored.iter().copied().chain(fresh).collect();
    let (mut failed, mut lost, mut repaired) = (BTreeSet::new(), 0, 0);
    let print_outcome = |seed: u64, outcome: &SeedOutcome| {
        if flags.json {
            let SeedOutcome { lost, repaired, digest, faults } = outcome;
            println!(
                "{}",
                serde_json::json!({ "seed": seed, "digest": digest, "lost": lost, "repaired": repaired, "faults": faults })
            );
        } else {
            outcome.faults.iter().for_each(|fault| println!("seed {seed}: {fault}"));
        }
    };
    parallel::run_jobs(
        seeds.len(),
        |nth| run_seed(seeds[nth], || allowance.start(parallel::concurrent_jobs(seeds.len()))),
        |nth, outcome| {
            print_outcome(seeds[nth], &outcome);
            (lost, repaired) = (lost + outcome.lost, repaired + outcome.repaired);
            if !outcome.faults.is_empty() {
                failed.insert(seeds[nth]);
            }
            interrupt::check().is_ok()
        },
    );
    interrupt::check().map_err(|interrupted| Failure::new(Cause::Interrupted, interrupted))?;
    if let Some(file) = flags.replay.as_deref().filter(|_| flags.keep) {
        append_seeds(file, failed.difference(&stored))?;
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
            "{count} seeds, {} failed; {repaired} of {lost} packets lost on direct paths were \
             repaired in time",
            failed.len()
        );
    }
    if let Some(seed) = failed.first() {
        let message = format!(
            "seed {seed} and {} others failed: byway sim swarm --write {seed}; byway sim trace \
             swarm-{seed}.toml",
            failed.len() - 1
        );
        return Err(Failure::new(Cause::Unmet, message));
    }
    // A swarm without losses or repairs proves nothing.
    if count > 0 && repaired == 0 {
        return Err(Failure::new(Cause::Unmet, "no packet was repaired: run more seeds"));
    }
    Ok(())
}

/// Runs the random scenario of a seed, and every [`REPEAT_EVERY`]th seed a second time. Returns the
/// violated invariants.
fn run_seed(seed: u64, begin: impl Fn() -> RunMonitor) -> SeedOutcome {
    let once = || -> Result<Outcome, String> {
        let scenario = swarm_scenario(seed).map_err(|problem| problem.to_string())?;
        let watching = RecordOptions { records: true, ..RecordOptions::default() };
        let guard = begin();
        let outcome = scenario.run_observed(seed, &watching, |progress| guard.check(&progress));
        outcome.map_err(|error| error.to_string())
    };
    let outcome = match once() {
        Ok(outcome) => outcome,
        Err(fault) => {
            return SeedOutcome { lost: 0, repaired: 0, digest: String::new(), faults: vec![fault] };
        }
    };
    let mut faults = swarm_faults(&outcome);
    // A run that a real-time limit stops is not reproducible.
    if outcome.stopped.is_none() && seed.is_multiple_of(REPEAT_EVERY) {
        let again = once();
        let is_stopped = again.as_ref().is_ok_and(|again| again.stopped.is_some());
        if !is_stopped && again.as_ref() != Ok(&outcome) {
            faults.push("the second run has another outcome".to_owned());
        }
    }
    let sum = |of: fn(&byway_scenario::FlowOutcome) -> u64| outcome.flows.iter().map(of).sum();
    SeedOutcome {
        lost: sum(|flow| flow.lost_direct),
        repaired: sum(|flow| flow.repaired),
        digest: outcome.digest,
        faults,
    }
}

/// Reads a file of seeds, one a line. Ignores empty lines and text after `#`.
#[allow(clippy::disallowed_methods, reason = "this is where seeds that failed are read")]
fn read_seeds(file: &Path) -> Result<BTreeSet<u64>, Failure> {
    let wrong = |message: String| Failure::new(Cause::Settings, format!("{}: {message}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| wrong(format!("{error}; name a file of seeds")))?;
    let mut seeds = BTreeSet::new();
    for (number, line) in (1..).zip(text.lines()) {
        let seed = line.split('#').next().unwrap_or_default().trim();
        if !seed.is_empty() {
            let parsed = seed
                .parse()
                .map_err(|_| wrong(format!("line {number}: invalid seed {seed:?}: write a number")))?;
            seeds.insert(parsed);
        }
    }
    Ok(seeds)
}

#[allow(clippy::disallowed_methods, reason = "this is where seeds that fail are kept")]
fn append_seeds<'a>(file: &Path, seeds: impl Iterator<Item = &'a u64>) -> Result<(), Failure> {
    let lines: Vec<String> = seeds.map(|seed| format!("{seed}\n")).collect();
    let written = fs::OpenOptions::new()
        .append(true)
        .open(file)
        .and_then(|mut file| file.write_all(lines.concat().as_bytes()));
    written.map_err(|error| Failure::machine(format!("{}: {error}; name a writable file", file.display())))
}

#[allow(clippy::disallowed_methods, reason = "this is where the files of a seed are written")]
fn write(file: &Path, text: &str) -> Result<(), Failure> {
    fs::write(file, text).map_err(|error| {
        Failure::machine(format!("{}: {error}; run this in a writable folder", file.display()))
    })
}
