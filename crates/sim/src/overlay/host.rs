//! Agent or relay as a host of the world.

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

/// Datagram that an agent delivered to its application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveredDatagram {
    /// Flow in which the datagram arrived.
    pub flow: ReceiveFlowId,
    /// The application's bytes.
    pub datagram: Vec<u8>,
    /// ECN field with which the datagram arrived.
    pub ecn: Ecn,
    /// Path or repair by which the datagram arrived.
    pub delivery: Delivery,
}

/// Offer of flows that an agent received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedOffer {
    /// Agent that made the offer.
    pub peer: AgentId,
    /// Number of the offered flows.
    pub flow: FlowId,
    /// Content of the offer.
    pub offer: Offer,
}

/// Agent or relay as a host of the world. Each datagram and each deadline is checked against the
/// work limit of an input.
#[derive(Debug)]
pub enum OverlayHost {
    /// An agent, with its outputs.
    Agent {
        /// State machine of the agent.
        agent: Box<Agent>,
        /// Delivered datagrams that the application has not yet drained.
        delivered: Vec<DeliveredDatagram>,
        /// Events of the agent that the application has not yet drained.
        events: Vec<Event>,
        /// Offers of other agents that the application has not yet drained.
        offers: Vec<ReceivedOffer>,
    },
    /// State machine of a relay shard.
    Relay(Box<Relay>),
}

impl OverlayHost {
    /// Creates a host with an agent.
    #[must_use]
    pub fn agent(agent: Agent) -> Self {
        Self::Agent { agent: Box::new(agent), delivered: Vec::new(), events: Vec::new(), offers: Vec::new() }
    }

    /// Creates a host with a relay.
    #[must_use]
    pub fn relay(relay: Relay) -> Self {
        Self::Relay(Box::new(relay))
    }

    /// Returns the agent.
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

    /// Returns the agent, for an input from its application.
    ///
    /// # Panics
    /// If this is a relay.
    pub fn as_agent_mut(&mut self) -> &mut Agent {
        match self {
            Self::Agent { agent, .. } => agent,
            Self::Relay(_) => panic!("the host is a relay, not an agent"),
        }
    }

    /// Returns the relay.
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

    /// Returns the datagrams that the agent delivered since the last call; none for a relay.
    pub fn drain_delivered(&mut self) -> Vec<DeliveredDatagram> {
        match self {
            Self::Agent { delivered, .. } => core::mem::take(delivered),
            Self::Relay(_) => Vec::new(),
        }
    }

    /// Returns the offers that the agent received since the last call; none for a relay.
    pub fn drain_offers(&mut self) -> Vec<ReceivedOffer> {
        match self {
            Self::Agent { offers, .. } => core::mem::take(offers),
            Self::Relay(_) => Vec::new(),
        }
    }

    /// Returns the events of the agent since the last call; none for a relay.
    pub fn drain_events(&mut self) -> Vec<Event> {
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
                // Other outputs are removed first, because a returned datagram borrows the agent.
                while !agent.next_is_transmit() {
                    match agent.poll()? {
                        AgentOutput::Deliver { flow, datagram, traffic_class, delivery } => {
                            let ecn = traffic_class.ecn();
                            delivered.push(DeliveredDatagram {
                                flow,
                                datagram: datagram.to_vec(),
                                ecn,
                                delivery,
                            });
                        }
                        AgentOutput::Event(event) => events.push(event),
                        AgentOutput::Offered { peer, flow, offer } => {
                            offers.push(ReceivedOffer { peer, flow, offer: *offer });
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
