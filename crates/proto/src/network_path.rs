//! Both ends of a datagram's way.

use core::net::SocketAddr;

/// A local address of this machine, by the number that its driver gave it.
///
/// The core never sees the address: it compares numbers, and gives back the one that an answer leaves from. Drivers whose
/// sockets have one address each know only [`LocalAddress::ANY`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalAddress(u16);

impl LocalAddress {
    /// The address that the system chooses.
    pub const ANY: Self = Self(0);

    /// Returns the address with this number; 0 is [`ANY`](Self::ANY).
    #[must_use]
    pub const fn new(number: u16) -> Self {
        Self(number)
    }

    /// Returns its number.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }

    /// True if the system chooses.
    #[inline]
    #[must_use]
    pub const fn is_any(self) -> bool {
        self.0 == Self::ANY.0
    }
}

/// A peer's address, and the address here that it sends to and is answered from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NetworkPath {
    pub(crate) remote: SocketAddr,
    pub(crate) local: LocalAddress,
}

impl From<SocketAddr> for NetworkPath {
    /// Leaves the local address to the system.
    fn from(remote: SocketAddr) -> Self {
        Self { remote, local: LocalAddress::ANY }
    }
}
