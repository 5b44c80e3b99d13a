//! Which service is cheapest between all regions of several markets.

use byway_plan::datasets::{INTERNET, PairPrices};
use byway_plan::{Choice, CostRow, Criteria, LOSS_RATES, PriceBook, Tariff, World, cost_table};
use byway_units::{Bytes, Money, Probability};
use byway_wire::Service;

use super::Model;
use super::cost::{SERVICES, TYPICAL_LOSS, call, cents, mean};
use super::data::Data;
use super::drawing::{curve, name, percent, table};
use crate::findings::{Unit, share};
use crate::result::{Curve, Kind, Plot, Scale, Table};

/// A machine's price where a public table has none: 7.55 cents an hour, as in Virginia (see the built-in regions).
const MACHINE: Money = Money::from_nanodollars(75_500_000);

/// The built-in books whose every pair is listed; the longer public ones are summed up.
const LISTED: [&str; 3] = ["hyperscale", "flat-rate", "quota"];

/// A price book with what each service costs in it.
pub(super) struct Market {
    name: String,
    rows: Vec<CostRow>,
}

impl Market {
    /// The built-in markets, and public ones that are at hand.
    pub(super) fn all(world: &World, data: &Data) -> Vec<Self> {
        let (flat, quota) = (PriceBook::flat_rate(world), PriceBook::quota(world));
        let mut books = vec![
            PriceBook::hyperscale(world),
            flat.clone(),
            quota.clone(),
            named("flat-rate, full ports", flat.with_sent(Bytes::MAX)),
            named("quota, used up", quota.with_sent(Bytes::MAX)),
        ];
        if let Some(pairs) = &data.pairs {
            books.push(PriceBook::from_pairs("three clouds, public table", pairs.clone(), MACHINE));
        }
        if let Some(aws) = &data.aws {
            books.push(without_internet(aws));
        }
        if let (Some(pairs), Some(_)) = (&data.pairs, &data.google) {
            books.push(google(pairs, data));
        }
        books.iter().map(Self::of).collect()
    }

    fn of(book: &PriceBook) -> Self {
        let share = |loss| Probability::new(loss).expect("the loss rates of the study are shares");
        let rows = cost_table(book, &call(0.0), &LOSS_RATES.map(share), &Criteria::default());
        Self { name: book.name.clone(), rows }
    }

    fn at(&self, loss: f64) -> impl Iterator<Item = &CostRow> {
        self.rows.iter().filter(move |row| row.loss.value().total_cmp(&loss).is_eq())
    }

    /// The share of pairs between which Byway chooses this service.
    fn chosen(&self, service: Service, loss: f64) -> Option<f64> {
        let count = self.at(loss).filter(|row| row.choice.service == service).count();
        share(count as u64, self.at(loss).count() as u64)
    }

    fn mean_cents(&self, service: Service, loss: f64) -> Option<f64> {
        mean(&self.at(loss).filter_map(|row| relays_cents(&row.choice, service)).collect::<Vec<f64>>())
    }
}

fn named(name: &str, book: PriceBook) -> PriceBook {
    PriceBook { name: name.to_owned(), ..book }
}

/// The regions of AWS, whose table has the Internet as one more destination.
fn without_internet(aws: &PairPrices) -> PriceBook {
    let mut book = PriceBook::from_pairs("AWS, public table", aws.clone(), MACHINE);
    book.regions.remove(INTERNET);
    book
}

/// Google's regions, with its prices between regions and its tariffs to the Internet, after ten terabytes of a month.
fn google(pairs: &PairPrices, data: &Data) -> PriceBook {
    let is_google = |region: &String| region.starts_with("gcp:");
    let pairs = pairs.iter().filter(|((from, to), _)| is_google(from) && is_google(to));
    let pairs = pairs.map(|(ends, price)| (ends.clone(), *price)).collect();
    let mut book = PriceBook::from_pairs("Google, public tables, after 10 TB", pairs, MACHINE);
    let tariffs = data.google.iter().flatten();
    for ((region, _), tariff) in tariffs.filter(|((_, destination), _)| destination == "worldwide") {
        if let Some(prices) = book.regions.get_mut(region) {
            prices.to_internet = Tariff::clone(tariff);
        }
    }
    book.with_sent(Bytes::new(10_000_000_000_000))
}

fn relays_cents(choice: &Choice, service: Service) -> Option<f64> {
    let candidate = choice.candidates.iter().find(|candidate| candidate.cost.service == service)?;
    Some(cents(candidate.cost.relays()))
}

/// Measures, tables and plots of all markets.
pub(super) fn compare(markets: &[Market], model: &mut Model) {
    for market in markets {
        for service in SERVICES {
            let key = format!("chooses-{}", name(service));
            let chosen = market.chosen(service, TYPICAL_LOSS);
            model.only().measure(&key, Some(&market.name), chosen, Unit::Share);
        }
    }
    model.tables.extend([summary(markets), pairs(markets)]);
    model.series.insert("markets".to_owned(), bars(markets));
    model.series.insert("chosen".to_owned(), chosen(markets));
}

/// Which service wins where, at low, typical and high loss.
fn summary(markets: &[Market]) -> Table {
    let mut lines = Vec::new();
    for market in markets {
        for loss in [0.000_1, TYPICAL_LOSS, 0.1, 0.5] {
            let shares = SERVICES.map(|service| percent(market.chosen(service, loss)));
            let costs = SERVICES.map(|service| cents_of(market.mean_cents(service, loss)));
            let why = market.at(loss).next().map_or_else(String::new, |row| row.choice.reason.to_string());
            let pairs = market.at(loss).count().to_string();
            let loss = format!("{} %", loss * 100.0);
            lines.push(
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
        "why, of the first pair",
    ];
    table("Which service Byway chooses between how many pairs of regions, and mean costs", &columns, lines)
}

/// Every pair of the built-in books.
fn pairs(markets: &[Market]) -> Table {
    let listed: Vec<&Market> =
        LISTED.iter().filter_map(|name| markets.iter().find(|market| market.name == *name)).collect();
    let mut columns = vec!["from".to_owned(), "to".to_owned()];
    for market in &listed {
        columns.push(format!("{}: chosen", market.name));
        columns.push(format!("{}: coding / caching / forwarding, ¢/h", market.name));
    }
    let rows: Vec<Vec<&CostRow>> = listed.iter().map(|market| market.at(TYPICAL_LOSS).collect()).collect();
    let lines = rows.first().into_iter().flatten().map(|first| {
        let mut line = vec![first.ingress.clone(), first.egress.clone()];
        for rows in &rows {
            let row = rows.iter().find(|row| (&row.ingress, &row.egress) == (&first.ingress, &first.egress));
            let chosen = row.map_or("–", |row| name(row.choice.service));
            let costs =
                SERVICES.map(|service| cents_of(row.and_then(|row| relays_cents(&row.choice, service))));
            line.extend([chosen.to_owned(), costs.join(" / ")]);
        }
        line
    });
    Table { title: "Every pair of regions at 1 % loss".to_owned(), columns, lines: lines.collect() }
}

fn cents_of(cents: Option<f64>) -> String {
    cents.map_or_else(|| "–".to_owned(), |cents| format!("{cents:.3}"))
}

fn bars(markets: &[Market]) -> Plot {
    let curves = SERVICES.map(|service| {
        let bar = |(place, market): (u32, &Market)| {
            Some([f64::from(place), market.mean_cents(service, TYPICAL_LOSS)?])
        };
        curve(name(service), (0..).zip(markets).filter_map(bar).collect())
    });
    Plot {
        title: "What a call costs in each market".to_owned(),
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

/// The share of pairs that have each service, over the loss rate; services that no pair ever has are left out.
fn chosen(markets: &[Market]) -> Plot {
    let listed = markets.iter().filter(|market| LISTED.contains(&market.name.as_str()));
    let curves = listed.flat_map(|market| {
        SERVICES.iter().map(move |service| {
            let points =
                LOSS_RATES.iter().filter_map(|loss| Some([loss * 100.0, market.chosen(*service, *loss)?]));
            curve(&format!("{}: {}", market.name, name(*service)), points.collect())
        })
    });
    let is_shown = |curve: &Curve| curve.points.iter().any(|[_, share]| *share > 0.0);
    Plot {
        title: "Between how many pairs of regions Byway chooses each service".to_owned(),
        caption: "Coding must bring back 80 % of what is lost; of what costs the same within 10 %, the faster counts."
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
