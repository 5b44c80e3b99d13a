//! Receive buffers: datagrams are handled in place.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};

use byway_wire::{Ecn, TrafficClass};
use quinn_udp::RecvMeta;

use crate::limits::{RECEIVE_BUFFER_BYTES, RECEIVE_BUFFERS};
use crate::marked_datagrams;
use crate::socket::UdpSocket;

/// Receive buffer on a cache-line boundary: the coded bytes of an envelope, at offset 16, then suit
/// the coder's loads.
#[derive(Clone)]
#[repr(align(64))]
struct Buffer([u8; RECEIVE_BUFFER_BYTES]);

/// Buffers for one batch of received datagrams, with the metadata of each.
pub(crate) struct ReceiveBuffers {
    buffers: Box<[Buffer]>,
    metas: [RecvMeta; RECEIVE_BUFFERS],
    /// Traffic classes of the rows without the ECN field; default if the DSCP is not read.
    dscps: [TrafficClass; RECEIVE_BUFFERS],
}

/// Datagrams of one sender to one local address with one traffic class, back to back.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) from: SocketAddr,
    /// Local address that the datagrams were sent to.
    pub(crate) to: Option<IpAddr>,
    pub(crate) traffic_class: TrafficClass,
    bytes: &'a mut [u8],
    stride: usize,
}

impl ReceiveBuffers {
    #[allow(clippy::large_stack_arrays, reason = "once, where the thread's stack is still empty")]
    pub(crate) fn new() -> Self {
        Self {
            buffers: vec![Buffer([0; RECEIVE_BUFFER_BYTES]); RECEIVE_BUFFERS].into_boxed_slice(),
            metas: [RecvMeta::default(); RECEIVE_BUFFERS],
            dscps: [TrafficClass::DEFAULT; RECEIVE_BUFFERS],
        }
    }

    /// Receives a batch of datagrams; returns the number of rows. If `reads_dscp`, also reads their
    /// DSCPs.
    pub(crate) fn receive(&mut self, socket: &UdpSocket, reads_dscp: bool) -> io::Result<usize> {
        let mut buffers = self.buffers.iter_mut();
        let mut slices: [IoSliceMut<'_>; RECEIVE_BUFFERS] = std::array::from_fn(|_| {
            IoSliceMut::new(&mut buffers.next().expect("there are as many buffers as slices").0)
        });
        if reads_dscp {
            return marked_datagrams::receive(socket, &mut slices, &mut self.metas, &mut self.dscps);
        }
        self.dscps = [TrafficClass::DEFAULT; RECEIVE_BUFFERS];
        socket.receive(&mut slices, &mut self.metas)
    }

    /// Returns the row at `index` of the last batch.
    pub(crate) fn row(&mut self, index: usize) -> Row<'_> {
        let meta = &self.metas[index];
        let ecn = meta.ecn.map_or(Ecn::NotCapable, |ecn| Ecn::from_bits(ecn as u8));
        Row {
            from: meta.addr,
            to: meta.dst_ip,
            traffic_class: self.dscps[index].with_ecn(ecn),
            bytes: &mut self.buffers[index].0[..meta.len],
            stride: meta.stride,
        }
    }
}

impl Row<'_> {
    /// Returns each datagram of the row; an empty row is one empty datagram.
    pub(crate) fn datagrams(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let (empty, bytes): (Option<&mut [u8]>, &mut [u8]) =
            if self.bytes.is_empty() { (Some(&mut []), &mut []) } else { (None, self.bytes) };
        empty.into_iter().chain(bytes.chunks_mut(self.stride.max(1)))
    }
}
