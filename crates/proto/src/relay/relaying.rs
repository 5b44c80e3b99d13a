//! Forwarding of handshakes and messages between agents that cannot reach each other directly.
//!
//! A relay forwards packets from or for its own agents, and only between agents that a grant
//! connects. A packet goes from relay to relay once.

use byway_units::{AgentId, Bytes, Time};
use byway_wire::Message;
use byway_wire::messages::{InterRelayPacket, RelayedPacket};

use super::Relay;
use super::ingress::RelayPeerId;
use crate::session::SessionId;

impl Relay {
    /// Handles a packet that an agent at this relay sends to another agent: forwards it to that
    /// agent, or to that agent's relay. Counts a packet that it must not forward.
    pub(super) fn on_relayed_packet(&mut self, session: SessionId, relayed: &RelayedPacket<'_>, now: Time) {
        let is_relayed = self.try_relay(session, relayed, now).is_some();
        self.count_relayed(is_relayed);
    }

    fn try_relay(&mut self, session: SessionId, relayed: &RelayedPacket<'_>, now: Time) -> Option<()> {
        let (from, to, packet) = (self.flow_table.agent_of(session)?, relayed.agent(), relayed.packet());
        let relay = self.flow_table.relay_of(session, to)?;
        if let Some(receiver) = self.flow_table.session_of(to) {
            return self.deliver_relayed(session, receiver, from, packet, now);
        }
        let peer = self.peers.find(relay)?;
        let next_relay = self.peers.session(peer)?;
        let message = InterRelayPacket::new(from, to, packet)?;
        if !self.flow_table.may_relay(session, Bytes::from(packet.len()), now) {
            return None;
        }
        self.sessions.use_session(next_relay, now);
        self.sessions.relay_message(next_relay, &Message::InterRelayPacket(message), from, now);
        Some(())
    }

    /// Handles a packet that another relay forwarded for an agent at this relay. It delivers the
    /// packet if a grant connects the agent with the sender.
    pub(super) fn on_inter_relay_packet(
        &mut self,
        peer: RelayPeerId,
        relayed: &InterRelayPacket<'_>,
        now: Time,
    ) {
        let is_relayed = self.try_relay_on(peer, relayed, now).is_some();
        self.count_relayed(is_relayed);
    }

    fn try_relay_on(&mut self, peer: RelayPeerId, relayed: &InterRelayPacket<'_>, now: Time) -> Option<()> {
        let (from, to) = (relayed.from(), relayed.to());
        let receiver = self.flow_table.session_of(to)?;
        let relay = self.flow_table.relay_of(receiver, from)?;
        let is_here = relay == (self.number, self.shard);
        if !is_here && self.peers.find(relay).is_none_or(|known| self.peers.is_unreachable(known)) {
            // If the sender has changed its relay, replies go to the new one.
            self.flow_table.set_relay_of(receiver, from, self.peers.relay_shard(peer));
        }
        self.deliver_relayed(receiver, receiver, from, relayed.packet(), now)
    }

    /// Delivers a packet to an agent at this relay, and charges it to the budget of the session
    /// `charged`. Returns `None` beyond that budget.
    fn deliver_relayed(
        &mut self,
        charged: SessionId,
        receiver: SessionId,
        from: AgentId,
        packet: &[u8],
        now: Time,
    ) -> Option<()> {
        let message = RelayedPacket::new(from, packet)?;
        if !self.flow_table.may_relay(charged, Bytes::from(packet.len()), now) {
            return None;
        }
        self.sessions.relay_message(receiver, &Message::RelayedPacket(message), from, now);
        Some(())
    }

    const fn count_relayed(&mut self, is_relayed: bool) {
        self.counters.relayed += is_relayed as u64;
        self.counters.relayed_refused += !is_relayed as u64;
    }
}
