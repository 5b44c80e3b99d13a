//! Markers of codestreams.

use core::fmt;

/// Marker of a codestream (ISO/IEC 15444-1, annex A): two bytes, the first of which is 0xFF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker(u16);

impl Marker {
    /// Start of codestream.
    pub const SOC: Self = Self(0xFF4F);
    /// Image and tile sizes.
    pub const SIZ: Self = Self(0xFF51);
    /// Coding style.
    pub const COD: Self = Self(0xFF52);
    /// Coding style of one component.
    pub const COC: Self = Self(0xFF53);
    /// Lengths of tile-parts.
    pub const TLM: Self = Self(0xFF55);
    /// Lengths of packets, in the main header.
    pub const PLM: Self = Self(0xFF57);
    /// Lengths of packets, in a tile-part header.
    pub const PLT: Self = Self(0xFF58);
    /// Quantization.
    pub const QCD: Self = Self(0xFF5C);
    /// Changes of the progression order.
    pub const POC: Self = Self(0xFF5F);
    /// Packet headers, in the main header.
    pub const PPM: Self = Self(0xFF60);
    /// Packet headers, in a tile-part header.
    pub const PPT: Self = Self(0xFF61);
    /// Comment.
    pub const COM: Self = Self(0xFF64);
    /// Start of a tile-part.
    pub const SOT: Self = Self(0xFF90);
    /// End of a packet header.
    pub const EPH: Self = Self(0xFF92);
    /// Start of a tile-part's data.
    pub const SOD: Self = Self(0xFF93);
    /// End of codestream.
    pub const EOC: Self = Self(0xFFD9);

    /// Creates the marker of two bytes, which need not be one of the standard.
    #[must_use]
    pub const fn new(code: u16) -> Self {
        Self(code)
    }

    /// Returns the two bytes of the marker.
    #[must_use]
    pub const fn code(self) -> u16 {
        self.0
    }

    /// True if a segment with its length follows the marker.
    pub(crate) const fn has_segment(self) -> bool {
        let is_alone = matches!(self, Self::SOC | Self::EPH | Self::SOD | Self::EOC);
        let is_reserved = self.0 >= 0xFF30 && self.0 <= 0xFF3F;
        self.0 > 0xFF00 && self.0 < 0xFFFF && !is_alone && !is_reserved
    }

    /// True if the segment has lengths of packets or tile-parts.
    pub(crate) const fn has_lengths(self) -> bool {
        matches!(self, Self::PLT | Self::PLM | Self::TLM)
    }

    const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::SOC => "SOC",
            Self::SIZ => "SIZ",
            Self::COD => "COD",
            Self::COC => "COC",
            Self::TLM => "TLM",
            Self::PLM => "PLM",
            Self::PLT => "PLT",
            Self::QCD => "QCD",
            Self::POC => "POC",
            Self::PPM => "PPM",
            Self::PPT => "PPT",
            Self::COM => "COM",
            Self::SOT => "SOT",
            Self::EPH => "EPH",
            Self::SOD => "SOD",
            Self::EOC => "EOC",
            _ => return None,
        })
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "marker {:#06X}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn known_markers_have_names_and_others_numbers() {
        assert_eq!(Marker::new(0xFF58).to_string(), "PLT");
        assert_eq!(Marker::new(0xFF30).to_string(), "marker 0xFF30");
        assert_eq!(Marker::new(0x0001).to_string(), "marker 0x0001");
    }

    #[test]
    fn markers_without_segments_are_those_of_the_standard() {
        for alone in [0xFF4F, 0xFF92, 0xFF93, 0xFFD9, 0xFF30, 0xFF3F, 0xFF00, 0xFFFF, 0x1234] {
            assert!(!Marker::new(alone).has_segment(), "{alone:x}");
        }
        for long in [0xFF51, 0xFF58, 0xFF64, 0xFF90, 0xFF2F, 0xFF40] {
            assert!(Marker::new(long).has_segment(), "{long:x}");
        }
    }
}
