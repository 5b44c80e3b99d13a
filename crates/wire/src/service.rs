//! Services: the treatment of a flow by relays, and the set that a grant allows.

use crate::codes::{Code, codes};

codes! {
    /// Treatment of a flow by relays.
    pub enum Service {
        /// The direct path alone, without relays.
        Internet = 0,
        /// Repair packets, both in-stream and cross-stream.
        Coding = 1,
        /// Repair from copies in the egress relay's cache.
        Caching = 2,
        /// Delivery over the overlay, without the direct path.
        Forwarding = 3,
        /// Delivery over the overlay and over the direct path. The first arrival counts.
        Both = 4,
        /// Repair from copies that wait at the ingress relay until an egress relay fetches them.
        Pull = 5,
        /// Repair by the sender, which sends requested packets again through relays. It copies
        /// nothing else, except in an outage of the direct path.
        Retransmission = 6,
    }
}

impl Service {
    /// Returns the name of the service in files, messages and status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Internet => "internet",
            Self::Coding => "coding",
            Self::Caching => "caching",
            Self::Forwarding => "forwarding",
            Self::Both => "both",
            Self::Pull => "pull",
            Self::Retransmission => "retransmission",
        }
    }
}

/// Set of services that a grant allows.
///
/// Undefined bits are preserved, because the signature covers them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Services(u8);

impl Services {
    /// Set without services.
    pub const NONE: Self = Self(0);

    /// Set of all services of this version.
    pub const ALL: Self = Self(0b111_1111);

    /// Returns this set with `service`.
    #[must_use]
    pub const fn with(self, service: Service) -> Self {
        Self(self.0 | 1 << service as u8)
    }

    /// Returns this set without `service`.
    #[must_use]
    pub const fn without(self, service: Service) -> Self {
        Self(self.0 & !(1 << service as u8))
    }

    /// True if the set includes `service`.
    #[must_use]
    pub fn allow(self, service: Service) -> bool {
        self.0 >> service.code() & 1 == 1
    }

    /// Returns the services with these bits: bit n allows service n.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Returns the set as bits: bit n for service n.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_allowed_one_by_one() {
        let services = Services::NONE.with(Service::Caching).with(Service::Both);
        let allowed = Service::ALL.iter().filter(|service| services.allow(**service));
        assert!(allowed.eq(&[Service::Caching, Service::Both]) && services.bits() == 0b1_0100);
        assert_eq!(services.without(Service::Both), Services::NONE.with(Service::Caching));
        assert_eq!(services.without(Service::Coding), services);
        assert_eq!(Services::NONE.with(Service::Retransmission).bits(), 0b100_0000);
        assert_eq!(Service::ALL.iter().copied().fold(Services::NONE, Services::with), Services::ALL);
    }
}
