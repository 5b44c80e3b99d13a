//! The peers and relays that an agent knows, and how that changes while it runs.

use alloc::vec::Vec;

use byway_units::{AgentId, RelayId, Time};
use byway_wire::messages::{Close, CloseReason};
use byway_wire::seal::{PreSharedKey, Purpose};
use byway_wire::{Message, Shard};

use super::relay_link::RelayLink;
use super::settings::{Peer, RelayPeer};
use super::{Agent, Flow, Role};
use crate::outbox::Urgency;
use crate::session::{Remote, SessionId};

fn remote_of(relay: &RelayPeer) -> Remote {
    Remote {
        key: relay.key,
        purpose: Purpose::AgentToRelay,
        shard: relay.shard,
        pre_shared: PreSharedKey::default(),
        addresses: alloc::vec![relay.address],
        keep: true,
    }
}

impl Agent {
    /// Adds a relay, and begins a session with it as soon as a flow or a visit wants one. One that is known is from now on
    /// at this address, and under this key; its flows go on. A key that another relay has is ignored.
    pub fn add_relay(&mut self, relay: &RelayPeer, now: Time) {
        let place = (relay.number, relay.shard);
        if let Some(known) = self.relay_places.get(&place).copied() {
            self.change_relay(known, relay, now);
            self.finish(now);
            return;
        }
        let session = self.sessions.add(remote_of(relay), now);
        if self.roles.contains_key(&session) {
            return;
        }
        self.relay_places.insert(place, self.relays.len());
        self.roles.insert(session, Role::Relay(self.relays.len()));
        self.relays.push(RelayLink::new(place, session));
        self.set_copy_rate(self.relays.len() - 1);
        self.register_anew(session, now);
        self.finish(now);
    }

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
        self.register_anew(session, now);
    }

    /// Forgets a relay that no flow uses.
    pub(super) fn remove_relay(&mut self, relay: usize) {
        let RelayLink { place, session, .. } = self.relays.swap_remove(relay);
        self.relay_places.remove(&place);
        self.forget_relay_session(session);
        if let Some(moved) = self.relays.get(relay) {
            self.relay_places.insert(moved.place, relay);
            self.roles.insert(moved.session, Role::Relay(relay));
        }
    }

    /// Ends a session with a relay; peers that were reached through it are reached as their flows have it.
    fn forget_relay_session(&mut self, session: SessionId) {
        self.roles.remove(&session);
        self.closings.forgot(session);
        self.sessions.remove(session);
        let peers: Vec<SessionId> = self.peers.values().copied().collect();
        for peer in peers {
            if let Some(peer) = self.sessions.get_mut(peer) {
                peer.forget_detours(session);
            }
        }
        for flow in self.all_flows() {
            self.set_detour(flow);
        }
    }

    /// Adds another agent, unless its number or its key is known already. One that is known with this key may from now on be
    /// at these addresses too, of which the newest eight are tried.
    pub fn add_peer(&mut self, peer: Peer, now: Time) {
        if let Some(known) = self.peers.get(&peer.number).copied() {
            if self.sessions.get(known).is_some_and(|session| session.remote.key == peer.key) {
                self.sessions.add_addresses(known, &peer.addresses, now);
                self.finish(now);
            }
            return;
        }
        let remote = Remote {
            key: peer.key,
            purpose: Purpose::EndToEnd,
            shard: Shard::new(0),
            pre_shared: peer.pre_shared,
            addresses: peer.addresses,
            keep: false,
        };
        let session = self.sessions.add(remote, now);
        // Two numbers of one key would seal under the same numbers.
        if self.roles.contains_key(&session) {
            return;
        }
        self.peers.insert(peer.number, session);
        self.roles.insert(session, Role::Peer(peer.number));
    }

    /// Forgets a peer: all flows with it end, and its key opens nothing any more. In case it is still there, it is told.
    pub fn remove_peer(&mut self, peer: AgentId, now: Time) {
        let Some(session) = self.peers.remove(&peer) else {
            return;
        };
        self.end_flows_with(session, now);
        if self.sessions.is_established(session, now) {
            let close = Message::Close(Close { reason: CloseReason::Leaving });
            self.sessions.send_alone(session, &close, Urgency::Original, now);
        }
        self.closed.forget(peer);
        self.offers.forget(peer);
        self.early_buffer.forget_peer(session);
        self.direct_paths.forget(session);
        self.closings.forgot(session);
        self.roles.remove(&session);
        self.sessions.remove(session);
        self.finish(now);
    }

    pub(super) fn relay_session(&self, place: (RelayId, Shard)) -> Option<SessionId> {
        self.relay_places.get(&place).map(|relay| self.relays[*relay].session)
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

    /// Notes what a relay calls a flow; `false` if it cannot be called so.
    pub(super) fn bind_alias(&mut self, session: SessionId, alias: byway_wire::Alias, flow: Flow) -> bool {
        let Some(Role::Relay(place)) = self.roles.get(&session).copied() else {
            return false;
        };
        if matches!(flow, Flow::Sent(_)) {
            self.bound_at = Some(place);
        }
        self.relays[place].bind(alias, flow)
    }
}
