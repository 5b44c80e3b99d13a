//! Tests of the begin, wait, answer and end of mappings.

use byway_aws_lc::AwsLc;
use byway_code::Engine;
use byway_proto::LocalAddress;
use byway_proto::agent::{Agent, AgentIdentity, FlowSettings, Peer, flow_between};
use byway_wire::seal::{PreSharedKey, StaticSecret, Suite};

use super::*;
use crate::agent::limits::PENDING_BYTES_PER_PEER_MAX;

pub(super) const PEER: AgentId = AgentId::new(2);
const REFUSED: Result<(), OfferRefusal> = Err(OfferRefusal::NotAllowed);

pub(in crate::agent) fn endpoint(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

/// Returns a flow in each direction that is open in some agent.
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

pub(super) fn mapping(
    peer: AgentId,
    flow: u16,
    endpoint: SocketAddr,
    side: Side,
    consent: Consent,
) -> Mapping {
    let (sent, received) = flows();
    let endpoint = Some(Endpoint { socket: SocketId::OVERLAY, address: endpoint });
    let (flow, marking, usage) = (FlowId::new(flow), Marking::default(), PairUse::new(Time::START));
    Mapping {
        peer,
        flow,
        sent,
        received,
        endpoint,
        local_address: LocalAddress::ANY,
        sent_last: Time::START,
        side,
        marking,
        consent,
        refusal: None,
        budget: Duration::ZERO,
        usage,
        unfragmented_max: None,
    }
}

/// Returns a mapping that a peer's application began.
pub(in crate::agent) fn incoming(peer: AgentId, flow: u16, endpoint: SocketAddr) -> Mapping {
    mapping(peer, flow, endpoint, Side::Exposed { index: 0, source: 9 }, Consent::Granted)
}

pub(super) fn at(ms: u64) -> Time {
    Time::START + Duration::from_millis(ms)
}

/// Creates a mapping of an application, with an unanswered offer.
fn requested_mapping() -> (Mappings, MappingId) {
    let mut mappings = Mappings::default();
    let consent = Consent::Requested(OfferState::default());
    let id = mappings.add(mapping(PEER, 2, endpoint(5_000), Side::Forward(0), consent));
    (mappings, id)
}

/// Returns the memory of the waiting datagrams, and the number of datagrams that were dropped after
/// a refusal.
fn pending_counts(mappings: &Mappings) -> (usize, u64) {
    (mappings.pending.bytes(), mappings.pending_refused)
}

pub(super) fn send(mappings: &mut Mappings, id: MappingId, bytes: &[u8], ms: u64) -> Option<SendOutcome> {
    mappings.on_outgoing(id, &Datagram { bytes, traffic_class: TrafficClass::DEFAULT, marked: false }, at(ms))
}

#[test]
fn datagrams_wait_for_consent_and_then_go_in_order() {
    let (mut mappings, id) = requested_mapping();
    assert!(mappings.early_flow(id, at(0)).is_some(), "the first may go with the offer");
    for number in 0..3 {
        assert_eq!(send(&mut mappings, id, &[number], 0), Some(SendOutcome::Queued));
    }
    assert_eq!(mappings.early_flow(id, at(0)), None, "those behind one that waits do not");
    assert_eq!(mappings.on_offer_answer(id, Ok(()), at(1)), Some(OfferOutcome::Consented));
    let held = mappings.on_consent(id, at(1));
    assert!(held.iter().map(|held| held.bytes[0]).eq(0..3));
    assert!(matches!(send(&mut mappings, id, &[3], 2), Some(SendOutcome::Sent(_))));
    assert_eq!(pending_counts(&mappings), (0, 0));
}

#[test]
fn what_waited_too_long_is_dropped_and_the_latency_budget_lengthens_that() {
    for (budget_ms, sent) in [(0, 1), (1_500, 2)] {
        let (mut mappings, id) = requested_mapping();
        mappings.get_mut(id).expect("it was added").budget = Duration::from_millis(budget_ms);
        send(&mut mappings, id, &[0], 0);
        send(&mut mappings, id, &[1], 1_000);
        let held = mappings.on_consent(id, at(1_499));
        assert_eq!((held.len(), mappings.pending.stale), (sent, 2 - sent as u64), "{budget_ms}");
    }
}

#[test]
fn of_too_many_bytes_for_a_peer_the_oldest_are_dropped_whatever_mapping_they_have() {
    let (mut mappings, id) = requested_mapping();
    let other =
        mapping(PEER, 4, endpoint(5_001), Side::Forward(0), Consent::Requested(OfferState::default()));
    let other = mappings.add(other);
    let datagram = vec![0; PENDING_BYTES_PER_PEER_MAX / 4];
    for mapping in [id, other, other, other, id] {
        send(&mut mappings, mapping, &datagram, 0);
    }
    assert!(pending_counts(&mappings).0 <= PENDING_BYTES_PER_PEER_MAX);
    assert_eq!(mappings.pending.overflowed, 2);
    assert_eq!((mappings.on_consent(id, at(1)).len(), mappings.on_consent(other, at(1)).len()), (1, 2));
}

#[test]
fn a_peer_that_refuses_is_asked_again_after_a_while_and_only_for_a_datagram() {
    let (mut mappings, id) = requested_mapping();
    send(&mut mappings, id, &[0], 0);
    let refused = Some(OfferOutcome::Refused(Some(OfferRefusal::NotAllowed)));
    assert_eq!(mappings.on_offer_answer(id, REFUSED, at(0)), refused);
    assert_eq!(pending_counts(&mappings), (0, 1));
    assert_eq!(send(&mut mappings, id, &[1], 4_999), Some(SendOutcome::Refused));
    assert_eq!(send(&mut mappings, id, &[2], 5_000), Some(SendOutcome::OfferAgain));
    assert_eq!(send(&mut mappings, id, &[3], 5_001), Some(SendOutcome::Queued));
    assert_eq!(mappings.on_consent(id, at(5_002)).len(), 2);
}

#[test]
fn the_same_refusal_is_news_only_once() {
    let (mut mappings, id) = requested_mapping();
    let mut answered = |outcome| mappings.on_offer_answer(id, outcome, at(0));
    let (no_room, refused_because) =
        (OfferRefusal::Full, |refusal| Some(OfferOutcome::Refused(Some(refusal))));
    assert_eq!(answered(REFUSED), refused_because(OfferRefusal::NotAllowed));
    assert_eq!(answered(REFUSED), Some(OfferOutcome::Refused(None)));
    assert_eq!(answered(Err(no_room)), refused_because(no_room));
    assert_eq!(answered(Ok(())), Some(OfferOutcome::Consented));
    assert_eq!(answered(Err(no_room)), refused_because(no_room), "it consented since");
    assert_eq!(answered(Err(OfferRefusal::NumberInUse)), Some(OfferOutcome::Closed));
}

#[test]
fn only_what_was_offered_is_answered() {
    let mut mappings = Mappings::default();
    let id = mappings.add(incoming(PEER, 3, endpoint(7)));
    assert_eq!(mappings.on_offer_answer(id, REFUSED, at(0)), None);
    assert!(matches!(send(&mut mappings, id, &[1], 0), Some(SendOutcome::Sent(_))));
}

#[test]
fn a_mapping_is_found_by_what_it_stands_for_until_it_is_removed_and_its_place_is_used_again() {
    let (mut mappings, id) = requested_mapping();
    send(&mut mappings, id, &[0], 0);
    assert_eq!(
        mappings.of_endpoint(Endpoint { socket: SocketId::OVERLAY, address: endpoint(5_000) }),
        Some(id)
    );
    assert_eq!(mappings.of_flow(PEER, FlowId::new(2)), Some(id));
    assert!(mappings.has_source(endpoint(5_000)) && mappings.initiated_by(PEER).is_empty());
    assert!(mappings.remove(id).is_some() && mappings.remove(id).is_none());
    assert_eq!((mappings.count(), pending_counts(&mappings)), (0, (0, 1)));
    assert_eq!(mappings.of_endpoint(Endpoint { socket: SocketId::OVERLAY, address: endpoint(5_000) }), None);
    assert_eq!(mappings.of_flow(PEER, FlowId::new(2)), None);
    assert_eq!(send(&mut mappings, id, &[0], 0), None);
    let again = mappings.add(incoming(PEER, 3, endpoint(7)));
    assert_eq!((again, mappings.initiated_by(PEER)), (id, vec![id]));
    assert!(!mappings.has_source(endpoint(7)), "a target is no source");
}

#[test]
fn a_mapping_without_datagrams_is_idle_after_five_minutes() {
    let (mut mappings, id) = requested_mapping();
    send(&mut mappings, id, &[0], 10_000);
    assert_eq!(mappings.idle(at(309_999)), []);
    assert_eq!(mappings.idle(at(310_000)), [id]);
}

#[test]
fn what_waits_for_a_full_peer_is_counted_apart_and_the_peer_asked_again_soon() {
    let (mut mappings, id) = requested_mapping();
    send(&mut mappings, id, &[0], 0);
    let full = mappings.on_offer_answer(id, Err(OfferRefusal::Full), at(0));
    assert_eq!(full, Some(OfferOutcome::Refused(Some(OfferRefusal::Full))));
    assert_eq!(pending_counts(&mappings), (0, 0));
    assert_eq!(mappings.dropped_at_full_peer, 1);
    assert_eq!(send(&mut mappings, id, &[1], 999), Some(SendOutcome::Refused));
    assert_eq!(send(&mut mappings, id, &[2], 1_000), Some(SendOutcome::OfferAgain));
}
