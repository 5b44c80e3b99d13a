//! Where relays and endpoints can be, and how far apart.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::string::String;
use alloc::vec::Vec;

use byway_units::{Duration, Money};

use crate::price::PricePerGigabyte;
use crate::table::{Row, Table, TableError};

/// The delay between two hosts of one city: 0.5 ms, about what 100 km of fibre take.
///
/// Tables of delays between places say nothing of places to themselves; zero would make a relay next door free of delay.
pub const SAME_PLACE: Duration = Duration::from_micros(500);

/// A point on the globe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Position {
    /// Degrees north of the equator, -90 to 90.
    pub latitude_deg: f64,
    /// Degrees east of Greenwich, -180 to 180.
    pub longitude_deg: f64,
}

impl Position {
    pub(crate) fn read(row: &Row<'_>) -> Result<Self, TableError> {
        Ok(Self {
            latitude_deg: row.number("lat_deg", -90.0..=90.0)?,
            longitude_deg: row.number("lon_deg", -180.0..=180.0)?,
        })
    }
}

/// A region of a public cloud: where a relay can be, and what it costs there.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// Provider and region, as in `aws:eu-central-1`.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// The provider: regions of one are joined by its own network.
    pub provider: String,
    /// The continent.
    pub continent: String,
    /// Where it is.
    pub position: Position,
    /// The city whose distances to endpoints are the region's.
    pub city: String,
    /// The list price of bytes to the Internet, first tier.
    pub to_internet: PricePerGigabyte,
    /// The list price of bytes to other regions of the provider.
    pub to_regions: PricePerGigabyte,
    /// The list price of a machine of two virtual processors for an hour.
    pub machine_per_hour: Money,
}

/// A city: where endpoints can be.
#[derive(Clone, Debug, PartialEq)]
pub struct City {
    /// Its name.
    pub name: String,
    /// The continent.
    pub continent: String,
    /// Where it is.
    pub position: Position,
}

/// One-way delays between named places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DelayTable {
    /// Keys in alphabetical order: a path takes as long in both directions.
    delays: BTreeMap<(String, String), Duration>,
}

impl DelayTable {
    /// Takes in the delay between two places; where there is one already, the shorter one stays.
    pub fn insert(&mut self, from: &str, to: &str, delay: Duration) {
        match self.delays.entry(key(from, to)) {
            Entry::Vacant(vacant) => {
                vacant.insert(delay);
            }
            Entry::Occupied(mut known) => {
                let shorter = delay.min(*known.get());
                known.insert(shorter);
            }
        }
    }

    /// The delay between two places, in either direction; [`SAME_PLACE`] from a place to itself, `None` if it is unknown.
    #[must_use]
    pub fn between(&self, from: &str, to: &str) -> Option<Duration> {
        if from == to {
            return Some(SAME_PLACE);
        }
        self.delays.get(&key(from, to)).copied()
    }

    /// How many pairs have a delay.
    #[must_use]
    pub fn len(&self) -> usize {
        self.delays.len()
    }

    /// Whether no pair has a delay.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.delays.is_empty()
    }

    /// Every pair once, in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, Duration)> {
        self.delays.iter().map(|((from, to), delay)| (from.as_str(), to.as_str(), *delay))
    }

    /// Reads a table of the columns `from`, `to`, `one_way_ms`.
    ///
    /// # Errors
    /// If it is no such table.
    pub fn parse(name: &str, text: &str) -> Result<Self, TableError> {
        let mut delays = Self::default();
        for row in Table::parse(name, text)?.rows() {
            delays.insert(row.text("from")?, row.text("to")?, row.milliseconds("one_way_ms")?);
        }
        Ok(delays)
    }
}

fn key(from: &str, to: &str) -> (String, String) {
    let (first, second) = if from <= to { (from, to) } else { (to, from) };
    (first.to_owned(), second.to_owned())
}

/// Regions, cities and the delays among them.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// Where relays can be.
    pub regions: Vec<Region>,
    /// Where endpoints can be.
    pub cities: Vec<City>,
    /// Between regions, by their identifiers.
    pub between_regions: DelayTable,
    /// Between cities, by their names, without a last mile.
    pub between_cities: DelayTable,
}

impl World {
    /// The tables that come with this crate: twelve regions and 43 cities on six continents.
    ///
    /// Prices are of 2023 and 2026, delays of 2018 (cities) and 2022 (regions); the files in `data` name their sources.
    ///
    /// # Panics
    /// Never: a test reads the tables.
    #[must_use]
    pub fn built_in() -> Self {
        let regions = regions("regions.csv", include_str!("../data/regions.csv"));
        let cities = cities("cities.csv", include_str!("../data/cities.csv"));
        let between_regions = DelayTable::parse("delays.csv", include_str!("../data/delays.csv"));
        let between_cities = DelayTable::parse("city_delays.csv", include_str!("../data/city_delays.csv"));
        Self {
            regions: regions.expect("a test reads this table"),
            cities: cities.expect("a test reads this table"),
            between_regions: between_regions.expect("a test reads this table"),
            between_cities: between_cities.expect("a test reads this table"),
        }
    }

    /// The region of this identifier.
    #[must_use]
    pub fn region(&self, id: &str) -> Option<&Region> {
        self.regions.iter().find(|region| region.id == id)
    }

    /// The region with the least delay to this city, as its place in [`World::regions`], and that delay; `None` if none is
    /// known.
    #[must_use]
    pub fn nearest_region(&self, city: &str) -> Option<(usize, Duration)> {
        let reachable = self.regions.iter().enumerate().filter_map(|(place, region)| {
            let delay = self.between_cities.between(city, &region.city)?;
            Some((place, delay))
        });
        reachable.min_by_key(|(_, delay)| *delay)
    }
}

/// Reads regions: the columns `region`, `name`, `provider`, `continent`, `lat_deg`, `lon_deg`, `city`,
/// `internet_usd_per_gb`, `regions_usd_per_gb`, `vm_usd_per_hour`; others are skipped.
///
/// # Errors
/// If it is no such table.
pub fn regions(name: &str, text: &str) -> Result<Vec<Region>, TableError> {
    Table::parse(name, text)?.rows().map(|row| region(&row)).collect()
}

/// Reads cities: the columns `city`, `continent`, `lat_deg`, `lon_deg`.
///
/// # Errors
/// If it is no such table.
pub fn cities(name: &str, text: &str) -> Result<Vec<City>, TableError> {
    Table::parse(name, text)?.rows().map(|row| city(&row)).collect()
}

fn region(row: &Row<'_>) -> Result<Region, TableError> {
    let owned = |column| row.text(column).map(str::to_owned);
    Ok(Region {
        id: owned("region")?,
        name: owned("name")?,
        provider: owned("provider")?,
        continent: owned("continent")?,
        position: Position::read(row)?,
        city: owned("city")?,
        to_internet: row.price("internet_usd_per_gb")?,
        to_regions: row.price("regions_usd_per_gb")?,
        machine_per_hour: row.dollars("vm_usd_per_hour")?,
    })
}

fn city(row: &Row<'_>) -> Result<City, TableError> {
    Ok(City {
        name: row.text("city")?.to_owned(),
        continent: row.text("continent")?.to_owned(),
        position: Position::read(row)?,
    })
}

#[cfg(test)]
mod tests {
    extern crate std;

    use alloc::collections::BTreeSet;

    use super::*;
    use crate::table::milliseconds;

    /// The least one-way delay that fibre allows: 200 km in a millisecond, along a great circle of a sphere of 6,371 km.
    fn fibre_delay(from: Position, to: Position) -> Duration {
        let [start, end] = [from.latitude_deg, to.latitude_deg].map(f64::to_radians);
        let across = (from.longitude_deg - to.longitude_deg).to_radians();
        let half =
            ((end - start) / 2.0).sin().powi(2) + start.cos() * end.cos() * (across / 2.0).sin().powi(2);
        milliseconds(2.0 * 6_371.0 * half.sqrt().min(1.0).asin() / 200.0)
    }

    #[test]
    fn the_built_in_world_is_complete() {
        let world = World::built_in();
        let continents: BTreeSet<_> = world.regions.iter().map(|region| &region.continent).collect();
        assert_eq!((world.regions.len(), continents.len(), world.cities.len()), (12, 6, 43));
        for from in &world.regions {
            assert!(world.cities.iter().any(|city| city.name == from.city), "{}", from.id);
            for to in &world.regions {
                assert!(world.between_regions.between(&from.id, &to.id).is_some(), "{} {}", from.id, to.id);
            }
        }
        for from in &world.cities {
            assert!(continents.contains(&from.continent), "{}", from.name);
            for to in &world.cities {
                assert!(world.between_cities.between(&from.name, &to.name).is_some());
            }
        }
    }

    #[test]
    fn nothing_is_faster_than_light_in_fibre() {
        let world = World::built_in();
        for (from, to, delay) in world.between_regions.iter() {
            let position = |id| world.region(id).expect("delays are those of regions").position;
            assert!(fibre_delay(position(from), position(to)) <= delay, "{from} {to} {delay}");
        }
        let city = |name| world.cities.iter().find(|city| city.name == name).expect("it is a city");
        for (from, to, delay) in world.between_cities.iter() {
            assert!(fibre_delay(city(from).position, city(to).position) <= delay, "{from} {to} {delay}");
        }
    }

    #[test]
    fn every_city_has_a_nearest_region() {
        let world = World::built_in();
        let nearest = |city| world.nearest_region(city).map(|(place, _)| world.regions[place].name.as_str());
        assert_eq!(nearest("Paris"), Some("London"));
        assert_eq!(nearest("Warsaw"), Some("Frankfurt"));
        assert_eq!(nearest("Auckland"), Some("Sydney"));
        assert_eq!(nearest("Atlantis"), None);
    }

    #[test]
    fn delays_are_known_in_both_directions() {
        let mut delays = DelayTable::default();
        assert!(delays.is_empty());
        delays.insert("b", "a", Duration::from_millis(7));
        delays.insert("a", "b", Duration::from_millis(5));
        assert_eq!(delays.between("b", "a"), Some(Duration::from_millis(5)));
        assert_eq!((delays.between("a", "a"), delays.between("a", "c")), (Some(SAME_PLACE), None));
        assert_eq!(delays.len(), 1);
    }
}
