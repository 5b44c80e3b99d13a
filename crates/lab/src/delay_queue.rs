//! Packets in the queues of links with classes.

use byway_sched::FlowTuple;
use byway_sim::{ArrivingPacket, FlowHasher};
use byway_units::Bytes;
use byway_wire::Ecn;
use byway_wire::ip::Packet;

/// Packet in the queue of a link with classes.
#[derive(Debug)]
pub(crate) struct QueuedPacket {
    /// Index of the packet's destination machine.
    pub(crate) to: usize,
    pub(crate) packet: Vec<u8>,
}

/// Storage of queued packets. Each has a number, which is reused after the packet is removed.
#[derive(Debug, Default)]
pub(crate) struct DelayQueue {
    slots: Vec<Option<QueuedPacket>>,
    free: Vec<u32>,
}

impl DelayQueue {
    /// Returns the number of queued packets.
    pub(crate) const fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        self.free.clear();
    }

    /// Returns the number that the next packet gets.
    ///
    /// # Panics
    /// If 2^32 packets are queued.
    pub(crate) fn next_number(&self) -> u32 {
        let last = || u32::try_from(self.slots.len()).expect("fewer packets wait than fit in memory");
        self.free.last().copied().unwrap_or_else(last)
    }

    /// Stores a packet and returns its number, which is that of [`next_number`](Self::next_number)
    /// before.
    pub(crate) fn insert(&mut self, queued: QueuedPacket) -> u32 {
        let number = self.next_number();
        match self.free.pop() {
            Some(_) => self.slots[number as usize] = Some(queued),
            None => self.slots.push(Some(queued)),
        }
        number
    }

    /// Removes the packet with this number; `None` if there is none.
    pub(crate) fn remove(&mut self, number: u32) -> Option<QueuedPacket> {
        let queued = self.slots.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(queued)
    }
}

/// Describes a packet with this number to a link's scheduler. If its headers have no ports, as in
/// later fragments, its ports are 0.
pub(crate) fn arriving_packet(number: u32, packet: &Packet<'_>, flows: &FlowHasher) -> ArrivingPacket {
    let headers = packet.headers();
    let ports = headers.and_then(|headers| headers.ports);
    let tuple = FlowTuple {
        source: packet.source(),
        destination: packet.destination(),
        protocol: headers.map_or(0, |headers| headers.protocol),
        ports: ports.map_or([0; 2], |ports| [ports.source, ports.destination]),
    };
    ArrivingPacket {
        number,
        ip_bytes: Bytes::from(packet.bytes()),
        dscp: packet.dscp(),
        flow: flows.flow(&tuple, 0),
        source: flows.source(tuple.source),
        is_ecn_capable: packet.ecn() != Ecn::NotCapable,
    }
}

#[cfg(test)]
mod tests {
    use byway_sim::Seed;

    use super::*;

    /// Makes a datagram of 40 bytes from 10.77.0.1 to 10.77.0.2, with these ports and marks.
    fn datagram(ports: [u16; 2], traffic_class: u8) -> Vec<u8> {
        let mut bytes = vec![0; 40];
        bytes[..4].copy_from_slice(&[0x45, traffic_class, 0, 40]);
        bytes[9] = 17;
        bytes[12..20].copy_from_slice(&[10, 77, 0, 1, 10, 77, 0, 2]);
        bytes[20..22].copy_from_slice(&ports[0].to_be_bytes());
        bytes[22..24].copy_from_slice(&ports[1].to_be_bytes());
        bytes[25] = 20;
        bytes
    }

    fn arriving(mut bytes: Vec<u8>) -> ArrivingPacket {
        let packet = Packet::new(&mut bytes).expect("a packet");
        arriving_packet(7, &packet, &FlowHasher::new(Seed::new(1)))
    }

    #[test]
    fn a_queue_sees_what_the_headers_say() {
        let one = arriving(datagram([1, 2], 45 << 2 | 2));
        assert_eq!((one.number, one.ip_bytes, one.dscp, one.is_ecn_capable), (7, Bytes::new(40), 45, true));
        let marked = arriving(datagram([1, 2], 3));
        assert_eq!((marked.flow, marked.dscp, marked.is_ecn_capable), (one.flow, 0, true));
        let other = arriving(datagram([1, 3], 0));
        assert_ne!(other.flow, one.flow);
        assert_eq!(other.source, one.source);
    }

    #[test]
    fn fragments_without_ports_have_ports_0() {
        let mut fragment = datagram([1, 2], 0);
        fragment[7] = 3;
        assert_eq!(arriving(fragment).flow, arriving(datagram([0, 0], 0)).flow);
    }

    #[test]
    fn ipv6_has_flows_and_classes_too() {
        let mut bytes = vec![0; 48];
        bytes[..8].copy_from_slice(&[0x6B, 0x40, 0, 0, 0, 8, 17, 64]);
        (bytes[23], bytes[39]) = (1, 2);
        bytes[40..46].copy_from_slice(&[0, 1, 0, 2, 0, 8]);
        let one = arriving(bytes.clone());
        assert_eq!((one.dscp, one.is_ecn_capable), (45, false));
        bytes[41] = 3;
        assert_ne!(arriving(bytes.clone()).flow, one.flow);
        // A source may choose the second half of its IPv6 address freely.
        bytes[23] = 9;
        assert_eq!(arriving(bytes).source, one.source);
    }

    #[test]
    fn numbers_are_used_again_and_taken_once() {
        let mut room = DelayQueue::default();
        let mut insert = |to| room.insert(QueuedPacket { to, packet: Vec::new() });
        let numbers = [insert(5), insert(6)];
        assert_eq!((numbers, room.len()), ([0, 1], 2));
        assert_eq!(room.remove(0).map(|waiting| waiting.to), Some(5));
        assert!(room.remove(0).is_none() && room.remove(9).is_none());
        assert_eq!((room.insert(QueuedPacket { to: 8, packet: Vec::new() }), room.len()), (0, 2));
        room.clear();
        assert_eq!(room.len(), 0);
    }
}
