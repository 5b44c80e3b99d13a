//! The proxy's mappings: which application's endpoint stands for which two flows.
//!
//! A mapping is endpoint-independent in the sense of RFC 4787: all that one application's endpoint sends to one peer leaves
//! the peer's machine from one port, whatever it is sent to there.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use byway_net::SocketId;
use byway_proto::agent::{ReceiveFlowId, SendFlowId};
use byway_units::{AgentId, Duration, FlowId, Time};
use byway_wire::Ecn;

use super::limits::{HELD_BYTES_MAX, HELD_DATAGRAMS_MAX, HELD_FOR, MAPPING_IDLE, MAPPINGS_MAX};

/// A mapping's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MappingId(usize);

/// At which end of the mapping this agent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// An application here sends to a forward, by its place.
    Forward(usize),
    /// A peer's application sends to what is exposed here, by its place; the peer's number for that application.
    Exposed {
        /// Which.
        place: usize,
        /// The application's endpoint, as the peer numbers it.
        source: u32,
    },
}

/// Whether the peer takes part.
#[derive(Debug)]
pub(super) enum Consent {
    /// It was asked. These wait for its answer.
    Asked(Held),
    /// It does.
    Given,
    /// It does not, and is asked again not before this time.
    Refused(Time),
}

/// One mapping.
#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) peer: AgentId,
    pub(super) flow: FlowId,
    pub(super) sent: SendFlowId,
    pub(super) received: ReceiveFlowId,
    /// Where the application, or the target, is, and the socket that it is spoken to from.
    pub(super) socket: SocketId,
    pub(super) endpoint: SocketAddr,
    pub(super) side: Side,
    pub(super) consent: Consent,
    /// When a datagram of the mapping came or went last.
    pub(super) used: Time,
}

/// A datagram that waits.
#[derive(Debug)]
pub(super) struct HeldDatagram {
    pub(super) came: Time,
    pub(super) ecn: Ecn,
    pub(super) bytes: Vec<u8>,
}

/// Datagrams that wait, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Held(VecDeque<HeldDatagram>);

/// All mappings.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    slots: Vec<Option<Mapping>>,
    free: Vec<MappingId>,
    by_endpoint: BTreeMap<(SocketId, SocketAddr), MappingId>,
    by_flow: BTreeMap<(AgentId, FlowId), MappingId>,
    by_received: BTreeMap<ReceiveFlowId, MappingId>,
    held_bytes: usize,
    /// Datagrams that waited in vain.
    pub(super) held_dropped: u64,
}

impl Mappings {
    /// How many there are.
    pub(super) const fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is room for another.
    pub(super) const fn has_room(&self) -> bool {
        self.count() < MAPPINGS_MAX
    }

    /// Adds a mapping whose endpoint and flow have none yet.
    pub(super) fn add(&mut self, mapping: Mapping) -> MappingId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            MappingId(self.slots.len() - 1)
        });
        self.by_endpoint.insert((mapping.socket, mapping.endpoint), id);
        self.by_flow.insert((mapping.peer, mapping.flow), id);
        self.by_received.insert(mapping.received, id);
        self.slots[id.0] = Some(mapping);
        id
    }

    /// Removes a mapping, with what waits in it.
    pub(super) fn remove(&mut self, id: MappingId) -> Option<Mapping> {
        self.drop_held(id, Time::MAX);
        let mapping = self.slots.get_mut(id.0)?.take()?;
        self.free.push(id);
        self.by_endpoint.remove(&(mapping.socket, mapping.endpoint));
        self.by_flow.remove(&(mapping.peer, mapping.flow));
        self.by_received.remove(&mapping.received);
        Some(mapping)
    }

    pub(super) fn get(&self, id: MappingId) -> Option<&Mapping> {
        self.slots.get(id.0)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: MappingId) -> Option<&mut Mapping> {
        self.slots.get_mut(id.0)?.as_mut()
    }

    /// The mapping of an application's or a target's endpoint at a socket.
    pub(super) fn of_endpoint(&self, socket: SocketId, endpoint: SocketAddr) -> Option<MappingId> {
        self.by_endpoint.get(&(socket, endpoint)).copied()
    }

    /// The mapping of a peer's flow number.
    pub(super) fn of_flow(&self, peer: AgentId, flow: FlowId) -> Option<MappingId> {
        self.by_flow.get(&(peer, flow)).copied()
    }

    /// The mapping to which a received flow belongs.
    pub(super) fn of_received(&self, flow: ReceiveFlowId) -> Option<MappingId> {
        self.by_received.get(&flow).copied()
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (MappingId, &Mapping)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(place, mapping)| Some((MappingId(place), mapping.as_ref()?)))
    }

    /// Those without a datagram for too long.
    pub(super) fn idle(&self, now: Time) -> Vec<MappingId> {
        let is_idle = |mapping: &Mapping| now.saturating_since(mapping.used) >= MAPPING_IDLE;
        self.iter().filter(|(_, mapping)| is_idle(mapping)).map(|(id, _)| id).collect()
    }

    /// Has a datagram wait for the peer's consent; the oldest make room.
    pub(super) fn hold(&mut self, id: MappingId, bytes: &[u8], ecn: Ecn, now: Time) {
        let Some(Mapping { consent: Consent::Asked(held), .. }) =
            self.slots.get_mut(id.0).and_then(Option::as_mut)
        else {
            return;
        };
        while held.0.len() >= HELD_DATAGRAMS_MAX {
            let oldest = held.0.pop_front().map_or(0, |oldest| oldest.bytes.len());
            self.held_bytes -= oldest;
            self.held_dropped += 1;
        }
        if self.held_bytes + bytes.len() > HELD_BYTES_MAX {
            self.held_dropped += 1;
            return;
        }
        self.held_bytes += bytes.len();
        held.0.push_back(HeldDatagram { came: now, ecn, bytes: bytes.to_vec() });
    }

    /// The peer consents: takes what has not waited too long.
    pub(super) fn consented(&mut self, id: MappingId, budget: Duration, now: Time) -> Vec<HeldDatagram> {
        let oldest = now.saturating_sub(budget.max(HELD_FOR));
        self.drop_held(id, oldest);
        let Some(mapping) = self.get_mut(id) else {
            return Vec::new();
        };
        let Consent::Asked(held) = core::mem::replace(&mut mapping.consent, Consent::Given) else {
            return Vec::new();
        };
        self.held_bytes -= held.0.iter().map(|datagram| datagram.bytes.len()).sum::<usize>();
        held.0.into()
    }

    /// The peer refuses: what waits is dropped.
    pub(super) fn refused(&mut self, id: MappingId, until: Time) {
        self.drop_held(id, Time::MAX);
        if let Some(mapping) = self.get_mut(id) {
            mapping.consent = Consent::Refused(until);
        }
    }

    /// Drops what came before this time.
    fn drop_held(&mut self, id: MappingId, before: Time) {
        let Some(Mapping { consent: Consent::Asked(held), .. }) =
            self.slots.get_mut(id.0).and_then(Option::as_mut)
        else {
            return;
        };
        while held.0.front().is_some_and(|datagram| datagram.came < before) {
            self.held_bytes -= held.0.pop_front().map_or(0, |datagram| datagram.bytes.len());
            self.held_dropped += 1;
        }
    }
}
