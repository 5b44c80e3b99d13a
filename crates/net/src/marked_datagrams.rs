//! Datagrams with the whole traffic class of their IP headers, because `quinn-udp` supports only
//! the ECN field.
#![allow(unsafe_code, reason = "sendmsg and recvmmsg take pointers; each call is checked here")]

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

use byway_wire::{Ecn, TrafficClass};
use libc::socklen_t;
use quinn_udp::{EcnCodepoint, RecvMeta};
use socket2::SockAddr;

use crate::control_messages::{CONTROL_BYTES, ControlBuffer, ControlWriter, DatagramMetadata};
use crate::limits::RECEIVE_BUFFERS;
use crate::socket_options::{SOCKADDR_IN6_BYTES, address_in};

/// Sends `bytes` as datagrams of `segment_bytes` each, the last of which may be shorter, with this
/// traffic class. The source is the local address `from`, or the system's choice.
pub(crate) fn send(
    socket: &impl AsFd,
    (to, from): (SocketAddr, Option<IpAddr>),
    traffic_class: TrafficClass,
    bytes: &[u8],
    segment_bytes: usize,
) -> io::Result<()> {
    let mut control = ControlWriter::new();
    control.push_traffic_class(traffic_class, to.is_ipv6());
    if let Some(from) = from {
        control.push_source(from);
    }
    if segment_bytes < bytes.len() {
        let segment_bytes = u16::try_from(segment_bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        control.push_segment_bytes(segment_bytes);
    }
    let name = SockAddr::from(to);
    // The kernel only reads name, part and control, during the call.
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: `msghdr` consists of integers and pointers, for which zeros are valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = name.as_ptr().cast_mut().cast();
    message.msg_namelen = name.len();
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.buffer.0.as_mut_ptr().cast();
    message.msg_controllen = control.length;
    let descriptor = socket.as_fd().as_raw_fd();
    loop {
        // SAFETY: the descriptor is open for as long as `socket` is borrowed; name, part and
        // control are readable for the lengths that the message names, and outlive the call.
        if unsafe { libc::sendmsg(descriptor, &raw const message, libc::MSG_DONTWAIT) } >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Receives datagrams into `buffers`, with the traffic class of each; returns the number of filled
/// buffers.
pub(crate) fn receive(
    socket: &impl AsFd,
    buffers: &mut [IoSliceMut<'_>; RECEIVE_BUFFERS],
    metas: &mut [RecvMeta; RECEIVE_BUFFERS],
    traffic_classes: &mut [TrafficClass; RECEIVE_BUFFERS],
) -> io::Result<usize> {
    let mut names = [[0_u8; SOCKADDR_IN6_BYTES]; RECEIVE_BUFFERS];
    let mut controls = [ControlBuffer::EMPTY; RECEIVE_BUFFERS];
    // SAFETY: `mmsghdr` consists of integers and pointers, for which zeros are valid.
    let mut messages: [libc::mmsghdr; RECEIVE_BUFFERS] = unsafe { std::mem::zeroed() };
    let name_bytes = socklen_t::try_from(SOCKADDR_IN6_BYTES).map_err(|_| io::ErrorKind::InvalidInput)?;
    let targets = names.iter_mut().zip(&mut controls).zip(buffers.iter_mut());
    for (message, ((name, control), buffer)) in messages.iter_mut().zip(targets) {
        let header = &mut message.msg_hdr;
        header.msg_name = name.as_mut_ptr().cast();
        header.msg_namelen = name_bytes;
        // An `IoSliceMut` is laid out as an `iovec`, which the standard library guarantees.
        header.msg_iov = std::ptr::from_mut(buffer).cast();
        header.msg_iovlen = 1;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_BYTES;
    }
    let descriptor = socket.as_fd().as_raw_fd();
    let count = u32::try_from(RECEIVE_BUFFERS).map_err(|_| io::ErrorKind::InvalidInput)?;
    let received = loop {
        // SAFETY: the descriptor is open for as long as `socket` is borrowed; there are `count`
        // messages; names, buffers and controls are writable for the lengths that the messages
        // name, and outlive the call.
        let result = unsafe {
            let no_timeout = std::ptr::null_mut();
            libc::recvmmsg(descriptor, messages.as_mut_ptr(), count, libc::MSG_DONTWAIT, no_timeout)
        };
        match usize::try_from(result) {
            Ok(received) => break received,
            Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(io::Error::last_os_error()),
        }
    };
    for (index, message) in messages.iter().enumerate().take(received) {
        let control = &controls[index].0[..message.msg_hdr.msg_controllen.min(CONTROL_BYTES)];
        let DatagramMetadata { traffic_class, to, segment_bytes } = DatagramMetadata::parse(control);
        let length = usize::try_from(message.msg_len).map_err(|_| io::ErrorKind::InvalidData)?;
        let meta = &mut metas[index];
        meta.addr = address_in(&names[index]).ok_or(io::ErrorKind::InvalidData)?;
        (meta.len, meta.stride, meta.dst_ip) = (length, segment_bytes.unwrap_or(length), to);
        meta.ecn = EcnCodepoint::from_bits(traffic_class.ecn().bits());
        traffic_classes[index] = traffic_class.with_ecn(Ecn::NotCapable);
    }
    Ok(received)
}
