//! Contact flows: flows without packets between all pairs of agents that may communicate.
//!
//! Relays forward handshakes only between agents that have such a flow. So each pair has one in
//! each direction, from when they know of each other. It also keeps the sessions with their relays
//! alive, through NATs.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use byway_units::{AgentId, Duration, Rate, Time};
use byway_wire::Service;

use super::numbers::CONTACT_FLOW;
use crate::agent::{Agent, FlowSettings, ReceiveFlowId, RelayPath, SendFlowId, flow_between};
use crate::policy::CodingRates;

/// Other agent of a contact, with the relay paths in both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContactPeer {
    /// Agent number of the peer.
    pub peer: AgentId,
    /// Relay paths to the peer; if empty, no contact flows are opened.
    pub forth: Vec<RelayPath>,
    /// Relay paths from the peer.
    pub back: Vec<RelayPath>,
}

/// Contact flows with one peer, one in each direction.
#[derive(Clone, Copy, Debug)]
struct Contact {
    sent: SendFlowId,
    received: ReceiveFlowId,
}

/// Contact flows of an agent, by peer.
#[derive(Debug, Default)]
pub struct Contacts(BTreeMap<AgentId, Contact>);

impl Contacts {
    /// Opens contact flows with the peers that have relay paths, updates the paths of open ones,
    /// and closes all others.
    pub fn update(&mut self, own: AgentId, peers: Vec<ContactPeer>, agent: &mut Agent, now: Time) {
        let reachable = || peers.iter().filter(|other| !other.forth.is_empty());
        let removed: Vec<AgentId> =
            self.0.keys().copied().filter(|peer| reachable().all(|other| other.peer != *peer)).collect();
        for contact in removed.iter().filter_map(|peer| self.0.remove(peer)) {
            agent.close_flow(contact.sent, now);
            agent.close_received_flow(contact.received, now);
        }
        for ContactPeer { peer, forth, back } in peers.into_iter().filter(|other| !other.forth.is_empty()) {
            if let Some(contact) = self.0.get(&peer) {
                agent.set_paths(contact.sent, forth, now);
                agent.set_received_paths(contact.received, back, now);
            } else if let Some(contact) = open(agent, own, peer, forth, back, now) {
                self.0.insert(peer, contact);
            }
        }
    }

    /// Closes both contact flows with a peer, because the peer has closed one of them; the next
    /// [`Contacts::update`] opens them again.
    pub fn on_closed(&mut self, peer: AgentId, agent: &mut Agent, now: Time) {
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
