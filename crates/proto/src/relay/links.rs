//! Which flows the agents have registered, and what they are called on each session.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use byway_units::{AgentId, Bytes, Duration, RelayId, Time};
use byway_wire::{Alias, FlowKey, Shard};

use super::egress;
use super::ingress;
use crate::limits::{FLOWS_PER_SESSION_MAX, RELAYED_BURST, RELAYED_RATE};
use crate::parts::token_bucket::TokenBucket;
use crate::session::SessionId;

/// A flow of an agent, from the relay's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowRef {
    /// The agent sends it.
    Sent(ingress::FlowSlot),
    /// The agent receives it.
    Received(egress::FlowSlot),
}

/// What an agent has registered.
#[derive(Debug, Default)]
struct Link {
    agent: Option<AgentId>,
    /// The flow with alias n + 1 at place n.
    flows: Vec<Option<(FlowKey, FlowRef)>>,
    /// How far away the agent is, as all these flows know.
    round_trip: Option<Duration>,
    /// The agents that grants connect this one with, and the relays where these are.
    acquainted: BTreeMap<AgentId, (RelayId, Shard)>,
    /// What may be passed on between the agent and those; `None` before anything was.
    relayed: Option<TokenBucket<Bytes>>,
}

/// Who receives a flow, or sends it, and what it is called there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) session: SessionId,
    pub(super) alias: Alias,
}

/// All agents' registrations.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// By the session's number.
    by_session: Vec<Link>,
    /// The sender of each flow of the ingress half, by slot.
    senders: Vec<Option<End>>,
    /// The receiver of each flow of the egress half, by slot.
    receivers: Vec<Option<End>>,
    /// The receivers' slots of each flow: one, or a group's.
    by_key: BTreeMap<FlowKey, Vec<egress::FlowSlot>>,
    agents: BTreeMap<AgentId, SessionId>,
}

impl Links {
    fn link(&self, session: SessionId) -> Option<&Link> {
        self.by_session.get(session.0 as usize)
    }

    /// What the session calls so.
    pub(super) fn flow(&self, session: SessionId, alias: Alias) -> Option<FlowRef> {
        let place = usize::from(alias.number()) - 1;
        self.link(session)?.flows.get(place)?.map(|(_, flow)| flow)
    }

    /// The alias and flow that the session has registered under this key, in this role.
    pub(super) fn registered(
        &self,
        session: SessionId,
        key: FlowKey,
        sends: bool,
    ) -> Option<(Alias, FlowRef)> {
        let flows = &self.link(session)?.flows;
        flows.iter().enumerate().find_map(|(place, entry)| {
            let (known, flow) = (*entry)?;
            let same = known == key && matches!(flow, FlowRef::Sent(_)) == sends;
            same.then(|| (alias_at(place), flow))
        })
    }

    /// Whether the session may register another flow.
    pub(super) fn has_room(&self, session: SessionId) -> bool {
        self.link(session).is_none_or(|link| {
            link.flows.len() < FLOWS_PER_SESSION_MAX || link.flows.iter().any(Option::is_none)
        })
    }

    /// Adds a flow that the agent registered.
    pub(super) fn add(&mut self, session: SessionId, agent: AgentId, key: FlowKey, flow: FlowRef) -> Alias {
        let index = session.0 as usize;
        if self.by_session.len() <= index {
            self.by_session.resize_with(index + 1, Link::default);
        }
        let link = &mut self.by_session[index];
        link.agent = Some(agent);
        link.round_trip = None;
        let place = link.flows.iter().position(Option::is_none).unwrap_or_else(|| {
            link.flows.push(None);
            link.flows.len() - 1
        });
        link.flows[place] = Some((key, flow));
        let alias = alias_at(place);
        let end = End { session, alias };
        match flow {
            FlowRef::Sent(slot) => put(&mut self.senders, slot.0, Some(end)),
            FlowRef::Received(slot) => {
                put(&mut self.receivers, slot.0, Some(end));
                self.by_key.entry(key).or_default().push(slot);
            }
        }
        self.agents.insert(agent, session);
        alias
    }

    /// Forgets an agent, whose flows are forgotten already.
    pub(super) fn remove_session(&mut self, session: SessionId) {
        let link = self.by_session.get_mut(session.0 as usize).map(core::mem::take);
        if let Some(agent) = link.and_then(|link| link.agent) {
            self.agents.remove(&agent);
        }
    }

    /// Forgets a flow; what it was.
    pub(super) fn remove(&mut self, session: SessionId, alias: Alias) -> Option<FlowRef> {
        let place = usize::from(alias.number()) - 1;
        let (key, flow) = self.by_session.get_mut(session.0 as usize)?.flows.get_mut(place)?.take()?;
        match flow {
            FlowRef::Sent(slot) => put(&mut self.senders, slot.0, None),
            FlowRef::Received(slot) => {
                put(&mut self.receivers, slot.0, None);
                if let Some(slots) = self.by_key.get_mut(&key) {
                    slots.retain(|known| *known != slot);
                    if slots.is_empty() {
                        self.by_key.remove(&key);
                    }
                }
            }
        }
        Some(flow)
    }

    /// The aliases of all flows of a session.
    pub(super) fn aliases(&self, session: SessionId) -> Vec<Alias> {
        let flows = self.link(session).map(|link| link.flows.as_slice()).unwrap_or_default();
        let taken = flows.iter().enumerate().filter(|(_, flow)| flow.is_some());
        taken.map(|(place, _)| alias_at(place)).collect()
    }

    /// Notes how far away an agent is; its flows, if any of them does not know yet.
    pub(super) fn set_round_trip(
        &mut self,
        session: SessionId,
        round_trip: Duration,
    ) -> impl Iterator<Item = FlowRef> + '_ {
        let link = self.by_session.get_mut(session.0 as usize);
        let news = link.filter(|link| link.round_trip != Some(round_trip)).map(|link| {
            link.round_trip = Some(round_trip);
            link.flows.iter().flatten().map(|(_, flow)| *flow)
        });
        news.into_iter().flatten()
    }

    pub(super) fn sender(&self, slot: ingress::FlowSlot) -> Option<End> {
        self.senders.get(slot.0 as usize).copied().flatten()
    }

    pub(super) fn receiver(&self, slot: egress::FlowSlot) -> Option<End> {
        self.receivers.get(slot.0 as usize).copied().flatten()
    }

    /// The slots of a flow's receivers here.
    pub(super) fn receivers_of(&self, key: FlowKey) -> &[egress::FlowSlot] {
        self.by_key.get(&key).map(Vec::as_slice).unwrap_or_default()
    }

    /// The session of an agent, and the agent of a session.
    pub(super) fn session_of(&self, agent: AgentId) -> Option<SessionId> {
        self.agents.get(&agent).copied()
    }

    pub(super) fn agent_of(&self, session: SessionId) -> Option<AgentId> {
        self.link(session)?.agent
    }

    /// Notes that a grant connects the agent of a session with another one, and where that is.
    pub(super) fn acquaint(&mut self, session: SessionId, other: AgentId, relay: (RelayId, Shard)) {
        let link = self.by_session.get_mut(session.0 as usize);
        if let Some(link) = link.filter(|link| link.acquainted.len() < FLOWS_PER_SESSION_MAX) {
            link.acquainted.insert(other, relay);
        }
    }

    /// The relay of an agent that a grant connects with the one of this session.
    pub(super) fn relay_of(&self, session: SessionId, other: AgentId) -> Option<(RelayId, Shard)> {
        self.link(session)?.acquainted.get(&other).copied()
    }

    /// Whether so much may be passed on now between the agent of this session and others.
    pub(super) fn may_relay(&mut self, session: SessionId, bytes: usize, now: Time) -> bool {
        let Some(link) = self.by_session.get_mut(session.0 as usize) else {
            return false;
        };
        let bucket =
            link.relayed.get_or_insert_with(|| TokenBucket::of_bytes(RELAYED_RATE, RELAYED_BURST, now));
        bucket.take(Bytes::from(bytes), now)
    }
}

fn alias_at(place: usize) -> Alias {
    u16::try_from(place + 1)
        .ok()
        .and_then(Alias::new)
        .expect("a session has fewer flows than there are aliases")
}

fn put(ends: &mut Vec<Option<End>>, slot: u32, end: Option<End>) {
    let place = slot as usize;
    if ends.len() <= place {
        ends.resize(place + 1, None);
    }
    ends[place] = end;
}
