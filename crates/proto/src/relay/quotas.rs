//! Quotas: each tenant's share of a relay's tables.
//!
//! A tenant may use all of a table until half of it is used, and then no more than its fair share.
//! The share is the table divided by the tenants that use it. If the table is full, a tenant below
//! its share evicts an entry of the tenant with the most, if that one exceeds its share. No tenant
//! can therefore deprive another of its share, in any order of arrival.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use byway_units::Time;
use byway_wire::messages::{Close, CloseReason, Refusal, Register, RegisterReply};
use byway_wire::seal::{PreSharedKey, Purpose, ReceivedInitiation};
use byway_wire::{FlowKey, Message, Messages, TenantId, Writer};

use super::Relay;
use super::flow_table::FlowEndpoint;
use super::ingress::RelayPeerId;
use super::settings::TenantLimits;
use super::tenant_traffic::TenantTraffic;
use crate::limits::{EVICTION_SCAN_MAX, MESSAGES_BYTES_MAX, SHED_INTERVAL};
use crate::outbox::Priority;
use crate::session::{RemoteIdentity, Route, SessionId};

/// Use of a table of limited size by each tenant, and their shares.
#[derive(Debug)]
pub(super) struct TenantShares {
    max: u64,
    /// Most entries that one tenant may have, if the operator sets a limit.
    quota: Option<u64>,
    used: u64,
    /// Entries of each tenant that has any.
    by_tenant: BTreeMap<TenantId, u64>,
}

impl TenantShares {
    pub(super) const fn new(max: u64, quota: Option<u64>) -> Self {
        Self { max, quota, used: 0, by_tenant: BTreeMap::new() }
    }

    /// Returns the number of entries that a tenant uses.
    pub(super) fn used_by(&self, tenant: TenantId) -> u64 {
        self.by_tenant.get(&tenant).copied().unwrap_or(0)
    }

    /// Returns the fair share of a tenant: the table's size, divided by the number of tenants that
    /// use it, with this one.
    pub(super) fn share(&self, tenant: TenantId) -> u64 {
        let newcomers = usize::from(!self.by_tenant.contains_key(&tenant));
        self.max / (self.by_tenant.len() + newcomers) as u64
    }

    /// True if a tenant may not add an entry: it has reached its quota, or its fair share while at
    /// least half of the table is used.
    pub(super) fn is_over_quota(&self, tenant: TenantId) -> bool {
        let own = self.used_by(tenant);
        self.quota.is_some_and(|quota| own >= quota)
            || (2 * self.used >= self.max && own >= self.share(tenant) && own < self.max)
    }

    pub(super) const fn max(&self) -> u64 {
        self.max
    }

    pub(super) const fn used(&self) -> u64 {
        self.used
    }

    pub(super) const fn is_full(&self) -> bool {
        self.used >= self.max
    }

    /// Returns the tenant with the most entries, if it has more than the fair share and `tenant`
    /// has less. An entry of it may be evicted for `tenant`.
    pub(super) fn eviction_victim(&self, tenant: TenantId) -> Option<TenantId> {
        let share = self.share(tenant);
        let (richest, most) = self.by_tenant.iter().max_by_key(|(_, count)| **count)?;
        (self.used_by(tenant) < share && *most > share).then_some(*richest)
    }

    pub(super) fn charge(&mut self, tenant: TenantId, count: u64) {
        self.used += count;
        *self.by_tenant.entry(tenant).or_default() += count;
    }

    pub(super) fn refund(&mut self, tenant: TenantId, count: u64) {
        if let Some(used) = self.by_tenant.get_mut(&tenant) {
            self.used -= count;
            *used -= count;
            if *used == 0 {
                self.by_tenant.remove(&tenant);
            }
        }
    }
}

/// Shares of all tenants in the relay's tables of sessions and registrations.
#[derive(Debug)]
pub(super) struct Quotas {
    pub(super) sessions: TenantShares,
    /// Slots of registrations. A session's slots count up to its last used one, including free
    /// slots before it.
    pub(super) flows: TenantShares,
    /// Tenant of each session, by session number.
    tenants: Vec<Option<TenantId>>,
    members: BTreeSet<(TenantId, SessionId)>,
    /// Sessions with registrations, by tenant. `members` has all sessions.
    registered: BTreeSet<(TenantId, SessionId)>,
    /// Earliest time of the next scan for idle sessions of each tenant that has sessions.
    shedding_at: BTreeMap<TenantId, Time>,
}

impl Quotas {
    /// Creates quotas for tables of this many sessions and registrations. `limits` are the
    /// operator's limits for one tenant.
    pub(super) const fn new((sessions, flows): (u64, u64), limits: TenantLimits) -> Self {
        Self {
            sessions: TenantShares::new(sessions, limits.sessions),
            flows: TenantShares::new(flows, limits.flows),
            tenants: Vec::new(),
            members: BTreeSet::new(),
            registered: BTreeSet::new(),
            shedding_at: BTreeMap::new(),
        }
    }

    /// Returns the tenant of a session. If it has none, assigns `tenant` and charges the session to
    /// it.
    pub(super) fn assign_tenant(&mut self, session: SessionId, tenant: TenantId) -> TenantId {
        let index = session.0 as usize;
        if self.tenants.len() <= index {
            self.tenants.resize(index + 1, None);
        }
        if let Some(known) = self.tenants[index] {
            return known;
        }
        self.tenants[index] = Some(tenant);
        self.members.insert((tenant, session));
        self.sessions.charge(tenant, 1);
        tenant
    }

    /// Returns all sessions of a tenant's agents.
    pub(super) fn sessions_of(&self, tenant: TenantId) -> impl Iterator<Item = SessionId> + '_ {
        all_of(&self.members, tenant)
    }

    /// True if the tenant has sessions and a scan for its idle ones is due. If so, schedules the
    /// next scan after [`SHED_INTERVAL`].
    pub(super) fn may_shed(&mut self, tenant: TenantId, now: Time) -> bool {
        let is_due = self.shedding_at.get(&tenant).is_none_or(|at| *at <= now);
        let may_shed = is_due && self.sessions.used_by(tenant) > 0;
        if may_shed {
            self.shedding_at.insert(tenant, now + SHED_INTERVAL);
        }
        may_shed
    }

    /// Charges a session's tenant for a changed number of registration slots.
    pub(super) fn update_flow_slots(&mut self, session: SessionId, before: usize, after: usize) {
        if before == after {
            return;
        }
        if let Some(tenant) = self.tenants.get(session.0 as usize).copied().flatten() {
            self.flows.charge(tenant, after as u64);
            self.flows.refund(tenant, before as u64);
            if after == 0 {
                self.registered.remove(&(tenant, session));
            } else {
                self.registered.insert((tenant, session));
            }
        }
    }

    /// Removes a session that ended from its tenant's use. Its registrations were removed before.
    pub(super) fn remove(&mut self, session: SessionId) {
        if let Some(tenant) = self.tenants.get_mut(session.0 as usize).and_then(Option::take) {
            self.members.remove(&(tenant, session));
            self.sessions.refund(tenant, 1);
            if self.sessions.used_by(tenant) == 0 {
                self.shedding_at.remove(&tenant);
            }
        }
    }
}

/// Returns those of the sessions in a set that belong to a tenant, the highest session number
/// first.
fn all_of(
    sessions: &BTreeSet<(TenantId, SessionId)>,
    tenant: TenantId,
) -> impl Iterator<Item = SessionId> + '_ {
    let all = (tenant, SessionId(0))..=(tenant, SessionId(u32::MAX));
    sessions.range(all).rev().map(|(_, session)| *session)
}

/// Returns up to [`EVICTION_SCAN_MAX`] sessions of a tenant, with the highest session numbers, as
/// candidates for eviction.
fn eviction_candidates(
    sessions: &BTreeSet<(TenantId, SessionId)>,
    tenant: TenantId,
) -> impl Iterator<Item = SessionId> + '_ {
    all_of(sessions, tenant).take(EVICTION_SCAN_MAX)
}

impl Relay {
    /// Returns the bytes that the relay has charged to each tenant since the start. Tenants beyond
    /// [`TENANTS_MAX`](crate::limits::TENANTS_MAX) count with another one.
    #[must_use]
    pub fn tenant_traffic(&self) -> BTreeMap<TenantId, TenantTraffic> {
        let mut all = BTreeMap::<TenantId, TenantTraffic>::new();
        for (tenant, traffic) in self.ingress.traffic_by_tenant().chain(self.egress.traffic_by_tenant()) {
            all.entry(tenant).or_default().add(traffic);
        }
        all
    }

    /// Ends a session of the tenant with the most sessions, if that has more than its share and
    /// `tenant` has less. Of several candidates, it ends the one with the longest silence. Returns
    /// `false` if it ended none.
    pub(super) fn evict_session(&mut self, tenant: TenantId, now: Time) -> bool {
        let victim = self.quotas.sessions.eviction_victim(tenant);
        let last_received = |id: &SessionId| self.sessions.get(*id).map(|session| session.last_received);
        let session = victim
            .and_then(|victim| eviction_candidates(&self.quotas.members, victim).min_by_key(last_received));
        let Some(session) = session else {
            return false;
        };
        self.counters.sessions_evicted += 1;
        let close = Message::Close(Close { reason: CloseReason::NoLongerGranted });
        self.sessions.send_alone(session, &close, Priority::Source, now);
        self.on_session_ended(session, now);
        true
    }

    /// Refuses a session to an agent whose tenant has reached its quota. Answers the initiation
    /// with the reason and a Close, and stores nothing.
    pub(super) fn refuse_session(&mut self, initiation: ReceivedInitiation, origin: Route, now: Time) {
        let register = Messages::new(&initiation.messages).find_map(|message| match message {
            Ok(Message::Register(register)) => Some(quota_refusal(&register)),
            _ => None,
        });
        let mut bytes = [0; MESSAGES_BYTES_MAX];
        let mut writer = Writer::new(&mut bytes);
        let close = Message::Close(Close { reason: CloseReason::NoLongerGranted });
        let answers = register.map(Message::RegisterReply).into_iter().chain([close]);
        if answers.into_iter().any(|answer| answer.emit(&mut writer).is_err()) {
            return;
        }
        let session = self.sessions.add(remote_of(&initiation, self.shard), now);
        self.sessions.accept(session, initiation, origin, writer.as_bytes(), now);
        self.sessions.remove(session);
    }

    /// Checks the quota for another registration on a session. If the table is full, returns a
    /// registration to evict, of the tenant with the most. The caller evicts it after the new
    /// registration, because that may still fail.
    pub(super) fn check_flow_quota(
        &mut self,
        session: SessionId,
        tenant: TenantId,
    ) -> Result<Option<FlowEndpoint>, Refusal> {
        let tenant = self.quotas.assign_tenant(session, tenant);
        if self.flow_table.has_vacant_slot(session) {
            return Ok(None);
        }
        if self.quotas.flows.is_over_quota(tenant) {
            self.counters.quota_flows += 1;
            return Err(Refusal::QuotaReached);
        }
        if !self.quotas.flows.is_full() {
            return Ok(None);
        }
        let victim = self.quotas.flows.eviction_victim(tenant).ok_or(Refusal::Full)?;
        let slot_count = |id: &SessionId| self.flow_table.slot_count(*id);
        let richest = eviction_candidates(&self.quotas.registered, victim).max_by_key(slot_count);
        let last = richest
            .and_then(|session| Some(FlowEndpoint { session, alias: self.flow_table.last_alias(session)? }));
        last.map(Some).ok_or(Refusal::Full)
    }

    /// Evicts an alias towards a peer relay from the tenant with the most, because a flow of
    /// `tenant` needs one. The alias rests for a while first. Until the requesting sender registers
    /// its flow again, no other alias is evicted for it.
    pub(super) fn evict_alias(&mut self, peer: RelayPeerId, (tenant, key): (TenantId, FlowKey), now: Time) {
        let flow = self.peers.eviction_victim(peer, (tenant, key), now);
        if let Some(endpoint) = flow.and_then(|flow| self.flow_table.sender(flow)) {
            self.evict_flow(endpoint, now);
        }
    }

    /// Removes a registration of a tenant above its share, and notifies its agent by a refusal.
    pub(super) fn evict_flow(&mut self, FlowEndpoint { session, alias }: FlowEndpoint, now: Time) {
        self.counters.flows_evicted += 1;
        let Some(known) = self.flow_table.registration(session, alias) else {
            return;
        };
        self.remove_flow(session, alias, now);
        let registered = known.reply(Refusal::QuotaReached);
        self.sessions.queue_message(session, &Message::RegisterReply(registered), now);
    }
}

/// Returns a refusal of a registration, because the agent's tenant has reached its quota of
/// sessions.
fn quota_refusal(register: &Register<'_>) -> RegisterReply {
    RegisterReply::to(register, Err(Refusal::QuotaReached))
}

/// Returns the identity of the agent that sent an initiation.
pub(super) fn remote_of(initiation: &ReceivedInitiation, shard: byway_wire::Shard) -> RemoteIdentity {
    RemoteIdentity {
        key: initiation.peer,
        purpose: Purpose::AgentToRelay,
        shard,
        pre_shared: PreSharedKey::default(),
        addresses: Vec::new(),
        is_persistent: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREEDY: TenantId = TenantId::new(1);
    const MODEST: TenantId = TenantId::new(2);
    const LATE: TenantId = TenantId::new(3);

    /// Charges a tenant until its quota is reached. Returns the charge.
    fn fill(shares: &mut TenantShares, tenant: TenantId) -> u64 {
        let before = shares.used_by(tenant);
        while !shares.is_over_quota(tenant) {
            if shares.is_full() {
                let Some(victim) = shares.eviction_victim(tenant) else {
                    break;
                };
                shares.refund(victim, 1);
            }
            shares.charge(tenant, 1);
            assert!(shares.used <= shares.max);
        }
        shares.used_by(tenant) - before
    }

    #[test]
    fn a_tenant_that_is_alone_may_have_everything_until_others_come_for_their_shares() {
        let mut shares = TenantShares::new(1_200, None);
        assert_eq!(fill(&mut shares, GREEDY), 1_200);
        assert_eq!(fill(&mut shares, MODEST), 600);
        assert_eq!(fill(&mut shares, GREEDY), 0, "beyond its share it takes nothing back");
        assert_eq!(fill(&mut shares, LATE), 400);
        assert_eq!((shares.used_by(GREEDY), shares.used_by(MODEST)), (400, 400));
    }

    #[test]
    fn where_half_is_used_nobody_gets_more_than_its_share() {
        let mut shares = TenantShares::new(1_200, None);
        shares.charge(MODEST, 300);
        shares.charge(GREEDY, 300);
        assert_eq!(fill(&mut shares, GREEDY), 300);
        assert_eq!(fill(&mut shares, MODEST), 300);
        assert_eq!(shares.eviction_victim(MODEST), None, "nobody has more than its share");
    }

    #[test]
    fn a_quota_holds_from_the_first_on_and_what_is_given_back_is_forgotten() {
        let mut shares = TenantShares::new(1_200, Some(5));
        assert_eq!(fill(&mut shares, GREEDY), 5);
        shares.refund(GREEDY, 5);
        assert_eq!((shares.used, shares.by_tenant.len()), (0, 0));
    }

    #[test]
    fn more_tenants_than_a_table_has_entries_do_not_overfill_it() {
        let mut shares = TenantShares::new(10, None);
        for tenant in 0..100 {
            fill(&mut shares, TenantId::new(tenant));
        }
        assert_eq!(shares.used, 10);
    }
}
