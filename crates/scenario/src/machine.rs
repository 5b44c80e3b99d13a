//! Machines of a scenario as hosts of its world.

use byway_sim::overlay::OverlayHost;
use byway_sim::{Datagram, Host, Transmit};
use byway_units::Time;

/// Machine of a scenario, as a host of the simulated world.
#[derive(Debug)]
pub(crate) enum Machine {
    /// An agent or a relay.
    Overlay(OverlayHost),
    /// A router, which only forwards packets.
    Router,
}

impl Host for Machine {
    fn receive(&mut self, datagram: Datagram<'_>, now: Time) {
        if let Self::Overlay(host) = self {
            host.receive(datagram, now);
        }
    }

    fn wake(&mut self, now: Time) {
        if let Self::Overlay(host) = self {
            host.wake(now);
        }
    }

    fn transmit(&mut self, now: Time) -> Option<Transmit<'_>> {
        match self {
            Self::Overlay(host) => host.transmit(now),
            Self::Router => None,
        }
    }

    fn deadline(&self) -> Option<Time> {
        match self {
            Self::Overlay(host) => host.deadline(),
            Self::Router => None,
        }
    }

    fn prepare(&self, depth: usize, datagram: Option<&[u8]>) {
        if let Self::Overlay(host) = self {
            host.prepare(depth, datagram);
        }
    }
}
