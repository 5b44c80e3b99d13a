//! Machines of the lab: network namespaces with a loopback and one device, whose packets the lab carries.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use nix::sched::{CloneFlags, unshare};
use rtnetlink::LinkUnspec;
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::LabError;
use crate::limits::PACKET_BYTES_MAX;

/// What the device of each machine is called, within its namespace.
pub const DEVICE: &str = "wan0";

/// All machines of a lab are neighbours as their kernels see it: what is between them, the lab knows.
const IPV4_PREFIX: u8 = 16;
const IPV6_PREFIX: u8 = 64;

/// The loopback's number in every namespace.
const LOOPBACK: u32 = 1;

/// Something to be done in a machine.
type Task = Box<dyn FnOnce() + Send>;

/// A machine. It lives as long as this, and as long as a program runs in it; neither name nor file tells of it.
#[derive(Debug)]
pub struct Machine {
    tasks: Sender<Task>,
}

impl Machine {
    /// A new machine with these addresses, and its device.
    ///
    /// # Errors
    /// If the kernel makes no namespace or device for this process.
    pub fn new(addresses: [IpAddr; 2]) -> Result<(Self, SyncDevice), LabError> {
        let (tasks, to_do) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        // A thread of its own is in the namespace, and so is what it starts.
        let work = move || work(addresses, &tell, &to_do);
        thread::Builder::new().name("machine".into()).spawn(work).map_err(LabError::Thread)?;
        let device = told.recv().unwrap_or_else(|_| Err(io::Error::other("its thread has ended")));
        Ok((Self { tasks }, device.map_err(not_made)?))
    }

    /// Does something in the machine: sockets that it opens and programs that it starts are there.
    ///
    /// # Panics
    /// If it panics.
    pub fn run<T: Send + 'static>(&self, task: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = mpsc::channel();
        let task = Box::new(move || {
            // Whoever asked waits.
            let _ = tell.send(task());
        });
        self.tasks.send(task).expect("a machine's thread lives as long as the machine");
        told.recv().expect("what was done in the machine did not panic")
    }
}

/// The addresses of the machine at this place in a scenario: `10.77.x.y`, and an IPv6 one of a unique local prefix (RFC 4193).
///
/// # Panics
/// If the place is above 65,000: scenarios have fewer machines.
#[must_use]
pub fn addresses(place: usize) -> [IpAddr; 2] {
    let number = u16::try_from(place + 1).ok().filter(|number| *number <= 65_000);
    let [high, low] = number.expect("scenarios have fewer machines").to_be_bytes();
    let ipv6 = Ipv6Addr::new(0xFD77, 0, 0, 0, 0, 0, 0, u16::from_be_bytes([high, low]));
    [Ipv4Addr::new(10, 77, high, low).into(), ipv6.into()]
}

/// Whether the kernel refuses machines to this process, or has no such devices; or whether something else went wrong.
fn not_made(error: io::Error) -> LabError {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound => LabError::Machine(error),
        _ => LabError::SetUp(error),
    }
}

fn work(addresses: [IpAddr; 2], tell: &Sender<io::Result<SyncDevice>>, to_do: &Receiver<Task>) {
    // Who asked for the machine waits for this.
    let _ = tell.send(set_up(addresses));
    for task in to_do {
        task();
    }
}

/// Moves this thread into a namespace of its own, with a device.
fn set_up([ipv4, ipv6]: [IpAddr; 2]) -> io::Result<SyncDevice> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    raise_loopback()?;
    let mtu = u16::try_from(PACKET_BYTES_MAX).expect("an IP packet is shorter than 2^16");
    let device = DeviceBuilder::new().name(DEVICE).mtu(mtu);
    let device = device.ipv4(ipv4, IPV4_PREFIX, None).ipv6(ipv6, IPV6_PREFIX).build_sync()?;
    device.set_nonblocking(true)?;
    Ok(device)
}

/// New namespaces have a loopback that is down.
fn raise_loopback() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        let connection = tokio::spawn(connection);
        let up = LinkUnspec::new_with_index(LOOPBACK).up().build();
        let raised = handle.link().set(up).execute().await.map_err(io::Error::other);
        connection.abort();
        raised
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_has_addresses_of_its_own() {
        for (place, expected) in [(0, ["10.77.0.1", "fd77::1"]), (255, ["10.77.1.0", "fd77::100"])] {
            assert_eq!(addresses(place).map(|address| address.to_string()), expected);
        }
    }
}
