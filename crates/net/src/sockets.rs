//! The sockets of one role.

use std::net::SocketAddr;

use crate::role::SocketId;
use crate::socket::UdpSocket;

/// The slots of the overlay's sockets: the first ones.
const OVERLAY_IPV4: u32 = 0;
const OVERLAY_IPV6: u32 = 1;

/// The sockets of one role, each in a slot that is used again when it is closed.
#[derive(Debug)]
pub(crate) struct Sockets {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct Slot {
    /// How many sockets it had before.
    generation: u32,
    socket: Option<UdpSocket>,
}

impl Sockets {
    pub(crate) fn new(ipv4: Option<UdpSocket>, ipv6: Option<UdpSocket>) -> Self {
        let slots = [ipv4, ipv6].map(|socket| Slot { generation: 0, socket });
        Self { slots: slots.into(), free: Vec::new() }
    }

    /// Those of the overlay, IPv4 first, each with what stands for it alone.
    pub(crate) fn overlay(&self) -> impl Iterator<Item = (SocketId, &UdpSocket)> {
        [OVERLAY_IPV4, OVERLAY_IPV6].into_iter().filter_map(|slot| {
            let socket = self.slots[slot as usize].socket.as_ref()?;
            Some((SocketId { slot, generation: 0 }, socket))
        })
    }

    pub(crate) fn overlay_mut(&mut self) -> impl Iterator<Item = &mut UdpSocket> {
        self.slots[..=OVERLAY_IPV6 as usize].iter_mut().filter_map(|slot| slot.socket.as_mut())
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &UdpSocket> {
        self.slots.iter().filter_map(|slot| slot.socket.as_ref())
    }

    /// The slot of the socket that sends to `to`; `None` if it is closed or of another family.
    #[inline]
    pub(crate) fn slot_towards(&self, id: SocketId, to: &SocketAddr) -> Option<u32> {
        if id == SocketId::OVERLAY {
            let slot = if to.is_ipv4() { OVERLAY_IPV4 } else { OVERLAY_IPV6 };
            return self.slots[slot as usize].socket.is_some().then_some(slot);
        }
        let socket = self.get(id)?;
        (socket.local().is_ipv4() == to.is_ipv4()).then_some(id.slot)
    }

    #[inline]
    pub(crate) fn get(&self, id: SocketId) -> Option<&UdpSocket> {
        let slot = self.slots.get(id.slot as usize)?;
        slot.socket.as_ref().filter(|_| slot.generation == id.generation)
    }

    /// The socket in a slot, with its name.
    #[inline]
    pub(crate) fn at(&mut self, slot: u32) -> Option<(SocketId, &mut UdpSocket)> {
        let Slot { generation, socket } = self.slots.get_mut(slot as usize)?;
        Some((SocketId { slot, generation: *generation }, socket.as_mut()?))
    }

    pub(crate) fn insert(&mut self, socket: UdpSocket) -> (SocketId, &UdpSocket) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u32::try_from(self.slots.len() - 1).expect("no process has so many descriptors")
        });
        let entry = &mut self.slots[slot as usize];
        (SocketId { slot, generation: entry.generation }, entry.socket.insert(socket))
    }

    /// Takes a socket out, unless that was done before.
    pub(crate) fn remove(&mut self, id: SocketId) -> Option<UdpSocket> {
        self.get(id)?;
        let slot = &mut self.slots[id.slot as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.slot);
        slot.socket.take()
    }
}

/// What the role calls the socket that the poller knows by this name.
pub(crate) const fn roles_name(id: SocketId) -> SocketId {
    if id.slot <= OVERLAY_IPV6 { SocketId::OVERLAY } else { id }
}
