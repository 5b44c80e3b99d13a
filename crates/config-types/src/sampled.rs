//! Values drawn at random for each of several links or machines.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Quantity with a position on a numeric scale, for values drawn at random.
pub trait Quantity: Copy + FromStr {
    /// Name of the quantity in errors.
    const WHAT: &'static str;

    /// Returns the position of this quantity on the scale.
    fn number(self) -> f64;

    /// Returns the quantity nearest to a position on the scale.
    fn from_number(number: f64) -> Self;
}

/// A value, or its distribution: `"50 ms"`, `{ from = "20 ms", to = "80 ms" }`, the same with
/// `scale = "log"`, or `{ one_of = ["20 ms", "80 ms"] }`.
#[derive(Clone, Debug, PartialEq)]
pub enum Sampled<T> {
    /// This value always.
    Fixed(T),
    /// Any value between two bounds.
    Between {
        /// Lowest value.
        from: T,
        /// Highest value.
        to: T,
        /// True for a logarithmic scale: equal factors are equally likely, instead of equal
        /// distances.
        is_logarithmic: bool,
    },
    /// One of these values, each equally likely.
    OneOf(Vec<T>),
}

impl<T: Quantity> Sampled<T> {
    /// Returns the values whose validity implies that of all: those of a choice, or the ends of a
    /// range.
    #[must_use]
    pub fn extremes(&self) -> Vec<T> {
        match self {
            Self::Fixed(value) => vec![*value],
            Self::Between { from, to, .. } => vec![*from, *to],
            Self::OneOf(values) => values.clone(),
        }
    }

    /// Returns the value at a fraction of the distribution, from 0 to less than 1.
    #[must_use]
    pub fn at(&self, fraction: f64) -> T {
        match self {
            Self::Fixed(value) => *value,
            Self::Between { from, to, is_logarithmic: false } => {
                T::from_number(from.number() + (to.number() - from.number()) * fraction)
            }
            Self::Between { from, to, is_logarithmic: true } => {
                let (from, to) = (libm::log(from.number()), libm::log(to.number()));
                T::from_number(libm::exp(from + (to - from) * fraction))
            }
            Self::OneOf(values) => values[index_of(values.len(), fraction)],
        }
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a place in a list that a file has"
)]
fn index_of(length: usize, fraction: f64) -> usize {
    ((length as f64 * fraction) as usize).min(length - 1)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound = "T: Deserialize<'de>")]
struct Table<T> {
    from: Option<T>,
    to: Option<T>,
    #[serde(default)]
    scale: Scale,
    one_of: Option<Vec<T>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Scale {
    #[default]
    Even,
    Log,
}

impl<T: Quantity> Table<T> {
    fn validate(self) -> Result<Sampled<T>, String> {
        let form = "write a value, { from = ..., to = ... } or { one_of = [...] }";
        match (self.from, self.to, self.one_of) {
            (None, None, Some(values)) if !values.is_empty() && self.scale == Scale::Even => {
                Ok(Sampled::OneOf(values))
            }
            (Some(from), Some(to), None) => {
                if from.number() > to.number() {
                    return Err(format!("`from` is above `to`: write the smaller {} first", T::WHAT));
                }
                let is_logarithmic = self.scale == Scale::Log;
                if is_logarithmic && from.number() <= 0.0 {
                    return Err(
                        "`from` is 0, which `scale = \"log\"` does not support: set more, or omit `scale`"
                            .to_owned(),
                    );
                }
                Ok(Sampled::Between { from, to, is_logarithmic })
            }
            _ => Err(format!("invalid {}: {form}", T::WHAT)),
        }
    }
}

struct SampledVisitor<T>(PhantomData<T>);

impl<'de, T> Visitor<'de> for SampledVisitor<T>
where
    T: Quantity + Deserialize<'de>,
    T::Err: fmt::Display,
{
    type Value = Sampled<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} in quotes, {{ from = ..., to = ... }} or {{ one_of = [...] }}", T::WHAT)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        text.parse().map(Sampled::Fixed).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let table = Table::deserialize(MapAccessDeserializer::new(map))?;
        table.validate().map_err(de::Error::custom)
    }
}

impl<'de, T> Deserialize<'de> for Sampled<T>
where
    T: Quantity + Deserialize<'de>,
    T::Err: fmt::Display,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SampledVisitor(PhantomData))
    }
}

impl<T> JsonSchema for Sampled<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Sampled".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string or table" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DurationSetting;

    #[derive(Debug, Deserialize)]
    struct File {
        delay: Sampled<DurationSetting>,
    }

    fn read(value: &str) -> Result<Sampled<DurationSetting>, String> {
        let file: Result<File, _> = toml::from_str(&format!("delay = {value}\n"));
        file.map(|file| file.delay).map_err(|error| error.message().to_owned())
    }

    fn millis(drawn: &Sampled<DurationSetting>, fraction: f64) -> u64 {
        drawn.at(fraction).0.as_millis()
    }

    #[test]
    fn a_value_is_always_the_same() {
        let fixed = read("\"50 ms\"").expect("a time");
        assert_eq!([0.0, 0.999].map(|fraction| millis(&fixed, fraction)), [50, 50]);
    }

    #[test]
    fn between_two_values_each_distance_or_each_factor_is_as_likely() {
        let even = read("{ from = \"10 ms\", to = \"90 ms\" }").expect("a range");
        assert_eq!([0.0, 0.5, 0.75].map(|fraction| millis(&even, fraction)), [10, 50, 70]);
        let log = read("{ from = \"10 ms\", to = \"1 s\", scale = \"log\" }").expect("a range");
        assert_eq!(millis(&log, 0.5), 100);
    }

    #[test]
    fn one_of_several_is_chosen() {
        let choice = read("{ one_of = [\"1 ms\", \"2 ms\", \"3 ms\"] }").expect("a choice");
        assert_eq!([0.0, 0.34, 0.99].map(|fraction| millis(&choice, fraction)), [1, 2, 3]);
    }

    #[test]
    fn what_cannot_be_drawn_is_refused_with_a_remedy() {
        for (value, words) in [
            ("50", "a time in quotes"),
            ("\"50\"", "as in \"200 ms\""),
            ("{ from = \"2 s\", to = \"1 s\" }", "write the smaller time first"),
            ("{ from = \"0 s\", to = \"1 s\", scale = \"log\" }", "omit `scale`"),
            ("{ one_of = [] }", "invalid time"),
            ("{ from = \"1 s\" }", "invalid time"),
            ("{ from = \"1 s\", until = \"2 s\" }", "until"),
        ] {
            let error = read(value).expect_err(value);
            assert!(error.contains(words), "{value}: {error}");
        }
    }
}
