//! What is to be reached.

use byway_typed::{TypedDuration, TypedShare};

use crate::findings::Unit;
use crate::result::Bound;
use crate::typed::TypedRow;

/// A bound, and what it is counted in; `None` of a number, which may be a count or a ratio.
pub(crate) type Target = (Bound, Option<Unit>);

/// The target of a row, if it has one.
///
/// # Errors
/// If it has two, or one that is no number: which key, and why.
pub(crate) fn target(row: &TypedRow) -> Result<Option<Target>, (&'static str, String)> {
    let (key, text, bound): (_, _, fn(f64) -> Bound) = match (&row.at_least, &row.at_most) {
        (None, None) => return Ok(None),
        (Some(text), None) => ("at_least", text, Bound::AtLeast),
        (None, Some(text)) => ("at_most", text, Bound::AtMost),
        (Some(_), Some(_)) => return Err(("at_most", "a row has one bound: leave one out".to_owned())),
    };
    let (value, unit) = value(text).ok_or_else(|| {
        (key, format!("{text:?} is no value: write a share (\"99 %\"), a time (\"60 ms\") or a number"))
    })?;
    Ok(Some((bound(value), unit)))
}

fn value(text: &str) -> Option<(f64, Option<Unit>)> {
    let text = text.trim();
    if text.ends_with('%') {
        let share: TypedShare = text.parse().ok()?;
        return Some((share.0.value(), Some(Unit::Share)));
    }
    if let Ok(number) = text.parse::<f64>() {
        return number.is_finite().then_some((number, None));
    }
    let time: TypedDuration = text.parse().ok()?;
    Some((time.0.as_secs_f64() * 1_000.0, Some(Unit::Milliseconds)))
}

impl Bound {
    /// Whether a value is within it.
    #[must_use]
    pub fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
        }
    }

    /// The value, of two, that is farther from being within it.
    pub(crate) fn worse(self, one: f64, other: f64) -> f64 {
        match self {
            Self::AtLeast(_) => one.min(other),
            Self::AtMost(_) => one.max(other),
        }
    }
}
