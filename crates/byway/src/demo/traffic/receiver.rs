//! The receiving applications, all in one thread.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::HELLO;
use crate::demo::clock::Instant;
use crate::demo::limits::RECEIVED_PER_SENT_MAX;
use crate::demo::media::DatagramIndex;
use crate::demo::udp::{Buffers, TimestampedSocket};

/// Interval at which a receiver checks its stop flag.
const STOP_POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Arrival of a datagram of the video.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) index: u32,
    pub(crate) at: Instant,
}

/// Receiving applications of all pairs: a socket each, and a flag once its sender's hello has
/// arrived.
#[derive(Debug)]
pub(crate) struct Receivers {
    sockets: Vec<TimestampedSocket>,
    has_received: Vec<AtomicBool>,
}

impl Receivers {
    pub(crate) fn bind(addresses: &[SocketAddr]) -> anyhow::Result<Self> {
        let sockets = addresses
            .iter()
            .map(|&address| TimestampedSocket::bind(address))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let has_received = sockets.iter().map(|_| AtomicBool::new(false)).collect();
        Ok(Self { sockets, has_received })
    }

    /// Returns the indices of pairs whose receiver has received no hello from its sender yet.
    pub(crate) fn silent_pairs(&self) -> Vec<usize> {
        (0..)
            .zip(&self.has_received)
            .filter(|(_, flag)| !flag.load(Ordering::Relaxed))
            .map(|(pair, _)| pair)
            .collect()
    }

    /// Records the arrivals of video datagrams by pair until the stop flag is raised. Ignores other
    /// datagrams, and duplicates beyond [`RECEIVED_PER_SENT_MAX`].
    pub(crate) fn receive(
        &self,
        indices: &DatagramIndex<'_>,
        count: usize,
        stop: &AtomicBool,
    ) -> Vec<Vec<Arrival>> {
        let mut buffers = Buffers::new();
        let mut arrived = vec![Vec::with_capacity(count); self.sockets.len()];
        while !stop.load(Ordering::Relaxed) {
            let mut polled: Vec<_> =
                self.sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
            // Errors here appear as silence, which the caller detects.
            let _ = poll(&mut polled, Some(&STOP_POLL_INTERVAL));
            for ((socket, flag), arrived) in self.sockets.iter().zip(&self.has_received).zip(&mut arrived) {
                socket.receive(&mut buffers, |received| match indices.index_of(received.payload) {
                    Some(index) if arrived.len() < RECEIVED_PER_SENT_MAX * count => {
                        arrived.push(Arrival { index, at: received.at });
                    }
                    None if received.payload == HELLO => flag.store(true, Ordering::Relaxed),
                    _ => {}
                });
            }
        }
        arrived
    }
}
