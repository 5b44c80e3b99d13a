//! What a flow asks of relays, and what a grant allows.

use crate::codes::{Code, codes};

codes! {
    /// What relays do for a flow.
    pub enum Service {
        /// Nothing of them: the direct path alone.
        Internet = 0,
        /// Repair packets, in-stream and cross-stream.
        Coding = 1,
        /// Repair from copies at the egress relay.
        Caching = 2,
        /// Delivery over the overlay, and no direct path.
        Forwarding = 3,
        /// Delivery over the overlay and over the direct path; what comes first counts.
        Both = 4,
    }
}

/// The services that a grant allows.
///
/// Bits without a meaning are kept: they are part of what is signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Services(u8);

impl Services {
    /// No service.
    pub const NONE: Self = Self(0);

    /// These and `service`.
    #[must_use]
    pub const fn with(self, service: Service) -> Self {
        Self(self.0 | 1 << service as u8)
    }

    /// Whether `service` is among them.
    #[must_use]
    pub fn allow(self, service: Service) -> bool {
        self.0 >> service.code() & 1 == 1
    }

    /// The services of these bits: bit n allows service n.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// The bits.
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
    }
}
