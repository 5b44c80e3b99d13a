//! Pairs of flows of a client, one flow in each direction.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use byway_proto::agent::{ReceiveFlowId, SendFlowId};
use byway_proto::conventions::{EvictionCandidate, PairLimits, PairUse, choose_evicted};
use byway_proto::limits::FLOW_PAIR_IDLE;
use byway_units::{AgentId, FlowId, Time};

/// Pair of flows with one number: one flow to a peer and one back. Its value is not reused within a
/// client after the pair is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowPair {
    index: u32,
    generation: u32,
}

impl FlowPair {
    /// Encodes the pair as a number, for interfaces without structured types.
    #[must_use]
    pub const fn number(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// Decodes a pair from a number. A number that was never a pair behaves like a closed pair.
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        let [g0, g1, g2, g3, p0, p1, p2, p3] = number.to_be_bytes();
        Self { index: u32::from_be_bytes([p0, p1, p2, p3]), generation: u32::from_be_bytes([g0, g1, g2, g3]) }
    }
}

/// Side that registered a pair of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// This application registered the pair.
    Registered { is_accepted: bool },
    /// An application of the peer registered the pair.
    Incoming,
}

/// Error if a peer's new pair would exceed a limit, and all existing pairs are in use, so none can
/// be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PairsInUseError;

/// State of a pair of flows.
#[derive(Clone, Debug)]
pub(crate) struct PairEntry {
    pub(crate) peer: AgentId,
    pub(crate) number: FlowId,
    pub(crate) sent: SendFlowId,
    pub(crate) received: ReceiveFlowId,
    pub(crate) side: Side,
    /// Exposed name for which the pair is registered.
    pub(crate) name: String,
    /// Time of the pair's latest datagram, and whether both ends have sent any.
    pub(crate) usage: PairUse,
}

/// All open pairs of flows of a client, by value, flow number and received flow.
#[derive(Debug, Default)]
pub(crate) struct FlowPairs {
    slots: Vec<(u32, Option<PairEntry>)>,
    free: Vec<u32>,
    by_number: BTreeMap<(AgentId, FlowId), FlowPair>,
    by_received: BTreeMap<ReceiveFlowId, FlowPair>,
}

impl FlowPairs {
    pub(crate) const fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds a pair whose flow number is free at its peer, and returns the pair's value.
    pub(crate) fn add(&mut self, entry: PairEntry) -> FlowPair {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            u32::try_from(self.slots.len() - 1).expect("there are at most FLOW_PAIRS_MAX")
        });
        let slot = &mut self.slots[index as usize];
        let pair = FlowPair { index, generation: slot.0 };
        self.by_number.insert((entry.peer, entry.number), pair);
        self.by_received.insert(entry.received, pair);
        slot.1 = Some(entry);
        pair
    }

    pub(crate) fn remove(&mut self, pair: FlowPair) -> Option<PairEntry> {
        let slot = self.slots.get_mut(pair.index as usize).filter(|slot| slot.0 == pair.generation)?;
        let entry = slot.1.take()?;
        self.by_number.remove(&(entry.peer, entry.number));
        self.by_received.remove(&entry.received);
        // A slot with exhausted generations is not reused.
        if let Some(next) = slot.0.checked_add(1) {
            slot.0 = next;
            self.free.push(pair.index);
        }
        Some(entry)
    }

    pub(crate) fn get(&self, pair: FlowPair) -> Option<&PairEntry> {
        let slot = self.slots.get(pair.index as usize).filter(|slot| slot.0 == pair.generation)?;
        slot.1.as_ref()
    }

    pub(crate) fn get_mut(&mut self, pair: FlowPair) -> Option<&mut PairEntry> {
        let slot = self.slots.get_mut(pair.index as usize).filter(|slot| slot.0 == pair.generation)?;
        slot.1.as_mut()
    }

    pub(crate) fn of_number(&self, peer: AgentId, number: FlowId) -> Option<FlowPair> {
        self.by_number.get(&(peer, number)).copied()
    }

    pub(crate) fn of_received(&self, flow: ReceiveFlowId) -> Option<FlowPair> {
        self.by_received.get(&flow).copied()
    }

    pub(crate) fn of_peer(&self, peer: AgentId) -> impl Iterator<Item = (FlowPair, &PairEntry)> {
        self.iter().filter(move |(_, entry)| entry.peer == peer)
    }

    /// Returns the pairs registered by peers that have been idle for [`FLOW_PAIR_IDLE`].
    pub(crate) fn idle(&self, now: Time) -> Vec<FlowPair> {
        let is_idle =
            |entry: &PairEntry| entry.side == Side::Incoming && entry.usage.idle(now) >= FLOW_PAIR_IDLE;
        self.iter().filter(|(_, entry)| is_idle(entry)).map(|(pair, _)| pair).collect()
    }

    /// Selects the pair to evict before a peer's new pair, if a limit is reached. Pairs that this
    /// application registered are never evicted.
    ///
    /// # Errors
    /// If all candidates are in use.
    pub(crate) fn evictable_pair(
        &self,
        peer: AgentId,
        now: Time,
    ) -> Result<Option<FlowPair>, PairsInUseError> {
        let limits = PairLimits::default();
        let count = |owner: AgentId| self.incoming().filter(|(_, entry)| entry.peer == owner).count();
        let is_of_peer = count(peer) >= limits.of_peer;
        if !is_of_peer && self.count() < limits.all {
            return Ok(None);
        }
        let mut counts = BTreeMap::new();
        self.incoming().for_each(|(_, entry)| *counts.entry(entry.peer).or_insert(0) += 1);
        let permitted = self.incoming().filter(|(_, entry)| !is_of_peer || entry.peer == peer);
        let candidates = permitted.map(|(pair, entry)| EvictionCandidate {
            pair,
            of_owner: counts[&entry.peer],
            usage: entry.usage,
        });
        choose_evicted(candidates, now).map(Some).map_err(|_| PairsInUseError)
    }

    /// Iterates over the pairs that peers registered.
    fn incoming(&self) -> impl Iterator<Item = (FlowPair, &PairEntry)> {
        self.iter().filter(|(_, entry)| entry.side == Side::Incoming)
    }

    /// Removes all pairs, because the client leaves.
    pub(crate) fn clear(&mut self) {
        let all: Vec<FlowPair> = self.iter().map(|(pair, _)| pair).collect();
        for pair in all {
            self.remove(pair);
        }
    }

    fn iter(&self) -> impl Iterator<Item = (FlowPair, &PairEntry)> {
        (0..).zip(&self.slots).filter_map(|(index, (generation, entry))| {
            Some((FlowPair { index, generation: *generation }, entry.as_ref()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use byway_code::Engine;
    use byway_proto::agent::{Agent, AgentIdentity, FlowSettings, Peer, flow_between};
    use byway_units::Duration;
    use byway_wire::seal::{PortableProvider, PreSharedKey, StaticSecret, Suite};

    use super::*;

    #[test]
    fn a_number_and_back() {
        let pair = FlowPair { index: 7, generation: u32::MAX - 1 };
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

    const OWN: AgentId = AgentId::new(1);

    fn at(seconds: u64) -> Time {
        Time::START + Duration::from_secs(seconds)
    }

    /// Returns a new pair with a peer. Its flows exist in another agent.
    fn entry(peer: AgentId, number: u16, side: Side, now: Time) -> PairEntry {
        let secret = |byte| StaticSecret::from_bytes([byte; 32]);
        let suite = Suite::ChaCha20Poly1305;
        let identity = AgentIdentity { number: OWN, secret: secret(1), suite, started_unix_nanos: 1 };
        let mut agent = Agent::new(identity, Engine::fastest(), &PortableProvider, [0; 32], now);
        let (key, pre_shared) = (secret(2).public_key(), PreSharedKey::default());
        agent.add_peer(Peer { number: peer, key, pre_shared, addresses: Vec::new() }, now);
        let (settings, flow) = (FlowSettings::default(), FlowId::new(2));
        let sent = agent.open_flow(flow_between(OWN, peer, flow), settings.clone(), now);
        let received = agent.accept_flow(flow_between(peer, OWN, flow), settings, now);
        let (sent, received) = sent.zip(received).expect("the peer was added");
        let number = FlowId::new(number);
        PairEntry { peer, number, sent, received, side, name: String::new(), usage: PairUse::new(now) }
    }

    #[test]
    fn of_a_peer_with_as_many_pairs_as_may_be_the_longest_idle_one_makes_room_and_none_that_is_registered() {
        let (peer, other, mut pairs) = (AgentId::new(2), AgentId::new(3), FlowPairs::default());
        pairs.add(entry(peer, 9_999, Side::Registered { is_accepted: true }, at(0)));
        let template = entry(peer, 0, Side::Incoming, at(50));
        for number in 1..u16::try_from(PairLimits::default().of_peer).expect("few") {
            pairs.add(PairEntry { number: FlowId::new(number), ..template.clone() });
        }
        assert_eq!(pairs.evictable_pair(peer, at(50)), Ok(None));
        let oldest = pairs.add(PairEntry { usage: PairUse::new(at(49)), ..template });
        assert_eq!(pairs.evictable_pair(peer, at(49)), Err(PairsInUseError));
        assert_eq!(pairs.evictable_pair(other, at(49)), Ok(None), "there is room for others");
        assert_eq!(pairs.evictable_pair(peer, at(60)), Ok(Some(oldest)));
    }
}
