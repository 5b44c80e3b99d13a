//! Study of selection: the service that agents select for each of many flows, beside each named
//! one. Each flow runs alone, with two relays of its own, once with each service.

use std::ops::ControlFlow;

use byway_plan::{Delays, FeasibilitySetup, LastMile, PriceList, PricePerGigabyte, World, feasibility};
use byway_scenario::{BuildError, Outcome, Progress, RecordOptions, Scenario, StopReason};
use byway_sim::{Random, Seed};
use byway_units::{Bytes, Duration};

use crate::findings::{Findings, Unit, share};

/// Flows of a run, each drawn by itself.
const FLOWS: u64 = 40;

/// Length of a flow, in seconds.
const SECONDS: u64 = 120;

/// Simulated time of a run of the study, in seconds.
pub(crate) const RUN_SECONDS: u64 = SECONDS * FLOWS * SERVICES.len() as u64;

/// Services of the study: the selection, and the named ones, any of which may be the cheapest in
/// hindsight.
const SERVICES: [&str; 8] =
    ["auto", "internet", "retransmission", "pull", "coding", "caching", "forwarding", "both"];
const AUTO: usize = 0;
const FORWARDING: usize = 6;

/// Largest share of packets that may be lost or late: the agents' loss target.
const MISSED_MAX: f64 = 0.001;

/// Shortest and longest latency budget, in milliseconds.
const BUDGET_MS: [f64; 2] = [80.0, 500.0];

/// Share of the direct paths that lose packets, besides outages; least and greatest loss rate of
/// these, and least and greatest mean length of their bursts, in packets. J-QoS (section 5.3)
/// measured up to 0.9 % of loss, and bursts of up to 14 packets; access networks lose more.
const LOSSY: f64 = 0.75;
const LOSS: [f64; 2] = [0.001, 0.1];
const BURST: [f64; 2] = [1.2, 8.0];

/// Share of the direct paths with one outage of 1 to 3 s (J-QoS, section 5.3: 45 % of the paths,
/// over days).
const WITH_OUTAGE: f64 = 0.2;

/// Intervals of packets in milliseconds, and their bytes.
const TRAFFIC: [(u64, u64); 4] = [(50, 160), (20, 160), (20, 1_000), (5, 1_200)];

/// Bytes that a relay has sent in the month already: beyond the ports of a flat rate, and beyond
/// any quota.
const SENT_THIS_MONTH: Bytes = Bytes::new(1 << 50);

/// Price lists of the study, by the names of their measures.
struct Markets {
    world: World,
    lists: [(&'static str, PriceList); 3],
}

impl Markets {
    fn built_in() -> Self {
        let world = World::built_in();
        let lists = [
            ("hyperscale", PriceList::hyperscale(&world)),
            ("flat-rate", PriceList::flat_rate(&world).with_sent(SENT_THIS_MONTH)),
            ("quota", PriceList::quota(&world).with_sent(SENT_THIS_MONTH)),
        ];
        Self { world, lists }
    }
}

/// Prices of the bytes that the two relays of a flow send.
#[derive(Clone, Copy, Debug, PartialEq)]
struct EgressPrices {
    ingress_relay: PricePerGigabyte,
    egress_relay: PricePerGigabyte,
}

/// Flow of the study: its paths, its traffic, and what its direct path loses.
#[derive(Clone, Debug, PartialEq)]
struct DrawnFlow {
    delays: Delays,
    prices: [EgressPrices; 3],
    budget: Duration,
    traffic: (u64, u64),
    /// Loss rate and mean burst of the direct path; `None` if it loses nothing.
    loss: Option<(f64, f64)>,
    /// Begin and length of an outage, in milliseconds.
    outage: Option<(u64, u64)>,
}

/// Flow with one service: the share of packets that missed the budget, and bytes of the relays.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Run {
    missed: f64,
    ingress_relay: u64,
    egress_relay: u64,
}

impl Run {
    fn of(outcome: &Outcome) -> Option<Self> {
        let flow = outcome.flows.first()?;
        let bytes =
            |name: &str| outcome.nodes.iter().find(|node| node.name == name).map(|node| node.sent_bytes);
        Some(Self {
            missed: share(flow.missing + flow.late, flow.sent)?,
            ingress_relay: bytes("near")?,
            egress_relay: bytes("far")?,
        })
    }

    fn is_met(&self) -> bool {
        self.missed <= MISSED_MAX
    }

    /// Returns the cost of the bytes that the relays sent, in billionths of a dollar.
    #[allow(clippy::cast_precision_loss, reason = "flows cost a few dollars")]
    fn cost(&self, prices: EgressPrices) -> f64 {
        let of = |bytes, price: PricePerGigabyte| price.of(Bytes::new(bytes)).nanodollars() as f64;
        of(self.ingress_relay, prices.ingress_relay) + of(self.egress_relay, prices.egress_relay)
    }
}

/// Performs the study with one seed. Calls `watch` regularly with the progress; `watch` may stop
/// it.
///
/// # Errors
/// If a drawn scenario cannot be built.
pub(crate) fn run(
    seed: u64,
    watch: &mut dyn FnMut(&Progress) -> ControlFlow<StopReason>,
) -> Result<Findings, BuildError> {
    let markets = Markets::built_in();
    let mut random = Seed::new(seed).named("selection").sequence();
    let mut flows = Vec::new();
    let mut findings = Findings::default();
    let (mut before, length) = (Duration::ZERO, Duration::from_secs(RUN_SECONDS));
    for (nth, drawn) in draw(&markets, seed, &mut random).into_iter().enumerate() {
        let mut runs = Vec::new();
        for service in SERVICES {
            let scenario = Scenario::parse(&text(&drawn, service)).expect("drawn flows are in range");
            let seed = Seed::new(seed).named("flow").numbered(nth as u64).number();
            let outcome = scenario.run_observed(seed, &RecordOptions::default(), |progress| {
                watch(&Progress { now: before + progress.now, length, ..progress })
            })?;
            before += scenario.length();
            if outcome.stopped.is_some() {
                findings.stopped = outcome.stopped;
                return Ok(findings);
            }
            runs.extend(Run::of(&outcome));
        }
        if runs.len() == SERVICES.len() {
            flows.push((drawn, runs));
        }
    }
    measure(&markets, &flows, &mut findings);
    Ok(findings)
}

/// Draws flows between endpoints that are nearest to different relays.
fn draw(markets: &Markets, seed: u64, random: &mut Random) -> Vec<DrawnFlow> {
    let setup = FeasibilitySetup { endpoints_per_city: 1, ..FeasibilitySetup::published(seed) };
    let by_continents = feasibility(&markets.world, &LastMile::published(), &setup);
    let paths: Vec<_> = by_continents.into_values().flat_map(|delays| delays.paths).collect();
    let paths: Vec<_> = paths.iter().filter(|path| path.ingress != path.egress).collect();
    let mut flows = Vec::new();
    while (flows.len() as u64) < FLOWS {
        #[allow(clippy::cast_possible_truncation, reason = "it is less than a length")]
        let path = paths[random.below(paths.len() as u64) as usize];
        let [ingress, egress] =
            [path.ingress, path.egress].map(|region| markets.world.regions[region].id.as_str());
        let prices = markets.lists.each_ref().map(|(_, list)| {
            let prices = list.prices(ingress, egress).expect("the lists have all regions");
            EgressPrices {
                ingress_relay: prices.ingress_relay.outgoing,
                egress_relay: prices.egress_relay.outgoing,
            }
        });
        #[allow(clippy::cast_possible_truncation, reason = "there are four")]
        let traffic = TRAFFIC[random.below(TRAFFIC.len() as u64) as usize];
        let is_lossy = random.fraction() < LOSSY;
        let loss = (between(LOSS, random), between(BURST, random));
        let has_outage = random.fraction() < WITH_OUTAGE;
        let outage = (10_000 + random.below((SECONDS - 20) * 1_000), 1_000 + random.below(2_000));
        flows.push(DrawnFlow {
            delays: path.delays,
            prices,
            budget: milliseconds(between(BUDGET_MS, random)),
            traffic,
            loss: is_lossy.then_some(loss),
            outage: has_outage.then_some(outage),
        });
    }
    flows
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "budgets are in range")]
fn milliseconds(millis: f64) -> Duration {
    Duration::from_millis(millis as u64)
}

/// Draws a number whose logarithm is uniformly distributed.
fn between([least, most]: [f64; 2], random: &mut Random) -> f64 {
    least * (most / least).powf(random.fraction())
}

fn text(flow: &DrawnFlow, service: &str) -> String {
    let micros = |delay: Duration| format!("{} us", delay.as_micros());
    let Delays { sender_to_ingress, ingress_to_egress, egress_to_receiver, direct, .. } = flow.delays;
    let (every, bytes) = flow.traffic;
    let loss = flow.loss.map_or_else(String::new, |(share, burst)| {
        format!(
            ", loss = [{{ share = \"{:.3} %\", burst = {burst:.2}, every = \"{every} ms\" }}]",
            share * 100.0
        )
    });
    let outage = flow.outage.map_or_else(String::new, |(at, length)| {
        format!(", outage = [{{ at = \"{at} ms\", for = \"{length} ms\" }}]")
    });
    format!(
        r#"
title = "A flow of the study"
length = "{SECONDS} s"
node = [
    {{ name = "sender", role = "agent" }},
    {{ name = "receiver", role = "agent" }},
    {{ name = "near", role = "relay" }},
    {{ name = "far", role = "relay" }},
]
link = [
    {{ between = ["sender", "receiver"], delay = "{direct}", jitter = "2 ms"{loss}{outage} }},
    {{ between = ["sender", "near"], delay = "{near}", jitter = "1 ms" }},
    {{ between = ["near", "far"], delay = "{between}", jitter = "1 ms" }},
    {{ between = ["far", "receiver"], delay = "{far}", jitter = "1 ms" }},
]

[[flow]]
name = "flow"
from = "sender"
to = "receiver"
via = ["near", "far"]
service = "{service}"
budget = "{budget}"
sends = {{ kind = "steady", every = "{every} ms", bytes = {bytes} }}
"#,
        direct = micros(direct),
        near = micros(sender_to_ingress),
        between = micros(ingress_to_egress),
        far = micros(egress_to_receiver),
        budget = micros(flow.budget),
    )
}

/// Adds the shares of flows that each service satisfies, and costs beside those of the cheapest
/// service that does.
fn measure(markets: &Markets, flows: &[(DrawnFlow, Vec<Run>)], findings: &mut Findings) {
    let satisfiable: Vec<_> = flows.iter().filter(|(_, runs)| runs[1..].iter().any(Run::is_met)).collect();
    findings.measure("satisfiable", None, share(satisfiable.len() as u64, flows.len() as u64), Unit::Share);
    for (index, service) in SERVICES.iter().enumerate() {
        let met = satisfiable.iter().filter(|(_, runs)| runs[index].is_met()).count();
        let met = share(met as u64, satisfiable.len() as u64);
        findings.measure(&format!("{service}-satisfied"), None, met, Unit::Share);
    }
    for (list, (name, _)) in markets.lists.iter().enumerate() {
        let cost = |flow: &DrawnFlow, run: &Run| run.cost(flow.prices[list]);
        let sum = |of: &dyn Fn(&DrawnFlow, &[Run]) -> f64| {
            satisfiable.iter().map(|(flow, runs)| of(flow, runs)).sum::<f64>()
        };
        let oracle = sum(&|flow, runs| {
            let met = runs[1..].iter().filter(|run| run.is_met());
            met.map(|run| cost(flow, run)).reduce(f64::min).unwrap_or(0.0)
        });
        for (index, service) in SERVICES.iter().enumerate() {
            let total = sum(&|flow, runs| cost(flow, &runs[index]));
            let name = format!("{service}-cost-{name}");
            findings.measure(&name, None, Some(total / oracle), Unit::Ratio);
        }
        let over = flows.iter().map(|(flow, runs)| cost(flow, &runs[AUTO]) / cost(flow, &runs[FORWARDING]));
        let worst = over.reduce(f64::max);
        findings.measure(&format!("worst-over-forwarding-{name}"), None, worst, Unit::Ratio);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNMET: f64 = 0.01;

    /// Returns measures of one flow whose services miss these shares of packets. Each service sends
    /// a megabyte more than the one before it.
    fn measured(missed: [f64; 8]) -> Findings {
        let markets = Markets::built_in();
        let drawn = draw(&markets, 1, &mut Seed::new(1).sequence()).remove(0);
        let runs = (1..).zip(missed).map(|(megabytes, missed)| Run {
            missed,
            ingress_relay: megabytes * 1_000_000,
            egress_relay: 0,
        });
        let mut findings = Findings::default();
        measure(&markets, &[(drawn, runs.collect())], &mut findings);
        findings
    }

    #[test]
    fn the_cheapest_service_that_satisfies_the_flow_is_the_reference() {
        let mut missed = [0.0, UNMET, UNMET, 0.0, 0.0, 0.0, 0.0, 0.0];
        let findings = measured(missed);
        let value = |name: &str| findings.value(name, None).expect("it is measured");
        assert_eq!((value("auto-satisfied"), value("retransmission-satisfied")), (1.0, 0.0));
        // Of 4 MB by pull, the selected service sends 1, and forwarding 7.
        assert!((value("auto-cost-hyperscale") - 0.25).abs() < 1e-3);
        assert!((value("forwarding-cost-quota") - 1.75).abs() < 0.1);
        assert!((value("worst-over-forwarding-hyperscale") - 1.0 / 7.0).abs() < 1e-3);
        missed[AUTO] = UNMET;
        assert_eq!(measured(missed).value("auto-satisfied", None), Some(0.0));
    }

    #[test]
    fn the_progress_of_all_flows_is_one_and_a_stopped_study_measures_nothing() {
        let mut last = Duration::ZERO;
        let findings = run(1, &mut |progress| {
            assert!(progress.now >= last && progress.length == Duration::from_secs(RUN_SECONDS));
            last = progress.now;
            if last > Duration::from_secs(SECONDS + 1) {
                ControlFlow::Break(StopReason::Cancelled)
            } else {
                ControlFlow::Continue(())
            }
        });
        let findings = findings.expect("the drawn scenarios can be built");
        assert!(findings.stopped.is_some() && findings.measures.is_empty(), "{last:?}");
    }

    #[test]
    fn a_flow_that_no_named_service_satisfies_does_not_count() {
        let findings = measured([UNMET; 8]);
        assert_eq!(findings.value("satisfiable", None), Some(0.0));
        assert_eq!(findings.value("auto-satisfied", None), None);
    }

    #[test]
    fn each_drawn_flow_is_a_scenario_with_each_service() {
        let markets = Markets::built_in();
        let flows = (1..=25).flat_map(|seed| draw(&markets, seed, &mut Seed::new(seed).sequence()));
        let flows: Vec<_> = flows.collect();
        assert_eq!(flows.len() as u64, 25 * FLOWS);
        for (flow, service) in flows.iter().zip(SERVICES.iter().cycle()) {
            Scenario::parse(&text(flow, service)).unwrap_or_else(|problem| panic!("{problem}: {flow:?}"));
            assert!(flow.prices.iter().all(|prices| prices.ingress_relay.money().nanodollars() > 0));
        }
    }
}
