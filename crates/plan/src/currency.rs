//! Currencies of price sheets.

use core::fmt;
use core::str::FromStr;

use thiserror::Error;

/// Codes of ISO 4217 that a price sheet may name: those in which providers of machines bill.
const CODES: [&str; 20] = [
    "AUD", "BRL", "CAD", "CHF", "CNY", "CZK", "DKK", "EUR", "GBP", "HKD", "INR", "JPY", "KRW", "NOK", "NZD",
    "PLN", "SEK", "SGD", "USD", "ZAR",
];

/// Currency of a price sheet. [`Money`](byway_units::Money) counts billionths of its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency(&'static str);

/// Currency code that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "unknown currency: name one of AUD, BRL, CAD, CHF, CNY, CZK, DKK, EUR, GBP, HKD, INR, JPY, KRW, \
         NOK, NZD, PLN, SEK, SGD, USD, ZAR"
)]
pub struct UnknownCurrency;

impl Currency {
    /// US dollar, the currency if none is named.
    pub const USD: Self = Self("USD");

    /// Returns the code of ISO 4217.
    #[must_use]
    pub const fn code(self) -> &'static str {
        self.0
    }
}

impl Default for Currency {
    fn default() -> Self {
        Self::USD
    }
}

impl FromStr for Currency {
    type Err = UnknownCurrency;

    /// Parses a code in capitals, like `EUR`.
    fn from_str(code: &str) -> Result<Self, UnknownCurrency> {
        CODES.iter().find(|known| **known == code).map(|known| Self(known)).ok_or(UnknownCurrency)
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn every_code_is_known_and_in_the_error_and_no_other() {
        for code in CODES {
            assert_eq!(code.parse::<Currency>().map(Currency::code), Ok(code));
            assert!(UnknownCurrency.to_string().contains(code), "{code}");
        }
        for code in ["", "usd", "US", "DOGE", "XXX"] {
            assert_eq!(code.parse::<Currency>(), Err(UnknownCurrency), "{code}");
        }
        assert_eq!(Currency::default().to_string(), "USD");
    }
}
