//! Outcome of a lab run: its counts by flow, node and link, as JSON and as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use byway_lab::EmulationReport;
use byway_lab::emulation::MachineCounters;
use byway_lab::timer_lateness::LatenessSummary;
use byway_scenario::{ClassesOutcome, DeliveryTerms, MachineRole, Network, Scenario, Verdict};
use byway_sched::Class;
use byway_sim::ClassCounters;
use byway_units::Duration;
use serde::Serialize;

use super::commands::CommandOutcome;
use super::overlay_mode::OverlayMode;
use super::tally::MachineUsage;
use super::traffic::{DatagramLog, DatagramTimes};
use crate::classes;
use crate::table::{aligned, rounded};
use crate::verdicts::describe_verdict;

/// Outcome of a lab run, printed as JSON or as text.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LabOutcome {
    /// Title of the scenario.
    pub(super) title: String,
    /// Random seed of the run.
    pub(super) seed: u64,
    /// Parts of Byway that the run used.
    pub(super) world: OverlayMode,
    /// Outcomes of the flows, together for flows of the same name.
    pub(super) flows: Vec<FlowsOutcome>,
    /// Outcomes of the scenario's commands.
    pub(super) commands: Vec<CommandOutcome>,
    /// Counters of each machine except routers.
    pub(super) nodes: Vec<NodeOutcome>,
    /// Outcomes of the links with Rate-Delay classes, each direction separately.
    pub(super) links: Vec<LinkOutcome>,
    /// Verdicts on expectations that a lab can measure. Only a run with agents and relays has any.
    pub(super) expectations: Vec<Verdict>,
    /// Expectations that a lab cannot measure.
    #[serde(skip)]
    pub(super) not_judged: Vec<Verdict>,
    /// Number of datagrams that applications received more than once; zero if Byway works.
    pub(super) repeated: u64,
    /// Counters of the emulator between the machines.
    pub(super) carrier: CarrierOutcome,
}

/// Outcome of all flows of one name. If a scenario's programs send the packets, the counts of
/// datagrams are `None`, because only the programs know them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct FlowsOutcome {
    pub(super) name: String,
    pub(super) flows: usize,
    pub(super) sent: Option<u64>,
    /// Datagrams that arrived within the latency budget.
    pub(super) delivered: Option<u64>,
    /// Datagrams that arrived after the latency budget.
    pub(super) late: Option<u64>,
    /// Datagrams that never arrived at the receiving application.
    pub(super) missing: Option<u64>,
    /// Packets that the direct path lost, as the receivers' agents count them. Flows of programs
    /// include the answers. `None` if an agent did not answer.
    pub(super) lost_direct: Option<u64>,
    pub(super) repaired: Option<u64>,
    /// Delays of the datagrams that arrived; `None` without any.
    pub(super) delay_ms: Option<Delays>,
}

/// Counters of a machine and of the node that runs in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct NodeOutcome {
    pub(super) name: String,
    /// True if the machine runs a relay, false if it runs an agent.
    pub(super) is_relay: bool,
    /// IP packets that left the machine's device.
    pub(super) sent: u64,
    /// Bytes of the IP packets that left the machine's device.
    pub(super) sent_bytes: u64,
    /// The node's counters that are not 0: for relays as in docs/metrics.md, for agents the packets
    /// lost and repaired.
    pub(super) counted: BTreeMap<String, u64>,
    /// CPU time of the machine's node, in milliseconds.
    pub(super) cpu_ms: u64,
    /// Peak memory of the machine's node, in bytes.
    pub(super) peak_memory_bytes: u64,
}

/// Outcome of one direction of a link with Rate-Delay classes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct LinkOutcome {
    /// Name of the link in the scenario; `None` if the link has no name.
    pub(super) name: Option<String>,
    /// Machine at which this direction of the link begins.
    pub(super) from: String,
    /// Machine at which this direction of the link ends.
    pub(super) to: String,
    /// Counters of each class of the link.
    pub(super) classes: ClassesOutcome,
}

/// Returns the outcome of each direction of links with classes, from the emulator's report.
pub(super) fn of_links(scenario: &Scenario, network: &Network, did: &EmulationReport) -> Vec<LinkOutcome> {
    let name = |index: usize| network.machines[index].name.clone();
    let of_link = |((from, to), uses): &((usize, usize), [ClassCounters; Class::COUNT])| LinkOutcome {
        name: scenario.link_name(&name(*from), &name(*to)).map(str::to_owned),
        from: name(*from),
        to: name(*to),
        classes: ClassesOutcome::of(uses),
    };
    did.classes.iter().map(of_link).collect()
}

/// Returns the outcome of each machine except routers: the packets that it sent, and the counters
/// of its node.
pub(super) fn of_nodes(
    network: &Network,
    sent: &[MachineCounters],
    tallied: &[MachineUsage],
) -> Vec<NodeOutcome> {
    let machines = network.machines.iter().enumerate();
    let ends = machines.filter(|(_, machine)| machine.role != MachineRole::Router);
    ends.map(|(index, machine)| {
        let sent = sent.get(index).copied().unwrap_or_default();
        let MachineUsage { counted, cpu, peak_memory } = tallied.get(index).cloned().unwrap_or_default();
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

/// Percentiles of datagrams' one-way delays, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Delays {
    pub(super) p50: f64,
    pub(super) p95: f64,
    pub(super) p99: f64,
}

/// Counters of the emulator between the machines, and its timer lateness.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct CarrierOutcome {
    pub(super) sent: u64,
    pub(super) lost: u64,
    pub(super) delivered: u64,
    pub(super) unroutable: u64,
    /// Packets that NAT routers dropped without translating them.
    pub(super) not_translated: u64,
    pub(super) overflowed: u64,
    pub(super) refused: u64,
    /// Packets missing in captures, because a capture was full or the disk was too slow.
    pub(super) not_captured: u64,
    pub(super) has_precedence: bool,
    pub(super) lateness: LatenessSummary,
    /// True if the emulator was too late, or dropped packets, so the run does not count.
    pub(super) is_void: bool,
}

impl CarrierOutcome {
    /// Returns the counters of an emulator. A run in which the emulator itself dropped packets does
    /// not count, because no link lost them.
    pub(super) fn of(did: &EmulationReport) -> Self {
        let (lateness, counters) = (did.lateness.summary(), did.counters);
        Self {
            sent: counters.sent,
            lost: counters.lost,
            delivered: counters.delivered,
            unroutable: counters.unroutable,
            not_translated: counters.not_translated,
            overflowed: counters.overflowed,
            refused: did.refused,
            not_captured: did.missed.beyond_limit + did.missed.passed_over,
            has_precedence: did.has_realtime_priority,
            is_void: lateness.is_void() || counters.overflowed > 0,
            lateness,
        }
    }
}

/// Counts of lost and repaired packets of one flow, by its receiver's agent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RepairCounts {
    pub(super) lost: u64,
    pub(super) repaired: u64,
}

/// Returns the outcome of the flows of each name, from the applications' records and the receivers'
/// counts.
pub(super) fn of_flows(
    network: &Network,
    fates: &DatagramLog,
    counted: &[Option<RepairCounts>],
) -> Vec<FlowsOutcome> {
    let mut names: Vec<&str> = network.flows.iter().map(|flow| flow.name.as_str()).collect();
    names.dedup();
    let of = |name: &str| {
        let members: Vec<usize> =
            (0..network.flows.len()).filter(|index| network.flows[*index].name == name).collect();
        let all = || {
            let of_member = |index: &usize| {
                let terms = network.flows[*index].terms;
                fates.of_flows[*index].iter().map(move |fate| (terms, *fate))
            };
            members.iter().flat_map(of_member)
        };
        let is_of_programs = members.iter().any(|index| network.flows[*index].traffic.is_of_programs());
        let count = |is: fn(DeliveryTerms, DatagramTimes) -> bool| {
            (!is_of_programs).then(|| all().filter(|(terms, fate)| is(*terms, *fate)).count() as u64)
        };
        let mut delays: Vec<Duration> = all().filter_map(|(_, fate)| delay(fate)).collect();
        delays.sort_unstable();
        let counted: Option<Vec<RepairCounts>> = members.iter().map(|index| counted[*index]).collect();
        let sum =
            |pick: fn(&RepairCounts) -> u64| counted.as_ref().map(|counted| counted.iter().map(pick).sum());
        FlowsOutcome {
            name: name.to_owned(),
            flows: members.len(),
            sent: count(|_, fate| fate.sent.is_some()),
            delivered: count(|terms, fate| delay(fate).is_some_and(|delay| delay <= terms.budget)),
            late: count(|terms, fate| delay(fate).is_some_and(|delay| delay > terms.budget)),
            missing: count(|_, fate| fate.sent.is_some() && fate.received.is_none()),
            lost_direct: sum(|counted| counted.lost),
            repaired: sum(|counted| counted.repaired),
            delay_ms: Delays::of(&delays),
        }
    };
    names.into_iter().map(of).collect()
}

fn delay(fate: DatagramTimes) -> Option<Duration> {
    Some(fate.received?.saturating_since(fate.sent?))
}

impl Delays {
    /// Returns the percentiles of delays in ascending order; `None` without delays.
    fn of(sorted: &[Duration]) -> Option<Self> {
        let at = |percent| percentile(sorted, percent);
        Some(Self { p50: at(50)?, p95: at(95)?, p99: at(99)? })
    }
}

/// Returns this percentile of delays in ascending order, in milliseconds; `None` without delays.
#[allow(clippy::cast_precision_loss, reason = "delays of seconds, shown with a digit")]
fn percentile(sorted: &[Duration], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).map(|delay| delay.as_micros() as f64 / 1_000.0)
}

impl LabOutcome {
    /// Renders the report for the terminal.
    pub(super) fn text(&self) -> String {
        let world =
            if self.world == OverlayMode::Byway { String::new() } else { format!(", {}", self.world.name()) };
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
            "\n{delivered} packets delivered and {lost} lost; lateness of the emulator p50 {} us, p99 \
             {} us, max {} us.",
            lateness.p50_us, lateness.p99_us, lateness.max_us
        );
        if self.repeated > 0 {
            let _ = writeln!(text, "{} datagrams were delivered more than once.", self.repeated);
        }
        if self.carrier.refused > 0 {
            let _ = writeln!(
                text,
                "{} packets were refused by the machines that they arrived at.",
                self.carrier.refused
            );
        }
        if self.carrier.not_translated > 0 {
            let _ = writeln!(
                text,
                "{} packets were dropped by routers with address translation.",
                self.carrier.not_translated
            );
        }
        if self.carrier.not_captured > 0 {
            let _ = writeln!(
                text,
                "{} packets are missing in captures: the capture buffer was full, or the disk too slow.",
                self.carrier.not_captured
            );
        }
        if !self.carrier.has_precedence {
            text.push_str("No real-time priority for the emulator (CAP_SYS_NICE): it may be late.\n");
        }
        for verdict in &self.expectations {
            let _ = writeln!(text, "{}", describe_verdict(verdict));
        }
        for Verdict { of, measure, .. } in &self.not_judged {
            let _ = writeln!(text, "not judged: {measure} of {}, which this run does not measure", of.name());
        }
        if self.carrier.is_void {
            text.push_str(
                "VOID: this machine was too busy to forward packets on time; the numbers above are \
                 invalid.\n",
            );
        }
        text
    }
}

impl LabOutcome {
    /// Renders the table of measures that tasks reported; empty without tasks.
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
            fates
                .map(|(sent, received)| DatagramTimes { sent: Some(at(sent)), received: received.map(at) })
                .to_vec()
        };
        let fates = DatagramLog { of_flows: fates.map(of_flow).to_vec(), repeated: 0 };
        let counted =
            [RepairCounts { lost: 1, repaired: 1 }, RepairCounts { lost: 2, repaired: 1 }].map(Some);
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
