//! Watch for network devices that other programs set up or down.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rtnetlink::packet_core::NetlinkPayload;
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use rtnetlink::{Handle, MulticastGroup};
use tokio::sync::mpsc::{self, Receiver};
use tokio::task::JoinHandle;

/// A device's administrative state, shared by the task that watches it and the agent.
#[derive(Clone, Debug)]
pub(crate) struct DeviceState(Arc<AtomicBool>);

impl DeviceState {
    pub(crate) fn up() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    /// True if the device is administratively up.
    pub(crate) fn is_up(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the state; returns true if it has changed.
    pub(super) fn set(&self, is_up: bool) -> bool {
        self.0.swap(is_up, Ordering::Relaxed) != is_up
    }
}

/// Number of notifications that a device watch buffers. Few suffice, because an administrator
/// changes the state by hand.
const CHANGES_MAX: usize = 64;

/// Watch for the state of one device. The system notifies it of each change (`RTM_NEWLINK`).
pub(super) struct DeviceWatch {
    changes: Receiver<bool>,
    tasks: [JoinHandle<()>; 2],
    /// Handle of the netlink connection, which ends when the watch is dropped.
    _handle: Handle,
}

impl DeviceWatch {
    /// Watches the device of this interface index.
    pub(super) fn of_number(device: u32) -> io::Result<Self> {
        Self::start(move |link| link.header.index == device)
    }

    /// Watches all devices of this name, also future ones.
    pub(super) fn of_name(name: String) -> io::Result<Self> {
        Self::start(move |link| link.attributes.contains(&LinkAttribute::IfName(name.clone())))
    }

    fn start(is_watched: impl Fn(&LinkMessage) -> bool + Send + 'static) -> io::Result<Self> {
        let (connection, handle, mut messages) =
            rtnetlink::new_multicast_connection(&[MulticastGroup::Link])?;
        let (sender, changes) = mpsc::channel(CHANGES_MAX);
        let reads = async move {
            while let Ok((message, _)) = messages.recv().await {
                let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) = message.payload else {
                    continue;
                };
                let is_up = link.header.flags.contains(LinkFlags::Up);
                if is_watched(&link) && sender.send(is_up).await.is_err() {
                    break;
                }
            }
        };
        Ok(Self { changes, tasks: [tokio::spawn(connection), tokio::spawn(reads)], _handle: handle })
    }

    /// Waits for the next notification. Returns true if the device is up; `None` after the last
    /// notification.
    pub(super) async fn next(&mut self) -> Option<bool> {
        self.changes.recv().await
    }
}

/// Waits for the next state of a watched device: true if it is up; `None` once the watch has ended.
/// Without a watch, waits forever.
pub(super) async fn next_state(watch: &mut Option<DeviceWatch>) -> Option<bool> {
    match watch {
        Some(watch) => watch.next().await,
        None => std::future::pending().await,
    }
}

impl Drop for DeviceWatch {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
