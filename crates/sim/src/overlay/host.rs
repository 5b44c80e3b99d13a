//! An agent or a relay as a host of the world.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;

use byway_proto::LocalAddress;
use byway_proto::agent::{Agent, AgentInput, AgentOutput, Delivery, Event, Offer, ReceiveFlowId};
use byway_proto::relay::{Relay, RelayInput};
use byway_units::{AgentId, FlowId, Time};

use byway_wire::Ecn;

use crate::checkers::{check_agent_input, check_relay_input};
use crate::host::{Datagram, Host, Transmit};
use crate::marks::Marks;

/// A datagram that an agent delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// Which of the agent's flows.
    pub flow: ReceiveFlowId,
    /// The datagram.
    pub datagram: Vec<u8>,
    /// Its ECN field.
    pub ecn: Ecn,
    /// How it came.
    pub delivery: Delivery,
}

/// An offer that came to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offered {
    /// Who made it.
    pub peer: AgentId,
    /// The number of the flows.
    pub flow: FlowId,
    /// What was offered.
    pub offer: Offer,
}

/// A node of the overlay, or an application without one.
///
/// Each datagram and each deadline is checked for the work that it costs.
#[derive(Debug)]
pub enum OverlayHost {
    /// An agent, with what it delivered and said.
    Agent {
        /// The state machine.
        agent: Box<Agent>,
        /// What it delivered and nobody has taken yet.
        delivered: Vec<Delivered>,
        /// What it said.
        events: Vec<Event>,
        /// What it was offered.
        offers: Vec<Offered>,
    },
    /// A relay shard.
    Relay(Box<Relay>),
}

impl OverlayHost {
    /// A host around an agent.
    #[must_use]
    pub fn agent(agent: Agent) -> Self {
        Self::Agent { agent: Box::new(agent), delivered: Vec::new(), events: Vec::new(), offers: Vec::new() }
    }

    /// A host around a relay.
    #[must_use]
    pub fn relay(relay: Relay) -> Self {
        Self::Relay(Box::new(relay))
    }

    /// The agent.
    ///
    /// # Panics
    /// If this is a relay.
    #[must_use]
    pub fn as_agent(&self) -> &Agent {
        match self {
            Self::Agent { agent, .. } => agent,
            Self::Relay(_) => panic!("the host is a relay, not an agent"),
        }
    }

    /// The agent, for an input from its application.
    ///
    /// # Panics
    /// If this is a relay.
    pub fn as_agent_mut(&mut self) -> &mut Agent {
        match self {
            Self::Agent { agent, .. } => agent,
            Self::Relay(_) => panic!("the host is a relay, not an agent"),
        }
    }

    /// The relay.
    ///
    /// # Panics
    /// If this is an agent.
    #[must_use]
    pub fn as_relay(&self) -> &Relay {
        match self {
            Self::Relay(relay) => relay,
            Self::Agent { .. } => panic!("the host is an agent, not a relay"),
        }
    }

    /// What the agent delivered since the last call.
    pub fn take_delivered(&mut self) -> Vec<Delivered> {
        match self {
            Self::Agent { delivered, .. } => core::mem::take(delivered),
            Self::Relay(_) => Vec::new(),
        }
    }

    /// What the agent was offered since the last call.
    pub fn take_offers(&mut self) -> Vec<Offered> {
        match self {
            Self::Agent { offers, .. } => core::mem::take(offers),
            Self::Relay(_) => Vec::new(),
        }
    }

    /// What the agent said since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        match self {
            Self::Agent { events, .. } => core::mem::take(events),
            Self::Relay(_) => Vec::new(),
        }
    }
}

impl Host for OverlayHost {
    fn receive(&mut self, datagram: Datagram<'_>, now: Time) {
        let Datagram { source: from, ecn, payload: bytes, .. } = datagram;
        match self {
            Self::Agent { agent, .. } => {
                let input = AgentInput::Received { from, to: LocalAddress::ANY, ecn, bytes };
                check_agent_input(agent, |agent| agent.handle(input, now));
            }
            Self::Relay(relay) => {
                let input = RelayInput::Received { from, to: LocalAddress::ANY, ecn, bytes };
                check_relay_input(relay, |relay| relay.handle(input, now));
            }
        }
    }

    fn wake(&mut self, now: Time) {
        match self {
            Self::Agent { agent, .. } => {
                check_agent_input(agent, |agent| agent.handle(AgentInput::Deadline, now));
            }
            Self::Relay(relay) => {
                check_relay_input(relay, |relay| relay.handle(RelayInput::Deadline, now));
            }
        }
    }

    fn transmit(&mut self, _now: Time) -> Option<Transmit<'_>> {
        match self {
            Self::Relay(relay) => {
                relay.poll().map(|transmit| datagram(transmit.to, transmit.ecn, transmit.bytes))
            }
            Self::Agent { agent, delivered, events, offers } => {
                // What is not sent is put aside first: a returned datagram borrows the agent.
                while !agent.next_is_transmit() {
                    match agent.poll()? {
                        AgentOutput::Deliver { flow, datagram, traffic_class, delivery } => {
                            let ecn = traffic_class.ecn();
                            delivered.push(Delivered { flow, datagram: datagram.to_vec(), ecn, delivery });
                        }
                        AgentOutput::Event(event) => events.push(event),
                        AgentOutput::Offered { peer, flow, offer } => {
                            offers.push(Offered { peer, flow, offer: *offer });
                        }
                        AgentOutput::Transmit(_) => unreachable!("the next output is no datagram to be sent"),
                    }
                }
                match agent.poll()? {
                    AgentOutput::Transmit(transmit) => {
                        Some(datagram(transmit.to, transmit.ecn, transmit.bytes))
                    }
                    AgentOutput::Deliver { .. } | AgentOutput::Event(_) | AgentOutput::Offered { .. } => {
                        unreachable!("the next output is a datagram to be sent")
                    }
                }
            }
        }
    }

    fn deadline(&self) -> Option<Time> {
        match self {
            Self::Agent { agent, .. } => agent.deadline().map(|(at, _)| at),
            Self::Relay(relay) => relay.deadline().map(|(at, _)| at),
        }
    }

    fn prepare(&self, depth: usize, datagram: Option<&[u8]>) {
        match (self, datagram) {
            (Self::Agent { agent, .. }, _) => agent.prefetch(depth),
            (Self::Relay(relay), Some(datagram)) => relay.prefetch(depth, datagram),
            (Self::Relay(_), None) => {}
        }
    }
}

fn datagram(to: SocketAddr, ecn: Ecn, payload: &[u8]) -> Transmit<'_> {
    Transmit { source: None, destination: to, marks: Marks::default(), ecn, payload }
}
