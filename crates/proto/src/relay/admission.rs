//! Who gets a session, and who gives one up when there is no room.

use alloc::vec::Vec;

use byway_units::Time;
use byway_wire::messages::{Close, CloseReason};
use byway_wire::seal::{Purpose, ReceivedInitiation};
use byway_wire::{Message, TenantId};

use super::Relay;
use super::quotas::remote_of;
use crate::limits::{SESSION_SILENT_AFTER, SESSION_UNUSED_AFTER, SHED_INTERVAL};
use crate::outbox::Urgency;
use crate::session::{Origin, SessionId};

impl Relay {
    /// Admits an agent that is entitled to something here, if there is room.
    pub(super) fn admit(&mut self, initiation: ReceivedInitiation, origin: Origin, now: Time) {
        let is_agent = initiation.purpose == Purpose::AgentToRelay;
        let Some(tenant) = self.entitling_tenant(&initiation, now).filter(|_| is_agent) else {
            self.counters.strangers_refused += 1;
            return;
        };
        if self.quotas.sessions.is_over(tenant) {
            self.shed_of(tenant, now);
        }
        if self.quotas.sessions.is_over(tenant) {
            self.counters.quota_sessions += 1;
            self.refuse_session(initiation, origin, now);
            return;
        }
        if !self.makes_room(now) && !self.evict_session(tenant, now) {
            self.counters.sessions_refused += 1;
            return;
        }
        let session = self.sessions.add(remote_of(&initiation, self.shard), now);
        self.quotas.tenant_of(session, tenant);
        self.sessions.accept(session, initiation, origin, &[], now);
    }

    /// Whether there is room for another session, after those that are of no use were given up if need be.
    ///
    /// Newcomers are refused sooner than a session that is in use ends, but for those of a tenant with more than its share.
    fn makes_room(&mut self, now: Time) -> bool {
        let is_full = |relay: &Self| relay.sessions.count() as u64 >= relay.quotas.sessions.max();
        if is_full(self) {
            self.shed(now);
        }
        !is_full(self)
    }

    /// Gives up all sessions that are of no use. They are looked through once in a while only, however many newcomers there are.
    fn shed(&mut self, now: Time) {
        if self.next_shedding <= now {
            self.next_shedding = now + SHED_INTERVAL;
            let useless = self.sessions.ids().filter(|id| self.is_useless(*id, now)).collect();
            self.end_useless(useless, now);
        }
    }

    /// Gives up those of a tenant. It has a time of its own for that, because another tenant's newcomers must not put it off.
    fn shed_of(&mut self, tenant: TenantId, now: Time) {
        if self.quotas.may_shed(tenant, now) {
            let useless = self.quotas.sessions_of(tenant).filter(|id| self.is_useless(*id, now)).collect();
            self.end_useless(useless, now);
        }
    }

    fn end_useless(&mut self, useless: Vec<SessionId>, now: Time) {
        self.counters.sessions_shed += useless.len() as u64;
        for id in useless {
            self.ended(id, now);
        }
    }

    /// Whether an agent has registered nothing for a while, or is silent for longer than one that is there can be.
    fn is_useless(&self, id: SessionId, now: Time) -> bool {
        let Some(session) =
            self.sessions.get(id).filter(|session| session.remote.purpose == Purpose::AgentToRelay)
        else {
            return false;
        };
        match self.links.without_flows_since(id) {
            None => session.heard + SESSION_SILENT_AFTER <= now,
            Some(since) => since.max(session.began) + SESSION_UNUSED_AFTER <= now,
        }
    }

    /// Ends a session with an agent that does what no honest one does.
    pub(super) fn expel(&mut self, session: SessionId, now: Time) {
        self.counters.expelled += 1;
        let close = Message::Close(Close { reason: CloseReason::NoLongerGranted });
        self.sessions.send_alone(session, &close, Urgency::Original, now);
        self.ended(session, now);
    }

    /// An agent is gone for good.
    pub(super) fn ended(&mut self, session: SessionId, now: Time) {
        if self.ports.of_session(session).is_some() {
            return;
        }
        for alias in self.links.aliases(session) {
            self.forget(session, alias, now);
        }
        self.links.remove_session(session);
        self.budgets.remove(session);
        self.quotas.remove(session);
        self.sessions.remove(session);
    }
}
