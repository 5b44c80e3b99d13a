//! How many packets each stage of the protocol core handles on one thread.

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::{Result, ensure};
use byway_aws_lc::AwsLc;
use byway_code::Engine;
use byway_proto::CodingRates;
use byway_proto::agent::FlowSettings;
use byway_sim::overlay::{Chain, ChainSettings, Stage};
use byway_units::{Duration, Rate};
use byway_wire::{BlockShape, Service};
use clap::Args;
use serde::Serialize;

/// Measures the protocol core: sealed source packets, copies through both relays, and delivery.
///
/// Agents and relays are wired in memory; virtual time passes as it would at two million packets a second. In each
/// step every stage handles 64 source packets, as many as drivers receive at once, and is timed alone: sending seals, and
/// makes original and copy; the ingress relay verifies, accounts and codes copies; the egress relay opens and keeps
/// repair packets; receiving opens, accounts, keeps and delivers. The copy of each datagram into the driver's buffer
/// is included.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Rounds of which the median counts; each is short, so that what interrupts some does not count.
    #[arg(long, default_value_t = 3_001, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Pairs of agents.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pairs: u16,
    /// Flows of each pair.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=4_000))]
    flows: u16,
    /// Bytes of each datagram.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u16).range(16..=1_354))]
    bytes: u16,
    /// Loses one in so many source packets on the direct path; 0 loses none.
    #[arg(long, default_value_t = 0)]
    lose_one_in: u64,
    /// Measure this engine only.
    #[arg(long, env = "BYWAY_ENGINE")]
    engine: Option<Engine>,
    /// Measure this coding only: cross-stream or both.
    #[arg(long)]
    coding: Option<Coding>,
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

/// How the flows are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum Coding {
    /// Batches of 10 with 2 repair packets.
    CrossStream,
    /// And in-stream blocks of 5 with 1.
    Both,
}

impl Coding {
    const ALL: [Self; 2] = [Self::CrossStream, Self::Both];

    fn rates(self) -> CodingRates {
        let in_stream = BlockShape::new(5, 1).filter(|_| self == Self::Both);
        CodingRates { in_stream, batch: BlockShape::new(10, 2) }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::CrossStream => "cross-stream 10+2",
            Self::Both => "cross-stream 10+2, in-stream 5+1",
        }
    }
}

/// What a stage reaches, and is meant to.
#[derive(Debug, Serialize)]
struct Row {
    coding: Coding,
    stage: &'static str,
    nanos_per_packet: f64,
    packets_per_second: f64,
    megabytes_per_second: f64,
    goal: Option<f64>,
}

impl Row {
    fn is_met(&self) -> bool {
        self.goal.is_none_or(|goal| self.packets_per_second >= goal)
    }
}

/// Source packets a second on one thread.
const GOAL: f64 = 2e6;

/// Between two packets: as fast as the goal, so that what is kept for a time is as much as it would be.
const INTERVAL: Duration = Duration::from_nanos(500);
const STEP: Duration = Duration::from_micros(32);

/// Steps of a round: long against the clock, short against the machine's moods.
const STEPS: u16 = 16;

const fn name(stage: Stage) -> &'static str {
    match stage {
        Stage::Senders => "agent, sending",
        Stage::Ingress => "relay, ingress",
        Stage::Egress => "relay, egress",
        Stage::Receivers => "agent, receiving",
    }
}

const fn goal(stage: Stage) -> Option<f64> {
    match stage {
        Stage::Egress => None,
        Stage::Senders | Stage::Ingress | Stage::Receivers => Some(GOAL),
    }
}

/// Runs the comparison; whether all goals are met.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let mut rows = Vec::new();
    for coding in Coding::ALL.into_iter().filter(|coding| options.coding.is_none_or(|only| only == *coding)) {
        let mut chain = warmed_up(options, coding)?;
        let nanos = measure(options, &mut chain);
        check(options, &chain)?;
        for (stage, nanos) in Stage::ALL.into_iter().zip(nanos) {
            rows.push(Row {
                coding,
                stage: name(stage),
                nanos_per_packet: nanos,
                packets_per_second: 1e9 / nanos,
                megabytes_per_second: f64::from(options.bytes) * 1e3 / nanos,
                goal: goal(stage),
            });
        }
    }
    println!("{}", if options.json { serde_json::to_string_pretty(&rows)? } else { table(&rows) });
    Ok(rows.iter().all(Row::is_met))
}

/// A chain whose sessions are up, whose flows are registered and sending, and whose buffers have grown.
fn warmed_up(options: &Options, coding: Coding) -> Result<Chain> {
    let flow = FlowSettings {
        service: Service::Coding,
        rates: coding.rates(),
        rate: Rate::from_megabits_per_second(20_000 / u64::from(options.flows) / u64::from(options.pairs)),
        ..FlowSettings::default()
    };
    let settings = ChainSettings {
        pairs: usize::from(options.pairs),
        flows: options.flows,
        flow,
        datagram_bytes: usize::from(options.bytes),
        interval: INTERVAL,
        step: STEP,
    };
    let mut chain = Chain::new(settings, options.engine.unwrap_or_else(Engine::fastest), &AwsLc);
    for flow in 0..options.flows {
        chain.open_flows(flow);
    }
    chain.run(20_000, false);
    chain.lose_one_in(options.lose_one_in);
    // As long as anything is kept: two seconds.
    chain.run(66_000, true);
    let covered = chain.ingress().ingress_counters().covered;
    ensure!(covered > 0, "no packet is covered after warming up: {:?}", chain.ingress().ingress_counters());
    Ok(chain)
}

/// The median time of each stage in nanoseconds a source packet.
fn measure(options: &Options, chain: &mut Chain) -> [f64; 4] {
    let mut rounds = [const { Vec::new() }; 4];
    let packets = chain.packets_per_step() * u64::from(STEPS);
    for _ in 0..options.rounds {
        let mut nanos = [0.0; 4];
        for _ in 0..STEPS {
            for (stage, nanos) in Stage::ALL.into_iter().zip(&mut nanos) {
                let start = Instant::now();
                chain.run_stage(stage);
                *nanos += start.elapsed().as_secs_f64() * 1e9;
            }
            chain.advance();
        }
        for (rounds, nanos) in rounds.iter_mut().zip(nanos) {
            rounds.push(nanos / f64::from(u32::try_from(packets).unwrap_or(u32::MAX)));
        }
    }
    rounds.map(crate::measure::median)
}

/// That what was measured did what it is measured for.
fn check(options: &Options, chain: &Chain) -> Result<()> {
    let steps = u64::from(options.rounds) * u64::from(STEPS);
    let sent = steps * chain.packets_per_step();
    let (delivered, _) = chain.delivered();
    let (ingress, egress) = (chain.ingress().ingress_counters(), chain.egress().egress_counters());
    ensure!(delivered >= sent, "{delivered} of more than {sent} datagrams were delivered");
    ensure!(
        ingress.copies >= sent && ingress.covered >= sent,
        "of more than {sent} packets {} were copied and {} covered: {ingress:?}",
        ingress.copies,
        ingress.covered
    );
    ensure!(
        egress.repairs_kept >= sent / 5,
        "of repair packets {} were kept: {egress:?}",
        egress.repairs_kept
    );
    Ok(())
}

fn table(rows: &[Row]) -> String {
    let mut table =
        format!("{:<20}{:>10}{:>14}{:>10}{:>12}", "stage", "ns/packet", "packets/s", "MB/s", "goal");
    let mut coding = None;
    for row in rows {
        if coding.replace(row.coding) != Some(row.coding) {
            let _ = write!(table, "\n{}", row.coding.name());
        }
        let Row { stage, nanos_per_packet, packets_per_second, megabytes_per_second, .. } = row;
        let verdict = match row.goal {
            None => "",
            Some(_) if row.is_met() => "met",
            Some(_) => "MISSED",
        };
        let goal = row.goal.map_or_else(String::new, |goal| format!("{goal:.0}"));
        let _ = write!(
            table,
            "\n  {stage:<18}{nanos_per_packet:>10.0}{packets_per_second:>14.0}{megabytes_per_second:>10.0}{goal:>12} {verdict}"
        );
    }
    table
}
