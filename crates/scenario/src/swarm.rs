//! Random scenarios, each from its seed: topology, traffic and faults, then a period without
//! faults.
//!
//! A swarm's scenario and its recordings are ordinary texts: a failure can be run, traced and
//! captured by itself. The swarm checks results from outside. The swarm of `byway-sim`'s tests
//! checks the state of machines at the end.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use byway_config_types::Problem;
use byway_sim::{Random, Seed};
use byway_units::{Duration, Time};

use crate::outcome::Outcome;
use crate::record::FlowRecord;
use crate::scenario::Scenario;

/// Virtual time from which on a swarm's scenario has faults, in milliseconds.
const FAULTS_FROM: u64 = 3_000;
/// Virtual time at which the last fault of a swarm's scenario ends, in milliseconds.
const FAULTS_UNTIL: u64 = 9_000;
/// Virtual time from which on a swarm's flows must lose nothing, in milliseconds.
const WELL_FROM: u64 = 16_000;
/// Virtual time at which a swarm's scenario ends, in milliseconds.
const END: u64 = 20_000;

/// Latency budget of all flows, in milliseconds.
const BUDGET: u64 = 400;

/// Number of packets of a swarm's recording.
const RECORDED_PACKETS: usize = 300;
/// Interval between the packets of a swarm's recording, in milliseconds: a recording has six
/// seconds.
const RECORDED_EVERY: u64 = 20;

/// Returns the files of a swarm's seed, each with its name and its text: the scenario, and the
/// recordings that it names.
#[must_use]
pub fn swarm_files(seed: u64) -> Vec<(String, String)> {
    let recordings = Recordings::random(seed);
    let scenario = (format!("swarm-{seed}.toml"), scenario_text(seed, &recordings));
    [Some(scenario), recordings.losses, recordings.delays].into_iter().flatten().collect()
}

/// Returns the scenario of a seed.
///
/// # Errors
/// If it is invalid; no seed has an invalid one.
pub fn swarm_scenario(seed: u64) -> Result<Scenario, Problem> {
    let files = swarm_files(seed);
    Scenario::read(Path::new(&files[0].0), &|wanted| {
        let file = files.iter().find(|(name, _)| Path::new(name) == wanted);
        file.map(|(_, text)| text.clone()).ok_or_else(|| io::ErrorKind::NotFound.into())
    })
}

fn scenario_text(seed: u64, recordings: &Recordings) -> String {
    let mut random = Seed::new(seed).named("swarm of scenarios").sequence();
    let shape = Shape { uplink: Uplink::random(seed), ..Shape::random(&mut random) };
    let mut text = format!(
        "# Swarm scenario with faults drawn from seed {seed}.\n\
         title = \"Swarm, seed {seed}\"\n\
         seed = {seed}\n\
         length = \"{END} ms\"\n"
    );
    shape.nodes(&mut text);
    shape.links(&mut text, recordings, &mut random);
    shape.flows(&mut text, &mut random);
    shape.faults(&mut text, &mut random);
    text
}

/// Returns the violations in the outcome of a swarm's scenario, in words; empty if there are none.
///
/// The outcome must have [`Outcome::records`].
#[must_use]
pub fn swarm_faults(outcome: &Outcome) -> Vec<String> {
    let mut faults = Vec::new();
    if let Some(stopped) = &outcome.stopped {
        faults.push(format!("stopped after {} s: {}", stopped.seconds, stopped.why));
    }
    for flow in &outcome.flows {
        if flow.duplicates > 0 {
            faults.push(format!("{}: {} packets were delivered twice", flow.name, flow.duplicates));
        }
    }
    for record in &outcome.records {
        let (sent, missing) = missing_when_well(record);
        if missing > 0 {
            let name = format!("{} from {} to {}", record.name, record.from, record.to);
            faults.push(format!("{name}: {missing} of {sent} packets missing or late after the last fault"));
        }
    }
    faults
}

/// Returns the number of packets that a flow sent after recovery from all faults, and the number of
/// those not delivered in time.
fn missing_when_well(record: &FlowRecord) -> (usize, usize) {
    let well = Time::START + Duration::from_millis(WELL_FROM);
    let late = |delay: Option<Duration>| delay.is_none_or(|delay| delay > record.terms.budget);
    let sent = record.packets.iter().filter(|packet| packet.sent >= well);
    let missing = sent.clone().filter(|packet| late(packet.delay())).count();
    (sent.count(), missing)
}

/// Recorded losses and delays of some direct paths: names and texts. Both end before the period
/// without faults.
#[derive(Debug, Default)]
struct Recordings {
    losses: Option<(String, String)>,
    delays: Option<(String, String)>,
}

impl Recordings {
    fn random(seed: u64) -> Self {
        let mut random = Seed::new(seed).named("recordings of a swarm").sequence();
        let losses = (random.below(4) == 0).then(|| Self::recorded_losses(&mut random));
        let delays = (random.below(4) == 0).then(|| Self::recorded_delays(&mut random));
        Self {
            losses: losses.map(|text| (format!("swarm-{seed}-losses.txt"), text)),
            delays: delays.map(|text| (format!("swarm-{seed}-delays.txt"), text)),
        }
    }

    /// Returns losses in which one packet in fifty begins a burst of up to eight.
    fn recorded_losses(random: &mut Random) -> String {
        let mut text = String::new();
        while text.len() < RECORDED_PACKETS {
            let lost = if random.below(50) == 0 { 1 + random.below(8) } else { 0 };
            append(&mut text, (0..lost).map(|_| '1').chain(['0']).collect::<String>());
        }
        text
    }

    /// Returns delays of up to 30 ms above the shortest; one packet in forty is lost.
    fn recorded_delays(random: &mut Random) -> String {
        let least = 20 + random.below(80);
        let mut text = String::new();
        for _ in 0..RECORDED_PACKETS {
            let micros = least * 1_000 + random.below(30_000);
            let is_lost = random.below(40) == 0;
            let delay = format!("{}.{:03}\n", micros / 1_000, micros % 1_000);
            append(&mut text, if is_lost { "lost\n" } else { &delay });
        }
        text
    }
}

/// Topology of a swarm's scenario, and the settings of its flows.
#[derive(Clone, Copy, Debug)]
struct Shape {
    pairs: u64,
    has_two_relays: bool,
    /// True if all senders share one router.
    shares_access: bool,
    service: &'static str,
    /// Uplink of each relay; `None`: unlimited.
    uplink: Option<Uplink>,
}

/// Limited uplink of relays. It has capacity for all flows, and for simultaneous bursts of all of
/// them.
#[derive(Clone, Copy, Debug)]
struct Uplink {
    megabits: u64,
    /// True if the flows are low-delay.
    is_low_delay: bool,
    guard: &'static str,
    ecn: bool,
}

impl Uplink {
    fn random(seed: u64) -> Option<Self> {
        let mut random = Seed::new(seed).named("uplinks of a swarm").sequence();
        (random.below(3) == 0).then(|| Self {
            megabits: 100 + random.below(400),
            is_low_delay: random.below(2) == 0,
            guard: match random.below(3) {
                0 => "none",
                1 => "fair",
                _ => "strict",
            },
            ecn: random.below(2) == 0,
        })
    }

    /// Returns the uplink settings as text in the table of a relay.
    fn text(self) -> String {
        let Self { megabits, is_low_delay, guard, ecn } = self;
        let budget = if is_low_delay { BUDGET } else { BUDGET - 1 };
        format!(
            "uplink = {{ rate = \"{megabits} Mbit/s\", low_delay_budget = \"{budget} ms\", guard = \"{guard}\", ecn = {ecn} }}\n"
        )
    }
}

impl Shape {
    fn random(random: &mut Random) -> Self {
        let services = [
            "internet",
            "coding",
            "coding",
            "caching",
            "caching",
            "forwarding",
            "both",
            "pull",
            "retransmission",
        ];
        Self {
            pairs: 1 + random.below(6),
            has_two_relays: random.below(3) > 0,
            shares_access: random.below(3) == 0,
            service: one_of(random, &services),
            uplink: None,
        }
    }

    const fn egress(&self) -> &'static str {
        if self.has_two_relays { "west" } else { "east" }
    }

    fn nodes(&self, text: &mut String) {
        for role in ["alice", "bob"] {
            append(
                text,
                format!("\n[[node]]\nname = \"{role}\"\nrole = \"agent\"\ncount = {}\n", self.pairs),
            );
        }
        for relay in ["east", "west"].into_iter().take(1 + usize::from(self.has_two_relays)) {
            let uplink = self.uplink.map_or_else(String::new, Uplink::text);
            append(text, format!("\n[[node]]\nname = \"{relay}\"\nrole = \"relay\"\n{uplink}"));
        }
        if self.shares_access {
            append(text, "\n[[node]]\nname = \"gate\"\nrole = \"router\"\n");
        }
    }

    /// Returns the name of the machine at which the senders' first links end.
    const fn first_hop(&self) -> &'static str {
        if self.shares_access { "gate" } else { "alice" }
    }

    fn links(&self, text: &mut String, recordings: &Recordings, random: &mut Random) {
        let none = Recordings::default();
        if self.shares_access {
            append(text, "\n[[link]]\nbetween = [\"alice\", \"gate\"]\ndelay = \"2 ms\"\n");
        }
        Self::link(text, (self.first_hop(), "bob"), 20 + random.below(100), 10.0, recordings, random);
        Self::link(text, (self.first_hop(), "east"), 2 + random.below(15), 3.0, &none, random);
        Self::link(text, ("bob", self.egress()), 2 + random.below(30), 3.0, &none, random);
        if self.has_two_relays {
            Self::link(text, ("east", "west"), 10 + random.below(80), 2.0, &none, random);
        }
    }

    /// Writes a link. Between [`FAULTS_FROM`] and [`FAULTS_UNTIL`] it may have an outage, and a
    /// loss rate of up to `lossy` percent or the recorded losses. Recorded delays apply from the
    /// beginning to [`FAULTS_UNTIL`]; jitter and duplicates may apply all the time.
    fn link(
        text: &mut String,
        (one, other): (&str, &str),
        delay: u64,
        lossy: f64,
        recordings: &Recordings,
        random: &mut Random,
    ) {
        let delays = recordings.delays.as_ref().map(|(name, _)| recorded(name));
        let delay_setting =
            delays.as_ref().map_or(format!("delay = \"{delay} ms\""), |delays| format!("delays = {delays}"));
        append(text, format!("\n[[link]]\nbetween = [\"{one}\", \"{other}\"]\n{delay_setting}\n"));
        if random.below(3) == 0 {
            let reorders = random.below(2) == 0;
            append(text, format!("jitter = \"{} ms\"\nreorders = {reorders}\n", 1 + random.below(20)));
        }
        if random.below(5) == 0 {
            append(text, format!("duplication = \"{} %\"\n", 1 + random.below(20)));
        }
        if random.below(3) == 0 {
            let (at, length) = (FAULTS_FROM + random.below(4_000), 50 + random.below(2_000));
            append(text, format!("outage = [{{ at = \"{at} ms\", for = \"{length} ms\" }}]\n"));
        }
        let step = |at: u64, what: &str| {
            format!(
                "\n[[step]]\nat = \"{at} ms\"\ndo = \"change\"\nbetween = [\"{one}\", \"{other}\"]\n{what}\n"
            )
        };
        if delays.is_some() {
            append(text, step(FAULTS_UNTIL, &format!("delay = \"{delay} ms\"")));
        }
        let share = lossy * f64::from(u32::try_from(random.below(101)).unwrap_or(0)) / 100.0;
        let drawn = match random.below(3) {
            0 => Some(format!("{{ share = \"{share:.2} %\" }}")),
            1 => Some(format!(
                "{{ share = \"{share:.2} %\", burst = {}.0, every = \"10 ms\" }}",
                2 + random.below(8)
            )),
            _ => None,
        };
        let losses = recordings.losses.as_ref().map(|(name, _)| recorded(name));
        if let Some(loss) = losses.or(drawn) {
            append(text, step(FAULTS_FROM, &format!("loss = [{loss}]")) + &step(FAULTS_UNTIL, "loss = []"));
        }
    }

    fn flows(&self, text: &mut String, random: &mut Random) {
        let bytes = 20 + random.below(1_280);
        let sends = match random.below(4) {
            0 => format!(
                "{{ kind = \"frames\", every = \"40 ms\", packets = {}, bytes = {bytes} }}",
                1 + random.below(8)
            ),
            1 => "{ kind = \"voice\" }".to_owned(),
            2 => format!(
                "{{ kind = \"on-off\", every = \"10 ms\", on = \"2 s\", off = \"1 s\", bytes = {bytes} }}"
            ),
            _ => format!("{{ kind = \"steady\", every = \"{} ms\", bytes = {bytes} }}", 5 + random.below(20)),
        };
        let in_stream = one_of(random, &["5+1", "16+1", "none"]);
        let batch = one_of(random, &["6+2", "8+2", "10+1"]);
        append(
            text,
            format!(
                "\n[[flow]]\nname = \"call\"\nfrom = \"alice\"\nto = \"bob\"\nservice = \"{}\"\nin_stream = \"{in_stream}\"\nbatch = \"{batch}\"\nbudget = \"{BUDGET} ms\"\nsends = {sends}\n",
                self.service
            ),
        );
    }

    fn faults(&self, text: &mut String, random: &mut Random) {
        for _ in 0..random.below(4) {
            let from = FAULTS_FROM + random.below(4_000);
            let until = from + 50 + random.below(FAULTS_UNTIL - from - 50);
            let member = 1 + random.below(self.pairs);
            let agent =
                |name: &str| if self.pairs == 1 { name.to_owned() } else { format!("{name}.{member}") };
            let node = match random.below(4) {
                0 => "east".to_owned(),
                1 => self.egress().to_owned(),
                2 => agent("alice"),
                _ => agent("bob"),
            };
            let (begins, ends) = one_of(random, &[("stop", "start"), ("freeze", "resume")]);
            for (at, does) in [(from, begins), (until, ends)] {
                append(text, format!("\n[[step]]\nat = \"{at} ms\"\ndo = \"{does}\"\nnode = \"{node}\"\n"));
            }
        }
    }
}

/// Returns the settings by which a link replays a recording.
fn recorded(name: &str) -> String {
    format!("{{ trace = \"{name}\", every = \"{RECORDED_EVERY} ms\" }}")
}

fn one_of<T: Copy>(random: &mut Random, values: &[T]) -> T {
    let index =
        usize::try_from(random.below(values.len() as u64)).expect("it is below a number of this type");
    values[index]
}

fn append(text: &mut String, part: impl AsRef<str>) {
    // Writing to a string cannot fail.
    let _ = text.write_str(part.as_ref());
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::run::RecordOptions;

    #[test]
    fn each_seed_has_a_scenario_that_is_right() {
        let (mut losses, mut delays, mut uplinks) = (0, 0, 0);
        for seed in 0..300 {
            let files = swarm_files(seed);
            let text = &files[0].1;
            let scenario =
                swarm_scenario(seed).unwrap_or_else(|problem| panic!("seed {seed}: {problem}\n{text}"));
            assert_eq!(scenario.check(), Ok(()), "seed {seed}\n{text}");
            assert_eq!(swarm_files(seed), files);
            for (name, _) in &files[1..] {
                assert!(text.contains(&format!("{name:?}")), "{name} is named by its scenario\n{text}");
            }
            let named = |what: &str| usize::from(files.iter().any(|(name, _)| name.contains(what)));
            (losses, delays) = (losses + named("losses"), delays + named("delays"));
            uplinks += usize::from(text.contains("uplink"));
        }
        // 75 of each, with a standard deviation of 7.5.
        assert!((40..110).contains(&losses) && (40..110).contains(&delays), "{losses}, {delays}");
        assert!((60..140).contains(&uplinks), "{uplinks}");
    }

    #[test]
    fn recordings_lose_packets_and_all_is_well_after_them() {
        let recorded = |seed: &u64| swarm_files(*seed).len() == 3;
        let mut losses = [0, 0];
        for seed in (0..200).filter(recorded).take(4) {
            let files = swarm_files(seed);
            let run = |is_kept: bool| {
                let text = |wanted: &Path| {
                    let (name, text) =
                        files.iter().find(|(name, _)| Path::new(name) == wanted).expect("a file");
                    match name {
                        _ if is_kept || *name == files[0].0 => text.clone(),
                        _ if name.ends_with("losses.txt") => text.replace('1', "0"),
                        _ => text.replace("lost", "50"),
                    }
                };
                let scenario = Scenario::read(Path::new(&files[0].0), &|wanted| Ok(text(wanted)));
                let watching = RecordOptions { records: true, ..RecordOptions::default() };
                let scenario = scenario.expect("it is right");
                scenario.run_observed(seed, &watching, |_| ControlFlow::Continue(())).expect("all are joined")
            };
            let lost = |outcome: &Outcome| outcome.flows.iter().map(|flow| flow.lost_direct).sum::<u64>();
            let [with, without] = [true, false].map(run);
            for (sum, outcome) in losses.iter_mut().zip([&with, &without]) {
                *sum += lost(outcome);
            }
            assert_eq!(swarm_faults(&with), [""; 0], "seed {seed}");
        }
        // The recorded losses of a single scenario may hit no packet.
        assert!(losses[0] > losses[1] + 10, "{losses:?}");
    }
}
