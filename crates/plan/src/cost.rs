//! Cost of a service for a flow, by relay, direction and kind.

use core::num::NonZeroU32;

use byway_units::{Bytes, Money, Probability};
use byway_wire::Service;

use crate::flow::{FlowTerms, Traffic};
use crate::price::PricePerGigabyte;

/// Number of flows of 1.5 Mbit/s in packets of 512 bytes that one thread forwards: 170,000 packets
/// a second.
///
/// From J-QoS, appendix B: the prototype's number, which yields the published costs.
pub const FLOWS_PER_THREAD: NonZeroU32 = NonZeroU32::new(460).expect("460 is not 0");

/// `alpha`: a coded flow's share of a machine, as a multiple of a forwarded flow's: 460 flows for
/// each thread against 175.
///
/// J-QoS, appendix B, which rounds it to 2.6.
pub const CODING_COMPUTE_RATIO: f64 = 460.0 / 175.0;

/// Prices of one relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayPrices {
    /// `i`: price of bytes that the relay receives.
    pub incoming: PricePerGigabyte,
    /// `e`: price of outgoing bytes: for the ingress relay, towards the egress relay; for the
    /// egress relay, towards the Internet.
    pub outgoing: PricePerGigabyte,
    /// `v`: price of a machine for an hour.
    pub machine_per_hour: Money,
    /// `f`: number of forwarded flows that share a machine.
    pub flows_per_machine: NonZeroU32,
}

/// Prices of everything that a flow's packets use: two relays, and the endpoints' access networks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// Prices of the relay near the sender (DC1 in J-QoS).
    pub ingress_relay: RelayPrices,
    /// Prices of the relay near the receiver (DC2 in J-QoS).
    pub egress_relay: RelayPrices,
    /// `alpha`: a coded flow's share of a machine relative to a forwarded flow's; at least 0,
    /// usually [`CODING_COMPUTE_RATIO`]. NaN counts as 0.
    pub coding_compute_ratio: f64,
    /// Price of bytes on the sender's access network, in either direction.
    pub sender_access: PricePerGigabyte,
    /// Price of bytes on the receiver's access network, in either direction.
    pub receiver_access: PricePerGigabyte,
}

/// Cost of one relay for an hour of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayCost {
    /// Cost of the bytes that the relay receives.
    pub incoming: Money,
    /// Cost of the bytes that the relay sends.
    pub outgoing: Money,
    /// Cost of the flow's share of the relay's machine.
    pub compute: Money,
}

/// Bytes that a flow's sender and receiver exchange in an hour, and their cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointCost {
    /// Bytes that the sender sends: source packets on the direct path, and copies.
    pub sender_sends: Bytes,
    /// Bytes that the receiver receives, on the direct path and from relays.
    pub receiver_receives: Bytes,
    /// Bytes that the receiver sends: NACKs, and packets for repairs of other flows.
    pub receiver_sends: Bytes,
    /// Cost of all these bytes, at the prices of the access networks.
    pub money: Money,
}

/// Cost of a service for an hour of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Service that causes these costs.
    pub service: Service,
    /// Cost of the relay near the sender (DC1 in J-QoS).
    pub ingress_relay: RelayCost,
    /// Cost of the relay near the receiver (DC2 in J-QoS).
    pub egress_relay: RelayCost,
    /// Bytes of the sender and the receiver, and their cost.
    pub endpoints: EndpointCost,
}

impl RelayCost {
    /// Returns the cost of the bytes that the relay receives and sends.
    #[must_use]
    pub fn bandwidth(&self) -> Money {
        self.incoming.saturating_add(self.outgoing)
    }

    /// Returns the cost of the relay: bytes and share of a machine.
    #[must_use]
    pub fn total(&self) -> Money {
        self.bandwidth().saturating_add(self.compute)
    }
}

impl Cost {
    /// Returns the cost of the bytes that both relays receive and send.
    #[must_use]
    pub fn bandwidth(&self) -> Money {
        self.ingress_relay.bandwidth().saturating_add(self.egress_relay.bandwidth())
    }

    /// Returns the cost of the flow's shares of machines at both relays.
    #[must_use]
    pub fn compute(&self) -> Money {
        self.ingress_relay.compute.saturating_add(self.egress_relay.compute)
    }

    /// Returns the cost of both relays, without endpoints, as in the papers.
    #[must_use]
    pub fn relays(&self) -> Money {
        self.bandwidth().saturating_add(self.compute())
    }

    /// Returns the cost of relays and endpoints together.
    #[must_use]
    pub fn total(&self) -> Money {
        self.relays().saturating_add(self.endpoints.money)
    }
}

/// Bytes of one flow that one relay receives and sends in an hour.
#[derive(Clone, Copy, Debug, Default)]
struct RelayTraffic {
    incoming: Bytes,
    outgoing: Bytes,
}

/// Returns the cost of a service for an hour of this flow.
///
/// J-QoS, table 2, with cooperative bytes charged at the egress relay, which sends and receives
/// them. The rows of pull and retransmission are not published: their NACKs travel
/// through both relays.
///
/// | service | DC1 in | DC1 out | DC2 in | DC2 out |
/// |---|---|---|---|---|
/// | internet | | | | |
/// | coding | b | b (r + s) | b (r + s) + N + A | b p + Q |
/// | caching | b | b | b + N | b p |
/// | pull | b + N | b p | b p + N | b p + N |
/// | retransmission | b p + N | b p + N | b p + N | b p + N |
/// | forwarding, both | b | b | b | b |
///
/// If incoming bytes are free, no service costs less at a higher loss. Sums saturate at
/// [`Money::MAX`].
#[must_use]
pub fn cost(service: Service, flow: &FlowTerms, prices: &Prices) -> Cost {
    let traffic = flow.traffic();
    let [ingress, egress] = through_relays(service, &traffic);
    let ratio = match service {
        Service::Internet => 0.0,
        Service::Coding => prices.coding_compute_ratio,
        Service::Caching | Service::Forwarding | Service::Both | Service::Pull | Service::Retransmission => {
            1.0
        }
    };
    Cost {
        service,
        ingress_relay: relay_cost(ingress, &prices.ingress_relay, ratio),
        egress_relay: relay_cost(egress, &prices.egress_relay, ratio),
        endpoints: endpoint_cost(service, &traffic, prices),
    }
}

/// Returns the bytes that the ingress and the egress relay send in an hour of this flow.
#[must_use]
pub fn relay_bytes(service: Service, flow: &FlowTerms) -> [Bytes; 2] {
    through_relays(service, &flow.traffic()).map(|through| through.outgoing)
}

/// Returns the lowest loss rate, to a millionth, from which on `other` costs less at the relays
/// than `preferred`; `None` if there is none. It is found by bisection, because costs rise with
/// loss, and coding's the most.
///
/// For `preferred` = coding and `other` = caching or forwarding this is the published threshold
/// (J-QoS, section 5.1.1).
#[must_use]
pub fn break_even(
    preferred: Service,
    other: Service,
    flow: &FlowTerms,
    prices: &Prices,
) -> Option<Probability> {
    const PARTS: u64 = 1_000_000;
    let loss_of = |parts| Probability::from_ratio(parts, PARTS).unwrap_or(Probability::ONE);
    let other_is_cheaper = |parts| {
        let flow = flow.at_loss(loss_of(parts));
        cost(other, &flow, prices).relays() < cost(preferred, &flow, prices).relays()
    };
    if other_is_cheaper(0) {
        return Some(Probability::ZERO);
    }
    if !other_is_cheaper(PARTS) {
        return None;
    }
    let (mut below, mut from) = (0, PARTS);
    while from - below > 1 {
        let middle = u64::midpoint(below, from);
        if other_is_cheaper(middle) {
            from = middle;
        } else {
            below = middle;
        }
    }
    Some(loss_of(from))
}

fn through_relays(service: Service, traffic: &Traffic) -> [RelayTraffic; 2] {
    let Traffic { source, repairs, resent, nacks, requests, answers } = *traffic;
    let whole = RelayTraffic { incoming: source, outgoing: source };
    match service {
        Service::Internet => [RelayTraffic::default(); 2],
        Service::Coding => [
            RelayTraffic { incoming: source, outgoing: repairs },
            RelayTraffic { incoming: sum(&[repairs, nacks, answers]), outgoing: sum(&[resent, requests]) },
        ],
        Service::Caching => [whole, RelayTraffic { incoming: sum(&[source, nacks]), outgoing: resent }],
        Service::Pull => [
            RelayTraffic { incoming: sum(&[source, nacks]), outgoing: resent },
            RelayTraffic { incoming: sum(&[resent, nacks]), outgoing: sum(&[resent, nacks]) },
        ],
        Service::Retransmission => {
            let both = sum(&[resent, nacks]);
            [RelayTraffic { incoming: both, outgoing: both }; 2]
        }
        Service::Forwarding | Service::Both => [whole, whole],
    }
}

fn relay_cost(through: RelayTraffic, prices: &RelayPrices, ratio: f64) -> RelayCost {
    RelayCost {
        incoming: prices.incoming.of(through.incoming),
        outgoing: prices.outgoing.of(through.outgoing),
        compute: scaled(prices.machine_per_hour, ratio / f64::from(prices.flows_per_machine.get())),
    }
}

/// Returns the bytes of the endpoints with this service, and their cost. On average, a receiver
/// answers requests for other flows as often as others answer for its flow.
fn endpoint_cost(service: Service, traffic: &Traffic, prices: &Prices) -> EndpointCost {
    let Traffic { source, resent, nacks, requests, answers, .. } = *traffic;
    let direct = source.saturating_sub(resent);
    let [sender_sends, receiver_receives, receiver_sends] = match service {
        Service::Internet => [source, direct, Bytes::ZERO],
        Service::Coding => [sum(&[source, source]), sum(&[source, requests]), sum(&[nacks, answers])],
        Service::Caching | Service::Pull => [sum(&[source, source]), source, nacks],
        Service::Retransmission => [sum(&[source, resent]), sum(&[source, nacks]), sum(&[nacks, nacks])],
        Service::Forwarding => [source, source, Bytes::ZERO],
        Service::Both => [sum(&[source, source]), sum(&[direct, source]), Bytes::ZERO],
    };
    let receiver = prices.receiver_access.of(sum(&[receiver_receives, receiver_sends]));
    let money = prices.sender_access.of(sender_sends).saturating_add(receiver);
    EndpointCost { sender_sends, receiver_receives, receiver_sends, money }
}

fn sum(bytes: &[Bytes]) -> Bytes {
    bytes.iter().fold(Bytes::ZERO, |total, more| total.saturating_add(*more))
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a flow's part of a machine is known to a few digits, and the cast saturates"
)]
fn scaled(money: Money, factor: f64) -> Money {
    let product = money.nanodollars() as f64 * factor;
    Money::from_nanodollars((product + 0.5_f64.copysign(product)) as i64)
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;
    use byway_units::Rate;
    use byway_wire::BlockShape;
    use proptest::prelude::*;

    use super::*;
    use crate::flow::MessageOverhead;

    fn share(value: f64) -> Probability {
        Probability::new(value).expect("the test gives a share")
    }

    fn per_gigabyte(dollars: f64) -> PricePerGigabyte {
        PricePerGigabyte::new(scaled(Money::from_dollars(1), dollars))
    }

    fn relay(outgoing: f64) -> RelayPrices {
        RelayPrices {
            incoming: PricePerGigabyte::FREE,
            outgoing: per_gigabyte(outgoing),
            // With 460 flows, two machines at this price yield the published 0.19 cents, and 0.51
            // with coding.
            machine_per_hour: scaled(Money::from_dollars(1), 0.445),
            flows_per_machine: FLOWS_PER_THREAD,
        }
    }

    fn prices(ingress_out: f64, egress_out: f64) -> Prices {
        Prices {
            ingress_relay: relay(ingress_out),
            egress_relay: relay(egress_out),
            coding_compute_ratio: CODING_COMPUTE_RATIO,
            sender_access: PricePerGigabyte::FREE,
            receiver_access: PricePerGigabyte::FREE,
        }
    }

    /// Returns prices from Oceania to Europe: 9.8 cents between regions, 9 cents from Europe to the
    /// Internet.
    fn oceania_to_europe() -> Prices {
        prices(0.098, 0.09)
    }

    #[allow(clippy::cast_precision_loss, reason = "the tests compare a few digits")]
    fn number(money: Money) -> f64 {
        money.nanodollars() as f64 / 1e7
    }

    /// Formats an amount in cents with two decimals.
    fn cents(money: Money) -> String {
        format!("{:.2}", number(money))
    }

    #[test]
    fn oceania_to_europe_costs_what_was_published() {
        let flow = FlowTerms::published_call(share(0.01));
        let outgoing = |service| cents(cost(service, &flow, &oceania_to_europe()).ingress_relay.outgoing);
        assert_eq!(
            [Service::Coding, Service::Caching, Service::Forwarding].map(outgoing),
            ["1.32", "6.62", "6.62"]
        );
    }

    #[test]
    fn compute_costs_what_was_published() {
        let flow = FlowTerms::published_call(share(0.01));
        let compute = |service| cents(cost(service, &flow, &oceania_to_europe()).compute());
        assert_eq!(
            [Service::Coding, Service::Caching, Service::Forwarding].map(compute),
            ["0.51", "0.19", "0.19"]
        );
    }

    #[test]
    fn a_hundred_and_fifty_calls_cost_a_sixteenth() {
        // Equal prices at both relays, at which forwarding has the published cost; every repair
        // packet is used.
        let flow = FlowTerms {
            rate: Rate::from_kilobits_per_second(150 * 1_500),
            loss: share(1.0 / 16.0),
            cross_stream: BlockShape::new(16, 1),
            ..FlowTerms::published_call(Probability::ZERO)
        };
        let prices = prices(0.086_9, 0.086_9);
        let bandwidth = |service| cents(cost(service, &flow, &prices).bandwidth());
        assert_eq!(bandwidth(Service::Forwarding), "1759.72");
        assert_eq!(bandwidth(Service::Coding), "109.98");
    }

    #[test]
    fn at_the_highest_ingress_price_coding_costs_two_fifths_of_forwarding() {
        let flow = FlowTerms::published_call(share(0.01));
        let free = oceania_to_europe();
        let mut charged = free;
        charged.ingress_relay.incoming = per_gigabyte(0.1);
        charged.egress_relay.incoming = per_gigabyte(0.1);
        let relays = |service, prices| number(cost(service, &flow, prices).relays());
        let forwarding = [relays(Service::Forwarding, &free), relays(Service::Forwarding, &charged)];
        let coding = [relays(Service::Coding, &free), relays(Service::Coding, &charged)];
        let format_costs = |costs: [f64; 2]| costs.map(|cost| format!("{cost:.2}"));
        assert_eq!(format_costs(forwarding), ["12.88", "26.38"]);
        assert_eq!(format_costs(coding), ["1.89", "9.99"]);
        assert!((1.9..2.1).contains(&(forwarding[1] / forwarding[0])));
        assert!((0.35..0.45).contains(&(coding[1] / forwarding[1])));
    }

    #[test]
    fn thresholds_lie_where_they_were_published() {
        let flow =
            FlowTerms { messages: MessageOverhead::Counted, ..FlowTerms::published_call(Probability::ZERO) };
        // Cheap between regions and expensive towards the receiver, then the reverse.
        let threshold = |ingress_out, egress_out| {
            break_even(Service::Coding, Service::Caching, &flow, &prices(ingress_out, egress_out))
        };
        let format_thresholds =
            |threshold: Option<Probability>| threshold.map(|loss| (loss.value() * 1e3).round() / 10.0);
        let thresholds = [(0.02, 0.05), (0.02, 0.09), (0.02, 0.154), (0.05, 0.154), (0.098, 0.09)];
        let found =
            thresholds.map(|(ingress_out, egress_out)| format_thresholds(threshold(ingress_out, egress_out)));
        assert_eq!(found, [Some(42.5), Some(23.6), Some(13.8), Some(43.2), None]);
    }

    #[test]
    fn endpoints_pay_for_their_own_copies() {
        let flow = FlowTerms { messages: MessageOverhead::Counted, ..FlowTerms::published_call(share(0.01)) };
        let metered = Prices { sender_access: per_gigabyte(1.0), ..oceania_to_europe() };
        let sends = |service| cost(service, &flow, &metered).endpoints.sender_sends.count();
        assert_eq!(sends(Service::Caching), 2 * sends(Service::Forwarding));
        let money = |service| cents(cost(service, &flow, &metered).endpoints.money);
        assert_eq!(
            [Service::Internet, Service::Coding, Service::Both].map(money),
            ["67.50", "135.00", "135.00"]
        );
    }

    #[test]
    fn the_internet_alone_costs_relays_nothing() {
        let flow = FlowTerms::published_call(share(0.5));
        assert!(cost(Service::Internet, &flow, &oceania_to_europe()).relays().is_zero());
    }

    proptest! {
        #[test]
        fn more_loss_never_costs_less(low in 0.0..1.0_f64, more in 0.0..1.0_f64, out in 0.0..0.2_f64) {
            let high = (low + more).min(1.0);
            let prices = prices(out, 0.09);
            let flow = FlowTerms {
                messages: MessageOverhead::Counted,
                in_stream: BlockShape::new(5, 1),
                ..FlowTerms::published_call(share(low))
            };
            for service in Service::ALL {
                let [low, high] = [low, high].map(|loss| cost(*service, &flow.at_loss(share(loss)), &prices));
                // Only answers may decrease: receivers that lost their packet do not answer.
                // Incoming answers are free here.
                prop_assert!(low.relays() <= high.relays());
            }
        }

        #[test]
        fn coding_sends_less_than_caching_between_relays(loss in 0.0..=1.0_f64, source in 2..=32_u8) {
            for repair in 1..=(source / 2).min(8) {
                let flow = FlowTerms {
                    cross_stream: BlockShape::new(source, repair),
                    messages: MessageOverhead::Counted,
                    ..FlowTerms::published_call(share(loss))
                };
                let outgoing = |service| cost(service, &flow, &oceania_to_europe()).ingress_relay.outgoing;
                prop_assert!(outgoing(Service::Coding) < outgoing(Service::Caching));
            }
        }

        #[test]
        fn every_price_and_flow_has_a_cost(
            numbers in proptest::array::uniform4(i64::MIN..=i64::MAX),
            rate in 0..=u64::MAX,
            packet in 0..=u64::MAX,
        ) {
            let [incoming, outgoing, machine, access] = numbers.map(Money::from_nanodollars);
            let flows_per_machine = NonZeroU32::MIN;
            let relay = RelayPrices {
                incoming: PricePerGigabyte::new(incoming),
                outgoing: PricePerGigabyte::new(outgoing),
                machine_per_hour: machine,
                flows_per_machine,
            };
            let prices = Prices {
                ingress_relay: relay,
                egress_relay: relay,
                coding_compute_ratio: f64::NAN,
                sender_access: PricePerGigabyte::new(access),
                receiver_access: PricePerGigabyte::new(access),
            };
            let flow = FlowTerms {
                rate: Rate::from_bits_per_second(rate),
                packet: Bytes::new(packet),
                ..FlowTerms::published_call(share(0.3))
            };
            for service in Service::ALL {
                let _ = cost(*service, &flow, &prices).total();
            }
        }
    }
}
