//! UDP socket of a driver. It answers a peer from the local address that the peer sent to.
#![allow(clippy::disallowed_types, reason = "this is where the socket is")]

use core::net::{IpAddr, SocketAddr};
use std::io::{self, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};

use byway_proto::{LocalAddress, LocalAddresses, Transmit};
use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};

/// Datagrams of equal length from one sender, which the kernel joined into one receive call (GRO);
/// the last may be shorter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) from: SocketAddr,
    /// Local destination address of the datagrams.
    pub(crate) to: LocalAddress,
    /// Length of all datagrams together, in bytes.
    pub(crate) length: usize,
    /// Length of each datagram in bytes, at least 1.
    pub(crate) stride: usize,
}

/// UDP socket of one address family, with IP fragmentation disabled.
#[derive(Debug)]
pub(crate) struct DriverSocket {
    socket: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    /// Numbers of the local addresses that peers sent to, for a socket that is bound to all
    /// addresses.
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

    /// Sends a datagram from the local address in `transmit`. If the machine no longer has that
    /// address, the system selects another.
    pub(crate) fn send(&mut self, transmit: &Transmit<'_>) -> io::Result<()> {
        if transmit.to.is_ipv6() != self.local.is_ipv6() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let source = self.locals.source(transmit.from);
        match self.send_from(source, transmit) {
            Err(error) if source.is_some() && error.kind() != io::ErrorKind::WouldBlock => {
                self.send_from(None, transmit)?;
                self.locals.note_removed(transmit.from);
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use byway_proto::Priority;
    use byway_wire::Ecn;

    use super::*;

    /// Checks that the socket answers from `asked`. The connected peer accepts datagrams from that
    /// address only.
    fn answers(listen: &str, asked: &str) {
        let mut socket = DriverSocket::new(UdpSocket::bind(listen).expect("a port")).expect("a socket");
        let asked = SocketAddr::new(asked.parse().expect("an address"), socket.local().port());
        let peer = UdpSocket::bind((if asked.is_ipv4() { "127.0.0.1" } else { "::1" }, 0)).expect("a port");
        peer.connect(asked).expect("there is a route");
        peer.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        let mut buffer = [0; 64];
        for number in 0..3 {
            peer.send(&[number]).expect("it leaves");
            // On the loopback, a sent datagram is available at once.
            let Row { from, to, length, .. } = socket.receive(&mut buffer).expect("a datagram");
            let (ecn, priority, bytes) = (Ecn::NotCapable, Priority::Source, &buffer[..length]);
            socket.send(&Transmit { to: from, from: to, ecn, priority, bytes }).expect("it leaves");
            assert_eq!(peer.recv(&mut buffer).expect("the answer comes from where it was asked"), 1);
            assert_eq!(buffer[0], number);
        }
    }

    #[test]
    fn a_socket_on_all_addresses_answers_from_the_one_that_was_asked() {
        answers("0.0.0.0:0", "127.0.0.9");
        answers("[::]:0", "::1");
        // An IPv4-mapped IPv6 address.
        answers("[::]:0", "127.0.0.9");
        answers("127.0.0.9:0", "127.0.0.9");
    }

    #[test]
    fn an_address_that_is_gone_is_left_at_once() {
        let mut socket = DriverSocket::new(UdpSocket::bind("0.0.0.0:0").expect("a port")).expect("a socket");
        let peer = UdpSocket::bind("127.0.0.1:0").expect("a port");
        peer.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        let to = peer.local_addr().expect("it is bound");
        let from = socket.locals.number(IpAddr::from([203, 0, 113, 9]));
        let (ecn, priority) = (Ecn::NotCapable, Priority::Source);
        for _ in 0..2 {
            socket.send(&Transmit { to, from, ecn, priority, bytes: b"answer" }).expect("it leaves");
            assert_eq!(peer.recv(&mut [0; 64]).expect("it comes"), 6);
            assert_eq!(socket.locals.source(from), None);
        }
    }
}
