//! Where datagrams are received, to be handled where they lie.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};

use byway_wire::{Ecn, TrafficClass};
use quinn_udp::RecvMeta;

use crate::limits::{RECEIVE_BUFFER_BYTES, RECEIVE_BUFFERS};
use crate::marked_datagrams;
use crate::socket::UdpSocket;

/// Begins with a cache line: the coded bytes of an envelope, 16 bytes on, then suit the coder's loads.
#[derive(Clone)]
#[repr(align(64))]
struct Buffer([u8; RECEIVE_BUFFER_BYTES]);

/// Buffers for one batch, and what the kernel said about each.
pub(crate) struct ReceiveBuffers {
    buffers: Box<[Buffer]>,
    metas: [RecvMeta; RECEIVE_BUFFERS],
    /// Their traffic classes but for the ECN field, where the DSCP is read.
    dscps: [TrafficClass; RECEIVE_BUFFERS],
}

/// Datagrams of one sender to one local address with one traffic class, end to end.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) from: SocketAddr,
    /// The local address that they came to.
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

    /// Receives a batch, with DSCPs or without; how many rows.
    pub(crate) fn receive(&mut self, socket: &UdpSocket, reads_dscp: bool) -> io::Result<usize> {
        let mut buffers = self.buffers.iter_mut();
        let mut slices: [IoSliceMut<'_>; RECEIVE_BUFFERS] =
            std::array::from_fn(|_| IoSliceMut::new(&mut buffers.next().expect("there are as many").0));
        if reads_dscp {
            return marked_datagrams::receive(socket, &mut slices, &mut self.metas, &mut self.dscps);
        }
        self.dscps = [TrafficClass::DEFAULT; RECEIVE_BUFFERS];
        socket.receive(&mut slices, &mut self.metas)
    }

    /// A row of the last batch.
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
    /// Each datagram; an empty one is one too.
    pub(crate) fn datagrams(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let (empty, bytes): (Option<&mut [u8]>, &mut [u8]) =
            if self.bytes.is_empty() { (Some(&mut []), &mut []) } else { (None, self.bytes) };
        empty.into_iter().chain(bytes.chunks_mut(self.stride.max(1)))
    }
}
