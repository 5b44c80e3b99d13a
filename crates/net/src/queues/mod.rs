//! Queues into which rules of the firewall put packets (NFQUEUE), for a role to take them or let them go.

mod messages;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use byway_proto::limits::DATAGRAM_BYTES_MAX;
use rustix::io::Errno;
use rustix::net::netlink::NETFILTER;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};
use thiserror::Error;

use crate::limits::{APPLICATION_BUFFER_BYTES, PACKETS_PER_TURN, QUEUE_MESSAGE_BYTES_MAX, QUEUE_PACKETS_MAX};
use crate::socket_options;
pub use messages::Verdict;
pub(crate) use messages::{Found, Key};
use messages::{Message, VERDICT_BYTES, add_bind, add_unbind, add_verdict, parse};

/// Why queues cannot be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum QueueError {
    /// The kernel has none.
    #[error(
        "this kernel has no queues of packets ({0}): load the module (modprobe nfnetlink_queue), or use a kernel with it"
    )]
    Unsupported(io::Error),
    /// Only the privileged may have queues.
    #[error("the queue {queue} takes CAP_NET_ADMIN: with systemd AmbientCapabilities=CAP_NET_ADMIN")]
    Forbidden {
        /// Which.
        queue: u16,
    },
    /// Another process has it.
    #[error(
        "another process has the queue {queue} (/proc/net/netfilter/nfnetlink_queue lists queues, each with the number of its process): end it, or take \
         another queue here and in the rules of the firewall"
    )]
    InUse {
        /// Which.
        queue: u16,
    },
    /// Something else.
    #[error("the system does not give the queue {queue}: {error}")]
    Other {
        /// Which.
        queue: u16,
        /// What the kernel said.
        error: io::Error,
    },
}

/// A packet that a rule of the firewall has put into a queue.
#[derive(Debug)]
pub struct Queued<'a> {
    /// Into which.
    pub queue: u16,
    /// Its firewall mark; 0: none.
    pub mark: u32,
    /// The number of the device by which it came; `None`: it begins at this machine.
    pub came_by: Option<u32>,
    /// The number of the device by which it leaves, if that is decided; 1: it stays at this machine.
    pub leaves_by: Option<u32>,
    /// The IP packet, whole: up to 1,500 bytes. What is changed of it, the system does not see; lost after the call.
    pub packet: &'a mut [u8],
}

/// What became of packets of queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Packets that the role took.
    pub taken: u64,
    /// Packets that went on, as if there were no queue: the role did not want them, or they were too long.
    pub accepted: u64,
    /// Packets that the kernel let go on unseen because the role was too slow for the queue.
    pub unseen: u64,
}

/// The queues of one role. They are there as long as this: when the process ends, however that ends, packets go on as a rule says for
/// queues that nobody has: with `--queue-bypass` as if there were no queue, else nowhere.
pub struct PacketQueues {
    socket: OwnedFd,
    /// The numbers of those that are bound.
    bound: Vec<u16>,
    /// The sequence number of the last request.
    sequence: u32,
    /// Whether the process may have queues, as far as it is known.
    is_privileged: bool,
    /// What is to be told to the kernel.
    verdicts: Vec<u8>,
    pub(crate) counters: QueueCounters,
    /// What the kernel has dropped at the socket, modulo 2^32.
    unseen: u32,
}

impl PacketQueues {
    /// Takes queues; from now on, their packets wait for a thread.
    ///
    /// # Errors
    /// If the process may not (it takes `CAP_NET_ADMIN`), the kernel has no queues, or another process has one of these.
    pub fn bind(queues: &[u16]) -> Result<Self, QueueError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(NETFILTER));
        let socket = socket.map_err(|error| QueueError::Unsupported(error.into()))?;
        // Outside of user namespaces, it takes the same right as queues do, of which the kernel says less. Within one, the system's limit holds.
        let is_privileged = set_socket_recv_buffer_size_force(&socket, APPLICATION_BUFFER_BYTES).is_ok();
        if !is_privileged {
            let _ = set_socket_recv_buffer_size(&socket, APPLICATION_BUFFER_BYTES);
        }
        // What does not fit is counted, and goes its own way; an error would tell nothing more.
        socket_options::disable_netlink_overruns(&socket).map_err(QueueError::Unsupported)?;
        let verdicts = Vec::with_capacity(PACKETS_PER_TURN * VERDICT_BYTES);
        let counters = QueueCounters::default();
        let mut all =
            Self { socket, bound: Vec::new(), sequence: 0, is_privileged, verdicts, counters, unseen: 0 };
        queues.iter().try_for_each(|queue| all.bind_one(*queue))?;
        Ok(all)
    }

    /// Takes these queues, and no others. Those that stay lose nothing.
    ///
    /// # Errors
    /// As [`bind`](Self::bind). Then all are as they were.
    pub(crate) fn change(&mut self, queues: &[u16]) -> Result<(), QueueError> {
        let before = self.bound.clone();
        let added = queues.iter().filter(|queue| !before.contains(queue));
        let added = added.copied().try_for_each(|queue| self.bind_one(queue));
        let kept = if added.is_ok() { queues } else { &before };
        let gone: Vec<u16> = self.bound.iter().copied().filter(|queue| !kept.contains(queue)).collect();
        for queue in gone {
            self.unbind(queue);
        }
        added
    }

    fn bind_one(&mut self, queue: u16) -> Result<(), QueueError> {
        let bytes_max = u32::try_from(DATAGRAM_BYTES_MAX).expect("a packet is shorter than 2^32");
        let bound = self.request(|request, sequence| {
            add_bind(request, sequence, queue, bytes_max, QUEUE_PACKETS_MAX);
        });
        bound.map_err(|error| explained(error, queue, self.is_privileged))?;
        self.bound.push(queue);
        Ok(())
    }

    /// Packets that wait go on first: the kernel drops those of a queue that is given back.
    fn unbind(&mut self, queue: u16) {
        self.bound.retain(|other| *other != queue);
        let mut buffer = [0; QUEUE_MESSAGE_BYTES_MAX];
        while let Ok(Some(Message::Packet(found))) = self.next(&mut buffer) {
            self.decide(found.key, Verdict::Accepted);
            // What the kernel does not hear now, it hears with the next verdict.
            let _ = self.tell();
        }
        if let Err(error) = self.request(|request, sequence| add_unbind(request, sequence, queue)) {
            tracing::warn!(queue, %error, "the system does not take a queue back");
        }
    }

    fn request(&mut self, add: impl FnOnce(&mut Vec<u8>, u32)) -> Result<(), Errno> {
        self.sequence += 1;
        let (mut request, sequence) = (Vec::new(), self.sequence);
        add(&mut request, sequence);
        send(&self.socket, &request, SendFlags::empty())?;
        let mut buffer = [0; QUEUE_MESSAGE_BYTES_MAX];
        // The kernel has answered when the call returns; packets of queues that are bound already may have come before.
        loop {
            match self.next(&mut buffer)? {
                Some(Message::Packet(found)) => {
                    self.decide(found.key, Verdict::Accepted);
                    self.tell().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
                }
                Some(Message::Answer { sequence: of, error }) if of == sequence => {
                    return if error == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(error)) };
                }
                Some(Message::Answer { .. }) | None => {}
            }
        }
    }

    /// The next message; `None` if it is nothing to know.
    fn next(&self, buffer: &mut [u8]) -> Result<Option<Message>, Errno> {
        let (_, length) = recv(&self.socket, &mut *buffer, RecvFlags::DONTWAIT)?;
        Ok(parse(&buffer[..length.min(buffer.len())]))
    }

    /// The next packet that waits, if there is one. Each is to be decided about.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Found>> {
        for _ in 0..PACKETS_PER_TURN {
            match self.next(buffer) {
                Ok(Some(Message::Packet(found))) => return Ok(Some(found)),
                Err(Errno::AGAIN) => return Ok(None),
                // A packet was gone before its verdict came; packets did not fit, which are counted; or a signal came.
                Ok(_) | Err(Errno::NOBUFS | Errno::INTR) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(None)
    }

    /// Notes what becomes of a packet: [`tell`](Self::tell) says it.
    pub(crate) fn decide(&mut self, key: Key, verdict: Verdict) {
        add_verdict(&mut self.verdicts, key, verdict);
        match verdict {
            Verdict::Taken => self.counters.taken += 1,
            Verdict::Accepted => self.counters.accepted += 1,
        }
    }

    /// Tells the kernel all that is noted.
    pub(crate) fn tell(&mut self) -> io::Result<()> {
        if self.verdicts.is_empty() {
            return Ok(());
        }
        match send(&self.socket, &self.verdicts, SendFlags::empty()) {
            // They go with the next ones: the packets wait, of which there are as many as fit the queue.
            Err(Errno::NOBUFS | Errno::NOMEM | Errno::AGAIN | Errno::INTR) => Ok(()),
            told => {
                self.verdicts.clear();
                told.map(drop).map_err(failed)
            }
        }
    }

    /// Asks the kernel what it let go on unseen.
    pub(crate) fn count_unseen(&mut self) {
        let unseen = socket_options::dropped(&self.socket).unwrap_or(self.unseen);
        self.counters.unseen += u64::from(unseen.wrapping_sub(self.unseen));
        self.unseen = unseen;
    }
}

impl AsFd for PacketQueues {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl fmt::Debug for PacketQueues {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PacketQueues").field("counters", &self.counters).finish_non_exhaustive()
    }
}

fn explained(error: Errno, queue: u16, is_privileged: bool) -> QueueError {
    match error {
        Errno::PERM if !is_privileged => QueueError::Forbidden { queue },
        Errno::PERM | Errno::BUSY => QueueError::InUse { queue },
        // What the kernel says of messages that no module of it reads.
        Errno::INVAL | Errno::OPNOTSUPP => QueueError::Unsupported(error.into()),
        error => QueueError::Other { queue, error: error.into() },
    }
}

fn failed(error: Errno) -> io::Error {
    io::Error::new(io::Error::from(error).kind(), format!("the queues of packets fail: {error}"))
}
