//! Floods of a member at a real relay, beside repaired flows of another tenant that are cached, coded and forwarded in turn. Small here;
//! `make attack` takes minutes.

#![allow(unreachable_pub, reason = "modules of tests")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "programs use sockets and clocks")]
#![allow(clippy::print_stderr, reason = "says what was measured")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "rates"
)]

mod flood;
mod sites;

use std::fmt;
use std::time::{Duration, Instant};

use byway_fuzz_targets::attacks::{ATTACKS, Attack, CONTROL};
use byway_proto::limits::{
    DECODING_WORK, REGISTRATION_WORK, SESSION_WORK_BURST, SESSION_WORK_PER_SECOND, SIGNATURE_WORK, SOLVE_WORK,
};
use flood::Members;
use sites::{ALICE, BOB, Mode, Plan, Sites, WEST};

/// The `memory` setting of the attacked relay: small, so that a flood that fills it shows.
const MEMORY_MB: u64 = 32;

/// Memory of the process beside it: the program and its tables, 14 MB before the first session, and the sessions and
/// registrations of one attacker with 4,000 flows.
const BESIDE_MB: u64 = 48;

/// Reading one datagram's messages: 131 of them, and some lookups.
const READING_WORK: u64 = 160;

#[derive(Clone, Copy)]
struct Size {
    rate: u32,
    /// Length of each attack in a round.
    time: Duration,
    /// Times that control and attacks run, one after the other.
    rounds: u32,
    /// Of the attacks, one in so many.
    every: usize,
    flows: u16,
    /// Packets lost beyond the control's: one in so many. A small size has too few packets for one in a thousand, and a busy
    /// machine wakes agents late.
    lost_share: usize,
    /// Most that p99 may be above the control's.
    delay_max: Option<Duration>,
}

/// For `make test`: a minute and a half in all.
const SMALL: Size = Size {
    rate: 5_000,
    time: Duration::from_millis(1_200),
    rounds: 1,
    every: 1,
    flows: 60,
    lost_share: 50,
    delay_max: None,
};

/// For `make attack`. A pause of the machine of 30 ms sets the p99 of a run, in which 600 packets are sent. So control and attacks run
/// in turn, and the medians of their p99s are compared: one such pause spoils one run of three.
const LARGE: Size = Size {
    rate: 30_000,
    time: Duration::from_secs(3),
    rounds: 3,
    every: 1,
    // Half of what 32 MB have room for: the share of the attackers' tenant.
    flows: 1_000,
    lost_share: 1_000,
    delay_max: Some(Duration::from_millis(2)),
};

/// A repair packet waits for others so long, and p99 of coded flows varies as much by itself.
const BATCH_DELAY: Duration = Duration::from_millis(45);

/// Size beside a flow of this service.
fn size(service: &str) -> Size {
    let is_large = std::env::var("ATTACK").is_ok_and(|size| size == "large");
    match (is_large, service) {
        (true, CODING) => Size { delay_max: Some(BATCH_DELAY), ..LARGE },
        (true, _) => LARGE,
        (false, CACHING) => SMALL,
        (false, _) => Size { every: 5, ..SMALL },
    }
}

const CACHING: &str = "caching";
const CODING: &str = "coding";

/// Services of the flows beside the attacks, in turn.
const SERVICES: [&str; 3] = [CACHING, CODING, "forwarding"];

/// Resources that the relay's process has used: processor time, memory in use, and units of work.
#[derive(Clone, Copy)]
struct Usage {
    processor: Duration,
    memory_mb: u64,
    work: u64,
}

fn usage(sites: &Sites) -> Usage {
    let process = sites.process(WEST);
    let read =
        |file: &str| std::fs::read_to_string(format!("/proc/{process}/{file}")).expect("the relay lives");
    let stat = read("stat");
    let ticks: u64 = stat.split(") ").last().expect("fields").split(' ').skip(11).take(2).map(number).sum();
    let status = read("status");
    let kilobytes =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a process has memory");
    let status = sites.status(WEST);
    let count = |name: &str| {
        let mut counters = status["counters"].as_array().into_iter().flatten();
        let counter = counters.find(|counter| counter["reason"] == format!("work_{name}"));
        counter.and_then(|counter| counter["count"].as_u64()).unwrap_or(0)
    };
    let work = count("messages")
        + count("numbers")
        + count("entries")
        + count("registrations") * REGISTRATION_WORK
        + count("signatures") * SIGNATURE_WORK
        + count("decodings") * DECODING_WORK
        + count("solves") * SOLVE_WORK;
    // The kernel counts in hundredths of a second (USER_HZ).
    Usage {
        processor: Duration::from_millis(ticks * 10),
        memory_mb: number(kilobytes.trim().trim_end_matches(" kB")) / 1_024,
        work,
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

/// Outcome of an attack, in one run or in several.
struct Outcome {
    name: &'static str,
    datagrams: u32,
    time: Duration,
    sent: usize,
    lost: usize,
    p99: Duration,
    memory_mb: u64,
    processor: Duration,
    work: u64,
}

impl fmt::Display for Outcome {
    /// Writes a row of a table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, sent, lost, memory_mb, .. } = self;
        let (p99, seconds) = (self.p99.as_secs_f64() * 1_000.0, self.time.as_secs_f64());
        let rate = (f64::from(self.datagrams) / seconds) as u32;
        let (percent, work) =
            ((self.processor.as_secs_f64() / seconds * 100.0) as u32, self.work_per_datagram());
        write!(
            f,
            "| {name} | {rate} | {lost} of {sent} | {p99:.1} ms | {memory_mb} MB | {percent} % | {work} |"
        )
    }
}

fn run(attack: &Attack, size: &Size, sites: &Sites, members: &mut Members) -> Outcome {
    members.set_up(attack, size.flows);
    let streams = [ALICE, BOB].map(|from| sites.begin(from, 0));
    // Flows that rested have to be known again.
    std::thread::sleep(Duration::from_millis(400));
    let (before, begun) = (usage(sites), Instant::now());
    let datagrams = members.flood(attack, size.rate, size.time);
    let ended = Instant::now();
    let after = usage(sites);
    let (mut sent, mut lost, mut took) = (0, 0, Vec::new());
    for fate in streams.map(sites::Stream::finish) {
        assert_eq!(fate.twice(), 0, "{}: something came twice", attack.name);
        lost += fate.missing(begun, ended);
        let during =
            |(sent, took): (&Instant, &Option<Duration>)| (begun..ended).contains(sent).then_some(*took);
        let all: Vec<_> = fate.sent.iter().zip(&fate.took).filter_map(during).collect();
        sent += all.len();
        took.extend(all.into_iter().flatten());
    }
    took.sort_unstable();
    Outcome {
        name: attack.name,
        datagrams,
        time: ended - begun,
        sent,
        lost,
        p99: took[(took.len() - 1) * 99 / 100],
        memory_mb: after.memory_mb,
        processor: after.processor.saturating_sub(before.processor),
        work: after.work - before.work,
    }
}

impl Outcome {
    /// Returns the sums over all runs of an attack, the most memory, and the median of the p99s.
    fn over(mut runs: Vec<Self>) -> Self {
        runs.sort_unstable_by_key(|run| run.p99);
        let p99 = runs[runs.len() / 2].p99;
        let sums = runs.into_iter().reduce(|all, run| Self {
            datagrams: all.datagrams + run.datagrams,
            time: all.time + run.time,
            sent: all.sent + run.sent,
            lost: all.lost + run.lost,
            memory_mb: all.memory_mb.max(run.memory_mb),
            processor: all.processor + run.processor,
            work: all.work + run.work,
            ..all
        });
        Self { p99, ..sums.expect("each attack ran") }
    }

    fn work_per_datagram(&self) -> u64 {
        self.work / u64::from(self.datagrams.max(1))
    }

    fn faults(&self, control: &Self, size: &Size) -> Vec<String> {
        let datagrams = u64::from(self.datagrams.max(1));
        let earned = SESSION_WORK_PER_SECOND * self.time.as_millis() as u64 / 1_000;
        let work_max = control.work_per_datagram()
            + (SESSION_WORK_BURST * u64::from(size.rounds) + earned) / datagrams
            + READING_WORK
            + REGISTRATION_WORK;
        // Codes do not repair all: four standard deviations of the control's losses are chance.
        let chance = 4 * (control.lost as f64).sqrt() as usize;
        let lost_max = control.lost + chance + self.sent / size.lost_share;
        let memory_max = MEMORY_MB + BESIDE_MB;
        let mut faults = Vec::new();
        let mut expect = |is_so: bool, fault: String| faults.extend((!is_so).then_some(fault));
        expect(
            self.lost <= lost_max,
            format!("{}: {} of {} packets are lost", self.name, self.lost, self.sent),
        );
        expect(self.memory_mb <= memory_max, format!("{}: the relay has {} MB", self.name, self.memory_mb));
        let work = self.work_per_datagram();
        expect(work <= work_max, format!("{}: {work} units of work, not {work_max}", self.name));
        let p99_max = size.delay_max.map_or(Duration::MAX, |delay_max| control.p99 + delay_max);
        expect(self.p99 <= p99_max, format!("{}: p99 is {:?}, not {p99_max:?}", self.name, self.p99));
        faults
    }
}

/// Packets that came by relays, for both directions.
fn relayed(sites: &Sites) -> u64 {
    let of = |agent| {
        let received = &sites.status(agent)["totals"][0]["received"];
        let kinds = ["cached", "in_stream", "cooperative", "forwarded"];
        kinds.iter().filter_map(|kind| received[kind].as_u64()).sum::<u64>()
    };
    of(ALICE) + of(BOB)
}

#[test]
fn no_flood_of_a_member_costs_another_tenants_flow_its_repairs() {
    let faults: Vec<String> = SERVICES.iter().flat_map(|service| floods_beside(service)).collect();
    assert_eq!(faults, Vec::<String>::new());
}

/// Waits until the relays repair flows in both directions.
fn wait_for_repairs(sites: &Sites) {
    let before = relayed(sites);
    let streams = [ALICE, BOB].map(|from| sites.begin(from, 0));
    sites.wait_for("relays repair", || relayed(sites) > before + 20);
    drop(streams.map(sites::Stream::finish));
}

/// Runs control and attacks in turn, as often as there are rounds; the control is the first.
fn outcomes(size: &Size, sites: &mut Sites, members: &mut Members) -> Vec<Outcome> {
    let attacks = || std::iter::once(&CONTROL).chain(ATTACKS.iter().step_by(size.every));
    let mut runs: Vec<Vec<Outcome>> = attacks().map(|_| Vec::new()).collect();
    for round in 0..size.rounds {
        if round > 0 {
            // The last attack leaves a relay that may ask the attackers for cookies.
            sites.kill(WEST);
            sites.revive(WEST);
        }
        wait_for_repairs(sites);
        for (attack, runs) in attacks().zip(&mut runs) {
            runs.push(run(attack, size, sites, members));
        }
    }
    runs.into_iter().map(Outcome::over).collect()
}

/// Runs control and attacks beside flows of a service, and prints a table; returns what is wrong.
fn floods_beside(service: &str) -> Vec<String> {
    let size = size(service);
    let plan = Plan {
        mode: Mode::Managed,
        direct: "loss = [{ share = \"10 %\" }]".to_owned(),
        uplink: String::new(),
        access: None,
        forwards: vec![format!("service = \"{service}\"\ncopies = \"all\"")],
    };
    let Some(mut sites) = Sites::start(plan) else { return Vec::new() };
    sites.restart_with(WEST, &format!("memory = \"{MEMORY_MB} MB\""));
    let mut members = Members::join(&sites);
    let before = relayed(&sites);
    let mut outcomes = outcomes(&size, &mut sites, &mut members);
    eprintln!("\nbeside flows with service = \"{service}\", {} times {:?} each:\n", size.rounds, size.time);
    eprintln!(
        "| datagrams full of | a second | lost | p99 | RSS of the relay | its share of a core | units of work for each |"
    );
    eprintln!("|---|---|---|---|---|---|---|");
    for outcome in &outcomes {
        eprintln!("{outcome}");
    }
    let control = outcomes.remove(0);
    let faults = outcomes.iter().flat_map(|outcome| outcome.faults(&control, &size));
    let busy =
        outcomes.iter().filter(|outcome| outcome.work_per_datagram() > control.work_per_datagram() + 5);
    assert!(busy.count() * 3 >= outcomes.len(), "attacks cost more than silence");
    let sent: usize = outcomes.iter().map(|outcome| outcome.sent).sum();
    // A tenth is lost on the direct path.
    assert!(relayed(&sites) - before > sent as u64 / 20, "the flows needed the relays");
    faults.map(|fault| format!("{service}: {fault}")).collect()
}
