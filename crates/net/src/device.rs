//! A network device that the system routes packets into, for a role to take.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use thiserror::Error;
use tun_rs::{DeviceBuilder, SyncDevice};

/// What a device is to be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSettings {
    /// What the system calls it: up to 15 bytes.
    pub name: String,
    /// The longest packet, in bytes with its IP header.
    pub mtu: u16,
    /// Its addresses, each with the length of its prefix.
    pub addresses: Vec<(IpAddr, u8)>,
}

/// A device of IP packets (TUN). It is there as long as this: when the process ends, however that ends, the system has
/// neither the device nor a route to it any more.
pub struct Device {
    device: SyncDevice,
    index: u32,
}

impl Device {
    /// Makes it, and takes it up.
    ///
    /// # Errors
    /// If the process may not (it takes `CAP_NET_ADMIN`), the system has no such devices, or one of this name.
    pub fn create(settings: &DeviceSettings) -> io::Result<Self> {
        let mut builder = DeviceBuilder::new().name(&settings.name).mtu(settings.mtu);
        for (address, prefix) in &settings.addresses {
            builder = match address {
                IpAddr::V4(address) => builder.ipv4(*address, *prefix, None),
                IpAddr::V6(address) => builder.ipv6(*address, *prefix),
            };
        }
        let device = builder.build_sync()?;
        device.set_nonblocking(true)?;
        let index = device.if_index()?;
        Ok(Self { device, index })
    }

    /// The number that the system knows it by.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Takes a packet that the system has routed into it; how long it is.
    pub(crate) fn receive(&self, packet: &mut [u8]) -> io::Result<usize> {
        self.device.recv(packet)
    }

    /// Gives the system a packet as if it had come by this device.
    pub(crate) fn send(&self, packet: &[u8]) -> io::Result<()> {
        self.device.send(packet).map(drop)
    }
}

/// Error of a device that was removed, or fails otherwise.
#[derive(Debug, Error)]
#[error(transparent)]
struct DeviceError(io::Error);

/// Marks an error as one of the device.
pub(crate) fn of_device(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), DeviceError(error))
}

/// True if an error is one of the device.
pub(crate) fn is_of_device(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<DeviceError>)
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Device").field("index", &self.index).finish_non_exhaustive()
    }
}
