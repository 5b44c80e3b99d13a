//! Sessions: who the peer is, under which keys, at which address, and whether it is there.
//!
//! Agents and relays use the same table of sessions. It keeps handshakes, rekeying, cookies, roaming, probes and
//! replay to itself, and hands up what was authenticated.

mod address_limits;
mod attempt;
mod epoch;
mod handshake;
mod length_checks;
mod lengths;
mod messages;
mod path;
mod path_mtu;
mod probes;
mod receive;
mod send;
#[allow(clippy::module_inception, reason = "the session is what the module is about")]
mod session;
mod timeouts;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;

use byway_code::prefetch_value;
use byway_units::Time;
use byway_wire::packets::InitiationHeader;
use byway_wire::seal::{CookieJar, Provider, PublicKey, Purpose, Responder, StaticSecret, Suite};
use byway_wire::{Boot, Capabilities, SessionIndex, Shard};

pub(crate) use epoch::{Enveloped, Epoch, Rejected};
pub(crate) use handshake::Origin;
pub(crate) use probes::Before;
pub(crate) use receive::Received;
pub(crate) use session::{Detour, Remote, Session, SessionId};
pub(crate) use timeouts::Change;

use address_limits::{AddressLimits, KnownAddresses};
use path::{is_loopback, is_unicast};

use crate::counters::counters;
use crate::growth;
use crate::index_table::IndexTable;
use crate::limits::{
    ADDRESS_HANDSHAKE_BURST, CANDIDATES_MAX, HANDSHAKE_BURST, HANDSHAKES_PER_SECOND, NETWORK_HANDSHAKE_BURST,
    PROVED_HANDSHAKE_BURST, PROVED_HANDSHAKES_PER_SECOND, RESPONSE_BURST, RESPONSES_PER_SECOND,
};
use crate::outbox::{Heading, Outbox};
use crate::parts::token_bucket::{Packets, TokenBucket};
use crate::random::Generator;

/// Who this node is to others.
pub(crate) struct Local {
    pub(crate) secret: StaticSecret,
    pub(crate) suite: Suite,
    /// Which shard of a relay this is; 0 for agents.
    pub(crate) shard: Shard,
    pub(crate) capabilities: Capabilities,
    /// Nanoseconds of Unix time at [`Time::START`].
    pub(crate) started_unix_nanos: u64,
}

impl Local {
    /// Whether this is the relay shard that an initiation names, if it names one.
    fn is_asked_for(&self, initiation: &InitiationHeader) -> bool {
        initiation.purpose == Purpose::EndToEnd || initiation.shard == self.shard
    }

    /// The shard under which a peer that initiates is known: this side's own for agents who came for it, its own for
    /// a relay, 0 for agents among themselves.
    fn peer_shard(&self, purpose: Purpose, index: SessionIndex) -> Shard {
        match purpose {
            Purpose::AgentToRelay => self.shard,
            Purpose::RelayToRelay => index.shard(),
            Purpose::EndToEnd => Shard::new(0),
        }
    }
}

counters! {
/// Counters of what sessions dropped, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionCounters {
    /// Packets that are not of the protocol, or malformed.
    pub malformed: u64,
    /// Packets of a kind that this version does not know; peers send one each to see that it is so.
    pub unknown_kinds: u64,
    /// Packets with an index that no session has.
    pub unknown_index: u64,
    /// Packets whose tag is wrong.
    pub forged: u64,
    /// Packets seen before.
    pub replayed: u64,
    /// Packets behind the replay window.
    pub too_old: u64,
    /// Initiations that were refused: by address, by mac, or because their peer is unknown.
    pub initiations_refused: u64,
    /// Cookies given instead of an answer.
    pub cookies: u64,
    /// Handshakes completed.
    pub handshakes: u64,
    /// Times a session moved to another address.
    pub moves: u64,
    /// Probes and challenges that stay unanswered: their peer sends too many.
    pub probes_ignored: u64,
    /// Packets that could not be sent for want of a session or an address.
    pub unsendable: u64,
}
}

/// How many sessions of an agent are brought into the cache before an input: a peer's and its relays'. Those of more would
/// be more than most inputs need.
const SESSIONS_AT_HAND: usize = 4;

/// All sessions of a node.
pub(crate) struct Sessions {
    local: Local,
    boot: Boot,
    provider: &'static (dyn Provider + Sync),
    random: Generator,
    responder: Responder,
    cookies: CookieJar,
    /// Initiations without a cookie, and those with one.
    addresses: AddressLimits,
    handshakes: TokenBucket<Packets>,
    proved_addresses: AddressLimits,
    proved_networks: AddressLimits,
    proved_handshakes: TokenBucket<Packets>,
    known_addresses: KnownAddresses,
    /// Responses to initiations of this node that are read.
    responses: TokenBucket<Packets>,
    slots: Vec<Option<Session>>,
    free: Vec<SessionId>,
    by_index: IndexTable<SessionIndex>,
    by_key: BTreeMap<(PublicKey, Purpose, Shard), SessionId>,
    deadlines: BTreeSet<(Time, SessionId)>,
    last_stamp: u64,
    /// Whether one of the relays that this node was given is at the loopback; `None` without relays.
    has_loopback_relay: Option<bool>,
    /// Where a packet is built that goes inside another.
    scratch: Vec<u8>,
    /// Where a message that is alone in its packet is written.
    long: Vec<u8>,
    /// Peers for whom messages wait.
    waiting: Vec<SessionId>,
    pub(crate) changes: VecDeque<Change>,
    pub(crate) outbox: Outbox<Heading>,
    pub(crate) counters: SessionCounters,
}

impl Sessions {
    pub(crate) fn new(
        local: Local,
        provider: &'static (dyn Provider + Sync),
        mut random: Generator,
        now: Time,
    ) -> Self {
        let boot = Boot::new(u64::from_be_bytes(random.bytes()));
        let addresses = AddressLimits::new(random.bytes(), ADDRESS_HANDSHAKE_BURST);
        // What these tables hash has different lengths, or serves the same addresses.
        let proved_key = random.bytes();
        let bucket = |rate, burst| TokenBucket::of_packets(rate, Packets::new(burst), now);
        Self {
            boot,
            provider,
            responder: Responder::new(local.secret.clone()),
            cookies: CookieJar::new(local.secret.public_key()),
            addresses,
            handshakes: bucket(HANDSHAKES_PER_SECOND, HANDSHAKE_BURST),
            proved_addresses: AddressLimits::new(proved_key, ADDRESS_HANDSHAKE_BURST),
            proved_networks: AddressLimits::new(proved_key, NETWORK_HANDSHAKE_BURST),
            known_addresses: KnownAddresses::new(proved_key),
            responses: bucket(RESPONSES_PER_SECOND, RESPONSE_BURST),
            proved_handshakes: bucket(PROVED_HANDSHAKES_PER_SECOND, PROVED_HANDSHAKE_BURST),
            random,
            local,
            slots: Vec::new(),
            free: Vec::new(),
            by_index: IndexTable::default(),
            by_key: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            last_stamp: 0,
            has_loopback_relay: None,
            scratch: Vec::new(),
            long: Vec::new(),
            waiting: Vec::new(),
            changes: VecDeque::new(),
            outbox: Outbox::default(),
            counters: SessionCounters::default(),
        }
    }

    /// This node's own key.
    pub(crate) fn public_key(&self) -> PublicKey {
        self.local.secret.public_key()
    }

    /// Adds a peer, without a session yet; the session it has, if it is known.
    pub(crate) fn add(&mut self, mut remote: Remote, now: Time) -> SessionId {
        let key = (remote.key, remote.purpose, remote.shard);
        if remote.purpose != Purpose::EndToEnd && !remote.addresses.is_empty() {
            let is_here = remote.addresses.iter().any(|address| is_loopback(*address));
            self.has_loopback_relay = Some(is_here || self.has_loopback_relay == Some(true));
        }
        remote.addresses.retain(|address| self.may_try(*address));
        if let Some(known) = self.by_key.get(&key) {
            return *known;
        }
        let session = Some(Session::new(remote, now));
        let id = self.free.pop().unwrap_or_else(|| {
            growth::push(&mut self.slots, None);
            SessionId(u32::try_from(self.slots.len() - 1).expect("the number of sessions is limited"))
        });
        self.slots[id.0 as usize] = session;
        self.by_key.insert(key, id);
        id
    }

    /// A peer is at another address from now on, which a handshake proves.
    pub(crate) fn move_to(&mut self, id: SessionId, address: SocketAddr, now: Time) {
        if let Some(session) = self.get_mut(id)
            && session.remote.addresses != [address]
        {
            session.remote.addresses = alloc::vec![address];
            self.connect(id, &[], now);
        }
    }

    /// A peer may be at these addresses too; of too many, the oldest are forgotten.
    pub(crate) fn add_addresses(&mut self, id: SessionId, addresses: &[SocketAddr], now: Time) {
        for address in addresses {
            if !self.may_try(*address) {
                continue;
            }
            let Some(session) = self.get_mut(id) else {
                return;
            };
            let known = &mut session.remote.addresses;
            if known.contains(address) {
                continue;
            }
            known.push(*address);
            known.drain(..known.len().saturating_sub(CANDIDATES_MAX));
            if !self.is_direct(id) && self.is_established(id, now) {
                self.try_address(id, *address, now);
            }
        }
    }

    /// Whether something may be sent to an address because somebody says that a peer is there. Peers are looked for at
    /// the loopback only where relays are there too: else they could have this machine's own ports tried.
    fn may_try(&self, address: SocketAddr) -> bool {
        is_unicast(address) && (!is_loopback(address) || self.has_loopback_relay.unwrap_or(true))
    }

    /// Forgets a peer and everything about it.
    pub(crate) fn remove(&mut self, id: SessionId) {
        let Some(session) = self.slots.get_mut(id.0 as usize).and_then(Option::take) else {
            return;
        };
        let remote = &session.remote;
        self.by_key.remove(&(remote.key, remote.purpose, remote.shard));
        let answered = session.answered.as_ref().map(|answered| answered.epoch.ours);
        let attempted = session.attempt.as_ref().map(|attempt| attempt.index);
        for index in session.epochs.iter().map(|epoch| epoch.ours).chain(answered).chain(attempted) {
            self.by_index.remove(index);
        }
        if let Some(at) = session.armed {
            self.deadlines.remove(&(at, id));
        }
        self.free.push(id);
    }

    pub(crate) fn get(&self, id: SessionId) -> Option<&Session> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.slots.get_mut(id.0 as usize)?.as_mut()
    }

    /// The session with a peer of this key.
    pub(crate) fn find(&self, key: PublicKey, purpose: Purpose, shard: Shard) -> Option<SessionId> {
        self.by_key.get(&(key, purpose, shard)).copied()
    }

    /// How many peers there are.
    pub(crate) fn count(&self) -> usize {
        self.by_key.len()
    }

    /// All peers.
    pub(crate) fn ids(&self) -> impl Iterator<Item = SessionId> + '_ {
        let taken = (0..).zip(&self.slots).filter(|(_, session)| session.is_some());
        taken.map(|(place, _)| SessionId(place))
    }

    /// When this second of Unix time is over.
    pub(crate) fn after_unix_second(&self, seconds: u64) -> Time {
        let nanos = seconds.checked_add(1).and_then(|next| next.checked_mul(1_000_000_000));
        nanos.map_or(Time::MAX, |nanos| Time::from_nanos(nanos.saturating_sub(self.local.started_unix_nanos)))
    }

    /// Seconds of Unix time.
    pub(crate) fn unix_seconds(&self, now: Time) -> u64 {
        self.local.started_unix_nanos.saturating_add(now.as_nanos()) / 1_000_000_000
    }

    /// A fresh index for what this side receives, in use nowhere else.
    fn draw_index(&mut self, id: SessionId) -> SessionIndex {
        loop {
            let index = SessionIndex::in_shard(self.local.shard, self.random.number());
            if self.by_index.insert(index, id.0) {
                return index;
            }
        }
    }

    /// A stamp above all that this node has given.
    fn draw_stamp(&mut self, now: Time) -> u64 {
        let stamp = self.local.started_unix_nanos.saturating_add(now.as_nanos());
        self.last_stamp = stamp.max(self.last_stamp + 1);
        self.last_stamp
    }

    /// Registers the session's next deadline, after anything that may have changed it.
    fn arm(&mut self, id: SessionId) {
        let Some(session) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        let deadline = session.deadline();
        if session.armed == deadline {
            return;
        }
        if let Some(at) = core::mem::replace(&mut session.armed, deadline) {
            self.deadlines.remove(&(at, id));
        }
        if let Some(at) = deadline {
            self.deadlines.insert((at, id));
        }
    }

    /// Brings what most inputs of an agent need into the cache: its first sessions, and where it writes.
    pub(crate) fn prefetch(&self) {
        self.slots.iter().take(SESSIONS_AT_HAND).for_each(prefetch_value);
        self.outbox.prefetch();
        self.by_index.prefetch_all();
    }

    /// Brings the place of an index into the cache.
    pub(crate) fn prefetch_index(&self, index: SessionIndex) {
        self.by_index.prefetch(index);
    }

    /// Brings a session into the cache.
    pub(crate) fn prefetch_session(&self, id: SessionId) {
        if let Some(session) = self.get(id) {
            prefetch_value(session);
        }
    }

    /// The session with this index in what this side receives.
    pub(crate) fn by_index(&self, index: SessionIndex) -> Option<SessionId> {
        self.by_index.get(index).map(SessionId)
    }

    /// When [`Sessions::handle_timeout`] is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sessions({} peers)", self.by_key.len())
    }
}

#[cfg(test)]
mod tests;
