//! Interface of a role, which a thread drives.

use std::net::SocketAddr;

use byway_proto::{LocalAddress, Uplink};
use byway_units::Time;
use byway_wire::TrafficClass;

use crate::io::Io;
use crate::queues::{QueuedPacket, Verdict};
use crate::socket_id::SocketId;

/// State machine with sockets, which a driver runs alone in its thread.
///
/// Each method passes its datagrams to [`Io::send`] before it returns. The driver calls one method
/// at a time, and calls [`deadline`](Self::deadline) and [`is_finished`](Self::is_finished) after
/// each turn.
pub trait Role: Send + 'static {
    /// Type of the requests that other threads send to the role.
    type Control: Send + 'static;

    /// Begins the role's work; the driver calls it first, once, in the thread.
    fn start(&mut self, io: &mut Io);

    /// Handles a datagram that one of the role's sockets received.
    fn on_datagram(&mut self, arrival: Arrival<'_>, io: &mut Io);

    /// Handles an IP packet that the system has routed into the device of [`Io::open_device`]. The
    /// buffer is reused after the call.
    fn on_device_packet(&mut self, packet: &mut [u8], io: &mut Io) {
        let _ = (packet, io);
    }

    /// Decides on an IP packet that a firewall rule has put into a queue of [`Io::open_queues`].
    fn on_queued_packet(&mut self, queued: QueuedPacket<'_>, io: &mut Io) -> Verdict {
        let _ = (queued, io);
        Verdict::Accepted
    }

    /// Handles the deadline of the role, which has passed.
    fn on_deadline(&mut self, io: &mut Io);

    /// Handles a report by the interface or a router that a packet of the overlay's sockets was
    /// longer than the path MTU.
    fn on_packet_too_big(&mut self, packet: &PacketTooBig, io: &mut Io) {
        let _ = (packet, io);
    }

    /// Handles the system's refusal to send to an address by one of two uplinks. The datagrams have
    /// left by the other one.
    fn on_uplink_refused(&mut self, uplink: Uplink, to: SocketAddr, io: &mut Io) {
        let _ = (uplink, to, io);
    }

    /// Handles a request of another thread.
    fn on_control(&mut self, control: Self::Control, io: &mut Io);

    /// Returns the time at which to call [`on_deadline`](Self::on_deadline); `None` for no
    /// deadline. It may change with each call.
    fn deadline(&self) -> Option<Time>;

    /// True if the thread should end. Datagrams of earlier calls of [`Io::send`] are sent before.
    fn is_finished(&self) -> bool;
}

/// Packet that was longer than the path MTU, so it was dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketTooBig {
    /// Destination of the packet.
    pub to: SocketAddr,
    /// Beginning of the packet's UDP payload, as far as it is known. Quotes by routers may be
    /// forged.
    pub quoted: Vec<u8>,
    /// Longest UDP payload that fits the path, in bytes.
    pub payload_bytes_max: usize,
}

/// Datagram that a role's socket received.
#[derive(Debug)]
pub struct Arrival<'a> {
    /// Socket that received the datagram.
    pub socket: SocketId,
    /// Address of the sender; IPv4 addresses are never mapped into IPv6.
    pub from: SocketAddr,
    /// Local address that the datagram was sent to, for use as the source of the answer;
    /// unspecified if the socket has only one, or the system should choose.
    pub to: LocalAddress,
    /// Traffic class of the datagram's IP header. At the overlay's sockets, only the ECN field: the
    /// DSCP is 0.
    pub traffic_class: TrafficClass,
    /// UDP payload of the datagram, which may be decrypted in place. The buffer is reused after the
    /// call.
    pub bytes: &'a mut [u8],
}
