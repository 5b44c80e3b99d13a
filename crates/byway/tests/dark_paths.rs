//! Outages of one direct path, of some, and of all, bridged by each service, with real processes:
//! the experiment `rec-outages` outside of the simulator.
//!
//! This is a small version; `make outages` runs all services, alone and in a coding group, behind
//! wide and narrow uplinks.

#![allow(clippy::disallowed_methods, reason = "tests of the program use clocks and settings")]
#![allow(clippy::print_stderr, reason = "says what was measured")]
#![allow(clippy::cast_precision_loss, reason = "shares of counts")]

mod calls;
mod sites;

use std::fmt;
use std::ops::Range;
use std::time::{Duration, Instant};

use calls::{BUDGET, Call, Calls, CallsOutcome, Outage, ROUND_TRIP};
use sites::{Fate, Mode};

/// Services that bridge outages, with the other keys of their forwards.
const SERVICES: [&str; 5] = ["retransmission", "pull", "coding", "caching", "both"];

/// Time from the begin of an outage for which its packets do not count, because an outage has to be
/// detected.
const GRACE: Duration = Duration::from_millis(250).saturating_add(ROUND_TRIP);

/// Time before the end of an outage from which its packets do not count: they may reach the path
/// after its end.
const END_MARGIN: Duration = Duration::from_millis(10);

/// Time by which a packet may exceed the latency budget, because the receiving application waits
/// for a core.
const TOLERANCE: Duration = Duration::from_millis(20);

/// Least share of an outage's counted packets that arrive in time, as the mean over all outages.
const SHARE_MIN: f64 = 0.99;

/// Greatest share without a service: otherwise the outage is none.
const BARE_SHARE_MAX: f64 = 0.01;

/// Uplinks by name: one and a half times the rate of a call, whose packets have 575 bytes with all
/// headers, and a wide one.
const NARROW: (&str, &str) = ("narrow", "690 kbit/s");
const WIDE: (&str, &str) = ("wide", "100 Mbit/s");

/// Calls of a coding group, and indices of those with an outage: of one path, of two, of four, and
/// of all.
const GROUP_CALLS: usize = 8;
const ONE: Range<usize> = 0..1;
const TWO: Range<usize> = 1..3;
const FOUR: Range<usize> = 3..7;
const ALL: Range<usize> = 0..GROUP_CALLS;

/// Time after the last outage, in which the calls go on.
const AFTERMATH: u64 = 2;

/// Outages of the calls with these indices: their begin and length in seconds.
type Schedule = &'static [(Range<usize>, u64, u64)];

/// Schedule of `make test` for a coding group.
const SHORT: Schedule = &[(ONE, 2, 1), (TWO, 6, 1), (FOUR, 10, 1), (ALL, 14, 3)];

/// Schedule of `make outages` for a coding group. Relays carry a flow for 15 s of a minute, from
/// its first outage on, and each outage counts a quarter of a second more than it lasts. So each
/// path is dark for at most 13 s of such a minute.
const LONG: Schedule = &[
    (ONE, 3, 8),
    (TWO, 14, 8),
    (FOUR, 25, 8),
    (ONE, 36, 3),
    (TWO, 42, 3),
    (FOUR, 48, 3),
    (ALL, 54, 1),
    (ONE, 58, 1),
    (TWO, 62, 1),
    (FOUR, 72, 1),
    (ALL, 87, 3),
    (ALL, 93, 8),
];

/// Schedules of lone calls.
const SHORT_LONE: Schedule = &[(ALL, 2, 1), (ALL, 6, 3)];
const LONG_LONE: Schedule = &[(ALL, 3, 8), (ALL, 14, 3), (ALL, 20, 1)];

/// Calls that are judged together.
struct Variant {
    name: String,
    calls: Range<usize>,
}

/// Calls that run at the same time, the last one without a service.
struct Environment {
    mode: Mode,
    calls: Vec<Call>,
    variants: Vec<Variant>,
    length: Duration,
}

/// Counts of packets in outages.
#[derive(Default)]
struct Counts {
    sent: u32,
    late: u32,
    /// Time of each missing packet since the begin of its outage.
    missing: Vec<Duration>,
    /// Share of each outage of each call.
    shares: Vec<f64>,
}

fn call(service: &str, uplink: &'static str, group: usize, index: usize, schedule: Schedule) -> Call {
    let outages = schedule.iter().filter(|(calls, ..)| calls.contains(&index));
    let outages = outages
        .map(|(_, at, length)| Outage { at: Duration::from_secs(*at), length: Duration::from_secs(*length) });
    let coding = if service == "coding" { "\nin_stream = \"5+1\"\nbatch = \"8+2\"" } else { "" };
    let keys = format!("service = \"{service}\"{coding}");
    Call { keys, uplink, group, outages: outages.collect() }
}

impl Environment {
    fn new(mode: Mode, mut calls: Vec<Call>, variants: Vec<Variant>, schedule: Schedule) -> Self {
        let bare = Call { outages: Vec::new(), ..call("internet", WIDE.1, calls.len(), 0, schedule) };
        let mut outages: Vec<Outage> = calls.iter().flat_map(|call| call.outages.clone()).collect();
        outages.sort_by_key(|outage| outage.at);
        outages.dedup_by_key(|outage| outage.at);
        calls.push(Call { outages, ..bare });
        let end = schedule.iter().map(|(_, at, length)| at + length).max().expect("outages");
        Self { mode, calls, variants, length: Duration::from_secs(end + AFTERMATH) }
    }

    /// Returns an environment of eight calls with one service, in one coding group.
    fn in_group(mode: Mode, service: &str, (name, uplink): (&str, &'static str), schedule: Schedule) -> Self {
        let calls = ALL.map(|index| call(service, uplink, 0, index, schedule)).collect();
        let variants = vec![Variant { name: format!("{service}, {name}, in a group"), calls: ALL }];
        Self::new(mode, calls, variants, schedule)
    }

    /// Returns an environment of one call with each service, which relays code with no other.
    fn alone(mode: Mode, (name, uplink): (&str, &'static str), schedule: Schedule) -> Self {
        let calls = SERVICES.into_iter().enumerate();
        let variants = calls.clone().map(|(index, service)| Variant {
            name: format!("{service}, {name}, alone"),
            calls: index..index + 1,
        });
        let variants = variants.collect();
        let calls = calls.map(|(group, service)| call(service, uplink, group, 0, schedule)).collect();
        Self::new(mode, calls, variants, schedule)
    }

    /// Runs the calls, and returns what is wrong; `None` if this machine cannot run them.
    fn faults(&self) -> Option<Vec<String>> {
        let mut calls = Calls::start(self.mode, self.calls.clone())?;
        let outcome = calls.run(self.length);
        let gap = outcome.fates.iter().map(longest_gap).max().unwrap_or_default();
        let mut faults = Vec::new();
        for variant in &self.variants {
            let counts = self.counts(&outcome, variant.calls.clone());
            eprintln!("| {:?} | {} | {counts} |", self.mode, variant.name);
            if counts.share() < SHARE_MIN {
                let Counts { missing, .. } = &counts;
                faults.push(format!("{:?}, {}: {counts}, missing at {missing:?}", self.mode, variant.name));
                eprintln!(
                    "status of the nodes of {}:\n{}",
                    variant.name,
                    calls.statuses(variant.calls.clone())
                );
            }
            let twice: usize = outcome.fates[variant.calls.clone()].iter().map(Fate::twice).sum();
            faults.extend((twice > 0).then(|| format!("{}: {twice} packets arrived twice", variant.name)));
        }
        let bare = self.counts(&outcome, self.calls.len() - 1..self.calls.len());
        eprintln!("| {:?} | internet, wide | {bare} |", self.mode);
        if bare.share() > BARE_SHARE_MAX {
            faults.push(format!("without a service, {bare}: the outages are none"));
        }
        let lateness = &outcome.lateness;
        eprintln!(
            "emulator late by {} us (p99), {} us (max); longest gap between packets {gap:?}",
            lateness.p99_us, lateness.max_us
        );
        if lateness.is_void() && !faults.is_empty() {
            faults.push("the machine was too busy to forward packets on time".to_owned());
        }
        Some(faults)
    }

    fn counts(&self, outcome: &CallsOutcome, calls: Range<usize>) -> Counts {
        let mut counts = Counts::default();
        for call in calls {
            for outage in &self.calls[call].outages {
                counts.add(&outcome.fates[call], outcome.begun + outage.at, outage.length);
            }
        }
        counts
    }
}

impl Counts {
    /// Counts the packets of a call in an outage.
    fn add(&mut self, fate: &Fate, begun: Instant, length: Duration) {
        let counted = begun + GRACE..begun + length.saturating_sub(END_MARGIN);
        let packets = fate.sent.iter().zip(&fate.took).filter(|(sent, _)| counted.contains(*sent));
        let (mut sent, mut delivered) = (0_u32, 0_u32);
        for (at, took) in packets {
            sent += 1;
            match took {
                Some(took) if *took <= BUDGET + TOLERANCE => delivered += 1,
                Some(_) => self.late += 1,
                None => self.missing.push(*at - begun),
            }
        }
        assert!(sent > 0, "no packet was sent in an outage");
        self.shares.push(f64::from(delivered) / f64::from(sent));
        self.sent += sent;
    }

    /// Returns the mean share of the outages: long ones would hide what is missing of short ones.
    fn share(&self) -> f64 {
        self.shares.iter().sum::<f64>() / self.shares.len() as f64
    }

    fn worst(&self) -> f64 {
        self.shares.iter().copied().fold(1.0, f64::min)
    }
}

impl fmt::Display for Counts {
    /// Writes columns of a table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, late, missing, .. } = self;
        let [share, worst] = [self.share(), self.worst()].map(|share| share * 100.0);
        write!(f, "{sent} | {late} | {} | {share:.2} % | {worst:.1} %", missing.len())
    }
}

/// Returns the longest time between two packets of a call, which should be ten milliseconds.
fn longest_gap(fate: &Fate) -> Duration {
    fate.sent.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}

/// Returns the environments of `make outages`: each service with each uplink in a group, in a
/// static or a managed network, and all lone calls in both.
fn large() -> Vec<Environment> {
    let mut environments = Vec::new();
    for (number, service) in SERVICES.into_iter().enumerate() {
        let modes = [Mode::Static, Mode::Managed];
        environments.push(Environment::in_group(modes[number % 2], service, WIDE, LONG));
        environments.push(Environment::in_group(modes[1 - number % 2], service, NARROW, LONG));
    }
    for mode in [Mode::Static, Mode::Managed] {
        environments.extend([WIDE, NARROW].map(|uplink| Environment::alone(mode, uplink, LONG_LONE)));
    }
    environments
}

fn small() -> Vec<Environment> {
    vec![
        Environment::in_group(Mode::Static, "coding", WIDE, SHORT),
        Environment::alone(Mode::Managed, NARROW, SHORT_LONE),
    ]
}

#[test]
fn of_what_an_outage_would_lose_after_its_detection_every_service_delivers_99_percent() {
    let mut environments =
        if std::env::var("OUTAGES").is_ok_and(|size| size == "large") { large() } else { small() };
    if let Ok(only) = std::env::var("ONLY") {
        environments
            .retain(|environment| environment.variants.iter().any(|known| known.name.contains(&only)));
        assert!(!environments.is_empty(), "no variant has the name {only}");
    }
    eprintln!("| network | service, uplink | packets | late | missing | in time | worst outage |");
    eprintln!("|---|---|---|---|---|---|---|");
    let mut faults = Vec::new();
    for environment in environments {
        let Some(found) = environment.faults() else { break };
        faults.extend(found);
    }
    assert_eq!(faults, Vec::<String>::new());
}
