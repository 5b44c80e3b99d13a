//! IP packets: reading their headers, and changing their fields.

mod endpoints;
mod headers;
mod too_long;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use endpoints::{PacketEndpoints, Transport};
pub use headers::{Headers, Ports, TcpHeader};
pub use too_long::packet_too_long;

use crate::ecn::Ecn;

/// Lengths in bytes of an IPv4 header without options, and of an IPv6 header (RFC 791, RFC 8200).
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;

/// IP packet whose header is complete, with access to its fields.
#[derive(Debug)]
pub struct Packet<'a> {
    bytes: &'a mut [u8],
    is_ipv6: bool,
}

impl<'a> Packet<'a> {
    /// Wraps an IP packet; `None` if its header is incomplete, or of another version.
    pub fn new(bytes: &'a mut [u8]) -> Option<Self> {
        match bytes.first()? >> 4 {
            4 if bytes.len() >= IPV4_HEADER => Some(Self { bytes, is_ipv6: false }),
            6 if bytes.len() >= IPV6_HEADER => Some(Self { bytes, is_ipv6: true }),
            _ => None,
        }
    }

    /// Returns the source address.
    #[must_use]
    pub fn source(&self) -> IpAddr {
        if self.is_ipv6 {
            Ipv6Addr::from(self.octets::<16>(8)).into()
        } else {
            Ipv4Addr::from(self.octets::<4>(12)).into()
        }
    }

    /// Returns the destination address.
    #[must_use]
    pub fn destination(&self) -> IpAddr {
        if self.is_ipv6 {
            Ipv6Addr::from(self.octets::<16>(24)).into()
        } else {
            Ipv4Addr::from(self.octets::<4>(16)).into()
        }
    }

    /// Returns the length of the whole packet, in bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the length of the packet after its first header, in bytes.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        self.bytes.len() - self.header_bytes()
    }

    /// Returns the DSCP: the six bits above the ECN field (RFC 2474).
    #[must_use]
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// Parses the headers. `None` if they are truncated, or if the packet's length differs from the
    /// length field.
    #[must_use]
    pub fn headers(&self) -> Option<Headers> {
        Headers::parse(self.bytes)
    }

    /// Returns the ECN field (RFC 3168, section 5).
    #[must_use]
    pub fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.traffic_class())
    }

    /// Sets the ECN field, and corrects the checksum of an IPv4 header.
    pub fn set_ecn(&mut self, ecn: Ecn) {
        let before = self.traffic_class();
        let class = before & !0b11 | ecn.bits();
        if class == before {
            return;
        }
        if self.is_ipv6 {
            self.bytes[0] = self.bytes[0] & 0xF0 | class >> 4;
            self.bytes[1] = self.bytes[1] & 0x0F | class << 4;
        } else {
            self.bytes[1] = class;
            self.update_checksum(before, class);
        }
    }

    /// Lowers the maximum segment size that a TCP SYN announces to `bytes_max` (RFC 9293, section
    /// 3.7.1). Then both ends send segments that fit the path MTU. Returns true if the value was
    /// higher.
    pub fn limit_segments(&mut self, bytes_max: u16) -> bool {
        headers::limit_segments(self.bytes, bytes_max)
    }

    /// Inverts bit `bit` after the header, counted from 0, for fault injection; ignores bits beyond
    /// the end.
    pub fn flip(&mut self, bit: u64) {
        let index = usize::try_from(bit / 8).ok().and_then(|index| self.header_bytes().checked_add(index));
        if let Some(byte) = index.and_then(|index| self.bytes.get_mut(index)) {
            *byte ^= 1 << (bit % 8);
        }
    }

    /// Returns N octets from offset `from`, which must lie within the header.
    fn octets<const N: usize>(&self, from: usize) -> [u8; N] {
        core::array::from_fn(|nth| self.bytes[from + nth])
    }

    fn header_bytes(&self) -> usize {
        if self.is_ipv6 {
            return IPV6_HEADER;
        }
        (usize::from(self.bytes[0] & 0x0F) * 4).clamp(IPV4_HEADER, self.bytes.len())
    }

    fn traffic_class(&self) -> u8 {
        if self.is_ipv6 { self.bytes[0] << 4 | self.bytes[1] >> 4 } else { self.bytes[1] }
    }

    /// Corrects the header's checksum after a change of the low octet of one word.
    fn update_checksum(&mut self, before: u8, after: u8) {
        let checksum = u16::from_be_bytes([self.bytes[10], self.bytes[11]]);
        let checksum = updated_checksum(checksum, before.into(), after.into());
        self.bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Returns the checksum after a change of one covered word (RFC 1624, equation 3).
fn updated_checksum(checksum: u16, before: u16, after: u16) -> u16 {
    let mut sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !u16::try_from(sum).expect("it was folded")
}

/// Computes the Internet checksum (RFC 1071) over concatenated parts. Only the last part may have
/// an odd length. The result is 0 if the parts include their correct checksum.
fn checksum(parts: &[&[u8]]) -> u16 {
    let word = |word: &[u8]| u32::from(word[0]) << 8 | word.get(1).copied().map_or(0, u32::from);
    let mut sum: u32 = parts.iter().flat_map(|part| part.chunks(2)).map(word).sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !u16::try_from(sum).expect("it was folded")
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn ipv4(class: u8, identification: u16) -> Vec<u8> {
        let mut bytes = vec![0x45, class, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2];
        bytes[4..6].copy_from_slice(&identification.to_be_bytes());
        let sum = checksum(&[&bytes]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.extend([0; 8]);
        bytes
    }

    fn ipv6() -> Vec<u8> {
        let mut bytes = vec![0; 48];
        bytes[0] = 0x60;
        bytes[39] = 9;
        bytes
    }

    #[test]
    fn destinations_are_read_and_what_is_no_packet_is_not_taken_for_one() {
        let destination = |mut bytes: Vec<u8>| Packet::new(&mut bytes).map(|packet| packet.destination());
        assert_eq!(destination(ipv4(0, 1)), Some(Ipv4Addr::new(10, 77, 0, 2).into()));
        assert_eq!(destination(ipv6()), Some(IpAddr::V6(9.into())));
        let source = |mut bytes: Vec<u8>| Packet::new(&mut bytes).map(|packet| packet.source());
        assert_eq!(source(ipv4(0, 1)), Some(Ipv4Addr::new(10, 77, 0, 1).into()));
        assert_eq!(source(ipv6()), Some(IpAddr::V6(0.into())));
        for wrong in [vec![], vec![0x45; 19], vec![0x60; 39], vec![0x50; 40]] {
            assert_eq!(destination(wrong), None);
        }
    }

    #[test]
    fn marks_are_set_and_read_in_both_versions() {
        for mut bytes in [ipv4(0xB8, 7), ipv6()] {
            let mut packet = Packet::new(&mut bytes).expect("a packet");
            for ecn in [Ecn::Capable0, Ecn::CongestionExperienced, Ecn::Capable1, Ecn::NotCapable] {
                packet.set_ecn(ecn);
                assert_eq!(packet.ecn(), ecn);
            }
        }
        let dscp = |mut bytes: Vec<u8>| Packet::new(&mut bytes).map(|packet| packet.dscp());
        assert_eq!(dscp(ipv4(0xB8 | 1, 7)), Some(46));
        let mut voice = ipv6();
        voice[..2].copy_from_slice(&[0x6B, 0x90]);
        assert_eq!(dscp(voice), Some(46));
        let mut bytes = ipv4(0xB8, 7);
        Packet::new(&mut bytes).expect("a packet").set_ecn(Ecn::CongestionExperienced);
        assert_eq!(bytes[1], 0xBB, "what else the octet says stays");
    }

    #[test]
    fn a_bit_behind_the_header_is_inverted_and_none_beyond_the_end() {
        let mut bytes = ipv4(0, 1);
        let before = bytes.clone();
        let mut packet = Packet::new(&mut bytes).expect("a packet");
        assert_eq!(packet.payload_bytes(), 8);
        packet.flip(9);
        packet.flip(64);
        packet.flip(u64::MAX);
        let changed: Vec<usize> = (0..bytes.len()).filter(|index| bytes[*index] != before[*index]).collect();
        assert_eq!((changed, bytes[21]), (vec![21], 0b10));
    }

    #[test]
    fn a_header_that_says_it_is_longer_than_the_packet_has_no_payload() {
        let mut bytes = ipv4(0, 1);
        bytes[0] = 0x4F;
        assert_eq!(Packet::new(&mut bytes).expect("a packet").payload_bytes(), 0);
    }

    proptest! {
        #[test]
        fn checksums_stay_right(class: u8, identification: u16, bits in 0_u8..4) {
            let mut bytes = ipv4(class, identification);
            Packet::new(&mut bytes).expect("a packet").set_ecn(Ecn::from_bits(bits));
            prop_assert!(matches!(checksum(&[&bytes[..20]]), 0 | 0xFFFF));
        }
    }
}
