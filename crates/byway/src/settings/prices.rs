//! Validated prices of a network's relays.

use std::collections::BTreeMap;

use byway_api::{PriceToRelay, RelayPrices};
use byway_config_types::{BytesSetting, KeyPath, Problem, Source};
use byway_plan::{
    Currency, Destination, DestinationPrice, MarginalPrices, PricePerGigabyte, PriceSheet, Tariff, TierRange,
    World,
};
use byway_units::{Bytes, Money};

use super::raw_prices::{RawDestination, RawPrices, RawTier};

/// Validated price sheets of a network's relays, by the relay's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NetworkPrices(BTreeMap<String, PriceSheet>);

impl NetworkPrices {
    /// Validates the prices of all relays of a network. Each entry has the path of its `prices`
    /// table and the relay's name.
    ///
    /// # Errors
    /// If a sheet is invalid, names a provider, region or currency that is not known, or has
    /// another currency than the sheet before.
    pub(super) fn check<'a>(
        typed: impl Iterator<Item = (KeyPath, &'a str, &'a RawPrices)>,
        source: &Source,
    ) -> Result<Self, Problem> {
        let typed: Vec<_> = typed.collect();
        let known: Vec<(&str, &str)> =
            typed.iter().map(|(_, _, prices)| (prices.provider.as_str(), prices.region.as_str())).collect();
        let mut sheets = BTreeMap::new();
        let mut first: Option<(Currency, &str)> = None;
        for (here, relay, prices) in &typed {
            let checker = SheetChecker { here, relay, source, known: &known };
            let sheet = checker.sheet(prices)?;
            let (currency, of) = *first.get_or_insert((sheet.currency, relay));
            if currency != sheet.currency {
                let message = format!(
                    "{} differs from {currency} of relay {of:?}: state the prices of all relays in one currency",
                    sheet.currency
                );
                return Err(checker.problem(&here.key("currency"), message));
            }
            sheets.insert((*relay).to_owned(), sheet);
        }
        Ok(Self(sheets))
    }

    /// Returns the prices of the relay with this name; `None` if they are not known.
    pub(crate) fn sheet(&self, relay: &str) -> Option<&PriceSheet> {
        self.0.get(relay)
    }

    /// Returns the destination by which a relay's bytes to another relay are billed.
    pub(crate) fn destination(&self, sheet: &PriceSheet, to: Option<&str>) -> Destination {
        let other = to.and_then(|to| self.0.get(to));
        other.map_or(Destination::Internet, |other| sheet.destination(&other.provider, &other.region))
    }

    /// Returns the prices of the relays' next bytes, by the relay's number. `next` computes those
    /// of one. Relays without a number are not in the network (yet).
    pub(crate) fn entries(
        &self,
        numbers: &BTreeMap<&str, u32>,
        mut next: impl FnMut(u32, &PriceSheet) -> MarginalPrices,
    ) -> BTreeMap<u32, RelayPrices> {
        let with_number = |(relay, sheet)| Some((*numbers.get(relay)?, sheet));
        let sheets: Vec<(u32, &PriceSheet)> =
            self.0.iter().map(|(relay, sheet)| (relay.as_str(), sheet)).filter_map(with_number).collect();
        let entry = |(number, sheet): &(u32, &PriceSheet)| {
            let others = sheets.iter().filter(|(other, _)| other != number);
            (*number, entry(sheet, &next(*number, sheet), others.copied()))
        };
        sheets.iter().map(entry).collect()
    }
}

/// Returns the prices of a relay's next bytes in the form of maps. `others` are the numbers and
/// sheets of other relays.
pub(crate) fn entry<'a>(
    sheet: &PriceSheet,
    next: &MarginalPrices,
    others: impl Iterator<Item = (u32, &'a PriceSheet)>,
) -> RelayPrices {
    let to_internet = next.to(&Destination::Internet);
    let to_relays = others.filter_map(|(relay, other)| {
        let price = next.to(&sheet.destination(&other.provider, &other.region));
        let nanounits_per_gigabyte = price.money().nanodollars();
        (price != to_internet).then_some(PriceToRelay { relay, nanounits_per_gigabyte })
    });
    RelayPrices {
        currency: next.currency.code().to_owned(),
        ingress_nanounits_per_gigabyte: next.incoming.money().nanodollars(),
        egress_nanounits_per_gigabyte: to_internet.money().nanodollars(),
        machine_nanounits_per_hour: next.machine_per_hour.nanodollars(),
        to_relays: to_relays.collect(),
    }
}

/// Validator of one relay's prices.
struct SheetChecker<'a> {
    here: &'a KeyPath,
    relay: &'a str,
    source: &'a Source,
    /// Providers and regions of all relays with prices.
    known: &'a [(&'a str, &'a str)],
}

impl SheetChecker<'_> {
    fn sheet(&self, typed: &RawPrices) -> Result<PriceSheet, Problem> {
        for (key, name) in [("provider", &typed.provider), ("region", &typed.region)] {
            if name.is_empty() || name.len() > 63 || name.chars().any(|c| c.is_control() || c == ':') {
                let message = "invalid name: write 1 to 63 characters without a colon";
                return Err(self.problem(&self.here.key(key), message));
            }
        }
        let currency = typed.currency.as_deref().map_or(Ok(Currency::USD), str::parse);
        let currency = currency.map_err(|error| {
            let code = typed.currency.as_deref().unwrap_or_default();
            self.problem(&self.here.key("currency"), format!("{code:?}: {error}"))
        })?;
        let Some(to_internet) = self.to_internet(typed)? else {
            return self.listed(typed, currency);
        };
        let sheet = PriceSheet {
            currency,
            provider: typed.provider.clone(),
            region: typed.region.clone(),
            incoming: typed.ingress.map_or(PricePerGigabyte::FREE, |price| price.0),
            to_internet,
            to: self.destinations(&typed.to)?,
            machine_per_hour: typed.machine.map_or(Money::ZERO, |price| price.0),
        };
        sheet.check().map_err(|error| self.problem(&self.here.key(error.key), error.message))?;
        Ok(sheet)
    }

    /// Returns the sheet of Byway's list, with the typed prices of machine and incoming bytes.
    fn listed(&self, typed: &RawPrices, currency: Currency) -> Result<PriceSheet, Problem> {
        for (key, is_set) in [
            ("included", typed.included.is_some()),
            ("expected_egress", typed.expected_egress.is_some()),
            ("to", !typed.to.is_empty()),
        ] {
            if is_set {
                let message = "no price of bytes to the Internet: set `egress` too";
                return Err(self.problem(&self.here.key(key), message));
            }
        }
        let listed = PriceSheet::listed(&typed.provider, &typed.region)
            .map_err(|error| self.problem(&self.here.key(error.key), error.message))?;
        if currency != listed.currency {
            let message = "Byway's list is in USD: state prices by `egress`, or delete `currency`";
            return Err(self.problem(&self.here.key("currency"), message));
        }
        let sheet = PriceSheet {
            incoming: typed.ingress.map_or(listed.incoming, |price| price.0),
            machine_per_hour: typed.machine.map_or(listed.machine_per_hour, |price| price.0),
            ..listed
        };
        sheet.check().map_err(|error| self.problem(&self.here.key(error.key), error.message))?;
        Ok(sheet)
    }

    /// Returns the price of bytes to the Internet, or of the port; `None` if neither is set.
    fn to_internet(&self, typed: &RawPrices) -> Result<Option<DestinationPrice>, Problem> {
        let kinds = [
            ("egress", !typed.egress.is_empty()),
            ("flat_rate", typed.flat_rate.is_some()),
            ("percentile_95", typed.percentile_95.is_some()),
        ];
        let set: Vec<&'static str> =
            kinds.iter().filter(|(_, is_set)| *is_set).map(|(key, _)| *key).collect();
        if let [first, second, ..] = set.as_slice() {
            let message = format!("`{first}` is set too: a relay has one of them");
            return Err(self.problem(&self.here.key(second), message));
        }
        if let (Some(_), Some(kind @ ("flat_rate" | "percentile_95"))) =
            (typed.included, set.first().copied())
        {
            let message = format!("`{kind}` is set too, which includes all bytes: delete one of them");
            return Err(self.problem(&self.here.key("included"), message));
        }
        let included = typed.included.map_or(Bytes::ZERO, |included| included.0);
        let tariff = if let Some(flat) = &typed.flat_rate {
            if flat.rate.0.bits_per_second() == 0 {
                let message = "port without a rate: set at least 1 bit/s";
                return Err(self.problem(&self.here.key("flat_rate").key("rate"), message));
            }
            Tariff::FlatRate { port_per_month: flat.price.0, port: flat.rate.0 }
        } else if let Some(price) = typed.percentile_95 {
            Tariff::PerMegabit { per_month: price.0 }
        } else if typed.egress.is_empty() {
            return Ok(None);
        } else {
            self.tiers(&self.here.key("egress"), &typed.egress, included)?
        };
        Ok(Some(DestinationPrice { tariff, expected: bytes(typed.expected_egress) }))
    }

    fn destinations(
        &self,
        typed: &[RawDestination],
    ) -> Result<BTreeMap<Destination, DestinationPrice>, Problem> {
        let mut prices = BTreeMap::new();
        for (index, typed) in typed.iter().enumerate() {
            let here = self.here.key("to").index(index);
            let to = self.destination(&here, typed)?;
            let tariff = self.tiers(&here.key("egress"), &typed.egress, Bytes::ZERO)?;
            let price = DestinationPrice { tariff, expected: bytes(typed.expected_egress) };
            if prices.insert(to.clone(), price).is_some() {
                return Err(self.problem(&here, format!("duplicate destination {to}: delete one of them")));
            }
        }
        Ok(prices)
    }

    /// Returns a destination. Fails if neither a relay with prices nor Byway's list has it.
    fn destination(&self, here: &KeyPath, typed: &RawDestination) -> Result<Destination, Problem> {
        let listed = World::built_in().regions;
        let listed = listed.iter().filter_map(|region| region.id.split_once(':'));
        let known: Vec<(&str, &str)> = self.known.iter().copied().chain(listed).collect();
        let names = |names: Vec<&str>| {
            let mut names = names;
            names.sort_unstable();
            names.dedup();
            names.join(", ")
        };
        let regions: Vec<&str> = known
            .iter()
            .filter(|(provider, _)| *provider == typed.provider)
            .map(|(_, region)| *region)
            .collect();
        if regions.is_empty() {
            let providers = names(known.iter().map(|(provider, _)| *provider).collect());
            let message =
                format!("unknown provider {:?}: no relay is there, only at {providers}", typed.provider);
            return Err(self.problem(&here.key("provider"), message));
        }
        let provider = typed.provider.clone();
        match &typed.region {
            None => Ok(Destination::Provider(provider)),
            Some(region) if regions.contains(&region.as_str()) => {
                Ok(Destination::Region { provider, region: region.clone() })
            }
            Some(region) => {
                let regions = names(regions);
                let message = format!("unknown region {region:?}: {provider} is known in {regions}");
                Err(self.problem(&here.key("region"), message))
            }
        }
    }

    fn tiers(&self, here: &KeyPath, typed: &[RawTier], included: Bytes) -> Result<Tariff, Problem> {
        let volume = |typed: Option<BytesSetting>| typed.map(|bytes| bytes.0);
        let range =
            |tier: &RawTier| TierRange { from: volume(tier.from), to: volume(tier.to), price: tier.price.0 };
        let ranges: Vec<TierRange> = typed.iter().map(range).collect();
        Tariff::from_ranges(&ranges, included).map_err(|error| {
            let here = error.index.map_or_else(|| here.clone(), |index| here.index(index).key(error.key));
            self.problem(&here, error.message)
        })
    }

    /// Returns a problem that names the relay.
    fn problem(&self, path: &KeyPath, message: impl std::fmt::Display) -> Problem {
        self.source.problem(path, format!("prices of relay {:?}: {message}", self.relay))
    }
}

fn bytes(typed: Option<BytesSetting>) -> Bytes {
    typed.map_or(Bytes::ZERO, |bytes| bytes.0)
}

#[cfg(test)]
mod tests;
