//! Comparison of price lists: the cheapest service between all pairs of regions.

use byway_plan::datasets::{INTERNET, PairPrices};
use byway_plan::{Choice, CostRow, Criteria, LOSS_RATES, PriceList, Tariff, World, cost_table};
use byway_units::{Bytes, Money, Probability};
use byway_wire::Service;

use super::Model;
use super::cost::{SERVICES, TYPICAL_LOSS, call, cents, mean};
use super::data::Data;
use super::drawing::{curve, percent, table};
use crate::findings::{Unit, share};
use crate::result::{Curve, Kind, Plot, Scale, Table};

/// Price of a relay's machine where a public table has none: 7.55 cents an hour, as in Virginia
/// (see the built-in regions).
const MACHINE: Money = Money::from_nanodollars(75_500_000);

/// Built-in price lists for which the report lists every pair of regions. The longer public ones
/// are only summarised.
const LISTED: [&str; 3] = ["hyperscale", "flat-rate", "quota"];

/// Price list, with the costs of each service between its pairs of regions.
pub(super) struct Market {
    name: String,
    rows: Vec<CostRow>,
}

impl Market {
    /// Returns the built-in markets, and the public ones that are available.
    pub(super) fn all(world: &World, data: &Data) -> Vec<Self> {
        let (flat, quota) = (PriceList::flat_rate(world), PriceList::quota(world));
        let mut price_lists = vec![
            PriceList::hyperscale(world),
            flat.clone(),
            quota.clone(),
            named("flat-rate, full ports", flat.with_sent(Bytes::MAX)),
            named("quota, used up", quota.with_sent(Bytes::MAX)),
        ];
        if let Some(pairs) = &data.pairs {
            price_lists.push(PriceList::from_pairs("three clouds, public table", pairs.clone(), MACHINE));
        }
        if let Some(aws) = &data.aws {
            price_lists.push(without_internet(aws));
        }
        if let (Some(pairs), Some(_)) = (&data.pairs, &data.google) {
            price_lists.push(google(pairs, data));
        }
        price_lists.iter().map(Self::of).collect()
    }

    fn of(price_list: &PriceList) -> Self {
        let share = |loss| Probability::new(loss).expect("the loss rates of the study are shares");
        let rows = cost_table(price_list, &call(0.0), &LOSS_RATES.map(share), &Criteria::default());
        Self { name: price_list.name.clone(), rows }
    }

    fn at(&self, loss: f64) -> impl Iterator<Item = &CostRow> {
        self.rows.iter().filter(move |row| row.loss.value().total_cmp(&loss).is_eq())
    }

    /// Returns the share of region pairs between which the published criteria choose this service
    /// at this loss rate; `None` without pairs.
    fn chosen(&self, service: Service, loss: f64) -> Option<f64> {
        let count = self.at(loss).filter(|row| row.choice.service == service).count();
        share(count as u64, self.at(loss).count() as u64)
    }

    fn mean_cents(&self, service: Service, loss: f64) -> Option<f64> {
        mean(&self.at(loss).filter_map(|row| relays_cents(&row.choice, service)).collect::<Vec<f64>>())
    }
}

fn named(name: &str, price_list: PriceList) -> PriceList {
    PriceList { name: name.to_owned(), ..price_list }
}

/// Returns the price list of AWS. Its public table has the Internet as an additional destination,
/// which is removed.
fn without_internet(aws: &PairPrices) -> PriceList {
    let mut price_list = PriceList::from_pairs("AWS, public table", aws.clone(), MACHINE);
    price_list.regions.remove(INTERNET);
    price_list
}

/// Returns the price list of Google's regions: prices between regions, and tariffs to the Internet
/// after ten terabytes in a month.
fn google(pairs: &PairPrices, data: &Data) -> PriceList {
    let is_google = |region: &String| region.starts_with("gcp:");
    let pairs = pairs.iter().filter(|((from, to), _)| is_google(from) && is_google(to));
    let pairs = pairs.map(|(ends, price)| (ends.clone(), *price)).collect();
    let mut price_list = PriceList::from_pairs("Google, public tables, after 10 TB", pairs, MACHINE);
    let tariffs = data.google.iter().flatten();
    for ((region, _), tariff) in tariffs.filter(|((_, destination), _)| destination == "worldwide") {
        if let Some(prices) = price_list.regions.get_mut(region) {
            prices.to_internet = Tariff::clone(tariff);
        }
    }
    price_list.with_sent(Bytes::new(10_000_000_000_000))
}

fn relays_cents(choice: &Choice, service: Service) -> Option<f64> {
    let candidate = choice.candidates.iter().find(|candidate| candidate.cost.service == service)?;
    Some(cents(candidate.cost.relays()))
}

/// Adds the measures, tables and plots that compare all markets.
pub(super) fn compare(markets: &[Market], model: &mut Model) {
    for market in markets {
        for service in SERVICES {
            let key = format!("chooses-{}", service.name());
            let chosen = market.chosen(service, TYPICAL_LOSS);
            model.only().measure(&key, Some(&market.name), chosen, Unit::Share);
        }
    }
    model.tables.extend([summary(markets), pairs(markets)]);
    model.series.insert("markets".to_owned(), bars(markets));
    model.series.insert("chosen".to_owned(), chosen(markets));
}

/// Returns a table of the services chosen in each market, at low, typical and high loss.
fn summary(markets: &[Market]) -> Table {
    let mut rows = Vec::new();
    for market in markets {
        for loss in [0.000_1, TYPICAL_LOSS, 0.1, 0.5] {
            let shares = SERVICES.map(|service| percent(market.chosen(service, loss)));
            let costs = SERVICES.map(|service| cents_of(market.mean_cents(service, loss)));
            let why = market.at(loss).next().map_or_else(String::new, |row| row.choice.reason.to_string());
            let pairs = market.at(loss).count().to_string();
            let loss = format!("{} %", loss * 100.0);
            rows.push(
                [market.name.clone(), pairs, loss]
                    .into_iter()
                    .chain(shares)
                    .chain(costs)
                    .chain([why])
                    .collect(),
            );
        }
    }
    let columns = [
        "market",
        "pairs of regions",
        "loss",
        "coding chosen",
        "caching chosen",
        "forwarding chosen",
        "coding, ¢/h",
        "caching, ¢/h",
        "forwarding, ¢/h",
        "reason, first pair",
    ];
    table("Pairs of regions per service that published criteria choose, and mean costs", &columns, rows)
}

/// Returns a table with the choice for every pair of regions of the built-in price lists.
fn pairs(markets: &[Market]) -> Table {
    let listed: Vec<&Market> =
        LISTED.iter().filter_map(|name| markets.iter().find(|market| market.name == *name)).collect();
    let mut columns = vec!["from".to_owned(), "to".to_owned()];
    for market in &listed {
        columns.push(format!("{}: chosen", market.name));
        columns.push(format!("{}: coding / caching / forwarding, ¢/h", market.name));
    }
    let rows: Vec<Vec<&CostRow>> = listed.iter().map(|market| market.at(TYPICAL_LOSS).collect()).collect();
    let cells = rows.first().into_iter().flatten().map(|first| {
        let mut row_cells = vec![first.ingress.clone(), first.egress.clone()];
        for rows in &rows {
            let row = rows.iter().find(|row| (&row.ingress, &row.egress) == (&first.ingress, &first.egress));
            let chosen = row.map_or("–", |row| row.choice.service.name());
            let costs =
                SERVICES.map(|service| cents_of(row.and_then(|row| relays_cents(&row.choice, service))));
            row_cells.extend([chosen.to_owned(), costs.join(" / ")]);
        }
        row_cells
    });
    Table { title: "Every pair of regions at 1 % loss".to_owned(), columns, rows: cells.collect() }
}

fn cents_of(cents: Option<f64>) -> String {
    cents.map_or_else(|| "–".to_owned(), |cents| format!("{cents:.3}"))
}

fn bars(markets: &[Market]) -> Plot {
    let curves = SERVICES.map(|service| {
        let bar = |(index, market): (u32, &Market)| {
            Some([f64::from(index), market.mean_cents(service, TYPICAL_LOSS)?])
        };
        curve(service.name(), (0..).zip(markets).filter_map(bar).collect())
    });
    Plot {
        title: "Cost of a call in each market".to_owned(),
        caption: "The mean of all pairs of regions, at 1 % loss.".to_owned(),
        x: "market".to_owned(),
        y: "cost, ¢/h".to_owned(),
        x_scale: Scale::Linear,
        y_scale: Scale::Linear,
        kind: Kind::Bars,
        curves: curves.to_vec(),
        labels: markets.iter().map(|market| market.name.clone()).collect(),
    }
}

/// Plots the share of region pairs for which each service is chosen, over the loss rate. Leaves out
/// services that no pair uses.
fn chosen(markets: &[Market]) -> Plot {
    let listed = markets.iter().filter(|market| LISTED.contains(&market.name.as_str()));
    let curves = listed.flat_map(|market| {
        SERVICES.iter().map(move |service| {
            let points =
                LOSS_RATES.iter().filter_map(|loss| Some([loss * 100.0, market.chosen(*service, *loss)?]));
            curve(&format!("{}: {}", market.name, service.name()), points.collect())
        })
    });
    let is_shown = |curve: &Curve| curve.points.iter().any(|[_, share]| *share > 0.0);
    Plot {
        title: "Share of pairs of regions per service that published criteria choose".to_owned(),
        caption: "Coding must repair 80 % of losses; among services within 10 % of the lowest cost, \
                  the one with the fewest bytes is chosen."
            .to_owned(),
        x: "loss on the direct path, %".to_owned(),
        y: "share of pairs".to_owned(),
        x_scale: Scale::Log,
        y_scale: Scale::Linear,
        kind: Kind::Lines,
        curves: curves.filter(is_shown).collect(),
        labels: Vec::new(),
    }
}
