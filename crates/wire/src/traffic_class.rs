//! Traffic classes: the DSCP and the ECN field of an IP header.

use crate::ecn::Ecn;

/// Traffic class of an IP header: the DSCP in the six upper bits (RFC 2474), the ECN field in
/// the two lower ones (RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrafficClass(u8);

impl TrafficClass {
    /// Traffic class of the default forwarding behaviour, not ECN-capable.
    pub const DEFAULT: Self = Self(0);

    /// Returns the traffic class of the DSCP in the six lower bits of `dscp`; the others are
    /// ignored.
    #[inline]
    #[must_use]
    pub const fn new(dscp: u8, ecn: Ecn) -> Self {
        Self(dscp << 2 | ecn.bits())
    }

    /// Returns the traffic class in this byte of an IP header.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Returns the traffic class as a byte of an IP header.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns the DSCP, 0 to 63.
    #[inline]
    #[must_use]
    pub const fn dscp(self) -> u8 {
        self.0 >> 2
    }

    /// Returns the ECN field.
    #[inline]
    #[must_use]
    pub const fn ecn(self) -> Ecn {
        Ecn::from_bits(self.0)
    }

    /// Returns this traffic class with another ECN field.
    #[inline]
    #[must_use]
    pub const fn with_ecn(self, ecn: Ecn) -> Self {
        Self(self.0 & !0b11 | ecn.bits())
    }

    /// Returns this traffic class with the default DSCP, 0.
    #[inline]
    #[must_use]
    pub const fn without_dscp(self) -> Self {
        Self(self.0 & 0b11)
    }

    /// True for the DSCPs 48 to 63. Routers that use the IP precedence treat all of them as network
    /// control, like CS6 and CS7 (RFC 2474, section 4.2.2.2).
    #[inline]
    #[must_use]
    pub const fn is_network_control(self) -> bool {
        self.dscp() >= 48
    }

    /// Returns the number of bytes of the DSCP in a plaintext: 0 for the default DSCP, otherwise 1.
    #[inline]
    #[must_use]
    pub const fn dscp_bytes(self) -> usize {
        (self.0 > 0b11) as usize
    }
}

impl From<Ecn> for TrafficClass {
    #[inline]
    fn from(ecn: Ecn) -> Self {
        Self(ecn.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_a_dscp_and_an_ecn_field() {
        for bits in 0..=u8::MAX {
            let class = TrafficClass::from_bits(bits);
            assert_eq!((class.dscp(), class.ecn()), (bits / 4, Ecn::from_bits(bits % 4)));
            assert_eq!(TrafficClass::new(class.dscp(), class.ecn()), class);
            assert_eq!(class.with_ecn(Ecn::Capable0).bits(), bits / 4 * 4 + 2);
            assert_eq!(class.without_dscp(), TrafficClass::from(class.ecn()));
            assert_eq!(class.dscp_bytes(), usize::from(bits >= 4));
            assert_eq!(
                class.is_network_control(),
                bits / 4 / 8 >= 6,
                "CS6, CS7 and the rest of their precedence"
            );
        }
    }
}
