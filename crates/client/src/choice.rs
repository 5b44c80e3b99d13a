//! Choice of the service for a flow that the application registers with a latency budget.
//!
//! The services are ordered by cost. The rule selects the first service whose deliveries are
//! expected in time. It does not use prices yet.

use byway_plan::Delays;
use byway_proto::agent::{Agent, RelayPath};
use byway_proto::limits::BATCH_WAIT;
use byway_units::{AgentId, Duration, Time};
use byway_wire::Service;

use crate::limits::{CLEAN_PACKETS_MIN, DETECTION};
use crate::network::NetworkView;
use crate::registration::{Reason, Registration, ServiceChoice, ServiceSelector};

/// Properties of the paths to a peer that determine the choice of a service.
#[derive(Clone, Copy, Debug)]
struct PathFacts {
    /// Packets of earlier flows that the direct path delivered to the peer, and packets that it
    /// lost.
    counted: (u64, u64),
    /// True if relays may code the new flow with other flows.
    has_coding_peers: bool,
    delays: Option<Delays>,
}

/// Selects the service for a new flow to a peer: the application's, or the cheapest that its
/// latency budget permits.
pub(crate) fn choose(
    registration: &Registration,
    peer: AgentId,
    network_view: &NetworkView,
    agent: &Agent,
    now: Time,
) -> ServiceChoice {
    if let ServiceSelector::Service(service) = registration.choice {
        return ServiceChoice::of(service, Reason::Asked);
    }
    let paths = network_view.paths(network_view.own_agent(), peer);
    let Some(path) = paths.first() else {
        return ServiceChoice::of(Service::Internet, Reason::NoRelays);
    };
    let reported = agent.totals().get(&peer).and_then(|totals| totals.reported).unwrap_or_default();
    let facts = PathFacts {
        counted: (reported.direct, reported.lost),
        has_coding_peers: network_view.has_coding_peers(peer),
        delays: delays(path, peer, agent, now),
    };
    by_budget(registration.latency_budget, &facts)
}

/// Estimates the one-way delays to a peer from measured round trips; `None` if one is not measured.
/// The delay between the receiver and its relay is assumed, see [`assumed`].
fn delays(path: &RelayPath, peer: AgentId, agent: &Agent, now: Time) -> Option<Delays> {
    let direct =
        agent.peer_status(peer, now).filter(|status| status.is_alive && !status.relayed)?.round_trip? / 2;
    let (relay, shard) = path.ingress;
    let ingress = agent.relay_status(relay, shard, now).filter(|status| status.is_alive)?.round_trip? / 2;
    Some(assumed(direct, ingress, path.ingress == path.egress))
}

/// Derives all delays from two measured ones, with those that Byway adds to them.
fn assumed(direct: Duration, ingress: Duration, is_one_relay: bool) -> Delays {
    Delays {
        detection: DETECTION,
        encoding: BATCH_WAIT,
        ..Delays::from_measured(direct, ingress, is_one_relay)
    }
}

fn by_budget(budget: Option<Duration>, facts: &PathFacts) -> ServiceChoice {
    let Some(budget) = budget else {
        return ServiceChoice::of(Service::Caching, Reason::NoBudget);
    };
    let Some(delays) = facts.delays else {
        return ServiceChoice::of(Service::Caching, Reason::NotMeasured);
    };
    let (packets, lost) = facts.counted;
    let caches_in_time = delays.delivery(Service::Caching).is_some_and(|delivery| delivery <= budget);
    if lost == 0 && packets >= CLEAN_PACKETS_MIN && caches_in_time {
        // Outages may follow long periods without loss. Caching on standby costs nothing until
        // then, and still bridges them.
        return ServiceChoice {
            standby: true,
            ..ServiceChoice::of(Service::Caching, Reason::NothingIsLost { packets })
        };
    }
    // Coding can repair bursts only with packets of other flows.
    let by_cost = [Service::Coding, Service::Caching, Service::Forwarding].into_iter();
    let competent = by_cost.filter(|service| *service != Service::Coding || facts.has_coding_peers);
    let expected = competent.filter_map(|service| Some((service, delays.delivery(service)?)));
    let in_time = expected.clone().find(|(_, delivery)| *delivery <= budget);
    match (in_time, expected.min_by_key(|(_, delivery)| *delivery)) {
        (Some((service, delivery)), _) => ServiceChoice::of(service, Reason::Cheapest { delivery, budget }),
        (None, Some((service, delivery))) => {
            ServiceChoice::of(service, Reason::NoneInTime { delivery, budget })
        }
        (None, None) => ServiceChoice::of(Service::Caching, Reason::NotMeasured),
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn facts(has_company: bool) -> PathFacts {
        PathFacts {
            counted: (0, 0),
            has_coding_peers: has_company,
            delays: Some(assumed(ms(50), ms(5), false)),
        }
    }

    fn service(budget: u64, facts: &PathFacts) -> Service {
        by_budget(Some(ms(budget)), facts).service
    }

    #[test]
    fn the_cheapest_that_delivers_in_time_is_chosen() {
        // Coding: 50 + 25 + 2 * 5 + 2 * 5 and a wait of 45 + 5 + 50 - 80; caching: 50 + 25 + 2 * 5;
        // forwarding: 60.
        assert_eq!(service(115, &facts(true)), Service::Coding);
        assert_eq!(service(114, &facts(true)), Service::Caching);
        assert_eq!(service(85, &facts(true)), Service::Caching);
        assert_eq!(service(84, &facts(true)), Service::Forwarding);
        let none = by_budget(Some(ms(59)), &facts(true));
        assert_eq!(none.service, Service::Forwarding);
        assert_eq!(none.reason, Reason::NoneInTime { delivery: ms(60), budget: ms(59) });
    }

    #[test]
    fn a_flow_that_nobody_is_coded_with_is_cached() {
        assert_eq!(service(500, &facts(false)), Service::Caching);
    }

    #[test]
    fn without_a_budget_or_measurements_it_is_cached() {
        assert_eq!(by_budget(None, &facts(true)).reason, Reason::NoBudget);
        let unknown = PathFacts { delays: None, ..facts(true) };
        let chosen = by_budget(Some(ms(150)), &unknown);
        assert_eq!((chosen.service, chosen.reason), (Service::Caching, Reason::NotMeasured));
    }

    #[test]
    fn only_what_was_seen_to_lose_nothing_goes_without_relays() {
        let counted = |packets, lost| PathFacts { counted: (packets, lost), ..facts(true) };
        let clean = by_budget(Some(ms(150)), &counted(CLEAN_PACKETS_MIN, 0));
        assert_eq!((clean.service, clean.standby), (Service::Caching, true), "it bridges outages");
        assert_eq!(service(150, &counted(CLEAN_PACKETS_MIN - 1, 0)), Service::Coding);
        assert_eq!(service(150, &counted(1_000_000, 1)), Service::Coding);
    }

    #[test]
    fn one_relay_lies_on_the_way() {
        let near_sender = assumed(ms(50), ms(5), true);
        assert_eq!((near_sender.ingress_to_egress, near_sender.egress_to_receiver), (ms(0), ms(45)));
    }

    #[test]
    fn the_reason_is_a_sentence() {
        let sentence = by_budget(Some(ms(115)), &facts(true)).to_string();
        assert_eq!(
            sentence,
            "coding, the cheapest within the budget: lost packets are expected after 115 ms, budget 115 ms"
        );
    }
}
