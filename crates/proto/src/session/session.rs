//! What two nodes know of each other.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;

use arrayvec::ArrayVec;
use byway_units::{AgentId, Time};
use byway_wire::limits::TAG_BYTES;
use byway_wire::seal::{PreSharedKey, PublicKey, Purpose};
use byway_wire::{Boot, SessionIndex, Shard};

use super::attempt::Attempt;
use super::epoch::Epoch;
use super::handshake::Origin;
use super::path::Path;
use super::path_mtu::PathMtu;
use super::probes::Probes;
use crate::limits::{
    DETOURS_MAX, IN_USE_FOR, KEEPALIVE_INTERVAL, PAYLOAD_BYTES_BASE, PAYLOAD_BYTES_PROBED, REKEY_GRACE,
    REPLIES_BURST, REPLIES_PER_SECOND,
};
use crate::parts::token_bucket::{Packets, TokenBucket};

/// Which session, in one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SessionId(pub(crate) u32);

/// Epochs that can open packets at the same time: the newest and two before it, as two bits tell them apart.
pub(crate) const EPOCHS_MAX: usize = 3;

/// The other side, as it was told.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    pub(crate) key: PublicKey,
    pub(crate) purpose: Purpose,
    /// Which shard of a relay.
    pub(crate) shard: Shard,
    pub(crate) pre_shared: PreSharedKey,
    /// Where it may be.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Whether this side keeps the session up even when nothing is sent.
    pub(crate) keep: bool,
}

/// A way to a peer through a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Detour {
    /// The hop session with the relay.
    pub(crate) relay: SessionId,
    /// The agent at the other end.
    pub(crate) agent: AgentId,
}

/// An initiation of the peer that was answered and not yet confirmed.
#[derive(Debug)]
pub(crate) struct Answered {
    /// The initiation's last bytes, which no two initiations share: its `mac1`.
    pub(crate) mac1: [u8; 16],
    pub(crate) response: Vec<u8>,
    pub(crate) epoch: Epoch,
    pub(crate) boot: Boot,
    /// The initiation's stamp: an older one does not take its place.
    pub(crate) stamp: u64,
    /// Where the response went, if to one place only.
    pub(crate) origin: Option<Origin>,
    pub(crate) since: Time,
}

/// A session with one peer.
#[allow(clippy::struct_excessive_bools, reason = "facts that hold or not independently of each other")]
pub(crate) struct Session {
    pub(crate) remote: Remote,
    pub(crate) path: Path,
    /// Once something was to be sent that takes more than every path carries: relays, which have many sessions, send nothing of the kind.
    pub(crate) path_mtu: Option<Box<PathMtu>>,
    /// The way through a relay, used while no direct address has proved itself.
    pub(crate) detour: Option<Detour>,
    /// Every way through a relay, the newest last, for what a flow's beginning waits for.
    pub(crate) detours: ArrayVec<Detour, DETOURS_MAX>,
    /// The end of the response that came through a relay, until when it proves the direct path if it comes by that too.
    pub(crate) relayed_response: Option<([u8; TAG_BYTES], Time)>,
    /// Whether the last handshake was answered through a relay, and nothing has come from the proved address since:
    /// the peer may have moved.
    pub(crate) is_doubtful: bool,
    /// Whether the peer was last reached without a relay.
    pub(crate) was_direct: bool,
    /// Newest first; the first one seals.
    pub(crate) epochs: ArrayVec<Epoch, EPOCHS_MAX>,
    pub(crate) attempt: Option<Attempt>,
    /// The messages in the last initiation that had some: what entitles this side to a session, should the other have
    /// forgotten it.
    pub(crate) greeting: Vec<u8>,
    pub(crate) answered: Option<Answered>,
    /// The highest stamp accepted from the peer.
    pub(crate) stamp: u64,
    /// The run of the peer that the epochs belong to.
    pub(crate) boot: Option<Boot>,
    /// Whether this side began the newest epoch: it begins the next.
    pub(crate) initiator: bool,
    pub(crate) probes: Probes,
    /// Probes and challenges of the peer that are answered.
    pub(crate) replies: TokenBucket<Packets>,
    /// Packets that have arrived and are longer than every path carries, modulo 2^32.
    pub(crate) long_arrived: u32,
    /// The round trip that the other side measured.
    pub(crate) reported_round_trip: Option<byway_units::Duration>,
    /// Whether the peer was last taken for dead.
    pub(crate) dead: bool,
    /// When the peer was added.
    pub(crate) began: Time,
    /// When something authentic last came from it.
    pub(crate) heard: Time,
    /// When data was last sent or received.
    pub(crate) used: Time,
    pub(crate) next_probe: Option<Time>,
    /// Messages that wait to be sealed together.
    pub(crate) waiting: Vec<u8>,
    /// The same, which are to go by every way.
    pub(crate) urgent: Vec<u8>,
    /// The deadline that the table of sessions knows.
    pub(crate) armed: Option<Time>,
}

impl Session {
    pub(crate) fn new(remote: Remote, now: Time) -> Self {
        Self {
            remote,
            path: Path::default(),
            path_mtu: None,
            detour: None,
            detours: ArrayVec::new(),
            relayed_response: None,
            is_doubtful: false,
            was_direct: false,
            epochs: ArrayVec::new(),
            attempt: None,
            greeting: Vec::new(),
            answered: None,
            stamp: 0,
            boot: None,
            initiator: false,
            probes: Probes::new(),
            replies: TokenBucket::of_packets(REPLIES_PER_SECOND, Packets::new(REPLIES_BURST), now),
            long_arrived: 0,
            reported_round_trip: None,
            dead: false,
            began: now,
            heard: now,
            used: now,
            next_probe: None,
            waiting: Vec::new(),
            urgent: Vec::new(),
            armed: None,
        }
    }

    /// Whether the peer can be reached without a relay, as far as is known.
    pub(crate) const fn is_direct(&self) -> bool {
        self.path.address().is_some() && !self.is_doubtful
    }

    /// The longest UDP payload that is known to reach the peer, when something longer than every path carries is to be sent; `None` if
    /// there is no path.
    pub(crate) fn payload_bytes(&mut self, now: Time) -> Option<usize> {
        let to = *self.path.address()?;
        let path_mtu = self.path_mtu.get_or_insert_default();
        path_mtu.want(to, now);
        Some(path_mtu.payload_bytes(to))
    }

    /// The same, once it was found out. If it is less than agents send at most, the path is probed for more.
    pub(crate) fn settled_payload_bytes(&mut self, now: Time) -> Option<usize> {
        let to = *self.path.address()?;
        let path_mtu = self.path_mtu.as_mut()?;
        let settled = path_mtu.settled(to)?;
        if settled < PAYLOAD_BYTES_PROBED[0] {
            path_mtu.want(to, now);
        }
        Some(settled)
    }

    /// Counts a packet with so much UDP payload that has arrived, if it is longer than every path carries.
    #[inline]
    pub(crate) const fn count_length(&mut self, payload_bytes: usize) {
        if payload_bytes > PAYLOAD_BYTES_BASE {
            self.long_arrived = self.long_arrived.wrapping_add(1);
        }
    }

    /// Whether a packet with so much UDP payload may reach the peer, as far as is known.
    pub(crate) fn may_carry(&mut self, payload_bytes: usize, now: Time) -> bool {
        if payload_bytes <= PAYLOAD_BYTES_BASE {
            return true;
        }
        self.payload_bytes(now);
        let is_narrowed = self.path_mtu.as_ref().is_some_and(|path_mtu| path_mtu.is_narrowed());
        !is_narrowed && self.settled_payload_bytes(now).is_none_or(|settled| payload_bytes <= settled)
    }

    /// The epoch that seals now.
    pub(crate) fn sealing(&mut self, now: Time) -> Option<&mut Epoch> {
        self.epochs.first_mut().filter(|epoch| epoch.may_seal(now))
    }

    /// Whether its packets may come this way: what relays and agents say to each other goes through nobody's hands.
    pub(crate) fn takes_from(&self, origin: Origin) -> bool {
        matches!(origin, Origin::Address(_)) || self.remote.purpose == Purpose::EndToEnd
    }

    /// Notes a way through a relay; of too many, the oldest is forgotten.
    pub(crate) fn add_detour(&mut self, detour: Detour) {
        if self.detours.contains(&detour) {
            return;
        }
        if self.detours.is_full() {
            self.detours.remove(0);
        }
        self.detours.push(detour);
    }

    /// Forgets the ways through a relay.
    pub(crate) fn forget_detours(&mut self, relay: SessionId) {
        self.detour.take_if(|detour| detour.relay == relay);
        self.detours.retain(|detour| detour.relay != relay);
    }

    /// Whether packets can be sent.
    pub(crate) fn is_established(&self, now: Time) -> bool {
        self.epochs.first().is_some_and(|epoch| epoch.may_seal(now))
    }

    /// The epoch with this index, among those that open packets.
    pub(crate) fn by_index(&mut self, index: SessionIndex) -> Option<&mut Epoch> {
        let answered = self.answered.as_mut().map(|answered| &mut answered.epoch);
        self.epochs.iter_mut().chain(answered).find(|epoch| epoch.ours == index)
    }

    /// The indices of the epochs with these two low bits, among those that open packets: one, or two while a
    /// handshake with a peer that began anew waits for its confirmation.
    pub(crate) fn indices_by_bits(&self, bits: u8, now: Time) -> ArrayVec<SessionIndex, { EPOCHS_MAX + 1 }> {
        let answered = self.answered.as_ref().map(|answered| &answered.epoch);
        let epochs = self.epochs.iter().chain(answered);
        epochs
            .filter(|epoch| epoch.number.low_bits() == bits && epoch.may_open(now))
            .map(|epoch| epoch.ours)
            .collect()
    }

    /// Whether data came or went lately.
    pub(crate) fn is_in_use(&self, now: Time) -> bool {
        now.saturating_since(self.used) < IN_USE_FOR
    }

    /// Begins a new epoch, with the peer's run it belongs to; whether there is nothing left of an earlier one.
    pub(crate) fn begin(&mut self, epoch: Epoch, boot: Boot) -> (bool, ArrayVec<SessionIndex, EPOCHS_MAX>) {
        let mut forgotten = ArrayVec::new();
        let fresh = self.boot != Some(boot);
        if fresh {
            forgotten.extend(self.epochs.drain(..).map(|epoch| epoch.ours));
            self.boot = Some(boot);
        } else if self.epochs.is_full() {
            forgotten.extend(self.epochs.pop().map(|epoch| epoch.ours));
        }
        self.epochs.insert(0, epoch);
        (fresh, forgotten)
    }

    /// Without keys, agent and relay forget each other: when they meet again, nothing is left of what they agreed on, even if
    /// neither restarted.
    pub(crate) fn forget_if_over(&mut self) {
        if self.epochs.is_empty() && self.remote.purpose != Purpose::EndToEnd {
            self.boot = None;
        }
    }

    /// Whether nothing of the session is left, and nobody here is about to begin it anew.
    pub(crate) fn is_over(&self) -> bool {
        self.epochs.is_empty() && self.answered.is_none() && self.attempt.is_none() && !self.remote.keep
    }

    /// When this side has to begin the next epoch.
    pub(crate) fn rekey_at(&self) -> Option<Time> {
        let newest = self.epochs.first()?;
        let grace = if self.initiator { byway_units::Duration::ZERO } else { REKEY_GRACE };
        Some(newest.stale_at() + grace)
    }

    /// Whether this side is the one to begin the next epoch: the initiator, or whoever is left without keys.
    pub(crate) fn begins_epochs(&self, now: Time) -> bool {
        self.initiator || self.rekey_at().is_none_or(|at| at <= now)
    }

    /// When the next thing is to be done for the session.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let oldest = self.epochs.last().map(Epoch::ends_at);
        let unconfirmed = self.answered.as_ref().map(|answered| answered.epoch.ends_at());
        let attempt = self.attempt.as_ref().map(Attempt::deadline);
        let rekey = self.rekey_at().filter(|_| self.attempt.is_none() && self.wants_epoch());
        let check = self.path_mtu.as_ref().and_then(|path_mtu| path_mtu.deadline());
        [oldest, unconfirmed, attempt, rekey, self.next_probe, self.path.deadline(), check]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether a session without packets is kept going.
    pub(crate) const fn wants_epoch(&self) -> bool {
        self.remote.keep || self.initiator
    }

    /// Plans the next probe.
    ///
    /// The side that uses the session probes the peer, whichever of the two began it. Relays also measure the round trip of an
    /// idle session once, at its start. Without it, the death of a relay soon after is noticed half a second later.
    pub(crate) fn plan_probe(&mut self, now: Time) {
        let measures = self.remote.keep || self.remote.purpose == Purpose::RelayToRelay;
        self.next_probe = if self.epochs.is_empty() {
            None
        } else if measures && self.probes.is_first_due() {
            Some(now)
        } else if self.is_in_use(now) || (measures && self.probes.wait_for_answer()) {
            Some(now + self.probes.interval())
        } else if self.remote.keep {
            Some(now + KEEPALIVE_INTERVAL)
        } else {
            None
        };
    }
}
