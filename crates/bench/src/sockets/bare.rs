//! Upper bound: a relay that only receives and sends, with two system calls for up to 64 packets.
#![allow(unsafe_code, reason = "recvmmsg and sendmmsg take pointers")]

use std::io;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Arc;
use std::thread;

use anyhow::Result;
use libc::{c_int, c_uint, iovec, mmsghdr, msghdr};
use socket2::{SockAddr, Socket};

use super::generator;
use super::relays::{loopback_socket, sink};
use super::{Cores, Progress, RelayContender, SocketsOptions};

const BATCH: usize = 64;
const PACKET_BYTES: usize = 2_048;

pub(super) fn contender(options: &SocketsOptions, cores: Cores) -> Result<RelayContender> {
    let socket = loopback_socket()?;
    // The buffer holds the generator's window, if the system's limit permits it.
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 4 << 20);
    let to = generator::address(&socket)?;
    let sink = sink()?;
    let progress = Arc::new(Progress::default());
    let noted = Arc::clone(&progress);
    // The thread ends with the process.
    thread::Builder::new().name("bare".to_owned()).spawn(move || {
        core_affinity::set_for_current(cores.relay);
        let ended = sink.local_addr().and_then(|to| relay(&socket, &to, &noted));
        eprintln!("the bare loop ended: {ended:?}");
    })?;
    let generator = generator::plain(to, options, cores, Arc::clone(&progress))?;
    Ok(RelayContender { name: "bare recvmmsg, sendmmsg", generator, progress, goal: None })
}

/// Receives packets and sends them on to `to`, in a loop that only an error ends.
fn relay(socket: &Socket, to: &SockAddr, progress: &Progress) -> io::Result<()> {
    let mut packets = vec![[0_u8; PACKET_BYTES]; BATCH];
    let mut parts: Vec<iovec> = packets
        .iter_mut()
        .map(|packet| iovec { iov_base: packet.as_mut_ptr().cast(), iov_len: PACKET_BYTES })
        .collect();
    let mut headers: Vec<mmsghdr> = parts.iter_mut().map(header).collect();
    let mut relayed = 0;
    loop {
        for header in &mut headers {
            // SAFETY: `msg_iov` points to one element of `parts`, which outlives `headers` and is
            // not used otherwise.
            unsafe { (*header.msg_hdr.msg_iov).iov_len = PACKET_BYTES };
            header.msg_hdr.msg_name = ptr::null_mut();
            header.msg_hdr.msg_namelen = 0;
        }
        let received = transfer(socket, &mut headers, libc::MSG_WAITFORONE, Direction::Receive)?;
        for header in &mut headers[..received] {
            // SAFETY: as above.
            unsafe { (*header.msg_hdr.msg_iov).iov_len = header.msg_len as usize };
            header.msg_hdr.msg_name = to.as_ptr().cast_mut().cast();
            header.msg_hdr.msg_namelen = to.len();
        }
        let mut sent = 0;
        while sent < received {
            sent += transfer(socket, &mut headers[sent..received], 0, Direction::Send)?;
        }
        relayed += received as u64;
        progress.note(relayed, relayed);
        progress.note_cpu_time();
    }
}

#[derive(Clone, Copy)]
enum Direction {
    Receive,
    Send,
}

/// Performs one system call, recvmmsg or sendmmsg, and returns the number of transferred packets.
fn transfer(
    socket: &Socket,
    headers: &mut [mmsghdr],
    flags: c_int,
    direction: Direction,
) -> io::Result<usize> {
    let count = c_uint::try_from(headers.len()).unwrap_or(c_uint::MAX);
    let descriptor = socket.as_raw_fd();
    // SAFETY: the descriptor is open; `headers` has `count` elements, whose pointers lead to
    // buffers of the lengths beside them; to receive they are writable, and the kernel writes no
    // address as there is no room for one.
    let moved = unsafe {
        match direction {
            Direction::Receive => {
                libc::recvmmsg(descriptor, headers.as_mut_ptr(), count, flags, ptr::null_mut())
            }
            Direction::Send => libc::sendmmsg(descriptor, headers.as_mut_ptr(), count, flags),
        }
    };
    usize::try_from(moved).map_err(|_| io::Error::last_os_error())
}

fn header(part: &mut iovec) -> mmsghdr {
    // SAFETY: zeros are a header without address, buffers and control messages.
    let mut header: msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = part;
    header.msg_iovlen = 1;
    mmsghdr { msg_hdr: header, msg_len: 0 }
}
