//! Targets of an experiment's rows, parsed from their text.

use byway_config_types::{DurationSetting, ShareSetting};

use crate::findings::Unit;
use crate::raw::RowSetting;
use crate::result::Bound;

/// Bound and unit of a target; `None` for a plain number, which may be a count or a ratio.
pub(crate) type Target = (Bound, Option<Unit>);

/// Parses the target of a row; `None` if the row has none.
///
/// # Errors
/// If it has two targets, or an invalid one: the key and the reason.
pub(crate) fn target(row: &RowSetting) -> Result<Option<Target>, (&'static str, String)> {
    let (key, text, bound): (_, _, fn(f64) -> Bound) = match (&row.at_least, &row.at_most) {
        (None, None) => return Ok(None),
        (Some(text), None) => ("at_least", text, Bound::AtLeast),
        (None, Some(text)) => ("at_most", text, Bound::AtMost),
        (Some(_), Some(_)) => return Err(("at_most", "two bounds in a row: omit one".to_owned())),
    };
    let (value, unit) = value(text).ok_or_else(|| {
        (key, format!("invalid value {text:?}: write a share (\"99 %\"), a time (\"60 ms\") or a number"))
    })?;
    Ok(Some((bound(value), unit)))
}

fn value(text: &str) -> Option<(f64, Option<Unit>)> {
    let text = text.trim();
    if text.ends_with('%') {
        let share: ShareSetting = text.parse().ok()?;
        return Some((share.0.value(), Some(Unit::Share)));
    }
    if let Ok(number) = text.parse::<f64>() {
        return number.is_finite().then_some((number, None));
    }
    let time: DurationSetting = text.parse().ok()?;
    Some((time.0.as_secs_f64() * 1_000.0, Some(Unit::Milliseconds)))
}

impl Bound {
    /// True if the value meets the bound.
    #[must_use]
    pub fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
        }
    }

    /// Returns the value that is farther from meeting the bound.
    pub(crate) fn worse(self, one: f64, other: f64) -> f64 {
        match self {
            Self::AtLeast(_) => one.min(other),
            Self::AtMost(_) => one.max(other),
        }
    }
}
