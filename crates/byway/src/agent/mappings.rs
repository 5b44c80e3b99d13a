//! The proxy's mappings: which application's endpoint stands for which two flows.
//!
//! A mapping is endpoint-independent in the sense of RFC 4787: all that one application's endpoint sends to one peer leaves
//! the peer's machine from one port, whatever it is sent to there.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use byway_net::SocketId;
use byway_proto::agent::{OfferRefusal, ReceiveFlowId, SendFlowId, Traffic};
use byway_proto::limits::{FLOW_PAIR_IDLE, FLOW_PAIRS_MAX};
use byway_proto::marking::{Candidate, Marking};
use byway_units::{AgentId, Duration, FlowId, Time};
use byway_wire::Ecn;

use super::limits::{HELD_BYTES_MAX, HELD_DATAGRAMS_MAX, HELD_FOR, REFUSED_FOR};

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
    /// What a peer is told that a capture is known by, in each run the same; the endpoints of sockets have other numbers.
    pub(super) fn number(self) -> u32 {
        let (place, traffic) = match self {
            Self::Capture { place, traffic } => (place, traffic),
            Self::Forward(_) | Self::Exposed { .. } | Self::Network { .. } => return 0,
        };
        u32::try_from(place).unwrap_or(u32::MAX / 2) * 2 + u32::from(traffic != Traffic::CongestionControlled)
    }

    /// Whether the mapping began here, and the peer is to consent.
    pub(super) const fn is_from_here(self) -> bool {
        matches!(self, Self::Forward(_) | Self::Capture { .. })
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
    /// Where the application, or the target, is; `None`: behind the device.
    pub(super) endpoint: Option<Endpoint>,
    pub(super) side: Side,
    /// Which of its packets are marked.
    pub(super) marking: Marking,
    pub(super) consent: Consent,
    /// Why the peer refused last, since it consented.
    pub(super) refusal: Option<OfferRefusal>,
    /// When a datagram of the mapping came or went last.
    pub(super) used: Time,
    /// The longest datagram that is sent as one packet, once the agent has found that out.
    pub(super) whole: Option<u16>,
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
    pub(super) ecn: Ecn,
    /// Whether it is worth a copy where not all get one.
    pub(super) marked: bool,
}

/// A datagram that waits.
#[derive(Debug)]
pub(super) struct HeldDatagram {
    pub(super) came: Time,
    pub(super) ecn: Ecn,
    pub(super) marked: bool,
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
    by_endpoint: BTreeMap<Endpoint, MappingId>,
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
        self.count() < FLOW_PAIRS_MAX
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
        self.slots[id.0] = Some(mapping);
        id
    }

    /// Removes a mapping, with what waits in it.
    pub(super) fn remove(&mut self, id: MappingId) -> Option<Mapping> {
        self.drop_held(id, Time::MAX);
        let mapping = self.slots.get_mut(id.0)?.take()?;
        self.free.push(id);
        if let Some(endpoint) = mapping.endpoint {
            self.by_endpoint.remove(&endpoint);
        }
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
    pub(super) fn of_endpoint(&self, endpoint: Endpoint) -> Option<MappingId> {
        self.by_endpoint.get(&endpoint).copied()
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
            may_end && now.saturating_since(mapping.used) >= FLOW_PAIR_IDLE
        };
        self.iter().filter(|(_, mapping)| is_idle(mapping)).map(|(id, _)| id).collect()
    }

    /// Whether what is sent next is worth a copy where not all get one.
    pub(super) fn marks(&mut self, id: MappingId, candidate: &Candidate<'_>) -> bool {
        self.get_mut(id).is_some_and(|mapping| mapping.marking.takes(candidate))
    }

    /// A datagram is to be sent: the mapping is in use, and the datagram waits if it has to.
    pub(super) fn outgoing(&mut self, id: MappingId, datagram: &Datagram<'_>, now: Time) -> Option<Outgoing> {
        let mapping = self.get_mut(id)?;
        mapping.used = now;
        let outgoing = match mapping.consent {
            Consent::Given => return Some(Outgoing::Sent(mapping.sent)),
            Consent::Refused(until) if until > now => return Some(Outgoing::Refused),
            Consent::Refused(_) => {
                mapping.consent = Consent::Asked(Held::default());
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
                self.refused(id, now + REFUSED_FOR);
                Some(Answered::Refused(is_news.then_some(refusal)))
            }
        }
    }

    /// Has a datagram wait for the peer's consent; the oldest make room.
    fn hold(&mut self, id: MappingId, datagram: &Datagram<'_>, now: Time) {
        let Datagram { bytes, ecn, marked } = *datagram;
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
        held.0.push_back(HeldDatagram { came: now, ecn, marked, bytes: bytes.to_vec() });
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
    fn refused(&mut self, id: MappingId, until: Time) {
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

#[cfg(test)]
pub(super) mod tests {
    use byway_aws_lc::AwsLc;
    use byway_code::Engine;
    use byway_proto::agent::{Agent, AgentIdentity, FlowSettings, Peer, flow_between};
    use byway_wire::seal::{PreSharedKey, StaticSecret, Suite};

    use super::*;

    const PEER: AgentId = AgentId::new(2);
    const REFUSED: Result<(), OfferRefusal> = Err(OfferRefusal::NotAllowed);

    pub(in super::super) fn endpoint(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    /// Flows that are open somewhere.
    fn flows() -> (SendFlowId, ReceiveFlowId) {
        let (own, now) = (AgentId::new(1), Time::START);
        let secret = |byte| StaticSecret::from_bytes([byte; 32]);
        let suite = Suite::ChaCha20Poly1305;
        let identity = AgentIdentity { number: own, secret: secret(1), suite, started_unix_nanos: 1 };
        let mut agent = Agent::new(identity, Engine::fastest(), &AwsLc, [0; 32], now);
        let (key, pre_shared) = (secret(2).public_key(), PreSharedKey::default());
        agent.add_peer(Peer { number: PEER, key, pre_shared, addresses: vec![] }, now);
        let (settings, flow) = (FlowSettings::default(), FlowId::new(2));
        let sent = agent.open_flow(flow_between(own, PEER, flow), settings.clone(), now);
        let received = agent.accept_flow(flow_between(PEER, own, flow), settings, now);
        sent.zip(received).expect("the peer was added")
    }

    fn mapping(peer: AgentId, flow: u16, endpoint: SocketAddr, side: Side, consent: Consent) -> Mapping {
        let (sent, received) = flows();
        let endpoint = Some(Endpoint { socket: SocketId::OVERLAY, address: endpoint });
        let (flow, marking, used) = (FlowId::new(flow), Marking::default(), Time::START);
        Mapping {
            peer,
            flow,
            sent,
            received,
            endpoint,
            side,
            marking,
            consent,
            refusal: None,
            used,
            whole: None,
        }
    }

    /// A mapping that a peer's application began.
    pub(in super::super) fn incoming(peer: AgentId, flow: u16, endpoint: SocketAddr) -> Mapping {
        mapping(peer, flow, endpoint, Side::Exposed { place: 0, source: 9 }, Consent::Given)
    }

    /// So many of them, with peers by number.
    pub(in super::super) fn filled(count: usize, peer: impl Fn(u32) -> AgentId) -> Mappings {
        let mut mappings = Mappings::default();
        for number in (0..=u16::MAX).take(count) {
            mappings.add(incoming(peer(u32::from(number)), number, endpoint(number)));
        }
        mappings
    }

    fn at(ms: u64) -> Time {
        Time::START + Duration::from_millis(ms)
    }

    /// An application's mapping, whose peer was asked.
    fn asked() -> (Mappings, MappingId) {
        let mut mappings = Mappings::default();
        let consent = Consent::Asked(Held::default());
        let id = mappings.add(mapping(PEER, 2, endpoint(5_000), Side::Forward(0), consent));
        (mappings, id)
    }

    fn send(mappings: &mut Mappings, id: MappingId, bytes: &[u8], ms: u64) -> Option<Outgoing> {
        mappings.outgoing(id, &Datagram { bytes, ecn: Ecn::NotCapable, marked: false }, at(ms))
    }

    #[test]
    fn datagrams_wait_for_consent_and_then_go_in_order() {
        let (mut mappings, id) = asked();
        for number in 0..3 {
            assert_eq!(send(&mut mappings, id, &[number], 0), Some(Outgoing::Held));
        }
        assert_eq!(mappings.answered(id, Ok(()), at(1)), Some(Answered::Consented));
        let held = mappings.consented(id, Duration::ZERO, at(1));
        assert!(held.iter().map(|held| held.bytes[0]).eq(0..3));
        assert!(matches!(send(&mut mappings, id, &[3], 2), Some(Outgoing::Sent(_))));
        assert_eq!((mappings.held_bytes, mappings.held_dropped), (0, 0));
    }

    #[test]
    fn what_waited_too_long_is_dropped_and_the_latency_budget_lengthens_that() {
        for (budget_ms, sent) in [(0, 1), (1_500, 2)] {
            let (mut mappings, id) = asked();
            send(&mut mappings, id, &[0], 0);
            send(&mut mappings, id, &[1], 1_000);
            let held = mappings.consented(id, Duration::from_millis(budget_ms), at(1_500));
            assert_eq!((held.len(), mappings.held_dropped), (sent, 2 - sent as u64), "{budget_ms}");
        }
    }

    #[test]
    fn of_too_many_that_wait_the_oldest_are_dropped_and_bytes_have_a_limit() {
        let (mut mappings, id) = asked();
        let datagram = vec![0; 1_000];
        for _ in 0..HELD_DATAGRAMS_MAX + 3 {
            send(&mut mappings, id, &datagram, 0);
        }
        assert_eq!((mappings.held_bytes, mappings.held_dropped), (HELD_DATAGRAMS_MAX * 1_000, 3));
        mappings.held_bytes = HELD_BYTES_MAX - 999;
        let other = mapping(PEER, 4, endpoint(5_001), Side::Forward(0), Consent::Asked(Held::default()));
        let other = mappings.add(other);
        send(&mut mappings, other, &datagram, 0);
        assert_eq!((mappings.held_bytes, mappings.held_dropped), (HELD_BYTES_MAX - 999, 4));
    }

    #[test]
    fn a_peer_that_refuses_is_asked_again_after_a_while_and_only_for_a_datagram() {
        let (mut mappings, id) = asked();
        send(&mut mappings, id, &[0], 0);
        let refused = Some(Answered::Refused(Some(OfferRefusal::NotAllowed)));
        assert_eq!(mappings.answered(id, REFUSED, at(0)), refused);
        assert_eq!((mappings.held_bytes, mappings.held_dropped), (0, 1));
        assert_eq!(send(&mut mappings, id, &[1], 4_999), Some(Outgoing::Refused));
        assert_eq!(send(&mut mappings, id, &[2], 5_000), Some(Outgoing::Asks));
        assert_eq!(send(&mut mappings, id, &[3], 5_001), Some(Outgoing::Held));
        assert_eq!(mappings.consented(id, Duration::ZERO, at(5_002)).len(), 2);
    }

    #[test]
    fn the_same_refusal_is_news_only_once() {
        let (mut mappings, id) = asked();
        let mut answered = |outcome| mappings.answered(id, outcome, at(0));
        let (no_room, news) = (OfferRefusal::NoRoom, |refusal| Some(Answered::Refused(Some(refusal))));
        assert_eq!(answered(REFUSED), news(OfferRefusal::NotAllowed));
        assert_eq!(answered(REFUSED), Some(Answered::Refused(None)));
        assert_eq!(answered(Err(no_room)), news(no_room));
        assert_eq!(answered(Ok(())), Some(Answered::Consented));
        assert_eq!(answered(Err(no_room)), news(no_room), "it consented since");
        assert_eq!(answered(Err(OfferRefusal::NumberTaken)), Some(Answered::Ends));
    }

    #[test]
    fn only_what_was_offered_is_answered() {
        let mut mappings = Mappings::default();
        let id = mappings.add(incoming(PEER, 3, endpoint(7)));
        assert_eq!(mappings.answered(id, REFUSED, at(0)), None);
        assert!(matches!(send(&mut mappings, id, &[1], 0), Some(Outgoing::Sent(_))));
    }

    #[test]
    fn a_mapping_is_found_by_what_it_stands_for_until_it_is_removed_and_its_place_is_used_again() {
        let (mut mappings, id) = asked();
        send(&mut mappings, id, &[0], 0);
        assert_eq!(
            mappings.of_endpoint(Endpoint { socket: SocketId::OVERLAY, address: endpoint(5_000) }),
            Some(id)
        );
        assert_eq!(mappings.of_flow(PEER, FlowId::new(2)), Some(id));
        assert!(mappings.has_source(endpoint(5_000)) && mappings.begun_by(PEER).is_empty());
        assert!(mappings.remove(id).is_some() && mappings.remove(id).is_none());
        assert_eq!((mappings.count(), mappings.held_bytes, mappings.held_dropped), (0, 0, 1));
        assert_eq!(
            mappings.of_endpoint(Endpoint { socket: SocketId::OVERLAY, address: endpoint(5_000) }),
            None
        );
        assert_eq!(mappings.of_flow(PEER, FlowId::new(2)), None);
        assert_eq!(send(&mut mappings, id, &[0], 0), None);
        let again = mappings.add(incoming(PEER, 3, endpoint(7)));
        assert_eq!((again, mappings.begun_by(PEER)), (id, vec![id]));
        assert!(!mappings.has_source(endpoint(7)), "a target is no source");
    }

    #[test]
    fn a_mapping_without_datagrams_is_idle_after_five_minutes() {
        let (mut mappings, id) = asked();
        send(&mut mappings, id, &[0], 10_000);
        assert_eq!(mappings.idle(at(309_999)), []);
        assert_eq!(mappings.idle(at(310_000)), [id]);
    }
}
