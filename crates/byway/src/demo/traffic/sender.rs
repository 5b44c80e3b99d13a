//! The sending applications, all in one thread.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use byway_wire::Ecn;

use super::HELLO;
use crate::demo::clock::{Instant, sharpen_timers, wait_until};
use crate::demo::media::Video;
use crate::demo::udp::TimestampedSocket;

/// Sending applications of all pairs: the socket and the destination of each.
#[derive(Debug)]
pub(crate) struct Senders {
    pairs: Vec<(TimestampedSocket, SocketAddr)>,
}

impl Senders {
    pub(crate) fn bind(addresses: &[(SocketAddr, SocketAddr)]) -> anyhow::Result<Self> {
        let bind = |&(from, to): &(SocketAddr, SocketAddr)| Ok((TimestampedSocket::bind(from)?, to));
        Ok(Self { pairs: addresses.iter().map(bind).collect::<anyhow::Result<_>>()? })
    }

    pub(crate) fn send_hello(&self) {
        for (socket, to) in &self.pairs {
            socket.send(*to, Ecn::NotCapable, HELLO);
        }
    }

    /// Sends all video datagrams from `start` on at even intervals, one of each pair in each
    /// interval. Returns the sending times by pair and index; ends early if the stop flag is
    /// raised.
    pub(crate) fn send(&self, datagrams: &[Vec<u8>], start: Instant, stop: &AtomicBool) -> Vec<Vec<Instant>> {
        sharpen_timers();
        let mut sent = vec![Vec::with_capacity(datagrams.len()); self.pairs.len()];
        let offset = Video::INTERVAL_NANOS / (self.pairs.len() as u64).max(1);
        for (datagram, index) in datagrams.iter().zip(0..) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            for ((socket, to), (sent, pair)) in self.pairs.iter().zip(sent.iter_mut().zip(0..)) {
                wait_until(start.plus_nanos(index * Video::INTERVAL_NANOS + pair * offset));
                sent.push(Instant::now());
                socket.send(*to, Ecn::NotCapable, datagram);
            }
        }
        sent
    }
}
