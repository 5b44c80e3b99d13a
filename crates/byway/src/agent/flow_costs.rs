//! Costs of the flows that the agent sends: bytes by segment, and the amounts of the relays' bytes.

use byway_api::{AgentCost, CostTotals, FlowCost};
use byway_plan::{PricePerGigabyte, Prices};
use byway_proto::agent::{PacketCount, ReportedTotals, SentUsage};
use byway_units::{Bytes, Money, RelayId};
use byway_wire::Service;

use super::mappings::Mapping;
use super::status::FlowView;

/// Packets that an ingress relay sends for each coded one, with the default shapes: 2 for 8 across
/// flows, and 1 for 16 along the flow.
const CODED_PER_SOURCE: (u64, u64) = (5, 16);

impl FlowView<'_> {
    /// Returns the costs of all flows, without the agent's name.
    pub(super) fn costs(&self) -> AgentCost {
        let mut flows: Vec<FlowCost> =
            self.mappings.iter().map(|(_, mapping)| self.flow_cost(mapping)).collect();
        flows.sort_by(|one, other| one.id.cmp(&other.id));
        let mut total = self.ended;
        for flow in &flows {
            total.add(&flow.totals);
        }
        let currency = self.network_view.currency().map(str::to_owned);
        AgentCost { name: String::new(), currency, flows, ended: self.ended, total }
    }

    /// Returns the costs of all flows together, ended ones included.
    pub(super) fn total_cost(&self) -> CostTotals {
        let mut total = self.ended;
        for (_, mapping) in self.mappings.iter() {
            total.add(&self.cost_totals(mapping));
        }
        total
    }

    fn flow_cost(&self, mapping: &Mapping) -> FlowCost {
        let relays = self.relays_of(mapping);
        FlowCost {
            id: self.flow_id(mapping),
            service: self.service_of(mapping).name().to_owned(),
            relays: relays.map(|relays| relays.map(|relay| self.network_view.relay_name(relay))),
            totals: self.cost_totals(mapping),
        }
    }

    /// Returns the bytes and amounts of a flow, at the prices of the relays in use.
    pub(super) fn cost_totals(&self, mapping: &Mapping) -> CostTotals {
        let usage = self.agent.sent_usage(mapping.sent).unwrap_or_default();
        let reported = self.agent.reported_totals(mapping.sent).unwrap_or_default();
        let relays = self.relays_of(mapping);
        let bytes = |count: PacketCount| self.agent.sent_ip_bytes(mapping.sent, count);
        let [between, from_relays] = relay_packets(&usage, &reported, self.service_of(mapping));
        let between = if relays.is_none_or(|[ingress, egress]| ingress == egress) {
            PacketCount::default()
        } else {
            between
        };
        let listed = relays.and_then(|[ingress, egress]| self.agent.relay_prices().between(ingress, egress));
        let prices = listed.unwrap_or_else(Prices::nominal);
        let mut totals = CostTotals {
            direct_bytes: bytes(usage.direct),
            to_relays_bytes: bytes(usage.to_relays),
            between_relays_bytes: bytes(between),
            from_relays_bytes: bytes(from_relays),
            ..CostTotals::default()
        };
        totals.nanounits =
            amount(&prices, [totals.to_relays_bytes, totals.between_relays_bytes, totals.from_relays_bytes]);
        if let Some([ingress, egress]) = relays {
            let source = bytes(usage.source);
            let between = if ingress == egress { 0 } else { source };
            totals.all_relayed_nanounits = amount(&prices, [source, between, source]);
        }
        totals
    }

    /// Returns the ingress and the egress relay of the flow's path in use.
    fn relays_of(&self, mapping: &Mapping) -> Option<[RelayId; 2]> {
        let in_use = self.agent.flow_status(mapping.sent)?.path_in_use?;
        let paths = self.network_view.paths(self.network_view.number(), mapping.peer);
        paths.get(in_use).map(|path| [path.ingress.0, path.egress.0])
    }
}

/// Returns the packets between the relays, and those to the receiver. The receiver's report counts
/// the latter; between the relays are copies that go on at once, and of the other services what
/// their relays fetch or code.
fn relay_packets(usage: &SentUsage, reported: &ReportedTotals, service: Service) -> [PacketCount; 2] {
    let mean = usage.source.bytes.checked_div(usage.source.packets).unwrap_or_default();
    let of_packets = |packets: u64| PacketCount { packets, bytes: packets.saturating_mul(mean) };
    let waiting = usage.to_relays.packets.saturating_sub(usage.relayed_on.packets);
    let (part, whole) = CODED_PER_SOURCE;
    let fetched = match service {
        Service::Coding => waiting * part / whole,
        _ => reported.cached.min(waiting),
    };
    let fetched = of_packets(fetched);
    let between = PacketCount {
        packets: usage.relayed_on.packets + fetched.packets,
        bytes: usage.relayed_on.bytes + fetched.bytes,
    };
    [between, of_packets(reported.repaired() + reported.forwarded)]
}

/// Returns the amount of these bytes: to the ingress relay, between the relays, and to the
/// receiver.
fn amount(prices: &Prices, [to_relays, between, from_relays]: [u64; 3]) -> i64 {
    let of = |price: PricePerGigabyte, bytes: u64| price.of(Bytes::new(bytes));
    let items = [
        of(prices.ingress_relay.incoming, to_relays),
        of(prices.ingress_relay.outgoing, between),
        of(prices.egress_relay.incoming, between),
        of(prices.egress_relay.outgoing, from_relays),
    ];
    items.into_iter().fold(Money::ZERO, Money::saturating_add).nanodollars()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_the_relays_are_copies_that_go_on_and_what_is_fetched_or_coded() {
        let count = |packets| PacketCount { packets, bytes: packets * 1_000 };
        let mut usage = SentUsage::default();
        (usage.source, usage.to_relays, usage.relayed_on) = (count(160), count(160), count(60));
        let mut reported = ReportedTotals::default();
        (reported.cached, reported.resent, reported.forwarded) = (5, 2, 10);
        assert_eq!(relay_packets(&usage, &reported, Service::Pull), [count(65), count(17)]);
        // Of 100 packets that wait for a batch, 31 repair packets come.
        assert_eq!(relay_packets(&usage, &reported, Service::Coding), [count(91), count(17)]);
        let none = SentUsage::default();
        assert_eq!(relay_packets(&none, &reported, Service::Pull)[0], PacketCount::default());
    }

    #[test]
    fn each_relay_pays_for_what_it_receives_and_sends() {
        let price = |cents| PricePerGigabyte::new(Money::from_cents(cents));
        let mut prices = Prices::nominal();
        (prices.ingress_relay.incoming, prices.ingress_relay.outgoing) = (price(1), price(10));
        (prices.egress_relay.incoming, prices.egress_relay.outgoing) = (price(100), price(1_000));
        let gigabyte = 1_000_000_000;
        assert_eq!(
            amount(&prices, [gigabyte, 2 * gigabyte, 3 * gigabyte]),
            10_000_000 * (1 + 20 + 200 + 3_000)
        );
    }
}
