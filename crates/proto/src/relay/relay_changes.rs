//! Addition, change and removal of other relays at run time.

use byway_units::{RelayId, Time};
use byway_wire::messages::{Close, CloseReason, FlowRole, Refusal, RegisterReply};
use byway_wire::seal::{PreSharedKey, Purpose};
use byway_wire::{GrantedRelay, Message, Shard};

use super::Relay;
use super::flow_table::FlowEndpoint;
use super::ingress::{FlowSlot, RelayPeerId};
use super::settings::PeerRelay;
use crate::outbox::Priority;
use crate::session::{RemoteIdentity, SessionId};

impl Relay {
    /// Adds a shard of another relay, and begins a session at once. A restarted relay thus knows
    /// the others without delay.
    ///
    /// A known shard gets this address and key, and its flows continue. If another relay has the
    /// key, the call does nothing.
    pub fn add_relay(&mut self, other: &PeerRelay, now: Time) {
        match self.peers.find((other.number, other.shard)) {
            None => {
                if let Some(session) = self.start_session(other, now) {
                    self.peers.add_relay(other.number, other.shard, session);
                    self.peers.advertise_soon(now);
                }
            }
            Some(peer) => {
                if let Some(old_session) = self.peers.session(peer) {
                    self.update_relay(peer, old_session, other, now);
                }
            }
        }
        self.flush(now);
    }

    /// Begins a session with another relay. Returns `None` if there is a session with its key
    /// already. Of two relays, the one with the smaller key maintains the session.
    fn start_session(&mut self, other: &PeerRelay, now: Time) -> Option<SessionId> {
        if self.sessions.find(other.key, Purpose::RelayToRelay, other.shard).is_some() {
            return None;
        }
        let remote = RemoteIdentity {
            key: other.key,
            purpose: Purpose::RelayToRelay,
            shard: other.shard,
            pre_shared: PreSharedKey::default(),
            addresses: alloc::vec![other.address],
            is_persistent: self.sessions.public_key() < other.key,
        };
        let session = self.sessions.add(remote, now);
        self.sessions.connect(session, &[], now);
        Some(session)
    }

    fn update_relay(&mut self, peer: RelayPeerId, old_session: SessionId, other: &PeerRelay, now: Time) {
        if self.sessions.get(old_session).is_some_and(|session| session.remote.key == other.key) {
            self.sessions.move_to(old_session, other.address, now);
        } else if let Some(session) = self.start_session(other, now) {
            self.sessions.remove(old_session);
            self.peers.transit.forget(old_session);
            self.peers.replace_session(peer, session);
            self.on_relay_restart(peer, now);
        }
    }

    /// Removes a shard of another relay. This relay removes flows towards it, notifies their
    /// senders, and ignores its packets from now on. For an unknown relay, the call does nothing.
    pub fn remove_relay(&mut self, number: RelayId, shard: Shard, now: Time) {
        let peer = self.peers.find((number, shard));
        let Some((peer, session)) = peer.and_then(|peer| Some((peer, self.peers.session(peer)?))) else {
            return;
        };
        for slot in self.peers.flows(peer) {
            self.close_path(slot, peer, now);
        }
        self.egress.reset_ingress(peer.0);
        self.peers.remove_relay(peer);
        if self.sessions.is_established(session, now) {
            let close = Message::Close(Close { reason: CloseReason::NoLongerGranted });
            self.sessions.send_alone(session, &close, Priority::Source, now);
        }
        self.sessions.remove(session);
        self.peers.transit.forget(session);
        self.flush(now);
    }

    /// Removes a peer relay from a flow's next hops. A flow without another next hop is removed,
    /// and its sender notified.
    fn close_path(&mut self, slot: FlowSlot, peer: RelayPeerId, now: Time) {
        self.ingress.remove_next_hop(slot, peer);
        if !self.ingress.next_hops(slot).is_empty() {
            return;
        }
        let Some((FlowEndpoint { session, alias }, flow_key)) =
            self.flow_table.sender(slot).zip(self.ingress.key(slot))
        else {
            return;
        };
        let revision = self.flow_table.revision(session, alias);
        self.remove_flow(session, alias, now);
        let outcome = Err(Refusal::OtherRelay);
        let (relay, shard) = self.peers.relay_shard(peer);
        let far_relay = GrantedRelay { relay, shard };
        let role = FlowRole::Sender;
        let registered = RegisterReply {
            flow_key,
            role,
            far_relay,
            outcome,
            revision: Some(revision),
            far_round_trip: None,
            group_activity: None,
        };
        self.sessions.queue_message(session, &Message::RegisterReply(registered), now);
    }
}
