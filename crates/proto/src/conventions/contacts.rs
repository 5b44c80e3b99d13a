//! Being found: relays pass handshakes on only between agents of which they know that they may speak to each other.
//!
//! So each pair of agents has a flow that carries nothing, in both directions, from when they know of each other. It also keeps
//! the sessions with their relays alive, through NATs.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use byway_units::{AgentId, Duration, Rate, Time};
use byway_wire::Service;

use super::numbers::CONTACT_FLOW;
use crate::agent::{Agent, FlowSettings, ReceiveFlowId, RelayPath, SendFlowId, flow_between};
use crate::policy::CodingRates;

/// Another agent, and the ways through relays to it and from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquaintance {
    /// Who it is.
    pub peer: AgentId,
    /// The ways to it; without any, the two have no contact.
    pub forth: Vec<RelayPath>,
    /// The ways from it.
    pub back: Vec<RelayPath>,
}

/// The flows of one pair.
#[derive(Clone, Copy, Debug)]
struct Contact {
    sent: SendFlowId,
    received: ReceiveFlowId,
}

/// The flows that carry nothing.
#[derive(Debug, Default)]
pub struct Contacts(BTreeMap<AgentId, Contact>);

impl Contacts {
    /// Has such flows with those to whom there are ways through relays, and with nobody else.
    pub fn follow(&mut self, own: AgentId, acquainted: Vec<Acquaintance>, agent: &mut Agent, now: Time) {
        let met = || acquainted.iter().filter(|met| !met.forth.is_empty());
        let gone: Vec<AgentId> =
            self.0.keys().copied().filter(|peer| met().all(|met| met.peer != *peer)).collect();
        for contact in gone.iter().filter_map(|peer| self.0.remove(peer)) {
            agent.close_flow(contact.sent, now);
            agent.close_received_flow(contact.received, now);
        }
        for Acquaintance { peer, forth, back } in acquainted.into_iter().filter(|met| !met.forth.is_empty()) {
            if let Some(contact) = self.0.get(&peer) {
                agent.set_paths(contact.sent, forth, now);
                agent.set_received_paths(contact.received, back, now);
            } else if let Some(contact) = open(agent, own, peer, forth, back, now) {
                self.0.insert(peer, contact);
            }
        }
    }

    /// The peer has closed it; it is opened again with the next map.
    pub fn closed(&mut self, peer: AgentId, agent: &mut Agent, now: Time) {
        if let Some(contact) = self.0.remove(&peer) {
            agent.close_flow(contact.sent, now);
            agent.close_received_flow(contact.received, now);
        }
    }
}

fn open(
    agent: &mut Agent,
    own: AgentId,
    peer: AgentId,
    forth: Vec<RelayPath>,
    back: Vec<RelayPath>,
    now: Time,
) -> Option<Contact> {
    let sent = agent.open_flow(flow_between(own, peer, CONTACT_FLOW), settings(forth), now)?;
    let received = agent.accept_flow(flow_between(peer, own, CONTACT_FLOW), settings(back), now);
    if received.is_none() {
        agent.close_flow(sent, now);
    }
    received.map(|received| Contact { sent, received })
}

fn settings(paths: Vec<RelayPath>) -> FlowSettings {
    FlowSettings {
        service: Service::Internet,
        rates: CodingRates { in_stream: None, batch: None },
        rate: Rate::from_bits_per_second(0),
        latency_budget: Duration::ZERO,
        paths,
        ..FlowSettings::default()
    }
}
