//! Environments of the models: regions, cities and delays from built-in or public tables, or with
//! other relays.

use byway_plan::{City, LastMile, PricePerGigabyte, Region, Table, World};
use byway_units::{Money, Probability};

use super::data::Data;

/// Continents of the publication, in its order. Its US corresponds to all of North America here.
pub(super) const CONTINENTS: [&str; 4] = ["North America", "Europe", "Asia", "Oceania"];

/// Returns the built-in world, limited to the published continents. Regions of all continents
/// remain, because any may be near an endpoint.
pub(super) fn built_in() -> World {
    published_continents(World::built_in())
}

/// Returns the environment of the public tables on the published continents; `None` unless all
/// three tables exist.
pub(super) fn public(data: &Data) -> Option<World> {
    public_everywhere(data).map(published_continents)
}

/// Returns the environment of the public tables on all continents; `None` unless all three tables
/// exist.
pub(super) fn public_everywhere(data: &Data) -> Option<World> {
    let (between_regions, between_cities) = (data.regions.clone()?, data.cities.clone()?);
    let cities = data.coordinates.clone()?;
    let table = Table::parse("region_cities.csv", include_str!("region_cities.csv"));
    let table = table.expect("a test reads this table");
    let regions = table.rows().filter_map(|row| {
        let city = cities.iter().find(|city| row.text("city").is_ok_and(|name| city.name == name))?;
        Some(region(row.text("region").ok()?, city))
    });
    let regions = regions.collect();
    Some(World { regions, cities, between_regions, between_cities })
}

/// Returns the environment with the relays of one provider only.
pub(super) fn of_provider(world: &World, provider: &str) -> World {
    let mut world = world.clone();
    world.regions.retain(|region| region.provider == provider);
    world
}

/// Returns the environment with a relay in every city. Delays between relays are the Internet's
/// between the cities.
pub(super) fn relay_in_every_city(world: &World) -> World {
    let regions = world.cities.iter().map(|city| region(&city.name, city)).collect();
    World { regions, between_regions: world.between_cities.clone(), ..world.clone() }
}

/// Returns the environment with four times as many endpoints in Europe and North America, six
/// sevenths of the total.
///
/// Most hosts of RIPE Atlas, which the publication measured, are on these continents. The
/// publication does not state their numbers.
pub(super) fn mostly_atlantic(world: &World) -> World {
    let is_atlantic = |city: &&City| ["Europe", "North America"].contains(&city.continent.as_str());
    let atlantic: Vec<City> = world.cities.iter().filter(is_atlantic).cloned().collect();
    let mut world = world.clone();
    for _ in 1..4 {
        world.cities.extend_from_slice(&atlantic);
    }
    world
}

/// Returns the published last mile (delays between receivers and their relays) with half its
/// delays.
pub(super) fn half_of(last_mile: &LastMile) -> LastMile {
    /// Intervals at which the delay is sampled. The published shares are twentieths, so linear
    /// interpolation remains exact.
    const PARTS: u64 = 20;
    let mut lines = vec!["continent,share,one_way_ms".to_owned()];
    for continent in CONTINENTS {
        for part in 0..=PARTS {
            let share = Probability::from_ratio(part, PARTS).expect("a part is not more than the whole");
            if let Some(delay) = last_mile.delay(continent, share) {
                lines.push(format!("{continent},{},{}", share.value(), delay.as_secs_f64() * 500.0));
            }
        }
    }
    LastMile::parse("half of the last mile", &lines.join("\n")).expect("half of an ascending table ascends")
}

fn published_continents(mut world: World) -> World {
    world.cities.retain(|city| CONTINENTS.contains(&city.continent.as_str()));
    world
}

/// Returns a region without prices, for studies that only use its position.
fn region(id: &str, city: &City) -> Region {
    Region {
        id: id.to_owned(),
        name: city.name.clone(),
        provider: id.split_once(':').map_or(id, |(provider, _)| provider).to_owned(),
        continent: city.continent.clone(),
        position: city.position,
        city: city.name.clone(),
        to_internet: PricePerGigabyte::FREE,
        to_regions: PricePerGigabyte::FREE,
        machine_per_hour: Money::ZERO,
    }
}
