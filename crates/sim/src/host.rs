//! What the world asks of a state machine, and the datagrams that pass between them.

use core::net::SocketAddr;

use byway_units::Time;
use byway_wire::Ecn;

use crate::marks::Marks;

/// A sans-I/O state machine that lives in the world.
///
/// One input, then drain: after every [`receive`](Self::receive), [`wake`](Self::wake) or input by the
/// application (see [`World::input`](crate::World::input)), the world calls [`transmit`](Self::transmit) until
/// it is empty, and then reads [`deadline`](Self::deadline). No input comes in between.
pub trait Host {
    /// Input: a datagram arrived. Its payload may be overwritten, for instance to decrypt it in place.
    fn receive(&mut self, datagram: Datagram<'_>, now: Time);

    /// Input: the deadline has come.
    fn wake(&mut self, now: Time);

    /// Output: the next datagram to send, or `None` when there is no other.
    fn transmit(&mut self, now: Time) -> Option<Transmit<'_>>;

    /// State: when to be woken at the latest; `None` for never. A deadline in the past is due at once.
    fn deadline(&self) -> Option<Time>;

    /// Hint: an input comes soon, this datagram if it is one. With each depth, from 0 to 2, what the one before found may be
    /// brought into the cache.
    fn prepare(&self, _depth: usize, _datagram: Option<&[u8]>) {}
}

/// A datagram as it arrives.
#[derive(Debug)]
pub struct Datagram<'a> {
    /// Where it says it comes from.
    pub source: SocketAddr,
    /// Which address of the host it was sent to.
    pub destination: SocketAddr,
    /// The ECN field of its IP header.
    pub ecn: Ecn,
    /// What it carries.
    pub payload: &'a mut [u8],
}

/// A datagram to send.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// The address to send from. `None`: the first address that the node has at this moment. `Some`: this one,
    /// be it one of the node's others or somebody else's, for no router on the way forbids it.
    pub source: Option<SocketAddr>,
    /// The address to send to.
    pub destination: SocketAddr,
    /// Its class and flow.
    pub marks: Marks,
    /// The ECN field of its IP header.
    pub ecn: Ecn,
    /// What it carries, at most [`DATAGRAM_BYTES_MAX`](crate::limits::DATAGRAM_BYTES_MAX) bytes.
    pub payload: &'a [u8],
}
