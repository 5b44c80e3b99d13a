//! Policers of grants: each limits the sum of a grant's flows.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use byway_units::{AgentId, Bytes, FlowId, Rate, Time};
use byway_wire::{Grant, Receiver};

use crate::limits::COPY_BURST;
use crate::parts::token_bucket::TokenBucket;

/// Parameters of a grant's policer: the flows that the grant covers and the rate of all of them
/// together. A new grant for the same flows continues the token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GrantPolicer {
    pub(crate) flows: GrantedFlows,
    pub(crate) rate: Rate,
}

/// Flows that a grant covers: a sender, a receiver, and a range of flow numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GrantedFlows {
    pub(crate) sender: AgentId,
    pub(crate) receiver: Receiver,
    pub(crate) first: FlowId,
    pub(crate) last: FlowId,
}

/// Index of a policer in [`GrantPolicers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PolicerSlot(u32);

#[derive(Debug)]
struct PolicerState {
    flows: GrantedFlows,
    /// Number of the grant's registered flows.
    count: u32,
    /// Time at which the grant's last registered flow was removed.
    emptied_at: Time,
    budget: TokenBucket<Bytes>,
}

/// Policers of all grants in use.
#[derive(Debug, Default)]
pub(crate) struct GrantPolicers {
    states: Vec<Option<PolicerState>>,
    free: Vec<PolicerSlot>,
    by_flows: BTreeMap<GrantedFlows, PolicerSlot>,
    /// Policers without flows, and since when. They remain until their token bucket is full: an
    /// agent that leaves and returns must not get a full bucket at once.
    empty: VecDeque<(Time, PolicerSlot)>,
}

impl GrantPolicer {
    pub(crate) fn of(grant: &Grant) -> Self {
        let (sender, receiver) = (grant.sender, grant.receiver);
        let flows = GrantedFlows { sender, receiver, first: grant.first_flow, last: grant.last_flow };
        Self { flows, rate: grant.rate.rate() }
    }
}

impl GrantPolicers {
    /// Counts a registered flow at its grant's policer, and returns the policer. The first flow of
    /// a grant creates it.
    pub(crate) fn join(&mut self, policer: &GrantPolicer, now: Time) -> PolicerSlot {
        self.remove_refilled(now);
        if let Some(slot) = self.by_flows.get(&policer.flows).copied() {
            let state = self.state_mut(slot);
            state.count += 1;
            state.budget.set(policer.rate, burst(policer.rate), now);
            return slot;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.states.push(None);
            PolicerSlot(u32::try_from(self.states.len() - 1).expect("the number of flows is limited"))
        });
        let budget = TokenBucket::of_bytes(policer.rate, burst(policer.rate), now);
        self.states[slot.0 as usize] =
            Some(PolicerState { flows: policer.flows, count: 1, emptied_at: now, budget });
        self.by_flows.insert(policer.flows, slot);
        slot
    }

    /// Removes a registered flow from its policer's count.
    pub(crate) fn leave(&mut self, slot: PolicerSlot, now: Time) {
        self.remove_refilled(now);
        let state = self.state_mut(slot);
        state.count -= 1;
        if state.count == 0 {
            state.emptied_at = now;
            self.empty.push_back((now, slot));
        }
    }

    /// Removes policers without flows whose token bucket is full by now.
    fn remove_refilled(&mut self, now: Time) {
        while let Some((since, slot)) =
            self.empty.front().copied().filter(|(since, _)| *since + COPY_BURST <= now)
        {
            self.empty.pop_front();
            let state = self.states[slot.0 as usize].as_ref();
            let is_full = |state: &&PolicerState| state.count == 0 && state.emptied_at == since;
            if let Some(flows) = state.filter(is_full).map(|state| state.flows) {
                self.by_flows.remove(&flows);
                self.states[slot.0 as usize] = None;
                self.free.push(slot);
            }
        }
    }

    /// Charges the bytes of a copy to a grant's policer. Returns `false` if the grant's flows
    /// together exceed its rate.
    pub(crate) fn try_charge(&mut self, slot: PolicerSlot, bytes: Bytes, now: Time) -> bool {
        self.state_mut(slot).budget.try_consume(bytes, now)
    }

    fn state_mut(&mut self, slot: PolicerSlot) -> &mut PolicerState {
        self.states[slot.0 as usize].as_mut().expect("a policer lives as long as its flows")
    }
}

/// Returns the burst of a policer with this rate, in bytes: the rate over [`COPY_BURST`].
fn burst(rate: Rate) -> Bytes {
    rate.bytes_in(COPY_BURST).unwrap_or(Bytes::MAX)
}
