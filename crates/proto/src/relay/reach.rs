//! Whether packets get any further than this relay; senders are told, so that they take another way.

use byway_units::Time;
use byway_wire::messages::{FlowRole, Refusal, Registered};
use byway_wire::{Alias, GrantedRelay, Message};

use super::Relay;
use super::ingress::EgressPort;
use super::links::{End, FlowRef};
use crate::session::SessionId;

impl Relay {
    /// Another relay answers no more, or again.
    pub(super) fn reach(&mut self, session: SessionId, is_there: bool, now: Time) {
        if let Some(port) = self.ports.of_session(session) {
            self.ports.set_lost(port, !is_there, now);
            self.announce(now);
        }
    }

    /// What a flow is registered as, unless its packets get no further.
    pub(super) fn reaches(&mut self, session: SessionId, alias: Alias) -> Result<Alias, Refusal> {
        let Some(FlowRef::Sent(slot)) = self.links.flow(session, alias) else {
            return Ok(alias);
        };
        let onward = self.ingress.onward(slot);
        let is_cut = !onward.is_empty() && onward.into_iter().all(|onward| self.ports.answer_is_cut(onward));
        if is_cut { Err(Refusal::Unreachable) } else { Ok(alias) }
    }

    /// Tells the senders of a port's flows whether their packets get any further, where that changed; whether to come
    /// back to it.
    pub(super) fn tell_senders(&mut self, port: EgressPort, now: Time) -> bool {
        let (relay, shard) = self.ports.place(port);
        let far_relay = GrantedRelay { relay, shard };
        for news in self.ports.take_news(port, now) {
            let Some(End { session, alias }) = self.links.sender(news.flow) else {
                continue;
            };
            let outcome = if news.is_cut { Err(Refusal::Unreachable) } else { Ok(alias) };
            let (flow_key, role) = (news.key, FlowRole::Sender);
            let revision = self.links.revision(session, alias);
            let registered = Registered { flow_key, role, far_relay, outcome, revision: Some(revision) };
            self.sessions.say(session, &Message::Registered(registered), now);
        }
        let is_watched = self.ports.is_watched(port, now);
        if let Some(session) = self.ports.session(port).filter(|_| is_watched) {
            // Only probes show when the other relay is back.
            self.sessions.use_session(session, now);
        }
        is_watched
    }
}
