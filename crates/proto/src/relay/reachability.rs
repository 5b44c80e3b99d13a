//! Reachability of the egress relays to which this relay sends copies. Senders get notices of
//! changes, and may choose another path.

use byway_units::Time;
use byway_wire::messages::{FlowRole, Refusal, RegisterReply};
use byway_wire::{Alias, GrantedRelay, Message};

use super::Relay;
use super::flow_table::{FlowEndpoint, FlowRef};
use super::ingress::RelayPeerId;
use crate::session::SessionId;

impl Relay {
    /// Handles a change of a peer relay's reachability: records it, and sends the due notices to
    /// senders.
    pub(super) fn on_reachability_change(&mut self, session: SessionId, is_reachable: bool, now: Time) {
        if let Some(peer) = self.peers.peer_of_session(session) {
            self.peers.set_unreachable(peer, !is_reachable, now);
            self.send_advertisements(now);
        }
    }

    /// Returns the alias of a registered flow. If the agent sends the flow and all next hops are
    /// unreachable, returns a refusal instead.
    pub(super) fn check_reachable(&mut self, session: SessionId, alias: Alias) -> Result<Alias, Refusal> {
        let Some(FlowRef::Sent(slot)) = self.flow_table.flow(session, alias) else {
            return Ok(alias);
        };
        let next_hops = self.ingress.next_hops(slot);
        let is_unreachable = !next_hops.is_empty()
            && next_hops.into_iter().all(|next_hop| self.peers.check_unreachable(next_hop));
        if is_unreachable { Err(Refusal::Unreachable) } else { Ok(alias) }
    }

    /// Sends due notices about reachability to the senders of flows towards a peer relay. Returns
    /// `true` if this relay has to probe the peer and call this again.
    pub(super) fn notify_senders(&mut self, peer: RelayPeerId, now: Time) -> bool {
        let (relay, shard) = self.peers.relay_shard(peer);
        let far_relay = GrantedRelay { relay, shard };
        for change in self.peers.poll_reachability_changes(peer, now) {
            let Some(FlowEndpoint { session, alias }) = self.flow_table.sender(change.flow) else {
                continue;
            };
            let outcome = if change.is_unreachable { Err(Refusal::Unreachable) } else { Ok(alias) };
            let (flow_key, role) = (change.key, FlowRole::Sender);
            let revision = self.flow_table.revision(session, alias);
            let registered = RegisterReply { flow_key, role, far_relay, outcome, revision: Some(revision) };
            self.sessions.queue_message(session, &Message::RegisterReply(registered), now);
        }
        let is_watched = self.peers.needs_probing(peer, now);
        if let Some(session) = self.peers.session(peer).filter(|_| is_watched) {
            // Only probes reveal the return of the other relay.
            self.sessions.use_session(session, now);
        }
        is_watched
    }
}
