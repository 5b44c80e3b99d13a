//! Prices of relays, as maps carry them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Prices of a relay's next bytes, by which agents compare services. They change at most once a
/// day, and when the operator changes them.
///
/// Amounts are in billionths of the currency's unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RelayPrices {
    /// Currency of all amounts, as its ISO 4217 code.
    pub currency: String,
    /// Price of 10^9 bytes that the relay receives.
    pub ingress_nanounits_per_gigabyte: i64,
    /// Price of 10^9 bytes that the relay sends to agents, and to relays that `to_relays` does not
    /// list.
    pub egress_nanounits_per_gigabyte: i64,
    /// Price of the relay's machine for an hour.
    pub machine_nanounits_per_hour: i64,
    /// Prices of bytes to other relays, where they differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to_relays: Vec<PriceToRelay>,
}

/// Price of a relay's next bytes to another relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PriceToRelay {
    /// Number of the other relay.
    pub relay: u32,
    /// Price of 10^9 bytes, in billionths of the currency's unit.
    pub nanounits_per_gigabyte: i64,
}

impl RelayPrices {
    /// Returns the price of 10^9 bytes to another relay, in billionths of the currency's unit.
    #[must_use]
    pub fn to_relay(&self, relay: u32) -> i64 {
        let listed = self.to_relays.iter().find(|price| price.relay == relay);
        listed.map_or(self.egress_nanounits_per_gigabyte, |price| price.nanounits_per_gigabyte)
    }
}
