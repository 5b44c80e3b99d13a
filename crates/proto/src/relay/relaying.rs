//! Handshakes and messages between agents that do not reach each other directly.
//!
//! A relay passes on what comes from an agent here, or for one, and only between agents that a grant connects: from
//! relay to relay a packet goes once.

use byway_units::{AgentId, Bytes, Time};
use byway_wire::Message;
use byway_wire::messages::{Relayed, RelayedOn};

use super::Relay;
use super::ingress::EgressPort;
use crate::session::SessionId;

impl Relay {
    /// Passes a packet of an agent here on: to another here, or to the other's relay.
    pub(super) fn relay(&mut self, session: SessionId, relayed: &Relayed<'_>, now: Time) {
        let is_passed = self.try_relay(session, relayed, now).is_some();
        self.count_relayed(is_passed);
    }

    fn try_relay(&mut self, session: SessionId, relayed: &Relayed<'_>, now: Time) -> Option<()> {
        let (from, to, packet) = (self.links.agent_of(session)?, relayed.agent(), relayed.packet());
        let place = self.links.relay_of(session, to)?;
        if let Some(there) = self.links.session_of(to) {
            return self.hand_over(session, there, from, packet, now);
        }
        let port = self.ports.find(place)?;
        let there = self.ports.session(port)?;
        let message = RelayedOn::new(from, to, packet)?;
        if !self.links.may_relay(session, Bytes::from(packet.len()), now) {
            return None;
        }
        self.sessions.use_session(there, now);
        self.sessions.pass_on(there, &Message::RelayedOn(message), from, now);
        Some(())
    }

    /// Takes a packet that another relay passed on, for an agent here that a grant connects with its sender.
    pub(super) fn relay_on(&mut self, port: EgressPort, relayed: &RelayedOn<'_>, now: Time) {
        let is_passed = self.try_relay_on(port, relayed, now).is_some();
        self.count_relayed(is_passed);
    }

    fn try_relay_on(&mut self, port: EgressPort, relayed: &RelayedOn<'_>, now: Time) -> Option<()> {
        let (from, to) = (relayed.from(), relayed.to());
        let there = self.links.session_of(to)?;
        let place = self.links.relay_of(there, from)?;
        let is_here = place == (self.number, self.shard);
        if !is_here && self.ports.find(place).is_none_or(|known| self.ports.is_lost(known)) {
            // Whoever took another way is answered on that one.
            self.links.acquaint(there, from, self.ports.place(port));
        }
        self.hand_over(there, there, from, relayed.packet(), now)
    }

    /// Gives a packet to an agent here, at the expense of `payer`.
    fn hand_over(
        &mut self,
        payer: SessionId,
        there: SessionId,
        from: AgentId,
        packet: &[u8],
        now: Time,
    ) -> Option<()> {
        let message = Relayed::new(from, packet)?;
        if !self.links.may_relay(payer, Bytes::from(packet.len()), now) {
            return None;
        }
        self.sessions.pass_on(there, &Message::Relayed(message), from, now);
        Some(())
    }

    const fn count_relayed(&mut self, is_passed: bool) {
        self.counters.relayed += is_passed as u64;
        self.counters.relayed_refused += !is_passed as u64;
    }
}
