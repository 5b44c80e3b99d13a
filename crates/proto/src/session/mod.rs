//! Sessions with peers: handshakes, keys, addresses and liveness.
//!
//! Agents and relays use the same table of sessions. It handles handshakes, rekeying, cookies, path
//! validation, probes and replay protection, and passes authenticated packets to its user.
//!
//! | module | subject |
//! |---|---|
//! | `address_limits` | rate limits of initiations by address |
//! | `epoch` | keys, counters and replay window of one epoch |
//! | `handshake` | handshakes in both directions |
//! | `length_checks` | checks that long packets arrive |
//! | `messages` | messages about the session itself |
//! | `mtu_probing` | sending of padded probes |
//! | `path` | validated address of a peer, and candidates |
//! | `path_mtu` | path MTU discovery |
//! | `pending_handshake` | a handshake that this side began |
//! | `probes` | liveness and round-trip time of a peer |
//! | `receive` | parsing and authentication of datagrams |
//! | `send` | sealing and sending of packets |
//! | `session` | state of one session |
//! | `timeouts` | timers of sessions, changes of uplinks, and events for the role |
//! | `transit` | packets between two relays that a third one passes on |
//! | `uplink_choice` | choice between the node's uplinks for one session |
//! | `tests` | pairs of nodes in a simulated network |

mod address_limits;
mod epoch;
mod handshake;
mod length_checks;
mod messages;
mod mtu_probing;
mod path;
mod path_mtu;
mod pending_handshake;
mod probes;
mod receive;
mod send;
#[allow(clippy::module_inception, reason = "the session is what the module is about")]
mod session;
mod timeouts;
mod transit;
mod uplink_choice;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;

use byway_code::prefetch_value;
use byway_units::Time;
use byway_wire::packets::InitiationHeader;
use byway_wire::seal::{CookieJar, Provider, PublicKey, Purpose, Responder, StaticSecret, Suite};
use byway_wire::{Capabilities, Incarnation, SessionIndex, Shard};

pub(crate) use epoch::{EnvelopeContents, Epoch, RejectReason};
pub(crate) use handshake::Route;
pub(crate) use probes::ProbeContext;
pub(crate) use receive::Inbound;
pub(crate) use session::{
    RemoteIdentity, Session, SessionId, SessionTimes, TransitPath, TransitRoute, ViaRelay,
};
pub(crate) use timeouts::SessionEvent;
pub(crate) use transit::{
    open_transit, pass_on, relay_envelope, relay_repair, send_transit_probe, verifies_label,
};

use address_limits::{AddressLimits, KnownAddresses};
use path::{is_loopback, is_unicast};

use crate::counters::counters;
use crate::growth;
use crate::index_table::IndexTable;
use crate::limits::{
    ADDRESS_HANDSHAKE_BURST, CANDIDATES_MAX, HANDSHAKE_BURST, HANDSHAKES_PER_SECOND, NETWORK_HANDSHAKE_BURST,
    PROVED_HANDSHAKE_BURST, PROVED_HANDSHAKES_PER_SECOND, RESPONSE_BURST, RESPONSES_PER_SECOND,
};
use crate::network_path::{Uplink, Uplinks};
use crate::outbox::{Outbox, TransmitMeta};
use crate::parts::token_bucket::{Packets, TokenBucket};
use crate::random::Generator;

/// Identity of this node, for handshakes.
pub(crate) struct LocalIdentity {
    pub(crate) secret: StaticSecret,
    pub(crate) suite: Suite,
    /// Number of this relay's shard; 0 for agents.
    pub(crate) shard: Shard,
    pub(crate) capabilities: Capabilities,
    /// Unix time in nanoseconds at [`Time::START`] of this node's clock.
    pub(crate) started_unix_nanos: u64,
    /// Uplinks between which sessions choose.
    pub(crate) uplinks: Uplinks,
}

impl LocalIdentity {
    /// Returns the uplink that sessions of this purpose prefer; `None` if there is only one. Copies
    /// and repairs are useful only if they do not share their fate with the source packets.
    fn preferred_uplink(&self, purpose: Purpose) -> Option<Uplink> {
        match (self.uplinks, purpose) {
            (Uplinks::One, _) => None,
            (Uplinks::Two { .. }, Purpose::EndToEnd) => Some(Uplink::First),
            (Uplinks::Two { .. }, Purpose::AgentToRelay | Purpose::RelayToRelay) => Some(Uplink::Second),
        }
    }

    /// True if an initiation addresses this shard, or is between agents, which have no shards.
    fn is_addressed_by(&self, initiation: &InitiationHeader) -> bool {
        initiation.purpose == Purpose::EndToEnd || initiation.shard == self.shard
    }

    /// Returns the shard that distinguishes sessions with the initiator of a handshake. For agents
    /// of a relay, it is this relay's shard. For a relay, it is the peer's shard. Between agents,
    /// it is 0.
    fn peer_shard(&self, purpose: Purpose, index: SessionIndex) -> Shard {
        match purpose {
            Purpose::AgentToRelay => self.shard,
            Purpose::RelayToRelay => index.shard(),
            Purpose::EndToEnd => Shard::new(0),
        }
    }
}

counters! {
/// Counters of a node's sessions: packets, handshakes and moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionCounters {
    /// Packets that are malformed, or belong to another protocol.
    pub malformed: u64,
    /// Packets of a kind that this version does not know. Peers send one in each epoch, as grease.
    pub unknown_kinds: u64,
    /// Packets with a session index that no session of this node has.
    pub unknown_index: u64,
    /// Packets with a wrong authentication tag.
    pub forged: u64,
    /// Packets that were received before under the same counter.
    pub replayed: u64,
    /// Packets whose counter is below the replay window.
    pub too_old: u64,
    /// Initiations that this node refused: by its rate limits, because they cannot be read, or
    /// because another handshake has priority.
    pub initiations_refused: u64,
    /// Cookies sent to initiators, instead of a response.
    pub cookies: u64,
    /// Handshakes that this node completed, as initiator or responder.
    pub handshakes: u64,
    /// Number of times that a peer's new address was validated, and its session moved there.
    pub moves: u64,
    /// Probes and challenges that this node did not answer, because their peer sends too many.
    pub probes_ignored: u64,
    /// Packets that could not be sent, because no session or path to the peer exists.
    pub unsendable: u64,
}
}

/// Number of sessions that an agent prefetches before an input: those with a peer and its relays.
/// Most inputs need no more.
const PREFETCHED_SESSIONS: usize = 4;

/// All sessions of a node: handshakes, epochs, addresses, probes and timers.
///
/// # Contract
/// - **Inputs**: [`receive_from`](Self::receive_from) takes a datagram, and returns its
///   authenticated contents as [`Inbound`]. The role accepts or ignores an initiation
///   ([`accept`](Self::accept)). [`handle_timeout`](Self::handle_timeout) takes an expired
///   deadline.
/// - **Commands**: [`add`](Self::add) and [`remove`](Self::remove) change the peers.
///   [`queue_message`](Self::queue_message) queues a message;
///   [`flush_all`](Self::flush_all) seals the queued ones.
/// - **Outputs**: datagrams in `outbox`, events in `events`. The role drains both after each input.
/// - **Order**: `receive_from`, events, messages of the role, `flush_all`, outbox. A fresh epoch
///   voids state of the earlier session; therefore the role handles events before the messages of
///   the same datagram.
/// - **Time**: `now` never decreases. [`deadline`](Self::deadline) is the earliest timer of all
///   sessions; each input may move it.
/// - **Getters** ([`get`](Self::get), [`round_trip`](Self::round_trip) and others) change nothing.
///
/// `SessionPair` in `session/tests` is a runnable loop over two tables.
pub(crate) struct Sessions {
    local: LocalIdentity,
    incarnation: Incarnation,
    provider: &'static (dyn Provider + Sync),
    random: Generator,
    responder: Responder,
    cookies: CookieJar,
    /// Limits of initiations without a cookie (by address, then in total), and of those with one
    /// (by address, by network, in total).
    addresses: AddressLimits,
    handshakes: TokenBucket<Packets>,
    proved_addresses: AddressLimits,
    proved_networks: AddressLimits,
    proved_handshakes: TokenBucket<Packets>,
    known_addresses: KnownAddresses,
    /// Limit of the responses to this node's initiations that it reads.
    responses: TokenBucket<Packets>,
    slots: Vec<Option<Session>>,
    free: Vec<SessionId>,
    by_index: IndexTable<SessionIndex>,
    by_key: BTreeMap<(PublicKey, Purpose, Shard), SessionId>,
    deadlines: BTreeSet<(Time, SessionId)>,
    last_timestamp: u64,
    /// True if a relay of this node has a loopback address; `None` before the first relay is added.
    has_loopback_relay: Option<bool>,
    /// Buffer for a packet that is sent through a relay, inside a message.
    scratch: Vec<u8>,
    /// Buffer for a message that needs a packet of its own.
    long_message: Vec<u8>,
    /// Sessions with queued messages that are not sealed yet.
    unflushed: Vec<SessionId>,
    pub(crate) events: VecDeque<SessionEvent>,
    pub(crate) outbox: Outbox<TransmitMeta>,
    pub(crate) counters: SessionCounters,
}

impl Sessions {
    pub(crate) fn new(
        local: LocalIdentity,
        provider: &'static (dyn Provider + Sync),
        mut random: Generator,
        now: Time,
    ) -> Self {
        let incarnation = Incarnation::new(u64::from_be_bytes(random.bytes()));
        let addresses = AddressLimits::new(random.bytes(), ADDRESS_HANDSHAKE_BURST);
        // These tables can share a key: their inputs have different lengths, or are the same
        // addresses.
        let proved_key = random.bytes();
        let bucket = |rate, burst| TokenBucket::of_packets(rate, Packets::new(burst), now);
        Self {
            incarnation,
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
            last_timestamp: 0,
            has_loopback_relay: None,
            scratch: Vec::new(),
            long_message: Vec::new(),
            unflushed: Vec::new(),
            events: VecDeque::new(),
            outbox: Outbox::default(),
            counters: SessionCounters::default(),
        }
    }

    /// Sets the uplinks between which sessions choose that are added from now on.
    pub(crate) const fn set_uplinks(&mut self, uplinks: Uplinks) {
        self.local.uplinks = uplinks;
    }

    /// Sets the capabilities of handshakes from now on, as an earlier version has them.
    #[cfg(test)]
    pub(crate) const fn set_capabilities(&mut self, capabilities: Capabilities) {
        self.local.capabilities = capabilities;
    }

    /// Returns the uplinks between which sessions choose.
    pub(crate) const fn uplinks(&self) -> Uplinks {
        self.local.uplinks
    }

    /// Returns this node's public key.
    pub(crate) fn public_key(&self) -> PublicKey {
        self.local.secret.public_key()
    }

    /// Adds a peer, and returns its session, which is not established. For a known peer, returns
    /// its existing session.
    pub(crate) fn add(&mut self, mut remote: RemoteIdentity, now: Time) -> SessionId {
        let key = (remote.key, remote.purpose, remote.shard);
        if remote.purpose != Purpose::EndToEnd && !remote.addresses.is_empty() {
            let is_here = remote.addresses.iter().any(|address| is_loopback(*address));
            self.has_loopback_relay = Some(is_here || self.has_loopback_relay == Some(true));
        }
        remote.addresses.retain(|address| self.may_try(*address));
        if let Some(known) = self.by_key.get(&key) {
            return *known;
        }
        let preferred = self.local.preferred_uplink(remote.purpose);
        let mut session = Session::new(remote, now);
        if let Some(preferred) = preferred {
            session.path.prefer_uplink(preferred);
        }
        let session = Some(session);
        let id = self.free.pop().unwrap_or_else(|| {
            growth::push(&mut self.slots, None);
            SessionId(u32::try_from(self.slots.len() - 1).expect("the number of sessions is limited"))
        });
        self.slots[id.0 as usize] = session;
        self.by_key.insert(key, id);
        id
    }

    /// Replaces the possible addresses of a peer by this one, and begins a handshake to validate
    /// it. Does nothing if it is the only one already.
    pub(crate) fn move_to(&mut self, id: SessionId, address: SocketAddr, now: Time) {
        if let Some(session) = self.get_mut(id)
            && session.remote.addresses != [address]
        {
            session.remote.addresses = alloc::vec![address];
            self.connect(id, &[], now);
        }
    }

    /// Adds possible addresses of a peer, and challenges them unless the peer is reached directly.
    /// If there are too many, the oldest are removed.
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

    /// True if this node may send to an address that another node named. Loopback addresses are
    /// allowed only if a relay has one, or if there are no relays. Otherwise, others could make
    /// this node probe its own machine's ports.
    fn may_try(&self, address: SocketAddr) -> bool {
        is_unicast(address) && (!is_loopback(address) || self.has_loopback_relay.unwrap_or(true))
    }

    /// Removes a peer's session with all its keys, indices and timers.
    pub(crate) fn remove(&mut self, id: SessionId) {
        let Some(session) = self.slots.get_mut(id.0 as usize).and_then(Option::take) else {
            return;
        };
        let remote = &session.remote;
        self.by_key.remove(&(remote.key, remote.purpose, remote.shard));
        let answered = session.answered_initiation.as_ref().map(|answered| answered.epoch.local_index);
        let pending = session.pending_handshake.as_ref().map(|pending| pending.index);
        for index in session.epochs.iter().map(|epoch| epoch.local_index).chain(answered).chain(pending) {
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

    /// Returns the session with the peer of this key, purpose and shard; `None` if it is unknown.
    pub(crate) fn find(&self, key: PublicKey, purpose: Purpose, shard: Shard) -> Option<SessionId> {
        self.by_key.get(&(key, purpose, shard)).copied()
    }

    /// Returns the number of peers, established or not.
    pub(crate) fn count(&self) -> usize {
        self.by_key.len()
    }

    /// Returns the sessions of all peers, established or not.
    pub(crate) fn ids(&self) -> impl Iterator<Item = SessionId> + '_ {
        let used = (0..).zip(&self.slots).filter(|(_, session)| session.is_some());
        used.map(|(index, _)| SessionId(index))
    }

    /// Returns the time on this node's clock at which this second of Unix time ends.
    pub(crate) fn after_unix_second(&self, seconds: u64) -> Time {
        let nanos = seconds.checked_add(1).and_then(|next| next.checked_mul(1_000_000_000));
        nanos.map_or(Time::MAX, |nanos| Time::from_nanos(nanos.saturating_sub(self.local.started_unix_nanos)))
    }

    /// Returns the Unix time in seconds, by this node's clock.
    pub(crate) fn unix_seconds(&self, now: Time) -> u64 {
        self.local.started_unix_nanos.saturating_add(now.as_nanos()) / 1_000_000_000
    }

    /// Allocates a random session index of this node's shard for a session's received packets.
    fn allocate_index(&mut self, id: SessionId) -> SessionIndex {
        loop {
            let index = SessionIndex::in_shard(self.local.shard, self.random.number());
            if self.by_index.insert(index, id.0) {
                return index;
            }
        }
    }

    /// Returns the handshake timestamp of a new initiation: the Unix time in nanoseconds, but more
    /// than all earlier ones of this node.
    fn next_handshake_timestamp(&mut self, now: Time) -> u64 {
        let timestamp = self.local.started_unix_nanos.saturating_add(now.as_nanos());
        self.last_timestamp = timestamp.max(self.last_timestamp + 1);
        self.last_timestamp
    }

    /// Registers the session's next deadline in the table; needed after any change to it.
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

    /// Prefetches into the processor's cache what most inputs of an agent need: its first sessions,
    /// and its output buffers.
    pub(crate) fn prefetch(&self) {
        self.slots.iter().take(PREFETCHED_SESSIONS).for_each(prefetch_value);
        self.outbox.prefetch();
        self.by_index.prefetch_all();
    }

    /// Prefetches the table entry of a session index into the processor's cache.
    pub(crate) fn prefetch_index(&self, index: SessionIndex) {
        self.by_index.prefetch(index);
    }

    /// Prefetches a session into the processor's cache.
    pub(crate) fn prefetch_session(&self, id: SessionId) {
        if let Some(session) = self.get(id) {
            prefetch_value(session);
        }
    }

    /// Returns the session that has this index in its received packets.
    pub(crate) fn by_index(&self, index: SessionIndex) -> Option<SessionId> {
        self.by_index.get(index).map(SessionId)
    }

    /// Returns the earliest deadline of all sessions, for [`Sessions::handle_timeout`].
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
