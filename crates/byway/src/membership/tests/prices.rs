//! Prices on agents' maps, and the traffic that relays report.

use byway_api::{BytesToRelay, RelayUsage, SelfUpdate};

use super::*;
use crate::settings::controller_prices_of;

const DAY_SECONDS: u64 = 86_400;

/// Prices of the relay `fra`: 300 GB a month are free, further ones cost a cent each.
const QUOTA: &str = "[controller]\n[[controller.relays]]\nname = \"fra\"\n[controller.relays.prices]\n\
                     provider = \"acme\"\nregion = \"one\"\nincluded = \"300 GB\"\n\
                     egress = [{ price = \"0.01/GB\" }]\n";

/// Usage of the two days until this time, with this number of gigabytes to agents.
fn usage(until: u64, gigabytes: u64) -> RelayUsage {
    RelayUsage {
        since_unix_seconds: until - 2 * DAY_SECONDS,
        until_unix_seconds: until,
        received_bytes: 7,
        sent: vec![
            BytesToRelay { relay: None, bytes: gigabytes * 1_000_000_000 },
            BytesToRelay { relay: Some(99), bytes: 1 },
        ],
        percentile_95_sample_bytes: 0,
    }
}

/// Lets a node report its usage together with an address, and waits until the agent sees that
/// address.
async fn report(node: &Membership, usage: RelayUsage, port: u16, agent: &Membership) {
    let address = SocketAddr::from(([192, 0, 2, 1], port));
    let addresses = Some(vec![address]);
    node.report(SelfUpdate { usage: Some(usage), addresses, ..SelfUpdate::default() });
    map(agent, |map| {
        let relays = map.relays.iter().flat_map(|relay| &relay.addresses);
        relays.chain(map.agents.iter().flat_map(|agent| &agent.addresses)).any(|known| *known == address)
    })
    .await;
}

/// Waits until the agent's map has this price of the relay `fra`, in billionths for a gigabyte.
async fn price_is(agent: &Membership, wanted: Option<i64>) {
    map(agent, |map| {
        let prices = map.relays[0].prices.as_ref();
        prices.map(|prices| prices.egress_nanounits_per_gigabyte) == wanted
    })
    .await;
}

fn price(agent: &Membership) -> Option<i64> {
    let map = agent.maps().borrow().clone();
    map.relays[0].prices.as_ref().map(|prices| prices.egress_nanounits_per_gigabyte)
}

#[tokio::test]
async fn maps_of_agents_have_the_price_of_the_months_forecast_which_changes_once_a_day() {
    let world = TestNetwork::new().await;
    let [fra, alice, _bob] = world.paired().await;
    let controller = world.controller.as_ref().expect("it runs");
    assert_eq!(price(&alice), None);
    controller.price_setter()(controller_prices_of(QUOTA).expect("right prices"));
    price_is(&alice, Some(0)).await;
    let now = world.unix_seconds.load(Ordering::Relaxed);
    // 50 GB in two days are 466 GB in the month.
    report(&fra, usage(now, 50), 4_601, &alice).await;
    price_is(&alice, Some(10_000_000)).await;
    report(&fra, usage(now, 1), 4_602, &alice).await;
    assert_eq!(price(&alice), Some(10_000_000), "on the same day");
    world.unix_seconds.fetch_add(DAY_SECONDS, Ordering::Relaxed);
    report(&fra, usage(now + DAY_SECONDS, 1), 4_603, &alice).await;
    price_is(&alice, Some(0)).await;
    controller.price_setter()(PriceSheets::default());
    price_is(&alice, None).await;
    assert_eq!(fra.maps().borrow().relays, [], "a relay needs no prices");
}

#[tokio::test]
async fn a_report_counts_for_the_relay_that_sends_it_and_only_if_it_is_possible() {
    let world = TestNetwork::new().await;
    let [fra, alice, bob] = world.paired().await;
    let controller = world.controller.as_ref().expect("it runs");
    let costs = controller.costs();
    let now = world.unix_seconds.load(Ordering::Relaxed);
    report(&bob, usage(now, 50), 4_601, &alice).await;
    assert_eq!(costs().relays, [], "it is an agent");
    report(&fra, usage(now + 31 * DAY_SECONDS, 50), 4_602, &alice).await;
    assert_eq!(costs().relays, [], "the time is in the future");
    let backwards = RelayUsage { since_unix_seconds: now, until_unix_seconds: now - 1, ..usage(now, 50) };
    report(&fra, backwards, 4_603, &alice).await;
    assert_eq!(costs().relays, [], "it ends before it begins");
    report(&fra, usage(now, 50), 4_604, &alice).await;
    let known = costs();
    assert_eq!((known.relays.len(), known.relays[0].name.as_str()), (1, "fra"));
    assert_eq!(known.relays[0].sent.len(), 1, "relay 99 is no member");
    assert!(known.relays[0].bill.is_none() && known.relays[0].note.is_some(), "no prices are known");
    controller.price_setter()(controller_prices_of(QUOTA).expect("right prices"));
    let bill = costs().relays[0].bill.clone().expect("its prices are known");
    assert_eq!((bill.total_nanounits, bill.next.egress_nanounits_per_gigabyte), (0, 10_000_000));
    // In the next month, the report is outdated.
    world.unix_seconds.fetch_add(20 * DAY_SECONDS, Ordering::Relaxed);
    assert_eq!(costs().relays, []);
}
