//! `byway sim`: networks in virtual time.

mod render;
mod swarm;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use byway_config_types::DurationSetting;
use byway_scenario::change::Change;
use byway_scenario::{
    BuildError, CaptureFilter, ImportError, MeasurementFormat, Outcome, Progress, RecordOptions, Scenario,
    StopReason, Subject, TraceLevel, Verdict, import_delays, import_trace,
};
use indicatif::{ProgressBar, ProgressStyle};

use render::Summary;

use crate::exit::{Cause, Failure};
use crate::interrupt;
use crate::parallel;
use crate::run_limits::{RunLimits, RunMonitor};

/// Scenario to run, and changes of it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ScenarioFlags {
    /// Scenario file; docs/scenario-format.md describes the format.
    pub(crate) file: PathBuf,
    /// Override a scenario value, as in `--set flow.web.copies=syn`, `--set "length=90 s"`,
    /// `--set node.client.count=3`; may be repeated. Select one of several tables by its name or
    /// index, from 0 on, or all by `*`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    changes: Vec<Change>,
}

impl ScenarioFlags {
    /// Reads the scenario and applies the changes.
    ///
    /// # Errors
    /// If the file is not found, or the file or a change is invalid.
    pub(crate) fn read(&self) -> Result<Scenario, Failure> {
        Ok(Scenario::read_changed(&self.file, &self.changes, &text)?)
    }
}

/// Networks in virtual time.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum SimCommand {
    /// Run a scenario and show its results. Exit code 6: an expectation is not met.
    Run {
        #[command(flatten)]
        scenario: ScenarioFlags,
        /// Random seed [default: the scenario's]
        #[arg(long)]
        seed: Option<u64>,
        /// Run N consecutive seeds, in parallel.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), default_value_t = 1)]
        seeds: u32,
        /// Print JSON, one line for each seed.
        #[arg(long)]
        json: bool,
        /// Add a table of links: packets, losses by reason, utilisation. JSON always contains it.
        #[arg(long)]
        links: bool,
        #[command(flatten)]
        allowance: RunLimits,
    },
    /// Print the events of a scenario, one a line.
    Trace {
        /// Scenario file.
        file: PathBuf,
        /// Random seed [default: the scenario's]
        #[arg(long)]
        seed: Option<u64>,
        /// Print each step of each packet as well.
        #[arg(long)]
        packets: bool,
    },
    /// Write the packets of links into a file for Wireshark.
    Capture {
        /// Scenario file.
        file: PathBuf,
        /// Capture file, in the pcapng format.
        output: PathBuf,
        /// Random seed [default: the scenario's]
        #[arg(long)]
        seed: Option<u64>,
        /// Capture only the link between these two machines, as in `alice.1,bob.1`; may be
        /// repeated.
        #[arg(long = "link", value_name = "MACHINE,MACHINE", value_parser = two_machines)]
        links: Vec<[String; 2]>,
    },
    /// Check a scenario without running it.
    Check {
        /// Scenario file.
        file: PathBuf,
    },
    /// Convert measured delays into a trace for scenarios: of losses, or with `--delays` of the
    /// delays.
    Import {
        /// File with the measurements.
        file: PathBuf,
        /// Format of the file: the output of `ping`, or columns of sequence numbers and delays in
        /// milliseconds.
        #[arg(long, value_enum, default_value_t = ImportFormat::Ping)]
        format: ImportFormat,
        /// Count packets with a longer delay as lost.
        #[arg(long, value_name = "TIME")]
        late: Option<DurationSetting>,
        /// Make a trace of delays, for `delays` of a link, instead of losses.
        #[arg(long)]
        delays: bool,
        /// Halve the delays, because round trips were measured.
        #[arg(long, requires = "delays")]
        half: bool,
    },
    /// Run random scenarios and check the invariants of all runs. Exit code 6: one is violated.
    Swarm(swarm::SwarmFlags),
    /// Print the reference of the scenario format, as Markdown.
    Format,
}

/// Runs a subcommand of `byway sim`.
///
/// # Errors
/// If the scenario is invalid, or an expectation is not met.
pub(crate) fn run(command: &SimCommand) -> Result<(), Failure> {
    match command {
        SimCommand::Run { scenario: flags, seed, seeds, json, links, allowance } => {
            let scenario = flags.read()?;
            warn_lab_only_keys(&scenario);
            let first = seed.unwrap_or(scenario.seed());
            let form = if *json { OutputFormat::Json } else { OutputFormat::Text { links: *links } };
            let batch = SeedBatch::new(&scenario, first, *seeds, form, *allowance);
            run_seeds(&flags.file, &batch)
        }
        SimCommand::Trace { file, seed, packets } => {
            let scenario = read(file)?;
            let trace = if *packets { TraceLevel::Packets } else { TraceLevel::Changes };
            print_trace(&scenario, seed.unwrap_or(scenario.seed()), trace)
        }
        SimCommand::Capture { file, output, seed, links } => {
            let scenario = read(file)?;
            let captured = if links.is_empty() {
                CaptureFilter::Everything
            } else {
                CaptureFilter::Links(links.clone())
            };
            capture(&scenario, seed.unwrap_or(scenario.seed()), captured, output)
        }
        SimCommand::Check { file } => {
            let scenario = read(file)?;
            scenario.check().map_err(|error| not_built(&error))?;
            let nodes = scenario.node_names().count();
            println!(
                "{}: valid: {} ({nodes} machines, {})",
                file.display(),
                scenario.title(),
                scenario.length()
            );
            Ok(())
        }
        SimCommand::Import { file, format, late, delays, half } => {
            let late = late.map(|late| late.0);
            import(file, *format, |text, format| {
                if *delays {
                    import_delays(text, format, late, *half)
                } else {
                    import_trace(text, format, late)
                }
            })
        }
        SimCommand::Swarm(flags) => swarm::run(flags),
        SimCommand::Format => {
            print!("{}", byway_scenario::reference());
            Ok(())
        }
    }
}

/// Warns on standard error about commands and expectations of a scenario that only `byway lab run`
/// supports.
fn warn_lab_only_keys(scenario: &Scenario) {
    let commands = scenario.commands().len();
    if commands > 0 {
        eprintln!("note: ignoring {commands} commands, which only byway lab run executes");
    }
    let of_command = |verdict: &Verdict| matches!(verdict.of, Subject::Command(_));
    if scenario.expectations().iter().any(of_command) {
        eprintln!("note: expectations of commands are not judged; byway lab run judges them");
    }
}

/// Format of a file with measured delays.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum ImportFormat {
    /// Lines with `icmp_seq=` and `time=`; missing sequence numbers are lost.
    Ping,
    /// A sequence number and a delay in each line, as in `17, 41.2`; a lost packet has `lost` or no
    /// delay, as in `18, lost` or `18`.
    Columns,
}

fn import(
    file: &Path,
    format: ImportFormat,
    make: impl FnOnce(&str, MeasurementFormat) -> Result<String, ImportError>,
) -> Result<(), Failure> {
    let format = match format {
        ImportFormat::Ping => MeasurementFormat::Ping,
        ImportFormat::Columns => MeasurementFormat::Columns,
    };
    let wrong = |message: String| Failure::new(Cause::Settings, format!("{}: {message}", file.display()));
    let text = text(file).map_err(|error| wrong(format!("{error}; name a text file")))?;
    let trace = make(&text, format).map_err(|error| wrong(error.to_string()))?;
    check_write(io::stdout().lock().write_all(trace.as_bytes()))
}

/// Longest file of a scenario or a trace: a loss trace of ten million slots.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Reads a scenario, experiment or trace file as text. Returns an error for files longer than
/// [`FILE_BYTES_MAX`].
#[allow(
    clippy::disallowed_methods,
    reason = "this is where scenarios, experiments and their traces are read"
)]
pub(crate) fn text(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    let length = fs::File::open(file)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if length as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    Ok(text)
}

fn read(file: &Path) -> Result<Scenario, Failure> {
    Ok(Scenario::read(file, &text)?)
}

fn not_built(error: &BuildError) -> Failure {
    Failure::new(Cause::Settings, error)
}

fn print_trace(scenario: &Scenario, seed: u64, trace: TraceLevel) -> Result<(), Failure> {
    let (mut out, mut written) = (io::stdout().lock(), Ok(()));
    let watching = RecordOptions { trace, ..RecordOptions::default() };
    let outcome = scenario.run_observed(seed, &watching, |progress| {
        written = out.write_all(progress.lines.as_bytes());
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(StopReason::Cancelled) }
    });
    outcome.map_err(|error| not_built(&error))?;
    check_write(written)
}

/// Maps an error of writing to standard output to a failure. A closed pipe is no failure, because
/// its reader needs no more.
fn check_write(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::machine(format!(
            "cannot write the output: {error}; write to a disk with free space"
        ))),
        _ => Ok(()),
    }
}

fn two_machines(text: &str) -> Result<[String; 2], String> {
    let two = text.split_once(',').map(|(one, other)| [one.trim().to_owned(), other.trim().to_owned()]);
    two.ok_or_else(|| "name two machines with a comma between them, as in alice.1,bob.1".to_owned())
}

fn capture(scenario: &Scenario, seed: u64, captured: CaptureFilter, output: &Path) -> Result<(), Failure> {
    interrupt::listen()?;
    #[allow(clippy::disallowed_methods, reason = "this is where captures are written")]
    let mut written = fs::File::create(output).map(io::BufWriter::new);
    let watching = RecordOptions { capture: captured, ..RecordOptions::default() };
    let outcome = scenario.run_observed(seed, &watching, |progress| {
        if let Ok(out) = &mut written
            && let Err(error) = out.write_all(&progress.capture)
        {
            written = Err(error);
        }
        if written.is_err() || interrupt::check().is_err() {
            ControlFlow::Break(StopReason::Cancelled)
        } else {
            ControlFlow::Continue(())
        }
    });
    outcome.map_err(|error| not_built(&error))?;
    let ended = written.and_then(|mut out| out.flush());
    ended.map_err(|error| {
        Failure::machine(format!("{}: {error}; name a file on a disk with free space", output.display()))
    })?;
    interrupt::check().map_err(|interrupted| Failure::new(Cause::Interrupted, interrupted))
}

/// Seeds of a scenario that run on several threads. Their outcomes are printed in the order of the
/// seeds.
struct SeedBatch<'a> {
    scenario: &'a Scenario,
    first: u64,
    seeds: u32,
    form: OutputFormat,
    allowance: RunLimits,
    bar: ProgressBar,
}

/// Output format of a seed's outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputFormat {
    Json,
    Text { links: bool },
}

/// Outcomes of the seeds that have run so far.
#[derive(Default)]
struct Results {
    /// Outcomes by index of the seed that cannot be printed yet, because an earlier seed still
    /// runs.
    pending: BTreeMap<usize, Outcome>,
    shown: usize,
    summary: Summary,
    failed: Option<Failure>,
}

/// Steps of the progress bar for one seed.
const PARTS: u64 = 1_000;

impl<'a> SeedBatch<'a> {
    fn new(scenario: &'a Scenario, first: u64, seeds: u32, form: OutputFormat, allowance: RunLimits) -> Self {
        Self { scenario, first, seeds, form, allowance, bar: bar(seeds) }
    }

    /// Runs the seed at this index of the batch; `None` after an interrupt.
    fn run(&self, index: usize) -> Option<Result<Outcome, Failure>> {
        interrupt::check().ok()?;
        let (mut shown, guard) = (0, self.allowance.start(parallel::concurrent_jobs(self.seeds as usize)));
        let seed = self.first.wrapping_add(index as u64);
        let show = |progress| self.show(&progress, &mut shown, guard);
        let outcome = self.scenario.run_observed(seed, &RecordOptions::default(), show);
        Some(outcome.map_err(|error| not_built(&error)))
    }

    /// Prints the pending outcomes that are next in the order of the seeds, and adds them to the
    /// summary.
    fn show_next(&self, results: &mut Results) {
        while let Some(outcome) = results.pending.remove(&results.shown) {
            results.shown += 1;
            results.summary.add(&outcome);
            let text = match self.form {
                OutputFormat::Json => serde_json::to_string(&outcome).expect("an outcome is JSON") + "\n",
                OutputFormat::Text { links } => render::outcome(&outcome, links),
            };
            let written = self.bar.suspend(|| io::stdout().lock().write_all(text.as_bytes()));
            results.failed = results.failed.take().or(check_write(written).err());
        }
    }

    fn show(&self, progress: &Progress, shown: &mut u64, guard: RunMonitor) -> ControlFlow<StopReason> {
        let part = progress.now.as_nanos() / (progress.length.as_nanos() / PARTS).max(1);
        self.bar.inc(part.saturating_sub(*shown));
        *shown = part;
        guard.check(progress)
    }
}

fn bar(seeds: u32) -> ProgressBar {
    let bar = if io::stderr().is_terminal() {
        ProgressBar::new(u64::from(seeds) * PARTS)
    } else {
        ProgressBar::hidden()
    };
    if let Ok(style) = ProgressStyle::with_template("{wide_bar:.cyan} {percent} %, {eta} left") {
        bar.set_style(style);
    }
    bar
}

fn run_seeds(file: &Path, batch: &SeedBatch<'_>) -> Result<(), Failure> {
    interrupt::listen()?;
    let mut results = Results::default();
    let each = |index| batch.run(index);
    parallel::run_jobs(batch.seeds as usize, each, |index, outcome| {
        match outcome {
            Some(Ok(outcome)) => drop(results.pending.insert(index, outcome)),
            Some(Err(failure)) => results.failed = Some(failure),
            None => return false,
        }
        batch.show_next(&mut results);
        results.failed.is_none()
    });
    batch.bar.finish_and_clear();
    let is_text = batch.form != OutputFormat::Json;
    let Results { shown: count, summary, failed, .. } = results;
    if let Some(failure) = failed {
        return Err(failure);
    }
    if is_text && count > 1 {
        check_write(io::stdout().lock().write_all(summary.text().as_bytes()))?;
    }
    interrupt::check().map_err(|interrupted| Failure::new(Cause::Interrupted, interrupted))?;
    match summary.unmet() {
        0 => Ok(()),
        unmet => {
            let message = format!("{}: expectations not met by {unmet} of {count} seeds", file.display());
            Err(Failure::new(Cause::Unmet, message))
        }
    }
}
