//! Allocation of numbers for offered flows.

use alloc::collections::BTreeMap;

use byway_units::{AgentId, FlowId};

use crate::agent::may_offer;

/// Number of the contact flows between two agents. They have no packets: they show relays that the
/// two agents may communicate.
pub const CONTACT_FLOW: FlowId = FlowId::new(u16::MAX);

/// Allocator of flow numbers for offers to peers.
#[derive(Debug)]
pub struct FlowNumbers {
    own: AgentId,
    /// Number allocated last for each peer.
    last_allocated: BTreeMap<AgentId, u16>,
    first: u16,
}

impl FlowNumbers {
    /// Returns an allocator whose numbers begin near `first`. Each run should begin elsewhere,
    /// because peers may still know the numbers of the previous run.
    #[must_use]
    pub const fn new(own: AgentId, first: u16) -> Self {
        Self { own, last_allocated: BTreeMap::new(), first }
    }

    /// Forgets the numbers allocated for a peer.
    pub fn forget(&mut self, peer: AgentId) {
        self.last_allocated.remove(&peer);
    }

    /// Returns the next number that this agent may offer to the peer and that is not in use; `None`
    /// if all are in use.
    pub fn allocate(&mut self, peer: AgentId, is_in_use: impl Fn(FlowId) -> bool) -> Option<FlowId> {
        let number = self.last_allocated.entry(peer).or_insert(self.first);
        for _ in 0..=u16::MAX {
            *number = number.wrapping_add(1);
            let flow = FlowId::new(*number);
            if may_offer(self.own, peer, flow) && flow != CONTACT_FLOW && !is_in_use(flow) {
                return Some(flow);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;

    const SMALL: AgentId = AgentId::new(1);
    const LARGE: AgentId = AgentId::new(2);

    #[test]
    fn numbers_are_this_agents_to_offer_and_follow_one_another() {
        let draw = |own, peer| {
            let mut numbers = FlowNumbers::new(own, 6);
            [(); 3].map(|()| numbers.allocate(peer, |_| false).map(FlowId::number))
        };
        assert_eq!(draw(SMALL, LARGE), [Some(8), Some(10), Some(12)]);
        assert_eq!(draw(LARGE, SMALL), [Some(7), Some(9), Some(11)]);
    }

    #[test]
    fn numbers_go_round_and_leave_out_those_in_use_and_that_of_contact() {
        let mut numbers = FlowNumbers::new(LARGE, u16::MAX - 3);
        let draw = |numbers: &mut FlowNumbers| numbers.allocate(SMALL, |flow| flow.number() == 1);
        assert_eq!(draw(&mut numbers).map(FlowId::number), Some(u16::MAX - 2));
        assert_eq!(draw(&mut numbers).map(FlowId::number), Some(3), "neither 65,535 nor 1");
    }

    #[test]
    fn each_number_is_found_and_then_none() {
        let mut numbers = FlowNumbers::new(LARGE, 40_000);
        let mut used = BTreeSet::new();
        while let Some(flow) = numbers.allocate(SMALL, |flow| used.contains(&flow)) {
            used.insert(flow);
        }
        assert_eq!(used.len(), usize::from(u16::MAX / 2), "all odd numbers except the contact flow's");
    }
}
