//! Pool of the packets in flight, with reuse of buffers.

use alloc::vec::Vec;
use core::net::SocketAddr;

use crate::limits::IN_FLIGHT_PACKETS_MAX;
use crate::marks::Marks;
use crate::network::LinkIndex;
use crate::node::NodeId;
use byway_wire::Ecn;

/// Index of a packet in the [`Pool`] of packets in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PacketIndex(u32);

impl PacketIndex {
    pub(crate) const fn from_number(number: u32) -> Self {
        Self(number)
    }

    pub(crate) const fn number(self) -> u32 {
        self.0
    }
}

/// Owner of an address, and the number of owner changes in the world at the time of its look-up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressOwner {
    pub(crate) node: NodeId,
    pub(crate) changes: u32,
}

/// World's record of a packet without its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    /// Number of the packet in the world; a duplicate has the number of the packet that it repeats.
    pub(crate) number: u64,
    pub(crate) link: LinkIndex,
    /// Node at which the packet's link begins; `to` is the node at its end.
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    /// Owner of the destination's address at the last look-up.
    pub(crate) address_owner: AddressOwner,
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    pub(crate) marks: Marks,
    pub(crate) ecn: Ecn,
}

/// A packet in flight.
#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) header: Header,
    pub(crate) payload: Vec<u8>,
    is_in_flight: bool,
}

impl Packet {
    pub(crate) fn flip_bit(&mut self, bit: u64) {
        let byte = usize::try_from(bit / 8).expect("a bit of the payload");
        self.payload[byte] ^= 1 << (bit % 8);
    }
}

/// All packets in flight. The pool allocates only if there are more packets, or longer ones, than
/// ever before.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    packets: Vec<Packet>,
    free: Vec<PacketIndex>,
    /// Payload bytes of the packets in flight.
    payload_bytes: usize,
}

impl Pool {
    /// Copies `payload` into a free buffer.
    ///
    /// # Panics
    /// If [`IN_FLIGHT_PACKETS_MAX`] packets are in flight.
    pub(crate) fn insert(&mut self, header: Header, payload: &[u8]) -> PacketIndex {
        self.payload_bytes += payload.len();
        if let Some(index) = self.free.pop() {
            let packet = &mut self.packets[index.0 as usize];
            packet.header = header;
            packet.payload.clear();
            packet.payload.extend_from_slice(payload);
            packet.is_in_flight = true;
            return index;
        }
        assert!(
            self.packets.len() < IN_FLIGHT_PACKETS_MAX,
            "{IN_FLIGHT_PACKETS_MAX} packets are under way: hosts answer each other without end, or a link's \
             delay is too long for its load"
        );
        let index = PacketIndex(u32::try_from(self.packets.len()).expect("the limit has 32 bits"));
        self.packets.push(Packet { header, payload: payload.to_vec(), is_in_flight: true });
        index
    }

    pub(crate) fn get(&self, index: PacketIndex) -> &Packet {
        &self.packets[index.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, index: PacketIndex) -> &mut Packet {
        &mut self.packets[index.0 as usize]
    }

    /// Frees the entry of a packet; a later packet reuses its buffer.
    pub(crate) fn release(&mut self, index: PacketIndex) {
        let packet = &mut self.packets[index.0 as usize];
        assert!(packet.is_in_flight, "a packet is released once");
        packet.is_in_flight = false;
        self.payload_bytes -= packet.payload.len();
        self.free.push(index);
    }

    /// Returns the number of packets in flight.
    pub(crate) const fn len(&self) -> usize {
        self.packets.len() - self.free.len()
    }

    /// Returns the memory of the packets in flight: payloads and headers.
    pub(crate) const fn memory_bytes(&self) -> usize {
        self.payload_bytes + self.len() * size_of::<Packet>()
    }

    /// Returns the packets in flight, in no particular order.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = &Packet> {
        self.packets.iter().filter(|packet| packet.is_in_flight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        let address = SocketAddr::from(([192, 0, 2, 1], 1));
        Header {
            number: 0,
            link: LinkIndex::from_index(0),
            from: NodeId::from_index(0),
            to: NodeId::from_index(1),
            address_owner: AddressOwner { node: NodeId::from_index(1), changes: 0 },
            source: address,
            destination: address,
            marks: Marks::default(),
            ecn: Ecn::NotCapable,
        }
    }

    #[test]
    fn buffers_are_used_again_and_hold_the_new_payload_only() {
        let mut pool = Pool::default();
        let first = pool.insert(header(), b"a long payload");
        let buffer = pool.get(first).payload.as_ptr();
        assert_eq!(pool.memory_bytes(), 14 + size_of::<Packet>());
        pool.release(first);
        assert_eq!((pool.in_flight().count(), pool.len(), pool.memory_bytes()), (0, 0, 0));
        let second = pool.insert(header(), b"short");
        assert_eq!(pool.get(second).payload, b"short");
        assert_eq!(pool.get(second).payload.as_ptr(), buffer);
        assert_eq!((pool.in_flight().count(), pool.len()), (1, 1));
    }

    #[test]
    fn a_flip_changes_one_bit() {
        let mut pool = Pool::default();
        let index = pool.insert(header(), &[0, 0]);
        pool.get_mut(index).flip_bit(10);
        assert_eq!(pool.get(index).payload, [0, 0b100]);
    }

    #[test]
    #[should_panic(expected = "released once")]
    fn a_packet_cannot_be_released_twice() {
        let mut pool = Pool::default();
        let index = pool.insert(header(), b"once");
        pool.release(index);
        pool.release(index);
    }
}
