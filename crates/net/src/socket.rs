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

/// Whether several sockets share a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// The port is this socket's alone.
    Alone,
    /// Shards share it.
    Shards,
}

/// What becomes of datagrams that are longer than their path carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fragments {
    /// They are fragmented.
    Allowed,
    /// They vanish, or the kernel refuses them. It goes by what the interface carries alone: what it hears of paths may be
    /// forged, so that who sends has to look at it first.
    Never,
}

/// Why the kernel did not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Its buffer is full for now.
    Full,
    /// It cannot, or may not.
    Never(Errno),
}

/// One UDP socket, of one family: never are IPv4 addresses mapped into IPv6.
///
/// Datagrams that are longer than their path carries are fragmented, unless whoever sends finds out what paths carry: without
/// fragments, others' would vanish.
#[derive(Debug)]
pub(crate) struct UdpSocket {
    socket: Socket,
    state: UdpSocketState,
    local: SocketAddr,
    sharing: Sharing,
    fragments: Fragments,
    batching: Batching,
    is_full: bool,
    /// What the kernel said it had dropped when last asked, modulo 2^32.
    dropped: u32,
    /// Why the last datagram was refused, and where it was to go.
    refused: Option<(SocketAddr, Errno)>,
}

/// Which datagrams may be sent several at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Batching {
    segments_max: usize,
    /// Longest of them. A row of datagrams too long for the interface is refused, while one at a time they are fragmented.
    segment_bytes_max: usize,
    refusals: u8,
}

impl Batching {
    fn new(segments_max: usize) -> Self {
        Self { segments_max: segments_max.min(SEGMENTS_MAX), segment_bytes_max: usize::MAX, refusals: 0 }
    }

    /// Learns that a row of datagrams of this length was refused, which were sent one at a time.
    fn refused(&mut self, segment_bytes: usize) {
        self.refusals += 1;
        self.segment_bytes_max = segment_bytes.saturating_sub(1);
        if self.refusals >= REFUSALS_MAX {
            self.segments_max = 1;
        }
    }
}

impl UdpSocket {
    /// Binds a socket and asks for buffers of so many bytes.
    pub(crate) fn bind(address: SocketAddr, sharing: Sharing, buffer_bytes: usize) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        if sharing == Sharing::Shards {
            socket.set_reuse_port(true)?;
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

    /// Sends nothing in fragments from now on, and queues what routers say of packets that are too long.
    pub(crate) fn forbid_fragments(&mut self) -> io::Result<()> {
        self.fragments = Fragments::Never;
        self.state = self.configured()?;
        socket_options::queue_errors(self, self.local.is_ipv6())
    }

    /// Takes the next error that the kernel has queued, with the quoted payload of its packet; `None` without one.
    pub(crate) fn next_error(&self, quoted: &mut [u8]) -> Option<QueuedError> {
        if self.fragments == Fragments::Allowed {
            return None;
        }
        socket_options::next_error(self, quoted).ok()
    }

    /// Sets all options anew.
    fn configured(&self) -> io::Result<UdpSocketState> {
        configured(&self.socket, self.local.is_ipv6(), self.sharing, self.fragments)
    }

    pub(crate) const fn local(&self) -> SocketAddr {
        self.local
    }

    /// What the kernel lets wait to be received, in bytes. It counts its own bookkeeping too, and doubles for it.
    pub(crate) fn receive_buffer(&self) -> usize {
        self.socket.recv_buffer_size().map_or(0, |doubled| doubled / 2)
    }

    /// Most datagrams of this length that go to the kernel at a time.
    #[inline]
    pub(crate) const fn segments_max(&self, segment_bytes: usize) -> usize {
        if segment_bytes <= self.batching.segment_bytes_max { self.batching.segments_max } else { 1 }
    }

    /// Learns that a row of datagrams of this length was refused, which were sent one at a time.
    pub(crate) fn learn_refusal(&mut self, segment_bytes: usize) {
        self.batching.refused(segment_bytes);
        let Batching { segments_max, segment_bytes_max, .. } = self.batching;
        tracing::debug!(socket = %self.local, segments_max, segment_bytes_max, "GSO was refused");
    }

    /// Returns why the last datagram was refused, and where it was to go.
    pub(crate) const fn refused(&self) -> Option<(SocketAddr, Errno)> {
        self.refused
    }

    #[inline]
    pub(crate) const fn note_refused(&mut self, refused: Option<(SocketAddr, Errno)>) {
        self.refused = refused;
    }

    /// Whether the kernel took no more, and has not said since that it does.
    pub(crate) const fn is_full(&self) -> bool {
        self.is_full
    }

    pub(crate) const fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// True if datagrams come to it at every address of the machine.
    #[inline]
    pub(crate) const fn is_wildcard(&self) -> bool {
        self.local.ip().is_unspecified()
    }

    /// Sends `bytes` as datagrams of `segment_bytes` each, of which the last may be shorter; from an address of this machine, or
    /// the one that the system chooses.
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
        // The state concludes from these that the kernel is old, and leaves out ECN ever after; mostly they are about
        // one destination or one length.
        if matches!(errno, Errno::INVAL | Errno::IO)
            && let Ok(state) = self.configured()
        {
            self.state = state;
        }
        Refusal::Never(errno)
    }

    /// Receives into as many of `buffers` as there is something for.
    #[inline]
    pub(crate) fn receive(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> io::Result<usize> {
        self.state.recv(UdpSockRef::from(&self.socket), buffers, metas)
    }

    /// How many datagrams the kernel has dropped here since it was last asked.
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

/// Asks for more than the system's limit first, which only the privileged get.
fn enlarge_buffers(socket: &Socket, bytes: usize) {
    // The kernel gives what it may and says no more about it: what counts is what it says when asked.
    if set_socket_recv_buffer_size_force(socket, bytes).is_err() {
        let _ = socket.set_recv_buffer_size(bytes);
    }
    if set_socket_send_buffer_size_force(socket, bytes).is_err() {
        let _ = socket.set_send_buffer_size(bytes);
    }
}

/// Sets all options anew: ECN, GRO, fragments.
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
        // GRO joins datagrams of one sender, whatever shards they are for.
        socket_options::disable_gro(socket)?;
    }
    // Nobody reads them, and they cost time with each datagram.
    socket_options::disable_timestamps(socket)?;
    Ok(state)
}
