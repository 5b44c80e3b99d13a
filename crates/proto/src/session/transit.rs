//! Packets between two relays that a third relay passes on: sealing, labels and opening.
//!
//! They are sealed under the keys of the session of the two. The session's address does not change
//! by them, and they do not show that its own path works. The third relay recognises its user by
//! two bytes of a digest, under a key of the session with that one.

use alloc::vec::Vec;

use byway_units::{Bytes, Time};
use byway_wire::limits::TAG_BYTES;
use byway_wire::messages::Probe;
use byway_wire::packets::{
    ENVELOPE_OVERHEAD, Envelope, Kind, MESSAGE_OVERHEAD, MessagePacket, TransitPacket,
};
use byway_wire::seal::DigestKey;
use byway_wire::{Alias, Ecn, Message, SessionIndex, Shard, Timestamp, TransitLabel, Writer};

use super::messages::claimed;
use super::receive::opening_epoch;
use super::{EnvelopeContents, Epoch, Inbound, Route, Session, SessionId, Sessions, TransitPath};
use crate::limits::{DATAGRAM_CAPACITY, IP_AND_UDP_BYTES, MESSAGES_BYTES_MAX};
use crate::network_path::NetworkPath;
use crate::outbox::{Owner, Priority, TransmitMeta};

/// Sends coded bytes to a peer relay in an envelope: on the session's route through a third relay
/// if there is one, otherwise directly.
pub(crate) fn relay_envelope(
    sessions: &mut Sessions,
    id: SessionId,
    contents: &EnvelopeContents<'_>,
    now: Time,
) {
    let priority = Priority::Source;
    let bytes = ENVELOPE_OVERHEAD + contents.coded.len();
    if let Some(path) = charge_route(sessions, id, bytes, now) {
        let handling = Handling { ecn: contents.ecn, priority, owner: contents.owner };
        let seal = |epoch: &mut Epoch, out: &mut Vec<u8>| epoch.seal_transit_envelope(contents, out);
        if send_by(sessions, (id, path), handling, now, seal) {
            return;
        }
    }
    sessions.send_envelope(id, contents, priority, now);
}

/// Sends a repair packet to a peer relay, as [`relay_envelope`] does. `owner` names its flows in
/// send queues.
pub(crate) fn relay_repair(
    sessions: &mut Sessions,
    id: SessionId,
    message: &Message<'_>,
    owner: Owner,
    now: Time,
) {
    let has_route = sessions.get(id).is_some_and(|session| session.transit.route.is_some());
    if !has_route || !relay_by_route(sessions, id, message, owner, now) {
        sessions.send_repair(id, message, owner, now);
    }
}

/// Sends a repair packet on the session's route. Returns false if that is not possible.
fn relay_by_route(
    sessions: &mut Sessions,
    id: SessionId,
    message: &Message<'_>,
    owner: Owner,
    now: Time,
) -> bool {
    let mut buffer = core::mem::take(&mut sessions.long_message);
    buffer.resize(DATAGRAM_CAPACITY, 0);
    let mut writer = Writer::new(&mut buffer);
    let mut is_sent = false;
    if message.emit(&mut writer).is_ok() {
        let messages: &[u8] = writer.into_bytes();
        if let Some(path) = charge_route(sessions, id, MESSAGE_OVERHEAD + messages.len(), now) {
            let priority = Priority::Scavenger;
            let handling = Handling { ecn: Ecn::NotCapable, priority, owner: Some(owner) };
            let seal = |epoch: &mut Epoch, out: &mut Vec<u8>| epoch.seal_transit_messages(messages, out);
            is_sent = send_by(sessions, (id, path), handling, now, seal);
        }
    }
    sessions.long_message = buffer;
    is_sent
}

/// Returns the path of the session's route through a third relay, and charges it for a packet of
/// this length. `None` without a route, and beyond the route's limit: packets of two paths overtake
/// each other, so none uses the route from then on.
#[inline]
fn charge_route(sessions: &mut Sessions, id: SessionId, bytes: usize, now: Time) -> Option<TransitPath> {
    let route = sessions.get_mut(id)?.transit.route.as_deref_mut()?;
    if route.is_overrun || route.allowance.available(now) == Bytes::ZERO {
        route.is_overrun = true;
        return None;
    }
    route.allowance.charge(Bytes::from(bytes + IP_AND_UDP_BYTES), now);
    Some(route.path)
}

/// Sends a probe to a peer relay through a third relay, and returns its number. `None` if that
/// relay or the path's keys are out of use.
pub(crate) fn send_transit_probe(
    sessions: &mut Sessions,
    id: SessionId,
    path: TransitPath,
    now: Time,
) -> Option<u32> {
    let session = sessions.get_mut(id)?;
    let number = session.probes.next_number();
    let round_trip = claimed(session.probes.measured());
    let probe = Message::Probe(Probe { number, sent: Timestamp::at(now), round_trip });
    let mut buffer = [0; MESSAGES_BYTES_MAX];
    let mut writer = Writer::new(&mut buffer);
    probe.emit(&mut writer).expect("a probe is shorter than a packet");
    let messages = writer.as_bytes();
    let handling = Handling { ecn: Ecn::NotCapable, priority: Priority::Source, owner: None };
    let seal = |epoch: &mut Epoch, out: &mut Vec<u8>| epoch.seal_transit_messages(messages, out);
    send_by(sessions, (id, path), handling, now, seal).then_some(number)
}

/// Handling of a packet on its way out.
#[derive(Clone, Copy, Debug)]
struct Handling {
    ecn: Ecn,
    priority: Priority,
    owner: Option<Owner>,
}

/// Sends a packet of a session by a path through a third relay; `seal` appends it. Returns false if
/// that relay or the path's keys are out of use.
fn send_by(
    sessions: &mut Sessions,
    (id, path): (SessionId, TransitPath),
    Handling { ecn, priority, owner }: Handling,
    now: Time,
    seal: impl FnOnce(&mut Epoch, &mut Vec<u8>),
) -> bool {
    let Some((next_hop, shard, key)) = next_hop(sessions, path.relay, now) else {
        return false;
    };
    let Sessions { slots, outbox, .. } = sessions;
    let Some(Session { epochs, transit, .. }) = slots.get_mut(id.0 as usize).and_then(Option::as_mut) else {
        return false;
    };
    let is_of_path = |epoch: &&mut Epoch| epoch.remote_index() == path.index && epoch.may_seal(now);
    let Some(epoch) = epochs.iter_mut().find(is_of_path) else {
        return false;
    };
    transit.sent = transit.sent.wrapping_add(1);
    let owner = owner.or(Some(Owner::Session(id.0)));
    outbox.add(TransmitMeta { path: next_hop, ecn, priority, owner }, |out| {
        let start = out.len();
        seal(epoch, out);
        write_label(&mut out[start..], shard, path.label, &key);
    });
    true
}

/// Returns the address of a third relay, its shard, and the key of the digests for it; `None` if it
/// does not answer.
fn next_hop(sessions: &Sessions, relay: SessionId, now: Time) -> Option<(NetworkPath, Shard, DigestKey)> {
    let session = sessions.get(relay).filter(|session| !session.is_dead)?;
    let path = *session.path.network_path()?;
    let newest = session.epochs.first().filter(|epoch| epoch.may_seal(now))?;
    Some((path, session.remote.shard, newest.digests.as_ref()?.send.clone()))
}

/// Replaces the index of a sealed packet by a label of the third relay, and part of a digest.
fn write_label(packet: &mut [u8], shard: Shard, label: TransitLabel, key: &DigestKey) {
    let packet = TransitPacket::parse(packet).expect("the packet was just sealed");
    let check = check_of(key, label, packet.counter_low(), packet.tag());
    let _ = packet.readdressed(SessionIndex::of_transit(shard, label, check));
}

/// Returns the two bytes by which a third relay recognises packets of a user. Tags of packets
/// differ, and are shorter than coded bytes, so no other digest has this input.
fn check_of(key: &DigestKey, label: TransitLabel, counter_low: u32, tag: &[u8; TAG_BYTES]) -> [u8; 2] {
    let alias = Alias::new(label.number().into()).expect("no label is 0");
    let [first, second, ..] = key.digest(alias, counter_low, tag);
    [first, second]
}

/// True if the relay of this session has labelled a packet with these bytes of a digest.
pub(crate) fn verifies_label(
    sessions: &Sessions,
    source: SessionId,
    (label, check): (TransitLabel, [u8; 2]),
    packet: &TransitPacket<&mut [u8]>,
) -> bool {
    sessions.get(source).is_some_and(|session| {
        // The source may use its new keys before a packet has confirmed them.
        let answered = session.answered_initiation.as_ref().map(|answered| &answered.epoch);
        let mut keys = session.epochs.iter().chain(answered).filter_map(|epoch| epoch.digests.as_ref());
        keys.any(|keys| check_of(&keys.receive, label, packet.counter_low(), packet.tag()) == check)
    })
}

/// Passes on a packet of one relay to another, for the session with this index there. Returns false
/// if that relay does not answer.
///
/// Queues treat it as high-rate traffic of its source, behind everything that this relay has to
/// send itself.
pub(crate) fn pass_on(
    sessions: &mut Sessions,
    (source, target): (SessionId, SessionId),
    (packet, index): (TransitPacket<&mut [u8]>, SessionIndex),
    ecn: Ecn,
) -> bool {
    let session = sessions.get(target).filter(|session| !session.is_dead);
    let Some(path) = session.and_then(|session| session.path.network_path().copied()) else {
        return false;
    };
    let datagram: &[u8] = packet.readdressed(index);
    let owner = Some(Owner::Transit(source.0));
    let meta = TransmitMeta { path, ecn, priority: Priority::Scavenger, owner };
    sessions.outbox.add(meta, |out| out.extend_from_slice(datagram));
    true
}

/// Opens a packet of a peer relay that a third relay has passed on.
pub(crate) fn open_transit<'a>(
    sessions: &mut Sessions,
    packet: TransitPacket<&'a mut [u8]>,
    now: Time,
) -> Inbound<'a> {
    let (index, kind, datagram) = (packet.index(), packet.kind(), packet.into_bytes());
    let found = opening_epoch(&sessions.by_index, &mut sessions.slots, index, Route::Transit, now);
    let Some((id, epoch)) = found else {
        sessions.counters.unknown_index += 1;
        return Inbound::Nothing;
    };
    let opened = if kind == Kind::TransitEnvelope {
        Envelope::parse_transit(datagram).map(|packet| {
            let header = *packet.header();
            epoch.verify_envelope(&packet).map(|_| {
                let datagram = packet.into_bytes();
                Inbound::Envelope { session: id, header, datagram }
            })
        })
    } else {
        MessagePacket::parse_transit(datagram).map(|packet| {
            let opened = epoch.open_messages(packet);
            opened.map(|(messages, _)| Inbound::Messages { session: id, messages })
        })
    };
    match opened {
        Ok(Ok(inbound)) => {
            on_opened(sessions, id, index, now);
            inbound
        }
        Ok(Err(rejected)) => {
            sessions.count_rejected(rejected);
            Inbound::Nothing
        }
        Err(_) => {
            sessions.counters.malformed += 1;
            Inbound::Nothing
        }
    }
}

/// Records an authenticated packet that a third relay has passed on.
fn on_opened(sessions: &mut Sessions, id: SessionId, index: SessionIndex, now: Time) {
    sessions.on_epoch_used(id, index, None, now);
    if let Some(session) = sessions.get_mut(id) {
        session.last_received = now;
        session.transit.received = session.transit.received.wrapping_add(1);
    }
}
