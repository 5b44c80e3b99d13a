//! Cost of relays' bytes at list prices.

use super::measure::Traffic;

/// A provider's list prices in USD for a gigabyte (10^9 bytes), smallest tier, for an ingress relay
/// in the eastern United States and an egress relay in western Europe. A round trip of 100 ms
/// suggests this pair of regions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PriceList {
    pub(crate) provider: &'static str,
    pub(crate) regions: &'static str,
    between_regions: f64,
    to_internet: f64,
    pub(crate) source: &'static str,
}

const GIB: f64 = 1.073_741_824;

/// Prices as collected by github.com/skyplane-project/skyplane (profiles, Apache-2.0) and
/// github.com/Cyclenerd/google-cloud-pricing-cost-calculator (Apache-2.0).
pub(crate) const PRICE_LISTS: [PriceList; 3] = [
    PriceList {
        provider: "AWS",
        regions: "us-east-1, eu-central-1",
        between_regions: 0.02,
        to_internet: 0.09,
        source: "April 2023, skyplane",
    },
    PriceList {
        provider: "Azure",
        regions: "eastus, westeurope",
        between_regions: 0.05,
        to_internet: 0.0875,
        source: "February 2023, skyplane",
    },
    PriceList {
        provider: "Google Cloud",
        regions: "us-east4, europe-west3",
        between_regions: 0.08,
        // Listed for a GiB.
        to_internet: 0.12 / GIB,
        source: "February 2023, skyplane; to the Internet July 2026, Cyclenerd",
    },
];

impl PriceList {
    /// Returns the list price of an hour of this traffic, in US cents. `traffic` was measured over
    /// `seconds`.
    pub(crate) fn cents_per_hour(&self, traffic: &Traffic, seconds: f64) -> f64 {
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        let dollars = gigabytes(traffic.between_relays) * self.between_regions
            + gigabytes(traffic.relays_to_agents) * self.to_internet;
        dollars * 100.0 * 3_600.0 / seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_egress_are_charged_and_scaled_to_an_hour() {
        let traffic =
            Traffic { between_relays: 1_000_000_000, relays_to_agents: 2_000_000_000, ..Traffic::default() };
        let cents = PRICE_LISTS[0].cents_per_hour(&traffic, 1_800.0);
        assert!((cents - 2.0 * (2.0 + 18.0)).abs() < 1e-9, "{cents}");
        let free = Traffic { direct: 7, senders_to_relays: 8, receivers_to_relays: 9, ..Traffic::default() };
        assert!(PRICE_LISTS[1].cents_per_hour(&free, 1.0).abs() < 1e-12);
    }
}
