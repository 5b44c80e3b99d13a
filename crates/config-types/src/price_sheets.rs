//! Validated prices of a network's relays.

use std::collections::BTreeMap;

use byway_plan::{
    Currency, Destination, DestinationPrice, PricePerGigabyte, PriceSheet, Tariff, TierRange, World,
};
use byway_units::{Bytes, Money};

use crate::prices::{DestinationSetting, PricesSetting, TierSetting};
use crate::problem::{KeyPath, Problem, Source};
use crate::quantities::BytesSetting;

/// Validated price sheets of a network's relays, by the relay's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriceSheets(BTreeMap<String, PriceSheet>);

impl PriceSheets {
    /// Validates the prices of all relays of a network. Each entry has the path of its `prices`
    /// table and the relay's name.
    ///
    /// # Errors
    /// If a sheet is invalid, names a provider, region or currency that is not known, or has
    /// another currency than the sheet before.
    pub fn check<'a>(
        typed: impl Iterator<Item = (KeyPath, &'a str, &'a PricesSetting)>,
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
    #[must_use]
    pub fn sheet(&self, relay: &str) -> Option<&PriceSheet> {
        self.0.get(relay)
    }

    /// Returns the names of all relays with prices, and their prices.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &PriceSheet)> {
        self.0.iter().map(|(relay, sheet)| (relay.as_str(), sheet))
    }

    /// Returns the destination by which a relay's bytes to another relay are billed.
    #[must_use]
    pub fn destination(&self, sheet: &PriceSheet, to: Option<&str>) -> Destination {
        let other = to.and_then(|to| self.0.get(to));
        other.map_or(Destination::Internet, |other| sheet.destination(&other.provider, &other.region))
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
    fn sheet(&self, typed: &PricesSetting) -> Result<PriceSheet, Problem> {
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
    fn listed(&self, typed: &PricesSetting, currency: Currency) -> Result<PriceSheet, Problem> {
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
    fn to_internet(&self, typed: &PricesSetting) -> Result<Option<DestinationPrice>, Problem> {
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
        typed: &[DestinationSetting],
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
    fn destination(&self, here: &KeyPath, typed: &DestinationSetting) -> Result<Destination, Problem> {
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

    fn tiers(&self, here: &KeyPath, typed: &[TierSetting], included: Bytes) -> Result<Tariff, Problem> {
        let volume = |typed: Option<BytesSetting>| typed.map(|bytes| bytes.0);
        let range = |tier: &TierSetting| TierRange {
            from: volume(tier.from),
            to: volume(tier.to),
            price: tier.price.0,
        };
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
