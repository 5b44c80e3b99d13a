//! Prices of one relay: of its bytes by destination, of its port and of its machine.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use core::fmt;

use byway_units::{Bytes, Money};
use thiserror::Error;

use crate::currency::Currency;
use crate::locations::World;
use crate::price::{PricePerGigabyte, Tariff};

/// Destination of a relay's bytes, as providers distinguish them by price.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Destination {
    /// Endpoints, and relays without a price of their own.
    Internet,
    /// Relays at a provider, in any of its regions.
    Provider(String),
    /// Relays in one region of a provider.
    Region {
        /// Name of the provider.
        provider: String,
        /// Name of its region.
        region: String,
    },
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Internet => f.write_str("Internet"),
            Self::Provider(provider) => f.write_str(provider),
            Self::Region { provider, region } => write!(f, "{provider} {region}"),
        }
    }
}

/// Tariff of the bytes to one destination, and the volume that the operator expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestinationPrice {
    /// Tariff of the bytes.
    pub tariff: Tariff,
    /// Volume of a month that is expected while no volume is measured. It decides the tier of the
    /// next byte.
    pub expected: Bytes,
}

impl DestinationPrice {
    /// Returns a price for each volume, the same for every byte.
    #[must_use]
    pub fn fixed(price: PricePerGigabyte) -> Self {
        Self { tariff: Tariff::fixed(price), expected: Bytes::ZERO }
    }
}

/// Prices of one relay, as its provider bills them.
///
/// A port at a flat rate or at the 95th percentile is the tariff to the Internet. It carries all
/// bytes of the relay. So no other destination has a price then, and incoming bytes have none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceSheet {
    /// Currency of all prices.
    pub currency: Currency,
    /// Provider of the relay's machine.
    pub provider: String,
    /// Region of the provider in which the machine is.
    pub region: String,
    /// Price of bytes that the relay receives.
    pub incoming: PricePerGigabyte,
    /// Price of bytes that the relay sends to endpoints, and to relays of no listed destination.
    pub to_internet: DestinationPrice,
    /// Prices of bytes that the relay sends to relays at other destinations.
    pub to: BTreeMap<Destination, DestinationPrice>,
    /// Price of the relay's machine for an hour.
    pub machine_per_hour: Money,
}

/// Reason why a price sheet is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct PriceSheetError {
    /// Key of the sheet with the wrong value.
    pub key: &'static str,
    /// Problem, with the remedy.
    pub message: String,
}

impl PriceSheet {
    /// Returns the sheet of a region in Byway's own list, [`World::built_in`]: list prices in US
    /// dollars, in the first tier.
    ///
    /// # Errors
    /// If the list has no such provider, or no such region of it.
    pub fn listed(provider: &str, region: &str) -> Result<Self, PriceSheetError> {
        let regions = World::built_in().regions;
        let of_provider = |id: &str| id.split_once(':').is_some_and(|(name, _)| name == provider);
        let id = format!("{provider}:{region}");
        if let Some(found) = regions.iter().find(|known| known.id == id) {
            let to_regions = DestinationPrice::fixed(found.to_regions);
            return Ok(Self {
                currency: Currency::USD,
                provider: provider.to_owned(),
                region: region.to_owned(),
                incoming: PricePerGigabyte::FREE,
                to_internet: DestinationPrice::fixed(found.to_internet),
                to: BTreeMap::from([(Destination::Provider(provider.to_owned()), to_regions)]),
                machine_per_hour: found.machine_per_hour,
            });
        }
        let known = regions.iter().filter(|known| of_provider(&known.id));
        let names = known.filter_map(|known| known.id.split_once(':').map(|(_, name)| name));
        let names = names.collect::<alloc::vec::Vec<_>>().join(", ");
        let (key, problem) = if names.is_empty() {
            ("provider", format!("unknown provider {provider:?}: Byway's list has aws and gcp"))
        } else {
            ("region", format!("unknown region {region:?}: Byway's list of {provider} has {names}"))
        };
        Err(PriceSheetError { key, message: format!("{problem}; or state prices by `egress`") })
    }

    /// Checks that no price is negative, and that a port's price is the only price of bytes.
    ///
    /// # Errors
    /// If one is not as it should be.
    pub fn check(&self) -> Result<(), PriceSheetError> {
        let error = |key, message: &str| Err(PriceSheetError { key, message: message.to_owned() });
        if self.incoming.money() < Money::ZERO {
            return error("ingress", "negative price: set 0 or more");
        }
        if self.machine_per_hour < Money::ZERO {
            return error("machine", "negative price: set 0 or more");
        }
        let key = match &self.to_internet.tariff {
            Tariff::PerGigabyte(_) => return Ok(()),
            Tariff::FlatRate { port_per_month, .. } if *port_per_month < Money::ZERO => {
                return error("flat_rate", "negative price: set 0 or more");
            }
            Tariff::PerMegabit { per_month } if *per_month < Money::ZERO => {
                return error("percentile_95", "negative price: set 0 or more");
            }
            Tariff::FlatRate { .. } => "flat_rate",
            Tariff::PerMegabit { .. } => "percentile_95",
        };
        if !self.to.is_empty() || self.incoming != PricePerGigabyte::FREE {
            let message = "the port's price includes all bytes: delete it, or the prices of bytes (`egress`, \
                           `ingress`, `included`, `to`)";
            return error(key, message);
        }
        Ok(())
    }

    /// Returns the destination by which bytes to a relay of this provider and region are billed:
    /// the most specific one that the sheet lists.
    #[must_use]
    pub fn destination(&self, provider: &str, region: &str) -> Destination {
        let of_region = Destination::Region { provider: provider.to_owned(), region: region.to_owned() };
        let of_provider = Destination::Provider(provider.to_owned());
        [of_region, of_provider]
            .into_iter()
            .find(|to| self.to.contains_key(to))
            .unwrap_or(Destination::Internet)
    }

    /// Returns the price of a destination; that of the Internet for one that the sheet does not
    /// list.
    #[must_use]
    pub fn price_to(&self, to: &Destination) -> &DestinationPrice {
        self.to.get(to).unwrap_or(&self.to_internet)
    }

    /// Returns all destinations of the sheet, the Internet first.
    pub fn destinations(&self) -> impl Iterator<Item = (Destination, &DestinationPrice)> {
        let named = self.to.iter().map(|(to, price)| (to.clone(), price));
        core::iter::once((Destination::Internet, &self.to_internet)).chain(named)
    }

    /// Returns the prices of the next bytes, if a month has these volumes by destination.
    #[must_use]
    pub fn marginal(&self, volume: impl Fn(&Destination) -> Bytes) -> MarginalPrices {
        let next = |(to, price): (Destination, &DestinationPrice)| {
            let next = price.tariff.marginal(volume(&to));
            (to, next)
        };
        MarginalPrices {
            currency: self.currency,
            incoming: self.incoming,
            outgoing: self.destinations().map(next).collect(),
            machine_per_hour: self.machine_per_hour,
        }
    }

    /// Returns the prices of the next bytes at the volumes that the operator expects.
    #[must_use]
    pub fn marginal_as_expected(&self) -> MarginalPrices {
        self.marginal(|to| self.price_to(to).expected)
    }
}

/// Prices of a relay's next bytes. A service is chosen by them, because a flow that begins or
/// changes pays for bytes that come on top of the month's others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarginalPrices {
    /// Currency of all prices.
    pub currency: Currency,
    /// Price of the next bytes that the relay receives.
    pub incoming: PricePerGigabyte,
    /// Prices of the next bytes that the relay sends, by destination.
    pub outgoing: BTreeMap<Destination, PricePerGigabyte>,
    /// Price of the relay's machine for an hour.
    pub machine_per_hour: Money,
}

impl MarginalPrices {
    /// Returns the price of the next bytes to a destination; that of the Internet for one without a
    /// price.
    #[must_use]
    pub fn to(&self, to: &Destination) -> PricePerGigabyte {
        let price = self.outgoing.get(to).or_else(|| self.outgoing.get(&Destination::Internet));
        price.copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;
    use byway_units::Rate;

    use super::*;
    use crate::price::{GIGABYTE, Tier};

    fn cents(cents: i64) -> PricePerGigabyte {
        PricePerGigabyte::new(Money::from_cents(cents))
    }

    fn sheet() -> PriceSheet {
        PriceSheet::listed("aws", "eu-central-1").expect("it is listed")
    }

    #[test]
    fn listed_regions_have_prices_and_others_are_refused_by_name() {
        let sheet = sheet();
        assert_eq!(sheet.to_internet, DestinationPrice::fixed(cents(9)));
        assert_eq!(sheet.destination("aws", "us-east-1"), Destination::Provider("aws".to_owned()));
        assert_eq!(sheet.destination("gcp", "us-east1"), Destination::Internet);
        assert_eq!(sheet.check(), Ok(()));
        let error = PriceSheet::listed("aws", "moon-1").expect_err("no such region");
        assert!(error.key == "region" && error.message.contains("\"moon-1\""), "{error}");
        assert!(error.message.contains("eu-central-1") && error.message.contains("`egress`"), "{error}");
        let error = PriceSheet::listed("acme", "moon-1").expect_err("no such provider");
        assert!(error.key == "provider" && error.message.contains("aws and gcp"), "{error}");
    }

    #[test]
    fn the_most_specific_destination_counts() {
        let mut sheet = sheet();
        let of_region = Destination::Region { provider: "aws".to_owned(), region: "us-east-1".to_owned() };
        sheet.to.insert(of_region.clone(), DestinationPrice::fixed(cents(1)));
        assert_eq!(sheet.destination("aws", "us-east-1"), of_region);
        assert_eq!(sheet.price_to(&of_region), &DestinationPrice::fixed(cents(1)));
        assert_eq!(sheet.destination("aws", "us-west-2"), Destination::Provider("aws".to_owned()));
        let names = sheet.destinations().map(|(to, _)| to.to_string());
        assert_eq!(names.collect::<Vec<_>>(), ["Internet", "aws", "aws us-east-1"]);
    }

    #[test]
    fn the_price_of_the_next_byte_is_that_of_the_volume() {
        let tiers = vec![
            Tier { from: Bytes::ZERO, price: cents(9) },
            Tier { from: GIGABYTE * 10_000, price: cents(5) },
        ];
        let mut sheet = sheet();
        let to_internet =
            DestinationPrice { tariff: Tariff::PerGigabyte(tiers), expected: GIGABYTE * 20_000 };
        sheet.to_internet = to_internet;
        assert_eq!(sheet.marginal_as_expected().to(&Destination::Internet), cents(5));
        assert_eq!(sheet.marginal(|_| GIGABYTE).to(&Destination::Internet), cents(9));
        let unknown = Destination::Provider("acme".to_owned());
        assert_eq!(sheet.marginal_as_expected().to(&unknown), cents(5));
    }

    #[test]
    fn negative_prices_and_prices_beside_a_port_are_refused_by_key() {
        let minus = Money::from_cents(-1);
        let port =
            |port_per_month| Tariff::FlatRate { port_per_month, port: Rate::from_megabits_per_second(1) };
        let with = |tariff| PriceSheet {
            to: BTreeMap::new(),
            to_internet: DestinationPrice { tariff, expected: Bytes::ZERO },
            ..sheet()
        };
        let per_megabit = |per_month| with(Tariff::PerMegabit { per_month });
        assert_eq!(per_megabit(Money::ZERO).check(), Ok(()));
        for (sheet, key, problem) in [
            (PriceSheet { incoming: PricePerGigabyte::new(minus), ..sheet() }, "ingress", "negative"),
            (PriceSheet { machine_per_hour: minus, ..sheet() }, "machine", "negative"),
            (with(port(minus)), "flat_rate", "negative"),
            (per_megabit(minus), "percentile_95", "negative"),
            (PriceSheet { incoming: cents(1), ..with(port(Money::ZERO)) }, "flat_rate", "all bytes"),
            (PriceSheet { to: sheet().to, ..per_megabit(Money::ZERO) }, "percentile_95", "all bytes"),
        ] {
            let error = sheet.check().expect_err(problem);
            assert!(error.key == key && error.message.contains(problem), "{error:?}");
        }
    }
}
