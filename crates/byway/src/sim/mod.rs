//! `byway sim`: networks in virtual time.

mod render;
mod swarm;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use byway_scenario::change::Change;
use byway_scenario::{
    BuildError, Captured, Halt, ImportError, MeasuredFormat, Outcome, Progress, Scenario, Subject, Trace,
    Verdict, Watching, import_delays, import_trace,
};
use byway_typed::TypedDuration;
use indicatif::{ProgressBar, ProgressStyle};

use render::Summary;

use crate::allowance::{Allowance, Guard};
use crate::exit::{Cause, Failure};
use crate::interrupt;
use crate::parallel;

/// Which scenario, and what is different in it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ScenarioFlags {
    /// The scenario; what it may say is in docs/scenario-format.md.
    pub(crate) file: PathBuf,
    /// Has another value there than the file: `--set flow.web.copies=syn`, `--set "length=90 s"`, `--set node.client.count=3`. Of several tables, one
    /// is meant by its name or, from 0 on, its place, and `*` means all. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    changes: Vec<Change>,
}

impl ScenarioFlags {
    /// # Errors
    /// If the file is not there, or something in it, or in what is changed, is wrong.
    pub(crate) fn read(&self) -> Result<Scenario, Failure> {
        Ok(Scenario::read_changed(&self.file, &self.changes, &text)?)
    }
}

/// Networks in virtual time.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum SimCommand {
    /// Runs a scenario, and says what came of it. Exit code 6: not what it expects.
    Run {
        #[command(flatten)]
        scenario: ScenarioFlags,
        /// What chance begins with; by default what the scenario says.
        #[arg(long)]
        seed: Option<u64>,
        /// Runs so many seeds, one after the other, from that one on; on all cores.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), default_value_t = 1)]
        seeds: u32,
        /// As JSON, one line for each seed.
        #[arg(long)]
        json: bool,
        /// A table of the links, too: packets, losses by reason, how full they were. The JSON has it anyway.
        #[arg(long)]
        links: bool,
        #[command(flatten)]
        allowance: Allowance,
    },
    /// Prints what happens in a scenario, one line each.
    Trace {
        /// The scenario.
        file: PathBuf,
        /// What chance begins with; by default what the scenario says.
        #[arg(long)]
        seed: Option<u64>,
        /// Each step of each packet, too.
        #[arg(long)]
        packets: bool,
    },
    /// Writes what goes over links into a file for Wireshark.
    Capture {
        /// The scenario.
        file: PathBuf,
        /// The capture, in pcapng's format.
        output: PathBuf,
        /// What chance begins with; by default what the scenario says.
        #[arg(long)]
        seed: Option<u64>,
        /// Only the link between these two, as in `alice.1,bob.1`; may be given several times.
        #[arg(long = "link", value_name = "MACHINE,MACHINE", value_parser = two_machines)]
        links: Vec<[String; 2]>,
    },
    /// Says whether a scenario is right, without running it.
    Check {
        /// The scenario.
        file: PathBuf,
    },
    /// Makes a trace for scenarios from measured delays: of losses, or of the delays themselves.
    Import {
        /// What was measured.
        file: PathBuf,
        /// What it looks like: the output of `ping`, or columns of numbers and delays in milliseconds.
        #[arg(long, value_enum, default_value_t = ImportFormat::Ping)]
        format: ImportFormat,
        /// What takes longer is lost, too.
        #[arg(long, value_name = "TIME")]
        late: Option<TypedDuration>,
        /// Makes a trace of delays, for `delays` of a link, and not of losses.
        #[arg(long)]
        delays: bool,
        /// Halves the delays: round trips were measured, of which each way takes half.
        #[arg(long, requires = "delays")]
        half: bool,
    },
    /// Runs random scenarios, and says whether all is as it must be whatever happens. Exit code 6 if not.
    Swarm(swarm::SwarmFlags),
    /// Prints the reference of everything that a scenario may say, as Markdown.
    Format,
}

/// Does it.
///
/// # Errors
/// If the scenario is wrong, or does not come out as it expects.
pub(crate) fn run(command: &SimCommand) -> Result<(), Failure> {
    match command {
        SimCommand::Run { scenario: flags, seed, seeds, json, links, allowance } => {
            let scenario = flags.read()?;
            note_what_is_of_labs(&scenario);
            let first = seed.unwrap_or(scenario.seed());
            let form = if *json { Form::Json } else { Form::Text { links: *links } };
            let batch = Batch::new(&scenario, first, *seeds, form, *allowance);
            run_seeds(&flags.file, &batch)
        }
        SimCommand::Trace { file, seed, packets } => {
            let scenario = read(file)?;
            let trace = if *packets { Trace::Packets } else { Trace::Changes };
            print_trace(&scenario, seed.unwrap_or(scenario.seed()), trace)
        }
        SimCommand::Capture { file, output, seed, links } => {
            let scenario = read(file)?;
            let captured =
                if links.is_empty() { Captured::Everything } else { Captured::Links(links.clone()) };
            capture(&scenario, seed.unwrap_or(scenario.seed()), captured, output)
        }
        SimCommand::Check { file } => {
            let scenario = read(file)?;
            scenario.check().map_err(|error| not_built(&error))?;
            let nodes = scenario.node_names().count();
            println!(
                "{}: right: {} ({nodes} machines, {})",
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

/// Says what of a scenario no run in virtual time has.
fn note_what_is_of_labs(scenario: &Scenario) {
    let commands = scenario.commands().len();
    if commands > 0 {
        eprintln!("note: {commands} commands are passed over, as a lab alone runs programs: byway lab run");
    }
    let of_command = |verdict: &Verdict| matches!(verdict.of, Subject::Command(_));
    if scenario.expectations().iter().any(of_command) {
        eprintln!("note: what is expected of commands is not judged: byway lab run does");
    }
}

/// What measured delays look like.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum ImportFormat {
    /// Lines with `icmp_seq=` and `time=`; what is missing is lost.
    Ping,
    /// A number and a delay in each line, as in `17, 41.2`; a lost packet has `lost`, or no delay, as in `18, lost` or `18`.
    Columns,
}

fn import(
    file: &Path,
    format: ImportFormat,
    make: impl FnOnce(&str, MeasuredFormat) -> Result<String, ImportError>,
) -> Result<(), Failure> {
    let format = match format {
        ImportFormat::Ping => MeasuredFormat::Ping,
        ImportFormat::Columns => MeasuredFormat::Columns,
    };
    let wrong = |message: String| Failure::new(Cause::Settings, format!("{}: {message}", file.display()));
    let text = text(file).map_err(|error| wrong(format!("{error}; name a text file")))?;
    let trace = make(&text, format).map_err(|error| wrong(error.to_string()))?;
    shown(io::stdout().lock().write_all(trace.as_bytes()))
}

/// Longest file that a scenario or a trace is read from: a loss trace of ten million slots.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// A file's text.
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

fn print_trace(scenario: &Scenario, seed: u64, trace: Trace) -> Result<(), Failure> {
    let (mut out, mut written) = (io::stdout().lock(), Ok(()));
    let watching = Watching { trace, ..Watching::default() };
    let outcome = scenario.run_watched(seed, &watching, |progress| {
        written = out.write_all(progress.lines.as_bytes());
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(Halt::Unwanted) }
    });
    outcome.map_err(|error| not_built(&error))?;
    shown(written)
}

/// Whoever reads along may have seen enough; all else is an error.
fn shown(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::machine(format!("the output: {error}; write to a disk with room")))
        }
        _ => Ok(()),
    }
}

fn two_machines(text: &str) -> Result<[String; 2], String> {
    let two = text.split_once(',').map(|(one, other)| [one.trim().to_owned(), other.trim().to_owned()]);
    two.ok_or_else(|| "name two machines and a comma between, as in alice.1,bob.1".to_owned())
}

fn capture(scenario: &Scenario, seed: u64, captured: Captured, output: &Path) -> Result<(), Failure> {
    interrupt::listen()?;
    #[allow(clippy::disallowed_methods, reason = "this is where captures are written")]
    let mut written = fs::File::create(output).map(io::BufWriter::new);
    let watching = Watching { capture: captured, ..Watching::default() };
    let outcome = scenario.run_watched(seed, &watching, |progress| {
        if let Ok(out) = &mut written
            && let Err(error) = out.write_all(&progress.capture)
        {
            written = Err(error);
        }
        if written.is_err() || interrupt::check().is_err() {
            ControlFlow::Break(Halt::Unwanted)
        } else {
            ControlFlow::Continue(())
        }
    });
    outcome.map_err(|error| not_built(&error))?;
    let ended = written.and_then(|mut out| out.flush());
    ended.map_err(|error| {
        Failure::machine(format!("{}: {error}; name a file on a disk with room", output.display()))
    })?;
    interrupt::check().map_err(|interrupted| Failure::new(Cause::Interrupted, interrupted))
}

/// Seeds under way on several threads; what comes of them is shown in their order.
struct Batch<'a> {
    scenario: &'a Scenario,
    first: u64,
    seeds: u32,
    form: Form,
    allowance: Allowance,
    bar: ProgressBar,
}

/// How outcomes are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Text { links: bool },
}

/// What came of seeds so far.
#[derive(Default)]
struct Results {
    /// Those whose turn to be shown has not come.
    waiting: BTreeMap<usize, Outcome>,
    shown: usize,
    summary: Summary,
    failed: Option<Failure>,
}

/// The parts of a run that a bar shows.
const PARTS: u64 = 1_000;

impl<'a> Batch<'a> {
    fn new(scenario: &'a Scenario, first: u64, seeds: u32, form: Form, allowance: Allowance) -> Self {
        Self { scenario, first, seeds, form, allowance, bar: bar(seeds) }
    }

    /// Runs a seed; `None` if nobody waits for it any more.
    fn run(&self, place: usize) -> Option<Result<Outcome, Failure>> {
        interrupt::check().ok()?;
        let (mut shown, guard) = (0, self.allowance.begin(parallel::at_a_time(self.seeds as usize)));
        let seed = self.first.wrapping_add(place as u64);
        let show = |progress| self.show(&progress, &mut shown, guard);
        let outcome = self.scenario.run_watched(seed, &Watching::default(), show);
        Some(outcome.map_err(|error| not_built(&error)))
    }

    /// Shows those whose turn it is.
    fn show_next(&self, results: &mut Results) {
        while let Some(outcome) = results.waiting.remove(&results.shown) {
            results.shown += 1;
            results.summary.add(&outcome);
            let text = match self.form {
                Form::Json => serde_json::to_string(&outcome).expect("an outcome is JSON") + "\n",
                Form::Text { links } => render::outcome(&outcome, links),
            };
            let written = self.bar.suspend(|| io::stdout().lock().write_all(text.as_bytes()));
            results.failed = results.failed.take().or(shown(written).err());
        }
    }

    fn show(&self, progress: &Progress, shown: &mut u64, guard: Guard) -> ControlFlow<Halt> {
        let part = progress.now.as_nanos() / (progress.length.as_nanos() / PARTS).max(1);
        self.bar.inc(part.saturating_sub(*shown));
        *shown = part;
        guard.look(progress)
    }
}

fn bar(seeds: u32) -> ProgressBar {
    let bar = if io::stderr().is_terminal() {
        ProgressBar::new(u64::from(seeds) * PARTS)
    } else {
        ProgressBar::hidden()
    };
    if let Ok(style) = ProgressStyle::with_template("{wide_bar:.cyan} {percent} %, {eta} to go") {
        bar.set_style(style);
    }
    bar
}

fn run_seeds(file: &Path, batch: &Batch<'_>) -> Result<(), Failure> {
    interrupt::listen()?;
    let mut results = Results::default();
    let each = |place| batch.run(place);
    parallel::each(batch.seeds as usize, each, |place, outcome| {
        match outcome {
            Some(Ok(outcome)) => drop(results.waiting.insert(place, outcome)),
            Some(Err(failure)) => results.failed = Some(failure),
            None => return false,
        }
        batch.show_next(&mut results);
        results.failed.is_none()
    });
    batch.bar.finish_and_clear();
    let is_text = batch.form != Form::Json;
    let Results { shown: count, summary, failed, .. } = results;
    if let Some(failure) = failed {
        return Err(failure);
    }
    if is_text && count > 1 {
        shown(io::stdout().lock().write_all(summary.text().as_bytes()))?;
    }
    interrupt::check().map_err(|interrupted| Failure::new(Cause::Interrupted, interrupted))?;
    match summary.unmet() {
        0 => Ok(()),
        unmet => {
            let message = format!("{}: not as expected with {unmet} of {count} seeds", file.display());
            Err(Failure::new(Cause::Unmet, message))
        }
    }
}
