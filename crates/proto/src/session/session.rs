//! State of one session.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;

use arrayvec::ArrayVec;
use byway_units::{AgentId, Bytes, Time};
use byway_wire::limits::TAG_BYTES;
use byway_wire::seal::{PreSharedKey, PublicKey, Purpose};
use byway_wire::{Incarnation, SessionIndex, Shard, TransitLabel};

use super::epoch::Epoch;
use super::handshake::Route;
use super::path::Path;
use super::path_mtu::PathMtu;
use super::pending_handshake::PendingHandshake;
use super::probes::Probes;
use crate::limits::{
    IN_USE_FOR, KEEPALIVE_INTERVAL, PAYLOAD_BYTES_BASE, PAYLOAD_BYTES_PROBED, REKEY_GRACE, REPLIES_BURST,
    REPLIES_PER_SECOND, VIA_RELAYS_MAX, WATCH_INTERVAL,
};
use crate::parts::token_bucket::{Packets, TokenBucket};

/// Identifier of a session, unique among the present sessions of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SessionId(pub(crate) u32);

/// Number of epochs that a session keeps to open packets: the newest and two before it, which two
/// bits of a packet distinguish.
pub(crate) const EPOCHS_MAX: usize = 3;

/// Identity and possible addresses of a session's peer.
#[derive(Clone, Debug)]
pub(crate) struct RemoteIdentity {
    pub(crate) key: PublicKey,
    pub(crate) purpose: Purpose,
    /// Number of the shard, if the peer is a relay.
    pub(crate) shard: Shard,
    pub(crate) pre_shared: PreSharedKey,
    /// Addresses at which the peer may be; they are not validated.
    pub(crate) addresses: Vec<SocketAddr>,
    /// True if this side maintains the session even without traffic.
    pub(crate) is_persistent: bool,
}

/// Route to a peer through a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ViaRelay {
    /// This node's session with the relay.
    pub(crate) relay: SessionId,
    /// Agent for which the relay forwards packets: the peer.
    pub(crate) agent: AgentId,
}

/// Initiation of the peer that this side has answered, and that no packet has confirmed yet.
#[derive(Debug)]
pub(crate) struct AnsweredInitiation {
    /// The initiation's last bytes, its `mac1`, which no two initiations share.
    pub(crate) mac1: [u8; 16],
    pub(crate) response: Vec<u8>,
    pub(crate) epoch: Epoch,
    pub(crate) incarnation: Incarnation,
    /// Handshake timestamp of the initiation. For a while, initiations with older timestamps are
    /// dropped.
    pub(crate) handshake_timestamp: u64,
    /// Route of the initiation, which its confirmation validates; `None` if it arrived on several.
    pub(crate) origin: Option<Route>,
    pub(crate) since: Time,
}

/// State of a session with one peer.
#[allow(clippy::struct_excessive_bools, reason = "facts that hold or not independently of each other")]
pub(crate) struct Session {
    pub(crate) remote: RemoteIdentity,
    pub(crate) path: Path,
    /// Path MTU discovery; `None` until a long packet is to be sent. Relays have many sessions, and
    /// send no long packets.
    pub(crate) path_mtu: Option<Box<PathMtu>>,
    /// Route through the relay that the peer used last; in use while no direct address is
    /// validated.
    pub(crate) via_relay: Option<ViaRelay>,
    /// Routes to the peer through relays, the newest last, for urgent messages.
    pub(crate) via_relays: ArrayVec<ViaRelay, VIA_RELAYS_MAX>,
    /// Authentication tag of a response that arrived through a relay. Until this time, its arrival
    /// on the direct path validates that path.
    pub(crate) relayed_response: Option<([u8; TAG_BYTES], Time)>,
    /// True if the peer may have moved: the last handshake used a relay, and no packet has arrived
    /// from the validated address since.
    pub(crate) is_doubtful: bool,
    /// True if the role was last notified that the peer is directly reachable.
    pub(crate) was_direct: bool,
    /// Epochs of the session, newest first; the newest one seals packets.
    pub(crate) epochs: ArrayVec<Epoch, EPOCHS_MAX>,
    pub(crate) pending_handshake: Option<PendingHandshake>,
    /// Encoded messages of the last initiation that had any. Later initiations repeat them, because
    /// the other side may have lost its state.
    pub(crate) greeting: Vec<u8>,
    pub(crate) answered_initiation: Option<AnsweredInitiation>,
    /// Highest handshake timestamp accepted from the peer.
    pub(crate) handshake_timestamp: u64,
    /// Incarnation of the peer with which the epochs' keys were agreed.
    pub(crate) incarnation: Option<Incarnation>,
    /// True if this side initiated the newest epoch; then it also initiates the next one.
    pub(crate) initiator: bool,
    pub(crate) probes: Probes,
    /// Limit of the peer's probes and challenges that this side answers.
    pub(crate) replies: TokenBucket<Packets>,
    /// Number of long packets received from the peer, modulo 2^32.
    pub(crate) long_arrived: u32,
    /// Round-trip time that the peer measured and reported in its probes.
    pub(crate) reported_round_trip: Option<byway_units::Duration>,
    /// True if the peer counts as dead: it does not answer.
    pub(crate) is_dead: bool,
    /// Time of the last authenticated packet from the peer.
    pub(crate) last_received: Time,
    pub(crate) times: SessionTimes,
    pub(crate) transit: TransitState,
    pub(crate) next_probe: Option<Time>,
    /// Encoded messages that the next packet to the peer conveys.
    pub(crate) queued_messages: Vec<u8>,
    /// Encoded messages that are sent on all paths at the end of this input.
    pub(crate) urgent_messages: Vec<u8>,
    /// Deadline that is registered in the table of sessions.
    pub(crate) armed: Option<Time>,
}

/// Times of a session's creation and of its latest uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionTimes {
    /// Time at which the session was created.
    pub(crate) began: Time,
    /// Time at which the application last sent or received data.
    pub(crate) used: Time,
    /// Time until which the application needs to know that the peer is alive, without data for it.
    pub(crate) watched_until: Time,
}

/// Path to a peer relay through a third relay, which passes on packets with a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransitPath {
    /// Session with the third relay.
    pub(crate) relay: SessionId,
    pub(crate) label: TransitLabel,
    /// Index of the epoch that seals packets with this label.
    pub(crate) index: SessionIndex,
}

/// Route through a third relay that a peer relay's packets use.
#[derive(Clone, Debug)]
pub(crate) struct TransitRoute {
    pub(crate) path: TransitPath,
    /// Limit below the rate that the third relay has announced.
    pub(crate) allowance: TokenBucket<Bytes>,
    /// True once packets exceeded the limit; from then on, they use the direct path.
    pub(crate) is_overrun: bool,
}

/// Packets of a session between two relays that a third relay passes on.
#[derive(Clone, Debug, Default)]
pub(crate) struct TransitState {
    /// Route of packets to the peer; `None` for the direct path.
    pub(crate) route: Option<Box<TransitRoute>>,
    /// Numbers of packets sent and received through third relays, modulo 2^32.
    pub(crate) sent: u32,
    pub(crate) received: u32,
}

impl Session {
    pub(crate) fn new(remote: RemoteIdentity, now: Time) -> Self {
        Self {
            remote,
            path: Path::default(),
            path_mtu: None,
            via_relay: None,
            via_relays: ArrayVec::new(),
            relayed_response: None,
            is_doubtful: false,
            was_direct: false,
            epochs: ArrayVec::new(),
            pending_handshake: None,
            greeting: Vec::new(),
            answered_initiation: None,
            handshake_timestamp: 0,
            incarnation: None,
            initiator: false,
            probes: Probes::new(),
            replies: TokenBucket::of_packets(REPLIES_PER_SECOND, Packets::new(REPLIES_BURST), now),
            long_arrived: 0,
            reported_round_trip: None,
            is_dead: false,
            last_received: now,
            times: SessionTimes { began: now, used: now, watched_until: now },
            transit: TransitState::default(),
            next_probe: None,
            queued_messages: Vec::new(),
            urgent_messages: Vec::new(),
            armed: None,
        }
    }

    /// True if packets can reach the peer without a relay, as far as is known.
    pub(crate) const fn is_direct(&self) -> bool {
        self.path.address().is_some() && !self.is_doubtful
    }

    /// Returns the longest UDP payload in bytes that is known to reach the peer, and requests
    /// probes of longer ones; `None` if there is no direct address.
    pub(crate) fn payload_bytes(&mut self, now: Time) -> Option<usize> {
        let to = *self.path.address()?;
        let path_mtu = self.path_mtu.get_or_insert_default();
        path_mtu.request_probing(to, now);
        Some(path_mtu.payload_bytes(to))
    }

    /// Returns the longest UDP payload in bytes that is known to reach the peer; `None` until a
    /// search has ended. If it is less than the longest payload of agents, requests probes of
    /// longer ones.
    pub(crate) fn settled_payload_bytes(&mut self, now: Time) -> Option<usize> {
        let to = *self.path.address()?;
        let path_mtu = self.path_mtu.as_mut()?;
        let settled = path_mtu.settled(to)?;
        if settled < PAYLOAD_BYTES_PROBED[0] {
            path_mtu.request_probing(to, now);
        }
        Some(settled)
    }

    /// Counts a received packet with a UDP payload of this length, if it is longer than
    /// [`PAYLOAD_BYTES_BASE`].
    #[inline]
    pub(crate) const fn count_length(&mut self, payload_bytes: usize) {
        if payload_bytes > PAYLOAD_BYTES_BASE {
            self.long_arrived = self.long_arrived.wrapping_add(1);
        }
    }

    /// True unless a UDP payload of this length is known to be too long for the path to the peer.
    pub(crate) fn fits_path_mtu(&mut self, payload_bytes: usize, now: Time) -> bool {
        if payload_bytes <= PAYLOAD_BYTES_BASE {
            return true;
        }
        self.payload_bytes(now);
        let is_narrowed = self.path_mtu.as_ref().is_some_and(|path_mtu| path_mtu.is_narrowed());
        !is_narrowed && self.settled_payload_bytes(now).is_none_or(|settled| payload_bytes <= settled)
    }

    /// Returns the epoch that seals packets now; `None` if there is none, or it has expired.
    pub(crate) fn sealing(&mut self, now: Time) -> Option<&mut Epoch> {
        self.epochs.first_mut().filter(|epoch| epoch.may_seal(now))
    }

    /// True if the session's packets may arrive on this route. Only packets between agents may
    /// arrive through a relay, and only those between relays through a third one.
    pub(crate) fn accepts_from(&self, origin: Route) -> bool {
        match origin {
            Route::Direct(_) => true,
            Route::ViaRelay(_) => self.remote.purpose == Purpose::EndToEnd,
            Route::Transit => self.remote.purpose == Purpose::RelayToRelay,
        }
    }

    /// Adds a route to the peer through a relay. If there are too many, the oldest is removed.
    pub(crate) fn add_via_relay(&mut self, via_relay: ViaRelay) {
        if self.via_relays.contains(&via_relay) {
            return;
        }
        if self.via_relays.is_full() {
            self.via_relays.remove(0);
        }
        self.via_relays.push(via_relay);
    }

    /// Removes all routes to the peer through the relay of this session.
    pub(crate) fn forget_via_relay(&mut self, relay: SessionId) {
        self.via_relay.take_if(|via_relay| via_relay.relay == relay);
        self.via_relays.retain(|via_relay| via_relay.relay != relay);
    }

    /// True if the newest epoch may still seal packets.
    pub(crate) fn is_established(&self, now: Time) -> bool {
        self.epochs.first().is_some_and(|epoch| epoch.may_seal(now))
    }

    /// Returns the epoch with this session index, confirmed or not.
    pub(crate) fn by_index(&mut self, index: SessionIndex) -> Option<&mut Epoch> {
        let answered = self.answered_initiation.as_mut().map(|answered| &mut answered.epoch);
        self.epochs.iter_mut().chain(answered).find(|epoch| epoch.local_index == index)
    }

    /// Returns the session indices of the epochs whose numbers end in these two bits and that may
    /// open packets. They are two at most, while a handshake with a restarted peer is not
    /// confirmed.
    pub(crate) fn indices_by_bits(&self, bits: u8, now: Time) -> ArrayVec<SessionIndex, { EPOCHS_MAX + 1 }> {
        let answered = self.answered_initiation.as_ref().map(|answered| &answered.epoch);
        let epochs = self.epochs.iter().chain(answered);
        epochs
            .filter(|epoch| epoch.number.low_bits() == bits && epoch.may_open(now))
            .map(|epoch| epoch.local_index)
            .collect()
    }

    /// True if the application sent or received data recently.
    pub(crate) fn is_in_use(&self, now: Time) -> bool {
        now.saturating_since(self.times.used) < IN_USE_FOR
    }

    /// True if the application may soon use the session.
    pub(crate) fn is_watched(&self, now: Time) -> bool {
        now < self.times.watched_until
    }

    /// Makes `epoch` the newest one, agreed with this incarnation of the peer. Returns true if it
    /// continues no earlier session, and the indices of removed epochs.
    pub(crate) fn begin_epoch(
        &mut self,
        epoch: Epoch,
        incarnation: Incarnation,
    ) -> (bool, ArrayVec<SessionIndex, EPOCHS_MAX>) {
        let mut forgotten = ArrayVec::new();
        let fresh = self.incarnation != Some(incarnation);
        if fresh {
            forgotten.extend(self.epochs.drain(..).map(|epoch| epoch.local_index));
            self.incarnation = Some(incarnation);
        } else if self.epochs.is_full() {
            forgotten.extend(self.epochs.pop().map(|epoch| epoch.local_index));
        }
        self.epochs.insert(0, epoch);
        (fresh, forgotten)
    }

    /// Forgets the peer's incarnation when there are no keys left, unless both are agents. Then the
    /// next handshake begins a fresh session, even if neither side restarted.
    pub(crate) fn forget_if_over(&mut self) {
        if self.epochs.is_empty() && self.remote.purpose != Purpose::EndToEnd {
            self.incarnation = None;
        }
    }

    /// True if the session has no keys and no handshake, and this side does not maintain it.
    pub(crate) fn is_over(&self) -> bool {
        self.epochs.is_empty()
            && self.answered_initiation.is_none()
            && self.pending_handshake.is_none()
            && !self.remote.is_persistent
    }

    /// Returns the time at which this side should begin the next epoch; `None` without an epoch.
    /// The responder of the last handshake waits longer.
    pub(crate) fn rekey_at(&self) -> Option<Time> {
        let newest = self.epochs.first()?;
        let grace = if self.initiator { byway_units::Duration::ZERO } else { REKEY_GRACE };
        Some(newest.stale_at() + grace)
    }

    /// True if this side should begin the next epoch now: it initiated the newest one, or the
    /// initiator missed its time.
    pub(crate) fn begins_epochs(&self, now: Time) -> bool {
        self.initiator || self.rekey_at().is_none_or(|at| at <= now)
    }

    /// True if this side should begin an epoch now: there is none that seals, or the newest one is
    /// old, and it is this side that begins the next.
    pub(crate) fn needs_epoch(&self, now: Time) -> bool {
        let is_stale = self.epochs.first().is_some_and(|newest| newest.is_stale(now));
        !self.is_established(now) || (is_stale && self.begins_epochs(now))
    }

    /// Returns the time of the session's next timeout; `None` if there is none.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let oldest = self.epochs.last().map(Epoch::ends_at);
        let unconfirmed = self.answered_initiation.as_ref().map(|answered| answered.epoch.ends_at());
        let pending = self.pending_handshake.as_ref().map(PendingHandshake::deadline);
        let rekey = self.rekey_at().filter(|_| self.pending_handshake.is_none() && self.wants_epoch());
        let check = self.path_mtu.as_ref().and_then(|path_mtu| path_mtu.deadline());
        let return_at = self.path.return_at().filter(|_| !self.epochs.is_empty());
        [oldest, unconfirmed, pending, rekey, self.next_probe, self.path.deadline(), check, return_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// True if this side renews the epoch without traffic.
    pub(crate) const fn wants_epoch(&self) -> bool {
        self.remote.is_persistent || self.initiator
    }

    /// Sets the time of the next probe.
    ///
    /// The side that uses the session probes the peer, whichever side initiated it. Relays also
    /// measure the round-trip time of an idle session once, at its start. Without it, the death of
    /// a relay soon after is detected half a second later.
    pub(crate) fn plan_probe(&mut self, now: Time) {
        let measures = self.remote.is_persistent || self.remote.purpose == Purpose::RelayToRelay;
        self.next_probe = if self.epochs.is_empty() {
            None
        } else if measures && self.probes.is_first_due() {
            Some(now)
        } else if self.is_in_use(now) || (measures && self.probes.is_answer_decisive()) {
            Some(now + self.probes.interval_after(self.path.unanswered()))
        } else if self.is_watched(now) {
            Some(now + WATCH_INTERVAL)
        } else if self.remote.is_persistent {
            Some(now + KEEPALIVE_INTERVAL)
        } else {
            None
        };
    }
}
