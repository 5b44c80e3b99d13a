//! What both sides of a session have to know for it to be used.

use core::ops::BitAnd;

/// A set of capabilities; those that this version does not know are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(u16);

impl Capabilities {
    /// None.
    pub const NONE: Self = Self(0);
    /// Digests in cross-stream repairs, relay to relay.
    pub const DIGESTS: Self = Self(1 << 0);
    /// DSCPs in source packets, agent to agent.
    pub const DSCPS: Self = Self(1 << 3);

    const KNOWN: u16 = Self::DIGESTS.0 | Self::DSCPS.0;

    /// Those of `bits` that are known.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & Self::KNOWN)
    }

    /// The bits on the wire.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Whether all of `others` are among these.
    #[must_use]
    pub const fn contain(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

impl BitAnd for Capabilities {
    type Output = Self;

    /// What both sides have, and what is in force.
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_capabilities_are_ignored() {
        assert_eq!(Capabilities::from_bits(0xFFFF).bits(), 0b1001);
        assert_eq!(Capabilities::from_bits(0xFFF6), Capabilities::NONE);
    }

    #[test]
    fn what_both_sides_have_is_in_force() {
        let both = Capabilities::DIGESTS & Capabilities::from_bits(1);
        assert!(both.contain(Capabilities::DIGESTS) && both.bits() == 1);
        assert!(!(both & Capabilities::NONE).contain(Capabilities::DIGESTS));
    }
}
