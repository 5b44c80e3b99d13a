//! Queues of a network device: queueing disciplines, classes and filters, read and changed in place
//! (rtnetlink).

mod message;
mod shaping;

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use byway_units::{Bytes, Rate};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};
use thiserror::Error;

use crate::limits::{DEVICE_NAME_BYTES_MAX, LINK_MESSAGE_BYTES_MAX};
use crate::socket_options;
use message::{Message, NLM_F_ACK, NLM_F_DUMP, Request, attribute, messages, text, u32_at};
use shaping::{
    CLSACT_EGRESS, CLSACT_INGRESS, RTM_GETQDISC, RTM_GETTCLASS, RTM_GETTFILTER, TC_H_ROOT, header,
};

/// Types of messages about devices (`RTM_...`), and their attributes (`IFLA_...`).
const RTM_GETLINK: u16 = 18;
const RTM_SETLINK: u16 = 19;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_EXT_MASK: u16 = 29;
const IFLA_GSO_MAX_SEGS: u16 = 40;
const IFINFOMSG_BYTES: usize = 16;
/// Flag that omits statistics from an answer (`RTEXT_FILTER_SKIP_STATS`).
const RTEXT_FILTER_SKIP_STATS: u32 = 8;
/// Kinds of devices (`ARPHRD_...`), and flags (`IFF_...`).
const ARPHRD_ETHER: u16 = 1;
const IFF_UP: u32 = 1;
const IFF_LOOPBACK: u32 = 8;

/// Error of a query or change of a device's queues.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The process lacks the capability `CAP_NET_ADMIN`.
    #[error(
        "cannot {doing}: CAP_NET_ADMIN missing; be root, or set AmbientCapabilities=CAP_NET_ADMIN \
        with systemd"
    )]
    Forbidden {
        /// Action that failed, such as "add a qdisc".
        doing: &'static str,
    },
    /// The device does not exist, or not any more.
    #[error("network device not found (ip link shows all)")]
    NoDevice,
    /// The kernel refuses the request for another reason.
    #[error("cannot {doing}: {error}{explanation}")]
    Other {
        /// Action that failed, such as "add a qdisc".
        doing: &'static str,
        /// Error of the kernel.
        error: Errno,
        /// Message of the kernel, after a colon; empty if there is none.
        explanation: String,
    },
}

impl LinkError {
    /// True if the queue, class or filter of the request does not exist.
    #[must_use]
    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::NoDevice | Self::Other { error: Errno::NOENT | Errno::INVAL, .. })
    }

    fn of(doing: &'static str, error: Errno, explanation: &[u8]) -> Self {
        match error {
            Errno::PERM | Errno::ACCESS => Self::Forbidden { doing },
            Errno::NODEV => Self::NoDevice,
            error => {
                let explanation = String::from_utf8_lossy(explanation);
                let explanation =
                    if explanation.is_empty() { String::new() } else { format!(": {explanation}") };
                Self::Other { doing, error, explanation }
            }
        }
    }
}

/// State of a network device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkDevice {
    /// Interface index, which is unique while the device exists.
    pub index: u32,
    /// Name of the device.
    pub name: String,
    /// Longest packet in bytes, without the link header.
    pub mtu: u32,
    /// Largest number of segments in a packet that is joined from several (TSO and GSO); `None` if
    /// the kernel does not report it.
    pub segments_max: Option<u32>,
    /// True if the device is Ethernet: its packets have an additional header.
    pub is_ethernet: bool,
    /// True if the device is a loopback device.
    pub is_loopback: bool,
    /// True if the device is set up (`IFF_UP`).
    pub is_up: bool,
}

/// Queueing discipline of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// Kind of the discipline, as the kernel names it.
    pub kind: String,
    /// Handle of the discipline; 0 for the kernel's default.
    pub handle: u32,
    /// Parent in the device's tree of queues; see [`Qdisc::is_root`].
    pub parent: u32,
    /// Options of the discipline, as the kernel encodes them.
    pub options: Option<Vec<u8>>,
    /// True if the discipline computes with other lengths than those of the packets.
    pub has_size_table: bool,
}

impl Qdisc {
    /// True if the discipline is the device's root: all outgoing packets pass through it.
    #[must_use]
    pub const fn is_root(&self) -> bool {
        self.parent == TC_H_ROOT
    }

    /// True if the discipline is the attachment point of filters: clsact, or its predecessor
    /// ingress.
    #[must_use]
    pub const fn is_for_filters(&self) -> bool {
        self.parent == shaping::TC_H_CLSACT
    }
}

/// Class of the HTB queueing discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HtbClass {
    /// Identifier of the class; its upper half is HTB's handle.
    pub id: u32,
    /// Identifier of the parent class, or HTB's handle.
    pub parent: u32,
    /// Rate that the class gets in any case.
    pub rate: Rate,
    /// Rate that the class gets at most.
    pub ceiling: Rate,
    /// Bytes that the class may send at once after a pause.
    pub burst: Bytes,
    /// Bytes that the class sends in its turn of the capacity that other classes leave.
    pub quantum: Bytes,
}

/// Counters of an HTB class, as the kernel reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// Identifier of the class.
    pub id: u32,
    /// Bytes that the class has sent.
    pub sent: Bytes,
    /// Packets that the class has sent, modulo 2^32.
    pub sent_packets: u32,
    /// Bytes in the queue of the class.
    pub backlog: Bytes,
    /// Packets dropped at a full queue, modulo 2^32.
    pub dropped_packets: u32,
}

/// Packet filter of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Kind of the filter, as the kernel names it.
    pub kind: String,
    /// Priority of the filter; the lowest number is first.
    pub priority: u16,
    /// Handle among the filters of its priority.
    pub handle: u32,
    /// Name of the filter's BPF program; empty for other kinds.
    pub name: String,
}

/// Connection to the kernel's traffic control. Each request waits for its answer, some
/// microseconds.
pub struct TrafficControl {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl TrafficControl {
    /// Opens a connection, in the network namespace of this thread.
    ///
    /// # Errors
    /// If the kernel has no such sockets.
    pub fn connect() -> io::Result<Self> {
        // The default protocol of netlink is `NETLINK_ROUTE`: routing, devices and queues.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        socket_options::enable_netlink_ext_ack(&socket)?;
        Ok(Self { socket, sequence: 0, buffer: vec![0; LINK_MESSAGE_BYTES_MAX] })
    }

    /// Returns the device with this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn device(&mut self, name: &OsStr) -> Result<LinkDevice, LinkError> {
        let is_possible = (1..=DEVICE_NAME_BYTES_MAX).contains(&name.len());
        if !is_possible {
            return Err(LinkError::NoDevice);
        }
        let request = link_request(RTM_GETLINK, 0).with_text(IFLA_IFNAME, name.as_bytes());
        self.one_device(request)
    }

    /// Returns the device with this interface index.
    ///
    /// # Errors
    /// If there is none.
    pub fn device_at(&mut self, index: u32) -> Result<LinkDevice, LinkError> {
        self.one_device(link_request(RTM_GETLINK, index))
    }

    fn one_device(&mut self, request: Request) -> Result<LinkDevice, LinkError> {
        let request = request.with(IFLA_EXT_MASK, &RTEXT_FILTER_SKIP_STATS.to_ne_bytes());
        let found = self.request("query a network device", request, device_in)?;
        found.into_iter().next().ok_or(LinkError::NoDevice)
    }

    /// Limits the segments that the kernel joins into one packet for this device. With 1, packets
    /// of this machine's TCP are no longer than the link's MTU.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_segments_max(&mut self, index: u32, segments: u32) -> Result<(), LinkError> {
        let request = link_request(RTM_SETLINK, index).with(IFLA_GSO_MAX_SEGS, &segments.to_ne_bytes());
        self.execute("set gso_max_segs", request)
    }

    /// Returns the queueing disciplines of the device with this index.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn qdiscs(&mut self, index: u32) -> Result<Vec<Qdisc>, LinkError> {
        let request = Request::new(RTM_GETQDISC, NLM_F_DUMP, &header(index, 0, 0, 0));
        self.request("query qdiscs", request, move |payload| shaping::qdisc_in(payload, index))
    }

    /// Returns the configured root discipline of a device; `None` if it is the kernel's default.
    /// All disciplines are requested, because the kernel would notify all listeners of a request
    /// for one.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn root(&mut self, index: u32) -> Result<Option<Qdisc>, LinkError> {
        let all = self.qdiscs(index)?;
        Ok(all.into_iter().find(|qdisc| qdisc.is_root() && qdisc.handle != 0))
    }

    /// Installs HTB as root discipline of a device. If `replaces`, it takes the place of another
    /// one. Packets without a class use the class with the minor number `default`.
    ///
    /// # Errors
    /// If the kernel refuses: there is one already, or it has no HTB (`modprobe sch_htb`).
    pub fn add_htb(
        &mut self,
        index: u32,
        handle: u32,
        default: u16,
        replaces: bool,
    ) -> Result<(), LinkError> {
        self.execute("add HTB (module sch_htb)", shaping::new_htb(index, handle, default, replaces))
    }

    /// Creates an HTB class of a device, or changes an existing one while packets are queued.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_class(&mut self, index: u32, shape: &HtbClass) -> Result<(), LinkError> {
        self.execute("set an HTB class", shaping::class(index, shape))
    }

    /// Adds a queue of `capacity` bytes (bfifo) to an HTB class of a device.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn add_queue(
        &mut self,
        index: u32,
        class: u32,
        handle: u32,
        capacity: Bytes,
    ) -> Result<(), LinkError> {
        self.execute("add a qdisc", shaping::queue(index, class, handle, capacity, true))
    }

    /// Changes the length of a class's queue to `capacity` bytes; queued packets stay.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_queue(
        &mut self,
        index: u32,
        class: u32,
        handle: u32,
        capacity: Bytes,
    ) -> Result<(), LinkError> {
        self.execute("change a qdisc", shaping::queue(index, class, handle, capacity, false))
    }

    /// Restores a root discipline that the device had before, in place of the present one.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn restore_root(&mut self, index: u32, root: &Qdisc) -> Result<(), LinkError> {
        self.execute("restore the root qdisc", shaping::restore_root(index, root))
    }

    /// Removes the root discipline with this handle: the device gets the kernel's default.
    ///
    /// # Errors
    /// If there is no such root.
    pub fn delete_root(&mut self, index: u32, handle: u32) -> Result<(), LinkError> {
        self.execute("remove a qdisc", shaping::delete_root(index, handle))
    }

    /// Adds clsact to a device, the attachment point of filters.
    ///
    /// # Errors
    /// If there is one, or the kernel has none (`modprobe sch_ingress`).
    pub fn add_clsact(&mut self, index: u32) -> Result<(), LinkError> {
        self.execute("add clsact (module sch_ingress)", shaping::new_clsact(index))
    }

    /// Removes clsact from a device, with all its filters.
    ///
    /// # Errors
    /// If there is none.
    pub fn delete_clsact(&mut self, index: u32) -> Result<(), LinkError> {
        self.execute("remove clsact", shaping::delete_clsact(index))
    }

    /// Returns the filters at a device's clsact: those of outgoing packets, and those of incoming
    /// ones.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn filters(&mut self, index: u32) -> Result<[Vec<Filter>; 2], LinkError> {
        let mut of = |parent| {
            let request = Request::new(RTM_GETTFILTER, NLM_F_DUMP, &header(index, 0, parent, 0));
            let found = self.request("query filters", request, shaping::filter_in)?;
            Ok(found.into_iter().filter(|filter| filter.handle != 0).collect())
        };
        Ok([of(CLSACT_EGRESS)?, of(CLSACT_INGRESS)?])
    }

    /// Adds a filter of a device's outgoing packets by a loaded BPF program. It stays when the
    /// process ends.
    ///
    /// # Errors
    /// If the kernel refuses: there is such a filter, or it has no BPF filters
    /// (`modprobe cls_bpf`).
    pub fn add_filter(
        &mut self,
        index: u32,
        filter: &Filter,
        program: BorrowedFd<'_>,
    ) -> Result<(), LinkError> {
        let program = program.as_raw_fd().unsigned_abs();
        self.execute("add a filter (module cls_bpf)", shaping::new_filter(index, filter, program))
    }

    /// Removes a filter of a device's outgoing packets.
    ///
    /// # Errors
    /// If there is no such filter.
    pub fn delete_filter(&mut self, index: u32, filter: &Filter) -> Result<(), LinkError> {
        self.execute("remove a filter", shaping::delete_filter(index, filter))
    }

    /// Returns the counters of a device's HTB classes.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn classes(&mut self, index: u32) -> Result<Vec<ClassCounters>, LinkError> {
        let request = Request::new(RTM_GETTCLASS, NLM_F_DUMP, &header(index, 0, 0, 0));
        self.request("query classes", request, shaping::class_in)
    }

    fn execute(&mut self, doing: &'static str, request: Request) -> Result<(), LinkError> {
        self.request(doing, request, |_| None::<()>).map(drop)
    }

    /// Sends a request; returns what `read` finds in each result until the kernel ends the answer.
    fn request<T>(
        &mut self,
        doing: &'static str,
        request: Request,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>, LinkError> {
        self.sequence = self.sequence.wrapping_add(1);
        let failed = |error| LinkError::of(doing, error, &[]);
        let request = request.numbered(self.sequence);
        rustix::io::retry_on_intr(|| send(&self.socket, &request, SendFlags::empty())).map_err(failed)?;
        let mut found = Vec::new();
        loop {
            let received = rustix::io::retry_on_intr(|| {
                recv(&self.socket, &mut self.buffer[..], RecvFlags::empty()).map(|(_, length)| length)
            });
            let length = received.map_err(failed)?.min(self.buffer.len());
            for message in messages(&self.buffer[..length], self.sequence) {
                match message {
                    Message::Found(payload) => found.extend(read(payload)),
                    Message::End { error: 0, .. } => return Ok(found),
                    Message::End { error, explanation } => {
                        return Err(LinkError::of(doing, Errno::from_raw_os_error(error), explanation));
                    }
                }
            }
        }
    }
}

impl fmt::Debug for TrafficControl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TrafficControl").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

/// Creates a request about a device; with index 0, an attribute names the device.
fn link_request(kind: u16, index: u32) -> Request {
    let words = [0, index, 0, 0];
    let header: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    debug_assert_eq!(header.len(), IFINFOMSG_BYTES);
    Request::new(kind, NLM_F_ACK, &header)
}

fn device_in(payload: &[u8]) -> Option<LinkDevice> {
    let kind = u16::from_ne_bytes(payload.get(2..4)?.try_into().ok()?);
    let (index, flags) = (u32_at(payload, 4)?, u32_at(payload, 8)?);
    let inner = payload.get(IFINFOMSG_BYTES..)?;
    let word = |kind| attribute(inner, kind).and_then(|value| u32_at(value, 0));
    Some(LinkDevice {
        index,
        name: text(attribute(inner, IFLA_IFNAME)?),
        mtu: word(IFLA_MTU)?,
        segments_max: word(IFLA_GSO_MAX_SEGS),
        is_ethernet: kind == ARPHRD_ETHER,
        is_loopback: flags & IFF_LOOPBACK != 0,
        is_up: flags & IFF_UP != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_found_by_name_and_number_and_others_are_not() {
        let mut control = TrafficControl::connect().expect("every kernel has it");
        let found = control.device(OsStr::new("lo")).expect("every machine has it");
        assert!(found.is_loopback && !found.is_ethernet, "{found:?}");
        assert_eq!(control.device_at(found.index), Ok(found));
        for name in ["", "nothing-is-here", "a name that is much too long"] {
            assert_eq!(control.device(OsStr::new(name)), Err(LinkError::NoDevice), "{name:?}");
        }
    }

    #[test]
    fn what_lacks_a_right_or_fails_says_so() {
        let forbidden = LinkError::of("add HTB", Errno::PERM, b"").to_string();
        assert!(forbidden.contains("CAP_NET_ADMIN"), "{forbidden}");
        let other = LinkError::of("add HTB", Errno::NOENT, b"kind is unknown").to_string();
        assert!(other.starts_with("cannot add HTB: ") && other.ends_with(": kind is unknown"), "{other}");
    }
}
