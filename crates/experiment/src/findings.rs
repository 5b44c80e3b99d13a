//! Findings of a run: measures and samples, instead of its events.

use std::collections::BTreeMap;

use byway_scenario::Interruption;

/// Unit of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Share of a whole, from 0 to 1.
    Share,
    /// Ratio of two quantities of one kind.
    Ratio,
    /// Time in milliseconds.
    Milliseconds,
    /// Cost in US cents per hour.
    CentsPerHour,
    /// Cost in US dollars per hour.
    DollarsPerHour,
    /// Mean opinion score, 1 to 5.
    Score,
    /// Rate in Mbit/s.
    Megabits,
    /// Count without a unit.
    Count,
}

impl Unit {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Share => "share",
            Self::Ratio => "ratio",
            Self::Milliseconds => "ms",
            Self::CentsPerHour => "¢/h",
            Self::DollarsPerHour => "$/h",
            Self::Score => "score",
            Self::Megabits => "Mbit/s",
            Self::Count => "count",
        }
    }
}

/// Key of a measure or sample: its name, and the name of its flows; `None` for all flows.
pub(crate) type Key = (String, Option<String>);

/// Measures and samples of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Findings {
    /// Measures by key: one number of the run, with its unit.
    pub(crate) measures: BTreeMap<Key, (f64, Unit)>,
    /// Time and reason of the interruption, if the run did not reach its end.
    pub(crate) stopped: Option<Interruption>,
    /// Samples by key: many numbers of the run.
    pub(crate) samples: BTreeMap<Key, Vec<f64>>,
}

impl Findings {
    /// Adds a measure, unless it has no finite value.
    pub(crate) fn measure(&mut self, name: &str, flow: Option<&str>, value: Option<f64>, unit: Unit) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.measures.insert(key(name, flow), (value, unit));
        }
    }

    /// Adds values to the sample of the flows with this name, and to that of all flows.
    pub(crate) fn sample(&mut self, name: &str, flow: &str, values: &[f64]) {
        for key in [key(name, None), key(name, Some(flow))] {
            self.samples.entry(key).or_default().extend_from_slice(values);
        }
    }

    /// Returns the value of a measure; `None` if the run does not have it.
    pub(crate) fn value(&self, name: &str, flow: Option<&str>) -> Option<f64> {
        self.measures.get(&key(name, flow)).map(|(value, _)| *value)
    }
}

pub(crate) fn key(name: &str, flow: Option<&str>) -> Key {
    (name.to_owned(), flow.map(str::to_owned))
}

/// Sorts `values` and returns their quantile at `share`, by nearest rank; `None` without values.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "places of a list"
    )]
    let rank = ((values.len() as f64 * share).ceil() as usize).saturating_sub(1).min(last);
    Some(values[rank])
}

/// Returns the ratio of `part` to `whole`; `None` if `whole` is 0.
#[allow(clippy::cast_precision_loss, reason = "packets of a day are far below 2^53")]
pub(crate) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Converts a count into a floating-point number.
#[allow(clippy::cast_precision_loss, reason = "packets of a day are far below 2^53")]
pub(crate) const fn number(count: u64) -> f64 {
    count as f64
}
