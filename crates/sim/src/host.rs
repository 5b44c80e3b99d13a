//! Interface between the world and a state machine, and the datagrams that they exchange.

use core::net::SocketAddr;

use byway_units::Time;
use byway_wire::Ecn;

use crate::marks::Marks;

/// Sans-I/O state machine in the world.
///
/// One input, then drain: after every [`receive`](Self::receive), [`wake`](Self::wake) or input by
/// the application (see [`World::input`](crate::World::input)), the world calls
/// [`transmit`](Self::transmit) until it returns `None`, and then reads
/// [`deadline`](Self::deadline). No other input happens between them.
pub trait Host {
    /// Input: a datagram arrived. The host may overwrite its payload, for instance to decrypt it in
    /// place.
    fn receive(&mut self, datagram: Datagram<'_>, now: Time);

    /// Input: the host's deadline is due.
    fn wake(&mut self, now: Time);

    /// Output: the next datagram to send; `None` if the host has nothing to send.
    fn transmit(&mut self, now: Time) -> Option<Transmit<'_>>;

    /// State: the latest time at which the world must call [`wake`](Self::wake); `None` for never.
    /// A deadline in the past is due at once.
    fn deadline(&self) -> Option<Time>;

    /// Hint of an upcoming input, with the datagram if the input is one. At each depth, from 0 to
    /// 2, the host may prefetch what it found at the previous depth into the cache.
    fn prepare(&self, _depth: usize, _datagram: Option<&[u8]>) {}
}

/// Datagram that a host receives.
#[derive(Debug)]
pub struct Datagram<'a> {
    /// Source address in the datagram's header, which may be forged.
    pub source: SocketAddr,
    /// Destination address: the address of the receiving host to which the datagram was sent.
    pub destination: SocketAddr,
    /// ECN field of the datagram's IP header.
    pub ecn: Ecn,
    /// UDP payload.
    pub payload: &'a mut [u8],
}

/// Datagram that a host sends.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// Source address. `None`: the first address that the sending node has at this moment. `Some`:
    /// this address, even another node's, because no router filters sources.
    pub source: Option<SocketAddr>,
    /// Destination address of the datagram.
    pub destination: SocketAddr,
    /// DSCP and flow label of the datagram.
    pub marks: Marks,
    /// ECN field of the datagram's IP header.
    pub ecn: Ecn,
    /// UDP payload, at most [`DATAGRAM_BYTES_MAX`](crate::limits::DATAGRAM_BYTES_MAX) bytes.
    pub payload: &'a [u8],
}
