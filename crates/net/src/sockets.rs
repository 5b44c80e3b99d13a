//! Sockets of one role.

use std::net::SocketAddr;

use byway_proto::Uplink;

use crate::socket::UdpSocket;
use crate::socket_id::SocketId;

/// Number of slots of the overlay's sockets, which are the first ones: an IPv4 and an IPv6 socket
/// of the first uplink, and those of the second one.
const OVERLAY_SLOTS: u32 = 4;

/// Sockets of one uplink, IPv4 and IPv6.
pub(crate) type UplinkSockets = [Option<UdpSocket>; 2];

/// Returns the slot of an uplink's socket of this family.
const fn overlay_slot(uplink: Uplink, is_ipv6: bool) -> u32 {
    match uplink {
        Uplink::First => is_ipv6 as u32,
        Uplink::Second => 2 + is_ipv6 as u32,
    }
}

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
    pub(crate) fn new(first: UplinkSockets, second: UplinkSockets) -> Self {
        let sockets = first.into_iter().chain(second);
        Self { slots: sockets.map(|socket| Slot { generation: 0, socket }).collect(), free: Vec::new() }
    }

    /// Returns the overlay's sockets, those of the first uplink first and IPv4 before IPv6, each
    /// with its own identifier.
    pub(crate) fn overlay(&self) -> impl Iterator<Item = (SocketId, &UdpSocket)> {
        (0..OVERLAY_SLOTS).filter_map(|slot| {
            let socket = self.slots[slot as usize].socket.as_ref()?;
            Some((SocketId { slot, generation: 0 }, socket))
        })
    }

    pub(crate) fn overlay_mut(&mut self) -> impl Iterator<Item = &mut UdpSocket> {
        self.slots[..OVERLAY_SLOTS as usize].iter_mut().filter_map(|slot| slot.socket.as_mut())
    }

    /// Returns all open sockets of the role.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &UdpSocket> {
        self.slots.iter().filter_map(|slot| slot.socket.as_ref())
    }

    /// Returns the slot of the socket for datagrams to `to`; `None` if it is closed or of another
    /// family. Of the overlay's sockets, it is one of this uplink if that has one.
    #[inline]
    pub(crate) fn slot_towards(&self, id: SocketId, to: &SocketAddr, uplink: Uplink) -> Option<u32> {
        if id == SocketId::OVERLAY {
            let slots = [uplink, Uplink::First].map(|uplink| overlay_slot(uplink, to.is_ipv6()));
            return slots.into_iter().find(|slot| self.slots[*slot as usize].socket.is_some());
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

/// Returns the identifier that the role uses for a socket: one for all sockets of the overlay.
pub(crate) const fn role_socket_id(id: SocketId) -> SocketId {
    if id.slot < OVERLAY_SLOTS { SocketId::OVERLAY } else { id }
}

/// Returns the uplink of a socket; the first one for sockets of applications.
pub(crate) fn uplink_of(id: SocketId) -> Uplink {
    let is_second = (overlay_slot(Uplink::Second, false)..OVERLAY_SLOTS).contains(&id.slot);
    if is_second { Uplink::Second } else { Uplink::First }
}

/// Returns the slot of the overlay's socket of the same family at the other uplink; `None` for
/// sockets of applications.
pub(crate) fn other_uplink_slot(slot: u32) -> Option<u32> {
    (slot < OVERLAY_SLOTS).then_some((slot + 2) % OVERLAY_SLOTS)
}
