//! The proxy's mappings: which application's endpoint stands for which two flows.
//!
//! A mapping is endpoint-independent in the sense of RFC 4787: all that one application's endpoint sends to one peer leaves
//! the peer's machine from one port, whatever it is sent to there.

mod pending;
mod room;
#[cfg(test)]
pub(super) mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use byway_net::SocketId;
use byway_proto::LocalAddress;
use byway_proto::agent::{OfferRefusal, ReceiveFlowId, SendFlowId, Traffic};
use byway_proto::conventions::{PairLimits, PairUse};
use byway_proto::limits::FLOW_PAIR_IDLE;
use byway_proto::marking::{Candidate, Marking};
use byway_units::{AgentId, Duration, FlowId, Time};
use byway_wire::TrafficClass;

pub(super) use pending::{PendingDatagram, PendingDatagrams};
use room::Owned;
pub(super) use room::{AllInUse, Owner};

use super::limits::{FULL_FOR, PENDING_FOR, REFUSED_FOR};

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
    /// What a capture takes, by its place, goes to a peer's network.
    Capture {
        /// Which.
        place: usize,
        /// What of it.
        traffic: Traffic,
    },
    /// What a peer captures goes to a network here, by the place of what is exposed.
    Network {
        /// Which.
        place: usize,
        /// What of it.
        traffic: Traffic,
        /// The peer's capture, as the peer numbers it.
        source: u32,
    },
}

impl Side {
    /// Whether the mapping began here, and the peer is to consent.
    pub(super) const fn is_from_here(self) -> bool {
        matches!(self, Self::Forward(_) | Self::Capture { .. })
    }

    /// True if the mapping may make room for another. All connections of a capture share one, which is not idle for good.
    const fn is_evictable(self) -> bool {
        matches!(self, Self::Forward(_) | Self::Exposed { .. })
    }
}

/// An application, or a target, and the socket that it is spoken to from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Endpoint {
    pub(super) socket: SocketId,
    pub(super) address: SocketAddr,
}

/// Whether the peer takes part.
#[derive(Debug)]
pub(super) enum Consent {
    /// It was asked, and has not answered.
    Asked(Beginning),
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
    /// Where the application, or the target, is; `None`: behind the device.
    pub(super) endpoint: Option<Endpoint>,
    /// The local address that the application sends to, which answers leave from.
    pub(super) asked_at: LocalAddress,
    /// Time of the last datagram from its endpoint.
    pub(super) sent_last: Time,
    pub(super) side: Side,
    /// Which of its packets are marked.
    pub(super) marking: Marking,
    pub(super) consent: Consent,
    /// Why the peer refused last, since it consented.
    pub(super) refusal: Option<OfferRefusal>,
    /// The latency budget. A datagram that has waited longer than this, and longer than [`PENDING_FOR`], is stale.
    pub(super) budget: Duration,
    /// When a datagram of the mapping came or went last, and whether both ends have sent any.
    pub(super) usage: PairUse,
    /// The longest datagram that is sent as one packet, once the agent has found that out.
    pub(super) whole: Option<u16>,
}

impl Mapping {
    /// Notes a datagram that came from the peer: where the mapping began here, it is an answer.
    pub(super) const fn note_arrival(&mut self, now: Time) {
        self.usage.note(self.side.is_from_here(), now);
    }

    /// Returns whose limit it counts for.
    pub(super) fn owner(&self) -> Owner {
        match self.endpoint {
            _ if !self.side.is_from_here() => Owner::Peer(self.peer),
            Some(endpoint) => Owner::of(endpoint),
            None => Owner::Here,
        }
    }
}

/// What becomes of a datagram that an application, or a target, sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    /// It goes into this flow.
    Sent(SendFlowId),
    /// It waits for the peer's answer.
    Held,
    /// It waits, and the peer is to be asked again.
    Asks,
    /// The peer does not take it.
    Refused,
}

/// What a peer's answer to an offer leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// What waits is sent.
    Consented,
    /// The number is of no use: the mapping ends, and the next datagram begins another.
    Ends,
    /// Nothing is sent for a while; why, if that is news.
    Refused(Option<OfferRefusal>),
}

/// A datagram that is to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Datagram<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) traffic_class: TrafficClass,
    /// Whether it is worth a copy where not all get one.
    pub(super) marked: bool,
}

/// Datagrams of a mapping whose peer has not answered yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beginning {
    /// Number of datagrams that went with the offer.
    early: u64,
    /// True if a datagram was queued since the offer. All later ones are queued, too, for their order.
    has_pending: bool,
}

/// All mappings.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    slots: Vec<Option<Mapping>>,
    free: Vec<MappingId>,
    by_endpoint: BTreeMap<Endpoint, MappingId>,
    by_flow: BTreeMap<(AgentId, FlowId), MappingId>,
    by_received: BTreeMap<ReceiveFlowId, MappingId>,
    limits: PairLimits,
    owners: BTreeMap<Owner, Owned>,
    /// Before, no mapping at all can make room.
    in_use_until: Time,
    pub(super) pending: PendingDatagrams,
    /// Datagrams that waited for a peer that refused them, or whose mapping ended.
    pub(super) pending_refused: u64,
    /// Datagrams that waited for a peer that has no mapping left for them.
    pub(super) dropped_at_full_peer: u64,
}

impl Mappings {
    /// How many there are.
    pub(super) const fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds a mapping whose endpoint and flow have none yet.
    pub(super) fn add(&mut self, mapping: Mapping) -> MappingId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            MappingId(self.slots.len() - 1)
        });
        if let Some(endpoint) = mapping.endpoint {
            self.by_endpoint.insert(endpoint, id);
        }
        self.by_flow.insert((mapping.peer, mapping.flow), id);
        self.by_received.insert(mapping.received, id);
        self.count_in(mapping.owner());
        self.slots[id.0] = Some(mapping);
        id
    }

    /// Removes a mapping, with what waits in it.
    pub(super) fn remove(&mut self, id: MappingId) -> Option<Mapping> {
        self.pending_refused += self.drop_pending(id);
        let mapping = self.slots.get_mut(id.0)?.take()?;
        self.free.push(id);
        if let Some(endpoint) = mapping.endpoint {
            self.by_endpoint.remove(&endpoint);
        }
        self.by_flow.remove(&(mapping.peer, mapping.flow));
        self.by_received.remove(&mapping.received);
        self.count_out(mapping.owner());
        Some(mapping)
    }

    pub(super) fn get(&self, id: MappingId) -> Option<&Mapping> {
        self.slots.get(id.0)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: MappingId) -> Option<&mut Mapping> {
        self.slots.get_mut(id.0)?.as_mut()
    }

    /// The mapping of an application's or a target's endpoint at a socket.
    pub(super) fn of_endpoint(&self, endpoint: Endpoint) -> Option<MappingId> {
        self.by_endpoint.get(&endpoint).copied()
    }

    /// Notes that an endpoint sends to a local address: applications expect answers from there.
    pub(super) fn note_sent(&mut self, id: MappingId, to: LocalAddress, now: Time) {
        let Some(mapping) = self.get_mut(id) else {
            return;
        };
        mapping.sent_last = now;
        if matches!(mapping.side, Side::Forward(_)) {
            mapping.asked_at = to;
        }
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

    /// Those that the peer's applications began.
    pub(super) fn begun_by(&self, peer: AgentId) -> Vec<MappingId> {
        let is_its = |mapping: &Mapping| mapping.peer == peer && !mapping.side.is_from_here();
        self.iter().filter(|(_, mapping)| is_its(mapping)).map(|(id, _)| id).collect()
    }

    /// Whether an application's endpoint sends to anybody.
    pub(super) fn has_source(&self, endpoint: SocketAddr) -> bool {
        let is_its = |mapping: &Mapping| {
            let is_there = mapping.endpoint.is_some_and(|its| its.address == endpoint);
            is_there && matches!(mapping.side, Side::Forward(_))
        };
        self.iter().any(|(_, mapping)| is_its(mapping))
    }

    /// The mapping by which a peer's capture, as the peer numbers it, comes to what is exposed at a place.
    pub(super) fn of_capture(&self, peer: AgentId, exposed: usize, capture: u32) -> Option<MappingId> {
        let is_it = |mapping: &Mapping| {
            let is_side = matches!(mapping.side, Side::Network { place, source, .. } if (place, source) == (exposed, capture));
            mapping.peer == peer && is_side
        };
        self.iter().find(|(_, mapping)| is_it(mapping)).map(|(id, _)| id)
    }

    /// Those with any of these peers.
    pub(super) fn of_peers(&self, peers: &[AgentId]) -> Vec<MappingId> {
        self.iter().filter(|(_, mapping)| peers.contains(&mapping.peer)).map(|(id, _)| id).collect()
    }

    /// Those without a datagram for too long. A capture is ready whenever an application is: its first packet waits for nobody.
    pub(super) fn idle(&self, now: Time) -> Vec<MappingId> {
        let is_idle = |mapping: &Mapping| {
            let may_end = !matches!(mapping.side, Side::Capture { .. });
            may_end && mapping.usage.idle(now) >= FLOW_PAIR_IDLE
        };
        self.iter().filter(|(_, mapping)| is_idle(mapping)).map(|(id, _)| id).collect()
    }

    /// Whether what is sent next is worth a copy where not all get one.
    pub(super) fn marks(&mut self, id: MappingId, candidate: &Candidate<'_>) -> bool {
        self.get_mut(id).is_some_and(|mapping| mapping.marking.takes(candidate))
    }

    /// Returns the flow of a mapping whose peer has not answered yet, if no datagram waits for the
    /// answer: the next one may go with the offer. Notes that the mapping is in use.
    pub(super) fn begins(&mut self, id: MappingId, now: Time) -> Option<SendFlowId> {
        let mapping = self.get_mut(id)?;
        let is_first = matches!(&mapping.consent, Consent::Asked(beginning) if !beginning.has_pending);
        is_first.then(|| {
            mapping.usage.note(!mapping.side.is_from_here(), now);
            mapping.sent
        })
    }

    /// Notes that a datagram went with the offer, which the peer may refuse.
    pub(super) fn note_early(&mut self, id: MappingId) {
        if let Some(Mapping { consent: Consent::Asked(beginning), .. }) = self.get_mut(id) {
            beginning.early += 1;
        }
    }

    /// A datagram is to be sent: the mapping is in use, and the datagram waits if it has to.
    pub(super) fn outgoing(&mut self, id: MappingId, datagram: &Datagram<'_>, now: Time) -> Option<Outgoing> {
        let mapping = self.get_mut(id)?;
        mapping.usage.note(!mapping.side.is_from_here(), now);
        let outgoing = match mapping.consent {
            Consent::Given => return Some(Outgoing::Sent(mapping.sent)),
            Consent::Refused(until) if until > now => return Some(Outgoing::Refused),
            Consent::Refused(_) => {
                mapping.consent = Consent::Asked(Beginning::default());
                // Another refusal for want of room may have another mapping make it.
                mapping.refusal = mapping.refusal.filter(|refusal| *refusal != OfferRefusal::NoRoom);
                Outgoing::Asks
            }
            Consent::Asked(_) => Outgoing::Held,
        };
        self.hold(id, datagram, now);
        Some(outgoing)
    }

    /// The peer answers to what it was offered. A mapping that a peer's application began needs no answer.
    pub(super) fn answered(
        &mut self,
        id: MappingId,
        outcome: Result<(), OfferRefusal>,
        now: Time,
    ) -> Option<Answered> {
        let mapping = self.get_mut(id).filter(|mapping| mapping.side.is_from_here())?;
        match outcome {
            Ok(()) => {
                mapping.refusal = None;
                Some(Answered::Consented)
            }
            Err(OfferRefusal::NumberTaken) => Some(Answered::Ends),
            Err(refusal) => {
                let is_news = mapping.refusal.replace(refusal) != Some(refusal);
                if refusal == OfferRefusal::NoRoom {
                    self.refused_by_full(id, now);
                } else {
                    self.refused(id, now + REFUSED_FOR);
                }
                Some(Answered::Refused(is_news.then_some(refusal)))
            }
        }
    }

    /// Notes that the peer had no room, and that another mapping makes it: what waits goes on waiting.
    pub(super) fn note_full_peer(&mut self, id: MappingId) {
        if let Some(mapping) = self.get_mut(id) {
            mapping.refusal = Some(OfferRefusal::NoRoom);
        }
    }

    /// Has a datagram wait for the peer's consent; the oldest make room.
    fn hold(&mut self, id: MappingId, datagram: &Datagram<'_>, now: Time) {
        let Datagram { bytes, traffic_class, marked } = *datagram;
        let Some(Mapping { consent: Consent::Asked(beginning), peer, budget, .. }) =
            self.slots.get_mut(id.0).and_then(Option::as_mut)
        else {
            return;
        };
        beginning.has_pending = true;
        let stale_at = now.saturating_add((*budget).max(PENDING_FOR));
        let bytes = bytes.to_vec();
        let pending = PendingDatagram { mapping: id, came: now, stale_at, traffic_class, marked, bytes };
        self.pending.push(*peer, pending, now);
    }

    /// The peer consents: takes what has not waited too long.
    pub(super) fn consented(&mut self, id: MappingId, now: Time) -> VecDeque<PendingDatagram> {
        let pending = self.take_pending(id);
        let pending = self.pending.without_stale(pending, now);
        if let Some(mapping) = self.get_mut(id) {
            mapping.consent = Consent::Given;
        }
        pending
    }

    /// The peer refuses: what waits is dropped.
    fn refused(&mut self, id: MappingId, until: Time) {
        self.pending_refused += self.drop_pending(id);
        if let Some(mapping) = self.get_mut(id) {
            mapping.consent = Consent::Refused(until);
        }
    }

    /// The peer has no mapping left: what waits is dropped, and counted apart.
    fn refused_by_full(&mut self, id: MappingId, now: Time) {
        if let Some(Mapping { consent: Consent::Asked(beginning), .. }) = self.get_mut(id) {
            self.dropped_at_full_peer += beginning.early;
        }
        self.dropped_at_full_peer += self.drop_pending(id);
        self.refused(id, now + FULL_FOR);
    }

    /// Drops what waits for a mapping; returns the number dropped.
    fn drop_pending(&mut self, id: MappingId) -> u64 {
        self.take_pending(id).len() as u64
    }

    fn take_pending(&mut self, id: MappingId) -> VecDeque<PendingDatagram> {
        let Some(Mapping { consent: Consent::Asked(beginning), peer, .. }) =
            self.slots.get_mut(id.0).and_then(Option::as_mut)
        else {
            return VecDeque::new();
        };
        if !core::mem::take(&mut beginning.has_pending) {
            return VecDeque::new();
        }
        self.pending.take(*peer, id)
    }

    /// Drops datagrams that have waited too long.
    pub(super) fn expire_pending(&mut self, now: Time) {
        self.pending.expire(now);
    }
}
