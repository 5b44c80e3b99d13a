//! Network path of a datagram: its local and its remote address.

use core::net::SocketAddr;

/// Local address of this machine, as the number that its driver assigned.
///
/// The state machine does not see the address: it compares numbers, and returns the number of the
/// address from which an answer leaves. Drivers whose sockets have one address each use only
/// [`LocalAddress::ANY`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalAddress(u16);

impl LocalAddress {
    /// Address that the operating system chooses.
    pub const ANY: Self = Self(0);

    /// Returns the address with this number; 0 is [`ANY`](Self::ANY).
    #[must_use]
    pub const fn new(number: u16) -> Self {
        Self(number)
    }

    /// Returns the number that the driver assigned.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }

    /// True if the operating system chooses the address.
    #[inline]
    #[must_use]
    pub const fn is_any(self) -> bool {
        self.0 == Self::ANY.0
    }
}

/// Remote address of a peer, and the local address at which its datagrams arrive and from which
/// answers leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NetworkPath {
    pub(crate) remote: SocketAddr,
    pub(crate) local: LocalAddress,
}

impl From<SocketAddr> for NetworkPath {
    /// Returns a path whose local address the operating system chooses.
    fn from(remote: SocketAddr) -> Self {
        Self { remote, local: LocalAddress::ANY }
    }
}
