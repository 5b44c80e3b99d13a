//! What the flows of one grant send together.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use byway_units::{AgentId, Bytes, FlowId, Rate, Time};
use byway_wire::{Grant, Receiver};

use crate::limits::COPY_BURST;
use crate::parts::token_bucket::TokenBucket;

/// A grant, as far as its rate goes: whose flows, and how fast. A grant that follows another goes on with its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ceiling {
    pub(crate) flows: GrantedFlows,
    pub(crate) rate: Rate,
}

/// The flows of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GrantedFlows {
    pub(crate) sender: AgentId,
    pub(crate) receiver: Receiver,
    pub(crate) first: FlowId,
    pub(crate) last: FlowId,
}

/// Which account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CeilingSlot(u32);

#[derive(Debug)]
struct Account {
    flows: GrantedFlows,
    /// How many of them are registered.
    count: u32,
    /// When the last of them left.
    emptied: Time,
    budget: TokenBucket<Bytes>,
}

/// The accounts of all grants in use.
#[derive(Debug, Default)]
pub(crate) struct Ceilings {
    accounts: Vec<Option<Account>>,
    free: Vec<CeilingSlot>,
    by_flows: BTreeMap<GrantedFlows, CeilingSlot>,
    /// Accounts that nobody is charged to, and since when: they are kept until they would be full again, lest who leaves and
    /// comes back begins with a full one.
    empty: VecDeque<(Time, CeilingSlot)>,
}

impl Ceiling {
    pub(crate) fn of(grant: &Grant) -> Self {
        let (sender, receiver) = (grant.sender, grant.receiver);
        let flows = GrantedFlows { sender, receiver, first: grant.first_flow, last: grant.last_flow };
        Self { flows, rate: grant.rate.rate() }
    }
}

impl Ceilings {
    /// The account that a further flow of the grant is charged to.
    pub(crate) fn join(&mut self, ceiling: &Ceiling, now: Time) -> CeilingSlot {
        self.forget_full(now);
        if let Some(slot) = self.by_flows.get(&ceiling.flows).copied() {
            let account = self.account(slot);
            account.count += 1;
            account.budget.set(ceiling.rate, burst(ceiling.rate), now);
            return slot;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.accounts.push(None);
            CeilingSlot(u32::try_from(self.accounts.len() - 1).expect("the number of flows is limited"))
        });
        let budget = TokenBucket::of_bytes(ceiling.rate, burst(ceiling.rate), now);
        self.accounts[slot.0 as usize] =
            Some(Account { flows: ceiling.flows, count: 1, emptied: now, budget });
        self.by_flows.insert(ceiling.flows, slot);
        slot
    }

    /// A flow of the grant left.
    pub(crate) fn leave(&mut self, slot: CeilingSlot, now: Time) {
        self.forget_full(now);
        let account = self.account(slot);
        account.count -= 1;
        if account.count == 0 {
            account.emptied = now;
            self.empty.push_back((now, slot));
        }
    }

    /// Forgets the accounts that are full by now and that nobody is charged to.
    fn forget_full(&mut self, now: Time) {
        while let Some((since, slot)) =
            self.empty.front().copied().filter(|(since, _)| *since + COPY_BURST <= now)
        {
            self.empty.pop_front();
            let account = self.accounts[slot.0 as usize].as_ref();
            let is_full = |account: &&Account| account.count == 0 && account.emptied == since;
            if let Some(flows) = account.filter(is_full).map(|account| account.flows) {
                self.by_flows.remove(&flows);
                self.accounts[slot.0 as usize] = None;
                self.free.push(slot);
            }
        }
    }

    /// Charges a copy; whether the grant still allows it.
    pub(crate) fn take(&mut self, slot: CeilingSlot, bytes: Bytes, now: Time) -> bool {
        self.account(slot).budget.take(bytes, now)
    }

    fn account(&mut self, slot: CeilingSlot) -> &mut Account {
        self.accounts[slot.0 as usize].as_mut().expect("an account lives as long as its flows")
    }
}

/// What may be copied at once.
fn burst(rate: Rate) -> Bytes {
    rate.bytes_in(COPY_BURST).unwrap_or(Bytes::MAX)
}
