//! Throughput of relays over their number of threads, beside the published rates of a thread.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use byway_wire::Service;
use clap::Args;
use core_affinity::CoreId;
use serde::Serialize;

use super::{Cores, RelayContender, SocketsOptions, TurnRates, relays};
use crate::measure::median;

/// Measure relays on 1, 2, 4 and 8 threads (rec-threads), and print ratios to the published rates.
///
/// Each thread is an ingress relay of its own, with its own socket, flows and generator: a shard.
/// All threads of a turn run at the same time. Turns with different numbers of threads are
/// interleaved, and a speed-up is the median of ratios within a round. Rates are packets in a
/// second of the relays' processor time, including the kernel's. Machines differ: transfer ratios
/// only.
///
/// Two threads need four cores, as each has a generator beside it. On fewer cores they take turns,
/// and a relay that waits for its core seems a little faster. Such rows are marked.
#[derive(Args, Debug)]
pub(crate) struct ThreadsOptions {
    /// Number of rounds; the median counts.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Milliseconds of each turn.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u16).range(50..))]
    turn_ms: u16,
    /// Bytes of each datagram; the publication has 512.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u16).range(16..=1_354))]
    bytes: u16,
    /// Flows of each thread.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    flows: u16,
    /// File for the result as JSON.
    #[arg(long, value_name = "FILE", default_value = "target/bench/threads.json")]
    output: PathBuf,
    /// Fail if a goal is missed.
    #[arg(long)]
    check: bool,
}

impl ThreadsOptions {
    pub(crate) const fn must_meet_goals(&self) -> bool {
        self.check
    }

    /// Returns the options of a single relay under test.
    const fn of_relays(&self) -> SocketsOptions {
        let Self { rounds, turn_ms, bytes, flows, check, .. } = *self;
        SocketsOptions { rounds, turn_ms, bytes, flows, json: false, check }
    }
}

/// Numbers of threads in the curve: the publication's is linear up to eight.
const THREADS: [u16; 4] = [1, 2, 4, 8];

/// Least share of linear growth that counts as linear: a tenth is the noise of a busy machine.
const LINEARITY_MIN: f64 = 0.9;

/// Kind of work with its published rate (J-QoS, appendix B).
#[derive(Clone, Copy, Debug)]
struct Work {
    name: &'static str,
    service: Service,
    /// Packets of 512 bytes in a second that a thread of the published prototype handles.
    published: f64,
}

const WORK: [Work; 2] = [
    Work { name: "coding", service: Service::Coding, published: 65_000.0 },
    Work { name: "forwarding", service: Service::Forwarding, published: 170_000.0 },
];

/// Result of one number of threads, as ratios within one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct ThreadsRow {
    work: &'static str,
    threads: u16,
    /// True if each thread and each generator has a core of its own.
    has_own_cores: bool,
    /// Packets in a second of processor time, of all threads together.
    packets_per_cpu_second: f64,
    /// Rate of a thread, as a multiple of the published one.
    thread_over_published: f64,
    /// Rate of all threads, as a multiple of a single one's in the same round.
    speedup: f64,
    /// Share of linear growth: 1 if each thread is as fast as a single one.
    linearity: f64,
}

impl ThreadsRow {
    /// Returns the row of a number of threads, from its rates in each round and those of a single
    /// thread.
    fn new(work: Work, threads: u16, has_own_cores: bool, (rates, single): (&[f64], &[f64])) -> Self {
        let speedup = median(rates.iter().zip(single).map(|(rate, single)| rate / single).collect());
        let packets_per_cpu_second = median(rates.to_vec());
        let count = f64::from(threads);
        Self {
            work: work.name,
            threads,
            has_own_cores,
            packets_per_cpu_second,
            thread_over_published: packets_per_cpu_second / count / work.published,
            speedup,
            linearity: speedup / count,
        }
    }

    fn is_met(&self) -> bool {
        self.thread_over_published >= 1.0 && self.linearity >= LINEARITY_MIN
    }
}

/// Results of all numbers of threads, for JSON.
#[derive(Debug, Serialize)]
struct ThreadsReport {
    id: &'static str,
    cpu: String,
    cores: usize,
    bytes: u16,
    rows: Vec<ThreadsRow>,
}

/// Runs the measurement, prints and writes its results; `true` if all goals are met.
pub(crate) fn run(options: &ThreadsOptions) -> Result<bool> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let counts: Vec<u16> = THREADS.into_iter().filter(|count| usize::from(*count) <= cores.len()).collect();
    let most = usize::from(counts.last().copied().unwrap_or_default());
    let of_relays = options.of_relays();
    let mut contenders = Vec::new();
    for work in WORK {
        let relay = |nth| relays::overlay(work.name, work.service, &of_relays, cores_of(&cores, nth));
        contenders.push((0..most).map(relay).collect::<Result<Vec<_>>>()?);
    }
    // Sessions are established and flows registered in this time.
    sleep(Duration::from_secs(3));
    let length = Duration::from_millis(options.turn_ms.into());
    let mut rates = vec![vec![Vec::new(); counts.len()]; WORK.len()];
    for round in 0..=options.rounds {
        for (relays, rates) in contenders.iter().zip(&mut rates) {
            for (count, rates) in counts.iter().zip(rates) {
                let rate = rate_of_all(&relays[..usize::from(*count)], length)?;
                // The first round warms up.
                if round > 0 {
                    rates.push(rate);
                }
            }
        }
    }
    let mut rows = Vec::new();
    for (work, rates) in WORK.into_iter().zip(&rates) {
        for (count, of_count) in counts.iter().zip(rates) {
            let has_own_cores = 2 * usize::from(*count) <= cores.len();
            rows.push(ThreadsRow::new(work, *count, has_own_cores, (of_count, &rates[0])));
        }
    }
    println!("{}\n{}", table(&rows), remark(&counts));
    let is_met = rows.iter().all(ThreadsRow::is_met) && counts.len() == THREADS.len();
    let (cpu, bytes) = (crate::processor(), options.bytes);
    let report = ThreadsReport { id: "rec-threads", cpu, cores: cores.len(), bytes, rows };
    crate::write(&options.output, &serde_json::to_string_pretty(&report)?)?;
    Ok(is_met)
}

/// Returns the cores of a thread and of its generator. Threads are on the last cores, and
/// generators on the first ones, so that they meet only if cores are few.
fn cores_of(cores: &[CoreId], nth: usize) -> Cores {
    Cores { generator: cores[nth], relay: cores[cores.len() - 1 - nth] }
}

/// Runs a turn of several relays at the same time. Returns the packets in a second of processor
/// time, of all together.
fn rate_of_all(relays: &[RelayContender], length: Duration) -> Result<f64> {
    let rates = turn_of_all(relays, length)?;
    Ok(rates.iter().map(|rates| rates.per_cpu_second).sum())
}

fn turn_of_all(relays: &[RelayContender], length: Duration) -> Result<Vec<TurnRates>> {
    for relay in relays {
        relay.begin_turn()?;
    }
    sleep(length / 4);
    let before: Vec<_> = relays.iter().map(|relay| (Instant::now(), relay.progress.read())).collect();
    sleep(length);
    let after: Vec<_> = relays.iter().map(|relay| (Instant::now(), relay.progress.read())).collect();
    for relay in relays {
        relay.end_turn()?;
    }
    sleep(Duration::from_millis(20));
    let each = relays.iter().zip(before.into_iter().zip(after));
    each.map(|(relay, (before, after))| relay.rates(before, after)).collect()
}

fn table(rows: &[ThreadsRow]) -> String {
    let mut table = format!(
        "{:<12}{:>8}{:>16}{:>22}{:>10}{:>11}",
        "work", "threads", "per CPU s", "thread to published", "speed-up", "linearity"
    );
    for row in rows {
        let ThreadsRow { work, threads, packets_per_cpu_second, thread_over_published, .. } = row;
        let ThreadsRow { speedup, linearity, .. } = row;
        let verdict = if row.is_met() { "met" } else { "MISSED" };
        let shared = if row.has_own_cores { "" } else { ", shared cores" };
        let _ = write!(
            table,
            "\n{work:<12}{threads:>8}{packets_per_cpu_second:>16.0}{thread_over_published:>21.2}x{speedup:>9.2}x{linearity:>11.2} {verdict}{shared}"
        );
    }
    table
}

/// Returns a remark on the published numbers of threads that this machine cannot measure.
fn remark(measured: &[u16]) -> String {
    let absent: Vec<String> =
        THREADS.iter().filter(|count| !measured.contains(count)).map(u16::to_string).collect();
    let scope = "linearity is of processor time: waits for cores, locks or the kernel do not count";
    if absent.is_empty() {
        return format!("all numbers of threads were measured; {scope}");
    }
    format!("not measured: {} threads, which need as many cores; {scope}", absent.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speedups_are_ratios_within_a_round() {
        let single = [100_000.0, 200_000.0, 130_000.0];
        let double = [190_000.0, 380_000.0, 300_000.0];
        let row = ThreadsRow::new(WORK[0], 2, true, (&double, &single));
        assert!((row.speedup - 1.9).abs() < 1e-9 && (row.linearity - 0.95).abs() < 1e-9, "{row:?}");
        assert!((row.thread_over_published - 150.0 / 65.0).abs() < 1e-9, "{row:?}");
        assert!(row.is_met());
    }

    #[test]
    fn slow_or_sublinear_threads_miss_the_goal() {
        let row =
            |rates: [f64; 1], single: [f64; 1]| ThreadsRow::new(WORK[1], 2, true, (&rates, &single)).is_met();
        assert!(row([340_000.0], [170_000.0]));
        assert!(!row([339_000.0], [169_500.0]), "slower than published");
        assert!(!row([700_000.0], [400_000.0]), "not linear");
    }

    #[test]
    fn numbers_of_threads_that_are_not_measured_are_named() {
        assert!(remark(&[1, 2]).starts_with("not measured: 4 and 8 threads, which need as many cores; "));
        assert!(remark(&THREADS).starts_with("all numbers of threads were measured; "));
    }

    #[test]
    fn threads_and_generators_have_cores_of_their_own_if_there_are_enough() {
        let cores: Vec<CoreId> = (0..4).map(|id| CoreId { id }).collect();
        let of = |nth| {
            let Cores { generator, relay } = cores_of(&cores, nth);
            [generator.id, relay.id]
        };
        assert_eq!([of(0), of(1)], [[0, 3], [1, 2]]);
    }
}
