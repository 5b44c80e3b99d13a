//! A machine at work: its clock, and what came to it.

use std::net::SocketAddr;

use byway_units::Time;

use super::input::Input;
use super::machine::{Machine, Output};
use super::topology::NodeId;

/// Packets that came before and may come again.
const SEEN_MAX: usize = 32;

/// A machine, its clock, and what came to it.
pub(crate) struct Table {
    pub(crate) machine: Machine,
    pub(crate) now: Time,
    seen: Vec<(SocketAddr, Vec<u8>)>,
}

impl Table {
    pub(crate) const fn new(machine: Machine) -> Self {
        Self { machine, now: Time::START, seen: Vec::new() }
    }

    /// A packet comes that may come again later.
    pub(crate) fn tell(&mut self, from: SocketAddr, packet: Vec<u8>) -> Output {
        let output = self.machine.receive(from, &packet, self.now);
        if self.seen.len() == SEEN_MAX {
            self.seen.remove(0);
        }
        self.seen.push((from, packet));
        output
    }

    /// A packet comes that does not come again.
    pub(crate) fn receive(&mut self, from: SocketAddr, packet: &[u8]) -> Output {
        self.machine.receive(from, packet, self.now)
    }

    /// A packet comes again, changed or not, from where it came or elsewhere.
    pub(crate) fn repeat(&mut self, input: &mut Input<'_>) -> Option<Output> {
        if self.seen.is_empty() {
            return None;
        }
        let (from, mut packet) = self.seen[input.below(self.seen.len())].clone();
        let [at, by] = input.array();
        let place = usize::from(at) * packet.len() / 256;
        packet[place] ^= by;
        let from = if input.byte() < 128 { from } else { NodeId::Stranger.address() };
        let output = self.receive(from, &packet);
        assert!(output.bytes_to(NodeId::Stranger.address()) <= packet.len());
        Some(output)
    }

    /// Handles the next deadline, if it is not after `until`.
    pub(crate) fn wake(&mut self, until: Time) -> Option<Output> {
        let at = self.machine.deadline().filter(|at| *at <= until)?;
        self.now = self.now.max(at);
        Some(self.machine.wake(self.now))
    }
}
