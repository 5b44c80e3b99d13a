//! Throughput of each stage of the protocol core on one thread.

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

/// Measure the protocol core: sealed source packets, copies through both relays, and delivery.
///
/// Agents and relays are connected in memory. Virtual time advances as with two million packets a
/// second. In each step every stage handles 64 source packets, as many as drivers receive at once,
/// and is timed separately. Sending seals, and makes source packet and copy. The ingress relay
/// verifies, accounts and codes copies. The egress relay opens and stores repair packets. Receiving
/// opens, accounts, stores and delivers. The copy of each datagram into the driver's buffer is
/// included.
#[derive(Args, Debug)]
pub(crate) struct ProtocolOptions {
    /// Number of rounds; the median counts. Rounds are short, because an interruption should affect
    /// few of them.
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
    /// Lose one in N source packets on the direct path; 0 loses none.
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

impl ProtocolOptions {
    pub(crate) const fn must_meet_goals(&self) -> bool {
        self.check
    }
}

/// Code rates of the flows in the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum Coding {
    /// Batches of 10 with 2 repair packets.
    CrossStream,
    /// Batches of 10 with 2 repair packets, and in-stream blocks of 5 with 1.
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

/// Result of one stage of the protocol core with one coding, and its goal.
#[derive(Debug, Serialize)]
struct StageRow {
    coding: Coding,
    stage: &'static str,
    nanos_per_packet: f64,
    packets_per_second: f64,
    megabytes_per_second: f64,
    goal: Option<f64>,
}

impl StageRow {
    fn is_met(&self) -> bool {
        self.goal.is_none_or(|goal| self.packets_per_second >= goal)
    }
}

/// Goal of each stage with a goal, in source packets a second on one thread.
const GOAL: f64 = 2e6;

/// Intervals of packets and of steps in virtual time at the rate of the goal, because buffers
/// should have the size that they have at this rate.
const INTERVAL: Duration = Duration::from_nanos(500);
const STEP: Duration = Duration::from_micros(32);

/// Number of steps that a round of the measurement times together: long relative to the clock's
/// resolution, short relative to the machine's fluctuations.
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

/// Runs the measurement and prints its results; `true` if all goals are met.
pub(crate) fn run(options: &ProtocolOptions) -> Result<bool> {
    let mut rows = Vec::new();
    for coding in Coding::ALL.into_iter().filter(|coding| options.coding.is_none_or(|only| only == *coding)) {
        let mut chain = warmed_up(options, coding)?;
        let nanos = measure(options, &mut chain);
        check(options, &chain)?;
        for (stage, nanos) in Stage::ALL.into_iter().zip(nanos) {
            rows.push(StageRow {
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
    Ok(rows.iter().all(StageRow::is_met))
}

/// Makes a chain of agents and relays with established sessions, registered and active flows, and
/// buffers of their full size.
fn warmed_up(options: &ProtocolOptions, coding: Coding) -> Result<Chain> {
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
    // Buffers reach their full size after two seconds, the longest storage time.
    chain.run(66_000, true);
    let covered = chain.ingress().ingress_counters().covered;
    ensure!(covered > 0, "no packet is covered after warming up: {:?}", chain.ingress().ingress_counters());
    Ok(chain)
}

/// Returns the median time of each stage in nanoseconds a source packet.
fn measure(options: &ProtocolOptions, chain: &mut Chain) -> [f64; 4] {
    let mut times = [const { Vec::new() }; 4];
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
        for (times, nanos) in times.iter_mut().zip(nanos) {
            times.push(nanos / f64::from(u32::try_from(packets).unwrap_or(u32::MAX)));
        }
    }
    times.map(crate::measure::median)
}

/// Checks that agents and relays did the measured work: delivered, copied, coded and stored all
/// packets.
fn check(options: &ProtocolOptions, chain: &Chain) -> Result<()> {
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
        egress.repairs_stored >= sent / 5,
        "only {} repair packets were stored: {egress:?}",
        egress.repairs_stored
    );
    Ok(())
}

fn table(rows: &[StageRow]) -> String {
    let mut table =
        format!("{:<20}{:>10}{:>14}{:>10}{:>12}", "stage", "ns/packet", "packets/s", "MB/s", "goal");
    let mut coding = None;
    for row in rows {
        if coding.replace(row.coding) != Some(row.coding) {
            let _ = write!(table, "\n{}", row.coding.name());
        }
        let StageRow { stage, nanos_per_packet, packets_per_second, megabytes_per_second, .. } = row;
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
