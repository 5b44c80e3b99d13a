//! Attacks on a controller's interface while a member requests its map. This is a small version;
//! `make attack` takes a minute.

#![allow(unreachable_pub, reason = "modules of tests")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "programs use sockets and clocks")]
#![allow(clippy::print_stderr, reason = "says what was measured")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "rates"
)]

mod controller_attackers;
mod support;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use controller_attackers::{ATTACKS, Attack, CONTROL, TIMEOUT, Target};
use support::{ManagedNetwork, Node};

/// Interval of the member's requests.
const INTERVAL: Duration = Duration::from_millis(50);

/// Limit on the memory of the controller's process: 17 MB at rest, and buffers of a thousand
/// connections with TLS.
const MEMORY_MAX_MB: u64 = 128;

/// Limit on the share of a core that an attacker with one thread may cost the controller: a TLS
/// handshake costs both sides as much.
const PROCESSOR_MAX_PERCENT: u64 = 90;

/// Limit on the delay that an attack may add to the member's p99: a few TLS handshakes of others on
/// the same core.
const DELAY_MAX: Duration = Duration::from_millis(100);

struct LoadSize {
    time: Duration,
    /// Divisor of an attack's full number of connections.
    part: usize,
    has_delay_verdict: bool,
}

/// `LoadSize` for `make test`: ten seconds in all.
const SMALL: LoadSize = LoadSize { time: Duration::from_secs(1), part: 10, has_delay_verdict: false };

/// `LoadSize` for `make attack`.
const LARGE: LoadSize = LoadSize { time: Duration::from_secs(8), part: 1, has_delay_verdict: true };

fn size() -> LoadSize {
    if std::env::var("ATTACK").is_ok_and(|size| size == "large") { LARGE } else { SMALL }
}

/// Raises the limit on open files to the system's maximum, at most 16,384, for this process and the
/// controller that it starts.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = maximum.map_or(Some(16_384), |maximum| Some(maximum.min(16_384)));
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).expect("it may have as many");
}

/// The controller and a member's request, with their addresses.
struct Testbed {
    network: ManagedNetwork,
    controller: Node,
    request: String,
}

impl Testbed {
    fn new() -> Self {
        raise_open_files();
        let (network, controller) = ManagedNetwork::new();
        let mut relay = network.relay(1);
        // The relay's node polls no more, so the requests here are the member's only ones.
        relay.kill();
        let file = network.bench.path("east").join("membership.json");
        let membership = std::fs::read_to_string(file).expect("the relay joined");
        let membership: serde_json::Value = serde_json::from_str(&membership).expect("JSON");
        let bearer = membership["bearer"].as_str().expect("a text");
        let request = format!(
            "GET /v1/map HTTP/1.1\r\nhost: controller\r\nconnection: close\r\nauthorization: Bearer {bearer}\r\n\r\n"
        );
        Self { network, controller, request }
    }

    fn target(&self, hosts: std::ops::Range<u8>, connections: usize) -> Target {
        let from = hosts.map(|host| self.network.bench.host(host).into()).collect();
        Target::new(self.network.bench.at(9, 4_443), from, connections)
    }

    /// Returns processor time and memory of the controller's process.
    fn usage(&self) -> (Duration, u64) {
        let process = self.controller.process();
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{process}/{file}")).expect("it lives");
        let number = |text: &str| text.parse::<u64>().expect("a number");
        let stat = read("stat");
        let ticks: u64 =
            stat.split(") ").last().expect("fields").split(' ').skip(11).take(2).map(number).sum();
        let status = read("status");
        let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
        // The kernel counts in hundredths of a second (USER_HZ).
        (Duration::from_millis(ticks * 10), number(kilobytes.trim().trim_end_matches(" kB")) / 1_024)
    }

    fn run(&self, attack: &Attack, size: &LoadSize) -> Outcome {
        let hosts = if attack.connections == 1 { 100..101 } else { 100..120 };
        let target = self.target(hosts, (attack.connections / size.part).max(1));
        let mut attacker = (attack.begin)(target);
        let ends = Arc::new(AtomicBool::new(false));
        let attempts = Arc::new(AtomicU32::new(0));
        let attacking = {
            let (ends, attempts) = (Arc::clone(&ends), Arc::clone(&attempts));
            std::thread::spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    attempts.fetch_add(attacker.step(), Ordering::Relaxed);
                }
            })
        };
        let member = self.target(40..41, 1);
        let (begun, (processor_before, _)) = (Instant::now(), self.usage());
        let (mut asked, mut took) = (0, Vec::new());
        while begun.elapsed() < size.time {
            let at = Instant::now();
            asked += 1;
            let answer = member.ask(0, &self.request);
            took.extend(
                answer.ok().filter(|answer| answer.starts_with("HTTP/1.1 200")).map(|_| at.elapsed()),
            );
            std::thread::sleep(INTERVAL.saturating_sub(at.elapsed()));
        }
        let (seconds, (processor, memory_mb)) = (begun.elapsed().as_secs_f64(), self.usage());
        ends.store(true, Ordering::Relaxed);
        attacking.join().expect("the attacker found nothing wrong");
        took.sort_unstable();
        let outcome = Outcome {
            name: attack.name,
            rate: (f64::from(attempts.load(Ordering::Relaxed)) / seconds) as u32,
            asked,
            answered: took.len(),
            p99: took.get(took.len().saturating_sub(1) * 99 / 100).copied().unwrap_or(TIMEOUT),
            memory_mb,
            processor_percent: (processor.saturating_sub(processor_before).as_secs_f64() / seconds * 100.0)
                as u64,
        };
        eprintln!("{outcome}");
        outcome
    }
}

struct Outcome {
    name: &'static str,
    rate: u32,
    asked: usize,
    answered: usize,
    p99: Duration,
    memory_mb: u64,
    processor_percent: u64,
}

impl fmt::Display for Outcome {
    /// Writes a row of a table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, rate, asked, answered, memory_mb, processor_percent, .. } = self;
        let p99 = self.p99.as_secs_f64() * 1_000.0;
        write!(
            f,
            "| {name} | {rate} | {answered} of {asked} | {p99:.1} ms | {memory_mb} MB | {processor_percent} % |"
        )
    }
}

impl Outcome {
    fn faults(&self, control: &Self, size: &LoadSize) -> Vec<String> {
        let p99_max = control.p99 + DELAY_MAX;
        let mut faults = Vec::new();
        let mut expect = |is_so: bool, fault: String| faults.extend((!is_so).then_some(fault));
        let (asked, answered, memory) = (self.asked, self.answered, self.memory_mb);
        expect(answered == asked, format!("{}: {answered} of {asked} are answered", self.name));
        expect(memory <= MEMORY_MAX_MB, format!("{}: the controller has {memory} MB", self.name));
        let processor = self.processor_percent;
        expect(
            processor <= PROCESSOR_MAX_PERCENT,
            format!("{}: it takes {processor} % of a core", self.name),
        );
        expect(
            !size.has_delay_verdict || self.p99 <= p99_max,
            format!("{}: p99 is {:?}, not {p99_max:?}", self.name, self.p99),
        );
        faults
    }
}

#[test]
fn no_attacker_of_its_interface_keeps_a_controller_from_answering_its_members() {
    let (size, scene) = (size(), Testbed::new());
    eprintln!(
        "| attack | attempts a second | answered | p99 | RSS of the controller | its share of a core |"
    );
    eprintln!("|---|---|---|---|---|---|");
    let control = scene.run(&CONTROL, &size);
    let outcomes: Vec<_> = ATTACKS.iter().map(|attack| scene.run(attack, &size)).collect();
    let faults: Vec<_> = outcomes.iter().flat_map(|outcome| outcome.faults(&control, &size)).collect();
    assert_eq!(faults, Vec::<String>::new());
    assert_eq!(control.answered, control.asked);
    assert!(outcomes.iter().all(|outcome| outcome.rate > 0 || outcome.name == "idle connections"));
}
