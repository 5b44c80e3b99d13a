//! Admission control for sessions: admits entitled agents and evicts idle sessions if the table is
//! full.

use alloc::vec::Vec;

use byway_units::Time;
use byway_wire::messages::{Close, CloseReason};
use byway_wire::seal::{Purpose, ReceivedInitiation};
use byway_wire::{Message, TenantId};

use super::Relay;
use super::quotas::remote_of;
use crate::limits::{SESSION_SILENT_AFTER, SESSION_UNUSED_AFTER, SHED_INTERVAL};
use crate::outbox::Priority;
use crate::session::{Route, SessionId};

impl Relay {
    /// Handles an initiation of a node without a session. Accepts an agent that a grant entitles,
    /// within its tenant's quota and the table's capacity; otherwise counts the refusal.
    pub(super) fn admit(&mut self, initiation: ReceivedInitiation, origin: Route, now: Time) {
        let is_agent = initiation.purpose == Purpose::AgentToRelay;
        let Some(tenant) = self.entitling_tenant(&initiation, now).filter(|_| is_agent) else {
            self.counters.strangers_refused += 1;
            return;
        };
        if self.quotas.sessions.is_over_quota(tenant) {
            self.shed_of(tenant, now);
        }
        if self.quotas.sessions.is_over_quota(tenant) {
            self.counters.quota_sessions += 1;
            self.refuse_session(initiation, origin, now);
            return;
        }
        if !self.ensure_capacity(now) && !self.evict_session(tenant, now) {
            self.counters.sessions_refused += 1;
            return;
        }
        let session = self.sessions.add(remote_of(&initiation, self.shard), now);
        self.quotas.assign_tenant(session, tenant);
        self.sessions.accept(session, initiation, origin, &[], now);
    }

    /// Ends idle sessions if the session table is full. Returns `true` if the table now has
    /// capacity for another session.
    ///
    /// A session in use does not end for a newcomer, unless its tenant has more than its share.
    fn ensure_capacity(&mut self, now: Time) -> bool {
        let is_full = |relay: &Self| relay.sessions.count() as u64 >= relay.quotas.sessions.max();
        if is_full(self) {
            self.shed_idle_sessions(now);
        }
        !is_full(self)
    }

    /// Ends all idle sessions with agents. It scans the sessions at most once per
    /// [`SHED_INTERVAL`], however many newcomers there are.
    fn shed_idle_sessions(&mut self, now: Time) {
        if self.next_shed_at <= now {
            self.next_shed_at = now + SHED_INTERVAL;
            let useless = self.sessions.ids().filter(|id| self.is_idle(*id, now)).collect();
            self.end_useless(useless, now);
        }
    }

    /// Ends a tenant's idle sessions. Each tenant has a timer of its own, because newcomers of
    /// another tenant must not postpone the scan.
    fn shed_of(&mut self, tenant: TenantId, now: Time) {
        if self.quotas.may_shed(tenant, now) {
            let useless = self.quotas.sessions_of(tenant).filter(|id| self.is_idle(*id, now)).collect();
            self.end_useless(useless, now);
        }
    }

    fn end_useless(&mut self, useless: Vec<SessionId>, now: Time) {
        self.counters.sessions_shed += useless.len() as u64;
        for id in useless {
            self.on_session_ended(id, now);
        }
    }

    /// True if an agent has registered no flow for [`SESSION_UNUSED_AFTER`], or is silent for
    /// longer than a live agent can be.
    fn is_idle(&self, id: SessionId, now: Time) -> bool {
        let Some(session) =
            self.sessions.get(id).filter(|session| session.remote.purpose == Purpose::AgentToRelay)
        else {
            return false;
        };
        match self.flow_table.idle_since(id) {
            None => session.last_received + SESSION_SILENT_AFTER <= now,
            Some(since) => since.max(session.times.began) + SESSION_UNUSED_AFTER <= now,
        }
    }

    /// Ends a session with an agent whose behaviour no conforming agent shows, and sends it a
    /// Close.
    pub(super) fn expel(&mut self, session: SessionId, now: Time) {
        self.counters.expelled += 1;
        let close = Message::Close(Close { reason: CloseReason::NoLongerGranted });
        self.sessions.send_alone(session, &close, Priority::Source, now);
        self.on_session_ended(session, now);
    }

    /// Removes an agent whose session ended: its flows, budgets, quota and session. It ignores
    /// sessions with relays.
    pub(super) fn on_session_ended(&mut self, session: SessionId, now: Time) {
        if self.peers.peer_of_session(session).is_some() {
            return;
        }
        for alias in self.flow_table.aliases(session) {
            self.remove_flow(session, alias, now);
        }
        self.flow_table.remove_session(session);
        self.work_budgets.remove(session);
        self.peers.networks.forget(session);
        self.quotas.remove(session);
        self.sessions.remove(session);
    }
}
