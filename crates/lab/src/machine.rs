//! Machines of the lab: network namespaces with a loopback and one device, whose packets the lab
//! transports.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use nix::sched::{CloneFlags, unshare};
use rtnetlink::LinkUnspec;
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::LabError;
use crate::limits::PACKET_BYTES_MAX;

/// Name of each machine's device within its namespace.
pub const DEVICE: &str = "wan0";

/// Prefix lengths of the machines' addresses. All machines are neighbours to their kernels, because
/// only the lab knows the network between them.
const IPV4_PREFIX: u8 = 16;
const IPV6_PREFIX: u8 = 64;

/// Interface index of the loopback in every network namespace.
const LOOPBACK: u32 = 1;

/// Closure that the thread of a machine runs.
type Task = Box<dyn FnOnce() + Send>;

/// Machine of a lab: a network namespace with a thread in it. It exists as long as this value or a
/// program in it, and has no name or file outside.
#[derive(Debug)]
pub struct Machine {
    tasks: Sender<Task>,
}

impl Machine {
    /// Makes a machine with this IPv4 and this IPv6 address, and returns it with its TUN device.
    ///
    /// # Errors
    /// If the kernel refuses a namespace or a device to this process.
    pub fn new(addresses: [IpAddr; 2]) -> Result<(Self, SyncDevice), LabError> {
        let (tasks, task_queue) = mpsc::channel();
        let (device_sender, device_receiver) = mpsc::channel();
        // A separate thread enters the namespace, and everything that it starts belongs there, too.
        let work = move || work(addresses, &device_sender, &task_queue);
        thread::Builder::new().name("machine".into()).spawn(work).map_err(LabError::Thread)?;
        let device = device_receiver
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("the machine's thread has ended")));
        Ok((Self { tasks }, device.map_err(not_made)?))
    }

    /// Runs a task in the machine's thread and returns its result: the sockets and programs that it
    /// opens belong to the machine.
    ///
    /// # Panics
    /// If the task panics.
    pub fn run<T: Send + 'static>(&self, task: impl FnOnce() -> T + Send + 'static) -> T {
        let (result_sender, result_receiver) = mpsc::channel();
        let task = Box::new(move || {
            // The caller waits for the result.
            let _ = result_sender.send(task());
        });
        self.tasks.send(task).expect("a machine's thread lives as long as the machine");
        result_receiver.recv().expect("a task in the machine does not panic")
    }
}

/// Returns the addresses of the machine at this index in a scenario: `10.77.x.y`, and an IPv6 one
/// of a unique local prefix (RFC 4193).
///
/// # Panics
/// If the index is above 65,000; scenarios have fewer machines.
#[must_use]
pub fn addresses(index: usize) -> [IpAddr; 2] {
    let number = u16::try_from(index + 1).ok().filter(|number| *number <= 65_000);
    let [high, low] = number.expect("scenarios have fewer machines").to_be_bytes();
    let ipv6 = Ipv6Addr::new(0xFD77, 0, 0, 0, 0, 0, 0, u16::from_be_bytes([high, low]));
    [Ipv4Addr::new(10, 77, high, low).into(), ipv6.into()]
}

/// Maps an error while making a machine: a kernel that refuses machines or has no TUN devices
/// differs from other errors.
fn not_made(error: io::Error) -> LabError {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound => LabError::Machine(error),
        _ => LabError::SetUp(error),
    }
}

fn work(addresses: [IpAddr; 2], device_sender: &Sender<io::Result<SyncDevice>>, tasks: &Receiver<Task>) {
    // `Machine::new` waits for this.
    let _ = device_sender.send(set_up(addresses));
    for task in tasks {
        task();
    }
}

/// Moves this thread into a new network namespace, and returns the namespace's TUN device.
fn set_up([ipv4, ipv6]: [IpAddr; 2]) -> io::Result<SyncDevice> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    raise_loopback()?;
    let mtu = u16::try_from(PACKET_BYTES_MAX).expect("an IP packet is shorter than 2^16");
    let device = DeviceBuilder::new().name(DEVICE).mtu(mtu);
    let device = device.ipv4(ipv4, IPV4_PREFIX, None).ipv6(ipv6, IPV6_PREFIX).build_sync()?;
    device.set_nonblocking(true)?;
    Ok(device)
}

/// Enables the loopback, which is down in new namespaces.
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
        for (index, expected) in [(0, ["10.77.0.1", "fd77::1"]), (255, ["10.77.1.0", "fd77::100"])] {
            assert_eq!(addresses(index).map(|address| address.to_string()), expected);
        }
    }
}
