//! Time of a packet through each queue of a link, with a million flows.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use anyhow::Result;
use byway_sched::{
    Arrival, Class, Discipline, DropTail, FlowKey, FlowTuple, FqCodel, GuardMode, RateDelay, Settings,
    StrictPriority,
};
use byway_units::{Bytes, Duration, Rate, Time};
use clap::Args;

/// Goal for Rate-Delay: nanoseconds to hash, enqueue and dequeue one packet.
const GOAL_NANOS: f64 = 80.0;

/// Packets that pass a queue in one of its turns.
const TURN: u32 = 20_000;

const FLOWS: u32 = 1_000_000;
const PACKET: Bytes = Bytes::new(1_500);

/// Measure packet queues with a million flows at a backlogged link of 10 Gbit/s, on one pinned
/// thread.
///
/// Each packet is hashed and enqueued, and one is dequeued. Every queue has a short turn in each
/// round; the results are medians over all rounds.
#[derive(Debug, Args)]
pub(crate) struct QueuesOptions {
    /// Number of rounds; more rounds give steadier medians.
    #[arg(long, default_value_t = 201, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Fail if Rate-Delay takes more than 80 ns; for a quiet machine.
    #[arg(long)]
    check: bool,
}

impl QueuesOptions {
    pub(crate) const fn is_for_machines(&self) -> bool {
        self.json
    }

    pub(crate) const fn must_meet_goals(&self) -> bool {
        self.check
    }
}

/// Queue that the benchmark times, with its packets' flows and virtual time.
struct QueueContender<Q> {
    name: &'static str,
    queue: Q,
    key: FlowKey,
    now: Time,
    next: u32,
}

trait TimedQueue {
    fn name(&self) -> &'static str;

    /// Passes [`TURN`] packets through the queue, and returns the mean time of a packet in
    /// nanoseconds.
    fn time_turn(&mut self) -> f64;
}

impl<Q: Discipline<u32>> QueueContender<Q> {
    /// Makes a contender whose queue contains 400 packets.
    fn new(name: &'static str, queue: Q) -> Self {
        let mut contender = Self { name, queue, key: FlowKey::new(&[7; 16]), now: Time::START, next: 0 };
        (0..400).for_each(|_| contender.enqueue());
        contender
    }

    fn enqueue(&mut self) {
        // Steps of a large odd number visit a million flows without a pattern.
        self.next = (self.next + 618_033) % FLOWS;
        let flow = FlowTuple {
            source: IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + self.next)),
            destination: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
            protocol: 17,
            ports: [5_000, 443],
        };
        let flow = self.key.hash(&flow);
        let class = if self.next.is_multiple_of(2) { Class::HighRate } else { Class::LowDelay };
        let arrival =
            Arrival { packet: self.next, bytes: 1_500, class, flow, source: flow, is_ecn_capable: false };
        self.queue.enqueue(arrival, self.now, &mut |_, _| {});
    }
}

impl<Q: Discipline<u32>> TimedQueue for QueueContender<Q> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn time_turn(&mut self) -> f64 {
        let begin = Instant::now();
        for _ in 0..TURN {
            self.enqueue();
            std::hint::black_box(self.queue.dequeue(self.now, &mut |_, _| {}));
            self.now += Duration::from_nanos(1_200);
        }
        begin.elapsed().as_secs_f64() * 1e9 / f64::from(TURN)
    }
}

/// Result of one queue: time of a packet, and its ratio to the time in a single queue.
struct QueueTime {
    name: &'static str,
    nanos: f64,
    ratio: f64,
}

impl fmt::Display for QueueTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, nanos, ratio } = self;
        write!(f, "{name:<28} {nanos:6.1} ns a packet, {ratio:5.2} times as long as one queue")
    }
}

/// Runs the measurement and prints its results; `true` if the goal is met.
pub(crate) fn run(options: &QueuesOptions) -> Result<bool> {
    let settings = Settings::new(Rate::from_megabits_per_second(10_000), PACKET)?;
    let buffer_bytes = Bytes::new(3_000_000);
    let queue = |settings| RateDelay::new(settings, Time::START);
    let mut contenders: Vec<Box<dyn TimedQueue>> = vec![
        Box::new(QueueContender::new("one queue", DropTail::new(buffer_bytes))),
        Box::new(QueueContender::new("Rate-Delay", queue(settings))),
        Box::new(QueueContender::new("Rate-Delay, guarded", queue(settings.with_guard(GuardMode::Strict)))),
        Box::new(QueueContender::new(
            "Rate-Delay, guarded, ECN",
            queue(settings.with_guard(GuardMode::Strict).with_ecn()),
        )),
        Box::new(QueueContender::new("strict priority", StrictPriority::new(buffer_bytes))),
        Box::new(QueueContender::new("FQ-CoDel", FqCodel::new(buffer_bytes, PACKET))),
    ];
    let mut nanos = vec![Vec::new(); contenders.len()];
    for round in 0..=options.rounds {
        for (contender, nanos) in contenders.iter_mut().zip(&mut nanos) {
            let nanos_per_packet = contender.time_turn();
            // The first round is a warm-up.
            if round > 0 {
                nanos.push(nanos_per_packet);
            }
        }
    }
    let ratios = |of: &[f64]| of.iter().zip(&nanos[0]).map(|(one, base)| one / base).collect();
    let found: Vec<QueueTime> = contenders
        .iter()
        .zip(&nanos)
        .map(|(contender, nanos)| QueueTime {
            name: contender.name(),
            nanos: median(nanos.clone()),
            ratio: median(ratios(nanos)),
        })
        .collect();
    report(&found, options.json);
    Ok(found[1].nanos < GOAL_NANOS)
}

fn report(found: &[QueueTime], json: bool) {
    if json {
        let rows: Vec<_> = found
            .iter()
            .map(|row| serde_json::json!({ "queue": row.name, "nanoseconds": row.nanos, "ratio": row.ratio }))
            .collect();
        return println!("{}", serde_json::json!({ "queues": rows, "goal_nanoseconds": GOAL_NANOS }));
    }
    for row in found {
        println!("{row}");
    }
    let verdict = if found[1].nanos < GOAL_NANOS { "met" } else { "MISSED" };
    println!("Goal: Rate-Delay below {GOAL_NANOS} ns: {verdict}");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
