//! Network path of a datagram: its local and its remote address.

use core::net::SocketAddr;

/// Uplink of a node: network device, with an address of its own, that sends to the Internet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Uplink {
    /// The only uplink, or the one that direct paths prefer.
    #[default]
    First,
    /// The one that relay paths prefer.
    Second,
}

impl Uplink {
    /// Returns the other uplink of a node that has two.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

/// Uplinks of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Uplinks {
    /// One uplink for all packets.
    #[default]
    One,
    /// Two uplinks: packets to peers prefer the first one, packets to relays the second one. Each
    /// carries all packets while the other one is out.
    Two {
        /// True if bytes of the second uplink cost money, so the agent sends copies by it only
        /// after a loss.
        is_second_metered: bool,
    },
}

/// Local address of this machine, as the number that its driver assigned, at one of its uplinks.
///
/// The state machine does not see the address: it compares numbers, and returns the number of the
/// address from which an answer leaves. Drivers whose sockets have one address each use only
/// [`LocalAddress::ANY`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalAddress {
    number: u16,
    uplink: Uplink,
}

impl LocalAddress {
    /// Address that the operating system chooses, at the first uplink.
    pub const ANY: Self = Self { number: 0, uplink: Uplink::First };

    /// Returns the address with this number at the first uplink; 0 is [`ANY`](Self::ANY).
    #[must_use]
    pub const fn new(number: u16) -> Self {
        Self { number, uplink: Uplink::First }
    }

    /// Returns the address that the operating system chooses at an uplink.
    #[must_use]
    pub const fn any_at(uplink: Uplink) -> Self {
        Self { number: 0, uplink }
    }

    /// Returns the address with this number at another uplink.
    #[must_use]
    pub const fn at(self, uplink: Uplink) -> Self {
        Self { number: self.number, uplink }
    }

    /// Returns the number that the driver assigned.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.number
    }

    /// Returns the uplink at which datagrams arrive and leave.
    #[inline]
    #[must_use]
    pub const fn uplink(self) -> Uplink {
        self.uplink
    }

    /// True if the operating system chooses the address.
    #[inline]
    #[must_use]
    pub const fn is_any(self) -> bool {
        self.number == 0
    }
}

/// Remote address of a peer, and the local address at which its datagrams arrive and from which
/// answers leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NetworkPath {
    pub(crate) remote: SocketAddr,
    pub(crate) local: LocalAddress,
}

impl NetworkPath {
    /// Returns the path to a remote address by an uplink, at which the operating system chooses the
    /// local address.
    pub(crate) const fn by(uplink: Uplink, remote: SocketAddr) -> Self {
        Self { remote, local: LocalAddress::any_at(uplink) }
    }

    /// True if the two paths have the same remote address and the same uplink.
    #[inline]
    pub(crate) fn is_same_route(&self, other: &Self) -> bool {
        self.remote == other.remote && self.local.uplink == other.local.uplink
    }
}

impl From<SocketAddr> for NetworkPath {
    /// Returns a path whose local address the operating system chooses, at the first uplink.
    fn from(remote: SocketAddr) -> Self {
        Self { remote, local: LocalAddress::ANY }
    }
}
