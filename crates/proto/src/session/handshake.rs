//! Handshakes of sessions, as initiator and as responder.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use byway_units::{Bytes, Time};
use byway_wire::limits::TAG_BYTES;
use byway_wire::messages::UnknownMessage;
use byway_wire::packets::{CookiePacket, InitiationPacket, Kind, ResponsePacket};
use byway_wire::seal::{Acceptance, Initiation, Purpose, ReceivedInitiation, ScreenedInitiation, SplitKeys};
use byway_wire::{Address, Capabilities, Incarnation, Message, SessionIndex};

use super::epoch::DigestKeys;
use super::pending_handshake::PendingHandshake;
use super::session::AnsweredInitiation;
use super::{Epoch, Inbound, SessionEvent, SessionId, Sessions, ViaRelay};
use crate::limits::{
    ANSWER_GUARDED_FOR, GLARE_GRACE, GREASE_BYTES_MAX, GREASE_BYTES_MIN, KNOWN_HANDSHAKE_RESERVE,
    LATE_RESPONSE_FOR,
};
use crate::network_path::NetworkPath;
use crate::outbox::TransmitMeta;
use crate::parts::token_bucket::Packets;

/// Route of a handshake packet: where it came from, and where its answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Without a relay: a remote address and a local one.
    Direct(NetworkPath),
    /// Through a relay, inside messages of the session with it.
    ViaRelay(ViaRelay),
    /// Between two relays, through a third one. Handshakes never use it.
    Transit,
}

impl Sessions {
    /// Begins a handshake with the peer and sends the initiation, unless one is pending. `messages`
    /// are encoded messages for the peer; if empty, the initiation repeats those of the last one.
    pub(crate) fn connect(&mut self, id: SessionId, messages: &[u8], now: Time) {
        if self.get(id).is_none_or(|session| session.pending_handshake.is_some()) {
            return;
        }
        let index = self.allocate_index(id);
        let timestamp = self.next_handshake_timestamp(now);
        let seed = self.random.bytes();
        let (incarnation, local) = (self.incarnation, &self.local);
        let session = self.slots[id.0 as usize].as_mut().expect("the session was just looked up");
        if !messages.is_empty() {
            session.greeting.clear();
            session.greeting.extend_from_slice(messages);
        }
        let remote = &session.remote;
        let epoch = session.epochs.first().map_or(byway_wire::Epoch::new(0), |newest| newest.number.next());
        let initiation = Initiation {
            purpose: remote.purpose,
            suite: local.suite,
            shard: remote.shard,
            capabilities: local.capabilities,
            index,
            handshake_timestamp: timestamp,
            incarnation,
            epoch,
            messages: &session.greeting,
        };
        match initiation.write(&local.secret, &remote.key, &remote.pre_shared, &seed) {
            Ok((packet, awaited)) => {
                session.pending_handshake =
                    Some(PendingHandshake::new(awaited, packet, index, epoch, remote.purpose, now));
                self.send_initiation(id, now);
            }
            // The peer's public key is invalid for key agreement, which is an error in the
            // settings. Retries would not help.
            Err(_) => self.by_index.remove(index),
        }
        self.arm(id);
    }

    /// Sends the pending initiation on every path to the peer: its validated address, its possible
    /// addresses, and through relays if both are agents. Repetitions, and initiations to a peer
    /// that counts as dead, leave by all uplinks.
    pub(super) fn send_initiation(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.slots[id.0 as usize].as_mut() else {
            return;
        };
        let Some(pending) = session.pending_handshake.as_mut() else {
            return;
        };
        pending.on_sent(now);
        let proved = session.path.network_path().map(|path| pending.path(path));
        let address = session.path.address();
        let named = session.remote.addresses.iter().filter(|named| address != Some(named));
        let mut uplinks = session.path.uplinks();
        if pending.is_first_try() && !session.is_dead {
            uplinks.truncate(1);
        }
        for uplink in uplinks {
            let proved = proved.map(|path| {
                if path.local.uplink() == uplink { path } else { NetworkPath::by(uplink, path.remote) }
            });
            for path in proved.into_iter().chain(named.clone().map(|named| NetworkPath::by(uplink, *named))) {
                self.outbox.add(TransmitMeta::plain(path), |out| pending.write_to(Route::Direct(path), out));
            }
        }
        let has_relay_route = session.via_relay.is_some() || !session.via_relays.is_empty();
        if has_relay_route && session.remote.purpose == Purpose::EndToEnd {
            for via_relay in self.via_relays_of(id, now) {
                self.send_initiation_via(id, via_relay, now);
            }
        }
    }

    /// Sends the session's pending initiation through this relay, besides other paths.
    pub(crate) fn send_initiation_via(&mut self, id: SessionId, via_relay: ViaRelay, now: Time) {
        self.send_initiation_to(id, Route::ViaRelay(via_relay), now);
    }

    /// Sends the session's pending initiation to one destination, if there is one.
    fn send_initiation_to(&mut self, id: SessionId, to: Route, now: Time) {
        if let Some(pending) = self.get_mut(id).and_then(|session| session.pending_handshake.as_mut()) {
            let mut packet = Vec::new();
            pending.write_to(to, &mut packet);
            self.send_to_route(to, &packet, now);
        }
    }

    /// Handles a received initiation. Refuses it, repeats an earlier response, sends a cookie, or
    /// reads it and returns it for the role to accept.
    pub(super) fn on_initiation<'a>(
        &mut self,
        packet: InitiationPacket<&[u8]>,
        origin: Route,
        now: Time,
    ) -> Inbound<'a> {
        let Ok(screened) = self.responder.screen(packet) else {
            self.counters.initiations_refused += 1;
            return Inbound::Nothing;
        };
        // Relays do not forward handshakes between relays and agents.
        let header = screened.header();
        let is_misrouted = matches!(origin, Route::ViaRelay(_)) && header.purpose != Purpose::EndToEnd;
        if is_misrouted || !self.local.is_addressed_by(header) {
            self.counters.initiations_refused += 1;
            return Inbound::Nothing;
        }
        let address = origin.cookie_address();
        let has_cookie = self.cookies.admits(&screened, address, now);
        if has_cookie && !self.admits_with_cookie(origin, now) {
            self.counters.initiations_refused += 1;
            return Inbound::Nothing;
        }
        if !has_cookie && !self.admits_without_cookie(origin, now) {
            self.send_cookie(&screened, origin, address, now);
            return Inbound::Nothing;
        }
        let seed = self.random.bytes();
        let Ok(initiation) = self.responder.read(&screened, &seed) else {
            self.counters.initiations_refused += 1;
            return Inbound::Nothing;
        };
        let shard = self.local.peer_shard(initiation.purpose, initiation.index);
        let Some(id) = self.find(initiation.peer, initiation.purpose, shard) else {
            return Inbound::Stranger { initiation, origin };
        };
        match self.classify_initiation(id, &initiation, &screened, has_cookie, now) {
            InitiationVerdict::Accept => Inbound::Initiation { session: id, initiation, origin },
            InitiationVerdict::Repeat => {
                self.resend_response(id, origin, now);
                Inbound::Nothing
            }
            InitiationVerdict::Cookie => {
                self.send_cookie(&screened, origin, address, now);
                Inbound::Nothing
            }
            InitiationVerdict::Drop => {
                self.counters.initiations_refused += 1;
                Inbound::Nothing
            }
        }
    }

    /// Sends the response of an answered initiation again. If the initiation arrived from several
    /// addresses, its confirmation validates none of them.
    fn resend_response(&mut self, id: SessionId, origin: Route, now: Time) {
        let answered = self.get_mut(id).and_then(|session| session.answered_initiation.as_mut());
        let answered = answered.expect("a repeated initiation was answered before");
        answered.origin = answered.origin.filter(|known| *known == origin);
        let response = answered.response.clone();
        self.send_to_route(origin, &response, now);
    }

    /// Decides on an authentic initiation of a peer that has a session.
    fn classify_initiation(
        &self,
        id: SessionId,
        initiation: &ReceivedInitiation,
        screened: &ScreenedInitiation<'_>,
        has_cookie: bool,
        now: Time,
    ) -> InitiationVerdict {
        let session = self.get(id).expect("the session was just looked up");
        if session.answered_initiation.as_ref().is_some_and(|answered| answered.mac1 == *screened.mac1()) {
            return InitiationVerdict::Repeat;
        }
        if let Some(pending) = &session.pending_handshake {
            let ours_goes_first = self.local.secret.public_key() < session.remote.key;
            if ours_goes_first && now.saturating_since(pending.began) < GLARE_GRACE {
                return InitiationVerdict::Drop;
            }
        }
        let is_guarded = |answered: &AnsweredInitiation| {
            initiation.handshake_timestamp < answered.handshake_timestamp
                && now.saturating_since(answered.since) < ANSWER_GUARDED_FOR
        };
        if session.answered_initiation.as_ref().is_some_and(is_guarded) {
            // A cookie makes an old timestamp acceptable, but not during a pending handshake.
            // Otherwise, a replay of one initiation with the replayer's own cookie could prevent
            // the confirmation of all others.
            return InitiationVerdict::Drop;
        }
        let is_unconfirmed = session.answered_initiation.is_some();
        if (initiation.handshake_timestamp <= session.handshake_timestamp || is_unconfirmed) && !has_cookie {
            return InitiationVerdict::Cookie;
        }
        InitiationVerdict::Accept
    }

    /// True if an initiation without a cookie may be read, and charges for it: neither this node
    /// nor the source network exceeds its rate.
    fn admits_without_cookie(&mut self, origin: Route, now: Time) -> bool {
        let address_may = match origin {
            Route::Direct(path) => self.addresses.admits_network(path.remote, now),
            Route::ViaRelay(_) | Route::Transit => true,
        };
        address_may && self.handshakes.try_consume(Packets::new(1), now)
    }

    /// True if an initiation with a cookie may be read, and charges for it: neither this node, nor
    /// the cookie's address, nor its network exceeds its rate. The initiator's identity is sealed,
    /// so known initiators are recognised by their addresses.
    pub(super) fn admits_with_cookie(&mut self, origin: Route, now: Time) -> bool {
        let host = origin.cookie_address();
        let (is_known, address_may) = match origin {
            Route::Direct(address) if self.known_addresses.has_host(address.remote) => {
                (true, self.known_addresses.admits_host(host, now))
            }
            Route::Direct(address) => {
                let is_known = self.known_addresses.has_network(address.remote);
                // A network without a token takes none of the buckets that its ports share with
                // others.
                let may = self.proved_networks.has_token(address.remote, now)
                    && self.proved_addresses.admits_host(host, now)
                    && self.proved_networks.admits_network(address.remote, now);
                (is_known, may)
            }
            // Relays limit the initiations that they forward for each agent.
            Route::ViaRelay(_) | Route::Transit => (false, self.proved_addresses.admits_host(host, now)),
        };
        let reserve = if is_known { 0 } else { KNOWN_HANDSHAKE_RESERVE };
        address_may
            && self.proved_handshakes.available(now).count() > reserve
            && self.proved_handshakes.try_consume(Packets::new(1), now)
    }

    fn send_cookie(&mut self, screened: &ScreenedInitiation<'_>, origin: Route, address: Address, now: Time) {
        self.counters.cookies += 1;
        let packet = self.cookies.packet(screened, address, now, &mut self.random);
        self.send_to_route(origin, &packet, now);
    }

    fn send_to_route(&mut self, origin: Route, packet: &[u8], now: Time) {
        match origin {
            Route::Direct(path) => {
                let meta = TransmitMeta::plain(path);
                self.outbox.add(meta, |out| out.extend_from_slice(packet));
            }
            Route::ViaRelay(via_relay) => self.send_packet_via(via_relay, packet, now),
            Route::Transit => self.counters.unsendable += 1,
        }
    }

    /// Accepts a peer's initiation, and sends the response with `messages`. The new epoch opens
    /// packets at once. It seals packets after the initiator has confirmed it.
    pub(crate) fn accept(
        &mut self,
        id: SessionId,
        initiation: ReceivedInitiation,
        origin: Route,
        messages: &[u8],
        now: Time,
    ) {
        let index = self.allocate_index(id);
        let (incarnation, provider, ours) = (self.incarnation, self.provider, self.local.capabilities);
        let session = self.slots[id.0 as usize].as_mut().expect("the caller names a session that exists");
        let acceptance = Acceptance { index, capabilities: ours, incarnation, messages };
        let (mac1, timestamp, suite) = (initiation.mac1, initiation.handshake_timestamp, initiation.suite);
        let (number, theirs, their_incarnation) =
            (initiation.epoch, initiation.index, initiation.incarnation);
        let capabilities = ours & initiation.capabilities;
        let Ok((response, keys)) = initiation.accept(&acceptance, &session.remote.pre_shared) else {
            self.by_index.remove(index);
            return;
        };
        let digests = digest_keys(&keys, capabilities);
        let (keys, known) = (keys.epoch_keys(provider, suite), (capabilities, digests));
        let epoch = Epoch::new(number, index, theirs, keys, known, now);
        let replaced = session.answered_initiation.replace(AnsweredInitiation {
            mac1,
            response: response.clone(),
            epoch,
            incarnation: their_incarnation,
            handshake_timestamp: timestamp,
            origin: Some(origin),
            since: now,
        });
        session.handshake_timestamp = session.handshake_timestamp.max(timestamp);
        // This may be a replay: a pending handshake of this side continues until the peer confirms.
        if let Route::ViaRelay(via_relay) = origin {
            session.via_relay = Some(via_relay);
        }
        if let Some(replaced) = replaced {
            self.by_index.remove(replaced.epoch.local_index);
        }
        self.send_to_route(origin, &response, now);
        self.arm(id);
    }

    /// Handles a response to an initiation of this side: begins the epoch, and returns the messages
    /// of the response for the role. Ignores and counts responses that are unexpected or forged.
    pub(super) fn on_response<'a>(
        &mut self,
        packet: ResponsePacket<&[u8]>,
        origin: Route,
        now: Time,
    ) -> Inbound<'a> {
        let index = packet.header().receiver;
        let Some(id) = self.by_index.get(index).map(SessionId) else {
            self.counters.unknown_index += 1;
            return Inbound::Nothing;
        };
        let (provider, suite, ours) = (self.provider, self.local.suite, self.local.capabilities);
        let session = self.slots[id.0 as usize].as_mut().expect("indices belong to sessions that exist");
        let Some(pending) = session.pending_handshake.as_mut().filter(|pending| pending.index == index)
        else {
            self.on_late_response(id, &packet, origin, now);
            return Inbound::Nothing;
        };
        let end = response_tag(&packet);
        // A response validates only the address to which the initiation was sent.
        let is_expected = match origin {
            Route::Direct(from) => {
                session.path.address() == Some(&from.remote)
                    || session.remote.addresses.contains(&from.remote)
            }
            Route::ViaRelay(_) => session.remote.purpose == Purpose::EndToEnd,
            Route::Transit => false,
        };
        let is_read =
            is_expected && pending.admits_response(now) && self.responses.try_consume(Packets::new(1), now);
        let response = if is_read { pending.awaited.read(packet).ok() } else { None };
        let Some(response) = response else {
            self.counters.forged += 1;
            return Inbound::Nothing;
        };
        let (keys, theirs) = (&response.keys, response.index);
        let capabilities = ours & response.capabilities;
        let known = (capabilities, digest_keys(keys, capabilities));
        let answered_after = now.saturating_since(pending.latest);
        let epoch = Epoch::new(pending.epoch, index, theirs, keys.epoch_keys(provider, suite), known, now);
        session.pending_handshake = None;
        session.initiator = true;
        let before = session.path.uplink();
        match origin {
            Route::Direct(from) => {
                session.path.validate_answer(from, now);
                (session.is_doubtful, session.relayed_response) = (false, None);
            }
            Route::ViaRelay(_) | Route::Transit => {
                session.is_doubtful = true;
                session.relayed_response = Some((end, now + LATE_RESPONSE_FOR));
            }
        }
        self.note_direct_path(id);
        self.note_uplink(id, before, now);
        let fresh = self.begin_epoch(id, epoch, response.incarnation, now);
        self.on_established(id, fresh);
        self.try_ipv4(id, answered_after, now);
        self.send_probe(id, Bytes::ZERO, now);
        Inbound::Response { session: id, messages: response.messages }
    }

    /// Handles a response for which no handshake is pending. If it is the newest one and had
    /// arrived through a relay, its arrival from a possible address of the peer validates that
    /// address. It begins no epoch, and does not move a session with a validated address.
    fn on_late_response(&mut self, id: SessionId, packet: &ResponsePacket<&[u8]>, origin: Route, now: Time) {
        let session = self.slots[id.0 as usize].as_mut().expect("indices belong to sessions that exist");
        let is_same =
            session.relayed_response.is_some_and(|(end, until)| end == response_tag(packet) && now < until);
        let is_newest =
            session.epochs.first().is_some_and(|epoch| epoch.local_index == packet.header().receiver);
        match origin {
            Route::Direct(from)
                if is_same
                    && is_newest
                    && !session.is_direct()
                    && (session.path.address() == Some(&from.remote)
                        || session.remote.addresses.contains(&from.remote)) =>
            {
                session.path.validate_answer(from, now);
                (session.is_doubtful, session.relayed_response) = (false, None);
                session.plan_probe(now);
                self.note_direct_path(id);
                self.arm(id);
            }
            _ => self.counters.unknown_index += 1,
        }
    }

    /// Handles a cookie: stores it for the next initiation to its origin. The first cookie of a
    /// handshake triggers that initiation at once.
    pub(super) fn on_cookie<'a>(
        &mut self,
        packet: CookiePacket<&[u8]>,
        origin: Route,
        now: Time,
    ) -> Inbound<'a> {
        let index = packet.header().receiver;
        let id = self.by_index.get(index).map(SessionId);
        let pending = id
            .and_then(|id| self.slots[id.0 as usize].as_mut())
            .and_then(|session| session.pending_handshake.as_mut())
            .filter(|pending| pending.index == index);
        let (Some(id), Some(pending)) = (id, pending) else {
            self.counters.unknown_index += 1;
            return Inbound::Nothing;
        };
        let Some(to) = pending.destination_of(origin) else {
            self.counters.forged += 1;
            return Inbound::Nothing;
        };
        let Ok(cookie) = pending.awaited.open_cookie(packet) else {
            self.counters.forged += 1;
            return Inbound::Nothing;
        };
        let random = &mut self.random;
        if pending.add_cookie(cookie, to, || random.number()) {
            pending.latest = now;
            self.send_initiation_to(id, to, now);
        }
        Inbound::Nothing
    }

    /// Confirms an epoch that this side answered, because a packet under its keys arrived. The
    /// packet proves that the initiator is authentic and the handshake fresh. If it arrives from
    /// the response's destination, that is validated. Returns true if the epoch continues no
    /// earlier session.
    pub(super) fn confirm_epoch(
        &mut self,
        id: SessionId,
        index: SessionIndex,
        origin: Option<Route>,
        now: Time,
    ) -> Option<bool> {
        let session = self.slots.get_mut(id.0 as usize)?.as_mut()?;
        let answered = session.answered_initiation.take_if(|answered| answered.epoch.local_index == index)?;
        session.initiator = false;
        if let Some(crossed) = session.pending_handshake.take() {
            self.by_index.remove(crossed.index);
        }
        if let Some(Route::Direct(from)) = origin
            && answered.origin == origin
        {
            match session.path.address() {
                None => session.path.validate(from, now),
                // The peer chose the local address for answers.
                Some(address) if *address == from.remote => session.path.set_local(from.local),
                Some(_) => {}
            }
        }
        // Uses the path that works for the peer: the direct path may have an outage in both
        // directions, and would lose answers.
        session.is_doubtful |= matches!(origin, Some(Route::ViaRelay(_)));
        self.note_direct_path(id);
        Some(self.begin_epoch(id, answered.epoch, answered.incarnation, now))
    }

    /// Notifies the role that packets can be sent, and that a peer that counted as dead is alive: a
    /// completed handshake proves it.
    pub(super) fn on_established(&mut self, id: SessionId, fresh: bool) {
        self.events.push_back(SessionEvent::Established { session: id, fresh });
        let session = self.slots[id.0 as usize].as_mut().expect("the session exists");
        session.probes.on_packet();
        if core::mem::take(&mut session.is_dead) {
            self.events.push_back(SessionEvent::Alive { session: id });
        }
    }

    /// Makes an epoch the newest of a session, and sends grease. Returns true if the epoch
    /// continues no earlier session.
    fn begin_epoch(&mut self, id: SessionId, epoch: Epoch, incarnation: Incarnation, now: Time) -> bool {
        self.counters.handshakes += 1;
        let session = self.slots[id.0 as usize].as_mut().expect("the session exists");
        let (fresh, forgotten) = session.begin_epoch(epoch, incarnation);
        session.plan_probe(now);
        if let Some(address) = session.path.address() {
            self.known_addresses.add(*address);
        }
        for index in forgotten {
            self.by_index.remove(index);
        }
        self.send_grease(id, now);
        self.arm(id);
        fresh
    }
}

impl Sessions {
    /// Sends a packet and a message of unknown kinds (grease), which every implementation must
    /// ignore.
    fn send_grease(&mut self, id: SessionId, now: Time) {
        let random: [u8; GREASE_BYTES_MAX] = self.random.bytes();
        let length = GREASE_BYTES_MIN + usize::from(random[0]) % (GREASE_BYTES_MAX - GREASE_BYTES_MIN + 1);
        let path = self.get(id).and_then(|session| session.path.network_path()).copied();
        if let Some(path) = path {
            self.outbox.add(TransmitMeta::plain(path), |out| {
                out.push(Kind::GREASE);
                out.extend_from_slice(&random[..length]);
            });
        }
        let message =
            UnknownMessage::new(UnknownMessage::GREASE_MIN + random[1] % 16, &random[..GREASE_BYTES_MIN]);
        if let Some(message) = message {
            self.queue_message(id, &Message::Unknown(message), now);
        }
    }
}

/// Decision on an authentic initiation of a known peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InitiationVerdict {
    Accept,
    /// This side answered the initiation before: the response is sent again.
    Repeat,
    Cookie,
    Drop,
}

/// Returns the authentication tag of a response, which identifies it.
fn response_tag(packet: &ResponsePacket<&[u8]>) -> [u8; TAG_BYTES] {
    let message = packet.noise_message();
    *message.last_chunk().expect("a response ends in a tag")
}

/// Returns the keys of packet digests; `None` unless both sides have the capability.
fn digest_keys(keys: &SplitKeys, capabilities: Capabilities) -> Option<DigestKeys> {
    let are_wanted = capabilities.contain(Capabilities::DIGESTS);
    are_wanted.then(|| DigestKeys { send: keys.send_digests(), receive: keys.receive_digests() })
}

/// Address in place of that of a packet which arrived through a relay.
const UNSPECIFIED: Address = Address { ip: IpAddr::V6(Ipv6Addr::UNSPECIFIED), port: 0 };

impl Route {
    /// Returns the address for which a cookie is valid. Directly, it is the remote address. Through
    /// a relay, it is an address of the agent from the discard-only prefix (RFC 6666), which is
    /// never a source address.
    pub(super) fn cookie_address(self) -> Address {
        match self {
            Self::Direct(path) => Address::from(path.remote),
            Self::ViaRelay(via_relay) => {
                let mut ip = [0; 16];
                ip[0] = 1;
                ip[8..12].copy_from_slice(&via_relay.relay.0.to_be_bytes());
                ip[12..].copy_from_slice(&via_relay.agent.number().to_be_bytes());
                Address { ip: Ipv6Addr::from(ip).into(), port: 0 }
            }
            Self::Transit => UNSPECIFIED,
        }
    }

    /// Returns the address that a probe reply names as the probe's source; through relays, it is
    /// the unspecified address.
    pub(super) fn source_address(self) -> Address {
        match self {
            Self::Direct(path) => Address::from(path.remote),
            Self::ViaRelay(_) | Self::Transit => UNSPECIFIED,
        }
    }
}
