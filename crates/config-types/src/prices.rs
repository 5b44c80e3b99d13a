//! Prices of relays as typed. The doc comments here are part of reference pages.

use std::str::FromStr;

use byway_plan::{GIGABYTE, PricePerGigabyte};
use byway_units::{Bytes, Money};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::quantities::{BytesSetting, RateSetting};

/// Prices of a relay, as its provider bills them. `byway cost` and the choice of services use them.
/// Without them, services are compared by nominal prices.
///
/// `egress`, `flat_rate` and `percentile_95` exclude one another. If none of them is set, the
/// prices are those of Byway's own list for the region.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PricesSetting {
    /// Provider of the relay's machine, as in `aws`.
    pub(crate) provider: String,
    /// Region of the provider in which the machine is, as in `eu-central-1`.
    pub(crate) region: String,
    /// Currency of all prices, the same for all relays, as its ISO 4217 code. Default: `USD`.
    pub(crate) currency: Option<String>,
    /// Price of bytes that the relay sends to agents, and to relays without a price in `to`.
    #[serde(default)]
    pub(crate) egress: Vec<TierSetting>,
    /// Volume of a month that the machine's price includes, of the bytes that `egress` is for.
    /// Default: none.
    pub(crate) included: Option<BytesSetting>,
    /// Volume of a month that is expected, of the bytes that `egress` is for. It decides which tier
    /// the next byte has. Default: 0 bytes, the first tier.
    pub(crate) expected_egress: Option<BytesSetting>,
    /// Price of bytes that the relay receives, as in `"0.01/GB"`. Default: free.
    pub(crate) ingress: Option<BytesPriceSetting>,
    /// Port at a flat rate, for all bytes.
    pub(crate) flat_rate: Option<FlatRateSetting>,
    /// Price of a port for all bytes by the 95th percentile of a month's five-minute samples, of
    /// the direction with more, as in `"1.20/Mbit/s"`.
    pub(crate) percentile_95: Option<MegabitPriceSetting>,
    /// Price of the machine, as in `"0.05/h"`. Default: that of Byway's list, if it has the region
    /// and none of the other prices are set; else 0.
    pub(crate) machine: Option<HourPriceSetting>,
    /// Prices of bytes to relays at a provider, or in one region of it.
    #[serde(default)]
    pub(crate) to: Vec<DestinationSetting>,
}

/// Step of a price that changes with the volume of a calendar month.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TierSetting {
    /// Volume of the month at which the step begins, as in `"10 TB"`. Default: the end of the step
    /// before; 0 of the first one.
    pub(crate) from: Option<BytesSetting>,
    /// Volume of the month at which the step ends. Default: the begin of the next step; the last
    /// one has no end.
    pub(crate) to: Option<BytesSetting>,
    /// Price of the bytes, as in `"0.09/GB"`; also by `GiB`, `TB` and `TiB`.
    pub(crate) price: BytesPriceSetting,
}

/// Price of bytes to relays at one provider.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DestinationSetting {
    /// Provider of those relays: of a relay with prices, or of Byway's list.
    pub(crate) provider: String,
    /// Region of those relays. Default: all regions of the provider.
    pub(crate) region: Option<String>,
    /// Price of the bytes.
    pub(crate) egress: Vec<TierSetting>,
    /// Volume of a month that is expected. Default: 0 bytes.
    pub(crate) expected_egress: Option<BytesSetting>,
}

/// Port at a flat rate.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlatRateSetting {
    /// Price of the port, as in `"20/month"`.
    pub(crate) price: MonthPriceSetting,
    /// Rate of the port, as in `"1 Gbit/s"`.
    pub(crate) rate: RateSetting,
}

/// Text that is no price.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid price {text:?}: write {form}; `currency` names the currency")]
pub(crate) struct PriceError {
    text: String,
    form: &'static str,
}

/// Defines the type of a price with a unit.
macro_rules! price_setting {
    ($(#[$about:meta])* $name:ident($of:ty), $form:literal, $parse:expr) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
        #[serde(try_from = "String")]
        #[schemars(with = "String")]
        pub(crate) struct $name(pub(crate) $of);

        impl FromStr for $name {
            type Err = PriceError;

            fn from_str(text: &str) -> Result<Self, PriceError> {
                let parse: fn(Money, &str) -> Option<$of> = $parse;
                let parsed = amount_and_unit(text).and_then(|(amount, unit)| parse(amount, unit));
                parsed.map(Self).ok_or(PriceError { text: text.to_owned(), form: $form })
            }
        }

        impl TryFrom<String> for $name {
            type Error = PriceError;

            fn try_from(text: String) -> Result<Self, PriceError> {
                text.parse()
            }
        }
    };
}

price_setting! {
    /// A price of bytes, like `0.09/GB`.
    BytesPriceSetting(PricePerGigabyte), "a number and /GB, /GiB, /TB or /TiB, as in \"0.09/GB\"",
    |amount, unit| {
        let bytes = match unit {
            "GB" => return Some(PricePerGigabyte::new(amount)),
            "GiB" => Bytes::new(1 << 30),
            "TB" => GIGABYTE * 1_000,
            "TiB" => Bytes::new(1 << 40),
            _ => return None,
        };
        Some(PricePerGigabyte::mean(amount, bytes))
    }
}

price_setting! {
    /// A price of an hour, like `0.05/h`.
    HourPriceSetting(Money), "a number and /h, as in \"0.05/h\"",
    |amount, unit| (unit == "h").then_some(amount)
}

price_setting! {
    /// A price of a month, like `20/month`.
    MonthPriceSetting(Money), "a number and /month, as in \"20/month\"",
    |amount, unit| (unit == "month").then_some(amount)
}

price_setting! {
    /// A price of a megabit per second for a month, like `1.20/Mbit/s`.
    MegabitPriceSetting(Money), "a number and /Mbit/s, as in \"1.20/Mbit/s\"",
    |amount, unit| (unit == "Mbit/s").then_some(amount)
}

/// Splits a price into its amount, with at most nine decimals, and its unit.
fn amount_and_unit(text: &str) -> Option<(Money, &str)> {
    let (number, unit) = text.trim().split_once('/')?;
    let number = number.trim_end();
    let (sign, digits) = number.strip_prefix('-').map_or((1, number), |digits| (-1, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || fraction.len() > 9 || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let nanounits: i64 = format!("{whole}{fraction:0<9}").parse().ok()?;
    Some((Money::from_nanodollars(sign * nanounits), unit.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_read_with_their_units() {
        let nanounits =
            |text: &str| text.parse::<BytesPriceSetting>().map(|price| price.0.money().nanodollars());
        assert_eq!(nanounits("0.09/GB"), Ok(90_000_000));
        assert_eq!(nanounits(" 0.12 / GiB "), Ok(111_758_708));
        assert_eq!(nanounits("1/TB"), Ok(1_000_000));
        assert_eq!(nanounits("-0.09/GB"), Ok(-90_000_000));
        assert_eq!(nanounits("0/GB"), Ok(0));
        assert_eq!("0.041600001/h".parse(), Ok(HourPriceSetting(Money::from_nanodollars(41_600_001))));
        assert_eq!("20/month".parse(), Ok(MonthPriceSetting(Money::from_dollars(20))));
        assert_eq!("1.20/Mbit/s".parse(), Ok(MegabitPriceSetting(Money::from_cents(120))));
    }

    #[test]
    fn what_is_no_price_is_refused_with_the_form_that_is() {
        for text in [
            "",
            "0.09",
            "/GB",
            "$0.09/GB",
            "0.09 USD/GB",
            "0.09/MB",
            "0.0000000001/GB",
            "1e3/GB",
            "9999999999999/GB",
            "--1/GB",
        ] {
            let error = text.parse::<BytesPriceSetting>().expect_err(text).to_string();
            assert!(error.contains("as in \"0.09/GB\"") && error.contains("`currency`"), "{error}");
        }
    }
}
