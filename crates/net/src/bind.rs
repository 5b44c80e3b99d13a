//! Sockets of the overlay.

use std::io;
use std::net::SocketAddr;

use byway_units::Bytes;
use rustix::io::Errno;
use thiserror::Error;

use crate::limits::{OVERLAY_BUFFER_BYTES, RECEIVE_BUFFER_BYTES_WARNED};
use crate::socket::{Sharing, UdpSocket};
use crate::socket_options::{self, attach_reuseport_program};
use crate::sockets::{Sockets, UplinkSockets};
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
    /// The machine has no network device of this name.
    #[error(
        "cannot use the uplink {device:?}: no network device has this name (ip link shows all); correct \
        `uplinks`, or start the agent when the device is there"
    )]
    UnknownDevice {
        /// Name of the device.
        device: String,
    },
    /// The kernel does not let this process bind to a network device.
    #[error(
        "cannot use the uplink {device:?}: binding to a device not permitted; use Linux 5.7 or newer, or \
        grant CAP_NET_RAW (systemd: AmbientCapabilities=CAP_NET_RAW)"
    )]
    DeviceForbidden {
        /// Name of the device.
        device: String,
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

/// Overlay sockets of one role: one for IPv4, one for IPv6, or both, for each of its uplinks.
#[derive(Debug)]
pub struct OverlaySockets {
    first: UplinkSockets,
    second: UplinkSockets,
    /// Names of the devices of the uplinks; empty if the system chooses the device.
    devices: Vec<String>,
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

    /// Binds these addresses at each of one or two network devices, the node's uplinks. Both have
    /// the same ports. Without devices, it is the same as [`bind`](Self::bind).
    ///
    /// # Errors
    /// As [`bind`](Self::bind), or if there is no such device, or the process may not bind to it.
    pub fn bind_to_devices(addresses: &[SocketAddr], devices: &[String]) -> Result<Self, BindError> {
        let [first, others @ ..] = devices else {
            return Self::bind(addresses);
        };
        let mut sockets = Self::bind_at(addresses, Some(first), Sharing::Alone)?;
        if let [second, ..] = others {
            let same_ports = sockets.addresses();
            sockets.second = Self::bind_at(&same_ports, Some(second), Sharing::Alone)?.first;
        }
        sockets.devices = devices.iter().take(2).cloned().collect();
        sockets.warn_of_small_buffers();
        Ok(sockets)
    }

    fn bind_sharing(addresses: &[SocketAddr], sharing: Sharing) -> Result<Self, BindError> {
        Self::bind_at(addresses, None, sharing)
    }

    fn bind_at(addresses: &[SocketAddr], device: Option<&str>, sharing: Sharing) -> Result<Self, BindError> {
        let ipv4 = one_of_family(addresses, SocketAddr::is_ipv4)?;
        let ipv6 = one_of_family(addresses, SocketAddr::is_ipv6)?;
        if ipv4.or(ipv6).is_none() {
            return Err(BindError::NoAddress);
        }
        let bind =
            |address: Option<SocketAddr>| address.map(|address| bind(address, device, sharing)).transpose();
        let (first, second) = ([bind(ipv4)?, bind(ipv6)?], [None, None]);
        Ok(Self { first, second, devices: Vec::new(), mark: None, roams: false })
    }

    /// Returns the bound addresses with the ports that the kernel chose, IPv4 first. All uplinks
    /// have the same.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.first.iter().flatten().map(UdpSocket::local).collect()
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
        self.first.iter_mut().chain(&mut self.second).flatten().try_for_each(UdpSocket::forbid_fragments)?;
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
        Sockets::new(self.first, self.second)
    }

    /// Returns the names of the uplinks' devices; empty if the system chooses the device.
    pub(crate) fn devices(&self) -> Vec<String> {
        self.devices.clone()
    }

    fn sockets(&self) -> impl Iterator<Item = &UdpSocket> {
        self.first.iter().chain(&self.second).flatten()
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

fn bind(address: SocketAddr, device: Option<&str>, sharing: Sharing) -> Result<UdpSocket, BindError> {
    let bound = UdpSocket::bind_to_device(address, device, sharing, OVERLAY_BUFFER_BYTES);
    bound.map_err(|error| match (device, Errno::from_io_error(&error)) {
        (Some(device), Some(Errno::NODEV)) => BindError::UnknownDevice { device: device.to_owned() },
        (Some(device), Some(Errno::PERM)) => BindError::DeviceForbidden { device: device.to_owned() },
        _ => explained(error, address),
    })
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
