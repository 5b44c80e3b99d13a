//! The receiving applications, all in one thread.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::HELLO;
use crate::demo::clock::Instant;
use crate::demo::limits::RECEIVED_PER_SENT_MAX;
use crate::demo::media::Places;
use crate::demo::udp::{Buffers, Port};

/// How often a receiver looks whether it is told to stop.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// A datagram of the video that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) place: u32,
    pub(crate) at: Instant,
}

/// The receiving side of every pair.
#[derive(Debug)]
pub(crate) struct Receivers {
    ports: Vec<Port>,
    heard: Vec<AtomicBool>,
}

impl Receivers {
    pub(crate) fn bind(addresses: &[SocketAddr]) -> anyhow::Result<Self> {
        let ports =
            addresses.iter().map(|&address| Port::bind(address)).collect::<anyhow::Result<Vec<_>>>()?;
        let heard = ports.iter().map(|_| AtomicBool::new(false)).collect();
        Ok(Self { ports, heard })
    }

    /// The pairs whose receiver has not heard its sender yet.
    pub(crate) fn deaf(&self) -> Vec<usize> {
        (0..)
            .zip(&self.heard)
            .filter(|(_, heard)| !heard.load(Ordering::Relaxed))
            .map(|(pair, _)| pair)
            .collect()
    }

    /// Writes down what comes, by pair, until it is told to stop. What is not of the video is left out.
    pub(crate) fn receive(&self, places: &Places<'_>, count: usize, stop: &AtomicBool) -> Vec<Vec<Arrival>> {
        let mut buffers = Buffers::new();
        let mut arrived = vec![Vec::with_capacity(count); self.ports.len()];
        while !stop.load(Ordering::Relaxed) {
            let mut polled: Vec<_> = self.ports.iter().map(|port| PollFd::new(port, PollFlags::IN)).collect();
            // What goes wrong here shows as silence, which the caller sees.
            let _ = poll(&mut polled, Some(&GLANCE));
            for ((port, heard), arrived) in self.ports.iter().zip(&self.heard).zip(&mut arrived) {
                port.receive(&mut buffers, |received| match places.of(received.payload) {
                    Some(place) if arrived.len() < RECEIVED_PER_SENT_MAX * count => {
                        arrived.push(Arrival { place, at: received.at });
                    }
                    None if received.payload == HELLO => heard.store(true, Ordering::Relaxed),
                    _ => {}
                });
            }
        }
        arrived
    }
}
