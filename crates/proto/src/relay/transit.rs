//! Packets between relays through a third one.
//!
//! A relay that sends packets to a distant one asks the others for their delays to it. It probes
//! the two through which packets should arrive soonest, and uses one if the probes show a gain. The
//! third relay passes on packets with a label, which it assigns on request.
//!
//! | module | subject |
//! |---|---|
//! | `delivery` | packets sent and received through a third relay |
//! | `distant` | a distant relay: third relays that are probed, and the choice among them |
//! | `labels` | labels of other relays at this one, and their limits |
//! | `table` | table of all of these |

mod delivery;
mod distant;
mod labels;
mod table;

use alloc::boxed::Box;
use alloc::vec::Vec;

use byway_plan::{PathReason, PathSelection};
use byway_units::{Bytes, Duration, Rate, RelayId, Time};
use byway_wire::messages::{
    ProbeReply, RelayDelay, RelayDelayList, TransitReply, TransitRequest, TransitTarget,
};
use byway_wire::packets::TransitPacket;
use byway_wire::{
    Capabilities, Ecn, GrantedRelay, KilobitsPerSecond, Message, Microseconds, SessionIndex, Shard, Timestamp,
};

pub(super) use table::TransitTable;

use distant::{DistantRelay, ThirdRelay, TransitPackets};

use super::Relay;
use crate::limits::{
    IP_AND_UDP_BYTES, TRANSIT_BURST, TRANSIT_DELAY_MIN, TRANSIT_DELAYS_MAX, TRANSIT_IDLE_AFTER,
    TRANSIT_PROBE_INTERVAL, TRANSIT_QUERY_INTERVAL, TRANSIT_RATE, TRANSIT_RATE_EIGHTHS,
    TRANSIT_REFUSED_QUERY_INTERVAL, TRANSIT_REVIEW_INTERVAL,
};
use crate::parts::token_bucket::TokenBucket;
use crate::session::{
    ProbeContext, Route, SessionId, SessionTimes, TransitPath, TransitRoute, open_transit, pass_on,
    send_transit_probe, verifies_label,
};

/// Capabilities of relays whose packets may go through others, and that pass them on.
const CAPABILITIES: Capabilities = Capabilities::TRANSIT.with(Capabilities::DIGESTS);

/// Route of packets to another relay through a third one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransitRouteStatus {
    /// Relay shard that receives the packets.
    pub to: (RelayId, Shard),
    /// Relay shard that passes them on.
    pub through: (RelayId, Shard),
    /// One-way delay through that relay, by the latest probes.
    pub delay: Duration,
    /// One-way delay of the direct path.
    pub direct_delay: Duration,
}

/// Handles a packet between relays that goes through a third one: passes it on if it has a label of
/// this relay, and otherwise opens it.
pub(super) fn on_transit_packet(
    relay: &mut Relay,
    packet: TransitPacket<&mut [u8]>,
    (origin, ecn): (Route, Ecn),
    now: Time,
) {
    if packet.index().is_transit() {
        pass_on_packet(relay, packet, (origin, ecn), now);
        return;
    }
    let received = open_transit(&mut relay.sessions, packet, now);
    relay.counters.transit_received += u64::from(received.session().is_some());
    relay.handle_session_events(now);
    relay.on_inbound(received, Route::Transit, ecn, now);
}

/// Passes on a packet with a label of this relay. It must come from the address of its source, be
/// new, and have the right digest. The source must be within its rate.
fn pass_on_packet(
    relay: &mut Relay,
    packet: TransitPacket<&mut [u8]>,
    (origin, ecn): (Route, Ecn),
    now: Time,
) {
    let Relay { sessions, peers, counters, .. } = relay;
    let labels = &mut peers.transit.labels;
    let Some((label, check)) = packet.index().transit_label() else {
        counters.transit_unknown += 1;
        return;
    };
    let Some(entry) = labels.get_mut(label) else {
        counters.transit_unknown += 1;
        return;
    };
    let (source, target, index) = (entry.source, entry.target, entry.index);
    // The check has two bytes only, so it does not keep out strangers for long.
    let address = sessions.get(source).and_then(|known| known.path.address());
    let is_from_source = matches!(origin, Route::Direct(path) if Some(&path.remote) == address);
    if !is_from_source
        || !verifies_label(sessions, source, (label, check), &packet)
        || !entry.accept(packet.counter_low(), now)
    {
        counters.transit_unknown += 1;
        return;
    }
    let bytes = packet.length() as u64;
    if !labels.may_pass(source, Bytes::new(bytes + IP_AND_UDP_BYTES as u64), now) {
        counters.transit_limited += 1;
    } else if pass_on(sessions, (source, target), (packet, index), ecn) {
        counters.transit_passed += 1;
        counters.transit_passed_bytes += bytes;
    } else {
        counters.transit_unreachable += 1;
    }
}

/// Handles another relay's request for the delays to others, or for a label.
pub(super) fn on_transit_request(relay: &mut Relay, source: SessionId, request: TransitRequest, now: Time) {
    if !relay.peers.transit.labels.may_reply(source, now) {
        relay.counters.transit_refused += 1;
        return;
    }
    let is_offered = relay.peers.transit.is_offered && relay.sessions.has_capabilities(source, CAPABILITIES);
    let target = request.target.filter(|_| is_offered);
    let label = target.and_then(|target| {
        let session = session_of(relay, target.relay).filter(|session| *session != source)?;
        let is_usable = relay.sessions.has_capabilities(session, CAPABILITIES);
        let labels = &mut relay.peers.transit.labels;
        is_usable.then(|| labels.assign((source, session), target.index, now)).flatten()
    });
    relay.counters.transit_refused += u64::from(request.target.is_some() && label.is_none());
    let delays = if is_offered && request.target.is_none() { delays_for(relay, source) } else { Vec::new() };
    let mut scratch = [[0; RelayDelay::BYTES]; TRANSIT_DELAYS_MAX];
    let rate = KilobitsPerSecond::from_rate(if is_offered { TRANSIT_RATE } else { Rate::ZERO });
    let delays = RelayDelayList::collect(&mut delays.into_iter(), &mut scratch);
    let reply = TransitReply { target: request.target, label, rate, delays };
    relay.sessions.queue_message(source, &Message::TransitReply(reply), now);
}

/// Returns the session with another relay shard; `None` if it is unknown.
fn session_of(relay: &Relay, shard: GrantedRelay) -> Option<SessionId> {
    relay.peers.session(relay.peers.find((shard.relay, shard.shard))?)
}

/// Returns the sessions with all other relays that have the capabilities and answer, with their
/// round-trip times. Those whose delay is not measured are left out.
fn measured_relays(relay: &Relay) -> Vec<(SessionId, GrantedRelay, Duration)> {
    let measured = relay.peers.ids().filter_map(|peer| {
        let session = relay.peers.session(peer)?;
        let is_usable = relay.sessions.has_capabilities(session, CAPABILITIES)
            && relay.sessions.get(session).is_some_and(|session| !session.is_dead);
        let round_trip = relay.sessions.measured_round_trip(session).filter(|_| is_usable)?;
        let (number, shard) = relay.peers.relay_shard(peer);
        Some((session, GrantedRelay { relay: number, shard }, round_trip))
    });
    measured.collect()
}

/// Returns the delays to the nearest relays, for the relay of a session.
fn delays_for(relay: &mut Relay, source: SessionId) -> Vec<RelayDelay> {
    let mut known = measured_relays(relay);
    relay.work.entries += known.len() as u64;
    known.retain(|(session, ..)| *session != source);
    known.sort_by_key(|(_, shard, round_trip)| (*round_trip, *shard));
    let delay = |(_, relay, round_trip): (SessionId, GrantedRelay, Duration)| {
        let round_trip = Microseconds::from_duration(round_trip);
        RelayDelay { relay, round_trip }
    };
    known.into_iter().map(delay).collect()
}

/// Handles the answer to a transit request.
pub(super) fn on_transit_reply(relay: &mut Relay, third: SessionId, reply: &TransitReply<'_>, now: Time) {
    relay.work.entries += reply.delays.len() as u64;
    if let Some(TransitTarget { relay: shard, index }) = reply.target {
        let distant = session_of(relay, shard);
        if let Some(state) = distant.and_then(|distant| relay.peers.transit.distant.get_mut(&distant)) {
            state.on_label(third, index, reply.label);
        }
        return;
    }
    let table = &mut relay.peers.transit;
    let Some(offer) = table.offers.get_mut(&third).filter(|offer| offer.is_awaited) else {
        return;
    };
    let round_trips = reply.delays.iter().take(TRANSIT_DELAYS_MAX);
    (offer.is_awaited, offer.rate) = (false, reply.rate.rate());
    offer.round_trips = round_trips.map(|delay| (delay.relay, delay.round_trip.duration())).collect();
    for distant in table.distant.values_mut().filter(|distant| distant.review_at.is_some()) {
        distant.review_at = Some(now);
    }
    table.schedule();
}

/// Handles another relay's answer to a probe on the direct path: measures the path, and begins to
/// look for a third relay if packets need long.
pub(super) fn on_direct_reply(
    relay: &mut Relay,
    session: SessionId,
    reply: &ProbeReply,
    before: ProbeContext,
    now: Time,
) {
    if relay.peers.peer_of_session(session).is_none() {
        return;
    }
    let Some(facts) = facts_of(relay, session, now) else {
        return;
    };
    let is_far = facts.delay >= TRANSIT_DELAY_MIN && relay.peers.ids().nth(1).is_some();
    let table = &mut relay.peers.transit;
    if is_far {
        table.distant.entry(session).or_insert_with(DistantRelay::new);
    }
    let Some(distant) = table.distant.get_mut(&session) else {
        return;
    };
    let sent = relay.sessions.get(session).map_or(0, |session| session.transit.sent);
    let (sent_before, received) = (before.transit_packets, reply.transit_packets);
    let packets = TransitPackets { sent_before, sent, received };
    let round_trip = Timestamp::at(now).since(reply.sent);
    distant.on_direct_reply(round_trip, reply.received.since(reply.sent).count(), packets, now);
    if is_far && distant.review_at.is_none() {
        distant.review_at = Some(now);
        table.schedule();
    }
}

/// Handles another relay's answer to a probe that may have gone through a third relay.
pub(super) fn on_other_reply(relay: &mut Relay, session: SessionId, reply: &ProbeReply, now: Time) {
    if let Some(distant) = relay.peers.transit.distant.get_mut(&session) {
        distant.on_reply(reply.number, reply.received.since(reply.sent).count(), now);
    }
}

/// Handles the loss of another relay: it does not answer, or has restarted (`has_lost_keys`), so
/// labels of either side mean nothing any more.
pub(super) fn on_relay_lost(relay: &mut Relay, session: SessionId, has_lost_keys: bool, now: Time) {
    if relay.peers.peer_of_session(session).is_none() {
        return;
    }
    let table = &mut relay.peers.transit;
    if has_lost_keys {
        table.labels.forget_source(session);
        table.offers.remove(&session);
    }
    if table.distant.contains_key(&session) {
        end_route(relay, session);
    }
    let table = &mut relay.peers.transit;
    for distant in table.distant.values_mut() {
        if distant.on_third_lost(session) {
            distant.review_at = Some(now);
        }
    }
    table.schedule();
}

/// Reviews the distant relays that are due.
pub(super) fn handle_timeout(relay: &mut Relay, now: Time) {
    if relay.peers.transit.deadline().is_none_or(|at| at > now) {
        return;
    }
    for session in relay.peers.transit.due(now) {
        review(relay, session, now);
    }
    relay.peers.transit.schedule();
}

/// Facts about a session with a relay that receives packets.
#[derive(Clone, Copy, Debug)]
struct SessionFacts {
    /// Index that the other relay expects in packets now.
    index: SessionIndex,
    /// One-way delay: half of the round-trip time.
    delay: Duration,
}

/// Returns the facts about a session; `None` if the relay receives no packets, does not answer, or
/// has not the capabilities.
fn facts_of(relay: &Relay, session: SessionId, now: Time) -> Option<SessionFacts> {
    let known = relay.sessions.get(session).filter(|known| !known.is_dead)?;
    let newest = known.epochs.first().filter(|epoch| epoch.may_seal(now))?;
    let SessionTimes { began, used, .. } = known.times;
    let is_in_use = used > began && now.saturating_since(used) < TRANSIT_IDLE_AFTER;
    let is_usable = is_in_use && newest.capabilities.contain(CAPABILITIES);
    let index = Some(newest.remote_index()).filter(|index| is_usable && !index.is_transit())?;
    Some(SessionFacts { index, delay: relay.sessions.measured_round_trip(session)? / 2 })
}

/// Reviews the path of packets to a distant relay: looks for third relays, probes them, and changes
/// the path.
fn review(relay: &mut Relay, session: SessionId, now: Time) {
    let facts = facts_of(relay, session, now);
    // A route in use ends by the comparison of both paths.
    let has_route = relay.peers.transit.distant.get(&session).is_some_and(|known| known.in_use().is_some());
    let Some(facts) = facts.filter(|facts| has_route || facts.delay >= TRANSIT_DELAY_MIN) else {
        end_route(relay, session);
        return;
    };
    let found = find_third_relays(relay, session, facts.delay, now);
    if let Some(distant) = relay.peers.transit.distant.get_mut(&session) {
        distant.add_candidates(&found, now);
    }
    probe_candidates(relay, session, facts.index, now);
    select_path(relay, session, now);
    if let Some(distant) = relay.peers.transit.distant.get_mut(&session) {
        distant.dismiss_candidates(now);
        let is_idle = distant.candidates.is_empty();
        let interval = if is_idle { TRANSIT_REVIEW_INTERVAL } else { TRANSIT_PROBE_INTERVAL };
        distant.review_at = Some(now + interval);
    }
}

/// Returns the third relays through which packets to a distant relay should arrive sooner. Asks
/// those for their delays whose latest answer is old.
fn find_third_relays(relay: &mut Relay, session: SessionId, direct: Duration, now: Time) -> Vec<ThirdRelay> {
    let known = measured_relays(relay);
    let Some(to) = relay.peers.peer_of_session(session).map(|peer| relay.peers.relay_shard(peer)) else {
        return Vec::new();
    };
    relay.work.entries += known.len() as u64;
    let mut found = Vec::new();
    for (third, GrantedRelay { relay: number, .. }, round_trip) in known {
        // The other half of the route takes some time, too.
        if third == session || number == to.0 || round_trip / 2 + TRANSIT_DELAY_MIN / 2 > direct {
            continue;
        }
        ask_for_delays(relay, third, now);
        let offer = relay.peers.transit.offers.get(&third).filter(|offer| !offer.rate.is_zero());
        let onward = offer.and_then(|offer| {
            let entry = offer.round_trips.iter().find(|(shard, _)| (shard.relay, shard.shard) == to)?;
            Some(entry.1)
        });
        if let Some(onward) = onward {
            found.push(ThirdRelay { session: third, number, delay: (round_trip + onward) / 2 });
        }
    }
    found
}

/// Asks another relay for its delays, unless it was asked recently.
fn ask_for_delays(relay: &mut Relay, third: SessionId, now: Time) {
    let offer = relay.peers.transit.offers.entry(third).or_default();
    let interval = match offer.is_awaited {
        true => TRANSIT_REVIEW_INTERVAL,
        false if offer.asked_at.is_some() && offer.rate.is_zero() => TRANSIT_REFUSED_QUERY_INTERVAL,
        false => TRANSIT_QUERY_INTERVAL,
    };
    if offer.asked_at.is_none_or(|at| at + interval <= now) {
        (offer.asked_at, offer.is_awaited) = (Some(now), true);
        let request = TransitRequest { target: None };
        relay.sessions.queue_message(third, &Message::TransitRequest(request), now);
    }
}

/// Probes the third relays of a distant one, and requests labels for the session's present index.
fn probe_candidates(relay: &mut Relay, session: SessionId, index: SessionIndex, now: Time) {
    let Some(peer) = relay.peers.peer_of_session(session) else {
        return;
    };
    let (number, shard) = relay.peers.relay_shard(peer);
    let target = Some(TransitTarget { relay: GrantedRelay { relay: number, shard }, index });
    let Relay { sessions, peers, .. } = relay;
    let Some(distant) = peers.transit.distant.get_mut(&session) else {
        return;
    };
    for candidate in &mut distant.candidates {
        if candidate.poll_request(index, now) {
            let request = Message::TransitRequest(TransitRequest { target });
            sessions.queue_message(candidate.session, &request, now);
        }
        if let Some(path) = candidate.path() {
            candidate.on_probe(send_transit_probe(sessions, session, path, now), now);
        }
    }
}

/// Changes the path of packets to a distant relay if another one is better.
fn select_path(relay: &mut Relay, session: SessionId, now: Time) {
    let Relay { sessions, peers, counters, .. } = relay;
    let TransitTable { distant, offers, .. } = &mut peers.transit;
    let (Some(distant), Some(known)) = (distant.get_mut(&session), sessions.get_mut(session)) else {
        return;
    };
    counters.transit_sent += u64::from(distant.count_sent(known.transit.sent));
    let is_overrun = known.transit.route.as_ref().is_some_and(|route| route.is_overrun);
    let selection = distant.select(is_overrun, now);
    counters.transit_failed += u64::from(selection.is_some_and(is_failure));
    let path = distant.in_use().and_then(distant::Candidate::path);
    match (path, &mut known.transit.route) {
        (Some(path), Some(route)) if selection.is_none() => route.path = path,
        (Some(path), route) => {
            let rate = offers.get(&path.relay).map_or(Rate::ZERO, |offer| offer.rate);
            counters.transit_routes += 1;
            *route = Some(Box::new(new_route(path, rate, now)));
        }
        (None, route) => *route = None,
    }
}

const fn is_failure(selection: PathSelection) -> bool {
    matches!(selection.reason, PathReason::RouteFailed | PathReason::SlowerThanPlanned)
}

/// Returns a route through a third relay that announced this rate.
fn new_route(path: TransitPath, rate: Rate, now: Time) -> TransitRoute {
    let rate = Rate::from_bits_per_second(rate.bits_per_second() / 8 * TRANSIT_RATE_EIGHTHS);
    let allowance = TokenBucket::of_bytes(rate, Bytes::new(TRANSIT_BURST.count() / 2), now);
    TransitRoute { path, allowance, is_overrun: false }
}

/// Ends the route to a distant relay, and the probes.
fn end_route(relay: &mut Relay, session: SessionId) {
    let sent = relay.sessions.get_mut(session).map_or(0, |known| {
        known.transit.route = None;
        known.transit.sent
    });
    if let Some(distant) = relay.peers.transit.distant.get_mut(&session) {
        relay.counters.transit_sent += u64::from(distant.count_sent(sent));
        distant.reset();
    }
}

/// Returns the routes through third relays that are in use.
pub(super) fn routes(relay: &Relay) -> Vec<TransitRouteStatus> {
    let shard_of = |session| Some(relay.peers.relay_shard(relay.peers.peer_of_session(session)?));
    let in_use = relay.peers.transit.distant.iter().filter_map(|(session, distant)| {
        Some(TransitRouteStatus {
            to: shard_of(*session)?,
            through: shard_of(distant.in_use()?.session)?,
            delay: distant.delay_in_use(),
            direct_delay: distant.delay(),
        })
    });
    in_use.collect()
}
