//! The memory of flows, of those that are received here or of those that are sent: one pool each, of which nobody gets more than is left for
//! others. What every flow may have whatever others take is set aside with its registration.
//!
//! A session's flows may take as much as is free in the pool, and a tenant's a multiple of that (dynamic thresholds, Choudhury and
//! Hahne 1998): one that is alone has much, and makes room by itself when others come, as what is kept of a flow lasts for
//! seconds. Beyond its share, a flow keeps its newest packets in the memory that it has.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use byway_units::Bytes;
use byway_wire::TenantId;

use crate::limits::{TENANT_SHARE, TENANTS_MAX};

/// Session and tenant that pay for a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holder {
    /// The session's number.
    session: u32,
    /// The tenant's number in the pool.
    tenant: u32,
}

/// Memory that one flow takes.
#[derive(Debug)]
pub(super) struct MemoryUse {
    holder: Holder,
    bytes: u64,
    /// Bytes of it that are set aside with the flow's registration.
    set_aside: u64,
    /// Bytes of it that the pool counts as taken.
    charged: u64,
    /// True if it may take more, as of now.
    has_room: bool,
}

impl MemoryUse {
    /// A flow that takes so much, all of it set aside, beside so much more that is.
    pub(super) const fn new(holder: Holder, bytes: u64, more_set_aside: u64) -> Self {
        Self { holder, bytes, set_aside: bytes + more_set_aside, charged: 0, has_room: true }
    }

    pub(super) const fn holder(&self) -> Holder {
        self.holder
    }

    pub(super) const fn has_room(&self) -> bool {
        self.has_room
    }

    /// Notes that a part takes another amount of memory than before.
    pub(super) const fn grew(&mut self, before: u64, after: u64) {
        self.bytes = self.bytes + after - before;
    }
}

/// Memory of all flows, and who has it.
#[derive(Debug)]
pub(super) struct FlowMemory {
    max: u64,
    used: u64,
    /// Of that, what is no tenant's.
    shared: u64,
    by_session: Vec<u64>,
    by_tenant: Vec<u64>,
    tenants: BTreeMap<TenantId, u32>,
}

impl FlowMemory {
    pub(super) fn new(max: Bytes) -> Self {
        let (by_session, by_tenant) = (Vec::new(), Vec::new());
        Self { max: max.count(), used: 0, shared: 0, by_session, by_tenant, tenants: BTreeMap::new() }
    }

    /// The holder of a session's flows. Tenants beyond so many share one account.
    pub(super) fn holder(&mut self, session: u32, tenant: TenantId) -> Holder {
        let next = u32::try_from(self.tenants.len()).unwrap_or(u32::MAX);
        let tenant = match self.tenants.get(&tenant) {
            Some(known) => *known,
            None if self.tenants.len() == TENANTS_MAX => 0,
            None => *self.tenants.entry(tenant).or_insert(next),
        };
        Holder { session, tenant }
    }

    /// Memory that all flows take.
    pub(super) const fn used(&self) -> Bytes {
        Bytes::new(self.used)
    }

    /// Returns whether a flow of this holder may take more.
    pub(super) fn has_room(&self, holder: Holder) -> bool {
        let free = self.max.saturating_sub(self.used);
        let of = |accounts: &[u64], number: u32| accounts.get(number as usize).copied().unwrap_or(0);
        of(&self.by_session, holder.session) < free
            && of(&self.by_tenant, holder.tenant) < free.saturating_mul(TENANT_SHARE)
    }

    /// Returns whether memory that is no tenant's may grow: it may take as much as is free.
    pub(super) const fn has_shared_room(&self) -> bool {
        self.shared < self.max.saturating_sub(self.used)
    }

    /// Notes that what is no tenant's takes another amount than before.
    pub(super) const fn settle_shared(&mut self, before: u64, after: u64) {
        self.shared = self.shared + after - before;
        self.used = self.used + after - before;
    }

    /// Lets a flow know whether it may take more.
    pub(super) fn admit(&self, flow: &mut MemoryUse) {
        flow.has_room = self.has_room(flow.holder);
    }

    /// Notes what a flow takes now.
    pub(super) fn settle(&mut self, flow: &mut MemoryUse) {
        let needed = flow.bytes.saturating_sub(flow.set_aside);
        if needed != flow.charged {
            self.change(flow.holder, flow.charged, needed);
            flow.charged = needed;
        }
    }

    /// Notes that a flow gives back what it took.
    pub(super) fn release(&mut self, flow: &MemoryUse) {
        self.change(flow.holder, flow.charged, 0);
    }

    /// Takes memory for something that is no flow's own, which [`give_back`](Self::give_back) ends; `false` if there is too little.
    pub(super) fn take(&mut self, holder: Holder, bytes: u64) -> bool {
        let has_room = self.has_room(holder);
        if has_room {
            self.change(holder, 0, bytes);
        }
        has_room
    }

    /// Takes memory that is there already.
    pub(super) fn charge(&mut self, holder: Holder, bytes: u64) {
        self.change(holder, 0, bytes);
    }

    /// Gives back what [`take`](Self::take) or [`charge`](Self::charge) took.
    pub(super) fn give_back(&mut self, holder: Holder, bytes: u64) {
        self.change(holder, bytes, 0);
    }

    #[cold]
    fn change(&mut self, holder: Holder, before: u64, after: u64) {
        let session = account(&mut self.by_session, holder.session);
        *session = *session + after - before;
        let tenant = account(&mut self.by_tenant, holder.tenant);
        *tenant = *tenant + after - before;
        self.used = self.used + after - before;
    }
}

fn account(accounts: &mut Vec<u64>, number: u32) -> &mut u64 {
    let place = number as usize;
    if accounts.len() <= place {
        accounts.resize(place + 1, 0);
    }
    &mut accounts[place]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(memory: &mut FlowMemory, holder: Holder) -> u64 {
        let mut taken = 0;
        while memory.has_room(holder) {
            memory.change(holder, taken, taken + 10);
            taken += 10;
        }
        taken
    }

    #[test]
    fn a_session_leaves_as_much_as_it_takes_and_another_gets_half_of_that() {
        let mut memory = FlowMemory::new(Bytes::new(1_200));
        let [one, other] = [1, 2].map(|session| memory.holder(session, TenantId::new(9)));
        assert_eq!(fill(&mut memory, one), 600);
        assert_eq!(fill(&mut memory, other), 300);
        assert!(!memory.has_room(one));
        memory.change(one, 600, 0);
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
