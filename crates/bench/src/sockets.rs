//! How many source packets a relay handles a second on real sockets, one thread, beside a bare loop of system calls.

mod bare;
mod generator;
mod relays;

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
use generator::Order;

/// Measures relays on real sockets over loopback: a generator on one core, the relay on another.
///
/// The generator keeps a window of packets under way, so that nothing is lost: "packets/s" is the rate of the slower of
/// the two. "per CPU s" is how many packets the relay's thread handles in a second of processor time, the kernel's share
/// included: its rate, had it a core and a fast enough generator. Ratios are of these. A relay that has to wait for its
/// core finds more to do at once and looks a little better than it is: trust runs on a quiet machine.
/// Rounds are interleaved, medians count. "bare" is recvmmsg and sendmmsg in a loop; "driver" forwards with Byway's
/// driver; the others are whole ingress relays with authenticated copies from real agents: one forwards, one codes in
/// batches of 10 with 2 repair packets and blocks of 5 with 1. What they send goes through the kernel too.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Rounds of which the median counts.
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

impl Options {
    pub(crate) const fn must_meet_goals(&self) -> bool {
        self.check
    }
}

/// What a relay did so far, written by its thread.
#[derive(Debug, Default)]
struct Progress {
    packets: AtomicU64,
    /// Packets that were sent on, or that repair packets were made of.
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

/// A relay under test, with its generator.
struct Contender {
    name: &'static str,
    generator: Handle<Order>,
    progress: Arc<Progress>,
    /// What of a bare loop's rate it is meant to reach.
    goal: Option<f64>,
}

/// How many packets went through in one turn.
#[derive(Clone, Copy)]
struct Turn {
    per_second: f64,
    per_cpu_second: f64,
}

#[derive(Debug, Serialize)]
struct Row {
    relay: &'static str,
    packets_per_second: f64,
    packets_per_cpu_second: f64,
    ratio_to_bare: f64,
    goal: Option<f64>,
}

impl Row {
    fn is_met(&self) -> bool {
        self.goal.is_none_or(|goal| self.ratio_to_bare >= goal)
    }
}

/// The core that the generator stays on, and the relays'; `None` where there is only one.
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

/// Whole relays are meant to reach so much of a bare loop's rate.
const GOAL: f64 = 0.7;

/// Runs the comparison; whether the goals are met.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let cores = cores()?;
    let contenders = [
        bare::contender(options, cores)?,
        relays::forwarding_driver(options, cores)?,
        relays::overlay("relay, forwarding", Service::Forwarding, options, cores)?,
        relays::overlay("relay, coding 10+2 and 5+1", Service::Coding, options, cores)?,
    ];
    // Sessions come up and flows are registered.
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
    Ok(rows.iter().all(Row::is_met))
}

impl Contender {
    /// Lets it run, first a little, then for as long as is asked.
    fn turn(&self, length: Duration) -> Result<Turn> {
        self.order(Order::Run)?;
        sleep(length / 4);
        let (start, before) = (Instant::now(), self.progress.read());
        sleep(length);
        let (nanos, after) = (start.elapsed().as_nanos(), self.progress.read());
        self.order(Order::Rest)?;
        sleep(Duration::from_millis(20));
        let [packets, served, cpu] = std::array::from_fn(|index| after[index] - before[index]);
        ensure!(packets > 0, "{}: no packet went through", self.name);
        ensure!(served * 10 > packets * 9, "{}: of {packets} packets only {served} were served", self.name);
        #[allow(clippy::cast_precision_loss, reason = "three digits are shown")]
        let (packets, nanos, cpu) = (packets as f64, nanos as f64, cpu as f64);
        Ok(Turn { per_second: packets * 1e9 / nanos, per_cpu_second: packets * 1e9 / cpu })
    }

    fn order(&self, order: Order) -> Result<()> {
        let ordered = self.generator.control(order);
        ordered
            .map_err(|_| anyhow::anyhow!("no thread"))
            .with_context(|| format!("{}: the generator", self.name))
    }
}

fn rows(contenders: &[Contender], turns: &[Vec<Turn>]) -> Vec<Row> {
    let of = |turns: &[Turn], what: fn(&Turn) -> f64| median(turns.iter().map(what).collect());
    let ratio = |turns: &[Turn], bare: &[Turn]| {
        let ratios = turns.iter().zip(bare).map(|(turn, bare)| turn.per_cpu_second / bare.per_cpu_second);
        median(ratios.collect())
    };
    let row = |(contender, of_it): (&Contender, &Vec<Turn>)| Row {
        relay: contender.name,
        packets_per_second: of(of_it, |turn| turn.per_second),
        packets_per_cpu_second: of(of_it, |turn| turn.per_cpu_second),
        ratio_to_bare: ratio(of_it, &turns[0]),
        goal: contender.goal,
    };
    contenders.iter().zip(turns).map(row).collect()
}

fn table(rows: &[Row]) -> String {
    let mut table =
        format!("{:<28}{:>12}{:>12}{:>10}{:>7}", "relay", "packets/s", "per CPU s", "to bare", "goal");
    for row in rows {
        let Row { relay, packets_per_second, packets_per_cpu_second, ratio_to_bare, .. } = row;
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
