//! The packets under way, in buffers that are used again.

use alloc::vec::Vec;
use core::net::SocketAddr;

use crate::limits::IN_FLIGHT_PACKETS_MAX;
use crate::marks::Marks;
use crate::network::LinkIndex;
use crate::node::NodeId;
use byway_wire::Ecn;

/// A packet's place in the [`Pool`].
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

/// Who has an address, and how often any address had changed hands by then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    pub(crate) node: NodeId,
    pub(crate) changes: u32,
}

/// What the world knows about a packet besides its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    /// Counts the packets of the world; a duplicate has the number of its original.
    pub(crate) number: u64,
    pub(crate) link: LinkIndex,
    /// The ends of the link.
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    /// Who had the destination's address when that was looked up.
    pub(crate) holder: Holder,
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    pub(crate) marks: Marks,
    pub(crate) ecn: Ecn,
}

/// A packet under way.
#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) header: Header,
    pub(crate) payload: Vec<u8>,
    is_under_way: bool,
}

impl Packet {
    pub(crate) fn flip(&mut self, bit: u64) {
        let byte = usize::try_from(bit / 8).expect("a bit of the payload");
        self.payload[byte] ^= 1 << (bit % 8);
    }
}

/// All packets under way. It allocates only when there are more of them, or longer ones, than ever before.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    packets: Vec<Packet>,
    free: Vec<PacketIndex>,
    /// What the packets under way carry, in bytes.
    payload_bytes: usize,
}

impl Pool {
    /// Copies `payload` into a free buffer.
    ///
    /// # Panics
    /// If [`IN_FLIGHT_PACKETS_MAX`] packets are under way.
    pub(crate) fn insert(&mut self, header: Header, payload: &[u8]) -> PacketIndex {
        self.payload_bytes += payload.len();
        if let Some(index) = self.free.pop() {
            let packet = &mut self.packets[index.0 as usize];
            packet.header = header;
            packet.payload.clear();
            packet.payload.extend_from_slice(payload);
            packet.is_under_way = true;
            return index;
        }
        assert!(
            self.packets.len() < IN_FLIGHT_PACKETS_MAX,
            "{IN_FLIGHT_PACKETS_MAX} packets are under way: hosts answer each other without end, or a link's \
             delay is too long for its load"
        );
        let index = PacketIndex(u32::try_from(self.packets.len()).expect("the limit has 32 bits"));
        self.packets.push(Packet { header, payload: payload.to_vec(), is_under_way: true });
        index
    }

    pub(crate) fn get(&self, index: PacketIndex) -> &Packet {
        &self.packets[index.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, index: PacketIndex) -> &mut Packet {
        &mut self.packets[index.0 as usize]
    }

    /// Makes the place of a packet free for another.
    pub(crate) fn release(&mut self, index: PacketIndex) {
        let packet = &mut self.packets[index.0 as usize];
        assert!(packet.is_under_way, "a packet is released once");
        packet.is_under_way = false;
        self.payload_bytes -= packet.payload.len();
        self.free.push(index);
    }

    /// How many packets are under way.
    pub(crate) const fn len(&self) -> usize {
        self.packets.len() - self.free.len()
    }

    /// What the packets under way take: what they carry, and what is known of each.
    pub(crate) const fn held_bytes(&self) -> usize {
        self.payload_bytes + self.len() * size_of::<Packet>()
    }

    /// The packets under way, in no particular order.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = &Packet> {
        self.packets.iter().filter(|packet| packet.is_under_way)
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
            holder: Holder { node: NodeId::from_index(1), changes: 0 },
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
        assert_eq!(pool.held_bytes(), 14 + size_of::<Packet>());
        pool.release(first);
        assert_eq!((pool.under_way().count(), pool.len(), pool.held_bytes()), (0, 0, 0));
        let second = pool.insert(header(), b"short");
        assert_eq!(pool.get(second).payload, b"short");
        assert_eq!(pool.get(second).payload.as_ptr(), buffer);
        assert_eq!((pool.under_way().count(), pool.len()), (1, 1));
    }

    #[test]
    fn a_flip_changes_one_bit() {
        let mut pool = Pool::default();
        let index = pool.insert(header(), &[0, 0]);
        pool.get_mut(index).flip(10);
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
