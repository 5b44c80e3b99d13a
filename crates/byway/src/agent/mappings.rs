//! The proxy's mappings: each maps an application's endpoint to two flows.
//!
//! A mapping is endpoint-independent in the sense of RFC 4787. All datagrams of one application's
//! endpoint to one peer leave the peer's machine from one port, whichever target they go to there.

mod eviction;
mod pending;
#[cfg(test)]
pub(super) mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use byway_net::SocketId;
use byway_proto::LocalAddress;
use byway_proto::agent::{OfferRefusal, ReceiveFlowId, SendFlowId, Traffic};
use byway_proto::conventions::PairUse;
use byway_proto::copy_selection::{Marking, MarkingInput};
use byway_proto::limits::FLOW_PAIR_IDLE;
use byway_units::{AgentId, Duration, FlowId, Time};
use byway_wire::TrafficClass;

use eviction::OwnerUsage;
pub(super) use eviction::{MappingsExhausted, Owner};
pub(super) use pending::{PendingDatagram, PendingDatagrams};

use super::limits::{FULL_RETRY_INTERVAL, PENDING_LIFETIME_MIN, REFUSAL_RETRY_INTERVAL};
use crate::settings::MappingLimits;

/// Index of a mapping in the table of mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MappingId(usize);

/// End of the mapping at which this agent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// An application here sends to the forward of this index.
    Forward(usize),
    /// A peer's application sends to a resource that is exposed here.
    Exposed {
        /// Index of the exposed resource.
        index: usize,
        /// The peer's number for the application's endpoint.
        source: u32,
    },
    /// Packets of a capture here go to a peer's network.
    Capture {
        /// Index of the capture.
        index: usize,
        /// Kind of the capture's packets.
        traffic: Traffic,
    },
    /// Packets that a peer captures go to a network that is exposed here.
    Network {
        /// Index of the exposed network.
        index: usize,
        /// Kind of the capture's packets.
        traffic: Traffic,
        /// The peer's number for its capture.
        source: u32,
    },
}

impl Side {
    /// True if the mapping began here, and so needs the peer's consent.
    pub(super) const fn is_from_here(self) -> bool {
        matches!(self, Self::Forward(_) | Self::Capture { .. })
    }

    /// True if the mapping may be evicted for another one. All connections of a capture share one
    /// mapping, which is never idle for good.
    const fn is_evictable(self) -> bool {
        matches!(self, Self::Forward(_) | Self::Exposed { .. })
    }
}

/// Address of an application or a target, and the socket that exchanges datagrams with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Endpoint {
    pub(super) socket: SocketId,
    pub(super) address: SocketAddr,
}

/// Consent of the peer to a mapping.
#[derive(Debug)]
pub(super) enum Consent {
    /// The agent has offered the mapping, and the peer has not answered yet.
    Requested(OfferState),
    /// The peer has consented to the mapping.
    Granted,
    /// The peer has refused the mapping. The agent does not offer it again before this time.
    Refused(Time),
}

/// Mapping of an application's or a target's endpoint to two flows, one in each direction.
#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) peer: AgentId,
    pub(super) flow: FlowId,
    pub(super) sent: SendFlowId,
    pub(super) received: ReceiveFlowId,
    /// Endpoint of the application or the target; `None` if it is behind the device.
    pub(super) endpoint: Option<Endpoint>,
    /// Local address that the application sends to, and that answers leave from.
    pub(super) local_address: LocalAddress,
    /// Time of the latest datagram from the mapping's endpoint.
    pub(super) sent_last: Time,
    pub(super) side: Side,
    /// Selection of the packets that get a copy even if not all do.
    pub(super) marking: Marking,
    pub(super) consent: Consent,
    /// Reason of the latest refusal, unless the peer has consented since then.
    pub(super) refusal: Option<OfferRefusal>,
    /// Latency budget of the flow sent. A datagram that has waited longer than this, and longer
    /// than [`PENDING_LIFETIME_MIN`], is stale.
    pub(super) budget: Duration,
    /// Times of the latest datagrams in each direction, and whether both ends have sent any.
    pub(super) usage: PairUse,
    /// Longest datagram, in bytes, that is sent as one packet; `None` until the agent knows the
    /// path MTU.
    pub(super) unfragmented_max: Option<u16>,
}

impl Mapping {
    /// Records a datagram from the peer as a use of the mapping. If the mapping began here, the
    /// datagram counts as an answer.
    pub(super) const fn note_arrival(&mut self, now: Time) {
        self.usage.note(self.side.is_from_here(), now);
    }

    /// Returns the owner whose limit counts this mapping.
    pub(super) fn owner(&self) -> Owner {
        match self.endpoint {
            _ if !self.side.is_from_here() => Owner::Peer(self.peer),
            Some(endpoint) => Owner::of(endpoint),
            None => Owner::Here,
        }
    }
}

/// Outcome of a datagram that an application or a target wants to send through a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendOutcome {
    /// The peer has consented: the caller sends the datagram in this flow.
    Sent(SendFlowId),
    /// The datagram waits for the peer's answer to the offer.
    Queued,
    /// The datagram waits, and the caller offers the mapping again.
    OfferAgain,
    /// The peer has refused the mapping, and the datagram is dropped.
    Refused,
}

/// Outcome of a peer's answer to an offer, for the caller to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OfferOutcome {
    /// The peer consents: the caller sends the waiting datagrams.
    Consented,
    /// The flow number is in use at the peer: the caller closes the mapping, and the next datagram
    /// begins another one.
    Closed,
    /// The peer refuses: datagrams are dropped until the next offer. The reason is present if it
    /// differs from the previous one.
    Refused(Option<OfferRefusal>),
}

/// Datagram to send to a mapping's peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Datagram<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) traffic_class: TrafficClass,
    /// True if the settings' `marks` select the datagram: it gets a copy even if not all datagrams
    /// do.
    pub(super) marked: bool,
}

/// State of an offer that the peer has not answered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OfferState {
    /// Number of datagrams sent together with the offer, before its answer.
    early: u64,
    /// True if a datagram was queued since the offer. Later datagrams are then queued, too, to
    /// preserve the order.
    has_pending: bool,
}

/// Table of all mappings.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    slots: Vec<Option<Mapping>>,
    free: Vec<MappingId>,
    by_endpoint: BTreeMap<Endpoint, MappingId>,
    by_flow: BTreeMap<(AgentId, FlowId), MappingId>,
    by_received: BTreeMap<ReceiveFlowId, MappingId>,
    limits: MappingLimits,
    owners: BTreeMap<Owner, OwnerUsage>,
    /// Time before which no mapping is evictable, as an earlier search found.
    in_use_until: Time,
    pub(super) pending: PendingDatagrams,
    /// Datagrams dropped because their peer refused them, or their mapping ended, while they
    /// waited.
    pub(super) pending_refused: u64,
    /// Datagrams dropped, sent early or queued, because their peer had no mapping left.
    pub(super) dropped_at_full_peer: u64,
}

impl Mappings {
    /// Returns the number of mappings in the table.
    pub(super) const fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds a mapping. Neither its endpoint nor its flow may have one already.
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
        self.count_added(mapping.owner());
        self.slots[id.0] = Some(mapping);
        id
    }

    /// Removes a mapping, returns it, and drops its waiting datagrams.
    pub(super) fn remove(&mut self, id: MappingId) -> Option<Mapping> {
        self.pending_refused += self.drop_pending(id);
        let mapping = self.slots.get_mut(id.0)?.take()?;
        self.free.push(id);
        if let Some(endpoint) = mapping.endpoint {
            self.by_endpoint.remove(&endpoint);
        }
        self.by_flow.remove(&(mapping.peer, mapping.flow));
        self.by_received.remove(&mapping.received);
        self.count_removed(mapping.owner());
        Some(mapping)
    }

    pub(super) fn get(&self, id: MappingId) -> Option<&Mapping> {
        self.slots.get(id.0)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: MappingId) -> Option<&mut Mapping> {
        self.slots.get_mut(id.0)?.as_mut()
    }

    /// Returns the mapping of an application's or a target's endpoint at a socket.
    pub(super) fn of_endpoint(&self, endpoint: Endpoint) -> Option<MappingId> {
        self.by_endpoint.get(&endpoint).copied()
    }

    /// Records that a mapping's endpoint sent a datagram to a local address. A forward's answers
    /// leave from that address, because applications expect it.
    pub(super) fn note_sent(&mut self, id: MappingId, to: LocalAddress, now: Time) {
        let Some(mapping) = self.get_mut(id) else {
            return;
        };
        mapping.sent_last = now;
        if matches!(mapping.side, Side::Forward(_)) {
            mapping.local_address = to;
        }
    }

    /// Returns the mapping with a peer that has this flow number.
    pub(super) fn of_flow(&self, peer: AgentId, flow: FlowId) -> Option<MappingId> {
        self.by_flow.get(&(peer, flow)).copied()
    }

    /// Returns the mapping of a received flow.
    pub(super) fn of_received(&self, flow: ReceiveFlowId) -> Option<MappingId> {
        self.by_received.get(&flow).copied()
    }

    /// Returns all mappings of the table, with their indices.
    pub(super) fn iter(&self) -> impl Iterator<Item = (MappingId, &Mapping)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(index, mapping)| Some((MappingId(index), mapping.as_ref()?)))
    }

    /// Returns the mappings that a peer's applications or captures began.
    pub(super) fn initiated_by(&self, peer: AgentId) -> Vec<MappingId> {
        let is_its = |mapping: &Mapping| mapping.peer == peer && !mapping.side.is_from_here();
        self.iter().filter(|(_, mapping)| is_its(mapping)).map(|(id, _)| id).collect()
    }

    /// True if an application's endpoint still has a mapping of any forward.
    pub(super) fn has_source(&self, endpoint: SocketAddr) -> bool {
        let is_its = |mapping: &Mapping| {
            let is_there = mapping.endpoint.is_some_and(|its| its.address == endpoint);
            is_there && matches!(mapping.side, Side::Forward(_))
        };
        self.iter().any(|(_, mapping)| is_its(mapping))
    }

    /// Returns the mapping from a peer's capture to an exposed network. `exposed` is the network's
    /// index, `capture` the peer's number for its capture.
    pub(super) fn of_capture(&self, peer: AgentId, exposed: usize, capture: u32) -> Option<MappingId> {
        let is_it = |mapping: &Mapping| {
            let is_side = matches!(mapping.side, Side::Network { index, source, .. } if (index, source) == (exposed, capture));
            mapping.peer == peer && is_side
        };
        self.iter().find(|(_, mapping)| is_it(mapping)).map(|(id, _)| id)
    }

    /// Returns the mappings with any of these peers.
    pub(super) fn of_peers(&self, peers: &[AgentId]) -> Vec<MappingId> {
        self.iter().filter(|(_, mapping)| peers.contains(&mapping.peer)).map(|(id, _)| id).collect()
    }

    /// Returns the mappings that have been idle for [`FLOW_PAIR_IDLE`]. Mappings of captures here
    /// are never among them, because an application's first packet must not wait.
    pub(super) fn idle(&self, now: Time) -> Vec<MappingId> {
        let is_idle = |mapping: &Mapping| {
            let may_end = !matches!(mapping.side, Side::Capture { .. });
            may_end && mapping.usage.idle(now) >= FLOW_PAIR_IDLE
        };
        self.iter().filter(|(_, mapping)| is_idle(mapping)).map(|(id, _)| id).collect()
    }

    /// True if the mapping's `marks` select the packet: it gets a copy even if not all packets do.
    pub(super) fn is_marked(&mut self, id: MappingId, candidate: &MarkingInput<'_>) -> bool {
        self.get_mut(id).is_some_and(|mapping| mapping.marking.should_mark(candidate))
    }

    /// Returns the flow of a mapping whose next datagram may accompany the unanswered offer; `None`
    /// if the peer has answered, or a datagram waits. Records that the mapping is in use.
    pub(super) fn early_flow(&mut self, id: MappingId, now: Time) -> Option<SendFlowId> {
        let mapping = self.get_mut(id)?;
        let is_first = matches!(&mapping.consent, Consent::Requested(offer) if !offer.has_pending);
        is_first.then(|| {
            mapping.usage.note(!mapping.side.is_from_here(), now);
            mapping.sent
        })
    }

    /// Counts a datagram that was sent together with its mapping's offer, which the peer may
    /// refuse.
    pub(super) fn note_early(&mut self, id: MappingId) {
        if let Some(Mapping { consent: Consent::Requested(offer), .. }) = self.get_mut(id) {
            offer.early += 1;
        }
    }

    /// Decides about a datagram to send: queues it if the peer has not consented yet. Records that
    /// the mapping is in use. Returns `None` if there is no such mapping.
    pub(super) fn on_outgoing(
        &mut self,
        id: MappingId,
        datagram: &Datagram<'_>,
        now: Time,
    ) -> Option<SendOutcome> {
        let mapping = self.get_mut(id)?;
        mapping.usage.note(!mapping.side.is_from_here(), now);
        let outgoing = match mapping.consent {
            Consent::Granted => return Some(SendOutcome::Sent(mapping.sent)),
            Consent::Refused(until) if until > now => return Some(SendOutcome::Refused),
            Consent::Refused(_) => {
                mapping.consent = Consent::Requested(OfferState::default());
                // If the peer is full again, another mapping may be evicted there.
                mapping.refusal = mapping.refusal.filter(|refusal| *refusal != OfferRefusal::Full);
                SendOutcome::OfferAgain
            }
            Consent::Requested(_) => SendOutcome::Queued,
        };
        self.queue_pending(id, datagram, now);
        Some(outgoing)
    }

    /// Handles the peer's answer to the offer of a mapping. Returns `None` for a mapping that the
    /// peer began, because that one was not offered.
    pub(super) fn on_offer_answer(
        &mut self,
        id: MappingId,
        outcome: Result<(), OfferRefusal>,
        now: Time,
    ) -> Option<OfferOutcome> {
        let mapping = self.get_mut(id).filter(|mapping| mapping.side.is_from_here())?;
        match outcome {
            Ok(()) => {
                mapping.refusal = None;
                Some(OfferOutcome::Consented)
            }
            Err(OfferRefusal::NumberInUse) => Some(OfferOutcome::Closed),
            Err(refusal) => {
                let is_new_reason = mapping.refusal.replace(refusal) != Some(refusal);
                if refusal == OfferRefusal::Full {
                    self.on_peer_full(id, now);
                } else {
                    self.on_refusal(id, now + REFUSAL_RETRY_INTERVAL);
                }
                Some(OfferOutcome::Refused(is_new_reason.then_some(refusal)))
            }
        }
    }

    /// Records that the peer refused the mapping because it was full, and that another mapping is
    /// evicted for it. The waiting datagrams stay queued.
    pub(super) fn note_full_peer(&mut self, id: MappingId) {
        if let Some(mapping) = self.get_mut(id) {
            mapping.refusal = Some(OfferRefusal::Full);
        }
    }

    /// Queues a datagram until the peer consents; the queue drops the oldest ones beyond its
    /// limits. Does nothing if the mapping's offer is answered.
    fn queue_pending(&mut self, id: MappingId, datagram: &Datagram<'_>, now: Time) {
        let Datagram { bytes, traffic_class, marked } = *datagram;
        let Some(Mapping { consent: Consent::Requested(offer), peer, budget, .. }) =
            self.slots.get_mut(id.0).and_then(Option::as_mut)
        else {
            return;
        };
        offer.has_pending = true;
        let stale_at = now.saturating_add((*budget).max(PENDING_LIFETIME_MIN));
        let bytes = bytes.to_vec();
        let pending =
            PendingDatagram { mapping: id, arrived_at: now, stale_at, traffic_class, marked, bytes };
        self.pending.push(*peer, pending, now);
    }

    /// Records the peer's consent; returns the waiting datagrams that are not stale.
    pub(super) fn on_consent(&mut self, id: MappingId, now: Time) -> VecDeque<PendingDatagram> {
        let pending = self.drain_pending(id);
        let pending = self.pending.without_stale(pending, now);
        if let Some(mapping) = self.get_mut(id) {
            mapping.consent = Consent::Granted;
        }
        pending
    }

    /// Records the peer's refusal until a time, and drops the waiting datagrams.
    fn on_refusal(&mut self, id: MappingId, until: Time) {
        self.pending_refused += self.drop_pending(id);
        if let Some(mapping) = self.get_mut(id) {
            mapping.consent = Consent::Refused(until);
        }
    }

    /// Handles the peer's refusal for lack of mappings: drops the waiting datagrams, and counts
    /// them and the early ones separately.
    fn on_peer_full(&mut self, id: MappingId, now: Time) {
        if let Some(Mapping { consent: Consent::Requested(offer), .. }) = self.get_mut(id) {
            self.dropped_at_full_peer += offer.early;
        }
        self.dropped_at_full_peer += self.drop_pending(id);
        self.on_refusal(id, now + FULL_RETRY_INTERVAL);
    }

    /// Drops the datagrams of a mapping that wait for consent; returns their number.
    fn drop_pending(&mut self, id: MappingId) -> u64 {
        self.drain_pending(id).len() as u64
    }

    fn drain_pending(&mut self, id: MappingId) -> VecDeque<PendingDatagram> {
        let Some(Mapping { consent: Consent::Requested(offer), peer, .. }) =
            self.slots.get_mut(id.0).and_then(Option::as_mut)
        else {
            return VecDeque::new();
        };
        if !core::mem::take(&mut offer.has_pending) {
            return VecDeque::new();
        }
        self.pending.remove_mapping(*peer, id)
    }

    /// Drops the waiting datagrams of all mappings that have become stale.
    pub(super) fn expire_pending(&mut self, now: Time) {
        self.pending.expire(now);
    }
}
