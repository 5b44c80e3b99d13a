//! Last mile: one-way delays from endpoints to their nearest relay.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use byway_units::{Duration, Probability};

use crate::table::{Table, TableError};

/// Distribution of endpoints' one-way delays to their nearest relay, by continent. Between its
/// points, it is interpolated linearly.
#[derive(Clone, Debug, PartialEq)]
pub struct LastMile {
    /// Points of the distribution by continent: the share of endpoints, from 0 to 1, and the delay
    /// that they do not exceed. Both rise.
    quantiles: BTreeMap<String, Vec<(f64, Duration)>>,
}

impl LastMile {
    /// Returns the published distribution (J-QoS, section 5.1 and figure 4d), with assumptions for
    /// unpublished parts.
    ///
    /// Published: half of the paths below 10 ms in Europe and Asia, a fifth above 20 ms, three
    /// quarters within 25 ms in Oceania. `data/last_mile.csv` marks the rest as assumed.
    ///
    /// # Panics
    /// If the table in this crate is invalid, which a test excludes.
    #[must_use]
    pub fn published() -> Self {
        Self::parse("last_mile.csv", include_str!("../data/last_mile.csv")).expect("a test reads this table")
    }

    /// Reads a table of the columns `continent`, `share` (0 to 1) and `one_way_ms`; both rise
    /// within a continent.
    ///
    /// # Errors
    /// If the text is no such table, or a continent's shares do not begin with 0, end with 1 and
    /// rise.
    pub fn parse(name: &str, text: &str) -> Result<Self, TableError> {
        let table = Table::parse(name, text)?;
        let mut quantiles: BTreeMap<String, Vec<(f64, Duration)>> = BTreeMap::new();
        let mut last_row = None;
        for row in table.rows() {
            let (share, delay) = (row.number("share", 0.0..=1.0)?, row.milliseconds("one_way_ms")?);
            let points = quantiles.entry(row.text("continent")?.to_owned()).or_default();
            let follows = match points.last() {
                Some((below, nearer)) => share > *below && delay >= *nearer,
                None => share <= 0.0,
            };
            if !follows {
                return Err(
                    row.problem("share", "out of order: start with 0, in ascending shares and delays")
                );
            }
            points.push((share, delay));
            last_row = Some(row);
        }
        let ends = |points: &Vec<(f64, Duration)>| points.last().is_some_and(|(share, _)| *share >= 1.0);
        match last_row {
            Some(row) if !quantiles.values().all(ends) => Err(row.problem(
                "share",
                "last row of a continent below share 1: end each continent with its farthest endpoint",
            )),
            _ => Ok(Self { quantiles }),
        }
    }

    /// Returns the delay that this share of a continent's endpoints does not exceed; `None` for an
    /// unknown continent.
    #[must_use]
    pub fn delay(&self, continent: &str, share: Probability) -> Option<Duration> {
        let points = self.quantiles.get(continent)?;
        let above = points.iter().position(|(at, _)| *at >= share.value())?;
        let (high_share, high) = *points.get(above)?;
        let Some((low_share, low)) = above.checked_sub(1).and_then(|below| points.get(below)).copied() else {
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
        for city in crate::locations::World::built_in().cities {
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
        assert!(error("a,0.1,1").starts_with("t:2: share: out of order"));
        assert!(error("a,0,1\na,1,0").starts_with("t:3: share: out of order"));
        assert!(error("a,0,1\na,0.5,2").starts_with("t:3: share: last row of a continent below share 1"));
    }
}
