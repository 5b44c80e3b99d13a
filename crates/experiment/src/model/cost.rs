//! Study of the costs of services (J-QoS, section 5.1.1 and figure 5; CASPR, section 5.4).

use byway_plan::{
    Cost, FlowTerms, LOSS_RATES, MessageOverhead, PriceList, PricePerGigabyte, Prices, World,
    cost as cost_of, thresholds,
};
use byway_units::{Money, Probability, Rate};
use byway_wire::{BlockShape, Service};

use super::Model;
use super::data::Data;
use super::drawing::curve;
use super::markets::{self, Market};
use super::selected;
use crate::findings::{Unit, quantile, share};
use crate::result::{Kind, Plot, Scale};

/// Services whose costs the study compares: those that repair losses over relays.
pub(super) const SERVICES: [Service; 3] = [Service::Coding, Service::Caching, Service::Forwarding];

/// Published pair of regions, from Oceania to Europe.
const PUBLISHED_PAIR: (&str, &str) = ("aws:ap-southeast-2", "aws:eu-central-1");

/// Fitted price of a relay's machine for an hour: with 0.445 dollars, forwarding costs the
/// published 0.19 cents of compute. The publication names the kind of machine, but no price.
const FITTED_MACHINE: Money = Money::from_nanodollars(445_000_000);

/// Fitted price of a gigabyte that a relay sends: with 8.69 cents, forwarding 150 calls costs the
/// published 17.60 dollars.
const FITTED_BYTES: PricePerGigabyte = PricePerGigabyte::new(Money::from_nanodollars(86_900_000));

/// Highest loss rate that the publication calls typical.
pub(super) const TYPICAL_LOSS: f64 = 0.01;

/// Highest price of relays' incoming bytes in the plot, in cents for a gigabyte, as published.
const INCOMING_CENTS_MAX: i64 = 10;

/// Published costs and ratios by the names of their measures, in the measures' units.
const PUBLISHED: [(&str, f64); 7] = [
    ("dc1-coding", 1.32),
    ("dc1-forwarding", 6.62),
    ("compute-coding", 0.51),
    ("compute-forwarding", 0.19),
    ("calls-coding", 1.10),
    ("calls-forwarding", 17.60),
    ("calls-ratio", 16.0),
];

/// Computes the study of costs with the built-in price lists, and with the public ones that are
/// available.
pub(crate) fn cost(data: &Data) -> Model {
    let world = World::built_in();
    let hyperscale = PriceList::hyperscale(&world);
    let mut model = Model { notes: data.notes(), ..Model::default() };
    if let Some(prices) = hyperscale.prices(PUBLISHED_PAIR.0, PUBLISHED_PAIR.1) {
        one_call(
            &Prices {
                ingress_relay: fitted(prices.ingress_relay),
                egress_relay: fitted(prices.egress_relay),
                ..prices
            },
            &mut model,
        );
        over_loss(&prices, &mut model);
    }
    many_calls(&hyperscale, &mut model);
    let apart = PUBLISHED.iter().filter_map(|(name, published)| {
        model.only().value(name, None).map(|measured| (measured / published - 1.0).abs())
    });
    let apart = apart.reduce(f64::max);
    model.only().measure("apart-from-published", None, apart, Unit::Share);
    coding_against_others(&hyperscale, &mut model);
    incoming(&hyperscale, &mut model);
    let markets = Market::all(&world, data);
    markets::compare(&markets, &mut model);
    selected::compare(&world, &mut model);
    model
}

fn fitted(relay: byway_plan::RelayPrices) -> byway_plan::RelayPrices {
    byway_plan::RelayPrices { machine_per_hour: FITTED_MACHINE, ..relay }
}

/// Returns the terms of a call's flow with this loss rate, with the bytes of Byway's messages.
pub(super) fn call(loss: f64) -> FlowTerms {
    let loss = Probability::new(loss).expect("the loss rates of the study are shares");
    FlowTerms { messages: MessageOverhead::Counted, ..FlowTerms::published_call(loss) }
}

/// Adds the published costs of one call, which neglect Byway's messages.
fn one_call(prices: &Prices, model: &mut Model) {
    let flow = FlowTerms { messages: MessageOverhead::Neglected, ..call(TYPICAL_LOSS) };
    let costs = SERVICES.map(|service| cost_of(service, &flow, prices));
    let mut put = |name: String, value, unit| model.only().measure(&name, None, Some(value), unit);
    for cost in &costs {
        put(format!("dc1-{}", cost.service.name()), cents(cost.ingress_relay.outgoing), Unit::CentsPerHour);
        put(format!("compute-{}", cost.service.name()), cents(cost.compute()), Unit::CentsPerHour);
        put(format!("total-{}", cost.service.name()), cents(cost.relays()), Unit::CentsPerHour);
    }
    let [coding, _, forwarding] = costs;
    let ratio = |of: fn(&Cost) -> Money| cents(of(&forwarding)) / cents(of(&coding));
    put("dc1-ratio".to_owned(), ratio(|cost| cost.ingress_relay.outgoing), Unit::Ratio);
    put("total-ratio".to_owned(), ratio(Cost::relays), Unit::Ratio);
}

/// Adds the costs of 150 calls with one repair packet for sixteen source packets. As in the
/// publication, receivers get all repair packets.
fn many_calls(price_list: &PriceList, model: &mut Model) {
    let flow = FlowTerms {
        rate: Rate::from_kilobits_per_second(150 * 1_500),
        cross_stream: BlockShape::new(16, 1),
        messages: MessageOverhead::Neglected,
        ..call(1.0 / 16.0)
    };
    let Some(prices) = price_list.prices(PUBLISHED_PAIR.0, PUBLISHED_PAIR.1) else {
        return;
    };
    let relay = byway_plan::RelayPrices { outgoing: FITTED_BYTES, ..prices.ingress_relay };
    let prices = Prices { ingress_relay: relay, egress_relay: relay, ..prices };
    let [coding, forwarding] = [Service::Coding, Service::Forwarding]
        .map(|service| cents(cost_of(service, &flow, &prices).bandwidth()) / 100.0);
    model.only().measure("calls-coding", None, Some(coding), Unit::DollarsPerHour);
    model.only().measure("calls-forwarding", None, Some(forwarding), Unit::DollarsPerHour);
    model.only().measure("calls-ratio", None, Some(forwarding / coding), Unit::Ratio);
}

/// Adds the share of region pairs for which coding is the cheapest service, and the loss rates up
/// to which it is cheapest.
fn coding_against_others(price_list: &PriceList, model: &mut Model) {
    let typical = LOSS_RATES.into_iter().filter(|loss| *loss <= TYPICAL_LOSS);
    let typical: Vec<FlowTerms> = typical.map(call).collect();
    let is_cheapest = |prices: &Prices| {
        typical.iter().all(|flow| {
            let [coding, caching, forwarding] =
                SERVICES.map(|service| cost_of(service, flow, prices).relays());
            coding < caching && coding < forwarding
        })
    };
    let prices: Vec<Prices> =
        price_list.region_pairs().filter_map(|(from, to)| price_list.prices(from, to)).collect();
    let cheapest = prices.iter().filter(|prices| is_cheapest(prices)).count();
    let pairs = prices.len() as u64;
    let mut put = |name: &str, value, unit| model.only().measure(name, None, value, unit);
    put("coding-cheapest-at-typical-loss", share(cheapest as u64, pairs), Unit::Share);
    let mut losses: Vec<f64> = thresholds(price_list, &call(0.0))
        .iter()
        .filter_map(|row| {
            row.caching.into_iter().chain(row.forwarding).map(Probability::value).reduce(f64::min)
        })
        .collect();
    put("threshold-pairs", share(losses.len() as u64, pairs), Unit::Share);
    put("threshold-least", quantile(&mut losses, 0.0), Unit::Share);
    put("threshold-p50", quantile(&mut losses, 0.5), Unit::Share);
    let below = losses.iter().filter(|loss| **loss <= 0.5).count();
    put("threshold-within-half", share(below as u64, losses.len() as u64), Unit::Share);
}

/// Adds the mean costs of services over all region pairs if relays pay for incoming bytes.
fn incoming(free: &PriceList, model: &mut Model) {
    let mean = |price_list: &PriceList, service| {
        let prices = price_list.region_pairs().filter_map(|(from, to)| price_list.prices(from, to));
        let costs: Vec<f64> =
            prices.map(|prices| cents(cost_of(service, &call(TYPICAL_LOSS), &prices).relays())).collect();
        mean(&costs)
    };
    let price_list = |price| free.clone().with_incoming(PricePerGigabyte::new(Money::from_cents(price)));
    let highest = price_list(INCOMING_CENTS_MAX);
    let ratio = |over: Option<f64>, under: Option<f64>| over.zip(under).map(|(over, under)| over / under);
    let forwarding = mean(&highest, Service::Forwarding);
    let mut put = |name: &str, value| model.only().measure(name, None, value, Unit::Ratio);
    put("incoming-forwarding-over-free", ratio(forwarding, mean(free, Service::Forwarding)));
    put("incoming-coding-over-forwarding", ratio(mean(&highest, Service::Coding), forwarding));
    let curves = SERVICES.map(|service| {
        let points = (0..=INCOMING_CENTS_MAX).zip(0_i32..);
        let points = points.filter_map(|(price, x)| Some([f64::from(x), mean(&price_list(price), service)?]));
        curve(service.name(), points.collect())
    });
    let plot = Plot {
        title: "Cost of a call if relays pay for ingress".to_owned(),
        caption: "Mean of all pairs of regions of the hyperscale price list, at 1 % loss.".to_owned(),
        x: "price of ingress, ¢/GB".to_owned(),
        y: "cost, ¢/h".to_owned(),
        x_scale: Scale::Linear,
        y_scale: Scale::Linear,
        kind: Kind::Lines,
        curves: curves.to_vec(),
        labels: Vec::new(),
    };
    model.series.insert("incoming".to_owned(), plot);
}

/// Plots the cost of a call from Oceania to Europe over the loss rate, in cents and relative to
/// forwarding.
fn over_loss(prices: &Prices, model: &mut Model) {
    let of = |service, loss| cents(cost_of(service, &call(loss), prices).relays());
    let plot = |title: &str, y: &str, value: &dyn Fn(Service, f64) -> f64| Plot {
        title: title.to_owned(),
        caption: "As figure 5: from Sydney to Frankfurt.".to_owned(),
        x: "loss on the direct path, %".to_owned(),
        y: y.to_owned(),
        x_scale: Scale::Log,
        y_scale: Scale::Linear,
        kind: Kind::Lines,
        curves: SERVICES
            .iter()
            .map(|service| {
                curve(service.name(), LOSS_RATES.map(|loss| [loss * 100.0, value(*service, loss)]).to_vec())
            })
            .collect(),
        labels: Vec::new(),
    };
    let actual = plot("Cost of a call from Oceania to Europe", "cost, ¢/h", &of);
    let normalised = plot("Cost relative to forwarding", "Cost relative to forwarding", &|service, loss| {
        of(service, loss) / of(Service::Forwarding, loss)
    });
    model.series.insert("oceania-to-europe".to_owned(), actual);
    model.series.insert("oceania-to-europe-normalised".to_owned(), normalised);
}

pub(super) fn mean(values: &[f64]) -> Option<f64> {
    let count = crate::findings::number(values.len() as u64);
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / count)
}

#[allow(clippy::cast_precision_loss, reason = "costs of an hour are far below 2^53 billionths of a dollar")]
pub(super) fn cents(money: Money) -> f64 {
    money.nanodollars() as f64 / 1e7
}
