//! Random scenarios, each from its seed: topology, traffic and faults; then a time in which all is well again.
//!
//! A swarm's scenario is a text like any other: what fails is run, traced and captured by itself.

use std::fmt::Write as _;

use byway_sim::{Random, Seed};
use byway_units::{Duration, Time};

use crate::outcome::Outcome;
use crate::record::FlowRecord;

/// When faults may begin, when all of them are over, when everything must be well, and when it ends: milliseconds.
const FAULTS_FROM: u64 = 3_000;
/// See [`FAULTS_FROM`].
const FAULTS_UNTIL: u64 = 9_000;
/// See [`FAULTS_FROM`].
const WELL_FROM: u64 = 16_000;
/// See [`FAULTS_FROM`].
const END: u64 = 20_000;

/// The scenario of a seed, as a file's text.
#[must_use]
pub fn swarm_scenario(seed: u64) -> String {
    let mut random = Seed::new(seed).named("swarm of scenarios").sequence();
    let shape = Shape::drawn(&mut random);
    let mut text = format!(
        "# One of a swarm: what goes wrong here is drawn from seed {seed}.\ntitle = \"Swarm, seed {seed}\"\nseed = {seed}\nlength = \"{END} ms\"\n"
    );
    shape.nodes(&mut text);
    shape.links(&mut text, &mut random);
    shape.flows(&mut text, &mut random);
    shape.faults(&mut text, &mut random);
    text
}

/// What is wrong with how a swarm's scenario came out; nothing, if all is as it must be whatever happens.
///
/// It needs [`Outcome::records`].
#[must_use]
pub fn swarm_faults(outcome: &Outcome) -> Vec<String> {
    let mut faults = Vec::new();
    if let Some(stopped) = &outcome.stopped {
        faults.push(format!("stopped after {} s: {}", stopped.seconds, stopped.why));
    }
    for flow in &outcome.flows {
        if flow.duplicates > 0 {
            faults.push(format!("{}: {} packets were delivered again", flow.name, flow.duplicates));
        }
    }
    for record in &outcome.records {
        let (sent, missing) = missing_when_well(record);
        if missing > 0 {
            let name = format!("{} from {} to {}", record.name, record.from, record.to);
            faults.push(format!(
                "{name}: {missing} of {sent} packets are missing or late although all is well again"
            ));
        }
    }
    faults
}

/// How many packets a flow sent after everything was well again, and how many of them were not delivered in time.
fn missing_when_well(record: &FlowRecord) -> (usize, usize) {
    let well = Time::START + Duration::from_millis(WELL_FROM);
    let late = |delay: Option<Duration>| delay.is_none_or(|delay| delay > record.terms.budget);
    let sent = record.fates.iter().filter(|fate| fate.sent >= well);
    let missing = sent.clone().filter(|fate| late(fate.delay())).count();
    (sent.count(), missing)
}

/// Who there is.
#[derive(Clone, Copy, Debug)]
struct Shape {
    pairs: u64,
    has_two_relays: bool,
    /// Whether all senders leave by one router.
    shares_access: bool,
    service: &'static str,
}

impl Shape {
    fn drawn(random: &mut Random) -> Self {
        let services = ["internet", "coding", "coding", "caching", "caching", "forwarding", "both"];
        Self {
            pairs: 1 + random.below(6),
            has_two_relays: random.below(3) > 0,
            shares_access: random.below(3) == 0,
            service: one_of(random, &services),
        }
    }

    const fn egress(&self) -> &'static str {
        if self.has_two_relays { "west" } else { "east" }
    }

    fn nodes(&self, text: &mut String) {
        for role in ["alice", "bob"] {
            put(text, format!("\n[[node]]\nname = \"{role}\"\nrole = \"agent\"\ncount = {}\n", self.pairs));
        }
        for relay in ["east", "west"].into_iter().take(1 + usize::from(self.has_two_relays)) {
            put(text, format!("\n[[node]]\nname = \"{relay}\"\nrole = \"relay\"\n"));
        }
        if self.shares_access {
            put(text, "\n[[node]]\nname = \"gate\"\nrole = \"router\"\n");
        }
    }

    /// The machine by which senders reach others.
    const fn first_hop(&self) -> &'static str {
        if self.shares_access { "gate" } else { "alice" }
    }

    fn links(&self, text: &mut String, random: &mut Random) {
        if self.shares_access {
            put(text, "\n[[link]]\nbetween = [\"alice\", \"gate\"]\ndelay = \"2 ms\"\n");
        }
        Self::link(text, (self.first_hop(), "bob"), 20 + random.below(100), 10.0, random);
        Self::link(text, (self.first_hop(), "east"), 2 + random.below(15), 3.0, random);
        Self::link(text, ("bob", self.egress()), 2 + random.below(30), 3.0, random);
        if self.has_two_relays {
            Self::link(text, ("east", "west"), 10 + random.below(80), 2.0, random);
        }
    }

    /// A link that is as it should be before and after, and in between loses up to so many percent.
    fn link(text: &mut String, (one, other): (&str, &str), delay: u64, lossy: f64, random: &mut Random) {
        put(text, format!("\n[[link]]\nbetween = [\"{one}\", \"{other}\"]\ndelay = \"{delay} ms\"\n"));
        if random.below(3) == 0 {
            let reorders = random.below(2) == 0;
            put(text, format!("jitter = \"{} ms\"\nreorders = {reorders}\n", 1 + random.below(20)));
        }
        if random.below(5) == 0 {
            put(text, format!("duplication = \"{} %\"\n", 1 + random.below(20)));
        }
        if random.below(3) == 0 {
            let (at, length) = (FAULTS_FROM + random.below(4_000), 50 + random.below(2_000));
            put(text, format!("outage = [{{ at = \"{at} ms\", for = \"{length} ms\" }}]\n"));
        }
        let step = |at: u64, loss: &str| {
            format!(
                "\n[[step]]\nat = \"{at} ms\"\ndo = \"change\"\nbetween = [\"{one}\", \"{other}\"]\nloss = [{loss}]\n"
            )
        };
        let share = lossy * f64::from(u32::try_from(random.below(101)).unwrap_or(0)) / 100.0;
        let loss = match random.below(3) {
            0 => format!("{{ share = \"{share:.2} %\" }}"),
            1 => format!(
                "{{ share = \"{share:.2} %\", burst = {}.0, every = \"10 ms\" }}",
                2 + random.below(8)
            ),
            _ => return,
        };
        put(text, step(FAULTS_FROM, &loss) + &step(FAULTS_UNTIL, ""));
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
        let standby = random.below(5) == 0 && matches!(self.service, "coding" | "caching");
        let in_stream = one_of(random, &["5+1", "16+1", "none"]);
        let batch = one_of(random, &["6+2", "8+2", "10+1"]);
        put(
            text,
            format!(
                "\n[[flow]]\nname = \"call\"\nfrom = \"alice\"\nto = \"bob\"\nservice = \"{}\"\nstandby = {standby}\nin_stream = \"{in_stream}\"\nbatch = \"{batch}\"\nbudget = \"400 ms\"\nsends = {sends}\n",
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
            let (begins, ends) = one_of(random, &[("stop", "start"), ("hang", "resume")]);
            for (at, does) in [(from, begins), (until, ends)] {
                put(text, format!("\n[[step]]\nat = \"{at} ms\"\ndo = \"{does}\"\nnode = \"{node}\"\n"));
            }
        }
    }
}

fn one_of<T: Copy>(random: &mut Random, values: &[T]) -> T {
    let place =
        usize::try_from(random.below(values.len() as u64)).expect("it is below a number of this type");
    values[place]
}

fn put(text: &mut String, part: impl AsRef<str>) {
    // Writing to a string cannot fail.
    let _ = text.write_str(part.as_ref());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn each_seed_has_a_scenario_that_is_right() {
        for seed in 0..300 {
            let text = swarm_scenario(seed);
            let scenario =
                Scenario::parse(&text).unwrap_or_else(|problem| panic!("seed {seed}: {problem}\n{text}"));
            assert_eq!(scenario.check(), Ok(()), "seed {seed}\n{text}");
            assert_eq!(swarm_scenario(seed), text);
        }
    }
}
