//! Readers of larger public tables, whose text the caller supplies.
//!
//! | reader | table | columns |
//! |---|---|---|
//! | [`region_delays`] | skyplane-project/skyplane, latency between 69 regions, 2022 | `src,src_tier,dst,dst_tier,rtt_min_ms,…` |
//! | [`city_delays`] | WonderNetwork's pings, as in Consensys/wittgenstein, 2018 | a matrix, cities in the first row and column |
//! | [`city_positions`] | the cities' positions | `city,country_continent,lat_deg,lon_deg` |
//! | [`egress_pairs`] | skyplane-project/skyplane, egress prices of three providers, 2023 | `src,dst,usd_per_gb` |
//! | [`aws_transfer`] | skyplane-project/skyplane, AWS transfer prices, 2023 | `src_region,dst,usd_per_gb` |
//! | [`google_egress`] | Cyclenerd/google-cloud-pricing-cost-calculator, 2026 | `destination,monthly_tb_tier,src_region,usd_per_gib` |

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use byway_units::{Bytes, Money};

use crate::locations::{City, DelayTable, Position};
use crate::price::{GIGABYTE, PricePerGigabyte, Tariff, Tier};
use crate::table::{Row, Table, TableError, milliseconds};

/// Prices of bytes by source and destination region.
pub type PairPrices = BTreeMap<(String, String), PricePerGigabyte>;

/// Name that stands for the Internet as a destination in [`PairPrices`].
pub const INTERNET: &str = "internet";

/// Longest round-trip time that a table may have, in milliseconds: twice the limit of one-way
/// delays.
const ROUND_TRIP_MS_MAX: f64 = 20_000.0;

/// Reads one-way delays between regions: half the least round-trip time. Only premium tiers count.
/// Zones of Google count as their region: `gcp:europe-west2-a` is `gcp:europe-west2`.
///
/// The longer of both directions counts, because some of the shorter ones are faster than light in
/// fibre.
///
/// # Errors
/// If the text is no such table.
pub fn region_delays(name: &str, text: &str) -> Result<DelayTable, TableError> {
    let mut longest: BTreeMap<(String, String), f64> = BTreeMap::new();
    for row in Table::parse(name, text)?.rows() {
        if row.text("src_tier")? != "P" || row.text("dst_tier")? != "P" {
            continue;
        }
        let (from, to) = (region_of(row.text("src")?), region_of(row.text("dst")?));
        let round_trip_ms = row.number("rtt_min_ms", 0.0..=ROUND_TRIP_MS_MAX)?;
        let key = (from.min(to).to_owned(), from.max(to).to_owned());
        let known = longest.entry(key).or_insert(round_trip_ms);
        *known = known.max(round_trip_ms);
    }
    let mut delays = DelayTable::default();
    for ((from, to), round_trip_ms) in &longest {
        delays.insert(from, to, milliseconds(round_trip_ms / 2.0));
    }
    Ok(delays)
}

/// Reads one-way delays between cities: half the mean round-trip time, the shorter of both
/// directions. Empty cells are skipped, and `+` in names is a space.
///
/// # Errors
/// If the text is no matrix of numbers.
pub fn city_delays(name: &str, text: &str) -> Result<DelayTable, TableError> {
    let mut delays = DelayTable::default();
    for row in Table::parse(name, text)?.rows() {
        let mut cells = row.cells();
        let from = cells.next().map(|(_, from)| from.replace('+', " ")).unwrap_or_default();
        for (column, cell) in cells.filter(|(_, cell)| !cell.is_empty()) {
            let round_trip_ms: Option<f64> = cell.parse().ok();
            let in_range = round_trip_ms.filter(|number| (0.0..=ROUND_TRIP_MS_MAX).contains(number));
            let Some(round_trip_ms) = in_range else {
                let problem = format!("invalid round trip \"{cell}\": give milliseconds from 0 to 20000");
                return Err(row.problem(column, problem));
            };
            delays.insert(&from, &column.replace('+', " "), milliseconds(round_trip_ms / 2.0));
        }
    }
    Ok(delays)
}

/// Reads the cities of [`city_delays`] with their positions; cities without one are skipped.
/// `country_continent` is `Country, Continent`. Its `Eurasia` is divided by longitude: Europe ends
/// at 45 degrees east.
///
/// # Errors
/// If the text is no such table.
pub fn city_positions(name: &str, text: &str) -> Result<Vec<City>, TableError> {
    const EUROPE_EASTERN_END_DEG: f64 = 45.0;
    let mut cities = Vec::new();
    for row in Table::parse(name, text)?.rows() {
        if row.text("lat_deg")?.is_empty() || row.text("lon_deg")?.is_empty() {
            continue;
        }
        let position = Position::read(&row)?;
        let location = row.text("country_continent")?;
        let continent = match location.rsplit_once(", ").map_or(location, |(_, continent)| continent) {
            "Eurasia" if position.longitude_deg < EUROPE_EASTERN_END_DEG => "Europe",
            "Eurasia" => "Asia",
            other => other,
        };
        cities.push(City {
            name: row.text("city")?.replace('+', " "),
            continent: continent.to_owned(),
            position,
        });
    }
    Ok(cities)
}

/// Reads prices between regions of AWS, Azure and Google, as in `aws:eu-central-1`; zones of Google
/// count as their region.
///
/// # Errors
/// If the text is no such table.
pub fn egress_pairs(name: &str, text: &str) -> Result<PairPrices, TableError> {
    pair_prices(name, text, ["src", "dst"], |region| region_of(region).to_owned())
}

/// Reads prices between regions of AWS, and from them to [`INTERNET`]; region names are as in
/// `aws:eu-central-1`.
///
/// # Errors
/// If the text is no such table.
pub fn aws_transfer(name: &str, text: &str) -> Result<PairPrices, TableError> {
    pair_prices(name, text, ["src_region", "dst"], |region| {
        if region == INTERNET { region.to_owned() } else { format!("aws:{region}") }
    })
}

fn pair_prices(
    name: &str,
    text: &str,
    [source, destination]: [&str; 2],
    named: fn(&str) -> String,
) -> Result<PairPrices, TableError> {
    let table = Table::parse(name, text)?;
    let prices = table.rows().map(|row| {
        let ends = (named(row.text(source)?), named(row.text(destination)?));
        Ok((ends, row.price("usd_per_gb")?))
    });
    prices.collect()
}

/// Reads Google's tariffs towards the Internet, by region as in `gcp:europe-west2` and destination
/// as in `worldwide`.
///
/// Tiers are in terabytes of a month, `0-1`, `1-10`, `10n`; prices per 2^30 bytes are converted to
/// 10^9.
///
/// # Errors
/// If the text is no such table, or a tier is invalid.
pub fn google_egress(name: &str, text: &str) -> Result<BTreeMap<(String, String), Tariff>, TableError> {
    let mut tiers: BTreeMap<(String, String), Vec<Tier>> = BTreeMap::new();
    for row in Table::parse(name, text)?.rows() {
        let destination = row.text("destination")?;
        let destination = destination.strip_prefix("internet/").unwrap_or(destination);
        let region = format!("gcp:{}", row.text("src_region")?);
        let tier = Tier { from: tier_start(&row)?, price: per_gigabyte(row.dollars("usd_per_gib")?) };
        tiers.entry((region, destination.to_owned())).or_default().push(tier);
    }
    let sorted = tiers.into_iter().map(|(key, mut tiers)| {
        tiers.sort_by_key(|tier| tier.from);
        (key, Tariff::PerGigabyte(tiers))
    });
    Ok(sorted.collect())
}

fn tier_start(row: &Row<'_>) -> Result<Bytes, TableError> {
    let gigabytes = match row.text("monthly_tb_tier")? {
        "0-1" => 0,
        "1-10" => 1_000,
        "10n" => 10_000,
        _ => return Err(row.problem("monthly_tb_tier", "invalid tier: give 0-1, 1-10 or 10n")),
    };
    Ok(GIGABYTE * gigabytes)
}

/// Converts a price of 2^30 bytes to one of 10^9 bytes.
fn per_gigabyte(per_gibibyte: Money) -> PricePerGigabyte {
    PricePerGigabyte::mean(per_gibibyte, Bytes::new(1 << 30))
}

/// Returns the region that a zone of Google belongs to; other names are unchanged.
fn region_of(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((region, zone)) if name.starts_with("gcp:") && zone.len() == 1 => region,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use byway_units::Duration;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn region_delays_are_half_the_longer_round_trip() {
        let text = "src,src_tier,dst,dst_tier,rtt_min_ms,rtt_avg_ms\n\
            aws:af-south-1,P,gcp:europe-west2-a,P,162.82,163\n\
            gcp:europe-west2-a,P,aws:af-south-1,P,10.23,11\n\
            gcp:europe-west2-a,S,aws:af-south-1,P,170,171\n";
        let delays = region_delays("t", text).expect("it is such a table");
        let delay = delays.between("gcp:europe-west2", "aws:af-south-1");
        assert_eq!((delays.len(), delay), (1, Some(Duration::from_micros(81_410))));
    }

    #[test]
    fn city_delays_are_half_the_shorter_round_trip() {
        let text = "src\\dst,Adelaide,Sao+Paulo\nAdelaide,,331.0\nSao+Paulo,330.0,\n";
        let delays = city_delays("t", text).expect("it is such a table");
        assert_eq!(delays.between("Sao Paulo", "Adelaide"), Some(Duration::from_millis(165)));
        let error = city_delays("t", "x,A\nA,far\n").expect_err("it is no number");
        assert_eq!(
            error.to_string(),
            "t:2: A: invalid round trip \"far\": give milliseconds from 0 to 20000"
        );
    }

    #[test]
    fn cities_have_a_continent_if_they_have_a_position() {
        let text = "city,country_continent,lat_deg,lon_deg\n\
            Alblasserdam,\"Netherlands, Eurasia\",51.866,4.661\n\
            New+Delhi,\"India, Eurasia\",28.65,77.23\n\
            Nowhere,,,\n";
        let cities = city_positions("t", text).expect("it is such a table");
        let cities_found: Vec<_> =
            cities.iter().map(|city| (city.name.as_str(), city.continent.as_str())).collect();
        assert_eq!(cities_found, [("Alblasserdam", "Europe"), ("New Delhi", "Asia")]);
    }

    #[test]
    fn prices_are_those_of_pairs() {
        let text = "src,dst,usd_per_gb\naws:ap-southeast-2,gcp:asia-east1-a,0.114\n";
        let pairs = egress_pairs("t", text).expect("it is such a table");
        let key = ("aws:ap-southeast-2".to_owned(), "gcp:asia-east1".to_owned());
        assert_eq!(pairs.get(&key), Some(&PricePerGigabyte::new(Money::from_nanodollars(114_000_000))));

        let text = "src_region,dst,usd_per_gb\neu-west-1,internet,0.09\neu-west-1,eu-west-2,0.02\n";
        let transfer = aws_transfer("t", text).expect("it is such a table");
        let destinations: Vec<_> = transfer.keys().map(|(_, to)| to.as_str()).collect();
        assert_eq!(destinations, ["aws:eu-west-2", INTERNET]);
    }

    #[test]
    fn tiers_are_those_of_a_month() {
        let text = "destination,monthly_tb_tier,src_region,usd_per_gib\n\
            internet/worldwide,1-10,europe-west2,0.11\n\
            internet/worldwide,0-1,europe-west2,0.12\n";
        let tariffs = google_egress("t", text).expect("it is such a table");
        let tariff = tariffs.values().next().expect("it has a tariff");
        assert_eq!(tariff.marginal(Bytes::ZERO).money().nanodollars(), 111_758_708);
        assert_eq!(tariff.marginal(GIGABYTE * 1_000).money().nanodollars(), 102_445_483);
        let error = google_egress("t", &text.replace("0-1", "few")).expect_err("it is no tier");
        assert!(error.to_string().starts_with("t:3: monthly_tb_tier: invalid tier"));
    }

    proptest! {
        #[test]
        fn no_text_panics(
            lines in proptest::collection::vec("[a-c0-9:,.+\"#-]{0,30}", 0..6),
            header in 0..6_usize,
        ) {
            let headers = [
                "src,src_tier,dst,dst_tier,rtt_min_ms",
                "x,a,b",
                "city,country_continent,lat_deg,lon_deg",
                "src,dst,usd_per_gb",
                "src_region,dst,usd_per_gb",
                "destination,monthly_tb_tier,src_region,usd_per_gib",
            ];
            let text = format!("{}\n{}", headers[header], lines.join("\n"));
            let _ = (region_delays("t", &text), city_delays("t", &text), city_positions("t", &text));
            let _ = (egress_pairs("t", &text), aws_transfer("t", &text), google_egress("t", &text));
            let _ = (crate::locations::regions("t", &text), crate::last_mile::LastMile::parse("t", &text));
        }
    }
}
