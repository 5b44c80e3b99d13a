//! Packets that wait before links which tell packets apart.

use byway_sched::FlowTuple;
use byway_sim::{Coming, Flows};
use byway_units::Bytes;
use byway_wire::Ecn;
use byway_wire::ip::Packet;

/// A packet that waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// The machine that it is for.
    pub(crate) to: usize,
    pub(crate) packet: Vec<u8>,
}

/// What waits, by numbers that are used again.
#[derive(Debug, Default)]
pub(crate) struct WaitingRoom {
    places: Vec<Option<Waiting>>,
    free: Vec<u32>,
}

impl WaitingRoom {
    /// How many wait.
    pub(crate) const fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn clear(&mut self) {
        self.places.clear();
        self.free.clear();
    }

    /// The number of the next one that begins to wait.
    ///
    /// # Panics
    /// If 2^32 wait.
    pub(crate) fn next_number(&self) -> u32 {
        let last = || u32::try_from(self.places.len()).expect("fewer packets wait than fit in memory");
        self.free.last().copied().unwrap_or_else(last)
    }

    /// One begins to wait; its number.
    pub(crate) fn insert(&mut self, waiting: Waiting) -> u32 {
        let number = self.next_number();
        match self.free.pop() {
            Some(_) => self.places[number as usize] = Some(waiting),
            None => self.places.push(Some(waiting)),
        }
        number
    }

    /// The one with this number, which waits no longer; `None` if none does.
    pub(crate) fn take(&mut self, number: u32) -> Option<Waiting> {
        let waiting = self.places.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(waiting)
    }
}

/// A packet of this number as a queue sees it. Where its headers say no ports, as those of later fragments do, it has ports 0.
pub(crate) fn coming(number: u32, packet: &Packet<'_>, flows: &Flows) -> Coming {
    let headers = packet.headers();
    let ports = headers.and_then(|headers| headers.ports);
    let tuple = FlowTuple {
        source: packet.source(),
        destination: packet.destination(),
        protocol: headers.map_or(0, |headers| headers.protocol),
        ports: ports.map_or([0; 2], |ports| [ports.source, ports.destination]),
    };
    Coming {
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

    /// A datagram of 40 bytes from 10.77.0.1 to 10.77.0.2, of which ports and marks are these.
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

    fn seen(mut bytes: Vec<u8>) -> Coming {
        let packet = Packet::new(&mut bytes).expect("a packet");
        coming(7, &packet, &Flows::new(Seed::new(1)))
    }

    #[test]
    fn a_queue_sees_what_the_headers_say() {
        let one = seen(datagram([1, 2], 45 << 2 | 2));
        assert_eq!((one.number, one.ip_bytes, one.dscp, one.is_ecn_capable), (7, Bytes::new(40), 45, true));
        let marked = seen(datagram([1, 2], 3));
        assert_eq!((marked.flow, marked.dscp, marked.is_ecn_capable), (one.flow, 0, true));
        let other = seen(datagram([1, 3], 0));
        assert_ne!(other.flow, one.flow);
        assert_eq!(other.source, one.source);
    }

    #[test]
    fn fragments_without_ports_have_ports_0() {
        let mut fragment = datagram([1, 2], 0);
        fragment[7] = 3;
        assert_eq!(seen(fragment).flow, seen(datagram([0, 0], 0)).flow);
    }

    #[test]
    fn ipv6_has_flows_and_classes_too() {
        let mut bytes = vec![0; 48];
        bytes[..8].copy_from_slice(&[0x6B, 0x40, 0, 0, 0, 8, 17, 64]);
        (bytes[23], bytes[39]) = (1, 2);
        bytes[40..46].copy_from_slice(&[0, 1, 0, 2, 0, 8]);
        let one = seen(bytes.clone());
        assert_eq!((one.dscp, one.is_ecn_capable), (45, false));
        bytes[41] = 3;
        assert_ne!(seen(bytes.clone()).flow, one.flow);
        // A source has the second half of its address as it likes.
        bytes[23] = 9;
        assert_eq!(seen(bytes).source, one.source);
    }

    #[test]
    fn numbers_are_used_again_and_taken_once() {
        let mut room = WaitingRoom::default();
        let mut insert = |to| room.insert(Waiting { to, packet: Vec::new() });
        let numbers = [insert(5), insert(6)];
        assert_eq!((numbers, room.len()), ([0, 1], 2));
        assert_eq!(room.take(0).map(|waiting| waiting.to), Some(5));
        assert!(room.take(0).is_none() && room.take(9).is_none());
        assert_eq!((room.insert(Waiting { to: 8, packet: Vec::new() }), room.len()), (0, 2));
        room.clear();
        assert_eq!(room.len(), 0);
    }
}
