//! `byway experiment`: runs published results again, and reports the verdicts.

use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use byway_experiment::{
    Experiment, Finding, Options, Results, file_of, markdown, page, score_calls, svg, terminal,
};
use indicatif::{ProgressBar, ProgressStyle};

use crate::exit::{Cause, Failure};
use crate::interrupt;
use crate::parallel;
use crate::run_limits::RunLimits;
use crate::sim::text;
use crate::table::aligned;

/// Published results, measured again in virtual time.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ExperimentCommand {
    /// Run experiments and write a table, plots and a verdict of each.
    Run {
        /// Experiments to run, such as `rec-paths` [default: all]
        ids: Vec<String>,
        /// Run longer, and with more seeds.
        #[arg(long)]
        full: bool,
        /// Run with these seeds instead of each experiment's own: `1,2,3`.
        #[arg(long, value_name = "SEEDS", value_delimiter = ',')]
        seeds: Option<Vec<u64>>,
        /// Folder of the public datasets, which models use besides their own tables.
        #[arg(long, value_name = "FOLDER", env = "BYWAY_DATA")]
        data: Option<PathBuf>,
        /// Print JSON, one line for each experiment.
        #[arg(long)]
        json: bool,
        /// End with exit code 6 if a target is missed.
        #[arg(long)]
        strict: bool,
        #[command(flatten)]
        allowance: RunLimits,
        #[command(flatten)]
        folders: Folders,
    },
    /// List all experiments.
    List {
        /// Print JSON, one line for each experiment.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        folders: Folders,
    },
    /// Rate measured calls by the E-model of ITU-T G.107 for AMR at 12.2 kbit/s, as JSON.
    Calls {
        /// File with one call a line: the delay of each packet in milliseconds, or `lost`,
        /// separated by blanks. A packet holds 20 ms of speech.
        file: PathBuf,
    },
    /// Write one page with all results so far.
    Report {
        /// Print a table of all targets as Markdown instead.
        #[arg(long)]
        markdown: bool,
        #[command(flatten)]
        folders: Folders,
    },
}

/// Folders of experiments and results.
#[derive(Debug, clap::Args)]
pub(crate) struct Folders {
    /// Folder of the experiments.
    #[arg(long, value_name = "FOLDER", default_value = "experiments")]
    experiments: PathBuf,
    /// Folder for the results.
    #[arg(long, value_name = "FOLDER", default_value = "target/experiments")]
    output: PathBuf,
}

/// Runs a subcommand of `byway experiment`.
///
/// # Errors
/// If an experiment is invalid or cannot run, or misses a target with `--strict`.
pub(crate) fn run(command: &ExperimentCommand) -> Result<(), Failure> {
    match command {
        ExperimentCommand::Run { ids, full, seeds, data, json, strict, allowance, folders } => {
            let options = Options { is_full: *full, seeds: seeds.clone(), data: data.clone() };
            let ids = if ids.is_empty() { all(folders)? } else { ids.clone() };
            let missed = run_all(&ids, &options, *json, *allowance, folders)?;
            if *strict && !missed.is_empty() {
                let message = format!("targets missed: {}", missed.join(", "));
                return Err(Failure::new(Cause::Unmet, message));
            }
            Ok(())
        }
        ExperimentCommand::List { json, folders } => list(*json, folders),
        ExperimentCommand::Calls { file } => calls(file),
        ExperimentCommand::Report { markdown, folders } => report(*markdown, folders),
    }
}

fn calls(file: &Path) -> Result<(), Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::new(Cause::Settings, format!("{}: {error}", file.display()));
    let delays = text(file).map_err(|error| failed(&error))?;
    let scores = score_calls(&delays).map_err(|error| failed(&error))?;
    println!("{}", serde_json::to_string(&scores).map_err(Failure::machine)?);
    Ok(())
}

fn read(id: &str, options: &Options, folders: &Folders) -> Result<Experiment, Failure> {
    Ok(Experiment::read(&file_of(&folders.experiments, id), options, &text)?)
}

/// Lists the names of all experiments: the files `*.toml` in the folder of experiments.
#[allow(clippy::disallowed_methods, reason = "this is where experiments are looked for")]
fn all(folders: &Folders) -> Result<Vec<String>, Failure> {
    let folder = &folders.experiments;
    let failed = |error: io::Error| {
        let message =
            format!("{}: {error}; name the folder of experiments with --experiments", folder.display());
        Failure::new(Cause::Settings, message)
    };
    let mut ids = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_experiment = path.extension().is_some_and(|extension| extension == "toml");
        ids.extend(
            path.file_stem().filter(|_| is_experiment).map(|stem| stem.to_string_lossy().into_owned()),
        );
    }
    if ids.is_empty() {
        let message =
            format!("no experiments found in {}: name their folder with --experiments", folder.display());
        return Err(Failure::new(Cause::Settings, message));
    }
    ids.sort();
    Ok(ids)
}

fn list(json: bool, folders: &Folders) -> Result<(), Failure> {
    let mut rows = vec![["experiment", "about", "runs", "simulated"].map(str::to_owned)];
    for id in all(folders)? {
        let experiment = read(&id, &Options::default(), folders)?;
        let (title, runs, seconds) = (experiment.title(), experiment.runs(), experiment.seconds());
        if json {
            let object = serde_json::json!({ "id": id, "title": title, "runs": runs, "seconds": seconds });
            println!("{object}");
        }
        rows.push([id, title.to_owned(), runs.to_string(), format!("{seconds:.0} s")]);
    }
    if !json {
        print!("{}", aligned(&rows));
    }
    Ok(())
}

/// Milliseconds of simulated time between two updates of the progress bar.
const PARTS: u64 = 1_000;

fn bar(experiments: &[Experiment]) -> ProgressBar {
    let seconds: f64 = experiments.iter().map(Experiment::seconds).sum();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a length of time")]
    let length = (seconds * 1_000.0) as u64;
    let bar = if io::stderr().is_terminal() { ProgressBar::new(length) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar:.cyan} {percent} %, {eta} left") {
        bar.set_style(style);
    }
    bar
}

/// Runs experiments in order, prints and writes the results of each, and returns the names of those
/// that miss a target.
fn run_all(
    ids: &[String],
    options: &Options,
    json: bool,
    allowance: RunLimits,
    folders: &Folders,
) -> Result<Vec<String>, Failure> {
    interrupt::listen()?;
    let experiments: Vec<Experiment> =
        ids.iter().map(|id| read(id, options, folders)).collect::<Result<_, _>>()?;
    let bar = bar(&experiments);
    let mut missed = Vec::new();
    for experiment in &experiments {
        bar.set_message(experiment.id().to_owned());
        let results = run_one(experiment, allowance, &bar)?;
        write(&results, folders)?;
        let text = if json {
            serde_json::to_string(&results).expect("results are JSON") + "\n"
        } else {
            terminal(&results)
        };
        bar.suspend(|| io::stdout().lock().write_all(text.as_bytes())).map_err(|error| unwritten(&error))?;
        if !results.is_met() {
            missed.push(experiment.id().to_owned());
        }
    }
    bar.finish_and_clear();
    Ok(missed)
}

fn unwritten(error: &io::Error) -> Failure {
    Failure::machine(format!("cannot write the output: {error}; write to a disk with free space"))
}

fn run_one(experiment: &Experiment, allowance: RunLimits, bar: &ProgressBar) -> Result<Results, Failure> {
    let mut findings: Vec<Option<Finding>> = (0..experiment.runs()).map(|_| None).collect();
    let mut failed = None;
    let job = |nth| {
        let (mut shown, guard) = (0, allowance.start(parallel::concurrent_jobs(experiment.runs())));
        experiment.run(nth, &mut |progress| {
            let now = progress.now.as_millis();
            if now - shown >= PARTS {
                bar.inc(now - shown);
                shown = now;
            }
            guard.check(progress)
        })
    };
    parallel::run_jobs(experiment.runs(), job, |nth, finding| match finding {
        Ok(finding) => {
            findings[nth] = Some(finding);
            interrupt::check().is_ok()
        }
        Err(error) => {
            failed = Some(Failure::new(Cause::Settings, error));
            false
        }
    });
    interrupt::check().map_err(|interrupted| Failure::new(Cause::Interrupted, interrupted))?;
    match failed {
        Some(failure) => Err(failure),
        None => Ok(experiment.results(findings.into_iter().flatten().collect())),
    }
}

/// Writes the result file of an experiment, and each of its plots as SVG, into a folder of its own.
#[allow(clippy::disallowed_methods, reason = "this is where results are written")]
fn write(results: &Results, folders: &Folders) -> Result<(), Failure> {
    let folder = folders.output.join(&results.id);
    let written = fs::create_dir_all(&folder).and_then(|()| {
        let text = serde_json::to_string_pretty(results).expect("results are JSON") + "\n";
        fs::write(folder.join("result.json"), text)?;
        for (name, plot) in &results.series {
            fs::write(folder.join(format!("{name}.svg")), svg(plot))?;
        }
        Ok(())
    });
    written.map_err(|error| {
        let message =
            format!("{}: {error}; name a folder on a disk with free space with --output", folder.display());
        Failure::machine(message)
    })
}

#[allow(clippy::disallowed_methods, reason = "this is where results are read, and the report is written")]
fn report(as_markdown: bool, folders: &Folders) -> Result<(), Failure> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| {
        let message = format!("{}: {error}; run experiments first: byway experiment run", path.display());
        Failure::new(Cause::Settings, message)
    };
    let mut all = Vec::new();
    let entries = fs::read_dir(&folders.output).map_err(|error| failed(&folders.output, &error))?;
    for entry in entries.flatten() {
        let file = entry.path().join("result.json");
        if file.is_file() {
            let text = text(&file).map_err(|error| failed(&file, &error))?;
            let results: Results = serde_json::from_str(&text).map_err(|error| failed(&file, &error))?;
            all.push(results);
        }
    }
    if all.is_empty() {
        return Err(failed(&folders.output, &"no results found"));
    }
    all.sort_by(|one, other| one.id.cmp(&other.id));
    if as_markdown {
        print!("{}", markdown(&all));
        return Ok(());
    }
    let file = folders.output.join("report.html");
    fs::write(&file, page(&all)).map_err(|error| {
        Failure::machine(format!(
            "{}: {error}; name a folder on a disk with free space with --output",
            file.display()
        ))
    })?;
    println!("{}", file.display());
    Ok(())
}
