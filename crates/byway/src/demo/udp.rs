//! UDP socket that reports the ECN field and the kernel's receive time of each datagram.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use byway_wire::Ecn;
use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit, UdpSocketState};

use super::clock::{Instant, UnixClock};
use super::limits::{DATAGRAM_BYTES_MAX, SOCKET_BUFFER_BYTES};
use crate::exit::Failure;

/// Received datagram, with its receive time, source address and ECN field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedDatagram<'a> {
    pub(crate) at: Instant,
    pub(crate) from: SocketAddr,
    pub(crate) ecn: Ecn,
    pub(crate) payload: &'a [u8],
}

/// Bound, non-blocking UDP socket of the demo.
#[derive(Debug)]
pub(crate) struct TimestampedSocket {
    socket: UdpSocket,
    state: UdpSocketState,
}

/// Reusable receive memory for one batch of datagrams.
#[derive(Debug)]
pub(crate) struct Buffers {
    bytes: Vec<u8>,
    clock: UnixClock,
}

impl Buffers {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; BATCH_SIZE * DATAGRAM_BYTES_MAX], clock: UnixClock::now() }
    }
}

impl TimestampedSocket {
    pub(crate) fn bind(address: SocketAddr) -> anyhow::Result<Self> {
        let open = || {
            let socket = UdpSocket::bind(address)?;
            let state = UdpSocketState::new((&socket).into())?;
            // The kernel may grant less; too small a buffer appears as loss in the emulator's log.
            let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER_BYTES);
            Ok::<_, io::Error>(Self { socket, state })
        };
        open().map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => Failure::machine(format!(
                "UDP port {address} in use: end the program that uses it (ss -lunp shows it) and \
                 start the demo again"
            ))
            .into(),
            _ => anyhow::Error::new(error)
                .context(format!("cannot open a UDP socket at {address} on the loopback")),
        })
    }

    /// Sends a datagram. If the kernel does not accept the datagram, it is lost, as on any network.
    pub(crate) fn send(&self, destination: SocketAddr, ecn: Ecn, payload: &[u8]) {
        let ecn = EcnCodepoint::from_bits(ecn.bits());
        let transmit = Transmit { destination, ecn, contents: payload, segment_size: None, src_ip: None };
        let _ = self.state.try_send((&self.socket).into(), &transmit);
    }

    /// Receives at most one batch of waiting datagrams; `false` if there are none.
    pub(crate) fn receive(&self, buffers: &mut Buffers, mut each: impl FnMut(ReceivedDatagram<'_>)) -> bool {
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let mut slices: Vec<_> =
            buffers.bytes.chunks_exact_mut(DATAGRAM_BYTES_MAX).map(IoSliceMut::new).collect();
        let Ok(count) = self.state.recv((&self.socket).into(), &mut slices, &mut metas) else {
            return false;
        };
        let now = Instant::now();
        for (meta, bytes) in metas.iter().zip(buffers.bytes.chunks_exact(DATAGRAM_BYTES_MAX)).take(count) {
            let at = meta.timestamp.map_or(now, |unix| buffers.clock.instant(unix, now));
            let ecn = Ecn::from_bits(meta.ecn.map_or(0, |ecn| ecn as u8));
            // The kernel may have joined several datagrams of one sender.
            for payload in bytes[..meta.len].chunks(meta.stride.max(1)) {
                each(ReceivedDatagram { at, from: meta.addr, ecn, payload });
            }
        }
        count > 0
    }
}

impl AsFd for TimestampedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
