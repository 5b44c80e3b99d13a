//! Control messages of `sendmsg` and `recvmsg`: metadata of received and sent datagrams.

use std::net::IpAddr;

use byway_wire::TrafficClass;
use libc::c_int;

const ALIGNMENT: usize = size_of::<usize>();
const HEADER_BYTES: usize = size_of::<libc::cmsghdr>().next_multiple_of(ALIGNMENT);

/// Size in bytes of a buffer for the control messages of one datagram: address, traffic class and
/// segment length take 88 bytes.
pub(crate) const CONTROL_BYTES: usize = 128;

/// Buffer for the control messages of one datagram, aligned like their headers.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(crate) struct ControlBuffer(pub(crate) [u8; CONTROL_BYTES]);

impl ControlBuffer {
    pub(crate) const EMPTY: Self = Self([0; CONTROL_BYTES]);
}

/// Iterator over received control messages: level, type and data of each. It ends at the first
/// truncated one.
#[derive(Debug)]
pub(crate) struct ControlMessages<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for ControlMessages<'a> {
    type Item = (c_int, c_int, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        // On a little-endian machine, lengths below 2^32 are in the first half of their field.
        let length = usize::from_ne_bytes(*self.0.first_chunk()?);
        let data = self.0.get(HEADER_BYTES..length)?;
        let level = number(&self.0[ALIGNMENT..])?;
        let name = number(&self.0[ALIGNMENT + 4..])?;
        self.0 = self.0.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
        Some((level, name, data))
    }
}

/// Returns the number at the beginning of `data`.
fn number(data: &[u8]) -> Option<c_int> {
    data.first_chunk().map(|bytes| c_int::from_ne_bytes(*bytes))
}

/// Metadata of a received datagram, from its control messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DatagramMetadata {
    pub(crate) traffic_class: TrafficClass,
    /// Local address that the datagram was sent to.
    pub(crate) to: Option<IpAddr>,
    /// Length of each datagram, if the kernel has joined several (GRO); `None` for a single one.
    pub(crate) segment_bytes: Option<usize>,
}

impl DatagramMetadata {
    pub(crate) fn parse(control: &[u8]) -> Self {
        let mut received = Self::default();
        for (level, name, data) in ControlMessages(control) {
            match (level, name) {
                (libc::IPPROTO_IP, libc::IP_TOS) => {
                    received.traffic_class = TrafficClass::from_bits(data.first().copied().unwrap_or(0));
                }
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    let class = number(data).and_then(|class| u8::try_from(class).ok());
                    received.traffic_class = TrafficClass::from_bits(class.unwrap_or(0));
                }
                // An `in_pktinfo`: interface[4], the local address[4], the destination in the
                // header[4].
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let address: Option<&[u8; 4]> = data.get(8..).and_then(<[u8]>::first_chunk);
                    received.to = address.map(|address| (*address).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    received.to = data.first_chunk().map(|address: &[u8; 16]| (*address).into());
                }
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    received.segment_bytes = number(data).and_then(|bytes| usize::try_from(bytes).ok());
                }
                _ => {}
            }
        }
        received
    }
}

/// Writer of the control messages of a datagram to send.
#[derive(Debug)]
pub(crate) struct ControlWriter {
    pub(crate) buffer: ControlBuffer,
    pub(crate) length: usize,
}

impl ControlWriter {
    /// Creates a buffer without messages.
    pub(crate) const fn new() -> Self {
        Self { buffer: ControlBuffer::EMPTY, length: 0 }
    }

    /// Adds the traffic class that the datagram gets in its IP header.
    pub(crate) fn push_traffic_class(&mut self, traffic_class: TrafficClass, is_ipv6: bool) {
        let (level, name) =
            if is_ipv6 { (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) } else { (libc::IPPROTO_IP, libc::IP_TOS) };
        self.push(level, name, &c_int::from(traffic_class.bits()).to_ne_bytes());
    }

    /// Adds the source address that the datagram gets.
    pub(crate) fn push_source(&mut self, from: IpAddr) {
        match from {
            IpAddr::V4(address) => {
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&address.octets());
                self.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            IpAddr::V6(address) => {
                let mut info = [0; 20];
                info[..16].copy_from_slice(&address.octets());
                self.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
        }
    }

    /// Adds the length of each datagram, so that the kernel divides the bytes into several (GSO).
    pub(crate) fn push_segment_bytes(&mut self, segment_bytes: u16) {
        self.push(libc::SOL_UDP, libc::UDP_SEGMENT, &segment_bytes.to_ne_bytes());
    }

    fn push(&mut self, level: c_int, name: c_int, data: &[u8]) {
        let message = &mut self.buffer.0[self.length..];
        let length = HEADER_BYTES + data.len();
        message[..ALIGNMENT].copy_from_slice(&length.to_ne_bytes());
        message[ALIGNMENT..ALIGNMENT + 4].copy_from_slice(&level.to_ne_bytes());
        message[ALIGNMENT + 4..ALIGNMENT + 8].copy_from_slice(&name.to_ne_bytes());
        message[HEADER_BYTES..length].copy_from_slice(data);
        self.length += length.next_multiple_of(ALIGNMENT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_in_order() {
        let mut writer = ControlWriter::new();
        writer.push_traffic_class(TrafficClass::from_bits(0xb9), false);
        writer.push_source([192, 0, 2, 1].into());
        writer.push_segment_bytes(1_200);
        let read: Vec<_> = ControlMessages(&writer.buffer.0[..writer.length]).collect();
        let mut info = [0; 12];
        info[4..8].copy_from_slice(&[192, 0, 2, 1]);
        assert_eq!(
            read,
            [
                (libc::IPPROTO_IP, libc::IP_TOS, &0xb9_i32.to_ne_bytes()[..]),
                (libc::IPPROTO_IP, libc::IP_PKTINFO, &info),
                (libc::SOL_UDP, libc::UDP_SEGMENT, &1_200_u16.to_ne_bytes()),
            ]
        );
    }

    #[test]
    fn the_largest_messages_of_ipv6_have_room() {
        let mut writer = ControlWriter::new();
        let (class, address) = (TrafficClass::from_bits(0x88), "2001:db8::1".parse().expect("an address"));
        writer.push_traffic_class(class, true);
        writer.push_source(address);
        writer.push_segment_bytes(u16::MAX);
        assert!(writer.length <= CONTROL_BYTES, "{} bytes", writer.length);
        let received = DatagramMetadata::parse(&writer.buffer.0[..writer.length]);
        assert_eq!(
            received,
            DatagramMetadata { traffic_class: class, to: Some(address), segment_bytes: None }
        );
    }

    #[test]
    fn messages_that_are_cut_off_say_nothing() {
        let mut writer = ControlWriter::new();
        writer.push_traffic_class(TrafficClass::from_bits(0xff), true);
        let whole = HEADER_BYTES + 4;
        for length in 0..writer.length {
            let received = DatagramMetadata::parse(&writer.buffer.0[..length]);
            assert_eq!(received.traffic_class.bits(), if length < whole { 0 } else { 0xff }, "{length}");
        }
        // Invalid lengths end the sequence.
        for length in [0, 1, HEADER_BYTES - 1, 1_000, usize::MAX] {
            let mut bytes = [0xaa; 64];
            bytes[..ALIGNMENT].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(ControlMessages(&bytes).count(), 0, "{length}");
        }
    }
}
