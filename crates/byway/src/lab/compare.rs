//! `byway lab compare`: runs of the same scenario in all modes of the overlay, and a table of their
//! measures.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;

use super::folder::Folder;
use super::outcome::LabOutcome;
use super::overlay_mode::OverlayMode;
use super::scenario_run::Run;
use super::{here, network, read, void};
use crate::exit::{Cause, Failure};
use crate::sim::ScenarioFlags;
use crate::table::{aligned, rounded};

/// Relay counters that the comparison shows, with their titles in the table.
const RELAY_COUNTERS: [(&str, &str); 5] = [
    ("ingress_copies", "relays: copies accepted"),
    ("egress_cached", "relays: repairs from cache"),
    ("egress_cooperative", "relays: cooperative repairs"),
    ("egress_in_stream", "relays: in-stream repair packets"),
    ("egress_forwarded", "relays: packets forwarded"),
];

/// Agent counters that the comparison shows, with their titles in the table.
const AGENT_COUNTERS: [(&str, &str); 2] =
    [("lost_direct", "agents: lost on direct paths"), ("repaired", "agents: repaired")];

/// Options of `byway lab compare`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CompareFlags {
    #[command(flatten)]
    scenario: ScenarioFlags,
    /// Random seed [default: the scenario's]
    #[arg(long)]
    seed: Option<u64>,
    /// Run N consecutive seeds; the table then has medians.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000), default_value_t = 1)]
    seeds: u32,
    /// Keep the files of all runs in this folder, which must be empty or new. Each run gets a
    /// folder of its own.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Results of all runs of a comparison.
#[derive(Debug, Default, Serialize)]
struct Comparison {
    title: String,
    seeds: Vec<u64>,
    measures: Vec<Measure>,
    /// Outcomes of the runs that neither failed nor are void.
    runs: Vec<LabOutcome>,
    failed: Vec<FailedRun>,
    /// Number of void runs, in which this machine was too busy to forward packets on time.
    void: usize,
}

/// A run in which a program has failed.
#[derive(Debug, Serialize)]
struct FailedRun {
    seed: u64,
    world: OverlayMode,
    why: String,
}

/// One measure in all modes of the overlay: its median over the seeds whose runs have it.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Measure {
    name: String,
    bare: Option<f64>,
    without_relays: Option<f64>,
    byway: Option<f64>,
}

/// Runs the scenario in all modes and prints the comparison.
///
/// # Errors
/// If the scenario is invalid, the machine does not permit it, or a program has failed.
pub(super) fn run(flags: &CompareFlags) -> anyhow::Result<()> {
    let CompareFlags { scenario: of, seed, seeds, keep, json } = flags;
    let scenario = read(of)?;
    let (first, here) = (seed.unwrap_or(scenario.seed()), here(&of.file)?);
    let seeds: Vec<u64> = (0..u64::from(*seeds)).map(|nth| first.wrapping_add(nth)).collect();
    let mut comparison =
        Comparison { title: scenario.title().to_owned(), seeds: seeds.clone(), ..Comparison::default() };
    let of_first = network(&scenario, first)?;
    let run = Run {
        scenario: &scenario,
        network: &of_first,
        seed: first,
        world: OverlayMode::Byway,
        here: &here,
        capture: None,
    };
    // Missing programs must be reported before the first machine exists.
    run.commands(Path::new(""))?;
    let worlds = OverlayMode::of(&of_first);
    let (total, folder) = (seeds.len() * worlds.len(), Folder::new(keep.as_deref())?);
    for (nth, seed) in seeds.into_iter().enumerate() {
        let network = network(&scenario, seed)?;
        for (index, world) in worlds.iter().copied().enumerate() {
            let number = nth * worlds.len() + index + 1;
            eprintln!("run {number} of {total}: seed {seed}, {}", world.name());
            let own = folder.path().join(format!("{}-{seed}", world.name().replace(' ', "-")));
            comparison.add(Run { network: &network, seed, world, ..run }, &own)?;
        }
    }
    comparison.measures = measures(&comparison.runs);
    if *json {
        println!("{}", serde_json::to_string(&comparison)?);
    } else {
        print!("{}", comparison.text());
    }
    comparison.verdict()
}

impl Comparison {
    /// Performs a run of one mode with one seed, with its files in `folder`. Records its outcome, a
    /// failed program, or that the run is void.
    fn add(&mut self, run: Run<'_>, folder: &Path) -> anyhow::Result<()> {
        std::fs::create_dir(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let Run { seed, world, .. } = run;
        match run.run(folder) {
            Ok(outcome) if outcome.carrier.is_void => {
                self.void += 1;
                eprintln!("note: this run is void: the machine was too busy to forward packets on time");
            }
            Ok(outcome) => self.runs.push(outcome),
            Err(error) => match error.downcast_ref::<Failure>() {
                // The program may succeed in another mode.
                Some(failure) if failure.cause() == Cause::Unmet => {
                    eprintln!("note: {failure}");
                    self.failed.push(FailedRun { seed, world, why: failure.to_string() });
                }
                _ => return Err(error),
            },
        }
        Ok(())
    }

    fn text(&self) -> String {
        let of = match self.seeds.as_slice() {
            [seed] => format!("seed {seed}"),
            seeds => format!("medians of {} seeds", seeds.len()),
        };
        let mut rows = vec![
            ["", OverlayMode::Bare.name(), OverlayMode::WithoutRelays.name(), OverlayMode::Byway.name()]
                .map(str::to_owned),
        ];
        let format_value = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), rounded);
        rows.extend(self.measures.iter().map(|measure| {
            let Measure { name, bare, without_relays, byway } = measure;
            [name.clone(), format_value(*bare), format_value(*without_relays), format_value(*byway)]
        }));
        let mut text = format!("{}, {of}\n\n{}", self.title, aligned(&rows));
        for FailedRun { seed, world, why } in &self.failed {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\nFAILED: seed {seed}, {}: {why}", world.name());
        }
        if self.void > 0 {
            let _ = writeln!(text, "\nVOID: {} runs, excluded from the table.", self.void);
        }
        text
    }

    /// Checks that no run of the comparison failed or is void.
    ///
    /// # Errors
    /// If a run failed or is void.
    fn verdict(&self) -> anyhow::Result<()> {
        match (self.failed.len(), self.void) {
            (0, 0) => Ok(()),
            (0, _) => Err(void().into()),
            (failed, _) => {
                let message = format!("programs failed in {failed} runs, which are excluded from the table");
                Err(Failure::new(Cause::Unmet, message).into())
            }
        }
    }
}

/// Returns the median of each measure in each mode, in the order in which runs report them. Runs
/// with Byway come first, because they have the most measures.
fn measures(runs: &[LabOutcome]) -> Vec<Measure> {
    let mut names: Vec<String> = Vec::new();
    let mut values: BTreeMap<(String, OverlayMode), Vec<f64>> = BTreeMap::new();
    let mut runs: Vec<&LabOutcome> = runs.iter().collect();
    runs.sort_by_key(|run| std::cmp::Reverse(run.world));
    for run in runs {
        for (name, value) in of_run(run) {
            if !names.contains(&name) {
                names.push(name.clone());
            }
            values.entry((name, run.world)).or_default().push(value);
        }
    }
    let measure = |name: String| {
        let [bare, without_relays, byway] = OverlayMode::ALL
            .map(|world| values.get(&(name.clone(), world)).and_then(|values| median(values)));
        Measure { name, bare, without_relays, byway }
    };
    names.into_iter().map(measure).collect()
}

fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}

/// Returns the measures of a run as name and value: those of programs, of flows, and of machines.
fn of_run(run: &LabOutcome) -> Vec<(String, f64)> {
    let mut found = Vec::new();
    for command in &run.commands {
        let mut add = |name: &str, value: f64| found.push((format!("{}: {name}", command.name), value));
        if let Some(seconds) = command.seconds {
            add("seconds", seconds);
        }
        command.measures.iter().for_each(|(name, value)| add(name, *value));
    }
    for flows in &run.flows {
        let counts = [
            ("sent", flows.sent),
            ("late", flows.late),
            ("missing", flows.missing),
            ("lost", flows.lost_direct),
            ("repaired", flows.repaired),
        ];
        let delays = flows
            .delay_ms
            .map(|delays| [("p50 ms", delays.p50), ("p95 ms", delays.p95), ("p99 ms", delays.p99)]);
        let counts = counts.into_iter().filter_map(|(name, count)| Some((name, number(count?))));
        let all = counts.chain(delays.into_iter().flatten());
        found.extend(all.map(|(name, value)| (format!("{}: {name}", flows.name), value)));
    }
    found.extend(of_machines(run));
    found
}

fn of_machines(run: &LabOutcome) -> Vec<(String, f64)> {
    let sum = |is_relay: bool, name: &str| {
        let nodes = run.nodes.iter().filter(|node| node.is_relay == is_relay);
        nodes.filter_map(|node| node.counted.get(name)).sum::<u64>()
    };
    let mut sums = Vec::new();
    let agents = AGENT_COUNTERS.iter().map(|(name, title)| (*title, sum(false, name)));
    let relays = RELAY_COUNTERS.iter().map(|(name, title)| (*title, sum(true, name)));
    // Without Byway, no node counts.
    if run.world.has_nodes() {
        sums.extend(agents.chain(relays));
        sums.extend(costs(run));
    }
    let sent_bytes = |is_relay: bool| {
        run.nodes.iter().filter(|node| node.is_relay == is_relay).map(|node| node.sent_bytes).sum::<u64>()
    };
    sums.push(("relays: IP bytes sent", sent_bytes(true)));
    sums.push(("other machines: IP bytes sent", sent_bytes(false)));
    sums.into_iter().map(|(name, count)| (name.to_owned(), number(count))).collect()
}

/// Returns the resources that nodes used: CPU time as sums over agents and over relays, and the
/// peak memory of the largest agent.
fn costs(run: &LabOutcome) -> [(&'static str, u64); 3] {
    let of = |is_relay: bool| run.nodes.iter().filter(move |node| node.is_relay == is_relay);
    let memory = of(false).map(|node| node.peak_memory_bytes / 1_000).max().unwrap_or_default();
    [
        ("agents: CPU ms", of(false).map(|node| node.cpu_ms).sum()),
        ("agents: peak memory kB", memory),
        ("relays: CPU ms", of(true).map(|node| node.cpu_ms).sum()),
    ]
}

#[allow(clippy::cast_precision_loss, reason = "counts of minutes are far below 2^53")]
const fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::commands::CommandOutcome;
    use crate::lab::outcome::{CarrierOutcome, NodeOutcome};

    fn outcome(world: OverlayMode, seed: u64, p50_ms: f64, cached: u64) -> LabOutcome {
        let command = CommandOutcome {
            name: "ask".to_owned(),
            node: "alice".to_owned(),
            exit: Some(0),
            seconds: None,
            measures: [("p50_ms".to_owned(), p50_ms)].into(),
        };
        let relay = NodeOutcome {
            name: "east".to_owned(),
            is_relay: true,
            sent: 1,
            sent_bytes: cached * 100,
            counted: [("egress_cached".to_owned(), cached)].into(),
            cpu_ms: 10,
            peak_memory_bytes: 5_000,
        };
        LabOutcome {
            title: "A look-up".to_owned(),
            seed,
            world,
            flows: Vec::new(),
            commands: vec![command],
            nodes: vec![relay],
            links: Vec::new(),
            expectations: Vec::new(),
            not_judged: Vec::new(),
            repeated: 0,
            carrier: CarrierOutcome::default(),
        }
    }

    #[test]
    fn worlds_stand_side_by_side_with_the_medians_of_their_seeds() {
        let runs = [
            outcome(OverlayMode::Bare, 1, 90.0, 0),
            outcome(OverlayMode::Byway, 1, 50.0, 7),
            outcome(OverlayMode::Byway, 2, 40.0, 9),
            outcome(OverlayMode::Byway, 3, 45.0, 8),
        ];
        let measures = measures(&runs);
        let of = |name: &str| {
            let measure = measures.iter().find(|measure| measure.name == name).expect(name);
            [measure.bare, measure.without_relays, measure.byway]
        };
        assert_eq!(of("ask: p50_ms"), [Some(90.0), None, Some(45.0)]);
        assert_eq!(of("relays: repairs from cache"), [None, None, Some(8.0)]);
        assert_eq!(of("relays: CPU ms"), [None, None, Some(10.0)]);
        assert_eq!(of("relays: IP bytes sent"), [Some(0.0), None, Some(800.0)]);
    }
}
