//! Locations of relays and endpoints, and the one-way delays between them.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::string::String;
use alloc::vec::Vec;

use byway_units::{Duration, Money};

use crate::price::PricePerGigabyte;
use crate::table::{Row, Table, TableError};

/// Delay between two hosts of one city: 0.5 ms, about the delay of 100 km of fibre.
///
/// Tables have no delays from a city to itself, and zero would be wrong for a relay in the same
/// city.
pub const SAME_CITY_DELAY: Duration = Duration::from_micros(500);

/// Point on the globe.
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

/// Region of a public cloud, in which a relay can be, with its list prices.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// Identifier of the region: provider and region, as in `aws:eu-central-1`.
    pub id: String,
    /// Common name of the region.
    pub name: String,
    /// Provider of the region, whose own network joins its regions.
    pub provider: String,
    /// Continent of the region.
    pub continent: String,
    /// Position of the region's data centres.
    pub position: Position,
    /// City whose delays to endpoints are used as those of the region.
    pub city: String,
    /// List price of bytes from the region to the Internet, in the first tier.
    pub to_internet: PricePerGigabyte,
    /// List price of bytes from the region to others of the provider.
    pub to_regions: PricePerGigabyte,
    /// List price of a machine with two virtual processors in the region, for an hour.
    pub machine_per_hour: Money,
}

/// City with endpoints.
#[derive(Clone, Debug, PartialEq)]
pub struct City {
    /// Name of the city.
    pub name: String,
    /// Continent of the city.
    pub continent: String,
    /// Position of the city.
    pub position: Position,
}

/// One-way delays between named locations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DelayTable {
    /// Delays by pairs of names. The names of a pair are in alphabetical order, because the delay
    /// is the same in both directions.
    delays: BTreeMap<(String, String), Duration>,
}

impl DelayTable {
    /// Adds the one-way delay between two locations; of several, the shortest is stored.
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

    /// Returns the one-way delay between two locations, in either direction: [`SAME_CITY_DELAY`]
    /// for equal names, `None` if it is unknown.
    #[must_use]
    pub fn between(&self, from: &str, to: &str) -> Option<Duration> {
        if from == to {
            return Some(SAME_CITY_DELAY);
        }
        self.delays.get(&key(from, to)).copied()
    }

    /// Returns the number of pairs of locations with a known delay.
    #[must_use]
    pub fn len(&self) -> usize {
        self.delays.len()
    }

    /// True if the table has no delay.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.delays.is_empty()
    }

    /// Returns each pair of locations once with its delay, in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, Duration)> {
        self.delays.iter().map(|((from, to), delay)| (from.as_str(), to.as_str(), *delay))
    }

    /// Reads a table of the columns `from`, `to`, `one_way_ms`.
    ///
    /// # Errors
    /// If the text is no such table.
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

/// Regions, cities and the one-way delays between them.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// Regions, in which relays can be.
    pub regions: Vec<Region>,
    /// Cities with endpoints.
    pub cities: Vec<City>,
    /// Delays between regions, by [`Region::id`].
    pub between_regions: DelayTable,
    /// Delays between cities, by [`City::name`], without access networks.
    pub between_cities: DelayTable,
}

impl World {
    /// Returns the tables in this crate: twelve regions and 43 cities on six continents.
    ///
    /// Prices are of 2023 and 2026, delays of 2018 (cities) and 2022 (regions); the files in `data`
    /// name their sources.
    ///
    /// # Panics
    /// If a table in this crate is invalid, which a test excludes.
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

    /// Returns the region with this identifier; `None` if it is unknown.
    #[must_use]
    pub fn region(&self, id: &str) -> Option<&Region> {
        self.regions.iter().find(|region| region.id == id)
    }

    /// Returns the index in [`World::regions`] of the region with the least delay to this city, and
    /// that delay; `None` if no delay to a region is known.
    #[must_use]
    pub fn nearest_region(&self, city: &str) -> Option<(usize, Duration)> {
        let reachable = self.regions.iter().enumerate().filter_map(|(index, region)| {
            let delay = self.between_cities.between(city, &region.city)?;
            Some((index, delay))
        });
        reachable.min_by_key(|(_, delay)| *delay)
    }
}

/// Reads regions: the columns `region`, `name`, `provider`, `continent`, `lat_deg`, `lon_deg`,
/// `city`, `internet_usd_per_gb`, `regions_usd_per_gb`, `vm_usd_per_hour`; others are skipped.
///
/// # Errors
/// If the text is no such table.
pub fn regions(name: &str, text: &str) -> Result<Vec<Region>, TableError> {
    Table::parse(name, text)?.rows().map(|row| region(&row)).collect()
}

/// Reads cities: the columns `city`, `continent`, `lat_deg`, `lon_deg`.
///
/// # Errors
/// If the text is no such table.
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

    /// Returns the least one-way delay that fibre allows: 200 km in a millisecond, along a great
    /// circle of a sphere of 6,371 km.
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
        let nearest = |city| world.nearest_region(city).map(|(index, _)| world.regions[index].name.as_str());
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
        assert_eq!((delays.between("a", "a"), delays.between("a", "c")), (Some(SAME_CITY_DELAY), None));
        assert_eq!(delays.len(), 1);
    }
}
