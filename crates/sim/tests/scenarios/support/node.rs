//! What lives in the world: agents, relays, and strangers that send whatever they are told to.

use std::collections::VecDeque;
use std::net::SocketAddr;

use byway_proto::agent::Agent;
use byway_proto::relay::Relay;
use byway_sim::overlay::OverlayHost;
use byway_sim::{Datagram, Ecn, Host, Transmit};
use byway_units::Time;

/// A datagram of a stranger.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    /// The address it says it comes from; `None` for the stranger's own.
    pub(crate) source: Option<SocketAddr>,
    pub(crate) destination: SocketAddr,
    pub(crate) payload: Vec<u8>,
}

#[derive(Debug)]
pub(crate) enum Node {
    Overlay(OverlayHost),
    /// Sends what is queued; keeps what comes.
    Stranger {
        queue: VecDeque<Parcel>,
        sending: Option<Parcel>,
        received: Vec<Vec<u8>>,
    },
}

impl Node {
    pub(crate) fn stranger() -> Self {
        Self::Stranger { queue: VecDeque::new(), sending: None, received: Vec::new() }
    }

    pub(crate) fn overlay(&self) -> &OverlayHost {
        match self {
            Self::Overlay(host) => host,
            Self::Stranger { .. } => panic!("a stranger is no part of the overlay"),
        }
    }

    pub(crate) fn overlay_mut(&mut self) -> &mut OverlayHost {
        match self {
            Self::Overlay(host) => host,
            Self::Stranger { .. } => panic!("a stranger is no part of the overlay"),
        }
    }

    pub(crate) fn agent(&self) -> &Agent {
        self.overlay().as_agent()
    }

    pub(crate) fn relay(&self) -> &Relay {
        self.overlay().as_relay()
    }

    /// Has a stranger send this.
    pub(crate) fn post(&mut self, parcel: Parcel) {
        match self {
            Self::Stranger { queue, .. } => queue.push_back(parcel),
            Self::Overlay(_) => panic!("agents and relays send what they want"),
        }
    }

    /// What a stranger received.
    pub(crate) fn received(&self) -> &[Vec<u8>] {
        match self {
            Self::Stranger { received, .. } => received,
            Self::Overlay(_) => &[],
        }
    }
}

impl Host for Node {
    fn receive(&mut self, datagram: Datagram<'_>, now: Time) {
        match self {
            Self::Overlay(host) => host.receive(datagram, now),
            Self::Stranger { received, .. } => received.push(datagram.payload.to_vec()),
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
            Self::Stranger { queue, sending, .. } => {
                *sending = queue.pop_front();
                sending.as_ref().map(|parcel| Transmit {
                    source: parcel.source,
                    destination: parcel.destination,
                    ecn: Ecn::NotCapable,
                    payload: &parcel.payload,
                })
            }
        }
    }

    fn deadline(&self) -> Option<Time> {
        match self {
            Self::Overlay(host) => host.deadline(),
            Self::Stranger { .. } => None,
        }
    }
}
