//! Handshakes, in both directions.

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use byway_units::{Bytes, Time};
use byway_wire::limits::TAG_BYTES;
use byway_wire::messages::Unknown;
use byway_wire::packets::{CookiePacket, InitiationPacket, Kind, ResponsePacket};
use byway_wire::seal::{Acceptance, Initiation, Purpose, ReceivedInitiation, Screened, SplitKeys};
use byway_wire::{Address, Boot, Capabilities, Message, SessionIndex};

use super::attempt::Attempt;
use super::epoch::Digests;
use super::session::Answered;
use super::{Change, Detour, Epoch, Received, SessionId, Sessions};
use crate::limits::{
    ANSWER_GUARDED_FOR, GLARE_GRACE, GREASE_BYTES_MAX, GREASE_BYTES_MIN, KNOWN_HANDSHAKE_RESERVE,
    LATE_RESPONSE_FOR,
};
use crate::network_path::NetworkPath;
use crate::outbox::Heading;
use crate::parts::token_bucket::Packets;

/// Where a handshake packet came from, and where its answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// From an address, to one of this machine.
    Address(NetworkPath),
    /// Through a relay.
    Detour(Detour),
}

impl Sessions {
    /// Begins a handshake, unless one is under way. Without messages, the initiation has those of the last one.
    pub(crate) fn connect(&mut self, id: SessionId, messages: &[u8], now: Time) {
        if self.get(id).is_none_or(|session| session.attempt.is_some()) {
            return;
        }
        let index = self.draw_index(id);
        let stamp = self.draw_stamp(now);
        let seed = self.random.bytes();
        let (boot, local) = (self.boot, &self.local);
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
            stamp,
            boot,
            epoch,
            messages: &session.greeting,
        };
        match initiation.write(&local.secret, &remote.key, &remote.pre_shared, &seed) {
            Ok((packet, awaited)) => {
                session.attempt = Some(Attempt::new(awaited, packet, index, epoch, remote.purpose, now));
                self.send_attempt(id, now);
            }
            // A peer whose key agrees on nothing is never reached; the settings are to blame.
            Err(_) => self.by_index.remove(index),
        }
        self.arm(id);
    }

    /// Sends the initiation on every way there is to the peer.
    pub(super) fn send_attempt(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.slots[id.0 as usize].as_mut() else {
            return;
        };
        let Some(attempt) = session.attempt.as_mut() else {
            return;
        };
        attempt.sent(now);
        let proved = session.path.network_path().map(|path| attempt.path(path));
        let address = session.path.address();
        let named = session.remote.addresses.iter().filter(|named| address != Some(named));
        for path in proved.into_iter().chain(named.map(|named| NetworkPath::from(*named))) {
            self.outbox.add(Heading::plain(path), |out| attempt.write_to(Origin::Address(path), out));
        }
        let has_detour = session.detour.is_some() || !session.detours.is_empty();
        if has_detour && session.remote.purpose == Purpose::EndToEnd {
            for detour in self.detours_of(id, now) {
                self.attempt_through(id, detour, now);
            }
        }
    }

    /// Sends an initiation under way through a relay as well.
    pub(crate) fn attempt_through(&mut self, id: SessionId, detour: Detour, now: Time) {
        self.send_attempt_to(id, Origin::Detour(detour), now);
    }

    /// Sends an initiation under way to one destination.
    fn send_attempt_to(&mut self, id: SessionId, to: Origin, now: Time) {
        if let Some(attempt) = self.get_mut(id).and_then(|session| session.attempt.as_mut()) {
            let mut packet = Vec::new();
            attempt.write_to(to, &mut packet);
            self.answer(to, &packet, now);
        }
    }

    /// Takes an initiation: answers it again, asks for a cookie, or reads it.
    pub(super) fn initiation<'a>(
        &mut self,
        packet: InitiationPacket<&[u8]>,
        origin: Origin,
        now: Time,
    ) -> Received<'a> {
        let Ok(screened) = self.responder.screen(packet) else {
            self.counters.initiations_refused += 1;
            return Received::Nothing;
        };
        // What relays and agents say to each other goes through nobody's hands.
        let header = screened.header();
        let is_astray = matches!(origin, Origin::Detour(_)) && header.purpose != Purpose::EndToEnd;
        if is_astray || !self.local.is_asked_for(header) {
            self.counters.initiations_refused += 1;
            return Received::Nothing;
        }
        let address = origin.cookie_address();
        let has_cookie = self.cookies.admits(&screened, address, now);
        if has_cookie && !self.admits_with_cookie(origin, now) {
            self.counters.initiations_refused += 1;
            return Received::Nothing;
        }
        if !has_cookie && !self.admits_without_cookie(origin, now) {
            self.give_cookie(&screened, origin, address, now);
            return Received::Nothing;
        }
        let seed = self.random.bytes();
        let Ok(initiation) = self.responder.read(&screened, &seed) else {
            self.counters.initiations_refused += 1;
            return Received::Nothing;
        };
        let shard = self.local.peer_shard(initiation.purpose, initiation.index);
        let Some(id) = self.find(initiation.peer, initiation.purpose, shard) else {
            return Received::Stranger { initiation, origin };
        };
        match self.judge(id, &initiation, &screened, has_cookie, now) {
            Verdict::Accept => Received::Initiation { session: id, initiation, origin },
            Verdict::Repeat => {
                self.repeat(id, origin, now);
                Received::Nothing
            }
            Verdict::Cookie => {
                self.give_cookie(&screened, origin, address, now);
                Received::Nothing
            }
            Verdict::Drop => {
                self.counters.initiations_refused += 1;
                Received::Nothing
            }
        }
    }

    /// Answers an initiation again. Where it came from several addresses, none of them is proved by what follows.
    fn repeat(&mut self, id: SessionId, origin: Origin, now: Time) {
        let answered = self.get_mut(id).and_then(|session| session.answered.as_mut());
        let answered = answered.expect("only what was answered is answered again");
        answered.origin = answered.origin.filter(|known| *known == origin);
        let response = answered.response.clone();
        self.answer(origin, &response, now);
    }

    /// What to do with an initiation of a known peer.
    fn judge(
        &self,
        id: SessionId,
        initiation: &ReceivedInitiation,
        screened: &Screened<'_>,
        has_cookie: bool,
        now: Time,
    ) -> Verdict {
        let session = self.get(id).expect("the session was just looked up");
        if session.answered.as_ref().is_some_and(|answered| answered.mac1 == *screened.mac1()) {
            return Verdict::Repeat;
        }
        if let Some(attempt) = &session.attempt {
            let ours_goes_first = self.local.secret.public_key() < session.remote.key;
            if ours_goes_first && now.saturating_since(attempt.began) < GLARE_GRACE {
                return Verdict::Drop;
            }
        }
        let is_guarded = |answered: &Answered| {
            initiation.stamp < answered.stamp && now.saturating_since(answered.since) < ANSWER_GUARDED_FOR
        };
        if session.answered.as_ref().is_some_and(is_guarded) {
            // An old stamp is forgiven, but not at the cost of a handshake under way: whoever replays one initiation
            // with a cookie of his own could keep all others from ever being confirmed.
            return Verdict::Drop;
        }
        let waiting = session.answered.is_some();
        if (initiation.stamp <= session.stamp || waiting) && !has_cookie {
            return Verdict::Cookie;
        }
        Verdict::Accept
    }

    /// Whether an initiation is read without a cookie: neither this node nor the address is too busy.
    fn admits_without_cookie(&mut self, origin: Origin, now: Time) -> bool {
        let address_may = match origin {
            Origin::Address(path) => self.addresses.admits_network(path.remote, now),
            Origin::Detour(_) => true,
        };
        address_may && self.handshakes.take(Packets::new(1), now)
    }

    /// Whether an initiation with a cookie is read: neither this node, nor whoever the cookie was for, nor the network
    /// around it is too busy. Who it is from is sealed, so those who were here before are known by their addresses.
    pub(super) fn admits_with_cookie(&mut self, origin: Origin, now: Time) -> bool {
        let host = origin.cookie_address();
        let (is_known, address_may) = match origin {
            Origin::Address(address) if self.known_addresses.has_host(address.remote) => {
                (true, self.known_addresses.admits_host(host, now))
            }
            Origin::Address(address) => {
                let is_known = self.known_addresses.has_network(address.remote);
                // A network without a token takes none of the buckets that its ports share with others.
                let may = self.proved_networks.has_token(address.remote, now)
                    && self.proved_addresses.admits_host(host, now)
                    && self.proved_networks.admits_network(address.remote, now);
                (is_known, may)
            }
            // Relays bound what they pass on of each agent.
            Origin::Detour(_) => (false, self.proved_addresses.admits_host(host, now)),
        };
        let reserve = if is_known { 0 } else { KNOWN_HANDSHAKE_RESERVE };
        address_may
            && self.proved_handshakes.available(now).count() > reserve
            && self.proved_handshakes.take(Packets::new(1), now)
    }

    fn give_cookie(&mut self, screened: &Screened<'_>, origin: Origin, address: Address, now: Time) {
        self.counters.cookies += 1;
        let packet = self.cookies.packet(screened, address, now, &mut self.random);
        self.answer(origin, &packet, now);
    }

    fn answer(&mut self, origin: Origin, packet: &[u8], now: Time) {
        match origin {
            Origin::Address(path) => {
                let heading = Heading::plain(path);
                self.outbox.add(heading, |out| out.extend_from_slice(packet));
            }
            Origin::Detour(detour) => self.send_through(detour, packet, now),
        }
    }

    /// Accepts an initiation. The new epoch opens packets at once, and seals when the initiator has confirmed it.
    pub(crate) fn accept(
        &mut self,
        id: SessionId,
        initiation: ReceivedInitiation,
        origin: Origin,
        messages: &[u8],
        now: Time,
    ) {
        let index = self.draw_index(id);
        let (boot, provider, ours) = (self.boot, self.provider, self.local.capabilities);
        let session = self.slots[id.0 as usize].as_mut().expect("the caller names a session that exists");
        let acceptance = Acceptance { index, capabilities: ours, boot, messages };
        let (mac1, stamp, suite) = (initiation.mac1, initiation.stamp, initiation.suite);
        let (number, theirs, their_boot) = (initiation.epoch, initiation.index, initiation.boot);
        let capabilities = ours & initiation.capabilities;
        let Ok((response, keys)) = initiation.accept(&acceptance, &session.remote.pre_shared) else {
            self.by_index.remove(index);
            return;
        };
        let digests = digests(&keys, capabilities);
        let (keys, known) = (keys.epoch_keys(provider, suite), (capabilities, digests));
        let epoch = Epoch::new(number, index, theirs, keys, known, now);
        let replaced = session.answered.replace(Answered {
            mac1,
            response: response.clone(),
            epoch,
            boot: their_boot,
            stamp,
            origin: Some(origin),
            since: now,
        });
        session.stamp = session.stamp.max(stamp);
        // This may be a replay: an attempt of this side goes on until the peer confirms.
        if let Origin::Detour(detour) = origin {
            session.detour = Some(detour);
        }
        if let Some(replaced) = replaced {
            self.by_index.remove(replaced.epoch.ours);
        }
        self.answer(origin, &response, now);
        self.arm(id);
    }

    /// Takes a response to an initiation of ours.
    pub(super) fn response<'a>(
        &mut self,
        packet: ResponsePacket<&[u8]>,
        origin: Origin,
        now: Time,
    ) -> Received<'a> {
        let index = packet.header().receiver;
        let Some(id) = self.by_index.get(index).map(SessionId) else {
            self.counters.unknown_index += 1;
            return Received::Nothing;
        };
        let (provider, suite, ours) = (self.provider, self.local.suite, self.local.capabilities);
        let session = self.slots[id.0 as usize].as_mut().expect("indices belong to sessions that exist");
        let Some(attempt) = session.attempt.as_mut().filter(|attempt| attempt.index == index) else {
            self.late_response(id, &packet, origin, now);
            return Received::Nothing;
        };
        let end = end_of(&packet);
        // Whoever answers proves to be where the initiation went, and nowhere else.
        let is_expected = match origin {
            Origin::Address(from) => {
                session.path.address() == Some(&from.remote)
                    || session.remote.addresses.contains(&from.remote)
            }
            Origin::Detour(_) => session.remote.purpose == Purpose::EndToEnd,
        };
        let is_read =
            is_expected && attempt.admits_response(now) && self.responses.take(Packets::new(1), now);
        let response = if is_read { attempt.awaited.read(packet).ok() } else { None };
        let Some(response) = response else {
            self.counters.forged += 1;
            return Received::Nothing;
        };
        let (keys, theirs) = (&response.keys, response.index);
        let capabilities = ours & response.capabilities;
        let known = (capabilities, digests(keys, capabilities));
        let answered_after = now.saturating_since(attempt.latest);
        let epoch = Epoch::new(attempt.epoch, index, theirs, keys.epoch_keys(provider, suite), known, now);
        session.attempt = None;
        session.initiator = true;
        match origin {
            Origin::Address(from) => {
                session.path.validate_answer(from, now);
                (session.is_doubtful, session.relayed_response) = (false, None);
            }
            Origin::Detour(_) => {
                session.is_doubtful = true;
                session.relayed_response = Some((end, now + LATE_RESPONSE_FOR));
            }
        }
        self.note_direct_path(id);
        let fresh = self.begin(id, epoch, response.boot, now);
        self.established(id, fresh);
        self.try_ipv4(id, answered_after, now);
        self.send_probe(id, Bytes::ZERO, now);
        Received::Response { session: id, messages: response.messages }
    }

    /// Takes a response that came through a relay before, if it comes from where the initiation went: the responder is
    /// there. It begins nothing anew, and moves no session whose address has proved itself.
    fn late_response(&mut self, id: SessionId, packet: &ResponsePacket<&[u8]>, origin: Origin, now: Time) {
        let session = self.slots[id.0 as usize].as_mut().expect("indices belong to sessions that exist");
        let is_same =
            session.relayed_response.is_some_and(|(end, until)| end == end_of(packet) && now < until);
        let is_newest = session.epochs.first().is_some_and(|epoch| epoch.ours == packet.header().receiver);
        match origin {
            Origin::Address(from)
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

    /// Keeps a cookie for the next initiation to where it came from. The first one of an attempt brings that out at once.
    pub(super) fn cookie<'a>(
        &mut self,
        packet: CookiePacket<&[u8]>,
        origin: Origin,
        now: Time,
    ) -> Received<'a> {
        let index = packet.header().receiver;
        let id = self.by_index.get(index).map(SessionId);
        let attempt = id
            .and_then(|id| self.slots[id.0 as usize].as_mut())
            .and_then(|session| session.attempt.as_mut())
            .filter(|attempt| attempt.index == index);
        let (Some(id), Some(attempt)) = (id, attempt) else {
            self.counters.unknown_index += 1;
            return Received::Nothing;
        };
        let Some(to) = attempt.destination_of(origin) else {
            self.counters.forged += 1;
            return Received::Nothing;
        };
        let Ok(cookie) = attempt.awaited.open_cookie(packet) else {
            self.counters.forged += 1;
            return Received::Nothing;
        };
        let random = &mut self.random;
        if attempt.add_cookie(cookie, to, || random.number()) {
            attempt.latest = now;
            self.send_attempt_to(id, to, now);
        }
        Received::Nothing
    }

    /// A packet under the epoch that was answered last: the initiator is who it says, here and now, and where the
    /// response went if it comes from there.
    pub(super) fn confirm(
        &mut self,
        id: SessionId,
        index: SessionIndex,
        origin: Option<Origin>,
        now: Time,
    ) -> Option<bool> {
        let session = self.slots.get_mut(id.0 as usize)?.as_mut()?;
        let answered = session.answered.take_if(|answered| answered.epoch.ours == index)?;
        session.initiator = false;
        if let Some(crossed) = session.attempt.take() {
            self.by_index.remove(crossed.index);
        }
        if let Some(Origin::Address(from)) = origin
            && answered.origin == origin
        {
            match session.path.address() {
                None => session.path.validate(from, now),
                // The peer chose where it is answered from.
                Some(address) if *address == from.remote => session.path.set_local(from.local),
                Some(_) => {}
            }
        }
        // What works for the peer: the direct path may be dark in both directions, and answers would be lost on it.
        session.is_doubtful |= matches!(origin, Some(Origin::Detour(_)));
        self.note_direct_path(id);
        Some(self.begin(id, answered.epoch, answered.boot, now))
    }

    /// Lets the role know that packets can be sent. Who completes a handshake is there, whatever probes said.
    pub(super) fn established(&mut self, id: SessionId, fresh: bool) {
        self.changes.push_back(Change::Established { session: id, fresh });
        let session = self.slots[id.0 as usize].as_mut().expect("the session exists");
        session.probes.heard();
        if core::mem::take(&mut session.dead) {
            self.changes.push_back(Change::Alive { session: id });
        }
    }

    /// Begins an epoch; whether it continues nothing.
    fn begin(&mut self, id: SessionId, epoch: Epoch, boot: Boot, now: Time) -> bool {
        self.counters.handshakes += 1;
        let session = self.slots[id.0 as usize].as_mut().expect("the session exists");
        let (fresh, forgotten) = session.begin(epoch, boot);
        session.plan_probe(now);
        if let Some(address) = session.path.address() {
            self.known_addresses.add(*address);
        }
        for index in forgotten {
            self.by_index.remove(index);
        }
        self.grease(id, now);
        self.arm(id);
        fresh
    }
}

impl Sessions {
    /// Sends a packet and a message that mean nothing, so that nobody comes to rely on there being none.
    fn grease(&mut self, id: SessionId, now: Time) {
        let random: [u8; GREASE_BYTES_MAX] = self.random.bytes();
        let length = GREASE_BYTES_MIN + usize::from(random[0]) % (GREASE_BYTES_MAX - GREASE_BYTES_MIN + 1);
        let path = self.get(id).and_then(|session| session.path.network_path()).copied();
        if let Some(path) = path {
            self.outbox.add(Heading::plain(path), |out| {
                out.push(Kind::GREASE);
                out.extend_from_slice(&random[..length]);
            });
        }
        let message = Unknown::new(Unknown::GREASE_MIN + random[1] % 16, &random[..GREASE_BYTES_MIN]);
        if let Some(message) = message {
            self.say(id, &Message::Unknown(message), now);
        }
    }
}

/// What becomes of an initiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Accept,
    /// It was answered before, and the answer got lost.
    Repeat,
    Cookie,
    Drop,
}

/// The last bytes of a response, a tag that nobody can guess.
fn end_of(packet: &ResponsePacket<&[u8]>) -> [u8; TAG_BYTES] {
    let message = packet.noise_message();
    *message.last_chunk().expect("a response ends in a tag")
}

/// The keys of digests, if both sides want any.
fn digests(keys: &SplitKeys, capabilities: Capabilities) -> Option<Digests> {
    let are_wanted = capabilities.contain(Capabilities::DIGESTS);
    are_wanted.then(|| Digests { send: keys.send_digests(), receive: keys.receive_digests() })
}

impl Origin {
    /// Whom a cookie is for: an address, or the agent behind a relay. A discard-only address (RFC 6666) stands for
    /// that, which nothing comes from.
    pub(super) fn cookie_address(self) -> Address {
        match self {
            Self::Address(path) => Address::from(path.remote),
            Self::Detour(detour) => {
                let mut ip = [0; 16];
                ip[0] = 1;
                ip[8..12].copy_from_slice(&detour.relay.0.to_be_bytes());
                ip[12..].copy_from_slice(&detour.agent.number().to_be_bytes());
                Address { ip: Ipv6Addr::from(ip).into(), port: 0 }
            }
        }
    }

    /// Where the packet came from, as the replies to probes have it; packets through relays share the unspecified
    /// address.
    pub(super) fn source_address(self) -> Address {
        match self {
            Self::Address(path) => Address::from(path.remote),
            Self::Detour(_) => Address { ip: Ipv6Addr::UNSPECIFIED.into(), port: 0 },
        }
    }
}
