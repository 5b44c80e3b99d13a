//! The sending applications, all in one thread.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use byway_wire::Ecn;

use super::HELLO;
use crate::demo::clock::{Instant, sharpen_timers, wait_until};
use crate::demo::media::Video;
use crate::demo::udp::Port;

/// The sending side of every pair: from where, and to where.
#[derive(Debug)]
pub(crate) struct Senders {
    pairs: Vec<(Port, SocketAddr)>,
}

impl Senders {
    pub(crate) fn bind(addresses: &[(SocketAddr, SocketAddr)]) -> anyhow::Result<Self> {
        let bind = |&(from, to): &(SocketAddr, SocketAddr)| Ok((Port::bind(from)?, to));
        Ok(Self { pairs: addresses.iter().map(bind).collect::<anyhow::Result<_>>()? })
    }

    pub(crate) fn hello(&self) {
        for (port, to) in &self.pairs {
            port.send(*to, Ecn::NotCapable, HELLO);
        }
    }

    /// Sends all datagrams of the video from `start` on, evenly, the pairs one after the other within each interval; when
    /// each was sent, by pair and place. Ends early when it is told to stop.
    pub(crate) fn send(&self, datagrams: &[Vec<u8>], start: Instant, stop: &AtomicBool) -> Vec<Vec<Instant>> {
        sharpen_timers();
        let mut sent = vec![Vec::with_capacity(datagrams.len()); self.pairs.len()];
        let offset = Video::INTERVAL_NANOS / (self.pairs.len() as u64).max(1);
        for (datagram, place) in datagrams.iter().zip(0..) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            for ((port, to), (sent, pair)) in self.pairs.iter().zip(sent.iter_mut().zip(0..)) {
                wait_until(start.plus_nanos(place * Video::INTERVAL_NANOS + pair * offset));
                sent.push(Instant::now());
                port.send(*to, Ecn::NotCapable, datagram);
            }
        }
        sent
    }
}
