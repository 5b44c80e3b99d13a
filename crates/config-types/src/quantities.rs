//! Quantities as typed in settings: a number and a unit.

use std::fmt;
use std::str::FromStr;

use byway_units::{Bytes, Duration, Probability, Rate};
use byway_wire::BlockShape;
use schemars::JsonSchema;
use serde::Deserialize;
use thiserror::Error;

use crate::sampled::Quantity;

/// Error of a text that is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid {what} {text:?}: write {form}")]
pub struct QuantityError {
    text: String,
    what: &'static str,
    form: &'static str,
}

/// A rate, like `4 Mbit/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct RateSetting(pub Rate);

/// A time, like `200 ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct DurationSetting(pub Duration);

/// A number of bytes, like `64 kB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct BytesSetting(pub Bytes);

/// A share, like `0.5 %`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct ShareSetting(pub Probability);

/// A ratio that may exceed 100 %, like `120 %`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatioSetting(pub f64);

/// Numbers of source and repair packets, like `8+2`; `none` for no repair packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct ShapeSetting(pub Option<BlockShape>);

const RATE_UNITS: &[(&str, u64)] =
    &[("bit/s", 1), ("kbit/s", 1_000), ("Mbit/s", 1_000_000), ("Gbit/s", 1_000_000_000)];

const DURATION_UNITS: &[(&str, u64)] = &[
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

const BYTES_UNITS: &[(&str, u64)] =
    &[("B", 1), ("kB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000), ("TB", 1_000_000_000_000)];

/// Parses a number, which may have a fraction, and one of the units. Returns the number of smallest
/// units.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit.trim()))?.1;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let places = u32::try_from(fraction.len()).ok().filter(|places| *places <= 9)?;
    let whole = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().ok()?.checked_mul(scale)? };
    whole.checked_add(part / 10_u64.pow(places))
}

impl FromStr for RateSetting {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let form = "a number and bit/s, kbit/s, Mbit/s or Gbit/s, as in \"4 Mbit/s\"";
        let rate = scaled(text.trim(), RATE_UNITS).map(Rate::from_bits_per_second);
        rate.map(Self).ok_or(QuantityError { text: text.to_owned(), what: "rate", form })
    }
}

impl FromStr for DurationSetting {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let form = "a number and us, ms, s, min, h or d, as in \"200 ms\"";
        let duration = scaled(text.trim(), DURATION_UNITS).map(Duration::from_nanos);
        duration.map(Self).ok_or(QuantityError { text: text.to_owned(), what: "time", form })
    }
}

impl FromStr for BytesSetting {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let form = "a number and B, kB, MB, GB or TB, as in \"64 kB\"";
        let bytes = scaled(text.trim(), BYTES_UNITS).map(Bytes::new);
        bytes.map(Self).ok_or(QuantityError { text: text.to_owned(), what: "number of bytes", form })
    }
}

impl FromStr for RatioSetting {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let form = "a number and %, as in \"120 %\"";
        let ratio = percent(text).filter(|ratio| ratio.is_finite() && *ratio >= 0.0);
        ratio.map(Self).ok_or(QuantityError { text: text.to_owned(), what: "ratio", form })
    }
}

/// Parses a number and `%`: the double nearest to a hundredth of it, which a division would miss.
fn percent(text: &str) -> Option<f64> {
    let number = text.trim().strip_suffix('%')?.trim_end();
    let is_plain = number.chars().all(|c| c.is_ascii_digit() || c == '.');
    format!("{number}e-2").parse().ok().filter(|_| is_plain)
}

impl FromStr for ShareSetting {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let form = "a number from 0 to 100 and %, as in \"0.5 %\"";
        let share = percent(text).and_then(|share| Probability::new(share).ok());
        share.map(Self).ok_or(QuantityError { text: text.to_owned(), what: "share", form })
    }
}

impl FromStr for ShapeSetting {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.trim() == "none" {
            return Ok(Self(None));
        }
        let form = "source packets, a plus and repair packets, as in \"8+2\" (at most \"32+8\"), or \"none\"";
        let shape = text.split_once('+').and_then(|(source, repair)| {
            BlockShape::new(source.trim().parse().ok()?, repair.trim().parse().ok()?)
        });
        shape.map(|shape| Self(Some(shape))).ok_or(QuantityError {
            text: text.to_owned(),
            what: "shape",
            form,
        })
    }
}

macro_rules! from_text {
    ($($typed:ident),*) => {$(
        impl TryFrom<String> for $typed {
            type Error = QuantityError;

            fn try_from(text: String) -> Result<Self, QuantityError> {
                text.parse()
            }
        }
    )*};
}

from_text!(RateSetting, DurationSetting, BytesSetting, ShareSetting, ShapeSetting);

impl Quantity for DurationSetting {
    const WHAT: &'static str = "time";

    fn number(self) -> f64 {
        whole(self.0.as_nanos())
    }

    fn from_number(number: f64) -> Self {
        Self(Duration::from_nanos(nearest(number)))
    }
}

impl Quantity for RateSetting {
    const WHAT: &'static str = "rate";

    fn number(self) -> f64 {
        whole(self.0.bits_per_second())
    }

    fn from_number(number: f64) -> Self {
        Self(Rate::from_bits_per_second(nearest(number)))
    }
}

impl Quantity for ShareSetting {
    const WHAT: &'static str = "share";

    fn number(self) -> f64 {
        self.0.value()
    }

    fn from_number(number: f64) -> Self {
        Self(Probability::new(number.clamp(0.0, 1.0)).expect("between 0 and 1"))
    }
}

#[allow(clippy::cast_precision_loss, reason = "quantities that are typed have few digits")]
const fn whole(number: u64) -> f64 {
    number as f64
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and no quantity is negative"
)]
fn nearest(number: f64) -> u64 {
    libm::round(number) as u64
}

impl fmt::Display for ShapeSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("none"),
            Some(shape) => write!(f, "{}+{}", shape.source_packets(), shape.repair_packets()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_units_are_read_with_and_without_a_blank() {
        let rate = |text: &str| text.parse::<RateSetting>().map(|rate| rate.0.bits_per_second());
        assert_eq!(rate("4 Mbit/s"), Ok(4_000_000));
        assert_eq!(rate("1.5mbit/s"), Ok(1_500_000));
        assert_eq!(rate("64kbit/s"), Ok(64_000));
        let time = |text: &str| text.parse::<DurationSetting>().map(|time| time.0.as_nanos());
        assert_eq!(time("200 ms"), Ok(200_000_000));
        assert_eq!(time("0.25s"), Ok(250_000_000));
        assert_eq!(time("48 h"), Ok(172_800_000_000_000));
    }

    #[test]
    fn bytes_and_shares_have_units_too() {
        assert_eq!("64 kB".parse::<BytesSetting>().map(|bytes| bytes.0.count()), Ok(64_000));
        assert_eq!("1.5 TB".parse::<BytesSetting>().map(|bytes| bytes.0.count()), Ok(1_500_000_000_000));
        assert_eq!("0.5 %".parse::<ShareSetting>().map(|share| share.0.value()), Ok(0.005));
        assert_eq!("99.9 %".parse::<ShareSetting>().map(|share| share.0.value()), Ok(0.999));
        assert_eq!("120 %".parse::<RatioSetting>(), Ok(RatioSetting(1.2)));
        assert!("-1 %".parse::<RatioSetting>().is_err() && "inf %".parse::<RatioSetting>().is_err());
        assert_eq!("100%".parse::<ShareSetting>().map(|share| share.0), Ok(Probability::ONE));
        for text in ["", "%", "-1 %", "101 %", "0.5", "NaN %", "one %"] {
            let error = text.parse::<ShareSetting>().expect_err(text);
            assert!(error.to_string().contains("as in \"0.5 %\""), "{error}");
        }
        assert!("64 KiB".parse::<BytesSetting>().is_err());
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_the_form_that_is() {
        for text in ["", "4", "Mbit/s", "4 Mbps", "-4 Mbit/s", "1..5 Mbit/s", "99999999999999 Gbit/s"] {
            let error = text.parse::<RateSetting>().expect_err(text);
            assert!(error.to_string().contains("as in \"4 Mbit/s\""), "{error}");
        }
        for text in ["200", "ms", "2 weeks", "1.0000000001 s"] {
            assert!(text.parse::<DurationSetting>().is_err(), "{text}");
        }
    }

    #[test]
    fn shapes_are_source_plus_repair() {
        let shape = |text: &str| text.parse::<ShapeSetting>().map(|shape| shape.to_string());
        assert_eq!(shape("8+2"), Ok("8+2".to_owned()));
        assert_eq!(shape(" 16 + 1 "), Ok("16+1".to_owned()));
        assert_eq!(shape("none"), Ok("none".to_owned()));
        for text in ["8", "8+", "+2", "0+1", "8+99", "300+1", "eight+two"] {
            assert!(text.parse::<ShapeSetting>().is_err(), "{text}");
        }
    }
}
