//! `byway-bench`: Byway's coder and others, interleaved in one run; the protocol core, stage by
//! stage; packet queues of a link; network state; windows of images; and relays on real sockets.
//!
//! It is a separate crate because other builds should not need the peers and their dependencies.
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `contender` | interface of every coder in the comparison |
//! | `contenders` | Byway's engines, the peers, and the bare read loop |
//! | `goals` | goals of the coder, and their verdicts |
//! | `measure` | interleaved timing |
//! | `network_state` | time of a sender's window, and of a table of network state |
//! | `protocol` | throughput of the protocol core, stage by stage |
//! | `queues` | time of a packet through each queue of a link |
//! | `report` | tables and JSON of the comparison |
//! | `ring` | ring of batches, whose buffers are cold |
//! | `shape` | shapes of the comparison |
//! | `sockets` | throughput of relays on real sockets |
//! | `view` | time of a large image's index, and of a request for a window |

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a benchmark prints, and reads the clock"
)]

mod contender;
mod contenders;
mod goals;
mod measure;
mod network_state;
mod protocol;
mod queues;
mod report;
mod ring;
mod shape;
mod sockets;
mod view;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use byway_code::Engine;
use clap::{Parser, Subcommand};

use goals::Verdict;
use report::Report;
use shape::SHAPES;

/// Compare Byway's erasure coder with others and print the ratios of their times.
///
/// Every coder has one short turn in each round, in random order, on the same 4 MiB ring of
/// buffers, pinned to one core. A ratio is the median over all rounds of the peer's time divided by
/// Byway's in the same round. Machines differ and are noisy: transfer ratios, never nanoseconds.
/// The layout of memory alone changes ratios by several per cent. "read-loop" is a plain loop that
/// only reads the source packets. Decoding includes the setup for a pattern of losses. Two effects
/// favour peers: reed-solomon-erasure has cached every pattern, and slow coders decode few batches
/// in a turn, which the cache may still contain.
#[derive(Debug, Parser)]
#[command(name = "byway-bench", version, args_conflicts_with_subcommands = true)]
struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    /// Rounds of each shape; more rounds give steadier medians.
    #[arg(long, default_value_t = 101, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Measure this engine only (naive, table, ssse3, avx2, gfni-avx2, gfni-avx512, neon).
    #[arg(long, env = "BYWAY_ENGINE")]
    engine: Option<Engine>,
    /// File for the result as JSON.
    #[arg(long, value_name = "FILE", default_value = "target/bench/code.json")]
    output: PathBuf,
    /// Print the JSON instead of the tables.
    #[arg(long)]
    json: bool,
    /// Fail if a goal is missed or could not be measured; for a quiet machine with AVX-512, GFNI
    /// and ISA-L.
    #[arg(long)]
    check: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Protocol(protocol::ProtocolOptions),
    Queues(queues::QueuesOptions),
    State(network_state::StateOptions),
    Sockets(sockets::SocketsOptions),
    Threads(sockets::threads::ThreadsOptions),
    View(view::ViewOptions),
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    match &options.command {
        Some(Command::Protocol(options)) => protocol(options),
        Some(Command::Queues(options)) => queues(options),
        Some(Command::State(options)) => network_state(options),
        Some(Command::Sockets(options)) => sockets(options),
        Some(Command::Threads(options)) => threads(options),
        Some(Command::View(options)) => view(options),
        None => coder(&options),
    }
}

/// Measures the protocol core stage by stage, and prints the results.
fn protocol(options: &protocol::ProtocolOptions) -> Result<ExitCode> {
    pin();
    eprintln!("{}, one pinned thread", processor());
    let all_met = protocol::run(options)?;
    Ok(if options.must_meet_goals() && !all_met { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Measures the packet queues of a link, and prints the results.
fn queues(options: &queues::QueuesOptions) -> Result<ExitCode> {
    pin();
    if !options.is_for_machines() {
        eprintln!("{}, one pinned thread", processor());
    }
    let is_met = queues::run(options)?;
    Ok(if options.must_meet_goals() && !is_met { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Measures network state, and prints the results.
fn network_state(options: &network_state::StateOptions) -> Result<ExitCode> {
    pin();
    if !options.is_for_machines() {
        eprintln!("{}, one pinned thread", processor());
    }
    let all_met = network_state::run(options)?;
    Ok(if options.must_meet_goals() && !all_met { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Measures windows of a large image, and prints the results.
fn view(options: &view::ViewOptions) -> Result<ExitCode> {
    pin();
    if !options.is_for_machines() {
        eprintln!("{}, one pinned thread", processor());
    }
    let all_met = view::run(options)?;
    Ok(if options.must_meet_goals() && !all_met { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Measures relays on real sockets, and prints the results.
fn sockets(options: &sockets::SocketsOptions) -> Result<ExitCode> {
    eprintln!("{}, a core for the generator and one for the relay", processor());
    let all_met = sockets::run(options)?;
    Ok(if options.must_meet_goals() && !all_met { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Measures relays over their number of threads, and prints and writes the ratios.
fn threads(options: &sockets::threads::ThreadsOptions) -> Result<ExitCode> {
    eprintln!("{}, a core for each relay and each generator, if there are enough", processor());
    let all_met = sockets::threads::run(options)?;
    Ok(if options.must_meet_goals() && !all_met { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Compares Byway's coder with others, and prints and writes the ratios.
fn coder(options: &Options) -> Result<ExitCode> {
    pin();
    let engines = options.engine.map_or_else(|| Engine::available().collect(), |engine| vec![engine]);
    let (contenders, remarks) = contenders::all(&engines);
    let mut report = Report { cpu: processor(), rows: Vec::new() };
    eprintln!("{}, {} rounds, one pinned thread", report.cpu, options.rounds);
    for remark in &remarks {
        eprintln!("{remark}");
    }
    for shape in SHAPES {
        let times = measure::measure(&shape, &contenders, usize::from(options.rounds));
        report.add(&shape, &times);
        if !options.json {
            println!("\n{}", report::table(&shape, &times));
        }
    }
    let json = serde_json::to_string_pretty(&report)?;
    if options.json {
        println!("{json}");
    } else {
        println!("\nA ratio above 1: Byway is faster. Written to {}.\n\nGoals:", options.output.display());
    }
    let verdicts = goals::verdicts(&report);
    if !options.json {
        for verdict in &verdicts {
            println!("  {verdict}");
        }
    }
    write(&options.output, &json)?;
    let missed = options.check && !verdicts.iter().all(Verdict::is_met);
    if missed && options.json {
        eprintln!("not every goal is met: run without --json to see which");
    }
    Ok(if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Pins this thread to one core; prints a note if the system does not permit it.
fn pin() {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    if !cores.last().is_some_and(|core| core_affinity::set_for_current(*core)) {
        eprintln!("could not pin the thread to one core: expect more noise");
    }
}

fn processor() -> String {
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = information.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.to_owned())
}

fn write(path: &PathBuf, json: &str) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        fs::create_dir_all(folder).with_context(|| format!("making the folder {}", folder.display()))?;
    }
    fs::write(path, format!("{json}\n"))
        .with_context(|| format!("writing {}: choose another place with --output", path.display()))
}
