//! Quotas: the part of a relay's tables that one tenant may have.
//!
//! A tenant may use all of a table until half of it is used, and then no more than its fair share. The share is the table divided by
//! the tenants that use it. In a full table, a tenant below its share takes from the tenant with the most, as long as that has more
//! than its own share. So nobody keeps another from its share, whoever came first.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use byway_units::Time;
use byway_wire::messages::{Close, CloseReason, FlowRole, Refusal, Register, Registered};
use byway_wire::seal::{PreSharedKey, Purpose, ReceivedInitiation};
use byway_wire::{FlowKey, GrantedRelay, Message, Messages, TenantId, Writer};

use super::Relay;
use super::ingress::EgressPort;
use super::links::End;
use super::settings::TenantLimits;
use crate::limits::{MESSAGES_BYTES_MAX, SHED_INTERVAL, VICTIMS_LOOKED_AT};
use crate::outbox::Urgency;
use crate::session::{Origin, Remote, SessionId};

/// A table that tenants share, and how much of it each has.
#[derive(Debug)]
pub(super) struct Shares {
    max: u64,
    /// The most that one tenant may have, if the operator says so.
    quota: Option<u64>,
    used: u64,
    /// Of tenants that have something.
    by_tenant: BTreeMap<TenantId, u64>,
}

impl Shares {
    pub(super) const fn new(max: u64, quota: Option<u64>) -> Self {
        Self { max, quota, used: 0, by_tenant: BTreeMap::new() }
    }

    /// Returns how much a tenant has.
    pub(super) fn of(&self, tenant: TenantId) -> u64 {
        self.by_tenant.get(&tenant).copied().unwrap_or(0)
    }

    /// Returns the fair share of a tenant that has something, or is to have.
    pub(super) fn share(&self, tenant: TenantId) -> u64 {
        let newcomers = usize::from(!self.by_tenant.contains_key(&tenant));
        self.max / (self.by_tenant.len() + newcomers) as u64
    }

    /// Returns true if a tenant has as much as it may have.
    pub(super) fn is_over(&self, tenant: TenantId) -> bool {
        let own = self.of(tenant);
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

    /// Returns the tenant that has most, if that is more than its share, and this one has less.
    pub(super) fn victim_for(&self, tenant: TenantId) -> Option<TenantId> {
        let share = self.share(tenant);
        let (richest, most) = self.by_tenant.iter().max_by_key(|(_, has)| **has)?;
        (self.of(tenant) < share && *most > share).then_some(*richest)
    }

    pub(super) fn take(&mut self, tenant: TenantId, count: u64) {
        self.used += count;
        *self.by_tenant.entry(tenant).or_default() += count;
    }

    pub(super) fn give_back(&mut self, tenant: TenantId, count: u64) {
        if let Some(has) = self.by_tenant.get_mut(&tenant) {
            self.used -= count;
            *has -= count;
            if *has == 0 {
                self.by_tenant.remove(&tenant);
            }
        }
    }
}

/// Sessions and registrations of all tenants.
#[derive(Debug)]
pub(super) struct Quotas {
    pub(super) sessions: Shares,
    /// Places of registrations. A session keeps those before its last registration, used or not.
    pub(super) flows: Shares,
    /// Tenant of each session, by number.
    tenants: Vec<Option<TenantId>>,
    members: BTreeSet<(TenantId, SessionId)>,
    /// Those of them that have registrations.
    registered: BTreeSet<(TenantId, SessionId)>,
    /// Next time at which useless sessions of a tenant may be looked for. Only tenants with sessions are here.
    shedding_at: BTreeMap<TenantId, Time>,
}

impl Quotas {
    /// Quotas of tables with so many sessions and registrations.
    pub(super) const fn new((sessions, flows): (u64, u64), limits: TenantLimits) -> Self {
        Self {
            sessions: Shares::new(sessions, limits.sessions),
            flows: Shares::new(flows, limits.flows),
            tenants: Vec::new(),
            members: BTreeSet::new(),
            registered: BTreeSet::new(),
            shedding_at: BTreeMap::new(),
        }
    }

    /// Returns the tenant of a session, which is this one if it had none.
    pub(super) fn tenant_of(&mut self, session: SessionId, tenant: TenantId) -> TenantId {
        let place = session.0 as usize;
        if self.tenants.len() <= place {
            self.tenants.resize(place + 1, None);
        }
        if let Some(known) = self.tenants[place] {
            return known;
        }
        self.tenants[place] = Some(tenant);
        self.members.insert((tenant, session));
        self.sessions.take(tenant, 1);
        tenant
    }

    /// Returns the sessions of a tenant.
    pub(super) fn sessions_of(&self, tenant: TenantId) -> impl Iterator<Item = SessionId> + '_ {
        all_of(&self.members, tenant)
    }

    /// Returns true, once in a while, if a tenant has sessions that may be looked through for useless ones.
    pub(super) fn may_shed(&mut self, tenant: TenantId, now: Time) -> bool {
        let is_due = self.shedding_at.get(&tenant).is_none_or(|at| *at <= now);
        let may_shed = is_due && self.sessions.of(tenant) > 0;
        if may_shed {
            self.shedding_at.insert(tenant, now + SHED_INTERVAL);
        }
        may_shed
    }

    /// Notes that the registrations of a session have another number of places.
    pub(super) fn settle_flows(&mut self, session: SessionId, before: usize, after: usize) {
        if before == after {
            return;
        }
        if let Some(tenant) = self.tenants.get(session.0 as usize).copied().flatten() {
            self.flows.take(tenant, after as u64);
            self.flows.give_back(tenant, before as u64);
            if after == 0 {
                self.registered.remove(&(tenant, session));
            } else {
                self.registered.insert((tenant, session));
            }
        }
    }

    /// Forgets a session, whose registrations are forgotten already.
    pub(super) fn remove(&mut self, session: SessionId) {
        if let Some(tenant) = self.tenants.get_mut(session.0 as usize).and_then(Option::take) {
            self.members.remove(&(tenant, session));
            self.sessions.give_back(tenant, 1);
            if self.sessions.of(tenant) == 0 {
                self.shedding_at.remove(&tenant);
            }
        }
    }
}

/// Returns the sessions of a tenant, the highest number first.
fn all_of(
    sessions: &BTreeSet<(TenantId, SessionId)>,
    tenant: TenantId,
) -> impl Iterator<Item = SessionId> + '_ {
    let all = (tenant, SessionId(0))..=(tenant, SessionId(u32::MAX));
    sessions.range(all).rev().map(|(_, session)| *session)
}

/// Returns some sessions of a tenant.
fn some_of(
    sessions: &BTreeSet<(TenantId, SessionId)>,
    tenant: TenantId,
) -> impl Iterator<Item = SessionId> + '_ {
    all_of(sessions, tenant).take(VICTIMS_LOOKED_AT)
}

impl Relay {
    /// Ends a session of the tenant with the most sessions, if that has more than its share and this one less. Of several sessions, it
    /// ends the one that was silent for longest.
    pub(super) fn evict_session(&mut self, tenant: TenantId, now: Time) -> bool {
        let victim = self.quotas.sessions.victim_for(tenant);
        let heard = |id: &SessionId| self.sessions.get(*id).map(|session| session.heard);
        let session = victim.and_then(|victim| some_of(&self.quotas.members, victim).min_by_key(heard));
        let Some(session) = session else {
            return false;
        };
        self.counters.sessions_evicted += 1;
        let close = Message::Close(Close { reason: CloseReason::NoLongerGranted });
        self.sessions.send_alone(session, &close, Urgency::Original, now);
        self.ended(session, now);
        true
    }

    /// Answers an initiation with the reason why its sender gets no session, and keeps nothing of it.
    pub(super) fn refuse_session(&mut self, initiation: ReceivedInitiation, origin: Origin, now: Time) {
        let register = Messages::new(&initiation.messages).find_map(|message| match message {
            Ok(Message::Register(register)) => Some(refused(&register)),
            _ => None,
        });
        let mut bytes = [0; MESSAGES_BYTES_MAX];
        let mut writer = Writer::new(&mut bytes);
        let close = Message::Close(Close { reason: CloseReason::NoLongerGranted });
        let answers = register.map(Message::Registered).into_iter().chain([close]);
        if answers.into_iter().any(|answer| answer.emit(&mut writer).is_err()) {
            return;
        }
        let session = self.sessions.add(remote_of(&initiation, self.shard), now);
        self.sessions.accept(session, initiation, origin, writer.written(), now);
        self.sessions.remove(session);
    }

    /// Checks that a session may have a place for another registration. Returns the registration of the tenant with the most that has to
    /// end for it, if one has to. It ends once the other stands, because that may still fail.
    pub(super) fn check_flow_quota(
        &mut self,
        session: SessionId,
        tenant: TenantId,
    ) -> Result<Option<End>, Refusal> {
        let tenant = self.quotas.tenant_of(session, tenant);
        if self.links.has_vacant_place(session) {
            return Ok(None);
        }
        if self.quotas.flows.is_over(tenant) {
            self.counters.quota_flows += 1;
            return Err(Refusal::QuotaReached);
        }
        if !self.quotas.flows.is_full() {
            return Ok(None);
        }
        let victim = self.quotas.flows.victim_for(tenant).ok_or(Refusal::NoRoom)?;
        let places = |id: &SessionId| self.links.places(*id);
        let richest = some_of(&self.quotas.registered, victim).max_by_key(places);
        let last = richest.and_then(|session| Some(End { session, alias: self.links.last_alias(session)? }));
        last.map(Some).ok_or(Refusal::NoRoom)
    }

    /// Takes an alias towards another relay from the tenant that has most of them there, for a flow of another. It rests for a while before
    /// that flow gets it: its sender has to ask again, and until then no other alias is taken for it.
    pub(super) fn evict_alias(&mut self, port: EgressPort, (tenant, key): (TenantId, FlowKey), now: Time) {
        let flow = self.ports.victim_for(port, (tenant, key), now);
        if let Some(end) = flow.and_then(|flow| self.links.sender(flow)) {
            self.evict_flow(end, now);
        }
    }

    /// Forgets a registration whose tenant has more than its share, and tells its agent.
    pub(super) fn evict_flow(&mut self, End { session, alias }: End, now: Time) {
        self.counters.flows_evicted += 1;
        let Some(known) = self.links.registration(session, alias) else {
            return;
        };
        self.forget(session, alias, now);
        let role = if known.sends { FlowRole::Sender } else { FlowRole::Receiver };
        let far_relay = GrantedRelay { relay: known.far.0, shard: known.far.1 };
        let outcome = Err(Refusal::QuotaReached);
        let revision = Some(known.revision);
        let registered = Registered { flow_key: known.key, role, far_relay, outcome, revision };
        self.sessions.say(session, &Message::Registered(registered), now);
    }
}

/// Returns the answer to a registration of a tenant that has as many sessions as it may have.
fn refused(register: &Register<'_>) -> Registered {
    let Register { flow_key, role, far_relay, revision, .. } = *register;
    Registered { flow_key, role, far_relay, outcome: Err(Refusal::QuotaReached), revision }
}

/// Returns the agent that an initiation is from.
pub(super) fn remote_of(initiation: &ReceivedInitiation, shard: byway_wire::Shard) -> Remote {
    Remote {
        key: initiation.peer,
        purpose: Purpose::AgentToRelay,
        shard,
        pre_shared: PreSharedKey::default(),
        addresses: Vec::new(),
        keep: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREEDY: TenantId = TenantId::new(1);
    const MODEST: TenantId = TenantId::new(2);
    const LATE: TenantId = TenantId::new(3);

    /// Takes as much as a tenant gets.
    fn fill(shares: &mut Shares, tenant: TenantId) -> u64 {
        let before = shares.of(tenant);
        while !shares.is_over(tenant) {
            if shares.is_full() {
                let Some(victim) = shares.victim_for(tenant) else {
                    break;
                };
                shares.give_back(victim, 1);
            }
            shares.take(tenant, 1);
            assert!(shares.used <= shares.max);
        }
        shares.of(tenant) - before
    }

    #[test]
    fn a_tenant_that_is_alone_may_have_everything_until_others_come_for_their_shares() {
        let mut shares = Shares::new(1_200, None);
        assert_eq!(fill(&mut shares, GREEDY), 1_200);
        assert_eq!(fill(&mut shares, MODEST), 600);
        assert_eq!(fill(&mut shares, GREEDY), 0, "beyond its share it takes nothing back");
        assert_eq!(fill(&mut shares, LATE), 400);
        assert_eq!((shares.of(GREEDY), shares.of(MODEST)), (400, 400));
    }

    #[test]
    fn where_half_is_used_nobody_gets_more_than_its_share() {
        let mut shares = Shares::new(1_200, None);
        shares.take(MODEST, 300);
        shares.take(GREEDY, 300);
        assert_eq!(fill(&mut shares, GREEDY), 300);
        assert_eq!(fill(&mut shares, MODEST), 300);
        assert_eq!(shares.victim_for(MODEST), None, "nobody has more than its share");
    }

    #[test]
    fn a_quota_holds_from_the_first_on_and_what_is_given_back_is_forgotten() {
        let mut shares = Shares::new(1_200, Some(5));
        assert_eq!(fill(&mut shares, GREEDY), 5);
        shares.give_back(GREEDY, 5);
        assert_eq!((shares.used, shares.by_tenant.len()), (0, 0));
    }

    #[test]
    fn more_tenants_than_a_table_has_entries_do_not_overfill_it() {
        let mut shares = Shares::new(10, None);
        for tenant in 0..100 {
            fill(&mut shares, TenantId::new(tenant));
        }
        assert_eq!(shares.used, 10);
    }
}
