//! Service classes, and their markings in packets.

/// Service class at a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// High rate without a delay bound; also the class of unmarked packets (R of the paper).
    HighRate,
    /// Low delay at a lower rate (D of the paper).
    LowDelay,
    /// Low delay on average with occasional spikes, the rate of the low-delay class, and fewer
    /// losses. It is optional: the paper leaves such a class to others (sections III and VIII).
    LowAverage,
}

impl Class {
    /// Number of service classes.
    pub const COUNT: usize = 3;

    /// All service classes; arrays by class have this order.
    pub const ALL: [Self; Self::COUNT] = [Self::HighRate, Self::LowDelay, Self::LowAverage];

    /// Returns the index of the class in [`Class::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

/// Values of the IPv4 TOS byte or the IPv6 traffic class by which a sender chooses a class other
/// than high-rate.
///
/// The paper uses bits 3 to 6 of the TOS byte, 1001: TOS 0x12. Today the last of these belongs to
/// the ECN field (RFC 3168). The remaining bits are DSCP 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marking {
    /// Bit set of the DSCPs that mean low delay.
    low_delay: u64,
    low_average: u64,
    /// True if TOS byte 0x12 with its ECN bits also means low delay, as in the paper.
    is_literal: bool,
}

impl Marking {
    /// TOS byte that means low delay in the paper.
    const LITERAL: u8 = 0x12;
    /// DSCP in the paper's TOS byte: 4.
    const DSCP_OF_PAPER: u8 = Self::LITERAL >> 2;
    /// DSCP of the non-queue-building behaviour (RFC 9956).
    const DSCP_NQB: u8 = 45;
    /// DSCP of expedited forwarding (RFC 3246), which calls and conferences use (RFC 4594).
    const DSCP_EF: u8 = 46;

    /// Marking in which no value means low delay: all packets are high-rate.
    pub const NONE: Self = Self { low_delay: 0, low_average: 0, is_literal: false };

    /// Marking in which only the paper's TOS byte, ECN bits included, means low delay.
    pub const OF_PAPER: Self = Self { is_literal: true, ..Self::NONE };

    /// Returns this marking with one more DSCP that means low delay; only its lower six bits count.
    #[must_use]
    pub const fn with(self, dscp: u8) -> Self {
        Self { low_delay: self.low_delay | 1 << (dscp & 63), ..self }
    }

    /// Returns this marking with one more DSCP that means low delay on average, unless it already
    /// means low delay. Only its lower six bits count.
    #[must_use]
    pub const fn with_low_average(self, dscp: u8) -> Self {
        Self { low_average: self.low_average | 1 << (dscp & 63), ..self }
    }

    /// Returns the bit set of the DSCPs that mean low delay: bit n for DSCP n.
    #[must_use]
    pub const fn low_delay_dscps(self) -> u64 {
        self.low_delay
    }

    /// True if the paper's TOS byte, 0x12 with its ECN bits, means low delay.
    #[must_use]
    pub const fn is_literal(self) -> bool {
        self.is_literal
    }

    /// Returns this marking with the paper's TOS byte, ECN bits included, as low delay.
    #[must_use]
    pub const fn with_literal(self) -> Self {
        Self { is_literal: true, ..self }
    }

    /// Returns the class that a sender chooses by this TOS byte or traffic class.
    #[must_use]
    pub const fn class(self, traffic_class: u8) -> Class {
        let is_marked = self.low_delay >> (traffic_class >> 2) & 1 == 1;
        if is_marked || (self.is_literal && traffic_class == Self::LITERAL) {
            Class::LowDelay
        } else if self.low_average >> (traffic_class >> 2) & 1 == 1 {
            Class::LowAverage
        } else {
            Class::HighRate
        }
    }
}

impl Default for Marking {
    /// Returns the usual marking: DSCP 4 (the paper), 45 and 46 mean low delay.
    fn default() -> Self {
        Self::NONE.with(Self::DSCP_OF_PAPER).with(Self::DSCP_NQB).with(Self::DSCP_EF)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dscp_means_the_same_whatever_the_ecn_field_says() {
        for ecn in 0..4 {
            for (dscp, class) in [
                (0, Class::HighRate),
                (4, Class::LowDelay),
                (45, Class::LowDelay),
                (46, Class::LowDelay),
                (47, Class::HighRate),
                (63, Class::HighRate),
            ] {
                assert_eq!(Marking::default().class(dscp << 2 | ecn), class, "{dscp} {ecn}");
            }
        }
        assert_eq!(Marking::default().with(47).class(47 << 2), Class::LowDelay);
        let three = Marking::default().with_low_average(34).with_low_average(4);
        assert_eq!(
            [34, 4, 0].map(|dscp| three.class(dscp << 2)),
            [Class::LowAverage, Class::LowDelay, Class::HighRate]
        );
    }

    #[test]
    fn the_literal_byte_of_the_paper_is_an_option() {
        let low: alloc::vec::Vec<u8> =
            (0..=255).filter(|byte| Marking::OF_PAPER.class(*byte) == Class::LowDelay).collect();
        assert_eq!(low, [0x12]);
    }
}
