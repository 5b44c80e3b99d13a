//! Throughput of a relay on real sockets: on one thread, compared with a bare loop of system calls,
//! and over the number of threads.

mod bare;
mod generator;
mod relays;
pub(crate) mod threads;

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use byway_net::Handle;
use byway_wire::Service;
use clap::Args;
use serde::Serialize;

use crate::measure::median;
use generator::GeneratorCommand;

/// Measure relays on real sockets over loopback: a generator on one core, the relay on another.
///
/// The generator limits the packets in flight to a window, which prevents losses. "packets/s" is
/// the rate of the slower of the two. "per CPU s" is the number of packets that the relay's thread
/// handles in a second of processor time, including the kernel's. It is the rate with a core of its
/// own and a fast enough generator. Ratios are of these. A relay that waits for its core handles
/// more packets at once and seems a little faster, so trust only runs on a quiet machine.
///
/// Rounds are interleaved, and medians count. "bare" is recvmmsg and sendmmsg in a loop; "driver"
/// forwards with Byway's driver. The others are whole ingress relays with authenticated copies from
/// real agents. One forwards; one codes in batches of 10 with 2 repair packets, and in blocks of 5
/// with one. Their output passes the kernel as well.
#[derive(Args, Debug)]
pub(crate) struct SocketsOptions {
    /// Number of rounds; the median counts.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Milliseconds of each turn.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u16).range(50..))]
    turn_ms: u16,
    /// Bytes of each datagram.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u16).range(16..=1_354))]
    bytes: u16,
    /// Flows of the agent.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    flows: u16,
    /// Print JSON instead of the table.
    #[arg(long)]
    json: bool,
    /// Fail if a goal is missed.
    #[arg(long)]
    check: bool,
}

impl SocketsOptions {
    pub(crate) const fn must_meet_goals(&self) -> bool {
        self.check
    }
}

/// Progress of a relay under test, which its thread writes and the benchmark reads.
#[derive(Debug, Default)]
struct Progress {
    packets: AtomicU64,
    /// Packets that the relay forwarded, or used for repair packets.
    served: AtomicU64,
    cpu_nanos: AtomicU64,
}

impl Progress {
    fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }

    fn note(&self, packets: u64, served: u64) {
        self.packets.store(packets, Ordering::Relaxed);
        self.served.store(served, Ordering::Relaxed);
    }

    fn note_cpu_time(&self) {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let nanos = time.tv_sec * 1_000_000_000 + time.tv_nsec;
        self.cpu_nanos.store(u64::try_from(nanos).unwrap_or(0), Ordering::Relaxed);
    }

    fn read(&self) -> [u64; 3] {
        [&self.packets, &self.served, &self.cpu_nanos].map(|value| value.load(Ordering::Relaxed))
    }
}

/// Relay under test with its generator of packets.
struct RelayContender {
    name: &'static str,
    generator: Handle<GeneratorCommand>,
    progress: Arc<Progress>,
    /// Least share of the bare loop's rate that the relay should reach; `None` without a goal.
    goal: Option<f64>,
}

/// Rates of a relay in one turn.
#[derive(Clone, Copy)]
struct TurnRates {
    per_second: f64,
    per_cpu_second: f64,
}

#[derive(Debug, Serialize)]
struct RelayRow {
    relay: &'static str,
    packets_per_second: f64,
    packets_per_cpu_second: f64,
    ratio_to_bare: f64,
    goal: Option<f64>,
}

impl RelayRow {
    fn is_met(&self) -> bool {
        self.goal.is_none_or(|goal| self.ratio_to_bare >= goal)
    }
}

/// Processor cores of the generator and of the relay under test.
#[derive(Clone, Copy)]
struct Cores {
    generator: core_affinity::CoreId,
    relay: core_affinity::CoreId,
}

fn cores() -> Result<Cores> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    match cores[..] {
        [generator, .., relay] => Ok(Cores { generator, relay }),
        _ => anyhow::bail!("two cores are needed: one for the generator, one for the relay"),
    }
}

/// Least share of the bare loop's rate that whole relays should reach.
const GOAL: f64 = 0.7;

/// Runs the comparison of relays and prints its results; `true` if all goals are met.
pub(crate) fn run(options: &SocketsOptions) -> Result<bool> {
    let cores = cores()?;
    let contenders = [
        bare::contender(options, cores)?,
        relays::forwarding_driver(options, cores)?,
        relays::overlay("relay, forwarding", Service::Forwarding, options, cores)?,
        relays::overlay("relay, coding 10+2 and 5+1", Service::Coding, options, cores)?,
    ];
    // Sessions are established and flows registered in this time.
    sleep(Duration::from_secs(3));
    let mut turns = [const { Vec::new() }; 4];
    for round in 0..=options.rounds {
        for (contender, turns) in contenders.iter().zip(&mut turns) {
            let turn = contender.turn(Duration::from_millis(options.turn_ms.into()))?;
            if round > 0 {
                turns.push(turn);
            }
        }
    }
    let rows = rows(&contenders, &turns);
    println!("{}", if options.json { serde_json::to_string_pretty(&rows)? } else { table(&rows) });
    Ok(rows.iter().all(RelayRow::is_met))
}

impl RelayContender {
    /// Runs a turn of a relay: a short warm-up, then the measured time. Fails if the relay served
    /// less than nine tenths of the packets.
    fn turn(&self, length: Duration) -> Result<TurnRates> {
        self.begin_turn()?;
        sleep(length / 4);
        let before = (Instant::now(), self.progress.read());
        sleep(length);
        let after = (Instant::now(), self.progress.read());
        self.end_turn()?;
        sleep(Duration::from_millis(20));
        self.rates(before, after)
    }

    fn begin_turn(&self) -> Result<()> {
        self.send_command(GeneratorCommand::Run)
    }

    fn end_turn(&self) -> Result<()> {
        self.send_command(GeneratorCommand::Rest)
    }

    /// Returns the rates between two readings of the progress, with their times. Fails if the relay
    /// served less than nine tenths of the packets.
    fn rates(&self, before: (Instant, [u64; 3]), after: (Instant, [u64; 3])) -> Result<TurnRates> {
        let nanos = after.0.duration_since(before.0).as_nanos();
        let (before, after) = (before.1, after.1);
        let [packets, served, cpu] = std::array::from_fn(|index| after[index] - before[index]);
        ensure!(packets > 0, "{}: no packet went through", self.name);
        ensure!(served * 10 > packets * 9, "{}: of {packets} packets only {served} were served", self.name);
        #[allow(clippy::cast_precision_loss, reason = "three digits are shown")]
        let (packets, nanos, cpu) = (packets as f64, nanos as f64, cpu as f64);
        Ok(TurnRates { per_second: packets * 1e9 / nanos, per_cpu_second: packets * 1e9 / cpu })
    }

    fn send_command(&self, command: GeneratorCommand) -> Result<()> {
        let controlled = self.generator.control(command);
        controlled
            .map_err(|_| anyhow::anyhow!("no thread"))
            .with_context(|| format!("{}: the generator", self.name))
    }
}

fn rows(contenders: &[RelayContender], turns: &[Vec<TurnRates>]) -> Vec<RelayRow> {
    let of = |turns: &[TurnRates], rate: fn(&TurnRates) -> f64| median(turns.iter().map(rate).collect());
    let ratio = |turns: &[TurnRates], bare: &[TurnRates]| {
        let ratios = turns.iter().zip(bare).map(|(turn, bare)| turn.per_cpu_second / bare.per_cpu_second);
        median(ratios.collect())
    };
    let row = |(contender, of_it): (&RelayContender, &Vec<TurnRates>)| RelayRow {
        relay: contender.name,
        packets_per_second: of(of_it, |turn| turn.per_second),
        packets_per_cpu_second: of(of_it, |turn| turn.per_cpu_second),
        ratio_to_bare: ratio(of_it, &turns[0]),
        goal: contender.goal,
    };
    contenders.iter().zip(turns).map(row).collect()
}

fn table(rows: &[RelayRow]) -> String {
    let mut table =
        format!("{:<28}{:>12}{:>12}{:>10}{:>7}", "relay", "packets/s", "per CPU s", "to bare", "goal");
    for row in rows {
        let RelayRow { relay, packets_per_second, packets_per_cpu_second, ratio_to_bare, .. } = row;
        let goal = row.goal.map_or_else(String::new, |goal| format!("{goal:.2}"));
        let verdict = match row.goal {
            None => "",
            Some(_) if row.is_met() => " met",
            Some(_) => " MISSED",
        };
        let _ = write!(
            table,
            "\n{relay:<28}{packets_per_second:>12.0}{packets_per_cpu_second:>12.0}{ratio_to_bare:>10.2}{goal:>7}{verdict}"
        );
    }
    table
}
