//! Table of registered flows: their aliases on each session, their receivers, and the ends of their
//! grants.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use arrayvec::ArrayVec;
use byway_code::prefetch_value;
use byway_units::{AgentId, Bytes, Duration, RelayId, Time};
use byway_wire::messages::{FlowRole, Refusal, RegisterReply};
use byway_wire::{Alias, FlowKey, GrantedRelay, Receiver, Shard};

use super::egress;
use super::ingress;
use crate::limits::{
    FLOWS_PER_SESSION_MAX, FORGED_GRANTS_MAX, INGRESS_RELAYS_MAX, RELAYED_BURST, RELAYED_RATE,
};
use crate::parts::token_bucket::TokenBucket;
use crate::session::SessionId;

/// A registered flow of an agent, by its slot in the ingress or egress half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowRef {
    /// The agent sends the flow: a slot of the ingress half.
    Sent(ingress::FlowSlot),
    /// The agent receives the flow: a slot of the egress half.
    Received(egress::FlowSlot),
}

impl FlowRef {
    const fn is_sent(self) -> bool {
        matches!(self, Self::Sent(_))
    }
}

/// A registration of a flow on a session.
#[derive(Clone, Copy, Debug)]
struct FlowEntry {
    key: FlowKey,
    flow: FlowRef,
    /// Relay shard at the other end of the flow's path.
    far: (RelayId, Shard),
    /// Revision of the registration in force, by which the relay recognises outdated registrations.
    revision: u8,
}

/// Index of a registration among those of its session: flow, role and far relay.
type RegistrationIndex = (FlowKey, bool, (RelayId, Shard));

/// Relay shards below and above all others, as bounds of a range.
const FIRST_RELAY: (RelayId, Shard) = (RelayId::new(0), Shard::new(0));
const LAST_RELAY: (RelayId, Shard) = (RelayId::new(u32::MAX), Shard::new(u8::MAX));

/// Key of a registration among those of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RegistrationKey {
    pub(super) flow: FlowKey,
    /// True if the agent sends the flow.
    pub(super) sends: bool,
    /// Egress relay, for a sender that registers a flow once for each of them; `None` matches any
    /// far relay.
    pub(super) far: Option<(RelayId, Shard)>,
}

impl RegistrationKey {
    /// Returns the range of matching registrations. No two of them have the same far relay.
    fn range(&self) -> RangeInclusive<RegistrationIndex> {
        let (first, last) = self.far.map_or((FIRST_RELAY, LAST_RELAY), |far| (far, far));
        (self.flow, self.sends, first)..=(self.flow, self.sends, last)
    }
}

/// A registration that the relay ends without its agent's request, with all that the notice to the
/// agent needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedRegistration {
    pub(super) session: SessionId,
    pub(super) alias: Alias,
    pub(super) key: FlowKey,
    /// True if the agent sends the flow.
    pub(super) sends: bool,
    /// Relay shard at the other end of the flow's path.
    pub(super) far: (RelayId, Shard),
    pub(super) revision: u8,
}

impl EndedRegistration {
    /// Returns the message by which the agent learns for which reason the registration ended.
    pub(super) const fn reply(&self, reason: Refusal) -> RegisterReply {
        RegisterReply {
            flow_key: self.key,
            role: if self.sends { FlowRole::Sender } else { FlowRole::Receiver },
            far_relay: GrantedRelay { relay: self.far.0, shard: self.far.1 },
            outcome: Err(reason),
            revision: Some(self.revision),
            far_round_trip: None,
            group_activity: None,
        }
    }
}

/// Number of flow slots of a session whose memory remains allocated even if few are used: 1.5 kB.
const SLOTS_RETAINED: usize = 32;

/// Registrations of one agent on its session.
#[derive(Debug, Default)]
struct SessionFlows {
    agent: Option<AgentId>,
    /// Registered flows: alias n + 1 is at index n.
    flows: Vec<Option<FlowEntry>>,
    /// Free indices in `flows`.
    vacant: BTreeSet<u16>,
    /// Alias of each registration, by flow, role and far relay.
    by_key: BTreeMap<RegistrationIndex, Alias>,
    /// Time at which a flow was last removed.
    emptied_at: Time,
    /// Number of grants with a false signature in the agent's registrations.
    forged_grants: u8,
    /// Budget of packets that the relay forwards to other agents; allocated at first use.
    relay_budget: Option<Box<TokenBucket<Bytes>>>,
    /// Round-trip time to the agent, as set at all of its flows; `None` before the first
    /// measurement.
    round_trip: Option<Duration>,
    /// Agents at the other end of this agent's flows.
    associations: BTreeMap<AgentId, PeerAssociation>,
}

impl SessionFlows {
    /// Counts a flow with another agent. `far` is the relay at the flow's other end.
    fn add_association(&mut self, other: AgentId, far: (RelayId, Shard)) {
        let known = self.associations.entry(other);
        let known = known.or_insert_with(|| PeerAssociation { relay: far, flows: BTreeMap::new() });
        *known.flows.entry(far).or_default() += 1;
    }

    /// Removes a flow with another agent from the counts. If no flow uses the recorded relay of
    /// that agent any more, records another.
    fn remove_association(&mut self, other: AgentId, far: (RelayId, Shard)) {
        let Some(known) = self.associations.get_mut(&other) else {
            return;
        };
        if let Some(flows) = known.flows.get_mut(&far) {
            *flows -= 1;
            if *flows == 0 {
                known.flows.remove(&far);
            }
        }
        match known.flows.keys().next() {
            Some(far) => known.relay = *far,
            None => _ = self.associations.remove(&other),
        }
    }

    /// Removes free slots behind the last flow, and releases memory if a quarter or less of it is
    /// used.
    fn trim(&mut self) {
        while let Some(None) = self.flows.last() {
            self.flows.pop();
            self.vacant.pop_last();
        }
        if self.flows.capacity() >= SLOTS_RETAINED && self.flows.len() * 4 <= self.flows.capacity() {
            self.flows.shrink_to(self.flows.len() * 2);
        }
    }

    /// Returns the lowest free index of `flows`, and adds one if none is free.
    fn allocate_slot(&mut self) -> usize {
        if let Some(index) = self.vacant.pop_first() {
            return usize::from(index);
        }
        // Most sessions have few flows, and there are many sessions.
        if self.flows.len() == self.flows.capacity() && self.flows.len() < 4 {
            self.flows.reserve_exact(1);
        }
        self.flows.push(None);
        self.flows.len() - 1
    }
}

/// An agent at the other end of registered flows, with the relays near it.
#[derive(Debug)]
struct PeerAssociation {
    /// Relay to which packets for the other agent go.
    relay: (RelayId, Shard),
    /// Number of registered flows by the relay at their other end.
    flows: BTreeMap<(RelayId, Shard), u32>,
}

/// Endpoint of a flow: the session of its sender or receiver, and its alias there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowEndpoint {
    pub(super) session: SessionId,
    pub(super) alias: Alias,
}

/// Receivers of a flow at this relay, and the ingress relays that may send its packets.
#[derive(Debug, Default)]
struct Receivers {
    slots: Vec<egress::FlowSlot>,
    /// Ingress relays that the newest grants of the receivers name, known to this relay or not.
    ingress_relays: ArrayVec<(RelayId, Shard), INGRESS_RELAYS_MAX>,
}

/// Registrations of all agents at this relay, with indices by flow, slot, agent and expiry.
#[derive(Debug, Default)]
pub(super) struct FlowTable {
    /// Registrations by session number.
    by_session: Vec<SessionFlows>,
    /// Sender of each flow of the ingress half, by slot.
    senders: Vec<Option<FlowEndpoint>>,
    /// Receiver of each flow of the egress half, by slot.
    receivers: Vec<Option<FlowEndpoint>>,
    /// Receivers of each flow: one, or several of a group.
    by_key: BTreeMap<FlowKey, Receivers>,
    agents: BTreeMap<AgentId, SessionId>,
    /// Expiry times of the registrations' grants, in order. `expiry_of` has them by session and
    /// alias.
    expiries: BTreeSet<(Time, SessionId, Alias)>,
    expiry_of: BTreeMap<(SessionId, Alias), Time>,
}

impl FlowTable {
    fn session_flows(&self, session: SessionId) -> Option<&SessionFlows> {
        self.by_session.get(session.0 as usize)
    }

    /// Prefetches a session's registrations into the cache.
    pub(super) fn prefetch(&self, session: SessionId) {
        if let Some(session_flows) = self.session_flows(session) {
            prefetch_value(session_flows);
        }
    }

    /// Returns the flow with this alias on the session.
    pub(super) fn flow(&self, session: SessionId, alias: Alias) -> Option<FlowRef> {
        let index = usize::from(alias.number()) - 1;
        self.session_flows(session)?.flows.get(index)?.map(|registered| registered.flow)
    }

    /// Returns the alias and flow that the session has registered with this key.
    pub(super) fn registered(&self, session: SessionId, key: &RegistrationKey) -> Option<(Alias, FlowRef)> {
        let (_, alias) = self.session_flows(session)?.by_key.range(key.range()).next()?;
        Some((*alias, self.flow(session, *alias)?))
    }

    /// True if the session may register another flow.
    pub(super) fn has_capacity(&self, session: SessionId) -> bool {
        self.session_flows(session)
            .is_none_or(|session_flows| session_flows.by_key.len() < FLOWS_PER_SESSION_MAX)
    }

    /// Returns the number of flow slots of a session, used or free.
    pub(super) fn slot_count(&self, session: SessionId) -> usize {
        self.session_flows(session).map_or(0, |session_flows| session_flows.flows.len())
    }

    /// True if the session has a free flow slot, and its next registration needs no other.
    pub(super) fn has_vacant_slot(&self, session: SessionId) -> bool {
        self.session_flows(session).is_some_and(|session_flows| !session_flows.vacant.is_empty())
    }

    /// Returns the alias of a session's last flow slot; `None` without slots.
    pub(super) fn last_alias(&self, session: SessionId) -> Option<Alias> {
        self.slot_count(session).checked_sub(1).map(alias_at)
    }

    /// Adds a registration of a flow until `expires_at`, and returns its alias on the session.
    /// `far` is the relay at the flow's other end.
    pub(super) fn add(
        &mut self,
        session: SessionId,
        key: FlowKey,
        flow: FlowRef,
        far: (RelayId, Shard),
        expires_at: Time,
    ) -> Alias {
        // A group identifies no agent. Its receivers may have identified themselves by another
        // flow.
        let agent = match (flow, key.receiver()) {
            (FlowRef::Sent(_), _) => Some(key.sender()),
            (FlowRef::Received(_), Receiver::Agent(agent)) => Some(agent),
            (FlowRef::Received(_), Receiver::Group(_)) => None,
        };
        let session_flows = self.session_flows_mut(session);
        session_flows.agent = agent.or(session_flows.agent);
        if let Some(other) = far_agent(key, flow) {
            session_flows.add_association(other, far);
        }
        let index = session_flows.allocate_slot();
        session_flows.flows[index] = Some(FlowEntry { key, flow, far, revision: 0 });
        let alias = alias_at(index);
        session_flows.by_key.insert((key, flow.is_sent(), far), alias);
        let endpoint = FlowEndpoint { session, alias };
        match flow {
            FlowRef::Sent(slot) => set_slot(&mut self.senders, slot.0 as usize, Some(endpoint)),
            FlowRef::Received(slot) => {
                set_slot(&mut self.receivers, slot.index(), Some(endpoint));
                self.by_key.entry(key).or_default().slots.push(slot);
            }
        }
        if let Some(agent) = agent {
            self.agents.insert(agent, session);
        }
        self.set_expiry(session, alias, expires_at);
        alias
    }

    /// Returns the revision of a registration in force; 0 if there is none.
    pub(super) fn revision(&self, session: SessionId, alias: Alias) -> u8 {
        let index = usize::from(alias.number()) - 1;
        let flow = self
            .session_flows(session)
            .and_then(|session_flows| session_flows.flows.get(index).copied().flatten());
        flow.map_or(0, |flow| flow.revision)
    }

    pub(super) fn set_revision(&mut self, session: SessionId, alias: Alias, revision: u8) {
        let index = usize::from(alias.number()) - 1;
        if let Some(Some(flow)) = self.session_flows_mut(session).flows.get_mut(index) {
            flow.revision = revision;
        }
    }

    /// Returns the expiry time of a flow's grant.
    pub(super) fn expires_at(&self, session: SessionId, alias: Alias) -> Time {
        self.expiry_of.get(&(session, alias)).copied().unwrap_or(Time::MAX)
    }

    /// Extends a registration to the expiry of a new grant. It never shortens it.
    pub(super) fn renew(&mut self, session: SessionId, alias: Alias, expires_at: Time) {
        let expires_at = expires_at.max(self.expires_at(session, alias));
        self.set_expiry(session, alias, expires_at);
    }

    /// Sets the expiry time of a registration; [`Time::MAX`] means never.
    fn set_expiry(&mut self, session: SessionId, alias: Alias, expires_at: Time) {
        if let Some(before) = self.expiry_of.remove(&(session, alias)) {
            self.expiries.remove(&(before, session, alias));
        }
        if expires_at < Time::MAX {
            self.expiries.insert((expires_at, session, alias));
            self.expiry_of.insert((session, alias), expires_at);
        }
    }

    /// Returns the earliest expiry time of a registration's grant.
    pub(super) fn next_expiry(&self) -> Option<Time> {
        self.expiries.first().map(|(at, ..)| *at)
    }

    /// Returns the first registration whose grant has expired, and leaves it in the table.
    pub(super) fn first_expired(&self, now: Time) -> Option<EndedRegistration> {
        let (_, session, alias) = *self.expiries.first().filter(|(at, ..)| *at <= now)?;
        self.registration(session, alias)
    }

    /// Returns the registration with this alias on the session, for a notice of its end.
    pub(super) fn registration(&self, session: SessionId, alias: Alias) -> Option<EndedRegistration> {
        let index = usize::from(alias.number()) - 1;
        let FlowEntry { key, flow, far, revision } = (*self.session_flows(session)?.flows.get(index)?)?;
        Some(EndedRegistration { session, alias, key, sends: flow.is_sent(), far, revision })
    }

    /// Counts a forged grant of a session. Returns `true` from [`FORGED_GRANTS_MAX`] on.
    pub(super) fn on_forged_grant(&mut self, session: SessionId) -> bool {
        let session_flows = self.session_flows_mut(session);
        session_flows.forged_grants += 1;
        session_flows.forged_grants >= FORGED_GRANTS_MAX
    }

    /// Charges a packet that the relay forwards between agents to a session's budget. Returns
    /// `false` if it exceeds the budget.
    pub(super) fn may_relay(&mut self, session: SessionId, bytes: Bytes, now: Time) -> bool {
        let full = || Box::new(TokenBucket::of_bytes(RELAYED_RATE, RELAYED_BURST, now));
        self.session_flows_mut(session).relay_budget.get_or_insert_with(full).try_consume(bytes, now)
    }

    /// Returns the time since which the session has no flows; `None` if it has some.
    pub(super) fn idle_since(&self, session: SessionId) -> Option<Time> {
        match self.session_flows(session) {
            Some(session_flows) if !session_flows.by_key.is_empty() => None,
            Some(session_flows) => Some(session_flows.emptied_at),
            None => Some(Time::START),
        }
    }

    fn session_flows_mut(&mut self, session: SessionId) -> &mut SessionFlows {
        let index = session.0 as usize;
        if self.by_session.len() <= index {
            self.by_session.resize_with(index + 1, SessionFlows::default);
        }
        &mut self.by_session[index]
    }

    /// Removes the entry of a session that ended, whose flows were removed before.
    pub(super) fn remove_session(&mut self, session: SessionId) {
        let session_flows = self.by_session.get_mut(session.0 as usize).map(core::mem::take);
        if let Some(agent) = session_flows.and_then(|session_flows| session_flows.agent)
            && self.agents.get(&agent) == Some(&session)
        {
            self.agents.remove(&agent);
        }
    }

    /// Removes a registration from all indices. Returns its flow key and slot; `None` if the alias
    /// is free.
    pub(super) fn remove(
        &mut self,
        session: SessionId,
        alias: Alias,
        now: Time,
    ) -> Option<(FlowKey, FlowRef)> {
        let index = usize::from(alias.number()) - 1;
        let session_flows = self.by_session.get_mut(session.0 as usize)?;
        let FlowEntry { key, flow, far, .. } = session_flows.flows.get_mut(index)?.take()?;
        session_flows.vacant.extend(u16::try_from(index));
        session_flows.trim();
        session_flows.by_key.remove(&(key, flow.is_sent(), far));
        session_flows.emptied_at = now;
        if let Some(other) = far_agent(key, flow) {
            session_flows.remove_association(other, far);
        }
        self.set_expiry(session, alias, Time::MAX);
        match flow {
            FlowRef::Sent(slot) => set_slot(&mut self.senders, slot.0 as usize, None),
            FlowRef::Received(slot) => {
                set_slot(&mut self.receivers, slot.index(), None);
                if let Some(Receivers { slots, .. }) = self.by_key.get_mut(&key) {
                    slots.retain(|known| *known != slot);
                    if slots.is_empty() {
                        self.by_key.remove(&key);
                    }
                }
            }
        }
        Some((key, flow))
    }

    /// Returns the aliases of all registrations of a session.
    pub(super) fn aliases(&self, session: SessionId) -> Vec<Alias> {
        let flows = self
            .session_flows(session)
            .map(|session_flows| session_flows.flows.as_slice())
            .unwrap_or_default();
        let used = flows.iter().enumerate().filter(|(_, flow)| flow.is_some());
        used.map(|(index, _)| alias_at(index)).collect()
    }

    /// Returns the last recorded round-trip time to an agent; `None` before the first measurement.
    pub(super) fn round_trip(&self, session: SessionId) -> Option<Duration> {
        self.session_flows(session)?.round_trip
    }

    /// Records the round-trip time to an agent. If it changed, returns the agent's flows, where the
    /// caller has to set it.
    pub(super) fn set_round_trip(
        &mut self,
        session: SessionId,
        round_trip: Duration,
    ) -> impl Iterator<Item = FlowRef> + '_ {
        let session_flows = self.by_session.get_mut(session.0 as usize);
        let flows = session_flows.filter(|session_flows| session_flows.round_trip != Some(round_trip)).map(
            |session_flows| {
                session_flows.round_trip = Some(round_trip);
                session_flows.flows.iter().flatten().map(|registered| registered.flow)
            },
        );
        flows.into_iter().flatten()
    }

    pub(super) fn sender(&self, slot: ingress::FlowSlot) -> Option<FlowEndpoint> {
        self.senders.get(slot.0 as usize).copied().flatten()
    }

    pub(super) fn receiver(&self, slot: egress::FlowSlot) -> Option<FlowEndpoint> {
        let endpoint = self.receivers.get(slot.index()).copied().flatten()?;
        // Another flow may have got the slot meanwhile.
        (self.flow(endpoint.session, endpoint.alias) == Some(FlowRef::Received(slot))).then_some(endpoint)
    }

    /// Returns the slots of a flow's receivers at this relay.
    pub(super) fn receivers_of(&self, key: FlowKey) -> &[egress::FlowSlot] {
        self.by_key.get(&key).map(|receivers| receivers.slots.as_slice()).unwrap_or_default()
    }

    /// Permits an ingress relay for a flow with receivers at this relay. If the flow has too many,
    /// the relay permitted first loses its permission.
    pub(super) fn permit_ingress_relay(&mut self, key: FlowKey, relay: (RelayId, Shard)) {
        let ingress_relays = self.by_key.get_mut(&key).map(|receivers| &mut receivers.ingress_relays);
        if let Some(ingress_relays) = ingress_relays.filter(|ingress_relays| !ingress_relays.contains(&relay))
        {
            if ingress_relays.is_full() {
                ingress_relays.remove(0);
            }
            ingress_relays.push(relay);
        }
    }

    /// True if a receiver's grant permits the relay to send packets of the flow.
    pub(super) fn is_permitted_ingress(&self, key: FlowKey, relay: (RelayId, Shard)) -> bool {
        self.by_key.get(&key).is_some_and(|receivers| receivers.ingress_relays.contains(&relay))
    }

    /// Returns the session of an agent that has registered a flow at this relay.
    pub(super) fn session_of(&self, agent: AgentId) -> Option<SessionId> {
        self.agents.get(&agent).copied()
    }

    pub(super) fn agent_of(&self, session: SessionId) -> Option<AgentId> {
        self.session_flows(session)?.agent
    }

    /// Records the relay to which packets for another agent go, if a flow connects that agent with
    /// this session's.
    pub(super) fn set_relay_of(&mut self, session: SessionId, other: AgentId, relay: (RelayId, Shard)) {
        let session_flows = self.by_session.get_mut(session.0 as usize);
        if let Some(known) =
            session_flows.and_then(|session_flows| session_flows.associations.get_mut(&other))
        {
            known.relay = relay;
        }
    }

    /// Returns the relay to which packets for another agent go; `None` if no flow connects that
    /// agent with this session's.
    pub(super) fn relay_of(&self, session: SessionId, other: AgentId) -> Option<(RelayId, Shard)> {
        self.session_flows(session)?.associations.get(&other).map(|known| known.relay)
    }
}

/// Returns the agent at the other end of a flow; `None` for the receivers of a group.
fn far_agent(key: FlowKey, flow: FlowRef) -> Option<AgentId> {
    match (flow, key.receiver()) {
        (FlowRef::Received(_), _) => Some(key.sender()),
        (FlowRef::Sent(_), Receiver::Agent(receiver)) => Some(receiver),
        (FlowRef::Sent(_), Receiver::Group(_)) => None,
    }
}

fn alias_at(index: usize) -> Alias {
    u16::try_from(index + 1)
        .ok()
        .and_then(Alias::new)
        .expect("a session has fewer flows than there are aliases")
}

fn set_slot<T: Copy>(slots: &mut Vec<Option<T>>, index: usize, endpoint: Option<T>) {
    if slots.len() <= index {
        slots.resize(index + 1, None);
    }
    slots[index] = endpoint;
}
