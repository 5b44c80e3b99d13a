//! What one run comes to: numbers and samples, in the place of everything that happened.

use std::collections::BTreeMap;

use byway_scenario::Stopped;

/// What a number is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A share of 1.
    Share,
    /// A ratio of two quantities of one kind.
    Ratio,
    /// Milliseconds.
    Milliseconds,
    /// Cents of a dollar for an hour.
    CentsPerHour,
    /// Dollars for an hour.
    DollarsPerHour,
    /// A mean opinion score, 1 to 5.
    Score,
    /// Mbit/s.
    Megabits,
    /// Something that is counted.
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

/// A measure, of the flows of one name or, with `None`, of all.
pub(crate) type Key = (String, Option<String>);

/// What one run comes to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Findings {
    /// Numbers: one for a run.
    pub(crate) measures: BTreeMap<Key, (f64, Unit)>,
    /// If it did not come to its end: when and why.
    pub(crate) stopped: Option<Stopped>,
    /// Samples: many of a run.
    pub(crate) samples: BTreeMap<Key, Vec<f64>>,
}

impl Findings {
    /// A measure; nothing if there was nothing to measure.
    pub(crate) fn measure(&mut self, name: &str, flow: Option<&str>, value: Option<f64>, unit: Unit) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.measures.insert(key(name, flow), (value, unit));
        }
    }

    /// Samples of flows of one name, which count among those of all, too.
    pub(crate) fn sample(&mut self, name: &str, flow: &str, values: &[f64]) {
        for key in [key(name, None), key(name, Some(flow))] {
            self.samples.entry(key).or_default().extend_from_slice(values);
        }
    }

    /// The value of a measure.
    pub(crate) fn value(&self, name: &str, flow: Option<&str>) -> Option<f64> {
        self.measures.get(&key(name, flow)).map(|(value, _)| *value)
    }
}

pub(crate) fn key(name: &str, flow: Option<&str>) -> Key {
    (name.to_owned(), flow.map(str::to_owned))
}

/// The value that a share of all values does not exceed; `None` of none.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "places of a list"
    )]
    let place = ((values.len() as f64 * share).ceil() as usize).saturating_sub(1).min(last);
    Some(values[place])
}

/// The share that a part is of a whole, if there is one.
#[allow(clippy::cast_precision_loss, reason = "packets of a day are far below 2^53")]
pub(crate) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// A count among numbers.
#[allow(clippy::cast_precision_loss, reason = "packets of a day are far below 2^53")]
pub(crate) const fn number(count: u64) -> f64 {
    count as f64
}
