//! Sockets of the overlay.

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

/// Error of binding the overlay's sockets.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BindError {
    /// Another process uses the port.
    #[error(
        "cannot bind {address}: port in use by another process; choose another port, or end the \
        process (ss -ulpn shows it)"
    )]
    InUse {
        /// Address to bind.
        address: SocketAddr,
    },
    /// The port is below 1024, and the process lacks the privilege for such ports.
    #[error(
        "cannot bind {address}: permission denied; choose a port from 1024 on, or grant \
        CAP_NET_BIND_SERVICE (systemd: AmbientCapabilities=CAP_NET_BIND_SERVICE)"
    )]
    Forbidden {
        /// Address to bind.
        address: SocketAddr,
    },
    /// The machine does not have this address.
    #[error(
        "cannot bind {address}: no interface of this machine has the address (ip address shows all); \
        correct it, or listen on 0.0.0.0 or [::]"
    )]
    NotAvailable {
        /// Address to bind.
        address: SocketAddr,
    },
    /// The system does not support IPv6, or IPv4.
    #[error("cannot bind {address}: this system does not support {}; remove the address", family(.address))]
    FamilyUnsupported {
        /// Address to bind.
        address: SocketAddr,
    },
    /// The settings name no address to listen on.
    #[error("no address to listen on: give one, such as 0.0.0.0:4600")]
    NoAddress,
    /// The settings name two addresses of one family, but one socket has to send to all
    /// destinations of a family.
    #[error("two {} addresses, {first} and {second}: give one address of each family", family(.first))]
    TwoOfFamily {
        /// First address.
        first: SocketAddr,
        /// Second address.
        second: SocketAddr,
    },
    /// The number of a relay's shards is zero.
    #[error("invalid number of shards, 0: set shards = 1 at least")]
    NoShards,
    /// The kernel rejects the BPF program that steers packets to shards.
    #[error(
        "cannot attach the program that distributes packets to {shards} shards at {address} \
        (SO_ATTACH_REUSEPORT_CBPF: {error}): set shards = 1, or use Linux 4.5 or newer without a filter \
        on this option"
    )]
    NotSteered {
        /// Bound address.
        address: SocketAddr,
        /// Number of shards at the address.
        shards: u8,
        /// Error of the kernel.
        error: io::Error,
    },
    /// The kernel refuses the address for another reason.
    #[error("cannot bind {address}: {error}")]
    Other {
        /// Address to bind.
        address: SocketAddr,
        /// Error of the kernel.
        error: io::Error,
    },
}

const fn family(address: &SocketAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// Overlay sockets of one role: one for IPv4, one for IPv6, or both.
#[derive(Debug)]
pub struct OverlaySockets {
    ipv4: Option<UdpSocket>,
    ipv6: Option<UdpSocket>,
    mark: Option<u32>,
    roams: bool,
}

impl OverlaySockets {
    /// Binds one address of each family, or of one of them. With port 0, the kernel chooses the
    /// port.
    ///
    /// Warns, through `tracing`, if the kernel's receive buffers are small.
    ///
    /// # Errors
    /// If there is no address, more than one of a family, or the kernel refuses one.
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

    /// Returns the bound addresses with the ports that the kernel chose, IPv4 first.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets().map(UdpSocket::local).collect()
    }

    /// Returns the size of the smaller of the sockets' kernel receive buffers.
    #[must_use]
    pub fn receive_buffer(&self) -> Bytes {
        Bytes::new(self.sockets().map(UdpSocket::receive_buffer).min().unwrap_or(0) as u64)
    }

    /// Sets the firewall mark (`SO_MARK`) of all packets of these sockets, and of the sockets that
    /// the role opens later. Rules that route applications' packets into a device can then exclude
    /// Byway's own.
    ///
    /// # Errors
    /// If the process lacks `CAP_NET_ADMIN`.
    pub fn with_mark(mut self, mark: u32) -> io::Result<Self> {
        self.sockets().try_for_each(|socket| socket_options::mark(socket, mark))?;
        self.mark = Some(mark);
        Ok(self)
    }

    /// Disables fragmentation, for roles that discover the path MTU (RFC 8899): fragments may be
    /// reassembled late or never.
    ///
    /// # Errors
    /// If the kernel rejects the option.
    pub fn without_fragments(mut self) -> io::Result<Self> {
        self.ipv4.iter_mut().chain(&mut self.ipv6).try_for_each(UdpSocket::forbid_fragments)?;
        Ok(self)
    }

    /// Leaves the source address of answers to the system if it prefers the address that the peer
    /// used. This is for nodes that move from network to network, because a former address does not
    /// work there.
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
                "receive buffers limited by the system, bursts of datagrams may be dropped: run \
                 sysctl -w net.core.rmem_max={OVERLAY_BUFFER_BYTES}"
            );
        }
    }
}

/// Binds the sockets of all shards of a relay to the same addresses. A program in the kernel steers
/// each packet to the shard in its index; the first of the vector is shard 0.
///
/// All sockets must stay open, because closing one changes the numbers of the others.
///
/// # Errors
/// As [`OverlaySockets::bind`], or if there are no shards, or the kernel rejects the program.
pub fn bind_shards(addresses: &[SocketAddr], shards: u8) -> Result<Vec<OverlaySockets>, BindError> {
    match shards {
        0 => return Err(BindError::NoShards),
        1 => return Ok(vec![OverlaySockets::bind(addresses)?]),
        _ => {}
    }
    // Sockets that share their port would also share it with another run of this program. Only this
    // exclusive bind detects that.
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

/// True if this error, on binding this address, means that the machine does not support IPv4 or
/// IPv6, the family of the address.
#[must_use]
pub fn is_family_unsupported(address: SocketAddr, error: &io::Error) -> bool {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::AFNOSUPPORT) => true,
        // This address belongs to all interfaces together, unless the family is disabled.
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
