//! Peers and relays that an agent knows: adding, changing and removing them at run time.

use alloc::vec::Vec;

use byway_units::{AgentId, RelayId, Time};
use byway_wire::messages::{Close, CloseReason};
use byway_wire::seal::{PreSharedKey, Purpose};
use byway_wire::{Message, Shard};

use super::relay_link::RelayLink;
use super::settings::{Peer, RelayPeer};
use super::{Agent, Flow, Role};
use crate::network_path::Uplinks;
use crate::outbox::Priority;
use crate::session::{RemoteIdentity, SessionId};

fn remote_of(relay: &RelayPeer) -> RemoteIdentity {
    RemoteIdentity {
        key: relay.key,
        purpose: Purpose::AgentToRelay,
        shard: relay.shard,
        pre_shared: PreSharedKey::default(),
        addresses: alloc::vec![relay.address],
        is_persistent: true,
    }
}

impl Agent {
    /// Sets the uplinks between which the sessions with peers and relays choose that are added from
    /// now on. Call it before the first of them.
    pub const fn set_uplinks(&mut self, uplinks: Uplinks) {
        self.sessions.set_uplinks(uplinks);
    }

    /// Adds a relay. The session with it begins as soon as a flow or a relay probe needs it. A
    /// known relay moves to this address and key, and its flows continue. A relay with the key of
    /// another relay is ignored.
    pub fn add_relay(&mut self, relay: &RelayPeer, now: Time) {
        let id = (relay.number, relay.shard);
        if let Some(known) = self.relay_indices.get(&id).copied() {
            self.change_relay(known, relay, now);
            self.finish(now);
            return;
        }
        let session = self.sessions.add(remote_of(relay), now);
        if self.roles.contains_key(&session) {
            return;
        }
        self.relay_indices.insert(id, self.relays.len());
        self.roles.insert(session, Role::Relay(self.relays.len()));
        self.relays.push(RelayLink::new(id, session));
        self.set_copy_rate(self.relays.len() - 1);
        self.register_all_again(session, now);
        self.finish(now);
    }

    /// Moves a known relay to a new address. If its key is new, a new session replaces the old one.
    fn change_relay(&mut self, known: usize, relay: &RelayPeer, now: Time) {
        let before = self.relays[known].session;
        let key = self.sessions.get(before).map(|session| session.remote.key);
        if key == Some(relay.key) {
            self.sessions.move_to(before, relay.address, now);
            return;
        }
        let session = self.sessions.add(remote_of(relay), now);
        if self.roles.contains_key(&session) {
            return;
        }
        self.forget_relay_session(before);
        self.roles.insert(session, Role::Relay(known));
        self.relays[known] = RelayLink::new((relay.number, relay.shard), session);
        self.set_copy_rate(known);
        self.register_all_again(session, now);
    }

    /// Removes a relay that no flow uses, by its index. The last relay of the list gets this index.
    pub(super) fn remove_relay(&mut self, relay: usize) {
        let RelayLink { id, session, .. } = self.relays.swap_remove(relay);
        self.relay_indices.remove(&id);
        self.forget_relay_session(session);
        if let Some(moved) = self.relays.get(relay) {
            self.relay_indices.insert(moved.id, relay);
            self.roles.insert(moved.session, Role::Relay(relay));
        }
    }

    /// Ends a session with a relay. Peers that this agent reached through it are then reached
    /// through the relays of their flows.
    fn forget_relay_session(&mut self, session: SessionId) {
        self.roles.remove(&session);
        self.teardowns.on_peer_reset(session);
        self.sessions.remove(session);
        let peers: Vec<SessionId> = self.peers.values().copied().collect();
        for peer in peers {
            if let Some(peer) = self.sessions.get_mut(peer) {
                peer.forget_via_relay(session);
            }
        }
        for flow in self.all_flows() {
            self.set_via_relay(flow);
        }
    }

    /// Adds another agent as a peer, unless its number or its key is known already. For a known
    /// peer with this key, the addresses are added; the newest eight are tried.
    pub fn add_peer(&mut self, peer: Peer, now: Time) {
        if let Some(known) = self.peers.get(&peer.number).copied() {
            if self.sessions.get(known).is_some_and(|session| session.remote.key == peer.key) {
                self.sessions.add_addresses(known, &peer.addresses, now);
                self.finish(now);
            }
            return;
        }
        let remote = RemoteIdentity {
            key: peer.key,
            purpose: Purpose::EndToEnd,
            shard: Shard::new(0),
            pre_shared: peer.pre_shared,
            addresses: peer.addresses,
            is_persistent: false,
        };
        let session = self.sessions.add(remote, now);
        // Two agent numbers with one key would seal packets under the same sequence numbers.
        if self.roles.contains_key(&session) {
            return;
        }
        self.peers.insert(peer.number, session);
        self.roles.insert(session, Role::Peer(peer.number));
    }

    /// Removes a peer: all flows with it end, and packets under its key are dropped. The agent
    /// sends the peer a close message, in case it is still there.
    pub fn remove_peer(&mut self, peer: AgentId, now: Time) {
        let Some(session) = self.peers.remove(&peer) else {
            return;
        };
        self.end_flows_with(session, now);
        if self.sessions.is_established(session, now) {
            let close = Message::Close(Close { reason: CloseReason::Leaving });
            self.sessions.send_alone(session, &close, Priority::Source, now);
        }
        self.closed.forget(peer);
        self.offers.forget(peer);
        self.early_buffer.forget_peer(session);
        self.direct_paths.forget(session);
        self.teardowns.on_peer_reset(session);
        self.roles.remove(&session);
        self.sessions.remove(session);
        self.finish(now);
    }

    pub(super) fn relay_session(&self, id: (RelayId, Shard)) -> Option<SessionId> {
        self.relay_indices.get(&id).map(|relay| self.relays[*relay].session)
    }

    pub(super) fn relay_of(&mut self, session: SessionId) -> Option<&mut RelayLink> {
        match self.roles.get(&session) {
            Some(Role::Relay(relay)) => Some(&mut self.relays[*relay]),
            _ => None,
        }
    }

    pub(super) fn relay_is_dead(&self, session: SessionId) -> bool {
        self.relays.iter().any(|relay| relay.session == session && relay.is_dead)
    }

    pub(super) fn relay_is_alive(&self, session: SessionId, now: Time) -> bool {
        !self.relay_is_dead(session) && self.sessions.is_established(session, now)
    }

    /// Records a relay's alias for a flow; returns `false` if the alias exceeds the limit, or the
    /// session is with no relay.
    pub(super) fn bind_alias(&mut self, session: SessionId, alias: byway_wire::Alias, flow: Flow) -> bool {
        let Some(Role::Relay(relay)) = self.roles.get(&session).copied() else {
            return false;
        };
        if matches!(flow, Flow::Sent(_)) {
            self.uplink_probing.bound_at = Some(relay);
        }
        self.relays[relay].bind(alias, flow)
    }
}
