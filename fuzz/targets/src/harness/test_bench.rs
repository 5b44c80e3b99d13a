//! Test bench of a machine: its clock, and its received packets.

use std::net::SocketAddr;

use byway_units::Time;

use super::input::Input;
use super::machine::{Machine, Output};
use super::topology::NodeId;

/// Most received packets that may be replayed.
const REPLAYABLE_MAX: usize = 32;

/// A machine with its clock and its received packets.
pub(crate) struct TestBench {
    pub(crate) machine: Machine,
    pub(crate) now: Time,
    replayable: Vec<(SocketAddr, Vec<u8>)>,
}

impl TestBench {
    pub(crate) const fn new(machine: Machine) -> Self {
        Self { machine, now: Time::START, replayable: Vec::new() }
    }

    /// Delivers a packet, and stores it for a replay.
    pub(crate) fn deliver_replayable(&mut self, from: SocketAddr, packet: Vec<u8>) -> Output {
        let output = self.machine.receive(from, &packet, self.now);
        if self.replayable.len() == REPLAYABLE_MAX {
            self.replayable.remove(0);
        }
        self.replayable.push((from, packet));
        output
    }

    /// True if the driver is late: the machine sends messages that were due before with any input.
    pub(crate) fn is_late(&self) -> bool {
        self.machine.deadline().is_some_and(|due| due <= self.now)
    }

    /// Delivers a packet without storing it.
    pub(crate) fn receive(&mut self, from: SocketAddr, packet: &[u8]) -> Output {
        self.machine.receive(from, packet, self.now)
    }

    /// Replays a packet, possibly changed, from its source address or another.
    pub(crate) fn replay(&mut self, input: &mut Input<'_>) -> Option<Output> {
        if self.replayable.is_empty() {
            return None;
        }
        let (from, mut packet) = self.replayable[input.below(self.replayable.len())].clone();
        let [at, by] = input.array();
        let offset = usize::from(at) * packet.len() / 256;
        packet[offset] ^= by;
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
