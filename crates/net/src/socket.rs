//! One UDP socket.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use byway_wire::TrafficClass;
use quinn_udp::{EcnCodepoint, RecvMeta, UdpSockRef, UdpSocketState};
use rustix::io::Errno;
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
    set_socket_recv_buffer_size_force, set_socket_send_buffer_size_force,
};
use socket2::{Domain, Protocol, Socket, Type};

use crate::limits::{REFUSALS_MAX, SEGMENTS_MAX};
use crate::marked_datagrams;
use crate::socket_options::{self, QueuedError};

/// Use of a socket's port by other sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// The port belongs to this socket alone.
    Alone,
    /// The sockets of all shards of a relay share the port.
    Shards,
}

/// Handling of a socket's datagrams that are longer than the path MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fragments {
    /// The kernel or a router fragments them.
    Allowed,
    /// A router drops them, or the kernel refuses them. The kernel uses only the MTU of the
    /// interface, because ICMP errors may be forged, and the sender has to check them first.
    Never,
}

/// Reason for which the kernel did not send datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The socket's buffer is full for now.
    Full,
    /// The kernel cannot send them, or may not.
    Never(Errno),
}

/// UDP socket of one family: IPv4 addresses are never mapped into IPv6.
///
/// Datagrams longer than the path MTU are fragmented, unless the sender discovers the path MTU.
/// Without fragments, datagrams of other senders would be dropped on the path.
#[derive(Debug)]
pub(crate) struct UdpSocket {
    socket: Socket,
    state: UdpSocketState,
    local: SocketAddr,
    sharing: Sharing,
    fragments: Fragments,
    batching: Batching,
    is_full: bool,
    /// Drop counter of the kernel at its last reading, modulo 2^32.
    dropped: u32,
    /// Destination and error of the last datagram if the kernel refused it.
    refused: Option<(SocketAddr, Errno)>,
}

/// Limits on sending several datagrams in one call (GSO).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Batching {
    segments_max: usize,
    /// Longest datagram in a run of several, in bytes. A run of datagrams too long for the
    /// interface is refused, while single ones are fragmented.
    segment_bytes_max: usize,
    refusals: u8,
}

impl Batching {
    fn new(segments_max: usize) -> Self {
        Self { segments_max: segments_max.min(SEGMENTS_MAX), segment_bytes_max: usize::MAX, refusals: 0 }
    }

    /// Records that the kernel refused a run with this segment length, but accepts single
    /// datagrams.
    fn record_refusal(&mut self, segment_bytes: usize) {
        self.refusals += 1;
        self.segment_bytes_max = segment_bytes.saturating_sub(1);
        if self.refusals >= REFUSALS_MAX {
            self.segments_max = 1;
        }
    }
}

impl UdpSocket {
    /// Binds a socket to this address, and requests kernel buffers of this size in each direction.
    pub(crate) fn bind(address: SocketAddr, sharing: Sharing, buffer_bytes: usize) -> io::Result<Self> {
        Self::bind_to_device(address, None, sharing, buffer_bytes)
    }

    /// Binds a socket like [`bind`](Self::bind), and to a network device, by which alone it sends
    /// and receives.
    pub(crate) fn bind_to_device(
        address: SocketAddr,
        device: Option<&str>,
        sharing: Sharing,
        buffer_bytes: usize,
    ) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        if sharing == Sharing::Shards {
            socket.set_reuse_port(true)?;
        }
        if let Some(device) = device {
            socket.bind_device(Some(device.as_bytes()))?;
        }
        socket.bind(&address.into())?;
        enlarge_buffers(&socket, buffer_bytes);
        let fragments = Fragments::Allowed;
        let state = configured(&socket, address.is_ipv6(), sharing, fragments)?;
        let local = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let batching = Batching::new(state.max_gso_segments());
        Ok(Self {
            socket,
            state,
            local,
            sharing,
            fragments,
            batching,
            is_full: false,
            dropped: 0,
            refused: None,
        })
    }

    /// Disables fragmentation of sent datagrams. The kernel then queues ICMP errors about packets
    /// that are too long, for [`next_error`](Self::next_error).
    pub(crate) fn forbid_fragments(&mut self) -> io::Result<()> {
        self.fragments = Fragments::Never;
        self.state = self.configured()?;
        socket_options::queue_errors(self, self.local.is_ipv6())
    }

    /// Reads the next error that the kernel has queued, with the quoted payload of its packet;
    /// `None` without one.
    pub(crate) fn next_error(&self, quoted: &mut [u8]) -> Option<QueuedError> {
        if self.fragments == Fragments::Allowed {
            return None;
        }
        socket_options::next_error(self, quoted).ok()
    }

    /// Sets all options of the socket again, and returns its new state.
    fn configured(&self) -> io::Result<UdpSocketState> {
        configured(&self.socket, self.local.is_ipv6(), self.sharing, self.fragments)
    }

    pub(crate) const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Returns the size of the kernel's receive buffer, in bytes. The kernel doubles it for its own
    /// data structures.
    pub(crate) fn receive_buffer(&self) -> usize {
        self.socket.recv_buffer_size().map_or(0, |doubled| doubled / 2)
    }

    /// Returns the largest number of datagrams of this length that one call may send.
    #[inline]
    pub(crate) const fn segments_max(&self, segment_bytes: usize) -> usize {
        if segment_bytes <= self.batching.segment_bytes_max { self.batching.segments_max } else { 1 }
    }

    /// Records that the kernel refused a run with this segment length, but accepts single
    /// datagrams.
    pub(crate) fn on_gso_refused(&mut self, segment_bytes: usize) {
        self.batching.record_refusal(segment_bytes);
        let Batching { segments_max, segment_bytes_max, .. } = self.batching;
        tracing::debug!(socket = %self.local, segments_max, segment_bytes_max, "kernel refused GSO");
    }

    /// Returns the destination and the error of the last datagram if the kernel refused it.
    pub(crate) const fn last_refusal(&self) -> Option<(SocketAddr, Errno)> {
        self.refused
    }

    #[inline]
    pub(crate) const fn record_refused(&mut self, refused: Option<(SocketAddr, Errno)>) {
        self.refused = refused;
    }

    /// True if the kernel accepted no more datagrams, and has not signalled free space since.
    pub(crate) const fn is_full(&self) -> bool {
        self.is_full
    }

    pub(crate) const fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// True if the socket receives datagrams at every address of the machine.
    #[inline]
    pub(crate) const fn is_wildcard(&self) -> bool {
        self.local.ip().is_unspecified()
    }

    /// Sends `bytes` as datagrams of `segment_bytes` each, the last of which may be shorter. The
    /// source is the local address `from`, or the system's choice.
    #[inline]
    pub(crate) fn send(
        &mut self,
        to: SocketAddr,
        from: Option<IpAddr>,
        traffic_class: TrafficClass,
        bytes: &[u8],
        segment_bytes: usize,
    ) -> Result<(), Refusal> {
        if traffic_class.dscp_bytes() > 0 {
            let sent = marked_datagrams::send(&self.socket, (to, from), traffic_class, bytes, segment_bytes);
            return sent.map_err(|error| self.refusal(&error));
        }
        let transmit = quinn_udp::Transmit {
            destination: to,
            ecn: EcnCodepoint::from_bits(traffic_class.bits()),
            contents: bytes,
            segment_size: Some(segment_bytes),
            src_ip: from,
        };
        self.state.try_send(UdpSockRef::from(&self.socket), &transmit).map_err(|error| self.refusal(&error))
    }

    #[cold]
    fn refusal(&mut self, error: &io::Error) -> Refusal {
        if error.kind() == io::ErrorKind::WouldBlock {
            return Refusal::Full;
        }
        let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
        // From these errors, the state infers an old kernel, and omits ECN from then on. Mostly
        // they concern one destination or one length.
        if matches!(errno, Errno::INVAL | Errno::IO)
            && let Ok(state) = self.configured()
        {
            self.state = state;
        }
        Refusal::Never(errno)
    }

    /// Receives datagrams into `buffers` and their metadata into `metas`; returns the number of
    /// filled buffers.
    #[inline]
    pub(crate) fn receive(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> io::Result<usize> {
        self.state.recv(UdpSockRef::from(&self.socket), buffers, metas)
    }

    /// Returns the number of received datagrams that the kernel has dropped since the last call.
    pub(crate) fn newly_dropped(&mut self) -> u32 {
        let dropped = socket_options::dropped(self).unwrap_or(self.dropped);
        let newly = dropped.wrapping_sub(self.dropped);
        self.dropped = dropped;
        newly
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Requests these buffer sizes: first above the system's limit, which requires a capability.
fn enlarge_buffers(socket: &Socket, bytes: usize) {
    // The kernel limits the size without an error; only reading the option shows the result.
    if set_socket_recv_buffer_size_force(socket, bytes).is_err() {
        let _ = socket.set_recv_buffer_size(bytes);
    }
    if set_socket_send_buffer_size_force(socket, bytes).is_err() {
        let _ = socket.set_send_buffer_size(bytes);
    }
}

/// Sets all options of a socket: ECN, GRO, fragments.
fn configured(
    socket: &Socket,
    is_ipv6: bool,
    sharing: Sharing,
    fragments: Fragments,
) -> io::Result<UdpSocketState> {
    let state = UdpSocketState::new(UdpSockRef::from(socket))?;
    let (by_ipv4, by_ipv6) = match fragments {
        Fragments::Allowed => (Ipv4PathMtuDiscovery::DONT, Ipv6PathMtuDiscovery::DONT),
        Fragments::Never => (Ipv4PathMtuDiscovery::PROBE, Ipv6PathMtuDiscovery::PROBE),
    };
    set_ip_mtu_discover(socket, by_ipv4)?;
    if is_ipv6 {
        set_ipv6_mtu_discover(socket, by_ipv6)?;
        socket_options::allow_ipv6_fragments(socket, fragments == Fragments::Allowed)?;
    }
    if sharing == Sharing::Shards {
        // GRO joins datagrams of one sender for different shards.
        socket_options::disable_gro(socket)?;
    }
    // They are unused, and cost time for each datagram.
    socket_options::disable_timestamps(socket)?;
    Ok(state)
}
