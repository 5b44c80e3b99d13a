//! Memory accounting for flow state: one pool for received flows, one for sent flows. Each
//! registration reserves some memory for its flow, whatever other flows use. The pool accounts for
//! the rest. Its accounts of tenants also count their traffic.
//!
//! The limits are dynamic thresholds (Choudhury and Hahne 1998). A session's flows may use as much
//! memory as is free in the pool, and a tenant's flows a multiple of that. A single session may use
//! half of the pool; when others begin, its limit shrinks, because flow state expires within
//! seconds. Beyond its limit, a flow replaces its oldest packets within the memory that it has.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use byway_units::Bytes;
use byway_wire::TenantId;

use super::tenant_traffic::{TenantTraffic, TrafficAccounts};
use crate::limits::{TENANT_SHARE, TENANTS_MAX};

/// Session and tenant that a flow's memory is charged to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holder {
    /// Number of the session.
    session: u32,
    /// Index of the tenant's account in the pool.
    tenant: u32,
}

/// Memory use of one flow, and its charge to the pool.
#[derive(Debug)]
pub(super) struct MemoryUse {
    holder: Holder,
    bytes: u64,
    /// Part of the flow's memory that its registration reserves, in bytes.
    reserved: u64,
    /// Part of the flow's memory that is charged to the pool, in bytes.
    charged: u64,
    /// True if the flow might use more memory at the last [`FlowMemory::refresh_capacity`].
    has_capacity: bool,
}

impl MemoryUse {
    /// Creates the account of a flow that uses `bytes`, all of them reserved, and has
    /// `more_reserved` reserved bytes besides.
    pub(super) const fn new(holder: Holder, bytes: u64, more_reserved: u64) -> Self {
        Self { holder, bytes, reserved: bytes + more_reserved, charged: 0, has_capacity: true }
    }

    pub(super) const fn holder(&self) -> Holder {
        self.holder
    }

    pub(super) const fn has_capacity(&self) -> bool {
        self.has_capacity
    }

    /// Records that a part of the flow's state grew or shrank, in bytes.
    /// [`FlowMemory::update_charge`] charges the pool for it.
    pub(super) const fn on_resize(&mut self, before: u64, after: u64) {
        self.bytes = self.bytes + after - before;
    }
}

/// Memory pool of all flows, and its use per session and tenant.
#[derive(Debug)]
pub(super) struct FlowMemory {
    max: u64,
    used: u64,
    /// Part of `used` that belongs to no tenant, in bytes: batches.
    shared: u64,
    by_session: Vec<u64>,
    by_tenant: Vec<u64>,
    tenants: BTreeMap<TenantId, u32>,
    /// Traffic that is charged to the tenants, by the same accounts.
    traffic: TrafficAccounts,
}

impl FlowMemory {
    pub(super) fn new(max: Bytes) -> Self {
        Self {
            max: max.count(),
            used: 0,
            shared: 0,
            by_session: Vec::new(),
            by_tenant: Vec::new(),
            tenants: BTreeMap::new(),
            traffic: TrafficAccounts::default(),
        }
    }

    /// Returns the accounts of a session and its tenant, to charge their flows to. Tenants beyond
    /// [`TENANTS_MAX`] share one account.
    pub(super) fn holder(&mut self, session: u32, tenant: TenantId) -> Holder {
        let next = u32::try_from(self.tenants.len()).unwrap_or(u32::MAX);
        let tenant = match self.tenants.get(&tenant) {
            Some(known) => *known,
            None if self.tenants.len() == TENANTS_MAX => 0,
            None => *self.tenants.entry(tenant).or_insert(next),
        };
        Holder { session, tenant }
    }

    /// Returns the memory that is charged to the pool, of all flows and of batches.
    pub(super) const fn used(&self) -> Bytes {
        Bytes::new(self.used)
    }

    /// True if a flow of this session and tenant may use more memory.
    pub(super) fn has_capacity(&self, holder: Holder) -> bool {
        let free = self.max.saturating_sub(self.used);
        let of = |accounts: &[u64], number: u32| accounts.get(number as usize).copied().unwrap_or(0);
        of(&self.by_session, holder.session) < free
            && of(&self.by_tenant, holder.tenant) < free.saturating_mul(TENANT_SHARE)
    }

    /// True if the memory that belongs to no tenant may grow. Its limit is the memory that is free
    /// in the pool.
    pub(super) const fn has_shared_capacity(&self) -> bool {
        self.shared < self.max.saturating_sub(self.used)
    }

    /// Records that memory that belongs to no tenant grew or shrank, in bytes.
    pub(super) const fn resize_shared(&mut self, before: u64, after: u64) {
        self.shared = self.shared + after - before;
        self.used = self.used + after - before;
    }

    /// Updates a flow's permission to use more memory, by the current use of its session and
    /// tenant.
    pub(super) fn refresh_capacity(&self, flow: &mut MemoryUse) {
        flow.has_capacity = self.has_capacity(flow.holder);
    }

    /// Charges the pool for a flow's current memory use beyond its reserve.
    pub(super) fn update_charge(&mut self, flow: &mut MemoryUse) {
        let needed = flow.bytes.saturating_sub(flow.reserved);
        if needed != flow.charged {
            self.adjust(flow.holder, flow.charged, needed);
            flow.charged = needed;
        }
    }

    /// Refunds all memory that is charged to the pool for a flow, because its state is dropped.
    pub(super) fn release(&mut self, flow: &MemoryUse) {
        self.adjust(flow.holder, flow.charged, 0);
    }

    /// Charges a holder for memory that belongs to no single flow, such as a decode attempt, until
    /// [`refund`](Self::refund). Returns `false` if the holder may not use more.
    pub(super) fn try_charge(&mut self, holder: Holder, bytes: u64) -> bool {
        let has_capacity = self.has_capacity(holder);
        if has_capacity {
            self.adjust(holder, 0, bytes);
        }
        has_capacity
    }

    /// Charges a holder for memory that is already in use, even beyond its limit.
    pub(super) fn charge(&mut self, holder: Holder, bytes: u64) {
        self.adjust(holder, 0, bytes);
    }

    /// Refunds memory that [`try_charge`](Self::try_charge) or [`charge`](Self::charge) charged.
    pub(super) fn refund(&mut self, holder: Holder, bytes: u64) {
        self.adjust(holder, bytes, 0);
    }

    /// Charges a holder's tenant for bytes that the relay sends for one of its flows.
    pub(super) fn count_sent(&mut self, holder: Holder, bytes: u64) {
        self.traffic.account_mut(holder.tenant).sent += bytes;
    }

    /// Charges a holder's tenant for bytes that a helper returned for one of its flows.
    pub(super) fn count_returned(&mut self, holder: Holder, bytes: u64) {
        self.traffic.account_mut(holder.tenant).returned += bytes;
    }

    /// Returns the traffic of each tenant with an account. The first one's includes that of the
    /// tenants that share its account.
    pub(super) fn traffic_by_tenant(&self) -> impl Iterator<Item = (TenantId, TenantTraffic)> {
        self.tenants.iter().map(|(tenant, account)| (*tenant, self.traffic.get(*account)))
    }

    #[cold]
    fn adjust(&mut self, holder: Holder, before: u64, after: u64) {
        let session = account(&mut self.by_session, holder.session);
        *session = *session + after - before;
        let tenant = account(&mut self.by_tenant, holder.tenant);
        *tenant = *tenant + after - before;
        self.used = self.used + after - before;
    }
}

fn account(accounts: &mut Vec<u64>, number: u32) -> &mut u64 {
    let index = number as usize;
    if accounts.len() <= index {
        accounts.resize(index + 1, 0);
    }
    &mut accounts[index]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(memory: &mut FlowMemory, holder: Holder) -> u64 {
        let mut used = 0;
        while memory.has_capacity(holder) {
            memory.adjust(holder, used, used + 10);
            used += 10;
        }
        used
    }

    #[test]
    fn a_session_leaves_as_much_as_it_takes_and_another_gets_half_of_that() {
        let mut memory = FlowMemory::new(Bytes::new(1_200));
        let [one, other] = [1, 2].map(|session| memory.holder(session, TenantId::new(9)));
        assert_eq!(fill(&mut memory, one), 600);
        assert_eq!(fill(&mut memory, other), 300);
        assert!(!memory.has_capacity(one));
        memory.adjust(one, 600, 0);
        assert_eq!(memory.used(), Bytes::new(300));
        assert_eq!(fill(&mut memory, one), 450);
    }

    #[test]
    fn the_sessions_of_a_tenant_leave_a_part_to_others() {
        let mut memory = FlowMemory::new(Bytes::new(10_000));
        for session in 0..100 {
            let holder = memory.holder(session, TenantId::new(1));
            fill(&mut memory, holder);
        }
        assert!((8_000..8_100).contains(&memory.used().count()), "{:?}", memory.used());
        let newcomer = memory.holder(200, TenantId::new(2));
        assert!(fill(&mut memory, newcomer) > 900);
    }

    #[test]
    fn only_so_many_tenants_have_an_account_of_their_own() {
        let mut memory = FlowMemory::new(Bytes::new(10));
        for tenant in 0..2 * u32::try_from(TENANTS_MAX).expect("few") {
            memory.holder(0, TenantId::new(tenant));
        }
        assert_eq!(memory.tenants.len(), TENANTS_MAX);
        assert_eq!(memory.holder(5, TenantId::new(u32::MAX)), Holder { session: 5, tenant: 0 });
    }
}
