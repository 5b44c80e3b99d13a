//! Packet queues of the firewall (NFQUEUE): a role consumes or accepts the packets in them.

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
use messages::{Message, VERDICT_BYTES, add_bind, add_unbind, add_verdict, parse};
pub(crate) use messages::{PacketKey, PacketMessage};

/// Error of binding packet queues.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum QueueError {
    /// The kernel does not support packet queues.
    #[error(
        "kernel without packet queues ({0}): load the module (modprobe nfnetlink_queue), or use a \
        kernel with it"
    )]
    Unsupported(io::Error),
    /// The process lacks the capability `CAP_NET_ADMIN`.
    #[error(
        "cannot bind the packet queue {queue}: CAP_NET_ADMIN missing; set \
        AmbientCapabilities=CAP_NET_ADMIN with systemd"
    )]
    Forbidden {
        /// Number of the queue.
        queue: u16,
    },
    /// Another process has bound the queue.
    #[error(
        "packet queue {queue} in use by another process (/proc/net/netfilter/nfnetlink_queue lists \
        queues, each with the number of its process): end it, or use another queue here and in the \
        firewall's rules"
    )]
    InUse {
        /// Number of the queue.
        queue: u16,
    },
    /// The kernel refuses the queue for another reason.
    #[error("cannot bind the packet queue {queue}: {error}")]
    Other {
        /// Number of the queue.
        queue: u16,
        /// Error of the kernel.
        error: io::Error,
    },
}

/// A packet that a firewall rule has put into a queue.
#[derive(Debug)]
pub struct QueuedPacket<'a> {
    /// Number of the queue.
    pub queue: u16,
    /// Firewall mark of the packet; 0 for none.
    pub mark: u32,
    /// Interface index of the packet's input device; `None` for packets of this machine.
    pub input_ifindex: Option<u32>,
    /// Interface index of the packet's output device, if it is decided; 1 for packets to this
    /// machine.
    pub output_ifindex: Option<u32>,
    /// Whole IP packet, up to 1,500 bytes. The system does not see changes to it. The buffer is
    /// reused after the call.
    pub packet: &'a mut [u8],
}

/// Queued packets of a role by their result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Packets that the role consumed.
    pub consumed: u64,
    /// Packets that continued through the system: the role accepted them, or they were too long.
    pub accepted: u64,
    /// Packets that the kernel passed on without a verdict, because the role was too slow for the
    /// queue.
    pub overruns: u64,
}

/// Packet queues of one role. They exist as long as this value. When the process ends in any
/// manner, a firewall rule decides on packets for unbound queues: with `--queue-bypass` they
/// continue as without a queue, otherwise they are dropped.
pub struct PacketQueues {
    socket: OwnedFd,
    /// Numbers of the bound queues.
    bound: Vec<u16>,
    /// Sequence number of the last request.
    sequence: u32,
    /// True if the process has the capability for packet queues, as far as is known.
    is_privileged: bool,
    /// Encoded verdicts that are not sent to the kernel yet.
    verdicts: Vec<u8>,
    pub(crate) counters: QueueCounters,
    /// Drop counter of the socket at its last reading, modulo 2^32.
    overruns: u32,
}

impl PacketQueues {
    /// Binds queues; from now on, their packets wait for a thread.
    ///
    /// # Errors
    /// If the process lacks `CAP_NET_ADMIN`, the kernel has no queues, or another process has one
    /// of these.
    pub fn bind(queues: &[u16]) -> Result<Self, QueueError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(NETFILTER));
        let socket = socket.map_err(|error| QueueError::Unsupported(error.into()))?;
        // Outside of user namespaces, this requires the same capability as queues, whose errors are
        // less specific. Within one, the system's limit applies.
        let is_privileged = set_socket_recv_buffer_size_force(&socket, APPLICATION_BUFFER_BYTES).is_ok();
        if !is_privileged {
            let _ = set_socket_recv_buffer_size(&socket, APPLICATION_BUFFER_BYTES);
        }
        // Packets that do not fit are counted, and continue through the system; an error would add
        // nothing.
        socket_options::disable_netlink_overruns(&socket).map_err(QueueError::Unsupported)?;
        let verdicts = Vec::with_capacity(PACKETS_PER_TURN * VERDICT_BYTES);
        let counters = QueueCounters::default();
        let mut all =
            Self { socket, bound: Vec::new(), sequence: 0, is_privileged, verdicts, counters, overruns: 0 };
        queues.iter().try_for_each(|queue| all.bind_one(*queue))?;
        Ok(all)
    }

    /// Binds these queues, in place of the present ones. Queues in both sets lose no packet.
    ///
    /// # Errors
    /// As [`bind`](Self::bind). Then all are unchanged.
    pub(crate) fn rebind(&mut self, queues: &[u16]) -> Result<(), QueueError> {
        let before = self.bound.clone();
        let added = queues.iter().filter(|queue| !before.contains(queue));
        let added = added.copied().try_for_each(|queue| self.bind_one(queue));
        let remaining = if added.is_ok() { queues } else { &before };
        let removed: Vec<u16> =
            self.bound.iter().copied().filter(|queue| !remaining.contains(queue)).collect();
        for queue in removed {
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

    /// Unbinds a queue. Before, accepts the packets that wait in it, because the kernel drops those
    /// of an unbound queue.
    fn unbind(&mut self, queue: u16) {
        self.bound.retain(|other| *other != queue);
        let mut buffer = [0; QUEUE_MESSAGE_BYTES_MAX];
        while let Ok(Some(Message::Packet(found))) = self.next(&mut buffer) {
            self.queue_verdict(found.key, Verdict::Accepted);
            // Verdicts that the kernel does not accept now are sent with the next ones.
            let _ = self.send_verdicts();
        }
        if let Err(error) = self.request(|request, sequence| add_unbind(request, sequence, queue)) {
            tracing::warn!(queue, %error, "cannot unbind a packet queue");
        }
    }

    fn request(&mut self, add: impl FnOnce(&mut Vec<u8>, u32)) -> Result<(), Errno> {
        self.sequence += 1;
        let (mut request, sequence) = (Vec::new(), self.sequence);
        add(&mut request, sequence);
        send(&self.socket, &request, SendFlags::empty())?;
        let mut buffer = [0; QUEUE_MESSAGE_BYTES_MAX];
        // The answer is available when the call returns, possibly after packets of bound queues.
        loop {
            match self.next(&mut buffer)? {
                Some(Message::Packet(found)) => {
                    self.queue_verdict(found.key, Verdict::Accepted);
                    self.send_verdicts()
                        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
                }
                Some(Message::Answer { sequence: of, error }) if of == sequence => {
                    return if error == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(error)) };
                }
                Some(Message::Answer { .. }) | None => {}
            }
        }
    }

    /// Receives the kernel's next message; `None` if it is irrelevant.
    fn next(&self, buffer: &mut [u8]) -> Result<Option<Message>, Errno> {
        let (_, length) = recv(&self.socket, &mut *buffer, RecvFlags::DONTWAIT)?;
        Ok(parse(&buffer[..length.min(buffer.len())]))
    }

    /// Receives the next packet of the queues; `None` if none waits. The caller has to return a
    /// verdict on each.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<PacketMessage>> {
        for _ in 0..PACKETS_PER_TURN {
            match self.next(buffer) {
                Ok(Some(Message::Packet(found))) => return Ok(Some(found)),
                Err(Errno::AGAIN) => return Ok(None),
                // A packet was removed before its verdict, packets did not fit (which is counted),
                // or a signal arrived.
                Ok(_) | Err(Errno::NOBUFS | Errno::INTR) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(None)
    }

    /// Counts the verdict on a packet and queues it, for [`send_verdicts`](Self::send_verdicts).
    pub(crate) fn queue_verdict(&mut self, key: PacketKey, verdict: Verdict) {
        add_verdict(&mut self.verdicts, key, verdict);
        match verdict {
            Verdict::Consumed => self.counters.consumed += 1,
            Verdict::Accepted => self.counters.accepted += 1,
        }
    }

    /// Sends the queued verdicts to the kernel. If it accepts none now, they stay for the next
    /// call.
    pub(crate) fn send_verdicts(&mut self) -> io::Result<()> {
        if self.verdicts.is_empty() {
            return Ok(());
        }
        match send(&self.socket, &self.verdicts, SendFlags::empty()) {
            // They are sent with the next ones: the packets wait, at most as many as the queue
            // allows.
            Err(Errno::NOBUFS | Errno::NOMEM | Errno::AGAIN | Errno::INTR) => Ok(()),
            sent => {
                self.verdicts.clear();
                sent.map(drop).map_err(failed)
            }
        }
    }

    /// Adds the packets that the kernel passed on without a verdict since the last call.
    pub(crate) fn count_overruns(&mut self) {
        let unseen = socket_options::dropped(&self.socket).unwrap_or(self.overruns);
        self.counters.overruns += u64::from(unseen.wrapping_sub(self.overruns));
        self.overruns = unseen;
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
        // The kernel's error for messages that none of its modules reads.
        Errno::INVAL | Errno::OPNOTSUPP => QueueError::Unsupported(error.into()),
        error => QueueError::Other { queue, error: error.into() },
    }
}

fn failed(error: Errno) -> io::Error {
    io::Error::new(io::Error::from(error).kind(), format!("packet queues failed: {error}"))
}
