//! ECN fields of IP headers, and their rules for tunnels.

use core::fmt;

/// ECN field of an IP header (RFC 3168 section 5, RFC 9331).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ecn {
    /// Not-ECT, `00`: the transport does not support ECN.
    #[default]
    NotCapable = 0b00,
    /// ECT(1), `01`: the sender supports ECN and expects short queues.
    Capable1 = 0b01,
    /// ECT(0), `10`: the sender supports ECN.
    Capable0 = 0b10,
    /// CE, `11`: a router marked the packet because of congestion.
    CongestionExperienced = 0b11,
}

impl Ecn {
    /// Returns the ECN field in the two lowest bits of a byte; the others are ignored.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::NotCapable,
            0b01 => Self::Capable1,
            0b10 => Self::Capable0,
            _ => Self::CongestionExperienced,
        }
    }

    /// Returns the ECN field as two bits.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Returns the ECN field of a packet that leaves a tunnel (RFC 6040, section 4.2, figure 4).
    /// `self` is the inner field, `outer` that of the tunnel's packet.
    ///
    /// `None` if the packet has to be dropped: a router marked it, but its sender does not support
    /// ECN.
    #[inline]
    #[must_use]
    pub const fn out_of(self, outer: Self) -> Option<Self> {
        match (self, outer) {
            (Self::NotCapable, Self::CongestionExperienced) => None,
            (Self::NotCapable, _) => Some(Self::NotCapable),
            (Self::Capable0, Self::Capable1) => Some(Self::Capable1),
            (_, Self::CongestionExperienced) => Some(Self::CongestionExperienced),
            (inner, _) => Some(inner),
        }
    }

    /// Returns the ECN field for the delivery of a packet that was lost and repaired (RFC 9265):
    /// marked, if the sender supports ECN. So the sender learns of the congestion.
    #[inline]
    #[must_use]
    pub const fn repaired(self) -> Self {
        match self {
            Self::NotCapable => Self::NotCapable,
            _ => Self::CongestionExperienced,
        }
    }
}

impl fmt::Display for Ecn {
    /// Writes the two bits: `10`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02b}", self.bits())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::Ecn::{self, Capable0, Capable1, CongestionExperienced as Ce, NotCapable};

    #[test]
    fn the_bits_are_those_of_the_header() {
        for bits in 0..4 {
            assert_eq!(Ecn::from_bits(bits).bits(), bits);
            assert_eq!(Ecn::from_bits(bits | 0b1111_1100).bits(), bits);
        }
        assert_eq!((Ecn::default(), Capable0.to_string()), (NotCapable, "10".to_string()));
    }

    #[test]
    fn what_comes_out_of_a_tunnel_is_what_rfc_6040_has_in_figure_4() {
        // Columns: the outer field Not-ECT, ECT(0), ECT(1), CE.
        let figure = [
            (NotCapable, [Some(NotCapable), Some(NotCapable), Some(NotCapable), None]),
            (Capable0, [Some(Capable0), Some(Capable0), Some(Capable1), Some(Ce)]),
            (Capable1, [Some(Capable1), Some(Capable1), Some(Capable1), Some(Ce)]),
            (Ce, [Some(Ce), Some(Ce), Some(Ce), Some(Ce)]),
        ];
        for (inner, row) in figure {
            assert_eq!([NotCapable, Capable0, Capable1, Ce].map(|outer| inner.out_of(outer)), row, "{inner}");
        }
    }
}
