//! Parser of IP headers, and of the TCP and UDP headers behind them.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{IPV4_HEADER, IPV6_HEADER, updated_checksum};
use crate::ecn::Ecn;

/// Protocol numbers of TCP and UDP (IANA), and of the IPv6 extension headers that may precede them
/// (RFC 8200, section 4).
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;

/// Most extension headers that the parser skips. Real packets have one or two.
const EXTENSIONS_MAX: usize = 4;

/// Length in bytes of a TCP header without options. Kind and length of the option for the maximum
/// segment size (RFC 9293, section 3.1).
pub(super) const TCP_HEADER: usize = 20;
const SEGMENT_OPTION: [u8; 2] = [2, 4];

/// Ports of a TCP or UDP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ports {
    /// Port of the sender.
    pub source: u16,
    /// Port of the receiver.
    pub destination: u16,
}

/// Flags of a packet's TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpHeader {
    /// Octet of flags: FIN, SYN, RST, PSH, ACK from the lowest bit.
    flags: u8,
}

impl TcpHeader {
    /// True for the first segment of a connection: SYN without ACK.
    #[must_use]
    pub const fn begins(self) -> bool {
        self.flags & (0x02 | 0x10) == 0x02
    }

    /// True if the segment opens a connection: SYN, or SYN and ACK.
    #[must_use]
    pub const fn is_syn(self) -> bool {
        self.flags & 0x02 != 0
    }

    /// True for the answer to a SYN: SYN and ACK.
    #[must_use]
    pub const fn is_syn_ack(self) -> bool {
        self.flags & 0x12 == 0x12
    }

    /// True if the sender has no more data to send (FIN).
    #[must_use]
    pub const fn is_fin(self) -> bool {
        self.flags & 0x01 != 0
    }

    /// True if the sender rejects or aborts the connection (RST).
    #[must_use]
    pub const fn is_reset(self) -> bool {
        self.flags & 0x04 != 0
    }

    /// True if the segment ends a write of the application (PSH). Possibly no later segment follows
    /// that would reveal its loss.
    #[must_use]
    pub const fn is_push(self) -> bool {
        self.flags & 0x08 != 0
    }
}

/// Fields of a packet's IP header, and of the TCP or UDP header after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// The DSCP: the six bits above the ECN field (RFC 2474).
    pub dscp: u8,
    /// The ECN field (RFC 3168).
    pub ecn: Ecn,
    /// True if more fragments of the same datagram follow.
    pub is_followed: bool,
    /// IANA number of the transport protocol, after IPv6 extension headers.
    pub protocol: u8,
    /// Ports of TCP or UDP; `None` for other protocols and later fragments.
    pub ports: Option<Ports>,
    /// TCP flags; `None` for other protocols and later fragments.
    pub tcp: Option<TcpHeader>,
    /// Offset in bytes of the TCP or UDP payload; the packet's length if it has neither header.
    pub payload: usize,
}

impl Headers {
    /// Parses the headers. `None` if the bytes are not an IP packet of exactly this length, or if a
    /// header is truncated.
    #[must_use]
    pub fn parse(packet: &[u8]) -> Option<Self> {
        let (source, destination, class, transport) = match packet.first()? >> 4 {
            4 => ipv4(packet)?,
            6 => ipv6(packet)?,
            _ => return None,
        };
        let Transport { protocol, at, is_first, is_followed } = transport;
        let mut headers = Self {
            source,
            destination,
            dscp: class >> 2,
            ecn: Ecn::from_bits(class),
            is_followed,
            protocol,
            ports: None,
            tcp: None,
            payload: packet.len(),
        };
        if !is_first {
            return Some(headers);
        }
        let header = packet.get(at..).unwrap_or_default();
        match protocol {
            TCP => {
                let header = header.first_chunk::<TCP_HEADER>()?;
                headers.ports = Some(ports(header));
                headers.tcp = Some(TcpHeader { flags: header[13] });
                headers.payload = (at + usize::from(header[12] >> 4) * 4).min(packet.len());
            }
            UDP => {
                headers.ports = Some(ports(header.first_chunk::<8>()?));
                headers.payload = at + 8;
            }
            _ => {}
        }
        Some(headers)
    }

    /// True if the packet is TCP, or a fragment of it.
    #[must_use]
    pub const fn is_tcp(&self) -> bool {
        self.protocol == TCP
    }

    /// True if the packet is UDP, or a fragment of it.
    #[must_use]
    pub const fn is_udp(&self) -> bool {
        self.protocol == UDP
    }
}

/// Protocol and offset of a packet's transport header.
#[derive(Clone, Copy)]
struct Transport {
    protocol: u8,
    at: usize,
    /// True if the transport header is in this packet, and not in an earlier fragment.
    is_first: bool,
    is_followed: bool,
}

fn ipv4(packet: &[u8]) -> Option<(IpAddr, IpAddr, u8, Transport)> {
    let header = packet.first_chunk::<IPV4_HEADER>()?;
    let at = usize::from(header[0] & 0x0F) * 4;
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if length != packet.len() || at < IPV4_HEADER || at > length {
        return None;
    }
    let address = |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
    let is_first = u16::from_be_bytes([header[6], header[7]]) << 3 == 0;
    let is_followed = header[6] & 0x20 != 0;
    let transport = Transport { protocol: header[9], at, is_first, is_followed };
    Some((address(12).into(), address(16).into(), header[1], transport))
}

fn ipv6(packet: &[u8]) -> Option<(IpAddr, IpAddr, u8, Transport)> {
    let header = packet.first_chunk::<IPV6_HEADER>()?;
    if usize::from(u16::from_be_bytes([header[4], header[5]])) + IPV6_HEADER != packet.len() {
        return None;
    }
    let address = |at: usize| Ipv6Addr::from(core::array::from_fn::<u8, 16, _>(|nth| header[at + nth]));
    let class = header[0] << 4 | header[1] >> 4;
    Some((address(8).into(), address(24).into(), class, behind_extensions(packet, header[6])?))
}

/// Returns the transport header of an IPv6 packet after its extension headers; `None` if they are
/// truncated.
fn behind_extensions(packet: &[u8], first: u8) -> Option<Transport> {
    let mut transport = Transport { protocol: first, at: IPV6_HEADER, is_first: true, is_followed: false };
    for _ in 0..EXTENSIONS_MAX {
        let Transport { protocol, at, .. } = transport;
        if !matches!(protocol, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS) {
            break;
        }
        let extension = packet.get(at..)?.first_chunk::<8>()?;
        transport.protocol = extension[0];
        if protocol == FRAGMENT {
            transport.at += 8;
            transport.is_first = u16::from_be_bytes([extension[2], extension[3]]) >> 3 == 0;
            transport.is_followed = extension[3] & 1 != 0;
            if !transport.is_first {
                break;
            }
        } else {
            transport.at += (usize::from(extension[1]) + 1) * 8;
        }
    }
    Some(transport)
}

fn ports(header: &[u8]) -> Ports {
    Ports {
        source: u16::from_be_bytes([header[0], header[1]]),
        destination: u16::from_be_bytes([header[2], header[3]]),
    }
}

/// Lowers the maximum segment size of a TCP SYN, see
/// [`Packet::limit_segments`](super::Packet::limit_segments).
pub(super) fn limit_segments(packet: &mut [u8], bytes_max: u16) -> bool {
    let Some(headers) = Headers::parse(packet).filter(|headers| headers.tcp.is_some_and(TcpHeader::is_syn))
    else {
        return false;
    };
    let transport = if packet[0] >> 4 == 4 { ipv4(packet) } else { ipv6(packet) };
    let Some((.., Transport { at, .. })) = transport else {
        return false;
    };
    let Some(value) = segment_option(packet, at + TCP_HEADER, headers.payload) else {
        return false;
    };
    let before = u16::from_be_bytes([packet[value], packet[value + 1]]);
    if before <= bytes_max {
        return false;
    }
    packet[value..value + 2].copy_from_slice(&bytes_max.to_be_bytes());
    // At an odd offset, the value spans two words of the sum, so it counts with its octets swapped.
    let is_odd = (value - at) % 2 == 1;
    let word = |value: u16| if is_odd { value.swap_bytes() } else { value };
    let checksum_at = at + 16;
    let checksum = u16::from_be_bytes([packet[checksum_at], packet[checksum_at + 1]]);
    let checksum = updated_checksum(checksum, word(before), word(bytes_max));
    packet[checksum_at..checksum_at + 2].copy_from_slice(&checksum.to_be_bytes());
    true
}

/// Returns the offset of the maximum segment size among the TCP options from `at` to `end`; `None`
/// without that option.
fn segment_option(packet: &[u8], mut at: usize, end: usize) -> Option<usize> {
    const END: u8 = 0;
    const NOTHING: u8 = 1;
    while at < end {
        match packet[at] {
            END => return None,
            NOTHING => at += 1,
            kind => {
                let length = *packet[..end].get(at + 1)?;
                if [kind, length] == SEGMENT_OPTION && at + 4 <= end {
                    return Some(at + 2);
                }
                at += usize::from(length).max(2);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    /// A SYN with these options, from port 4,000 to port 80.
    fn syn(options: &[u8], is_ipv6: bool) -> Vec<u8> {
        let tcp = TCP_HEADER + options.len();
        let mut packet = if is_ipv6 {
            let mut packet = vec![0x60, 0, 0, 0, 0, u8::try_from(tcp).unwrap(), TCP, 64];
            packet.extend(Ipv6Addr::LOCALHOST.octets());
            packet.extend(Ipv6Addr::from(2).octets());
            packet
        } else {
            let length = u8::try_from(IPV4_HEADER + tcp).unwrap();
            vec![0x45, 0xB8, 0, length, 0, 0, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]
        };
        let words = u8::try_from(tcp / 4).unwrap() << 4;
        packet.extend([0x0F, 0xA0, 0, 80, 0, 0, 0, 7, 0, 0, 0, 0, words, 0x02, 0xFF, 0xFF, 0, 0, 0, 0]);
        packet.extend(options);
        let at = packet.len() - tcp;
        let checksum = !sum(&packet[at..]);
        packet[at + 16..at + 18].copy_from_slice(&checksum.to_be_bytes());
        packet
    }

    /// Returns the sum over a TCP header without its pseudo header, which stays constant in the
    /// tests.
    fn sum(bytes: &[u8]) -> u16 {
        let words = bytes.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
        let sum: u32 = words.sum();
        u16::try_from((sum & 0xFFFF) + (sum >> 16)).unwrap()
    }

    #[test]
    fn headers_of_both_versions_are_read() {
        for is_ipv6 in [false, true] {
            let packet = syn(&[], is_ipv6);
            let headers = Headers::parse(&packet).expect("a packet");
            assert_eq!(headers.ports, Some(Ports { source: 4_000, destination: 80 }));
            assert!(headers.is_tcp() && !headers.is_udp());
            let tcp = headers.tcp.expect("TCP");
            assert!(tcp.begins() && tcp.is_syn() && !tcp.is_syn_ack() && !tcp.is_fin() && !tcp.is_push());
            assert_eq!(headers.payload, packet.len());
            assert_eq!(headers.dscp, if is_ipv6 { 0 } else { 46 });
            let last =
                if is_ipv6 { IpAddr::from(Ipv6Addr::from(2)) } else { Ipv4Addr::new(10, 0, 0, 2).into() };
            assert_eq!(headers.destination, last);
        }
    }

    #[test]
    fn later_fragments_have_no_ports_and_the_first_one_does() {
        let mut packet = syn(&[], false);
        packet[6..8].copy_from_slice(&[0x20, 0x00]);
        assert!(Headers::parse(&packet).expect("a packet").ports.is_some());
        packet[6..8].copy_from_slice(&[0x20, 0xB9]);
        let headers = Headers::parse(&packet).expect("a packet");
        assert_eq!((headers.ports, headers.is_tcp()), (None, true));
        let mut packet = syn(&[], true);
        packet.splice(40..40, [TCP, 0, 0, 8, 0, 0, 0, 1]);
        (packet[5], packet[6]) = (28, FRAGMENT);
        let headers = Headers::parse(&packet).expect("a packet");
        assert_eq!((headers.ports, headers.is_tcp()), (None, true));
        packet[43] = 1;
        assert!(Headers::parse(&packet).expect("a packet").ports.is_some());
    }

    #[test]
    fn what_is_cut_off_or_longer_than_it_says_is_no_packet() {
        for is_ipv6 in [false, true] {
            let packet = syn(&[2, 4, 5, 180], is_ipv6);
            for length in 0..packet.len() {
                assert_eq!(Headers::parse(&packet[..length]), None, "{length}");
            }
            let longer = [&packet[..], &[0]].concat();
            assert_eq!(Headers::parse(&longer), None);
        }
    }

    #[test]
    fn a_syn_announces_no_more_than_it_may_and_its_checksum_stays_right() {
        for options in [&[2, 4, 5, 180][..], &[1, 2, 4, 5, 180, 1, 1, 1], &[4, 2, 2, 4, 5, 180, 1, 0]] {
            for is_ipv6 in [false, true] {
                let mut packet = syn(options, is_ipv6);
                let at = packet.len() - TCP_HEADER - options.len();
                assert!(limit_segments(&mut packet, 1_300));
                assert_eq!(sum(&packet[at..]), 0xFFFF, "{options:?}");
                assert!(packet.windows(4).any(|window| window == [2, 4, 5, 20]));
                assert!(!limit_segments(&mut packet, 1_300), "it is within the limit");
            }
        }
        for options in [&[][..], &[1, 1, 0, 0], &[2, 4], &[2, 3, 5, 180]] {
            let padded = [options, &vec![0; (4 - options.len() % 4) % 4]].concat();
            assert!(!limit_segments(&mut syn(&padded, false), 1_300), "{options:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..120), version in 0_usize..3) {
            if let Some(first) = bytes.first_mut() {
                *first = [0x45, 0x60, *first][version];
            }
            if bytes.len() > 5 {
                let length = u8::try_from(bytes.len()).unwrap();
                (bytes[2], bytes[3], bytes[4], bytes[5]) = (0, length, 0, length.saturating_sub(40));
            }
            let headers = Headers::parse(&bytes);
            prop_assert!(headers.is_none_or(|headers| headers.payload <= bytes.len()));
            limit_segments(&mut bytes, 500);
        }
    }
}
