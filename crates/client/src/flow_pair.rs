//! Pairs of flows, one in each direction.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use byway_proto::agent::{ReceiveFlowId, SendFlowId};
use byway_proto::limits::FLOW_PAIR_IDLE;
use byway_units::{AgentId, FlowId, Time};

/// A flow to a peer and one back, of one number. After it was closed, no other pair of its client is ever called the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowPair {
    place: u32,
    generation: u32,
}

impl FlowPair {
    /// As a number, for interfaces that have nothing else.
    #[must_use]
    pub const fn number(self) -> u64 {
        (self.generation as u64) << 32 | self.place as u64
    }

    /// The pair of this number. One that stands for none is the same as one that was closed.
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        let [g0, g1, g2, g3, p0, p1, p2, p3] = number.to_be_bytes();
        Self { place: u32::from_be_bytes([p0, p1, p2, p3]), generation: u32::from_be_bytes([g0, g1, g2, g3]) }
    }
}

/// Who began a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// This application; whether the peer has accepted.
    Registered { is_accepted: bool },
    /// An application of the peer.
    Incoming,
}

/// What is known of a pair.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) peer: AgentId,
    pub(crate) number: FlowId,
    pub(crate) sent: SendFlowId,
    pub(crate) received: ReceiveFlowId,
    pub(crate) side: Side,
    /// What it is for: the name of what is exposed.
    pub(crate) name: String,
    /// When a datagram came or went last.
    pub(crate) used: Time,
}

/// All pairs.
#[derive(Debug, Default)]
pub(crate) struct FlowPairs {
    slots: Vec<(u32, Option<Entry>)>,
    free: Vec<u32>,
    by_number: BTreeMap<(AgentId, FlowId), FlowPair>,
    by_received: BTreeMap<ReceiveFlowId, FlowPair>,
}

impl FlowPairs {
    pub(crate) const fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds one whose number has none yet.
    pub(crate) fn add(&mut self, entry: Entry) -> FlowPair {
        let place = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            u32::try_from(self.slots.len() - 1).expect("there are at most FLOW_PAIRS_MAX")
        });
        let slot = &mut self.slots[place as usize];
        let pair = FlowPair { place, generation: slot.0 };
        self.by_number.insert((entry.peer, entry.number), pair);
        self.by_received.insert(entry.received, pair);
        slot.1 = Some(entry);
        pair
    }

    pub(crate) fn remove(&mut self, pair: FlowPair) -> Option<Entry> {
        let slot = self.slots.get_mut(pair.place as usize).filter(|slot| slot.0 == pair.generation)?;
        let entry = slot.1.take()?;
        self.by_number.remove(&(entry.peer, entry.number));
        self.by_received.remove(&entry.received);
        // A place whose generations are used up is left empty.
        if let Some(next) = slot.0.checked_add(1) {
            slot.0 = next;
            self.free.push(pair.place);
        }
        Some(entry)
    }

    pub(crate) fn get(&self, pair: FlowPair) -> Option<&Entry> {
        let slot = self.slots.get(pair.place as usize).filter(|slot| slot.0 == pair.generation)?;
        slot.1.as_ref()
    }

    pub(crate) fn get_mut(&mut self, pair: FlowPair) -> Option<&mut Entry> {
        let slot = self.slots.get_mut(pair.place as usize).filter(|slot| slot.0 == pair.generation)?;
        slot.1.as_mut()
    }

    pub(crate) fn of_number(&self, peer: AgentId, number: FlowId) -> Option<FlowPair> {
        self.by_number.get(&(peer, number)).copied()
    }

    pub(crate) fn of_received(&self, flow: ReceiveFlowId) -> Option<FlowPair> {
        self.by_received.get(&flow).copied()
    }

    pub(crate) fn of_peer(&self, peer: AgentId) -> impl Iterator<Item = (FlowPair, &Entry)> {
        self.iter().filter(move |(_, entry)| entry.peer == peer)
    }

    /// Those that peers' applications began and that nobody uses any more.
    pub(crate) fn idle(&self, now: Time) -> Vec<FlowPair> {
        let is_idle = |entry: &Entry| {
            entry.side == Side::Incoming && now.saturating_since(entry.used) >= FLOW_PAIR_IDLE
        };
        self.iter().filter(|(_, entry)| is_idle(entry)).map(|(pair, _)| pair).collect()
    }

    /// All of them are gone.
    pub(crate) fn clear(&mut self) {
        let all: Vec<FlowPair> = self.iter().map(|(pair, _)| pair).collect();
        for pair in all {
            self.remove(pair);
        }
    }

    fn iter(&self) -> impl Iterator<Item = (FlowPair, &Entry)> {
        (0..).zip(&self.slots).filter_map(|(place, (generation, entry))| {
            Some((FlowPair { place, generation: *generation }, entry.as_ref()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_back() {
        let pair = FlowPair { place: 7, generation: u32::MAX - 1 };
        assert_eq!(FlowPair::from_number(pair.number()), pair);
        assert_eq!(FlowPair::from_number(u64::MAX).number(), u64::MAX);
    }

    #[test]
    fn what_is_no_pair_is_not_found() {
        let mut pairs = FlowPairs::default();
        for number in [0, 1, u64::MAX] {
            assert!(pairs.get(FlowPair::from_number(number)).is_none());
            assert!(pairs.remove(FlowPair::from_number(number)).is_none());
        }
        assert_eq!(pairs.count(), 0);
    }
}
