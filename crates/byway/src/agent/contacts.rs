//! Being found: relays pass handshakes on only between agents of which they know that they may speak to each other.
//!
//! So each pair of agents has a flow that carries nothing, in both directions, from when they know of each other. It also keeps
//! the sessions with their relays alive, through NATs.

use std::collections::BTreeMap;

use byway_proto::CodingRates;
use byway_proto::agent::{Agent, FlowSettings, ReceiveFlowId, RelayPath, SendFlowId, flow_between};
use byway_units::{AgentId, Duration, Rate, Time};
use byway_wire::Service;

use super::known::Known;
use super::limits::CONTACT_FLOW;

/// The flows of one pair.
#[derive(Clone, Copy, Debug)]
struct Contact {
    sent: SendFlowId,
    received: ReceiveFlowId,
}

/// The flows that carry nothing.
#[derive(Debug, Default)]
pub(super) struct Contacts(BTreeMap<AgentId, Contact>);

impl Contacts {
    /// Has such flows with whom the map pairs this agent by relays, and with nobody else.
    pub(super) fn follow(&mut self, known: &Known, agent: &mut Agent, now: Time) {
        let peers = known.peers_by_relays();
        let gone: Vec<AgentId> = self.0.keys().copied().filter(|peer| !peers.contains(peer)).collect();
        for contact in gone.iter().filter_map(|peer| self.0.remove(peer)) {
            agent.close_flow(contact.sent, now);
            agent.close_received_flow(contact.received, now);
        }
        let own = known.number();
        for peer in peers {
            let (forth, back) = (known.paths(own, peer), known.paths(peer, own));
            if let Some(contact) = self.0.get(&peer) {
                agent.set_paths(contact.sent, forth, now);
                agent.set_received_paths(contact.received, back, now);
            } else if let Some(contact) = open(agent, own, peer, forth, back, now) {
                self.0.insert(peer, contact);
            }
        }
    }

    /// The peer has closed it; it is opened again with the next map.
    pub(super) fn closed(&mut self, peer: AgentId, agent: &mut Agent, now: Time) {
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
