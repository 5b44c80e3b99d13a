//! The socket of a driver: it answers from the address that was asked.
#![allow(clippy::disallowed_types, reason = "this is where the socket is")]

use core::net::{IpAddr, SocketAddr};
use std::io::{self, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};

use byway_proto::{LocalAddress, LocalAddresses, Transmit};
use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};

/// Datagrams of one length and one sender, which the kernel has joined; the last may be shorter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) from: SocketAddr,
    /// The local address that they came to.
    pub(crate) to: LocalAddress,
    /// Bytes of all of them.
    pub(crate) length: usize,
    /// Bytes of each, at least 1.
    pub(crate) stride: usize,
}

/// A UDP socket of one family that sends nothing in fragments.
#[derive(Debug)]
pub(crate) struct DriverSocket {
    socket: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    /// The addresses that datagrams came to, of a socket on all of them.
    locals: LocalAddresses,
}

impl DriverSocket {
    pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let local = socket.local_addr()?;
        Ok(Self { socket, state, local, locals: LocalAddresses::default() })
    }

    pub(crate) const fn local(&self) -> SocketAddr {
        self.local
    }

    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Row> {
        let mut metas = [RecvMeta::default()];
        let buffers = &mut [IoSliceMut::new(buffer)];
        self.state.recv(UdpSockRef::from(&self.socket), buffers, &mut metas)?;
        let [RecvMeta { addr: from, len: length, stride, dst_ip, .. }] = metas;
        let to = match dst_ip.filter(|_| self.local.ip().is_unspecified()) {
            Some(to) => self.locals.number(to),
            None => LocalAddress::ANY,
        };
        Ok(Row { from, to, length, stride: stride.max(1) })
    }

    /// Sends a datagram; where the machine no longer has the address that was asked, from another.
    pub(crate) fn send(&mut self, transmit: &Transmit<'_>) -> io::Result<()> {
        if transmit.to.is_ipv6() != self.local.is_ipv6() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let source = self.locals.source(transmit.from);
        match self.send_from(source, transmit) {
            Err(error) if source.is_some() && error.kind() != io::ErrorKind::WouldBlock => {
                self.send_from(None, transmit)?;
                self.locals.note_gone(transmit.from);
                Ok(())
            }
            sent => sent,
        }
    }

    fn send_from(&self, source: Option<IpAddr>, transmit: &Transmit<'_>) -> io::Result<()> {
        let transmit = quinn_udp::Transmit {
            destination: transmit.to,
            ecn: None,
            contents: transmit.bytes,
            segment_size: None,
            src_ip: source,
        };
        self.state.try_send(UdpSockRef::from(&self.socket), &transmit)
    }
}

impl AsFd for DriverSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
