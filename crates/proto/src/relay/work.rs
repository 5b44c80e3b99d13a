//! Work accounting of a relay: counts work in units that are the same in virtual time and on any
//! processor, and limits it by budgets.
//!
//! The reception of a datagram costs its sender its bytes and needs no budget. Further work for its
//! messages (sequence numbers, flows, equations) is charged to its session and to the session's
//! tenant. The relay refuses messages of a session with an exhausted budget. Therefore no session
//! can delay the packets of others.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Add;

use byway_units::Time;
use byway_wire::TenantId;

use crate::counters::counters;
use crate::limits::{
    DATAGRAM_WORK_MAX, DECODING_WORK, REGISTRATION_WORK, SESSION_WORK_BURST, SESSION_WORK_PER_SECOND,
    SIGNATURE_WORK, SOLVE_WORK, TENANT_WORK_BURST, TENANT_WORK_PER_SECOND, TENANTS_MAX,
};
use crate::parts::token_bucket::{TokenBucket, Work};
use crate::session::SessionId;

counters! {
/// Work that a relay has done since its start, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayWork {
    /// Messages handled.
    pub messages: u64,
    /// Sequence numbers examined, for NACKs and similar messages and when requests expire.
    pub numbers: u64,
    /// Entries examined: flows, registrations, aliases and packets of batches.
    pub entries: u64,
    /// Registrations added or removed.
    pub registrations: u64,
    /// Grant signatures verified.
    pub signatures: u64,
    /// Batches decoded.
    pub decodings: u64,
    /// Equation systems of several batches and blocks solved.
    pub solves: u64,
}
}

impl RelayWork {
    /// Returns the total work in units of some 20 ns.
    #[must_use]
    pub const fn units(&self) -> u64 {
        self.messages
            + self.numbers
            + self.entries
            + self.registrations * REGISTRATION_WORK
            + self.signatures * SIGNATURE_WORK
            + self.decodings * DECODING_WORK
            + self.solves * SOLVE_WORK
    }
}

impl Add for RelayWork {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            messages: self.messages + other.messages,
            numbers: self.numbers + other.numbers,
            entries: self.entries + other.entries,
            registrations: self.registrations + other.registrations,
            signatures: self.signatures + other.signatures,
            decodings: self.decodings + other.decodings,
            solves: self.solves + other.solves,
        }
    }
}

/// Work budget of one session with an agent.
#[derive(Debug)]
struct SessionBudget {
    bucket: TokenBucket<Work>,
    /// Tenant of the agent's grants; `None` before its first registration.
    tenant: Option<TenantId>,
}

impl SessionBudget {
    fn new(now: Time) -> Self {
        let burst = Work::new(SESSION_WORK_BURST);
        Self { bucket: TokenBucket::of_work(SESSION_WORK_PER_SECOND, burst, now), tenant: None }
    }
}

/// Work budgets of all sessions with agents, and of their tenants.
///
/// A tenant's budget outlives its sessions: an agent that leaves and returns does not begin with a
/// full budget.
#[derive(Debug, Default)]
pub(super) struct WorkBudgets {
    /// Budgets by session number.
    sessions: Vec<Option<SessionBudget>>,
    tenants: BTreeMap<TenantId, TokenBucket<Work>>,
}

impl WorkBudgets {
    /// Returns the work that the next datagram of a session may cost, in units.
    pub(super) fn available(&self, session: SessionId, now: Time) -> u64 {
        let Some(budget) = self.sessions.get(session.0 as usize).and_then(Option::as_ref) else {
            return DATAGRAM_WORK_MAX;
        };
        let tenant = budget.tenant.and_then(|tenant| self.tenants.get(&tenant));
        let of_tenant = tenant.map_or(u64::MAX, |bucket| bucket.available(now).units());
        budget.bucket.available(now).units().min(of_tenant).min(DATAGRAM_WORK_MAX)
    }

    /// Charges the work of a datagram, in units, to the budgets of its session and the session's
    /// tenant.
    pub(super) fn charge(&mut self, session: SessionId, units: u64, now: Time) {
        let budget = self.session(session, now);
        budget.bucket.charge(Work::new(units), now);
        if let Some(bucket) = budget.tenant.and_then(|tenant| self.tenants.get_mut(&tenant)) {
            bucket.charge(Work::new(units), now);
        }
    }

    /// Records the tenant of a session, to whose budget its work is charged too.
    pub(super) fn set_tenant(&mut self, session: SessionId, tenant: TenantId, now: Time) {
        if self.session(session, now).tenant.replace(tenant) == Some(tenant) {
            return;
        }
        let burst = Work::new(TENANT_WORK_BURST);
        if self.tenants.len() >= TENANTS_MAX {
            self.tenants.retain(|_, bucket| bucket.available(now) < burst);
        }
        // Beyond this number of tenants, sessions have only their own budgets.
        if self.tenants.len() < TENANTS_MAX {
            let full = || TokenBucket::of_work(TENANT_WORK_PER_SECOND, burst, now);
            self.tenants.entry(tenant).or_insert_with(full);
        }
    }

    /// Returns the number of tenants that have a work budget.
    pub(super) fn tenants(&self) -> usize {
        self.tenants.len()
    }

    /// Removes the work budget of a session that ended.
    pub(super) fn remove(&mut self, session: SessionId) {
        if let Some(budget) = self.sessions.get_mut(session.0 as usize) {
            *budget = None;
        }
    }

    fn session(&mut self, session: SessionId, now: Time) -> &mut SessionBudget {
        let index = session.0 as usize;
        if self.sessions.len() <= index {
            self.sessions.resize_with(index + 1, || None);
        }
        self.sessions[index].get_or_insert_with(|| SessionBudget::new(now))
    }
}

#[cfg(test)]
mod tests {
    use byway_units::Duration;

    use super::*;

    const AT_ONCE: Time = Time::START;

    fn later(millis: u64) -> Time {
        Time::START + Duration::from_millis(millis)
    }

    #[test]
    fn a_session_that_owes_work_waits_until_its_budget_has_caught_up() {
        let mut budgets = WorkBudgets::default();
        let (busy, calm) = (SessionId(3), SessionId(4));
        assert_eq!(budgets.available(busy, AT_ONCE), DATAGRAM_WORK_MAX);
        budgets.charge(busy, SESSION_WORK_BURST + SESSION_WORK_PER_SECOND, AT_ONCE);
        assert_eq!(budgets.available(busy, later(1_000)), 0);
        assert_eq!(budgets.available(busy, later(1_100)), SESSION_WORK_PER_SECOND / 10);
        assert_eq!(budgets.available(calm, AT_ONCE), DATAGRAM_WORK_MAX);
        budgets.remove(busy);
        assert_eq!(budgets.available(busy, AT_ONCE), DATAGRAM_WORK_MAX);
    }

    #[test]
    fn the_sessions_of_a_tenant_share_a_budget_that_outlives_them() {
        let mut budgets = WorkBudgets::default();
        let (tenant, other) = (TenantId::new(1), TenantId::new(2));
        for number in 0..11 {
            budgets.set_tenant(SessionId(number), tenant, AT_ONCE);
            budgets.charge(SessionId(number), SESSION_WORK_BURST, AT_ONCE);
            budgets.remove(SessionId(number));
        }
        budgets.set_tenant(SessionId(0), tenant, AT_ONCE);
        budgets.set_tenant(SessionId(1), other, AT_ONCE);
        assert_eq!(budgets.available(SessionId(0), AT_ONCE), 0);
        assert_eq!(budgets.available(SessionId(1), AT_ONCE), DATAGRAM_WORK_MAX);
    }

    #[test]
    fn only_so_many_tenants_have_accounts_and_idle_ones_give_way() {
        let mut budgets = WorkBudgets::default();
        for number in 0..2 * u32::try_from(TENANTS_MAX).expect("few") {
            budgets.set_tenant(SessionId(0), TenantId::new(number), AT_ONCE);
            budgets.charge(SessionId(0), u64::from(number % 2), AT_ONCE);
        }
        assert!(budgets.tenants.len() <= TENANTS_MAX);
        let owing =
            budgets.tenants.values().filter(|bucket| bucket.available(AT_ONCE).units() < TENANT_WORK_BURST);
        assert_eq!(owing.count(), TENANTS_MAX, "those that are charged stay");
    }
}
