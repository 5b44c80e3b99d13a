//! A UDP socket that sees what video and emulator need: the ECN field, and when the kernel received a datagram.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use byway_wire::Ecn;
use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit, UdpSocketState};

use super::clock::{Instant, UnixClock};
use super::limits::{DATAGRAM_BYTES_MAX, SOCKET_BUFFER_BYTES};
use crate::exit::Failure;

/// A datagram as it was received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received<'a> {
    pub(crate) at: Instant,
    pub(crate) from: SocketAddr,
    pub(crate) ecn: Ecn,
    pub(crate) payload: &'a [u8],
}

/// A bound socket, which never blocks.
#[derive(Debug)]
pub(crate) struct Port {
    socket: UdpSocket,
    state: UdpSocketState,
}

/// Room for one batch of datagrams, used again and again.
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

impl Port {
    pub(crate) fn bind(address: SocketAddr) -> anyhow::Result<Self> {
        let open = || {
            let socket = UdpSocket::bind(address)?;
            let state = UdpSocketState::new((&socket).into())?;
            // The kernel grants what it allows; too little shows as loss in the emulator's log.
            let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER_BYTES);
            Ok::<_, io::Error>(Self { socket, state })
        };
        open().map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => Failure::machine(format!(
                "UDP port {address} is taken: end the program that has it (ss -lunp shows which) and start the demo again"
            ))
            .into(),
            _ => anyhow::Error::new(error).context(format!("UDP socket at {address} of this machine's loopback")),
        })
    }

    /// Sends a datagram. One that the kernel does not take is lost, as on any network.
    pub(crate) fn send(&self, destination: SocketAddr, ecn: Ecn, payload: &[u8]) {
        let ecn = EcnCodepoint::from_bits(ecn.bits());
        let transmit = Transmit { destination, ecn, contents: payload, segment_size: None, src_ip: None };
        let _ = self.state.try_send((&self.socket).into(), &transmit);
    }

    /// Takes what has come, at most one batch; `false` if there was nothing.
    pub(crate) fn receive(&self, buffers: &mut Buffers, mut each: impl FnMut(Received<'_>)) -> bool {
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
                each(Received { at, from: meta.addr, ecn, payload });
            }
        }
        count > 0
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
