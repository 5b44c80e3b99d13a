//! Services that agents select between the regions of a price list, beside the cheapest ones.
//!
//! The selector is the one that runs in agents: with its criteria, its prices of the next bytes and
//! its reports of other flows. Costs are those of list prices, machines included.

use byway_plan::{
    Candidate, Criteria, Delays, FlowTerms, NextBytePrices, Observation, PriceBasis, PriceList, Prices,
    RelayPriceTable, Selector, World, choose,
};
use byway_proto::agent::{Agent, Duplication, FlowSettings, Traffic, initial_service};
use byway_units::{Bytes, Duration, Probability, RelayId, Time};
use byway_wire::messages::GroupActivity;
use byway_wire::{Service, Services};

use super::Model;
use super::cost::{call, cents};
use super::drawing::{percent, table};
use crate::findings::{Unit, share};

/// Latency budget of the rows, in milliseconds: the agents' default.
const USUAL_BUDGET_MS: u64 = 250;

/// Latency budgets of the table, in milliseconds: of a game, of a call, and of a call that ITU-T
/// G.114 still accepts.
const BUDGETS_MS: [u64; 3] = [150, USUAL_BUDGET_MS, 400];

/// Delay between an endpoint and its relay: the median last mile of the built-in tables is 8 to 18
/// ms, by continent.
const ACCESS: Duration = Duration::from_millis(10);

/// Time in which receivers detect a loss: the first timeout of a flow.
const DETECTION: Duration = Duration::from_millis(25);

/// Flow's packets in a second: 1.5 Mbit/s in packets of the length that agents assume.
const PACKETS_PER_SECOND: u64 = 187;

/// Length of packets that agents assume for the comparison of costs.
const PACKET: Bytes = Bytes::new(1_000);

/// The direct path loses one in this number of packets: the publication's typical loss of 1 %.
const LOST_ONE_IN: u64 = 100;

/// Other flows of the same tenant that are coded at the same relays: those of a published batch.
const OTHERS: u8 = 9;

/// Time of the selection, in seconds: the loss is measured after eight, and a cheaper service has
/// to suffice for thirty.
const SECONDS: u64 = 60;

/// Ingress and egress relay in the table of prices.
const RELAYS: [RelayId; 2] = [RelayId::new(1), RelayId::new(2)];

/// Costs of one flow between two regions, in cents per hour.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PairCosts {
    /// Service that the agent selects by the list's prices, and its cost.
    selected: (Service, f64),
    /// Cost of the service that it selects without prices.
    nominal: f64,
    /// Cheapest service that meets the agent's criteria, and its cost.
    cheapest: (Service, f64),
    forwarding: f64,
}

/// Adds the services that agents select in each of the three price lists, and what they cost.
pub(super) fn compare(world: &World, model: &mut Model) {
    let lists = [PriceList::hyperscale(world), PriceList::flat_rate(world), PriceList::quota(world)];
    let mut rows = Vec::new();
    for list in &lists {
        for budget in BUDGETS_MS {
            let pairs = costs_of_pairs(world, list, Duration::from_millis(budget));
            if budget == USUAL_BUDGET_MS {
                measure(&list.name, &pairs, model);
            }
            rows.push(row(&list.name, budget, &pairs));
        }
    }
    let mut columns = vec!["price list".to_owned(), "budget".to_owned()];
    columns.extend(selectable().map(|service| format!("{} selected", service.name())));
    columns.extend(
        ["selected, of cheapest", "selected, of forwarding", "forwarding cheapest"].map(str::to_owned),
    );
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    model.tables.push(table(
        "Services that agents select at 1 % loss, and costs with machines",
        &columns,
        rows,
    ));
}

/// Returns the services that repair losses.
fn selectable() -> impl Iterator<Item = Service> {
    Service::ALL.iter().copied().filter(|service| *service != Service::Internet)
}

fn costs_of_pairs(world: &World, list: &PriceList, budget: Duration) -> Vec<PairCosts> {
    let pairs = list.region_pairs();
    pairs
        .filter_map(|(from, to)| {
            let delays = delays(world.between_regions.between(from, to)?);
            pair_costs(&list.prices(from, to)?, &delays, budget)
        })
        .collect()
}

/// Returns the delays of a flow between endpoints near two relays. The direct path is as long as
/// that over the relays.
fn delays(between: Duration) -> Delays {
    Delays {
        sender_to_ingress: ACCESS,
        ingress_to_egress: between,
        egress_to_receiver: ACCESS,
        direct: ACCESS + between + ACCESS,
        cooperating: ACCESS,
        detection: DETECTION,
        ..Delays::default()
    }
}

/// Returns the costs of a flow at these list prices; `None` if no service meets the criteria.
fn pair_costs(prices: &Prices, delays: &Delays, budget: Duration) -> Option<PairCosts> {
    let compared = next_byte_prices(prices).compared(RELAYS[0], RELAYS[1]);
    let (service, flow) = select(compared, delays, budget)?;
    let (without_prices, _) = select((Prices::nominal(), PriceBasis::Nominal), delays, budget)?;
    let criteria =
        Criteria { allowed: Services::ALL.without(Service::Internet), ..Agent::selection_criteria(budget) };
    // Relays lose nothing here. A minute is too short for an agent to measure that.
    let flow = FlowTerms { relay_loss: Some(Probability::ZERO), ..flow };
    let choice = choose(&flow, prices, Some(delays), &criteria);
    let of = |candidate: &Candidate| cents(candidate.cost.relays());
    let cost = |service| choice.candidates.iter().find(|one| one.cost.service == service).map(of);
    let competent = choice.candidates.iter().filter(|candidate| candidate.rejected.is_none());
    let cheapest = competent.min_by_key(|candidate| candidate.cost.relays())?;
    Some(PairCosts {
        selected: (service, cost(service)?),
        nominal: cost(without_prices)?,
        cheapest: (cheapest.cost.service, of(cheapest)),
        forwarding: cost(Service::Forwarding)?,
    })
}

/// Returns the prices of the next bytes of two relays, as agents get them: machines run anyway.
fn next_byte_prices(prices: &Prices) -> RelayPriceTable {
    let [ingress, egress] = [prices.ingress_relay, prices.egress_relay];
    let near = NextBytePrices {
        incoming: ingress.incoming,
        to_relays: [(RELAYS[1], ingress.outgoing)].into_iter().collect(),
        ..NextBytePrices::default()
    };
    let far = NextBytePrices {
        incoming: egress.incoming,
        to_internet: egress.outgoing,
        ..NextBytePrices::default()
    };
    [(RELAYS[0], near), (RELAYS[1], far)].into_iter().collect()
}

/// Runs an agent's selector for a minute. Returns the service in force at its end, and the terms of
/// the flow by which it was selected; `None` if nothing was evaluated.
fn select(
    (prices, basis): (Prices, PriceBasis),
    delays: &Delays,
    budget: Duration,
) -> Option<(Service, FlowTerms)> {
    let criteria = Agent::selection_criteria(budget);
    let cross_stream = FlowSettings::default().rates.batch;
    let terms = FlowTerms { packet: PACKET, loss: Probability::ZERO, cross_stream, ..call(0.0) };
    let mut selector = Selector::new(terms, prices, criteria);
    selector.set_prices(prices, basis);
    let mut service = initial_service(Traffic::Datagrams, Duplication::Usual);
    let mut observation = Observation {
        path: Some(1),
        delays: Some(*delays),
        are_delays_measured: true,
        group_activity: Some(GroupActivity { coded: OTHERS, cached: 0 }),
        ..Observation::default()
    };
    for second in 1..=SECONDS {
        let lost = [second, second - 1].map(|second| second * PACKETS_PER_SECOND / LOST_ONE_IN);
        observe(&mut observation, lost[0] - lost[1], service, budget);
        let now = Time::START + Duration::from_secs(second);
        if let Some(change) = selector.select(&observation, (service, criteria.allowed), now) {
            selector.on_changed(change, now);
            service = change.service;
        }
    }
    selector.log().latest().map(|evaluation| (service, evaluation.flow))
}

/// Adds a second of the flow with this service, in which the direct path loses this many packets.
fn observe(observation: &mut Observation, lost: u64, service: Service, budget: Duration) {
    observation.direct += PACKETS_PER_SECOND - lost;
    if service == Service::Both {
        observation.forwarded += lost;
        observation.covered += lost;
        return;
    }
    let delivery = observation.delays.and_then(|delays| delays.delivery(service));
    observation.lost += lost;
    observation.repaired += if delivery.is_some_and(|delivery| delivery <= budget) { lost } else { 0 };
}

/// Returns the ratio of two sums over all pairs; `None` if the second is 0.
fn ratio(pairs: &[PairCosts], over: fn(&PairCosts) -> f64, under: fn(&PairCosts) -> f64) -> Option<f64> {
    let sum = |of: fn(&PairCosts) -> f64| pairs.iter().map(of).sum::<f64>();
    (sum(under) > 0.0).then(|| sum(over) / sum(under))
}

fn selects(pairs: &[PairCosts], service: Service) -> Option<f64> {
    let count = pairs.iter().filter(|pair| pair.selected.0 == service).count();
    share(count as u64, pairs.len() as u64)
}

fn forwarding_is_cheapest(pairs: &[PairCosts]) -> Option<f64> {
    // Services may cost the same, and forwarding then is one of the cheapest.
    let count = pairs.iter().filter(|pair| pair.forwarding <= pair.cheapest.1).count();
    share(count as u64, pairs.len() as u64)
}

fn measure(list: &str, pairs: &[PairCosts], model: &mut Model) {
    let findings = model.only();
    let mut put = |name: &str, value, unit| findings.measure(name, Some(list), value, unit);
    for service in selectable() {
        put(&format!("selects-{}", service.name()), selects(pairs, service), Unit::Share);
    }
    let cheapest: fn(&PairCosts) -> f64 = |pair| pair.cheapest.1;
    put("selected-over-cheapest", ratio(pairs, |pair| pair.selected.1, cheapest), Unit::Ratio);
    put(
        "selected-over-forwarding",
        ratio(pairs, |pair| pair.selected.1, |pair| pair.forwarding),
        Unit::Ratio,
    );
    put("nominal-over-cheapest", ratio(pairs, |pair| pair.nominal, cheapest), Unit::Ratio);
    put("forwarding-over-cheapest", ratio(pairs, |pair| pair.forwarding, cheapest), Unit::Ratio);
    put("forwarding-is-cheapest", forwarding_is_cheapest(pairs), Unit::Share);
    let each = pairs.iter().map(|pair| pair.selected.1 / pair.cheapest.1);
    put("selected-over-cheapest-worst", each.reduce(f64::max), Unit::Ratio);
}

fn row(list: &str, budget_ms: u64, pairs: &[PairCosts]) -> Vec<String> {
    let of_cheapest = ratio(pairs, |pair| pair.selected.1, |pair| pair.cheapest.1);
    let of_forwarding = ratio(pairs, |pair| pair.selected.1, |pair| pair.forwarding);
    let times = |ratio: Option<f64>| ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}×"));
    let mut cells = vec![list.to_owned(), format!("{budget_ms} ms")];
    cells.extend(selectable().map(|service| percent(selects(pairs, service))));
    cells.extend([times(of_cheapest), times(of_forwarding), percent(forwarding_is_cheapest(pairs))]);
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(selected: (Service, f64), cheapest: f64, forwarding: f64) -> PairCosts {
        PairCosts { selected, nominal: 3.0, cheapest: (Service::Pull, cheapest), forwarding }
    }

    #[test]
    fn costs_are_related_to_those_of_the_cheapest_service() {
        let pairs = [pair((Service::Pull, 1.0), 1.0, 4.0), pair((Service::Coding, 3.0), 1.0, 1.0)];
        let mut model = Model::default();
        measure("list", &pairs, &mut model);
        let value = |name: &str| model.findings[0].value(name, Some("list"));
        assert_eq!((value("selects-pull"), value("selects-caching")), (Some(0.5), Some(0.0)));
        assert_eq!(
            (value("selected-over-cheapest"), value("selected-over-cheapest-worst")),
            (Some(2.0), Some(3.0))
        );
        assert_eq!(
            (value("forwarding-over-cheapest"), value("nominal-over-cheapest")),
            (Some(2.5), Some(3.0))
        );
        assert_eq!(
            (value("selected-over-forwarding"), value("forwarding-is-cheapest")),
            (Some(0.8), Some(0.5))
        );
    }

    #[test]
    fn agents_select_by_the_prices_of_the_next_bytes() {
        let world = World::built_in();
        let list = PriceList::hyperscale(&world);
        let prices = list.prices("aws:ap-southeast-2", "aws:eu-central-1").expect("both are listed");
        let (compared, basis) = next_byte_prices(&prices).compared(RELAYS[0], RELAYS[1]);
        assert_eq!(basis, PriceBasis::Listed);
        assert_eq!(compared.ingress_relay.outgoing, prices.ingress_relay.outgoing);
        assert_eq!(compared.egress_relay.outgoing, prices.egress_relay.outgoing);
    }

    #[test]
    fn a_request_to_the_sender_is_selected_where_the_budget_leaves_time() {
        let world = World::built_in();
        let list = PriceList::hyperscale(&world);
        let prices = list.prices("aws:ap-southeast-2", "aws:eu-central-1").expect("both are listed");
        let service = |between, budget| {
            let delays = delays(Duration::from_millis(between));
            let costs = pair_costs(&prices, &delays, Duration::from_millis(budget));
            costs.expect("a service suffices").selected.0
        };
        // Retransmission takes 25 ms and three times the delay of 50 ms.
        assert_eq!(service(30, 250), Service::Retransmission);
        assert_ne!(service(30, 150), Service::Retransmission);
    }
}
