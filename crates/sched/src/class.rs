//! The classes, and how a packet says which it wants.

/// A service class at a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// A high rate, and whatever delay it takes; also of everything that is not marked (R of the paper).
    HighRate,
    /// A low delay, and a smaller rate (D of the paper).
    LowDelay,
    /// A delay that is low on average and may spike, the same smaller rate, and fewer losses: what sections III and VIII of the paper leave to
    /// others. A link may have it or not.
    LowAverage,
}

impl Class {
    /// How many there are.
    pub const COUNT: usize = 3;

    /// All.
    pub const ALL: [Self; Self::COUNT] = [Self::HighRate, Self::LowDelay, Self::LowAverage];

    /// Its place among all.
    pub(crate) const fn place(self) -> usize {
        self as usize
    }
}

/// Which values of the IPv4 TOS byte or the IPv6 traffic class mean low delay, or a low average.
///
/// The paper has bits 3 to 6 of the TOS byte, 1001: TOS 0x12. Today the last of these is part of the ECN field (RFC 3168), so that DSCP 4
/// is what is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marking {
    /// One bit for each DSCP.
    low_delay: u64,
    low_average: u64,
    /// Whether the paper's TOS byte is meant literally.
    is_literal: bool,
}

impl Marking {
    /// The paper's TOS byte.
    const LITERAL: u8 = 0x12;
    /// What the paper's bits leave beside ECN.
    const DSCP_OF_PAPER: u8 = Self::LITERAL >> 2;
    /// The non-queue-building behaviour (RFC 9956).
    const DSCP_NQB: u8 = 45;
    /// Expedited forwarding (RFC 3246), which calls and conferences use (RFC 4594).
    const DSCP_EF: u8 = 46;

    /// Everything is high-rate.
    pub const NONE: Self = Self { low_delay: 0, low_average: 0, is_literal: false };

    /// The paper's TOS byte alone, ECN bits and all.
    pub const OF_PAPER: Self = Self { is_literal: true, ..Self::NONE };

    /// With a DSCP more, 0 to 63, that means low delay; the lower six bits count.
    #[must_use]
    pub const fn with(self, dscp: u8) -> Self {
        Self { low_delay: self.low_delay | 1 << (dscp & 63), ..self }
    }

    /// With a DSCP more, 0 to 63, that means a delay that is low on average, unless it means low delay; the lower six bits count.
    #[must_use]
    pub const fn with_low_average(self, dscp: u8) -> Self {
        Self { low_average: self.low_average | 1 << (dscp & 63), ..self }
    }

    /// The DSCPs that mean low delay, one bit for each from the lowest.
    #[must_use]
    pub const fn low_delay_dscps(self) -> u64 {
        self.low_delay
    }

    /// Whether the paper's TOS byte, 0x12 with its ECN bits, means low delay.
    #[must_use]
    pub const fn is_literal(self) -> bool {
        self.is_literal
    }

    /// With the paper's TOS byte, ECN bits and all, beside its DSCPs.
    #[must_use]
    pub const fn with_literal(self) -> Self {
        Self { is_literal: true, ..self }
    }

    /// The class of a packet with this TOS byte or traffic class.
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
    /// DSCP 4, 45 and 46.
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
