//! Identifiers of sockets.

/// Identifier of a role's socket. Identifiers are unique, so a closed socket is never mistaken for
/// another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl SocketId {
    /// The overlay's sockets, IPv4 and IPv6 together: the destination's address family selects the
    /// socket.
    pub const OVERLAY: Self = Self { slot: u32::MAX, generation: 0 };
}
