//! What came of a lab's run.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use byway_lab::Carried;
use byway_lab::emulation::MachineCounters;
use byway_lab::lateness::LatenessSummary;
use byway_scenario::{ClassesOutcome, MachineRole, Network, Scenario, Terms, Verdict};
use byway_sched::Class;
use byway_sim::ClassUse;
use byway_units::Duration;
use serde::Serialize;

use super::commands::CommandOutcome;
use super::tally::OfMachine;
use super::traffic::{Fate, Fates};
use super::world::World;
use crate::classes;
use crate::table::{aligned, rounded};
use crate::verdicts::verdict_line;

/// What came of a run, for machines and people.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LabOutcome {
    /// The scenario's title.
    pub(super) title: String,
    /// What chance began with.
    pub(super) seed: u64,
    /// What carried the traffic.
    pub(super) world: World,
    /// By the names of flows.
    pub(super) flows: Vec<FlowsOutcome>,
    /// Programs of the scenario.
    pub(super) commands: Vec<CommandOutcome>,
    /// The machines, but for routers.
    pub(super) nodes: Vec<NodeOutcome>,
    /// What is between them and has classes, each direction by itself.
    pub(super) links: Vec<LinkOutcome>,
    /// What was expected of what a lab measures, where Byway was all in use.
    pub(super) expectations: Vec<Verdict>,
    /// What else was expected.
    #[serde(skip)]
    pub(super) not_judged: Vec<Verdict>,
    /// Datagrams that came more than once: none should.
    pub(super) repeated: u64,
    /// What the carrier of packets did.
    pub(super) carrier: CarrierOutcome,
}

/// What became of the flows of one name. What programs send and receive, nobody else counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct FlowsOutcome {
    pub(super) name: String,
    pub(super) flows: usize,
    pub(super) sent: Option<u64>,
    /// Those that came within the latency budget.
    pub(super) delivered: Option<u64>,
    /// Those that came after it.
    pub(super) late: Option<u64>,
    /// Those that never came.
    pub(super) missing: Option<u64>,
    /// What receivers counted: packets that the direct path lost, and those of them that were repaired; of what programs send,
    /// with the answers. `None` if one did not answer.
    pub(super) lost_direct: Option<u64>,
    pub(super) repaired: Option<u64>,
    /// How long what came took; `None` if nothing did.
    pub(super) delay_ms: Option<Delays>,
}

/// What a machine sent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct NodeOutcome {
    pub(super) name: String,
    /// Whether it is a relay's.
    pub(super) is_relay: bool,
    /// IP packets that left its device.
    pub(super) sent: u64,
    /// Their bytes.
    pub(super) sent_bytes: u64,
    /// What its node counted, where that is not 0: as metrics do (docs/metrics.md), or of an agent, what it lost and what was repaired.
    pub(super) counted: BTreeMap<String, u64>,
    /// The time that cores worked for its node, in milliseconds.
    pub(super) cpu_ms: u64,
    /// The most memory that its node had at a time.
    pub(super) peak_memory_bytes: u64,
}

/// What happened before a link that tells packets apart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct LinkOutcome {
    /// What the scenario calls it, if it does.
    pub(super) name: Option<String>,
    /// The machine where it begins.
    pub(super) from: String,
    /// The machine where it ends.
    pub(super) to: String,
    /// By class.
    pub(super) classes: ClassesOutcome,
}

/// What happened before links that tell packets apart.
pub(super) fn of_links(scenario: &Scenario, network: &Network, did: &Carried) -> Vec<LinkOutcome> {
    let name = |place: usize| network.machines[place].name.clone();
    let of_link = |((from, to), uses): &((usize, usize), [ClassUse; Class::COUNT])| LinkOutcome {
        name: scenario.link_name(&name(*from), &name(*to)).map(str::to_owned),
        from: name(*from),
        to: name(*to),
        classes: ClassesOutcome::of(uses),
    };
    did.classes.iter().map(of_link).collect()
}

/// What each machine sent, and its node counted.
pub(super) fn of_nodes(
    network: &Network,
    sent: &[MachineCounters],
    tallied: &[OfMachine],
) -> Vec<NodeOutcome> {
    let machines = network.machines.iter().enumerate();
    let ends = machines.filter(|(_, machine)| machine.role != MachineRole::Router);
    ends.map(|(place, machine)| {
        let sent = sent.get(place).copied().unwrap_or_default();
        let OfMachine { counted, cpu, peak_memory } = tallied.get(place).cloned().unwrap_or_default();
        NodeOutcome {
            name: machine.name.clone(),
            is_relay: machine.role == MachineRole::Relay,
            sent: sent.packets,
            sent_bytes: sent.bytes,
            counted,
            cpu_ms: cpu.as_millis(),
            peak_memory_bytes: peak_memory.count(),
        }
    })
    .collect()
}

/// Delays, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Delays {
    pub(super) p50: f64,
    pub(super) p95: f64,
    pub(super) p99: f64,
}

/// What the carrier did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct CarrierOutcome {
    pub(super) sent: u64,
    pub(super) lost: u64,
    pub(super) delivered: u64,
    pub(super) unroutable: u64,
    /// Packets that routers which translate addresses did not let pass.
    pub(super) not_translated: u64,
    pub(super) overflowed: u64,
    pub(super) refused: u64,
    /// Packets that captures have not, as they were full or the disk too slow.
    pub(super) not_captured: u64,
    pub(super) has_precedence: bool,
    pub(super) lateness: LatenessSummary,
    /// Whether it was so late that the run counts for nothing.
    pub(super) is_void: bool,
}

impl CarrierOutcome {
    /// What a carrier did. What it gave up itself no link lost: such a run counts for nothing either.
    pub(super) fn of(did: &Carried) -> Self {
        let (lateness, counters) = (did.lateness.summary(), did.counters);
        Self {
            sent: counters.sent,
            lost: counters.lost,
            delivered: counters.delivered,
            unroutable: counters.unroutable,
            not_translated: counters.not_translated,
            overflowed: counters.overflowed,
            refused: did.refused,
            not_captured: did.captured.beyond_limit + did.captured.passed_over,
            has_precedence: did.has_precedence,
            is_void: lateness.is_void() || counters.overflowed > 0,
            lateness,
        }
    }
}

/// What receivers counted of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) lost: u64,
    pub(super) repaired: u64,
}

/// What became of the flows of each name.
pub(super) fn of_flows(network: &Network, fates: &Fates, counted: &[Option<Counted>]) -> Vec<FlowsOutcome> {
    let mut names: Vec<&str> = network.flows.iter().map(|flow| flow.name.as_str()).collect();
    names.dedup();
    let of = |name: &str| {
        let members: Vec<usize> =
            (0..network.flows.len()).filter(|place| network.flows[*place].name == name).collect();
        let all = || {
            let of_member = |place: &usize| {
                let terms = network.flows[*place].terms;
                fates.of_flows[*place].iter().map(move |fate| (terms, *fate))
            };
            members.iter().flat_map(of_member)
        };
        let is_of_programs = members.iter().any(|place| network.flows[*place].traffic.is_of_programs());
        let count = |is: fn(Terms, Fate) -> bool| {
            (!is_of_programs).then(|| all().filter(|(terms, fate)| is(*terms, *fate)).count() as u64)
        };
        let mut delays: Vec<Duration> = all().filter_map(|(_, fate)| delay(fate)).collect();
        delays.sort_unstable();
        let counted: Option<Vec<Counted>> = members.iter().map(|place| counted[*place]).collect();
        let sum = |pick: fn(&Counted) -> u64| counted.as_ref().map(|counted| counted.iter().map(pick).sum());
        FlowsOutcome {
            name: name.to_owned(),
            flows: members.len(),
            sent: count(|_, fate| fate.sent.is_some()),
            delivered: count(|terms, fate| delay(fate).is_some_and(|delay| delay <= terms.budget)),
            late: count(|terms, fate| delay(fate).is_some_and(|delay| delay > terms.budget)),
            missing: count(|_, fate| fate.sent.is_some() && fate.came.is_none()),
            lost_direct: sum(|counted| counted.lost),
            repaired: sum(|counted| counted.repaired),
            delay_ms: Delays::of(&delays),
        }
    };
    names.into_iter().map(of).collect()
}

fn delay(fate: Fate) -> Option<Duration> {
    Some(fate.came?.saturating_since(fate.sent?))
}

impl Delays {
    /// Of these, the shortest first.
    fn of(sorted: &[Duration]) -> Option<Self> {
        let at = |percent| percentile(sorted, percent);
        Some(Self { p50: at(50)?, p95: at(95)?, p99: at(99)? })
    }
}

/// What so many of a hundred do not exceed, in milliseconds.
#[allow(clippy::cast_precision_loss, reason = "delays of seconds, shown with a digit")]
fn percentile(sorted: &[Duration], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).map(|delay| delay.as_micros() as f64 / 1_000.0)
}

impl LabOutcome {
    /// For people.
    pub(super) fn text(&self) -> String {
        let world =
            if self.world == World::Byway { String::new() } else { format!(", {}", self.world.name()) };
        let heads = ["flows", "sent", "lost", "repaired", "late", "missing", "p50 ms", "p95 ms", "p99 ms"];
        let mut rows = vec![heads.map(str::to_owned)];
        rows.extend(self.flows.iter().map(row));
        let mut text = format!("{}, seed {}{world}\n\n{}", self.title, self.seed, aligned(&rows));
        text.push_str(&self.commands_table());
        let links = self.links.iter().map(|link| (&*link.from, &*link.to, &link.classes));
        text.push_str(&classes::table(links));
        let CarrierOutcome { delivered, lost, lateness, .. } = &self.carrier;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "\n{delivered} packets carried and {lost} lost; programs got theirs late by up to {} us (half), {} us (99 of 100), \
             {} us at most.",
            lateness.p50_us, lateness.p99_us, lateness.max_us
        );
        if self.repeated > 0 {
            let _ = writeln!(text, "{} datagrams came more than once.", self.repeated);
        }
        if self.carrier.refused > 0 {
            let _ =
                writeln!(text, "{} packets came to machines that did not take them.", self.carrier.refused);
        }
        if self.carrier.not_translated > 0 {
            let _ = writeln!(
                text,
                "{} packets did not pass routers that translate addresses.",
                self.carrier.not_translated
            );
        }
        if self.carrier.not_captured > 0 {
            let _ = writeln!(
                text,
                "{} packets are in no capture: these were full, or the disk too slow.",
                self.carrier.not_captured
            );
        }
        if !self.carrier.has_precedence {
            text.push_str(
                "The kernel gave the carrier no precedence over other threads (CAP_SYS_NICE): it may be late.\n",
            );
        }
        for verdict in &self.expectations {
            let _ = writeln!(text, "{}", verdict_line(verdict));
        }
        for Verdict { of, measure, .. } in &self.not_judged {
            let _ = writeln!(text, "not judged: {measure} of {}, which this run does not tell", of.name());
        }
        if self.carrier.is_void {
            text.push_str(
                "VOID: this machine was too busy to carry packets in time; what is told above counts for nothing.\n",
            );
        }
        text
    }
}

impl LabOutcome {
    /// What tasks tell; nothing if there are none.
    fn commands_table(&self) -> String {
        let mut rows = vec![["commands", "measure", "value"].map(str::to_owned)];
        for command in &self.commands {
            let Some(seconds) = command.seconds else { continue };
            let row = |measure: &str, value: f64| [command.name.clone(), measure.to_owned(), rounded(value)];
            rows.push(row("seconds", seconds));
            rows.extend(command.measures.iter().map(|(measure, value)| row(measure, *value)));
        }
        if rows.len() == 1 { String::new() } else { format!("\n{}", aligned(&rows)) }
    }
}

fn row(flows: &FlowsOutcome) -> [String; 9] {
    let ms = |pick: fn(&Delays) -> f64| {
        flows.delay_ms.as_ref().map_or_else(|| "–".to_owned(), |delays| format!("{:.1}", pick(delays)))
    };
    let name =
        if flows.flows == 1 { flows.name.clone() } else { format!("{} ({})", flows.name, flows.flows) };
    let known = |count: Option<u64>| count.map_or_else(|| "–".to_owned(), |count| count.to_string());
    let [sent, late, missing] = [flows.sent, flows.late, flows.missing].map(known);
    let [lost, repaired] = [flows.lost_direct, flows.repaired].map(known);
    [
        name,
        sent,
        lost,
        repaired,
        late,
        missing,
        ms(|delays| delays.p50),
        ms(|delays| delays.p95),
        ms(|delays| delays.p99),
    ]
}

#[cfg(test)]
mod tests {
    use byway_scenario::Scenario;
    use byway_units::Time;

    use super::*;

    const SCENARIO: &str = r#"
title = "Two calls"
length = "4 s"
node = [{ name = "alice", role = "agent" }, { name = "bob", role = "agent" }]
link = [{ between = ["alice", "bob"], delay = "40 ms" }]
flow = [
    { name = "call", count = 2, from = "alice", to = "bob", service = "internet", budget = "100 ms", sends = { kind = "steady", every = "500 ms", bytes = 500 } },
]
"#;

    fn at(ms: u64) -> Time {
        Time::START + Duration::from_millis(ms)
    }

    #[test]
    fn what_is_late_and_what_is_missing_are_told_apart() {
        let network = Scenario::parse(SCENARIO).expect("a scenario").network(1).expect("they are joined");
        let fates = [[(0, Some(40)), (500, Some(601))], [(0, None), (500, Some(600))]];
        let of_flow = |fates: [(u64, Option<u64>); 2]| {
            fates.map(|(sent, came)| Fate { sent: Some(at(sent)), came: came.map(at) }).to_vec()
        };
        let fates = Fates { of_flows: fates.map(of_flow).to_vec(), repeated: 0 };
        let counted = [Counted { lost: 1, repaired: 1 }, Counted { lost: 2, repaired: 1 }].map(Some);
        let outcome = of_flows(&network, &fates, &counted);
        let expected = FlowsOutcome {
            name: "call".to_owned(),
            flows: 2,
            sent: Some(4),
            delivered: Some(2),
            late: Some(1),
            missing: Some(1),
            lost_direct: Some(3),
            repaired: Some(2),
            delay_ms: Some(Delays { p50: 100.0, p95: 101.0, p99: 101.0 }),
        };
        assert_eq!(outcome, [expected]);
        let unknown = of_flows(&network, &fates, &[counted[0], None]);
        assert_eq!((unknown[0].lost_direct, unknown[0].missing), (None, Some(1)));
    }

    #[test]
    fn where_nothing_came_there_are_no_delays() {
        assert_eq!(Delays::of(&[]), None);
    }
}
