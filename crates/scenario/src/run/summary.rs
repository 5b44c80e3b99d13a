//! Outcome of a run, from its ledgers and counters.

use std::collections::BTreeMap;

use byway_sim::overlay::OverlayHost;
use byway_sim::{LinkCounters, LossReason, NodeId, World};
use byway_units::{Duration, Time};

use super::{Machine, Run};
use crate::costs::CostOutcome;
use crate::delivery_counts::share;
use crate::explanation::ExplanationOutcome;
use crate::outcome::{
    ClassesOutcome, FlowOutcome, Interruption, LinkOutcome, NodeOutcome, Outcome, TailQuantiles,
    TransfersOutcome, Verdict,
};
use crate::record::{ConversationRecord, FlowRecord};
use crate::scenario::{Expectation, ExpectedMeasure, Role, Scenario};

impl Run<'_> {
    pub(super) fn outcome(
        mut self,
        world: &mut World<Self>,
        seed: u64,
        stopped: Option<Interruption>,
    ) -> Outcome {
        world.check_conservation().expect("no packet appears or disappears");
        self.note_losses(world);
        let now = world.now();
        for (index, flow) in self.flows.iter_mut().enumerate() {
            flow.ledger.close(now, &mut self.counts[self.plan.scenario.flows[index].group]);
        }
        let scenario = self.plan.scenario;
        let nodes = nodes(scenario, world);
        let conversations = self.conversation_records(world.now());
        let plans = scenario.nodes.iter().zip(&nodes);
        let of_relays = plans.filter(|(plan, _)| plan.role == Role::Relay);
        let relay_bytes = of_relays.map(|(_, node)| node.sent_bytes).sum();
        let flows = self.flow_outcomes(relay_bytes, &conversations, world.now());
        let costs = self.costs(world).map(|costs| CostOutcome {
            explained_cents_per_hour: self.explained_cents_per_hour(&costs, now),
            ..costs
        });
        // A run that stopped early meets no expectation.
        let has_ended = stopped.is_none();
        let links = links(scenario, world);
        // Expectations of commands are judged by a lab.
        let verdict = |expectation: &Expectation| match &expectation.of {
            ExpectedMeasure::Flow(group, measure) => {
                // Without packets sent, an expectation is not met.
                let measured = measure.of(&flows[*group]).filter(|_| flows[*group].sent > 0);
                Some(Verdict::of_nothing(expectation, scenario).with(measured))
            }
            ExpectedMeasure::Link(name, _) => {
                let named = links.iter().filter(|link| link.name.as_ref() == Some(name));
                let verdict = Verdict::of_nothing(expectation, scenario);
                let measured = verdict.at_links(named.filter_map(|link| link.classes.as_ref()));
                Some(verdict.with(measured))
            }
            ExpectedMeasure::Command(..) => None,
        };
        let in_the_end = |verdict: Verdict| Verdict { is_met: verdict.is_met && has_ended, ..verdict };
        Outcome {
            title: scenario.title.clone(),
            seed,
            seconds: scenario.length.as_secs_f64(),
            stopped,
            digest: format!("{:016x}", world.digest()),
            link_crossings: world.links().map(|(_, _, counters)| counters.sent).sum(),
            unroutable: world.unroutable(),
            explanations: self.explanations(),
            costs,
            expectations: scenario.expectations.iter().filter_map(verdict).map(in_the_end).collect(),
            flows,
            nodes,
            links,
            records: self.records(world),
            conversations,
        }
    }

    /// Returns the mean costs from the explanations on, by the hour.
    fn explained_cents_per_hour(&self, costs: &CostOutcome, now: Time) -> Option<f64> {
        let before = self.costs_at_explanation.as_ref()?;
        let lasting = now.saturating_since(Time::START + self.plan.scenario.explain_at?);
        (!lasting.is_zero()).then(|| (costs.cents - before.cents) * 3_600.0 / lasting.as_secs_f64())
    }

    fn explanations(&self) -> Vec<ExplanationOutcome> {
        let scenario = self.plan.scenario;
        let name = |node: usize| scenario.nodes[node].name.clone();
        let flows = scenario.flows.iter().zip(&self.flows);
        let explained = flows.filter_map(|(plan, flow)| {
            let outcome = flow.ledger.explained()?.outcome();
            let (flow, from, to) = (plan.name.clone(), name(plan.from), name(plan.to));
            Some(ExplanationOutcome { flow, from, to, ..outcome })
        });
        explained.collect()
    }

    /// Returns the records of applications over TCP.
    fn conversation_records(&mut self, now: Time) -> Vec<ConversationRecord> {
        let scenario = self.plan.scenario;
        let mut members: BTreeMap<usize, usize> = BTreeMap::new();
        let mut records = Vec::new();
        for (plan, conversation) in scenario.conversations.iter().zip(std::mem::take(&mut self.conversations))
        {
            let [forth, back] = plan.flows;
            let flow = &scenario.flows[forth];
            let member = members.entry(flow.group).or_default();
            let (transfers, seconds, statistics) = conversation.close(now);
            records.push(ConversationRecord {
                name: flow.name.clone(),
                member: *member,
                client: scenario.nodes[flow.from].name.clone(),
                server: scenario.nodes[flow.to].name.clone(),
                forth: self.plan.flow_setups[forth].terms.due,
                back: self.plan.flow_setups[back].terms.due,
                transfers,
                seconds,
                statistics,
            });
            *member += 1;
        }
        records
    }

    /// Returns the records of each flow's packets, as far as recording was enabled.
    fn records(&mut self, world: &mut World<Self>) -> Vec<FlowRecord> {
        let scenario = self.plan.scenario;
        let mut members: BTreeMap<usize, usize> = BTreeMap::new();
        let mut records = Vec::new();
        for (index, (plan, flow)) in scenario.flows.iter().zip(&mut self.flows).enumerate() {
            let member = members.entry(plan.group).or_default();
            let host = world.host_mut(world.node(plan.to));
            let agent = match host {
                Machine::Overlay(host) => Some(host.as_agent_mut()),
                Machine::Bare(_) | Machine::Router => None,
            };
            let counted = agent.zip(flow.received).and_then(|(agent, flow)| agent.statistics(flow).copied());
            let name = |node: usize| scenario.nodes[node].name.clone();
            records.push(FlowRecord {
                name: plan.name.clone(),
                member: *member,
                from: name(plan.from),
                to: name(plan.to),
                datagram_bytes: plan.load.bytes_max(),
                bytes: flow.bytes,
                service: plan.service,
                batch: plan.batch,
                terms: self.plan.flow_setups[index].terms,
                overlay: self.plan.flow_setups[index].overlay.clone(),
                counted,
                packets: flow.ledger.drain_recorded(),
            });
            *member += 1;
        }
        records
    }

    /// Returns the outcomes of the flows of each name, in the order of the names.
    fn flow_outcomes(
        &self,
        relay_bytes: u64,
        conversations: &[ConversationRecord],
        now: Time,
    ) -> Vec<FlowOutcome> {
        let mut flows: BTreeMap<usize, FlowOutcome> = BTreeMap::new();
        for (plan, of_run) in self.plan.scenario.flows.iter().zip(&self.flows) {
            let flow = flows.entry(plan.group).or_default();
            flow.name.clone_from(&plan.name);
            flow.flows += 1;
            flow.app_bytes += of_run.bytes;
        }
        let app_bytes = flows.values().map(|flow| flow.app_bytes).sum();
        let finished = |(group, flow): (usize, FlowOutcome)| {
            let counts = &self.counts[group];
            let all = counts.delivered + counts.late + counts.missing + counts.in_flight;
            assert_eq!(all, counts.sent, "each packet of {} has one fate", flow.name);
            FlowOutcome {
                sent: counts.sent,
                lost_direct: counts.lost,
                repaired: counts.repaired,
                repaired_within_rtt: counts.repaired_within_rtt,
                delivered: counts.delivered,
                late: counts.late,
                missing: counts.missing,
                in_flight: counts.in_flight,
                duplicates: counts.duplicates,
                repaired_by: counts.by,
                repair_ms: counts.repair_times.quantiles(),
                delay_ms: counts.delays.quantiles(),
                relay_share: share(relay_bytes, app_bytes),
                transfers: transfers(&flow.name, conversations, now),
                ..flow
            }
        };
        flows.into_iter().map(finished).collect()
    }
}

/// Returns the outcome of the transfers over the flows of a name; `None` without transfers.
fn transfers(name: &str, conversations: &[ConversationRecord], now: Time) -> Option<TransfersOutcome> {
    let members: Vec<&ConversationRecord> = conversations.iter().filter(|one| one.name == name).collect();
    if members.is_empty() {
        return None;
    }
    let all = || members.iter().flat_map(|member| &member.transfers);
    let count = |count: usize| count as u64;
    let milliseconds = |time: Duration| time.as_secs_f64() * 1_000.0;
    let sum = |of: fn(&ConversationRecord) -> u64| members.iter().map(|member| of(member)).sum();
    let rates: Vec<f64> = members.iter().filter_map(|member| member.goodput_mbit(now)).collect();
    Some(TransfersOutcome {
        begun: count(all().count()),
        finished: count(all().filter(|transfer| transfer.completion.is_some()).count()),
        failed: count(all().filter(|transfer| transfer.has_failed).count()),
        completion_ms: TailQuantiles::of(
            all().filter_map(|transfer| transfer.completion.map(milliseconds)).collect(),
        ),
        goodput_mbit: (!rates.is_empty()).then(|| rates.iter().sum()),
        goodput_mbit_by_second: by_second(&members),
        segments: sum(|member| member.statistics.segments_sent),
        retransmitted: sum(|member| member.statistics.retransmitted),
        timeouts: sum(|member| member.statistics.timeouts),
        handshake_timeouts: sum(|member| member.statistics.handshake_timeouts),
        recoveries: sum(|member| member.statistics.recoveries),
    })
}

/// Returns the goodput of several applications in each second, in Mbit/s.
fn by_second(members: &[&ConversationRecord]) -> Vec<f64> {
    let mut bytes: Vec<u64> = Vec::new();
    for member in members {
        bytes.resize(bytes.len().max(member.seconds.len()), 0);
        bytes.iter_mut().zip(&member.seconds).for_each(|(sum, second)| *sum += second);
    }
    bytes.into_iter().filter_map(|bytes| megabits(bytes, Duration::from_secs(1))).collect()
}

#[allow(clippy::cast_precision_loss, reason = "bytes of a day are far below 2^53")]
fn megabits(bytes: u64, time: Duration) -> Option<f64> {
    (!time.is_zero()).then(|| bytes as f64 * 8.0 / 1e6 / time.as_secs_f64())
}

impl ConversationRecord {
    /// Returns the goodput of bulk transfers, in Mbit/s, from the beginning to the completion or,
    /// without one, to the end of the run.
    fn goodput_mbit(&self, now: Time) -> Option<f64> {
        let transfer = self.transfers.first().filter(|_| !self.seconds.is_empty())?;
        let time = transfer.completion.unwrap_or(now.saturating_since(transfer.begun));
        megabits(self.seconds.iter().sum(), time)
    }
}

fn nodes(scenario: &Scenario, world: &mut World<Run<'_>>) -> Vec<NodeOutcome> {
    let mut nodes: Vec<NodeOutcome> = scenario
        .nodes
        .iter()
        .map(|node| NodeOutcome { name: node.name.clone(), ..NodeOutcome::default() })
        .collect();
    for (index, node) in nodes.iter_mut().enumerate() {
        node.counted = counted(world.host_mut(world.node(index)));
    }
    for (from, _, counters) in world.links() {
        let node = &mut nodes[from.number() as usize];
        node.sent += counters.sent;
        node.sent_bytes += counters.sent_bytes.count();
    }
    for (node, wake_ups) in nodes.iter_mut().zip(world.observer().wake_ups.iter().flatten()) {
        node.wake_ups_in_last_minute = Some(wake_ups.count);
    }
    nodes
}

fn links(scenario: &Scenario, world: &World<Run<'_>>) -> Vec<LinkOutcome> {
    let name = |node: NodeId| scenario.nodes[node.number() as usize].name.clone();
    let lost = |(reason, count): (LossReason, u64)| (reason.to_string().replace(' ', "_"), count);
    let link = |(from, to, counters): (NodeId, NodeId, &LinkCounters)| {
        let usage = world.bottleneck_usage(from, to);
        LinkOutcome {
            name: scenario.link_name(&name(from), &name(to)).map(str::to_owned),
            from: name(from),
            to: name(to),
            sent: counters.sent,
            sent_bytes: counters.sent_bytes.count(),
            delivered: counters.delivered,
            delivered_bytes: counters.delivered_bytes.count(),
            duplicated: counters.duplicated,
            corrupted: counters.corrupted,
            lost: counters.lost.by_reason().filter(|(_, count)| *count > 0).map(lost).collect(),
            utilisation: usage.and_then(|usage| share(usage.passed.count(), usage.capacity.count())),
            queue_bytes_max: usage.map(|usage| usage.backlog_max.count()),
            classes: world.class_counters(from, to).map(ClassesOutcome::of),
        }
    };
    world.links().map(link).collect()
}

/// Returns the counters of a machine's agent or relay that are not 0; none for other machines.
fn counted(machine: &Machine) -> BTreeMap<String, u64> {
    let named = |prefix: &str, (name, count): (&str, u64)| (format!("{prefix}{name}"), count);
    let all: Vec<(String, u64)> = match machine {
        Machine::Bare(_) | Machine::Router => Vec::new(),
        Machine::Overlay(OverlayHost::Agent { agent, .. }) => {
            agent.counters().by_name().map(|count| named("", count)).collect()
        }
        Machine::Overlay(OverlayHost::Relay(relay)) => {
            let own = relay.counters().by_name().map(|count| named("", count));
            let ingress = relay.ingress_counters().by_name().map(|count| named("ingress_", count));
            let egress = relay.egress_counters().by_name().map(|count| named("egress_", count));
            own.chain(ingress).chain(egress).collect()
        }
    };
    all.into_iter().filter(|(_, count)| *count > 0).collect()
}
