//! Feasibility study: services that are fast enough between endpoints all over the world.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use byway_units::Duration;
use byway_wire::Service;

use crate::delay::Delays;
use crate::last_mile::LastMile;
use crate::locations::{City, World};
use crate::random::SplitMix;

/// Least one-way delay between an endpoint and the first router of its provider: 1 ms, a good fibre
/// or cable.
///
/// It also applies if the nearest relay is farther away than the last-mile distribution says.
const ACCESS_DELAY_MIN: Duration = Duration::from_millis(1);

/// Assumptions of the feasibility study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeasibilitySetup {
    /// Seed of the study's random numbers; equal seeds give equal results.
    pub seed: u64,
    /// Number of endpoints in each city; each draws its own last mile.
    pub endpoints_per_city: usize,
    /// Number of receivers that cooperate in a repair: drawn from the receiver's continent; the
    /// farthest from its relay counts.
    pub cooperating: usize,
    /// `T_det`: time from the expected arrival of a lost packet to the NACK.
    pub detection: Duration,
    /// `T_enc`: time for which a packet waits until its batch is encoded.
    pub encoding: Duration,
}

impl FeasibilitySetup {
    /// Returns the assumptions of J-QoS, section 5.1: five cooperating receivers, losses detected
    /// and batches encoded at once. With ten endpoints in each city, [`World::built_in`] has
    /// 180,600 paths, against 22,000 measured ones.
    #[must_use]
    pub const fn published(seed: u64) -> Self {
        Self {
            seed,
            endpoints_per_city: 10,
            cooperating: 5,
            detection: Duration::ZERO,
            encoding: Duration::ZERO,
        }
    }
}

/// Endpoint of the study, with its nearest relay.
#[derive(Clone, Copy, Debug)]
struct Endpoint<'a> {
    city: &'a City,
    /// Index of the nearest relay's region in [`World::regions`].
    region: usize,
    /// One-way delay from the endpoint to its nearest relay.
    to_relay: Duration,
    /// One-way delay of the endpoint's access network, which is part of all its paths.
    access: Duration,
}

/// Path of the study, from one endpoint to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StudyPath {
    /// Index of the ingress relay's region in [`World::regions`].
    pub ingress: usize,
    /// Index of the egress relay's region in [`World::regions`].
    pub egress: usize,
    /// One-way delays of the path and its relays.
    pub delays: Delays,
}

/// Delays of the study's paths from one continent to another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathDelays {
    /// The paths, in no particular order.
    pub paths: Vec<StudyPath>,
}

impl PathDelays {
    /// Returns the delivery times of this service if the direct copy is lost, shortest first; empty
    /// for the Internet alone.
    #[must_use]
    pub fn deliveries(&self, service: Service) -> Vec<Duration> {
        let mut deliveries: Vec<_> =
            self.paths.iter().filter_map(|path| path.delays.delivery(service)).collect();
        deliveries.sort_unstable();
        deliveries
    }

    /// Returns the one-way delays of the direct paths, shortest first.
    #[must_use]
    pub fn direct(&self) -> Vec<Duration> {
        let mut direct: Vec<_> = self.paths.iter().map(|path| path.delays.direct).collect();
        direct.sort_unstable();
        direct
    }

    /// Returns the recovery times of this service as shares of the direct round-trip time, least
    /// first; empty for services without repairs.
    #[must_use]
    pub fn recovery_shares(&self, service: Service) -> Vec<f64> {
        let mut shares: Vec<_> =
            self.paths.iter().filter_map(|path| path.delays.recovery_share(service)).collect();
        shares.sort_unstable_by(f64::total_cmp);
        shares
    }
}

/// Returns the delays of paths between all endpoints, by the continents of sender and receiver.
///
/// Each city has endpoints, and each endpoint draws its delay to a relay from its continent's
/// last-mile distribution. If the nearest region is farther than that, its delay counts, plus 1 ms
/// of access. Otherwise, the rest of the drawn delay beyond the region's is access, which is also
/// part of the direct path. Paths are between different cities with known delays.
#[must_use]
pub fn feasibility(
    world: &World,
    last_mile: &LastMile,
    setup: &FeasibilitySetup,
) -> BTreeMap<(String, String), PathDelays> {
    let mut random = SplitMix::new(setup.seed);
    let endpoints = endpoints(world, last_mile, setup, &mut random);
    let mut by_continent: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    for endpoint in &endpoints {
        by_continent.entry(&endpoint.city.continent).or_default().push(endpoint.to_relay);
    }
    let mut found: BTreeMap<(String, String), PathDelays> = BTreeMap::new();
    for sender in &endpoints {
        for receiver in endpoints.iter().filter(|receiver| receiver.city.name != sender.city.name) {
            let neighbours =
                by_continent.get(receiver.city.continent.as_str()).map_or(&[][..], Vec::as_slice);
            let cooperating = (0..setup.cooperating).filter_map(|_| random.one_of(neighbours)).max();
            let cooperating = cooperating.copied().unwrap_or(Duration::ZERO);
            let Some(delays) = delays(world, sender, receiver) else {
                continue;
            };
            let delays =
                Delays { cooperating, detection: setup.detection, encoding: setup.encoding, ..delays };
            let path = StudyPath { ingress: sender.region, egress: receiver.region, delays };
            let continents = (sender.city.continent.clone(), receiver.city.continent.clone());
            found.entry(continents).or_default().paths.push(path);
        }
    }
    found
}

fn endpoints<'a>(
    world: &'a World,
    last_mile: &LastMile,
    setup: &FeasibilitySetup,
    random: &mut SplitMix,
) -> Vec<Endpoint<'a>> {
    let mut endpoints = Vec::new();
    for city in &world.cities {
        for _ in 0..setup.endpoints_per_city {
            let share = random.share();
            let (Some(drawn), Some((region, distance))) =
                (last_mile.delay(&city.continent, share), world.nearest_region(&city.name))
            else {
                continue;
            };
            let access = drawn.saturating_sub(distance).max(ACCESS_DELAY_MIN);
            let to_relay = distance.saturating_add(access);
            endpoints.push(Endpoint { city, region, to_relay, access });
        }
    }
    endpoints
}

/// Returns the delays between two endpoints; `None` if the tables lack one of them.
fn delays(world: &World, sender: &Endpoint<'_>, receiver: &Endpoint<'_>) -> Option<Delays> {
    let between_cities = world.between_cities.between(&sender.city.name, &receiver.city.name)?;
    let (ingress, egress) = (world.regions.get(sender.region)?, world.regions.get(receiver.region)?);
    let ends = sender.access.saturating_add(receiver.access);
    Some(Delays {
        sender_to_ingress: sender.to_relay,
        ingress_to_egress: world.between_regions.between(&ingress.id, &egress.id)?,
        egress_to_receiver: receiver.to_relay,
        direct: between_cities.saturating_add(ends),
        ..Delays::default()
    })
}

/// Returns the value that this share (0 to 1) of the values does not exceed; `None` without values.
/// `rising` has to be sorted.
#[must_use]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a share of a length is an index below it, and the cast saturates"
)]
pub fn quantile<T: Copy>(rising: &[T], share: f64) -> Option<T> {
    let below = rising.len() as f64 * share;
    let whole = below as usize;
    let index = if below > whole as f64 { whole } else { whole.saturating_sub(1) };
    rising.get(index.min(rising.len().saturating_sub(1))).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned;

    fn all(setup: &FeasibilitySetup) -> BTreeMap<(String, String), PathDelays> {
        feasibility(&World::built_in(), &LastMile::published(), setup)
    }

    fn small(seed: u64) -> FeasibilitySetup {
        FeasibilitySetup { endpoints_per_city: 2, ..FeasibilitySetup::published(seed) }
    }

    #[test]
    fn a_seed_gives_the_same_paths() {
        assert_eq!(all(&small(1)), all(&small(1)));
        assert_ne!(all(&small(1)), all(&small(2)));
    }

    #[test]
    fn every_pair_of_continents_has_paths() {
        let found = all(&small(1));
        assert_eq!(found.len(), 36);
        let paths: usize = found.values().map(|delays| delays.paths.len()).sum();
        assert_eq!(paths, 86 * 84);
    }

    /// Returns the percentage of paths between these continents on which this service delivers
    /// within 200 ms.
    fn within_200_ms(
        found: &BTreeMap<(String, String), PathDelays>,
        is_meant: impl Fn(&str, &str) -> bool,
        service: Service,
    ) -> usize {
        let meant = found.iter().filter(|((from, to), _)| is_meant(from, to));
        let deliveries: Vec<_> = meant.flat_map(|(_, delays)| delays.deliveries(service)).collect();
        let fast = deliveries.iter().filter(|delivery| **delivery <= Duration::from_millis(200)).count();
        100 * fast / deliveries.len()
    }

    #[test]
    fn services_deliver_about_as_fast_as_was_published() {
        let found = all(&FeasibilitySetup { endpoints_per_city: 4, ..FeasibilitySetup::published(1) });
        let published = ["North America", "Europe", "Asia", "Oceania"];
        let all_four = |from: &str, to: &str| published.contains(&from) && published.contains(&to);
        // Published: 85 and 50. Twelve regions are fewer than those of the measurement, and farther
        // from endpoints.
        assert!((78..=88).contains(&within_200_ms(&found, all_four, Service::Caching)));
        assert!((37..=53).contains(&within_200_ms(&found, all_four, Service::Coding)));
        // Published: 95 and 50.
        let atlantic = |from: &str, to: &str| (from, to) == ("North America", "Europe");
        assert!((88..=97).contains(&within_200_ms(&found, atlantic, Service::Caching)));
        let far = |from: &str, to: &str| (from, to) == ("Europe", "Oceania");
        assert!((35..=55).contains(&within_200_ms(&found, far, Service::Caching)));
    }

    #[test]
    fn caching_repairs_in_a_smaller_share_of_a_round_trip_than_coding() {
        let found = all(&small(1));
        let path = found.get(&("Europe".to_owned(), "Asia".to_owned())).expect("there are such paths");
        let median = |service| quantile(&path.recovery_shares(service), 0.5).expect("there are paths");
        assert!(median(Service::Caching) < 0.25);
        assert!((0.25..0.5).contains(&median(Service::Coding)));
        assert!(path.recovery_shares(Service::Forwarding).is_empty());
    }

    #[test]
    fn quantiles_are_values_that_were_given() {
        let rising = [1, 2, 3, 4];
        let quantiles = [0.0, 0.25, 0.5, 0.51, 1.0].map(|share| quantile(&rising, share));
        assert_eq!(quantiles, [Some(1), Some(1), Some(2), Some(3), Some(4)]);
        assert_eq!(quantile::<u8>(&[], 0.5), None);
    }
}
