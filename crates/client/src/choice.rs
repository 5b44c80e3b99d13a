//! Which service a flow gets.
//!
//! A simple rule: services have an order of cost, and the first that is expected to deliver in time is chosen. Prices are
//! not looked at yet.

use byway_plan::Delays;
use byway_proto::agent::{Agent, RelayPath};
use byway_proto::limits::BATCH_WAIT;
use byway_units::{AgentId, Duration, Time};
use byway_wire::Service;

use crate::limits::{CLEAN_PACKETS_MIN, DETECTION};
use crate::network::Known;
use crate::registration::{Choice, Chosen, Reason, Registration};

/// What is known of the ways to a peer.
#[derive(Clone, Copy, Debug)]
struct Facts {
    /// How many packets came there and how many the direct path lost.
    counted: (u64, u64),
    /// Whether flows of others may be coded together with the new one.
    has_company: bool,
    delays: Option<Delays>,
}

/// The service for a new flow to a peer.
pub(crate) fn choose(
    registration: &Registration,
    peer: AgentId,
    known: &Known,
    agent: &Agent,
    now: Time,
) -> Chosen {
    if let Choice::Service(service) = registration.choice {
        return Chosen::of(service, Reason::Asked);
    }
    let paths = known.paths(known.own(), peer);
    let Some(path) = paths.first() else {
        return Chosen::of(Service::Internet, Reason::NoRelays);
    };
    let reported = agent.totals().get(&peer).and_then(|totals| totals.reported).unwrap_or_default();
    let facts = Facts {
        counted: (reported.direct, reported.lost),
        has_company: known.has_company(peer),
        delays: delays(path, peer, agent, now),
    };
    by_budget(registration.latency_budget, &facts)
}

/// The delays to a peer, as far as they can be told from here: those of the far end are taken to be like those of this one.
fn delays(path: &RelayPath, peer: AgentId, agent: &Agent, now: Time) -> Option<Delays> {
    let direct =
        agent.peer_status(peer, now).filter(|status| status.is_alive && !status.relayed)?.round_trip? / 2;
    let (relay, shard) = path.ingress;
    let ingress = agent.relay_status(relay, shard, now).filter(|status| status.is_alive)?.round_trip? / 2;
    Some(assumed(direct, ingress, path.ingress == path.egress))
}

/// All delays, by those that are measured. A relay that is ingress and egress lies on the way: what is not before it is
/// behind it. Two relays are taken to be as far from each other as the agents are, and from the agents alike.
fn assumed(direct: Duration, ingress: Duration, is_one_relay: bool) -> Delays {
    let (between, egress) =
        if is_one_relay { (Duration::ZERO, direct.saturating_sub(ingress)) } else { (direct, ingress) };
    Delays {
        sender_to_ingress: ingress,
        ingress_to_egress: between,
        egress_to_receiver: egress,
        direct,
        cooperating: egress,
        detection: DETECTION,
        encoding: BATCH_WAIT,
    }
}

fn by_budget(budget: Option<Duration>, facts: &Facts) -> Chosen {
    let Some(budget) = budget else {
        return Chosen::of(Service::Caching, Reason::NoBudget);
    };
    let Some(delays) = facts.delays else {
        return Chosen::of(Service::Caching, Reason::NotMeasured);
    };
    let (packets, lost) = facts.counted;
    let caches_in_time = delays.delivery(Service::Caching).is_some_and(|delivery| delivery <= budget);
    if lost == 0 && packets >= CLEAN_PACKETS_MIN && caches_in_time {
        // Outages come after long clean times, too: what costs nothing until then still bridges them.
        return Chosen { standby: true, ..Chosen::of(Service::Caching, Reason::NothingIsLost { packets }) };
    }
    // Coding brings bursts back only with others' packets.
    let by_cost = [Service::Coding, Service::Caching, Service::Forwarding].into_iter();
    let competent = by_cost.filter(|service| *service != Service::Coding || facts.has_company);
    let expected = competent.filter_map(|service| Some((service, delays.delivery(service)?)));
    let in_time = expected.clone().find(|(_, delivery)| *delivery <= budget);
    match (in_time, expected.min_by_key(|(_, delivery)| *delivery)) {
        (Some((service, delivery)), _) => Chosen::of(service, Reason::Cheapest { delivery, budget }),
        (None, Some((service, delivery))) => Chosen::of(service, Reason::NoneInTime { delivery, budget }),
        (None, None) => Chosen::of(Service::Caching, Reason::NotMeasured),
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn facts(has_company: bool) -> Facts {
        Facts { counted: (0, 0), has_company, delays: Some(assumed(ms(50), ms(5), false)) }
    }

    fn service(budget: u64, facts: &Facts) -> Service {
        by_budget(Some(ms(budget)), facts).service
    }

    #[test]
    fn the_cheapest_that_delivers_in_time_is_chosen() {
        // Coding: 50 + 25 + 2 * 5 + 2 * 5 and a wait of 45 + 5 + 50 - 80; caching: 50 + 25 + 2 * 5; forwarding: 60.
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
        let unknown = Facts { delays: None, ..facts(true) };
        let chosen = by_budget(Some(ms(150)), &unknown);
        assert_eq!((chosen.service, chosen.reason), (Service::Caching, Reason::NotMeasured));
    }

    #[test]
    fn only_what_was_seen_to_lose_nothing_goes_without_relays() {
        let counted = |packets, lost| Facts { counted: (packets, lost), ..facts(true) };
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
        let said = by_budget(Some(ms(115)), &facts(true)).to_string();
        assert_eq!(
            said,
            "coding, the cheapest that delivers in time: what is lost is expected after 115 ms, of 115 ms"
        );
    }
}
