//! Sockets of one role.

use std::net::SocketAddr;

use crate::role::SocketId;
use crate::socket::UdpSocket;

/// Slots of the overlay's IPv4 and IPv6 sockets: the first ones.
const OVERLAY_IPV4: u32 = 0;
const OVERLAY_IPV6: u32 = 1;

/// Sockets of one role, each in a slot that is reused after the socket was closed.
#[derive(Debug)]
pub(crate) struct Sockets {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct Slot {
    /// Number of earlier sockets in the slot, which distinguishes their identifiers.
    generation: u32,
    socket: Option<UdpSocket>,
}

impl Sockets {
    pub(crate) fn new(ipv4: Option<UdpSocket>, ipv6: Option<UdpSocket>) -> Self {
        let slots = [ipv4, ipv6].map(|socket| Slot { generation: 0, socket });
        Self { slots: slots.into(), free: Vec::new() }
    }

    /// Returns the overlay's sockets, IPv4 first, each with its own identifier.
    pub(crate) fn overlay(&self) -> impl Iterator<Item = (SocketId, &UdpSocket)> {
        [OVERLAY_IPV4, OVERLAY_IPV6].into_iter().filter_map(|slot| {
            let socket = self.slots[slot as usize].socket.as_ref()?;
            Some((SocketId { slot, generation: 0 }, socket))
        })
    }

    pub(crate) fn overlay_mut(&mut self) -> impl Iterator<Item = &mut UdpSocket> {
        self.slots[..=OVERLAY_IPV6 as usize].iter_mut().filter_map(|slot| slot.socket.as_mut())
    }

    /// Returns all open sockets of the role.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &UdpSocket> {
        self.slots.iter().filter_map(|slot| slot.socket.as_ref())
    }

    /// Returns the slot of the socket for datagrams to `to`; `None` if it is closed or of another
    /// family.
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

    /// Returns the socket in a slot, with its identifier; `None` if the slot is empty.
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

    /// Removes and returns a socket; `None` if it was removed before.
    pub(crate) fn remove(&mut self, id: SocketId) -> Option<UdpSocket> {
        self.get(id)?;
        let slot = &mut self.slots[id.slot as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.slot);
        slot.socket.take()
    }
}

/// Returns the identifier that the role uses for a socket: one for both sockets of the overlay.
pub(crate) const fn role_socket_id(id: SocketId) -> SocketId {
    if id.slot <= OVERLAY_IPV6 { SocketId::OVERLAY } else { id }
}
