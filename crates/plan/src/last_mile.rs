//! How far endpoints are from their nearest relay.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use byway_units::{Duration, Probability};

use crate::table::{Table, TableError};

/// By continent, which share of endpoints is how near to a relay: quantiles, and straight lines between them.
#[derive(Clone, Debug, PartialEq)]
pub struct LastMile {
    /// Rising shares from 0 to 1 with rising delays.
    quantiles: BTreeMap<String, Vec<(f64, Duration)>>,
}

impl LastMile {
    /// The published distribution (J-QoS, section 5.1 and figure 4d), with assumptions where nothing is published.
    ///
    /// Published: half of the paths below 10 ms in Europe and Asia, a fifth above 20 ms, three quarters within 25 ms in
    /// Oceania. `data/last_mile.csv` marks the rest as assumed.
    ///
    /// # Panics
    /// Never: a test reads the table.
    #[must_use]
    pub fn published() -> Self {
        Self::parse("last_mile.csv", include_str!("../data/last_mile.csv")).expect("a test reads this table")
    }

    /// Reads a table of the columns `continent`, `share` (0 to 1) and `one_way_ms`; both rise within a continent.
    ///
    /// # Errors
    /// If it is no such table, or a continent's shares do not begin with 0, end with 1 and rise.
    pub fn parse(name: &str, text: &str) -> Result<Self, TableError> {
        let table = Table::parse(name, text)?;
        let mut quantiles: BTreeMap<String, Vec<(f64, Duration)>> = BTreeMap::new();
        let mut last_row = None;
        for row in table.rows() {
            let (share, delay) = (row.number("share", 0.0..=1.0)?, row.milliseconds("one_way_ms")?);
            let known = quantiles.entry(row.text("continent")?.to_owned()).or_default();
            let follows = match known.last() {
                Some((below, nearer)) => share > *below && delay >= *nearer,
                None => share <= 0.0,
            };
            if !follows {
                return Err(row.problem("share", "does not follow: begin with 0, and let both numbers rise"));
            }
            known.push((share, delay));
            last_row = Some(row);
        }
        let ends = |known: &Vec<(f64, Duration)>| known.last().is_some_and(|(share, _)| *share >= 1.0);
        match last_row {
            Some(row) if !quantiles.values().all(ends) => {
                Err(row.problem("share", "a continent has no share 1: end each with the farthest endpoint"))
            }
            _ => Ok(Self { quantiles }),
        }
    }

    /// The delay that this share of a continent's endpoints does not exceed; `None` for a continent that is not known.
    #[must_use]
    pub fn delay(&self, continent: &str, share: Probability) -> Option<Duration> {
        let known = self.quantiles.get(continent)?;
        let above = known.iter().position(|(at, _)| *at >= share.value())?;
        let (high_share, high) = *known.get(above)?;
        let Some((low_share, low)) = above.checked_sub(1).and_then(|below| known.get(below)).copied() else {
            return Some(high);
        };
        let part = (share.value() - low_share) / (high_share - low_share);
        let (low, high) = (low.as_secs_f64(), high.as_secs_f64());
        Some(crate::table::milliseconds((low + (high - low) * part) * 1e3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;

    fn ms(delay: Option<Duration>) -> u64 {
        delay.expect("the continent is known").as_millis()
    }

    #[test]
    fn the_published_shares_come_back() {
        let last_mile = LastMile::published();
        let delay = |continent, hundredths| {
            ms(last_mile.delay(continent, Probability::from_ratio(hundredths, 100).expect("a share")))
        };
        assert_eq!((delay("Europe", 50), delay("Asia", 50)), (10, 10));
        assert_eq!((delay("Europe", 80), delay("Asia", 80)), (20, 20));
        assert_eq!(delay("Oceania", 75), 25);
        assert_eq!((delay("Europe", 0), delay("Europe", 25), delay("Europe", 100)), (1, 5, 60));
    }

    #[test]
    fn every_continent_of_the_world_has_a_last_mile() {
        let last_mile = LastMile::published();
        for city in crate::places::World::built_in().cities {
            assert!(last_mile.delay(&city.continent, Probability::ONE).is_some(), "{}", city.continent);
        }
        assert_eq!(last_mile.delay("Antarctica", Probability::ONE), None);
    }

    #[test]
    fn shares_that_do_not_rise_are_refused() {
        let error = |rows: &str| {
            let text = format!("continent,share,one_way_ms\n{rows}");
            LastMile::parse("t", &text).expect_err("the test gives a wrong table").to_string()
        };
        assert!(error("a,0.1,1").starts_with("t:2: share: does not follow"));
        assert!(error("a,0,1\na,1,0").starts_with("t:3: share: does not follow"));
        assert!(error("a,0,1\na,0.5,2").starts_with("t:3: share: a continent has no share 1"));
    }
}
