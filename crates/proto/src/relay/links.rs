//! Which flows the agents have registered, and what they are called on each session.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use arrayvec::ArrayVec;
use byway_code::prefetch_value;
use byway_units::{AgentId, Bytes, Duration, RelayId, Time};
use byway_wire::{Alias, FlowKey, Receiver, Shard};

use super::egress;
use super::ingress;
use crate::limits::{FEEDERS_MAX, FLOWS_PER_SESSION_MAX, FORGED_GRANTS_MAX, RELAYED_BURST, RELAYED_RATE};
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

impl FlowRef {
    const fn is_sent(self) -> bool {
        matches!(self, Self::Sent(_))
    }
}

/// A flow that is registered.
#[derive(Clone, Copy, Debug)]
struct Registered {
    key: FlowKey,
    flow: FlowRef,
    /// The relay shard at the path's other end.
    far: (RelayId, Shard),
    /// The revision of the registration in force.
    revision: u8,
}

/// What identifies a registration of a session among all of them.
type RegistrationIndex = (FlowKey, bool, (RelayId, Shard));

/// Below and above all relay shards.
const FIRST_RELAY: (RelayId, Shard) = (RelayId::new(0), Shard::new(0));
const LAST_RELAY: (RelayId, Shard) = (RelayId::new(u32::MAX), Shard::new(u8::MAX));

/// What identifies a registration of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RegistrationKey {
    pub(super) flow: FlowKey,
    /// Whether the agent sends the flow.
    pub(super) sends: bool,
    /// The egress relay, of a sender that registers a flow once for each; `None`: whatever it is.
    pub(super) far: Option<(RelayId, Shard)>,
}

impl RegistrationKey {
    /// The registrations that it names: of those, no two have the same far relay.
    fn range(&self) -> RangeInclusive<RegistrationIndex> {
        let (first, last) = self.far.map_or((FIRST_RELAY, LAST_RELAY), |far| (far, far));
        (self.flow, self.sends, first)..=(self.flow, self.sends, last)
    }
}

/// A registration that ends by no wish of its agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedRegistration {
    pub(super) session: SessionId,
    pub(super) alias: Alias,
    pub(super) key: FlowKey,
    /// Whether the agent sends the flow.
    pub(super) sends: bool,
    /// The relay shard at the path's other end.
    pub(super) far: (RelayId, Shard),
    pub(super) revision: u8,
}

/// Places of a session whose memory is kept although few of them are used: 1.5 kB.
const PLACES_KEPT: usize = 32;

/// What an agent has registered.
#[derive(Debug, Default)]
struct Link {
    agent: Option<AgentId>,
    /// The flow with alias n + 1 at place n.
    flows: Vec<Option<Registered>>,
    /// The places among them that are free.
    vacant: BTreeSet<u16>,
    /// The aliases of the flows.
    by_key: BTreeMap<RegistrationIndex, Alias>,
    /// When the last of them left.
    emptied: Time,
    /// How many grants it showed that the controller never signed.
    forged: u8,
    /// What it may still have passed on to other agents; allocated when it first has.
    relayed: Option<Box<TokenBucket<Bytes>>>,
    /// How far away the agent is, as all these flows know.
    round_trip: Option<Duration>,
    /// The agents that flows connect this one with.
    acquainted: BTreeMap<AgentId, Acquaintance>,
}

impl Link {
    /// A flow with another agent begins, whose other end is at this relay.
    fn meet(&mut self, other: AgentId, far: (RelayId, Shard)) {
        let known = self.acquainted.entry(other);
        let known = known.or_insert_with(|| Acquaintance { place: far, flows: BTreeMap::new() });
        *known.flows.entry(far).or_default() += 1;
    }

    /// One has ended. Those that are left may lead to the other agent by other relays.
    fn part_from(&mut self, other: AgentId, far: (RelayId, Shard)) {
        let Some(known) = self.acquainted.get_mut(&other) else {
            return;
        };
        if let Some(flows) = known.flows.get_mut(&far) {
            *flows -= 1;
            if *flows == 0 {
                known.flows.remove(&far);
            }
        }
        match known.flows.keys().next() {
            Some(far) => known.place = *far,
            None => _ = self.acquainted.remove(&other),
        }
    }

    /// Gives back the places behind the last flow, and their memory where that is much.
    fn trim(&mut self) {
        while let Some(None) = self.flows.last() {
            self.flows.pop();
            self.vacant.pop_last();
        }
        if self.flows.capacity() >= PLACES_KEPT && self.flows.len() * 4 <= self.flows.capacity() {
            self.flows.shrink_to(self.flows.len() * 2);
        }
    }

    /// A free place for a flow, the lowest there is.
    fn place(&mut self) -> usize {
        if let Some(place) = self.vacant.pop_first() {
            return usize::from(place);
        }
        // Most sessions have few flows, and there are many sessions.
        if self.flows.len() == self.flows.capacity() && self.flows.len() < 4 {
            self.flows.reserve_exact(1);
        }
        self.flows.push(None);
        self.flows.len() - 1
    }
}

/// An agent at the other end of registered flows.
#[derive(Debug)]
struct Acquaintance {
    /// The relay where it is.
    place: (RelayId, Shard),
    /// How many flows there are, by the relay at their other end.
    flows: BTreeMap<(RelayId, Shard), u32>,
}

/// Who receives a flow, or sends it, and what it is called there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) session: SessionId,
    pub(super) alias: Alias,
}

/// Who receives a flow here, and where its packets come from.
#[derive(Debug, Default)]
struct Receivers {
    slots: Vec<egress::FlowSlot>,
    /// The ingress relays that the receivers' grants name, known here or not; those of the newest grants.
    feeders: ArrayVec<(RelayId, Shard), FEEDERS_MAX>,
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
    by_key: BTreeMap<FlowKey, Receivers>,
    agents: BTreeMap<AgentId, SessionId>,
    /// When grants end that do, and those of which flows.
    ends: BTreeSet<(Time, SessionId, Alias)>,
    end_of: BTreeMap<(SessionId, Alias), Time>,
}

impl Links {
    fn link(&self, session: SessionId) -> Option<&Link> {
        self.by_session.get(session.0 as usize)
    }

    /// Brings into the cache what a session has registered.
    pub(super) fn prefetch(&self, session: SessionId) {
        if let Some(link) = self.link(session) {
            prefetch_value(link);
        }
    }

    /// What the session calls so.
    pub(super) fn flow(&self, session: SessionId, alias: Alias) -> Option<FlowRef> {
        let place = usize::from(alias.number()) - 1;
        self.link(session)?.flows.get(place)?.map(|registered| registered.flow)
    }

    /// The alias and flow that the session has registered under this key.
    pub(super) fn registered(&self, session: SessionId, key: &RegistrationKey) -> Option<(Alias, FlowRef)> {
        let (_, alias) = self.link(session)?.by_key.range(key.range()).next()?;
        Some((*alias, self.flow(session, *alias)?))
    }

    /// Whether the session may register another flow.
    pub(super) fn has_room(&self, session: SessionId) -> bool {
        self.link(session).is_none_or(|link| link.by_key.len() < FLOWS_PER_SESSION_MAX)
    }

    /// Returns how many places the registrations of a session take, used or not.
    pub(super) fn places(&self, session: SessionId) -> usize {
        self.link(session).map_or(0, |link| link.flows.len())
    }

    /// Returns true if the next registration of a session gets a place that is there.
    pub(super) fn has_vacant_place(&self, session: SessionId) -> bool {
        self.link(session).is_some_and(|link| !link.vacant.is_empty())
    }

    /// Returns the highest alias of a session.
    pub(super) fn last_alias(&self, session: SessionId) -> Option<Alias> {
        self.places(session).checked_sub(1).map(alias_at)
    }

    /// Adds a flow that the agent registered, until its grant ends; its other end is at the relay `far`.
    pub(super) fn add(
        &mut self,
        session: SessionId,
        key: FlowKey,
        flow: FlowRef,
        far: (RelayId, Shard),
        end: Time,
    ) -> Alias {
        // A group is nobody: who receives a flow of one may have told who it is by another flow.
        let agent = match (flow, key.receiver()) {
            (FlowRef::Sent(_), _) => Some(key.sender()),
            (FlowRef::Received(_), Receiver::Agent(agent)) => Some(agent),
            (FlowRef::Received(_), Receiver::Group(_)) => None,
        };
        let link = self.link_mut(session);
        link.agent = agent.or(link.agent);
        if let Some(other) = other_end(key, flow) {
            link.meet(other, far);
        }
        let place = link.place();
        link.flows[place] = Some(Registered { key, flow, far, revision: 0 });
        let alias = alias_at(place);
        link.by_key.insert((key, flow.is_sent(), far), alias);
        let end_here = End { session, alias };
        match flow {
            FlowRef::Sent(slot) => put(&mut self.senders, slot.0 as usize, Some(end_here)),
            FlowRef::Received(slot) => {
                put(&mut self.receivers, slot.place(), Some(end_here));
                self.by_key.entry(key).or_default().slots.push(slot);
            }
        }
        if let Some(agent) = agent {
            self.agents.insert(agent, session);
        }
        self.set_end(session, alias, end);
        alias
    }

    /// The revision of a registration in force; 0 if there is none.
    pub(super) fn revision(&self, session: SessionId, alias: Alias) -> u8 {
        let place = usize::from(alias.number()) - 1;
        let flow = self.link(session).and_then(|link| link.flows.get(place).copied().flatten());
        flow.map_or(0, |flow| flow.revision)
    }

    pub(super) fn set_revision(&mut self, session: SessionId, alias: Alias, revision: u8) {
        let place = usize::from(alias.number()) - 1;
        if let Some(Some(flow)) = self.link_mut(session).flows.get_mut(place) {
            flow.revision = revision;
        }
    }

    /// When the grant of a flow ends.
    pub(super) fn ends_at(&self, session: SessionId, alias: Alias) -> Time {
        self.end_of.get(&(session, alias)).copied().unwrap_or(Time::MAX)
    }

    /// Lets a flow last for longer.
    pub(super) fn renew(&mut self, session: SessionId, alias: Alias, end: Time) {
        let end = end.max(self.ends_at(session, alias));
        self.set_end(session, alias, end);
    }

    /// Notes when a flow ends; never, at [`Time::MAX`].
    fn set_end(&mut self, session: SessionId, alias: Alias, end: Time) {
        if let Some(before) = self.end_of.remove(&(session, alias)) {
            self.ends.remove(&(before, session, alias));
        }
        if end < Time::MAX {
            self.ends.insert((end, session, alias));
            self.end_of.insert((session, alias), end);
        }
    }

    /// When the next grant ends.
    pub(super) fn next_end(&self) -> Option<Time> {
        self.ends.first().map(|(end, ..)| *end)
    }

    /// A registration whose grant has ended.
    pub(super) fn first_ended(&self, now: Time) -> Option<EndedRegistration> {
        let (_, session, alias) = *self.ends.first().filter(|(end, ..)| *end <= now)?;
        self.registration(session, alias)
    }

    /// Returns what is registered under an alias.
    pub(super) fn registration(&self, session: SessionId, alias: Alias) -> Option<EndedRegistration> {
        let place = usize::from(alias.number()) - 1;
        let Registered { key, flow, far, revision } = (*self.link(session)?.flows.get(place)?)?;
        Some(EndedRegistration { session, alias, key, sends: flow.is_sent(), far, revision })
    }

    /// Notes a forged grant; whether that is one too many.
    pub(super) fn forges_too_often(&mut self, session: SessionId) -> bool {
        let link = self.link_mut(session);
        link.forged += 1;
        link.forged >= FORGED_GRANTS_MAX
    }

    /// Whether the agent may have so many bytes more passed on to others.
    pub(super) fn may_relay(&mut self, session: SessionId, bytes: Bytes, now: Time) -> bool {
        let full = || Box::new(TokenBucket::of_bytes(RELAYED_RATE, RELAYED_BURST, now));
        self.link_mut(session).relayed.get_or_insert_with(full).take(bytes, now)
    }

    /// Since when the session has no flows; `None` if it has some.
    pub(super) fn without_flows_since(&self, session: SessionId) -> Option<Time> {
        match self.link(session) {
            Some(link) if !link.by_key.is_empty() => None,
            Some(link) => Some(link.emptied),
            None => Some(Time::START),
        }
    }

    fn link_mut(&mut self, session: SessionId) -> &mut Link {
        let index = session.0 as usize;
        if self.by_session.len() <= index {
            self.by_session.resize_with(index + 1, Link::default);
        }
        &mut self.by_session[index]
    }

    /// Forgets an agent, whose flows are forgotten already.
    pub(super) fn remove_session(&mut self, session: SessionId) {
        let link = self.by_session.get_mut(session.0 as usize).map(core::mem::take);
        if let Some(agent) = link.and_then(|link| link.agent)
            && self.agents.get(&agent) == Some(&session)
        {
            self.agents.remove(&agent);
        }
    }

    /// Forgets a flow; what it was.
    pub(super) fn remove(
        &mut self,
        session: SessionId,
        alias: Alias,
        now: Time,
    ) -> Option<(FlowKey, FlowRef)> {
        let place = usize::from(alias.number()) - 1;
        let link = self.by_session.get_mut(session.0 as usize)?;
        let Registered { key, flow, far, .. } = link.flows.get_mut(place)?.take()?;
        link.vacant.extend(u16::try_from(place));
        link.trim();
        link.by_key.remove(&(key, flow.is_sent(), far));
        link.emptied = now;
        if let Some(other) = other_end(key, flow) {
            link.part_from(other, far);
        }
        self.set_end(session, alias, Time::MAX);
        match flow {
            FlowRef::Sent(slot) => put(&mut self.senders, slot.0 as usize, None),
            FlowRef::Received(slot) => {
                put(&mut self.receivers, slot.place(), None);
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

    /// The aliases of all flows of a session.
    pub(super) fn aliases(&self, session: SessionId) -> Vec<Alias> {
        let flows = self.link(session).map(|link| link.flows.as_slice()).unwrap_or_default();
        let taken = flows.iter().enumerate().filter(|(_, flow)| flow.is_some());
        taken.map(|(place, _)| alias_at(place)).collect()
    }

    /// How far away an agent is, as all its flows know that were there when it was measured.
    pub(super) fn round_trip(&self, session: SessionId) -> Option<Duration> {
        self.link(session)?.round_trip
    }

    /// Notes how far away an agent is; its flows, if that is news.
    pub(super) fn set_round_trip(
        &mut self,
        session: SessionId,
        round_trip: Duration,
    ) -> impl Iterator<Item = FlowRef> + '_ {
        let link = self.by_session.get_mut(session.0 as usize);
        let news = link.filter(|link| link.round_trip != Some(round_trip)).map(|link| {
            link.round_trip = Some(round_trip);
            link.flows.iter().flatten().map(|registered| registered.flow)
        });
        news.into_iter().flatten()
    }

    pub(super) fn sender(&self, slot: ingress::FlowSlot) -> Option<End> {
        self.senders.get(slot.0 as usize).copied().flatten()
    }

    pub(super) fn receiver(&self, slot: egress::FlowSlot) -> Option<End> {
        let end = self.receivers.get(slot.place()).copied().flatten()?;
        // Another flow may have taken the place meanwhile.
        (self.flow(end.session, end.alias) == Some(FlowRef::Received(slot))).then_some(end)
    }

    /// The slots of a flow's receivers here.
    pub(super) fn receivers_of(&self, key: FlowKey) -> &[egress::FlowSlot] {
        self.by_key.get(&key).map(|receivers| receivers.slots.as_slice()).unwrap_or_default()
    }

    /// Lets the packets of a flow with receivers here come from a relay, and from the one that was named first no more if
    /// they come from too many.
    pub(super) fn add_feeder(&mut self, key: FlowKey, relay: (RelayId, Shard)) {
        let feeders = self.by_key.get_mut(&key).map(|receivers| &mut receivers.feeders);
        if let Some(feeders) = feeders.filter(|feeders| !feeders.contains(&relay)) {
            if feeders.is_full() {
                feeders.remove(0);
            }
            feeders.push(relay);
        }
    }

    /// Whether the packets of a flow may come from a relay.
    pub(super) fn is_fed_by(&self, key: FlowKey, relay: (RelayId, Shard)) -> bool {
        self.by_key.get(&key).is_some_and(|receivers| receivers.feeders.contains(&relay))
    }

    /// The session of an agent, and the agent of a session.
    pub(super) fn session_of(&self, agent: AgentId) -> Option<SessionId> {
        self.agents.get(&agent).copied()
    }

    pub(super) fn agent_of(&self, session: SessionId) -> Option<AgentId> {
        self.link(session)?.agent
    }

    /// Notes where an agent is that a flow connects with the one of a session.
    pub(super) fn acquaint(&mut self, session: SessionId, other: AgentId, place: (RelayId, Shard)) {
        let link = self.by_session.get_mut(session.0 as usize);
        if let Some(known) = link.and_then(|link| link.acquainted.get_mut(&other)) {
            known.place = place;
        }
    }

    /// The relay of an agent that a flow connects with the one of this session.
    pub(super) fn relay_of(&self, session: SessionId, other: AgentId) -> Option<(RelayId, Shard)> {
        self.link(session)?.acquainted.get(&other).map(|known| known.place)
    }
}

/// The agent at the other end of a flow; none for the receivers of a group's.
fn other_end(key: FlowKey, flow: FlowRef) -> Option<AgentId> {
    match (flow, key.receiver()) {
        (FlowRef::Received(_), _) => Some(key.sender()),
        (FlowRef::Sent(_), Receiver::Agent(receiver)) => Some(receiver),
        (FlowRef::Sent(_), Receiver::Group(_)) => None,
    }
}

fn alias_at(place: usize) -> Alias {
    u16::try_from(place + 1)
        .ok()
        .and_then(Alias::new)
        .expect("a session has fewer flows than there are aliases")
}

fn put<T: Copy>(ends: &mut Vec<Option<T>>, place: usize, end: Option<T>) {
    if ends.len() <= place {
        ends.resize(place + 1, None);
    }
    ends[place] = end;
}
