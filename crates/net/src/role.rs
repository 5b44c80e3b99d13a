//! What a thread drives.

use std::net::SocketAddr;

use byway_proto::LocalAddress;
use byway_units::Time;
use byway_wire::TrafficClass;

use crate::io::Io;
use crate::queues::{Queued, Verdict};

/// A state machine with sockets, alone in its thread.
///
/// Whatever a method wants sent it gives to [`Io::send`] before it returns. The driver calls one method at a time, and asks
/// for [`deadline`](Self::deadline) and [`is_finished`](Self::is_finished) after each turn.
pub trait Role: Send + 'static {
    /// What the rest of the process asks of the thread.
    type Control: Send + 'static;

    /// Called once, first, in the thread.
    fn start(&mut self, io: &mut Io);

    /// A datagram has come.
    fn received(&mut self, arrival: Arrival<'_>, io: &mut Io);

    /// The system has routed an IP packet into the device of [`Io::open_device`]; it is lost after the call.
    fn packet(&mut self, packet: &mut [u8], io: &mut Io) {
        let _ = (packet, io);
    }

    /// A rule of the firewall has put an IP packet into a queue of [`Io::open_queues`]: what becomes of it.
    fn queued(&mut self, queued: Queued<'_>, io: &mut Io) -> Verdict {
        let _ = (queued, io);
        Verdict::Accepted
    }

    /// The deadline has come.
    fn woken(&mut self, io: &mut Io);

    /// A packet of the overlay's sockets was too long for its way, as the interface or a router says.
    fn too_long(&mut self, packet: &TooLong, io: &mut Io) {
        let _ = (packet, io);
    }

    /// The rest of the process asks for something.
    fn controlled(&mut self, control: Self::Control, io: &mut Io);

    /// When to call [`woken`](Self::woken), if nothing comes before.
    fn deadline(&self) -> Option<Time>;

    /// Whether the thread shall end. What has been given to [`Io::send`] is sent before.
    fn is_finished(&self) -> bool;
}

/// A packet that was too long for its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// Where it was to go.
    pub to: SocketAddr,
    /// The beginning of its UDP payload, as far as it is known. What routers quote may be forged.
    pub quoted: Vec<u8>,
    /// The longest UDP payload that fits.
    pub payload_bytes_max: usize,
}

/// A datagram that has come.
#[derive(Debug)]
pub struct Arrival<'a> {
    /// At which socket.
    pub socket: SocketId,
    /// Where it came from; an IPv4 address is one, never mapped into IPv6.
    pub from: SocketAddr,
    /// The local address that it came to, for the answer to leave from; any, if the socket has only one.
    pub to: LocalAddress,
    /// The traffic class of its IP header. At the overlay's sockets, the ECN field alone: the DSCP is 0.
    pub traffic_class: TrafficClass,
    /// The UDP payload, to be opened in place; lost after the call.
    pub bytes: &'a mut [u8],
}

/// A socket of a role; not given out twice, so that one that is closed is never mistaken for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl SocketId {
    /// The overlay's sockets, IPv4 and IPv6 together: the family of a destination says which of them sends.
    pub const OVERLAY: Self = Self { slot: u32::MAX, generation: 0 };
}
