//! ICMP errors for packets that exceed the path MTU.

use alloc::vec::Vec;

use super::{IPV4_HEADER, IPV6_HEADER, checksum};

/// Length in bytes of the header of an ICMP error (RFC 792, RFC 4443).
const ICMP_HEADER: usize = 8;

/// Protocol numbers of ICMP and `ICMPv6`. Type and code of the errors for a packet that is too
/// long: destination unreachable with fragmentation needed, and packet too big.
const ICMP: u8 = 1;
const FRAGMENTATION_NEEDED: [u8; 2] = [3, 4];
const ICMPV6: u8 = 58;
const PACKET_TOO_BIG: [u8; 2] = [2, 0];

/// Greatest lengths of an ICMP error in bytes: the datagram that every IPv4 host accepts (RFC 1812,
/// section 4.3.2.3), and the least MTU of IPv6 (RFC 4443, section 2.4).
const IPV4_BYTES_MAX: usize = 576;
const IPV6_BYTES_MAX: usize = 1_280;

/// TTL or hop limit of the ICMP error. 64 is the usual value.
const HOPS: u8 = 64;

/// Writes the ICMP error that announces a path MTU of `mtu` bytes into `error` (RFC 1191, section
/// 4; RFC 4443, section 3.2). Its source is the packet's destination.
///
/// Returns false and writes no bytes if an error must not be sent (RFC 1122, section 3.2.2; RFC
/// 4443, section 2.4) or is of no use:
/// - The packet is ICMP, or a later fragment.
/// - The packet may be fragmented.
/// - Its source or destination is unspecified, or a group.
/// - The bytes are not an IP packet.
pub fn packet_too_long(packet: &[u8], mtu: u16, error: &mut Vec<u8>) -> bool {
    match packet.first().map(|first| first >> 4) {
        Some(4) => by_ipv4(packet, mtu, error),
        Some(6) => by_ipv6(packet, mtu, error),
        _ => false,
    }
}

fn by_ipv4(packet: &[u8], mtu: u16, error: &mut Vec<u8>) -> bool {
    const DO_NOT_FRAGMENT: u8 = 0x40;
    let Some(header) = packet.first_chunk::<IPV4_HEADER>() else {
        return false;
    };
    let is_later_fragment = header[6] & 0x1F != 0 || header[7] != 0;
    let (source, destination) = (&header[12..16], &header[16..20]);
    let is_nobody = |address: &[u8]| address[0] == 0 || address[0] >= 224;
    if header[6] & DO_NOT_FRAGMENT == 0
        || is_later_fragment
        || header[9] == ICMP
        || is_nobody(source)
        || is_nobody(destination)
    {
        return false;
    }
    let quoted = &packet[..packet.len().min(IPV4_BYTES_MAX - IPV4_HEADER - ICMP_HEADER)];
    let length = IPV4_HEADER + ICMP_HEADER + quoted.len();
    let [length_high, length_low] = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
    // Network control, as routers send it (RFC 1812, section 4.3.2.5).
    let class = 0xC0;
    error.clear();
    error.extend([0x45, class, length_high, length_low, 0, 0, 0, 0, HOPS, ICMP, 0, 0]);
    error.extend(destination);
    error.extend(source);
    let [sum_high, sum_low] = checksum(&[error]).to_be_bytes();
    (error[10], error[11]) = (sum_high, sum_low);
    let [mtu_high, mtu_low] = mtu.to_be_bytes();
    let [kind, code] = FRAGMENTATION_NEEDED;
    let mut head = [kind, code, 0, 0, 0, 0, mtu_high, mtu_low];
    [head[2], head[3]] = checksum(&[&head, quoted]).to_be_bytes();
    error.extend(head);
    error.extend(quoted);
    true
}

fn by_ipv6(packet: &[u8], mtu: u16, error: &mut Vec<u8>) -> bool {
    const FRAGMENT: u8 = 44;
    let Some(header) = packet.first_chunk::<IPV6_HEADER>() else {
        return false;
    };
    let (source, destination) = (&header[8..24], &header[24..40]);
    let is_nobody = |address: &[u8]| address[0] == 0xFF || address.iter().all(|octet| *octet == 0);
    if matches!(header[6], ICMPV6 | FRAGMENT) || is_nobody(source) || is_nobody(destination) {
        return false;
    }
    let quoted = &packet[..packet.len().min(IPV6_BYTES_MAX - IPV6_HEADER - ICMP_HEADER)];
    let length = u16::try_from(ICMP_HEADER + quoted.len()).unwrap_or(u16::MAX).to_be_bytes();
    error.clear();
    error.extend([0x60, 0, 0, 0, length[0], length[1], ICMPV6, HOPS]);
    error.extend(destination);
    error.extend(source);
    let [mtu_high, mtu_low] = mtu.to_be_bytes();
    let [kind, code] = PACKET_TOO_BIG;
    let mut head = [kind, code, 0, 0, 0, 0, mtu_high, mtu_low];
    let pseudo = [&error[8..40], &[0, 0, length[0], length[1], 0, 0, 0, ICMPV6]];
    [head[2], head[3]] = checksum(&[pseudo[0], pseudo[1], &head, quoted]).to_be_bytes();
    error.extend(head);
    error.extend(quoted);
    true
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::net::{Ipv4Addr, Ipv6Addr};
    use std::vec;

    use proptest::prelude::*;

    use super::*;
    use crate::ip::Headers;

    /// A UDP packet of 1,354 bytes that must not be fragmented.
    fn packet(is_ipv6: bool) -> Vec<u8> {
        let mut packet = vec![0; 1_354];
        if is_ipv6 {
            packet[..8].copy_from_slice(&[0x60, 0, 0, 0, 0x05, 0x22, 17, 64]);
            packet[8..24].copy_from_slice(&Ipv6Addr::LOCALHOST.octets());
            packet[24..40].copy_from_slice(&Ipv6Addr::from(0xFD << 120 | 2).octets());
        } else {
            let header = [0x45, 0, 0x05, 0x4A, 0, 7, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
            packet[..20].copy_from_slice(&header);
        }
        packet
    }

    fn too_long(packet: &[u8]) -> Option<Vec<u8>> {
        let mut error = vec![1, 2, 3];
        packet_too_long(packet, 1_329, &mut error).then_some(error)
    }

    #[test]
    fn the_sender_is_told_by_ipv4() {
        let packet = packet(false);
        let error = too_long(&packet).expect("it may be told");
        let headers = Headers::parse(&error).expect("a packet");
        assert_eq!(
            (headers.source, headers.destination),
            (Ipv4Addr::new(10, 0, 0, 2).into(), Ipv4Addr::new(10, 0, 0, 1).into())
        );
        assert_eq!((error.len(), checksum(&[&error[..20]]), checksum(&[&error[20..]])), (576, 0, 0));
        assert_eq!((&error[20..22], &error[26..28]), (&[3, 4][..], &1_329_u16.to_be_bytes()[..]));
        assert_eq!(error[28..], packet[..548]);
    }

    #[test]
    fn the_sender_is_told_by_ipv6() {
        let packet = packet(true);
        let error = too_long(&packet).expect("it may be told");
        let headers = Headers::parse(&error).expect("a packet");
        assert_eq!(headers.destination, Ipv6Addr::LOCALHOST);
        let length = u8::try_from((error.len() - 40) >> 8).expect("short");
        let pseudo =
            [0, 0, length, u8::try_from((error.len() - 40) & 0xFF).expect("an octet"), 0, 0, 0, ICMPV6];
        assert_eq!((error.len(), checksum(&[&error[8..40], &pseudo, &error[40..]])), (1_280, 0));
        assert_eq!((&error[40..42], &error[44..48]), (&[2, 0][..], &1_329_u32.to_be_bytes()[..]));
        assert_eq!(error[48..], packet[..1_232]);
    }

    #[test]
    fn who_must_not_be_told_is_not() {
        let changes: [(bool, usize, u8); 8] = [
            (false, 6, 0x00),
            (false, 7, 9),
            (false, 9, ICMP),
            (false, 12, 0),
            (false, 16, 224),
            (true, 6, ICMPV6),
            (true, 6, 44),
            (true, 24, 0xFF),
        ];
        for (is_ipv6, at, octet) in changes {
            let mut packet = packet(is_ipv6);
            packet[at] = octet;
            assert_eq!(too_long(&packet), None, "octet {at} is {octet}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
            if let Some(error) = too_long(&bytes) {
                prop_assert!(Headers::parse(&error).is_some());
            }
        }
    }
}
