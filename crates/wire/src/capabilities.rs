//! Capabilities: optional features that a session uses only if both sides support them.

use core::ops::BitAnd;

/// Set of a node's or a session's capabilities. Those that this version does not know are omitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(u16);

impl Capabilities {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// Capability of two relays: cross-stream repairs contain digests of the covered packets.
    pub const DIGESTS: Self = Self(1 << 0);
    /// Capability of two agents: source packets contain DSCPs.
    pub const DSCPS: Self = Self(1 << 3);

    /// Capability of two agents, and of an agent and a relay: the services pull and retransmission,
    /// and changes of a flow's service.
    pub const SERVICE_CHANGES: Self = Self(1 << 4);

    /// Capability of two relays: the egress relay sends loss reports, and the ingress relay adapts
    /// the redundancy of batches to them.
    pub const LOSS_REPORTS: Self = Self(1 << 5);

    /// Capability of two relays: transit requests, and transit packets. A relay with it need not
    /// pass on packets of others: it then refuses the requests.
    pub const TRANSIT: Self = Self(1 << 6);

    /// Capability of two agents: samples of the direct path while relays alone forward a flow whose
    /// sender selects the service.
    pub const DIRECT_SAMPLES: Self = Self(1 << 7);

    const KNOWN: u16 = Self::DIGESTS.0
        | Self::DSCPS.0
        | Self::SERVICE_CHANGES.0
        | Self::LOSS_REPORTS.0
        | Self::TRANSIT.0
        | Self::DIRECT_SAMPLES.0;

    /// Returns the union of both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the known capabilities among `bits`.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & Self::KNOWN)
    }

    /// Returns the bits of the set on the wire.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// True if this set includes all capabilities of `others`.
    #[must_use]
    pub const fn contain(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

impl BitAnd for Capabilities {
    type Output = Self;

    /// Returns the capabilities that both sides have: those in force.
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_capabilities_are_ignored() {
        assert_eq!(Capabilities::from_bits(0xFFFF).bits(), 0b1111_1001);
        assert_eq!(Capabilities::from_bits(0xFF06), Capabilities::NONE);
    }

    #[test]
    fn what_both_sides_have_is_in_force() {
        let both = Capabilities::DIGESTS & Capabilities::from_bits(1);
        assert!(both.contain(Capabilities::DIGESTS) && both.bits() == 1);
        assert!(!(both & Capabilities::NONE).contain(Capabilities::DIGESTS));
    }
}
