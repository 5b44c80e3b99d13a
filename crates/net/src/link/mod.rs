//! The queues of a network device: what the kernel keeps waiting there, by which rules, and how it is changed in place (rtnetlink).

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
use message::{DUMP, Message, Request, WITH_ANSWER, attribute, messages, text, u32_at};
use shaping::{EGRESS, GET_CLASS, GET_FILTER, GET_QDISC, INGRESS, ROOT, header};

/// Types of messages about devices (`RTM_...`), and their attributes (`IFLA_...`).
const GET_LINK: u16 = 18;
const SET_LINK: u16 = 19;
const LINK_NAME: u16 = 3;
const LINK_MTU: u16 = 4;
const LINK_ANSWER: u16 = 29;
const LINK_SEGMENTS_MAX: u16 = 40;
const LINK_HEADER_BYTES: usize = 16;
/// Statistics are left out of an answer (`RTEXT_FILTER_SKIP_STATS`).
const WITHOUT_STATISTICS: u32 = 8;
/// Kinds of devices (`ARPHRD_...`), and flags (`IFF_...`).
const ETHERNET: u16 = 1;
const IS_UP: u32 = 1;
const IS_LOOPBACK: u32 = 8;

/// Why the kernel does not do something with a device's queues.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The process may not.
    #[error("{doing} takes CAP_NET_ADMIN: be root, or with systemd AmbientCapabilities=CAP_NET_ADMIN")]
    Forbidden {
        /// What was done.
        doing: &'static str,
    },
    /// There is no such device, or no longer.
    #[error("there is no such network device (ip link shows those there are)")]
    NoDevice,
    /// Something else.
    #[error("{doing} fails: {error}{said}")]
    Other {
        /// What was done.
        doing: &'static str,
        /// The kernel's error.
        error: Errno,
        /// What it says about it, behind a colon.
        said: String,
    },
}

impl LinkError {
    /// Whether what was meant is not there.
    #[must_use]
    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::NoDevice | Self::Other { error: Errno::NOENT | Errno::INVAL, .. })
    }

    fn of(doing: &'static str, error: Errno, said: &[u8]) -> Self {
        match error {
            Errno::PERM | Errno::ACCESS => Self::Forbidden { doing },
            Errno::NODEV => Self::NoDevice,
            error => {
                let said = String::from_utf8_lossy(said);
                let said = if said.is_empty() { String::new() } else { format!(": {said}") };
                Self::Other { doing, error, said }
            }
        }
    }
}

/// A network device, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkDevice {
    /// The kernel's number of it: no other has the same while it is there.
    pub index: u32,
    /// Its name, as far as it is text.
    pub name: String,
    /// The longest packet in bytes, without the header of the link.
    pub mtu: u32,
    /// Most segments of a packet that is joined from several (TSO and GSO); `None`: the kernel does not say.
    pub segments_max: Option<u32>,
    /// Whether it is Ethernet, whose header packets have in addition.
    pub is_ethernet: bool,
    /// Whether it leads back to this machine.
    pub is_loopback: bool,
    /// Whether somebody has taken it up.
    pub is_up: bool,
}

/// What makes packets wait (a queueing discipline).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// What the kernel calls it.
    pub kind: String,
    /// Its number; 0: the kernel has put it there by itself.
    pub handle: u32,
    /// What it is below; [`Qdisc::is_root`] knows the highest place.
    pub parent: u32,
    /// What it was told, as the kernel says it.
    pub options: Option<Vec<u8>>,
    /// Whether it counts other lengths than packets have.
    pub has_size_table: bool,
}

impl Qdisc {
    /// Whether all that leaves passes by it.
    #[must_use]
    pub const fn is_root(&self) -> bool {
        self.parent == ROOT
    }

    /// Whether it is the place of filters, or what was that before there were two of them.
    #[must_use]
    pub const fn is_for_filters(&self) -> bool {
        self.parent == shaping::CLSACT_PARENT
    }
}

/// A class of HTB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassShape {
    /// Its number: HTB's in the upper half.
    pub id: u32,
    /// That of the class above it, or HTB's.
    pub parent: u32,
    /// What it gets whatever others want.
    pub rate: Rate,
    /// What it gets at most.
    pub ceiling: Rate,
    /// What it may send at once.
    pub burst: Bytes,
    /// What it sends in its turn of what is left over.
    pub quantum: Bytes,
}

/// What the kernel has counted of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// Whose it is.
    pub id: u32,
    /// Bytes that have left.
    pub sent: Bytes,
    /// Packets that have left, modulo 2^32.
    pub sent_packets: u32,
    /// Bytes that wait.
    pub backlog: Bytes,
    /// Packets that found no room, modulo 2^32.
    pub dropped_packets: u32,
}

/// A filter by which packets pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// What the kernel calls it.
    pub kind: String,
    /// Lower ones are first.
    pub priority: u16,
    /// Its number among those of its priority.
    pub handle: u32,
    /// What a BPF program was called; nothing of others.
    pub name: String,
}

/// A talk with the kernel about the queues of devices. Each request waits for its answer, some microseconds.
pub struct TrafficControl {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl TrafficControl {
    /// Begins it, in the network namespace of this thread.
    ///
    /// # Errors
    /// If the kernel has no such sockets.
    pub fn connect() -> io::Result<Self> {
        // Without another number, netlink is about routing, devices and queues (`NETLINK_ROUTE`).
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        socket_options::ask_netlink_explanations(&socket)?;
        Ok(Self { socket, sequence: 0, buffer: vec![0; LINK_MESSAGE_BYTES_MAX] })
    }

    /// The device of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn device(&mut self, name: &OsStr) -> Result<LinkDevice, LinkError> {
        let is_possible = (1..=DEVICE_NAME_BYTES_MAX).contains(&name.len());
        if !is_possible {
            return Err(LinkError::NoDevice);
        }
        let request = link_request(GET_LINK, 0).with_text(LINK_NAME, name.as_bytes());
        self.one_device(request)
    }

    /// The device of this number.
    ///
    /// # Errors
    /// If there is none.
    pub fn device_at(&mut self, index: u32) -> Result<LinkDevice, LinkError> {
        self.one_device(link_request(GET_LINK, index))
    }

    fn one_device(&mut self, request: Request) -> Result<LinkDevice, LinkError> {
        let request = request.with(LINK_ANSWER, &WITHOUT_STATISTICS.to_ne_bytes());
        let found = self.ask("looking at a network device", request, device_in)?;
        found.into_iter().next().ok_or(LinkError::NoDevice)
    }

    /// Has the kernel join at most so many segments into one packet for this device: with 1, what TCP of this machine sends is as long as the
    /// link takes.
    ///
    /// # Errors
    /// If it does not.
    pub fn set_segments_max(&mut self, index: u32, segments: u32) -> Result<(), LinkError> {
        let request = link_request(SET_LINK, index).with(LINK_SEGMENTS_MAX, &segments.to_ne_bytes());
        self.order("setting gso_max_segs", request)
    }

    /// All that packets wait in at a device, as far as somebody sees it.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn qdiscs(&mut self, index: u32) -> Result<Vec<Qdisc>, LinkError> {
        let request = Request::new(GET_QDISC, DUMP, &header(index, 0, 0, 0));
        self.ask("looking at queues", request, move |payload| shaping::qdisc_in(payload, index))
    }

    /// What somebody has put at the root of a device; `None` if it is the kernel's own. (Asked for one queue alone, the kernel would tell everybody
    /// who listens.)
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn root(&mut self, index: u32) -> Result<Option<Qdisc>, LinkError> {
        let all = self.qdiscs(index)?;
        Ok(all.into_iter().find(|qdisc| qdisc.is_root() && qdisc.handle != 0))
    }

    /// Puts HTB at the root, in place of another one or of the kernel's own. What finds no class has the one with the minor number `default`.
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
        self.order("adding HTB (module sch_htb)", shaping::new_htb(index, handle, default, replaces))
    }

    /// Makes a class, or changes it while packets wait.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_class(&mut self, index: u32, shape: &ClassShape) -> Result<(), LinkError> {
        self.order("setting a class of HTB", shaping::class(index, shape))
    }

    /// Gives a class a queue of so many bytes.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn add_queue(&mut self, index: u32, class: u32, handle: u32, room: Bytes) -> Result<(), LinkError> {
        self.order("adding a queue", shaping::queue(index, class, handle, room, true))
    }

    /// Has a queue take so many bytes from now on; what waits already stays.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_queue(&mut self, index: u32, class: u32, handle: u32, room: Bytes) -> Result<(), LinkError> {
        self.order("changing a queue", shaping::queue(index, class, handle, room, false))
    }

    /// Puts the root back that was there, in place of what is.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn put_root_back(&mut self, index: u32, root: &Qdisc) -> Result<(), LinkError> {
        self.order("putting a queue back", shaping::root_again(index, root))
    }

    /// Takes the root away that has this number: the kernel has its own again.
    ///
    /// # Errors
    /// If it is not there.
    pub fn delete_root(&mut self, index: u32, handle: u32) -> Result<(), LinkError> {
        self.order("removing a queue", shaping::delete_root(index, handle))
    }

    /// Makes the place for filters, clsact.
    ///
    /// # Errors
    /// If there is one, or the kernel has none (`modprobe sch_ingress`).
    pub fn add_clsact(&mut self, index: u32) -> Result<(), LinkError> {
        self.order("adding clsact (module sch_ingress)", shaping::new_clsact(index))
    }

    /// Removes it with all filters.
    ///
    /// # Errors
    /// If it is not there.
    pub fn delete_clsact(&mut self, index: u32) -> Result<(), LinkError> {
        self.order("removing clsact", shaping::delete_clsact(index))
    }

    /// The filters of clsact: of what leaves, and of what comes.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn filters(&mut self, index: u32) -> Result<[Vec<Filter>; 2], LinkError> {
        let mut of = |parent| {
            let request = Request::new(GET_FILTER, DUMP, &header(index, 0, parent, 0));
            let found = self.ask("looking at filters", request, shaping::filter_in)?;
            Ok(found.into_iter().filter(|filter| filter.handle != 0).collect())
        };
        Ok([of(EGRESS)?, of(INGRESS)?])
    }

    /// Has what leaves pass by a BPF program that the kernel has already; it stays there when the process ends.
    ///
    /// # Errors
    /// If the kernel refuses: there is such a filter, or it has none of BPF (`modprobe cls_bpf`).
    pub fn add_filter(
        &mut self,
        index: u32,
        filter: &Filter,
        program: BorrowedFd<'_>,
    ) -> Result<(), LinkError> {
        let program = program.as_raw_fd().unsigned_abs();
        self.order("adding a filter (module cls_bpf)", shaping::new_filter(index, filter, program))
    }

    /// Removes it.
    ///
    /// # Errors
    /// If it is not there.
    pub fn delete_filter(&mut self, index: u32, filter: &Filter) -> Result<(), LinkError> {
        self.order("removing a filter", shaping::delete_filter(index, filter))
    }

    /// What has been counted of the classes of a device.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn classes(&mut self, index: u32) -> Result<Vec<ClassCounters>, LinkError> {
        let request = Request::new(GET_CLASS, DUMP, &header(index, 0, 0, 0));
        self.ask("looking at classes", request, shaping::class_in)
    }

    fn order(&mut self, doing: &'static str, request: Request) -> Result<(), LinkError> {
        self.ask(doing, request, |_| None::<()>).map(drop)
    }

    /// Sends a request, and reads what it finds until the kernel says that this is all.
    fn ask<T>(
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
                    Message::End { error, said } => {
                        return Err(LinkError::of(doing, Errno::from_raw_os_error(error), said));
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

/// A request about a device; 0: the one that an attribute names.
fn link_request(kind: u16, index: u32) -> Request {
    let words = [0, index, 0, 0];
    let header: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    debug_assert_eq!(header.len(), LINK_HEADER_BYTES);
    Request::new(kind, WITH_ANSWER, &header)
}

fn device_in(payload: &[u8]) -> Option<LinkDevice> {
    let kind = u16::from_ne_bytes(payload.get(2..4)?.try_into().ok()?);
    let (index, flags) = (u32_at(payload, 4)?, u32_at(payload, 8)?);
    let inner = payload.get(LINK_HEADER_BYTES..)?;
    let word = |kind| attribute(inner, kind).and_then(|value| u32_at(value, 0));
    Some(LinkDevice {
        index,
        name: text(attribute(inner, LINK_NAME)?),
        mtu: word(LINK_MTU)?,
        segments_max: word(LINK_SEGMENTS_MAX),
        is_ethernet: kind == ETHERNET,
        is_loopback: flags & IS_LOOPBACK != 0,
        is_up: flags & IS_UP != 0,
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
        let forbidden = LinkError::of("adding HTB", Errno::PERM, b"").to_string();
        assert!(forbidden.contains("CAP_NET_ADMIN"), "{forbidden}");
        let other = LinkError::of("adding HTB", Errno::NOENT, b"kind is unknown").to_string();
        assert!(other.starts_with("adding HTB fails: ") && other.ends_with(": kind is unknown"), "{other}");
    }
}
