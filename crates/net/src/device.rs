//! Network device (TUN) whose packets a role receives.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use thiserror::Error;
use tun_rs::{DeviceBuilder, SyncDevice};

/// Settings of a TUN device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSettings {
    /// Name of the device: up to 15 bytes.
    pub name: String,
    /// Longest packet of the device, in bytes with its IP header.
    pub mtu: u16,
    /// Addresses of the device, each with the length of its prefix.
    pub addresses: Vec<(IpAddr, u8)>,
}

/// Device of IP packets (TUN). It exists as long as this value: when the process ends in any
/// manner, the system removes the device and its routes.
pub struct Device {
    device: SyncDevice,
    index: u32,
}

impl Device {
    /// Creates a TUN device with its addresses, and sets it up.
    ///
    /// # Errors
    /// If the process lacks `CAP_NET_ADMIN`, the system does not support such devices, or one has
    /// this name already.
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

    /// Returns the interface index of the device.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Reads a packet that the system has routed into the device; returns its length in bytes.
    pub(crate) fn receive(&self, packet: &mut [u8]) -> io::Result<usize> {
        self.device.recv(packet)
    }

    /// Writes a packet to the device, which the system handles as received there.
    pub(crate) fn send(&self, packet: &[u8]) -> io::Result<()> {
        self.device.send(packet).map(drop)
    }
}

/// Error of a read or write of the device, such as after its removal.
#[derive(Debug, Error)]
#[error(transparent)]
struct DeviceError(io::Error);

/// Wraps an error of the device, so that [`is_of_device`] recognises it.
pub(crate) fn of_device(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), DeviceError(error))
}

/// True if this error was wrapped by [`of_device`].
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
