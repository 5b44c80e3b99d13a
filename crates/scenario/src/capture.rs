//! Captures of links, for Wireshark (packets as IPv4 with UDP).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use byway_sim::{LossReason, NodeId, Record, Step};

use crate::pcapng::{self, PacketBlock};

const IPV4_BYTES: usize = 20;
const UDP_BYTES: usize = 8;

/// Capture of the packets on some links, each an interface of the capture. A packet is recorded
/// when it is offered to the link; a comment reports its loss.
#[derive(Debug)]
pub(crate) struct Capture {
    interfaces: BTreeMap<(NodeId, NodeId), u32>,
    bytes: Vec<u8>,
    /// Last packet offered, whose loss is not yet known: its number, and its capture block.
    pending: Option<(u64, PacketBlock)>,
}

impl Capture {
    /// Creates a capture of these links, each with the name of its interface in the capture.
    pub(crate) fn new(links: impl IntoIterator<Item = (NodeId, NodeId, String)>) -> Self {
        let mut bytes = Vec::new();
        pcapng::section(&mut bytes);
        let mut interfaces = BTreeMap::new();
        for ((from, to, name), number) in links.into_iter().zip(0_u32..) {
            pcapng::interface(&mut bytes, &name);
            interfaces.insert((from, to), number);
        }
        Self { interfaces, bytes, pending: None }
    }

    pub(crate) fn packet(&mut self, record: &Record<'_>) {
        match record.step {
            Step::Sent => {
                self.flush(None);
                let link = record.to.and_then(|to| self.interfaces.get(&(record.from, to)));
                if let Some(interface) = link {
                    self.pending = Some((record.packet, packet(*interface, record)));
                }
            }
            Step::Lost(reason) if self.is_pending(record) => self.flush(Some(reason)),
            _ => {}
        }
    }

    /// True if a step belongs to the packet that was offered last; the world decides about losses
    /// at once.
    fn is_pending(&self, record: &Record<'_>) -> bool {
        let link = record.to.is_some_and(|to| self.interfaces.contains_key(&(record.from, to)));
        link && self.pending.as_ref().is_some_and(|(number, _)| *number == record.packet)
    }

    fn flush(&mut self, lost: Option<LossReason>) {
        if let Some((_, packet)) = self.pending.take() {
            let packet = match lost {
                Some(reason) => packet.with_comment(&format!("lost: {reason}")),
                None => packet,
            };
            packet.write(&mut self.bytes);
        }
    }

    /// Returns the part of the capture since the last call.
    pub(crate) fn drain(&mut self) -> Vec<u8> {
        self.flush(None);
        std::mem::take(&mut self.bytes)
    }
}

/// Returns a packet's block, without a comment.
fn packet(interface: u32, record: &Record<'_>) -> PacketBlock {
    PacketBlock::new(interface, record.time, &[&ipv4_header(record), &udp_header(record), record.payload])
}

fn ipv4(address: IpAddr) -> [u8; 4] {
    match address {
        IpAddr::V4(address) => address.octets(),
        // Scenarios have no IPv6 addresses.
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED.octets(),
    }
}

fn ipv4_header(record: &Record<'_>) -> [u8; IPV4_BYTES] {
    let length =
        u16::try_from(IPV4_BYTES + UDP_BYTES + record.payload.len()).expect("a packet").to_be_bytes();
    let mut header = [0; IPV4_BYTES];
    (header[0], header[1], header[8], header[9]) = (0x45, record.ecn.bits(), 64, 17);
    header[2..4].copy_from_slice(&length);
    // Don't Fragment.
    header[6] = 0x40;
    header[12..16].copy_from_slice(&ipv4(record.source.ip()));
    header[16..].copy_from_slice(&ipv4(record.destination.ip()));
    let checksum = checksum(&header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    header
}

/// Returns the Internet checksum (RFC 791, section 3.1).
fn checksum(header: &[u8; IPV4_BYTES]) -> u16 {
    let words = header.as_chunks::<2>().0.iter().map(|word| u32::from(u16::from_be_bytes(*word)));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !u16::try_from((folded & 0xffff) + (folded >> 16)).expect("folded twice")
}

/// Returns a UDP header without a checksum.
fn udp_header(record: &Record<'_>) -> [u8; UDP_BYTES] {
    let length = u16::try_from(UDP_BYTES + record.payload.len()).expect("a packet").to_be_bytes();
    let [source, destination] = [record.source, record.destination].map(|end| end.port().to_be_bytes());
    [source[0], source[1], destination[0], destination[1], length[0], length[1], 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_a_header_is_that_of_rfc_791() {
        // 192.168.0.1 to 192.168.0.199, 115 bytes of UDP.
        let mut header =
            [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];
        assert_eq!(checksum(&header), 0xb861);
        header[10..12].copy_from_slice(&0xb861_u16.to_be_bytes());
        assert_eq!(checksum(&header), 0, "it is right");
    }
}
