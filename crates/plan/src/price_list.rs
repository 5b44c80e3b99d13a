//! Price lists: prices of relays in each region of one market.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use core::num::NonZeroU32;

use byway_units::{Bytes, Money, Rate};

use crate::cost::{CODING_COMPUTE_RATIO, FLOWS_PER_THREAD, Prices, RelayPrices};
use crate::datasets::PairPrices;
use crate::locations::World;
use crate::price::{PricePerGigabyte, Tariff};

/// Prices of a relay in one region of a market.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionPrices {
    /// Price of bytes that the relay receives.
    pub incoming: PricePerGigabyte,
    /// Tariff of bytes that the relay sends to other regions of the provider.
    pub to_regions: Tariff,
    /// Tariff of bytes that the relay sends to endpoints and to other providers.
    pub to_internet: Tariff,
    /// Price of the relay's machine for an hour.
    pub machine_per_hour: Money,
}

/// Prices of relays in one market, by region.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceList {
    /// Name of the market.
    pub name: String,
    /// Regions by identifier, which begins with the provider and a colon, as in `aws:eu-central-1`.
    pub regions: BTreeMap<String, RegionPrices>,
    /// Prices of single pairs of regions, which override [`RegionPrices::to_regions`].
    pub pairs: PairPrices,
    /// Number of forwarded flows that share a machine.
    pub flows_per_machine: NonZeroU32,
    /// Bytes that each relay has sent in this month already, which determine tiers, quotas and full
    /// ports.
    pub sent_this_month: Bytes,
}

impl PriceList {
    /// Returns the prices of hyperscale clouds: every outgoing byte has a price, and machines are
    /// comparatively cheap. List prices of [`World::built_in`].
    #[must_use]
    pub fn hyperscale(world: &World) -> Self {
        let regions = world.regions.iter().map(|region| {
            let prices = RegionPrices {
                incoming: PricePerGigabyte::FREE,
                to_regions: Tariff::fixed(region.to_regions),
                to_internet: Tariff::fixed(region.to_internet),
                machine_per_hour: region.machine_per_hour,
            };
            (region.id.clone(), prices)
        });
        Self::new("hyperscale", regions.collect())
    }

    /// Returns the prices of machines with a flat-rate port: 200 Mbit/s and 3.26 dollars a month.
    ///
    /// The price is that of a small machine at Scaleway, from justjanne's comparison of small
    /// machines (git.io/vps), which has no date; about 2017. It is used for every region of the
    /// world, although no such provider is in all of them.
    #[must_use]
    pub fn flat_rate(world: &World) -> Self {
        let port_per_month = Money::from_cents(326);
        let port = Rate::from_megabits_per_second(200);
        Self::everywhere("flat-rate", world, &Tariff::FlatRate { port_per_month, port }, port_per_month)
    }

    /// Returns the prices of machines with an included volume: 20 TiB for 7.55 dollars a month,
    /// 0.1164 cents per gigabyte beyond.
    ///
    /// A machine CX33 of Hetzner costs 6.49 euros, and 1 euro per terabyte beyond, by its price
    /// list of 2026-05-27. The European Central Bank's rate of that day is 1.1637
    /// (devantler-tech/platform, commit cb791c6f). The price is used for every region of the world,
    /// although the provider is in Europe, the United States and Singapore.
    #[must_use]
    pub fn quota(world: &World) -> Self {
        let beyond = PricePerGigabyte::new(Money::from_nanodollars(1_163_700));
        let tariff = Tariff::quota(Bytes::new(20 << 40), beyond);
        Self::everywhere("quota", world, &tariff, Money::from_cents(755))
    }

    /// Returns a market with the prices of a public table of pairs, and machines at one price.
    ///
    /// A region's price towards the Internet is its highest price towards other providers. If the
    /// table has no such pair, it is the region's highest price.
    #[must_use]
    pub fn from_pairs(name: &str, pairs: PairPrices, machine_per_hour: Money) -> Self {
        let ids: BTreeSet<_> = pairs.keys().flat_map(|(from, to)| [from, to]).cloned().collect();
        let regions = ids.into_iter().map(|id| {
            let leaving = || pairs.iter().filter(|((from, _), _)| *from == id);
            let abroad = leaving().filter(|((_, to), _)| provider(to) != provider(&id));
            let highest = abroad.map(|(_, price)| *price).max().or(leaving().map(|(_, price)| *price).max());
            let tariff = Tariff::fixed(highest.unwrap_or_default());
            let prices = RegionPrices {
                incoming: PricePerGigabyte::FREE,
                to_regions: tariff.clone(),
                to_internet: tariff,
                machine_per_hour,
            };
            (id, prices)
        });
        let regions = regions.collect();
        Self { pairs, ..Self::new(name, regions) }
    }

    fn new(name: &str, regions: BTreeMap<String, RegionPrices>) -> Self {
        Self {
            name: name.to_owned(),
            regions,
            pairs: PairPrices::new(),
            flows_per_machine: FLOWS_PER_THREAD,
            sent_this_month: Bytes::ZERO,
        }
    }

    /// Returns a price list with this tariff, and machines at this price, in every region of the
    /// world.
    fn everywhere(name: &str, world: &World, tariff: &Tariff, machine_per_month: Money) -> Self {
        const HOURS_PER_MONTH: i64 = 730;
        let prices = RegionPrices {
            incoming: PricePerGigabyte::FREE,
            to_regions: tariff.clone(),
            to_internet: tariff.clone(),
            machine_per_hour: Money::from_nanodollars(machine_per_month.nanodollars() / HOURS_PER_MONTH),
        };
        let regions = world.regions.iter().map(|region| (region.id.clone(), prices.clone()));
        Self::new(name, regions.collect())
    }

    /// Returns this price list for relays that have sent these bytes in the month already.
    #[must_use]
    pub fn with_sent(self, sent_this_month: Bytes) -> Self {
        Self { sent_this_month, ..self }
    }

    /// Returns this price list with a price for the bytes that relays receive, in every region.
    #[must_use]
    pub fn with_incoming(mut self, incoming: PricePerGigabyte) -> Self {
        for prices in self.regions.values_mut() {
            prices.incoming = incoming;
        }
        self
    }

    /// Returns the prices for a flow with ingress and egress relay in these regions; `None` if one
    /// of them is not in the list. Endpoints' own bytes are free.
    ///
    /// Prices are marginal: the cost that the flow adds to the bills of existing relays.
    #[must_use]
    pub fn prices(&self, ingress: &str, egress: &str) -> Option<Prices> {
        let (from, to) = (self.regions.get(ingress)?, self.regions.get(egress)?);
        let pair = self.pairs.get(&(ingress.to_owned(), egress.to_owned())).copied();
        let tariff = if provider(ingress) == provider(egress) { &from.to_regions } else { &from.to_internet };
        let between = pair.unwrap_or_else(|| tariff.marginal(self.sent_this_month));
        Some(Prices {
            ingress_relay: self.relay(from, between),
            egress_relay: self.relay(to, to.to_internet.marginal(self.sent_this_month)),
            coding_compute_ratio: CODING_COMPUTE_RATIO,
            sender_access: PricePerGigabyte::FREE,
            receiver_access: PricePerGigabyte::FREE,
        })
    }

    /// Returns every ordered pair of different regions, in alphabetical order.
    pub fn region_pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let ids = || self.regions.keys().map(String::as_str);
        ids().flat_map(move |from| ids().filter(move |to| *to != from).map(move |to| (from, to)))
    }

    fn relay(&self, region: &RegionPrices, outgoing: PricePerGigabyte) -> RelayPrices {
        RelayPrices {
            incoming: region.incoming,
            outgoing,
            machine_per_hour: region.machine_per_hour,
            flows_per_machine: self.flows_per_machine,
        }
    }
}

/// Returns the provider of a region: the part of its identifier before the colon.
fn provider(region: &str) -> &str {
    region.split_once(':').map_or(region, |(provider, _)| provider)
}

#[cfg(test)]
mod tests {
    use byway_units::Probability;
    use byway_wire::Service;

    use super::*;
    use crate::choice::{Criteria, Reason, choose};
    use crate::datasets::egress_pairs;
    use crate::flow::{FlowTerms, MessageOverhead};

    const SYDNEY: &str = "aws:ap-southeast-2";
    const FRANKFURT: &str = "aws:eu-central-1";
    const LONDON: &str = "gcp:europe-west2";

    fn outgoing(book: &PriceList, from: &str, to: &str) -> [i64; 2] {
        let prices = book.prices(from, to).expect("both regions are in the book");
        [prices.ingress_relay, prices.egress_relay].map(|relay| relay.outgoing.money().nanodollars())
    }

    fn chosen(book: &PriceList) -> (Service, Reason) {
        let flow = FlowTerms {
            messages: MessageOverhead::Counted,
            ..FlowTerms::published_call(Probability::from_ratio(1, 100).expect("a share"))
        };
        let prices = book.prices(SYDNEY, FRANKFURT).expect("both regions are in the book");
        let choice = choose(&flow, &prices, None, &Criteria::default());
        (choice.service, choice.reason)
    }

    #[test]
    fn within_a_provider_bytes_cost_less_than_between_two() {
        let book = PriceList::hyperscale(&World::built_in());
        assert_eq!(outgoing(&book, SYDNEY, FRANKFURT), [98_000_000, 90_000_000]);
        assert_eq!(outgoing(&book, SYDNEY, LONDON), [114_000_000, 111_800_000]);
        assert_eq!(book.prices(SYDNEY, "aws:nowhere"), None);
        assert_eq!(book.region_pairs().count(), 12 * 11);
    }

    #[test]
    fn each_market_has_its_cheapest_service() {
        let world = World::built_in();
        assert_eq!(chosen(&PriceList::hyperscale(&world)), (Service::Coding, Reason::Cheapest));
        let free = (Service::Forwarding, Reason::EgressNearlyFree);
        assert_eq!(chosen(&PriceList::flat_rate(&world)), free);
        assert_eq!(chosen(&PriceList::quota(&world)), free);
    }

    #[test]
    fn a_used_quota_makes_bytes_worth_saving() {
        let used = PriceList::quota(&World::built_in()).with_sent(Bytes::new(20 << 40));
        assert_eq!(outgoing(&used, SYDNEY, FRANKFURT), [1_163_700, 1_163_700]);
        assert_eq!(chosen(&used), (Service::Coding, Reason::Cheapest));
        let full = PriceList::flat_rate(&World::built_in()).with_sent(Bytes::MAX);
        assert_eq!(chosen(&full), (Service::Caching, Reason::Cheapest));
    }

    #[test]
    fn tables_of_pairs_make_a_book() {
        let text = "src,dst,usd_per_gb\naws:a,aws:b,0.02\naws:a,gcp:c-a,0.09\ngcp:c-a,aws:a,0.12\n";
        let pairs = egress_pairs("t", text).expect("it is such a table");
        let book = PriceList::from_pairs("all clouds", pairs, Money::from_cents(8));
        assert_eq!(outgoing(&book, "aws:a", "aws:b"), [20_000_000, 0]);
        assert_eq!(outgoing(&book, "gcp:c", "aws:a"), [120_000_000, 90_000_000]);
    }

    #[test]
    fn what_comes_in_may_cost_too() {
        let tenth = PricePerGigabyte::new(Money::from_cents(10));
        let book = PriceList::hyperscale(&World::built_in()).with_incoming(tenth);
        let prices = book.prices(SYDNEY, FRANKFURT).expect("both regions are in the book");
        assert_eq!((prices.ingress_relay.incoming, prices.egress_relay.incoming), (tenth, tenth));
    }
}
