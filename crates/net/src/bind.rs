//! The overlay's sockets.

use std::io;
use std::net::SocketAddr;

use byway_units::Bytes;
use rustix::io::Errno;
use thiserror::Error;

use crate::limits::{OVERLAY_BUFFER_BYTES, RECEIVE_BUFFER_BYTES_WARNED};
use crate::socket::{Sharing, UdpSocket};
use crate::socket_options::{self, attach_reuseport_program};
use crate::sockets::Sockets;
use crate::steering;

/// Why the overlay's sockets cannot be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BindError {
    /// Another process has the port.
    #[error(
        "cannot bind {address}: another process listens there: choose another port or stop it (ss -ulpn shows which)"
    )]
    InUse {
        /// What was to be bound.
        address: SocketAddr,
    },
    /// Ports below 1024 are for the privileged.
    #[error(
        "cannot bind {address}: permission denied: choose a port from 1024 on, or grant CAP_NET_BIND_SERVICE \
         (systemd: AmbientCapabilities=CAP_NET_BIND_SERVICE)"
    )]
    Forbidden {
        /// What was to be bound.
        address: SocketAddr,
    },
    /// The address is not this machine's.
    #[error(
        "cannot bind {address}: no interface of this machine has the address (ip address shows them): correct it, \
         or listen on 0.0.0.0 or [::]"
    )]
    NotAvailable {
        /// What was to be bound.
        address: SocketAddr,
    },
    /// The system is without IPv6, or without IPv4.
    #[error("cannot bind {address}: this system does not speak {}: leave the address out", family(.address))]
    FamilyUnsupported {
        /// What was to be bound.
        address: SocketAddr,
    },
    /// Nothing to listen on.
    #[error("no address to listen on is given: give one, such as 0.0.0.0:4600")]
    NoAddress,
    /// One socket of a family sends to all its destinations.
    #[error("{first} and {second} are both {}: give one address of each family", family(.first))]
    TwoOfFamily {
        /// The one.
        first: SocketAddr,
        /// The other.
        second: SocketAddr,
    },
    /// A relay without shards.
    #[error("a relay with 0 shards has nobody to receive: shards = 1 at least")]
    NoShards,
    /// The kernel does not take the program that gives packets to shards.
    #[error(
        "the kernel refuses the program that gives packets to {shards} shards at {address} (SO_ATTACH_REUSEPORT_CBPF: \
         {error}): set shards = 1, or use Linux 4.5 or newer without a filter on this option"
    )]
    NotSteered {
        /// What was bound.
        address: SocketAddr,
        /// How many shards were to share it.
        shards: u8,
        /// What the kernel said.
        error: io::Error,
    },
    /// Something else.
    #[error("cannot bind {address}: {error}")]
    Other {
        /// What was to be bound.
        address: SocketAddr,
        /// What the kernel said.
        error: io::Error,
    },
}

const fn family(address: &SocketAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// The overlay's sockets of one role: one for IPv4, one for IPv6, or both.
#[derive(Debug)]
pub struct OverlaySockets {
    ipv4: Option<UdpSocket>,
    ipv6: Option<UdpSocket>,
    mark: Option<u32>,
    roams: bool,
}

impl OverlaySockets {
    /// Binds one address of each family, or of one of them. Port 0 lets the kernel choose.
    ///
    /// Warns, through `tracing`, if the kernel gives little room for datagrams that wait to be received.
    ///
    /// # Errors
    /// If there is none or more than one of a family, or the kernel refuses one.
    pub fn bind(addresses: &[SocketAddr]) -> Result<Self, BindError> {
        let sockets = Self::bind_sharing(addresses, Sharing::Alone)?;
        sockets.warn_of_small_buffers();
        Ok(sockets)
    }

    fn bind_sharing(addresses: &[SocketAddr], sharing: Sharing) -> Result<Self, BindError> {
        let ipv4 = one_of_family(addresses, SocketAddr::is_ipv4)?;
        let ipv6 = one_of_family(addresses, SocketAddr::is_ipv6)?;
        if ipv4.or(ipv6).is_none() {
            return Err(BindError::NoAddress);
        }
        let bind = |address: Option<SocketAddr>| address.map(|address| bind(address, sharing)).transpose();
        Ok(Self { ipv4: bind(ipv4)?, ipv6: bind(ipv6)?, mark: None, roams: false })
    }

    /// Where they are bound, ports filled in: IPv4 first.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets().map(UdpSocket::local).collect()
    }

    /// What the kernel lets wait to be received at each of them, at least.
    #[must_use]
    pub fn receive_buffer(&self) -> Bytes {
        Bytes::new(self.sockets().map(UdpSocket::receive_buffer).min().unwrap_or(0) as u64)
    }

    /// Marks all that leaves by them, and by the sockets that the role opens later (`SO_MARK`), so that rules which route
    /// applications' packets into a device leave Byway's own alone.
    ///
    /// # Errors
    /// If the process may not: it takes `CAP_NET_ADMIN`.
    pub fn marked(mut self, mark: u32) -> io::Result<Self> {
        self.sockets().try_for_each(|socket| socket_options::mark(socket, mark))?;
        self.mark = Some(mark);
        Ok(self)
    }

    /// Sends nothing in fragments: for who finds out how long packets may be (RFC 8899), and has no use for those that are put together again
    /// late or never.
    ///
    /// # Errors
    /// If the kernel does not take the option.
    pub fn without_fragments(mut self) -> io::Result<Self> {
        self.ipv4.iter_mut().chain(&mut self.ipv6).try_for_each(UdpSocket::forbid_fragments)?;
        Ok(self)
    }

    /// Leaves the source of what is sent to the system wherever it would choose the address that was asked: for nodes that move from
    /// network to network, where an address that stays behind leads nowhere.
    #[must_use]
    pub const fn roaming(mut self) -> Self {
        self.roams = true;
        self
    }

    pub(crate) const fn roams(&self) -> bool {
        self.roams
    }

    pub(crate) const fn mark(&self) -> Option<u32> {
        self.mark
    }

    pub(crate) fn into_sockets(self) -> Sockets {
        Sockets::new(self.ipv4, self.ipv6)
    }

    fn sockets(&self) -> impl Iterator<Item = &UdpSocket> {
        self.ipv4.iter().chain(&self.ipv6)
    }

    fn warn_of_small_buffers(&self) {
        let given = self.receive_buffer();
        if given < Bytes::new(RECEIVE_BUFFER_BYTES_WARNED as u64) {
            tracing::warn!(
                %given,
                "datagrams may be lost when many come at once, as the system limits receive buffers: \
                 sysctl -w net.core.rmem_max={OVERLAY_BUFFER_BYTES}"
            );
        }
    }
}

/// Binds the sockets of all shards of a relay to the same addresses, with a program in the kernel that gives each
/// packet to the shard that its index names; the first of the vector is shard 0.
///
/// All must stay in use: a socket that is closed changes the numbers of the others.
///
/// # Errors
/// As [`OverlaySockets::bind`], or if there are no shards, or the kernel does not take the program.
pub fn bind_shards(addresses: &[SocketAddr], shards: u8) -> Result<Vec<OverlaySockets>, BindError> {
    match shards {
        0 => return Err(BindError::NoShards),
        1 => return Ok(vec![OverlaySockets::bind(addresses)?]),
        _ => {}
    }
    // Sockets that share their port would also share it with another run of this program: that shows only here.
    let addresses = OverlaySockets::bind_sharing(addresses, Sharing::Alone)?.addresses();
    let sockets = (0..shards).map(|_| OverlaySockets::bind_sharing(&addresses, Sharing::Shards));
    let sockets = sockets.collect::<Result<Vec<_>, _>>()?;
    let program = steering::program(shards);
    for socket in sockets[0].sockets() {
        attach_reuseport_program(socket, &program).map_err(|error| BindError::NotSteered {
            address: socket.local(),
            shards,
            error,
        })?;
    }
    sockets[0].warn_of_small_buffers();
    Ok(sockets)
}

fn one_of_family(
    addresses: &[SocketAddr],
    is_of_family: impl Fn(&SocketAddr) -> bool,
) -> Result<Option<SocketAddr>, BindError> {
    let mut of_family = addresses.iter().copied().filter(|address| is_of_family(address));
    match (of_family.next(), of_family.next()) {
        (Some(first), Some(second)) => Err(BindError::TwoOfFamily { first, second }),
        (first, _) => Ok(first),
    }
}

fn bind(address: SocketAddr, sharing: Sharing) -> Result<UdpSocket, BindError> {
    UdpSocket::bind(address, sharing, OVERLAY_BUFFER_BYTES).map_err(|error| explained(error, address))
}

/// Whether this error, on binding this address, says that the machine does not speak its family.
#[must_use]
pub fn is_family_unsupported(address: SocketAddr, error: &io::Error) -> bool {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::AFNOSUPPORT) => true,
        // All interfaces together have this address, unless the family is switched off.
        Some(Errno::ADDRNOTAVAIL) => address.ip().is_unspecified(),
        _ => false,
    }
}

fn explained(error: io::Error, address: SocketAddr) -> BindError {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::ADDRINUSE) => BindError::InUse { address },
        Some(Errno::ACCESS | Errno::PERM) => BindError::Forbidden { address },
        _ if is_family_unsupported(address, &error) => BindError::FamilyUnsupported { address },
        Some(Errno::ADDRNOTAVAIL) => BindError::NotAvailable { address },
        _ => BindError::Other { address, error },
    }
}

#[cfg(test)]
mod tests;
