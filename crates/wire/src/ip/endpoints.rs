//! Address translation (NAT): reading and changing both endpoints of an IPv4 packet.

use core::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use super::headers::{TCP, TCP_HEADER, UDP};
use super::{Headers, TcpHeader, updated_checksum};

/// Protocol number of ICMP, and its message types of echo (RFC 792).
const ICMP: u8 = 1;
const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST: u8 = 8;

/// Lengths in bytes of a UDP header and of the header of an ICMP echo.
const UDP_HEADER: usize = 8;
const ECHO_HEADER: usize = 8;

/// Offsets in bytes of the checksum and of both addresses in an IPv4 header.
const CHECKSUM_AT: usize = 10;
const SOURCE_AT: usize = 12;
const DESTINATION_AT: usize = 16;

/// Bits of an IPv4 header that mark fragments: more fragments follow, and the offset. All are 0 in
/// an unfragmented packet.
const FRAGMENT_BITS: u16 = 0x3FFF;

/// Transport protocol whose endpoints have port numbers or the like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// UDP, with ports.
    Udp,
    /// TCP, with ports.
    Tcp,
    /// ICMP echo. Its identifier is the port of the requesting host; the replying host has port 0
    /// (RFC 5508, section 3.1).
    Echo,
}

/// IPv4 packet of UDP, TCP or ICMP echo, not fragmented, whose endpoints can be read and changed.
///
/// Checksums are updated incrementally (RFC 1624): a damaged packet remains damaged.
#[derive(Debug)]
pub struct PacketEndpoints<'a> {
    bytes: &'a mut [u8],
    /// Offset of the transport header, in bytes.
    at: usize,
    transport: Transport,
    is_echo_reply: bool,
    tcp: Option<TcpHeader>,
}

impl<'a> PacketEndpoints<'a> {
    /// Wraps an IPv4 packet; `None` if it has another transport, is a fragment, or is truncated.
    #[must_use]
    pub fn new(bytes: &'a mut [u8]) -> Option<Self> {
        let headers = Headers::parse(bytes)?;
        let (IpAddr::V4(_), tcp) = (headers.source, headers.tcp) else {
            return None;
        };
        if u16::from_be_bytes([bytes[6], bytes[7]]) & FRAGMENT_BITS != 0 {
            return None;
        }
        let at = usize::from(bytes[0] & 0x0F) * 4;
        let behind = bytes.get(at..)?;
        let transport = match headers.protocol {
            UDP if is_udp(behind) => Transport::Udp,
            TCP if is_tcp(behind) => Transport::Tcp,
            ICMP if is_echo(behind) => Transport::Echo,
            _ => return None,
        };
        let is_echo_reply = transport == Transport::Echo && behind[0] == ECHO_REPLY;
        Some(Self { bytes, at, transport, is_echo_reply, tcp })
    }

    /// Returns the transport of the packet.
    #[must_use]
    pub const fn transport(&self) -> Transport {
        self.transport
    }

    /// True if the packet is an ICMP echo reply.
    #[must_use]
    pub const fn is_echo_reply(&self) -> bool {
        self.is_echo_reply
    }

    /// Returns the flags of the TCP header; `None` for other transports.
    #[must_use]
    pub const fn tcp(&self) -> Option<TcpHeader> {
        self.tcp
    }

    /// Returns the source address and port; an ICMP echo reply has port 0 there.
    #[must_use]
    pub fn source(&self) -> SocketAddrV4 {
        self.end(SOURCE_AT, self.source_port_at())
    }

    /// Returns the destination address and port; an ICMP echo request has port 0 there.
    #[must_use]
    pub fn destination(&self) -> SocketAddrV4 {
        self.end(DESTINATION_AT, self.destination_port_at())
    }

    /// Sets the source address and port, and corrects the checksums.
    pub fn set_source(&mut self, source: SocketAddrV4) {
        self.set_end(SOURCE_AT, self.source_port_at(), source);
    }

    /// Sets the destination address and port, and corrects the checksums.
    pub fn set_destination(&mut self, destination: SocketAddrV4) {
        self.set_end(DESTINATION_AT, self.destination_port_at(), destination);
    }

    /// Returns the offset of the source port; `None` for an ICMP echo reply.
    fn source_port_at(&self) -> Option<usize> {
        match self.transport {
            Transport::Udp | Transport::Tcp => Some(self.at),
            Transport::Echo => (!self.is_echo_reply).then_some(self.at + 4),
        }
    }

    /// Returns the offset of the destination port; `None` for an ICMP echo request.
    fn destination_port_at(&self) -> Option<usize> {
        match self.transport {
            Transport::Udp | Transport::Tcp => Some(self.at + 2),
            Transport::Echo => self.is_echo_reply.then_some(self.at + 4),
        }
    }

    fn end(&self, address_at: usize, port_at: Option<usize>) -> SocketAddrV4 {
        let octets: [u8; 4] = core::array::from_fn(|nth| self.bytes[address_at + nth]);
        SocketAddrV4::new(Ipv4Addr::from(octets), port_at.map_or(0, |at| self.word(at)))
    }

    fn set_end(&mut self, address_at: usize, port_at: Option<usize>, end: SocketAddrV4) {
        let [a, b, c, d] = end.ip().octets();
        for (at, word) in [(address_at, [a, b]), (address_at + 2, [c, d])] {
            let (before, word) = (self.word(at), u16::from_be_bytes(word));
            self.update(CHECKSUM_AT, before, word);
            // The checksums of UDP and TCP cover the addresses, and that of ICMP does not.
            if self.transport != Transport::Echo {
                self.update_transport(before, word);
            }
            self.set_word(at, word);
        }
        if let Some(at) = port_at {
            self.update_transport(self.word(at), end.port());
            self.set_word(at, end.port());
        }
    }

    fn update_transport(&mut self, before: u16, after: u16) {
        let at = self.at
            + match self.transport {
                Transport::Udp => 6,
                Transport::Tcp => 16,
                Transport::Echo => 2,
            };
        if self.transport != Transport::Udp {
            return self.update(at, before, after);
        }
        // A UDP checksum of 0 means that there is none (RFC 768).
        if self.word(at) != 0 {
            self.update(at, before, after);
            if self.word(at) == 0 {
                self.set_word(at, 0xFFFF);
            }
        }
    }

    /// Corrects the checksum at offset `at` after a change of one covered word.
    fn update(&mut self, at: usize, before: u16, after: u16) {
        self.set_word(at, updated_checksum(self.word(at), before, after));
    }

    fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    fn set_word(&mut self, at: usize, word: u16) {
        self.bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
    }
}

fn is_udp(bytes: &[u8]) -> bool {
    let length = bytes.first_chunk::<UDP_HEADER>().map(|header| u16::from_be_bytes([header[4], header[5]]));
    length.is_some_and(|length| (UDP_HEADER..=bytes.len()).contains(&length.into()))
}

fn is_tcp(bytes: &[u8]) -> bool {
    let length = bytes.first_chunk::<TCP_HEADER>().map(|header| usize::from(header[12] >> 4) * 4);
    length.is_some_and(|length| (TCP_HEADER..=bytes.len()).contains(&length))
}

fn is_echo(bytes: &[u8]) -> bool {
    bytes.len() >= ECHO_HEADER && matches!(bytes[..2], [ECHO_REQUEST | ECHO_REPLY, 0])
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::ip::checksum;

    /// Computes the transport's checksum behind an IPv4 header of 20 octets.
    fn transport_checksum(packet: &[u8]) -> u16 {
        let behind = &packet[20..];
        if packet[9] == ICMP {
            return checksum(&[behind]);
        }
        let length = u16::try_from(behind.len()).expect("it is short").to_be_bytes();
        checksum(&[&packet[12..20], &[0, packet[9]], &length, behind])
    }

    /// Returns a packet of this protocol and payload, from 10.77.0.1 port 4,000 to 10.77.0.9 port
    /// 80.
    fn packet(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let udp_length = u8::try_from(UDP_HEADER + payload.len()).expect("it is short");
        let (mut behind, checksum_at) = match protocol {
            UDP => (vec![0x0F, 0xA0, 0, 80, 0, udp_length, 0, 0], 26),
            TCP => (vec![0x0F, 0xA0, 0, 80, 0, 0, 0, 7, 0, 0, 0, 0, 0x50, 0x02, 1, 1, 0, 0, 0, 0], 36),
            _ => (vec![ECHO_REQUEST, 0, 0, 0, 0x0F, 0xA0, 0, 1], 22),
        };
        behind.extend(payload);
        let length = u8::try_from(20 + behind.len()).expect("it is short");
        let mut packet =
            vec![0x45, 0, 0, length, 0, 1, 0x40, 0, 64, protocol, 0, 0, 10, 77, 0, 1, 10, 77, 0, 9];
        let own = checksum(&[&packet]);
        packet[10..12].copy_from_slice(&own.to_be_bytes());
        packet.extend(behind);
        let own = transport_checksum(&packet);
        packet[checksum_at..checksum_at + 2].copy_from_slice(&own.to_be_bytes());
        packet
    }

    fn end(host: u8, port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, host), port)
    }

    #[test]
    fn both_ends_are_read() {
        for (protocol, transport) in [(UDP, Transport::Udp), (TCP, Transport::Tcp)] {
            let mut bytes = packet(protocol, b"hello");
            let ends = PacketEndpoints::new(&mut bytes).expect("a packet");
            let read = (ends.transport(), ends.source(), ends.destination());
            assert_eq!(read, (transport, end(1, 4_000), end(9, 80)));
            assert_eq!(ends.tcp().map(TcpHeader::begins), (protocol == TCP).then_some(true));
        }
    }

    #[test]
    fn the_identifier_of_an_echo_is_the_port_of_who_asks() {
        let mut bytes = packet(ICMP, b"hello");
        let ends = PacketEndpoints::new(&mut bytes).expect("a request");
        assert_eq!((ends.source(), ends.destination()), (end(1, 4_000), end(9, 0)));
        assert!(!ends.is_echo_reply());
        bytes[20] = ECHO_REPLY;
        let ends = PacketEndpoints::new(&mut bytes).expect("a reply");
        assert_eq!((ends.source(), ends.destination()), (end(1, 0), end(9, 4_000)));
        assert!(ends.is_echo_reply());
    }

    #[test]
    fn what_is_no_whole_packet_with_ends_is_not_taken_for_one() {
        let changed = |protocol: u8, at: usize, octet: u8| {
            let mut bytes = packet(protocol, b"hello");
            bytes[at] = octet;
            bytes
        };
        let wrong = [
            vec![],
            vec![0x60; 60],
            packet(TCP, b"hello")[..39].to_vec(), // not as long as it says
            changed(UDP, 9, 47),                  // GRE
            changed(UDP, 6, 0x20),                // a first fragment
            changed(UDP, 7, 1),                   // a later one
            changed(UDP, 25, 7),                  // shorter than its own header
            changed(UDP, 25, 14),                 // longer than the packet
            changed(TCP, 32, 0x40),               // shorter than its own header
            changed(TCP, 32, 0xF0),               // longer than the packet
            changed(UDP, 0, 0x4F),                // options beyond the end
            changed(ICMP, 20, 3),                 // an ICMP error
            changed(ICMP, 21, 1),                 // no such echo
        ];
        for mut bytes in wrong {
            assert!(PacketEndpoints::new(&mut bytes).is_none(), "{bytes:?}");
        }
    }

    #[test]
    fn a_checksum_that_is_not_there_is_not_made_up_and_one_that_becomes_zero_is_sent_as_ones() {
        let mut bytes = packet(UDP, b"hello");
        bytes[26..28].fill(0);
        PacketEndpoints::new(&mut bytes).expect("a packet").set_source(end(3, 50_000));
        assert_eq!(bytes[26..28], [0, 0]);
        // With this source port, the sum of all words is 0xFFFF.
        let mut bytes = packet(UDP, b"");
        let sum = !transport_checksum(&{
            let mut plain = bytes.clone();
            plain[20..22].fill(0);
            plain[26..28].fill(0);
            plain
        });
        PacketEndpoints::new(&mut bytes).expect("a packet").set_source(end(1, !sum));
        assert_eq!(bytes[26..28], [0xFF, 0xFF]);
    }

    proptest! {
        #[test]
        fn checksums_stay_right(
            protocol in prop::sample::select(vec![UDP, TCP, ICMP]),
            payload in prop::collection::vec(any::<u8>(), 0..64),
            source: (u32, u16),
            destination: (u32, u16),
        ) {
            let mut bytes = packet(protocol, &payload);
            prop_assert_eq!(transport_checksum(&bytes), 0);
            let [source, destination] =
                [source, destination].map(|(address, port)| SocketAddrV4::new(address.into(), port));
            let mut ends = PacketEndpoints::new(&mut bytes).expect("a packet");
            ends.set_source(source);
            ends.set_destination(destination);
            prop_assert_eq!(ends.source(), source);
            let port = if protocol == ICMP { 0 } else { destination.port() };
            prop_assert_eq!(ends.destination(), SocketAddrV4::new(*destination.ip(), port));
            prop_assert!(matches!(checksum(&[&bytes[..20]]), 0 | 0xFFFF));
            prop_assert!(matches!(transport_checksum(&bytes), 0 | 0xFFFF));
        }

        #[test]
        fn what_was_damaged_stays_damaged(payload in prop::collection::vec(any::<u8>(), 1..64), bit in 0_u8..8) {
            let mut bytes = packet(UDP, &payload);
            *bytes.last_mut().expect("it has some") ^= 1 << bit;
            PacketEndpoints::new(&mut bytes).expect("a packet").set_source(end(3, 50_000));
            prop_assert!(!matches!(transport_checksum(&bytes), 0 | 0xFFFF));
        }
    }
}
