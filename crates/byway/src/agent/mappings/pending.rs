//! Datagrams of applications that wait for a peer's consent.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use byway_units::{AgentId, Time};
use byway_wire::TrafficClass;

use super::MappingId;
use crate::agent::limits::{PENDING_BYTES_MAX, PENDING_BYTES_PER_PEER_MAX};

/// A datagram that waits for its peer's consent.
#[derive(Debug)]
pub(in crate::agent) struct PendingDatagram {
    pub(in crate::agent) mapping: MappingId,
    pub(in crate::agent) arrived_at: Time,
    /// Time from which the datagram is stale, and no longer sent.
    pub(in crate::agent) stale_at: Time,
    pub(in crate::agent) traffic_class: TrafficClass,
    pub(in crate::agent) marked: bool,
    pub(in crate::agent) bytes: Vec<u8>,
}

impl PendingDatagram {
    /// Returns the memory that the queued datagram occupies, in bytes, including its overhead.
    const fn cost(&self) -> usize {
        size_of::<Self>() + self.bytes.len()
    }
}

/// Waiting datagrams for one peer, the oldest first. A queue in the table contains at least one.
#[derive(Debug, Default)]
struct Queue {
    datagrams: VecDeque<PendingDatagram>,
    bytes: usize,
    /// Memory of each mapping's datagrams in this queue, in bytes.
    of_mappings: BTreeMap<MappingId, usize>,
}

impl Queue {
    fn push(&mut self, datagram: PendingDatagram) {
        self.bytes += datagram.cost();
        *self.of_mappings.entry(datagram.mapping).or_default() += datagram.cost();
        self.datagrams.push_back(datagram);
    }

    /// Removes the oldest datagram of the mapping with the most bytes. Therefore, one application's
    /// burst does not displace another one's datagrams.
    fn pop(&mut self) -> Option<PendingDatagram> {
        let most = *self.of_mappings.values().max()?;
        let is_of_largest =
            |datagram: &PendingDatagram| self.of_mappings.get(&datagram.mapping) == Some(&most);
        let oldest = self.datagrams.iter().position(is_of_largest)?;
        let removed = self.datagrams.remove(oldest)?;
        self.note_removed(&removed);
        Some(removed)
    }

    /// Removes the oldest datagram of the queue.
    fn pop_front(&mut self) -> Option<PendingDatagram> {
        let removed = self.datagrams.pop_front()?;
        self.note_removed(&removed);
        Some(removed)
    }

    fn note_removed(&mut self, removed: &PendingDatagram) {
        self.bytes -= removed.cost();
        if let Entry::Occupied(mut of_mapping) = self.of_mappings.entry(removed.mapping) {
            *of_mapping.get_mut() -= removed.cost();
            if *of_mapping.get() == 0 {
                of_mapping.remove();
            }
        }
    }
}

/// Datagrams of all mappings that wait for their peers' consent.
///
/// Beyond a limit, the oldest datagrams of the largest backlog are dropped.
#[derive(Debug, Default)]
pub(in crate::agent) struct PendingDatagrams {
    peers: BTreeMap<AgentId, Queue>,
    bytes: usize,
    /// Datagrams dropped because newer ones exceeded a limit.
    pub(in crate::agent) overflowed: u64,
    /// Datagrams dropped because they waited too long for consent.
    pub(in crate::agent) stale: u64,
}

impl PendingDatagrams {
    /// Returns the memory of all datagrams, in bytes.
    #[cfg(test)]
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Queues a datagram for a peer, after dropping the peer's stale ones at the front. Beyond the
    /// peer's limit, drops the oldest datagram of its mapping with the most bytes. Beyond the limit
    /// of all peers, drops so at the peer with the most bytes.
    pub(super) fn push(&mut self, peer: AgentId, datagram: PendingDatagram, now: Time) {
        while self.is_front_stale(peer, now) {
            self.stale += self.drop_one(peer, Queue::pop_front);
        }
        self.bytes += datagram.cost();
        self.peers.entry(peer).or_default().push(datagram);
        while self.peers.get(&peer).is_some_and(|queue| queue.bytes > PENDING_BYTES_PER_PEER_MAX) {
            self.overflowed += self.drop_one(peer, Queue::pop);
        }
        while self.bytes > PENDING_BYTES_MAX
            && let Some(largest) = self.largest()
        {
            self.overflowed += self.drop_one(largest, Queue::pop);
        }
    }

    fn is_front_stale(&self, peer: AgentId, now: Time) -> bool {
        let oldest = self.peers.get(&peer).and_then(|queue| queue.datagrams.front());
        oldest.is_some_and(|oldest| oldest.stale_at <= now)
    }

    /// Returns the peer whose waiting datagrams occupy the most memory.
    fn largest(&self) -> Option<AgentId> {
        self.peers.iter().max_by_key(|(_, queue)| queue.bytes).map(|(peer, _)| *peer)
    }

    /// Drops the datagram of a peer that `pop` removes. Returns the number dropped, 0 or 1.
    fn drop_one(&mut self, peer: AgentId, pop: impl Fn(&mut Queue) -> Option<PendingDatagram>) -> u64 {
        let Some(queue) = self.peers.get_mut(&peer) else {
            return 0;
        };
        let dropped = pop(queue);
        self.bytes -= dropped.as_ref().map_or(0, PendingDatagram::cost);
        if queue.datagrams.is_empty() {
            self.peers.remove(&peer);
        }
        u64::from(dropped.is_some())
    }

    /// Removes the waiting datagrams of a mapping, and returns them, the oldest first.
    pub(super) fn remove_mapping(&mut self, peer: AgentId, mapping: MappingId) -> VecDeque<PendingDatagram> {
        self.remove(peer, |datagram| datagram.mapping == mapping)
    }

    /// Returns the datagrams that are not stale among removed ones. Counts the stale ones.
    pub(super) fn without_stale(
        &mut self,
        mut removed: VecDeque<PendingDatagram>,
        now: Time,
    ) -> VecDeque<PendingDatagram> {
        let before = removed.len();
        removed.retain(|datagram| datagram.stale_at > now);
        self.stale += (before - removed.len()) as u64;
        removed
    }

    /// Drops the stale datagrams of all peers, and counts them.
    pub(super) fn expire(&mut self, now: Time) {
        let is_stale = |datagram: &PendingDatagram| datagram.stale_at <= now;
        let stale = self.peers.iter().filter(|(_, queue)| queue.datagrams.iter().any(is_stale));
        let peers: Vec<AgentId> = stale.map(|(peer, _)| *peer).collect();
        for peer in peers {
            self.stale += self.remove(peer, |datagram| datagram.stale_at <= now).len() as u64;
        }
    }

    fn remove(
        &mut self,
        peer: AgentId,
        is_meant: impl Fn(&PendingDatagram) -> bool,
    ) -> VecDeque<PendingDatagram> {
        let Some(mut queue) = self.peers.remove(&peer) else {
            return VecDeque::new();
        };
        let datagrams = std::mem::take(&mut queue.datagrams);
        let (removed, rest): (VecDeque<_>, VecDeque<_>) = datagrams.into_iter().partition(&is_meant);
        self.bytes -= removed.iter().map(PendingDatagram::cost).sum::<usize>();
        for datagram in &removed {
            queue.note_removed(datagram);
        }
        queue.datagrams = rest;
        if !queue.datagrams.is_empty() {
            self.peers.insert(peer, queue);
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{PEER, at};
    use super::*;

    const OTHER: AgentId = AgentId::new(3);

    fn datagram(mapping: usize, number: u8, length: usize, stale_ms: u64) -> PendingDatagram {
        PendingDatagram {
            mapping: MappingId(mapping),
            arrived_at: at(0),
            stale_at: at(stale_ms),
            traffic_class: TrafficClass::DEFAULT,
            marked: false,
            bytes: vec![number; length],
        }
    }

    /// Returns the length of a datagram, `count` of which occupy exactly `bytes`.
    fn length(bytes: usize, count: usize) -> usize {
        bytes / count - size_of::<PendingDatagram>()
    }

    #[test]
    fn a_thousand_datagrams_of_200_bytes_wait_for_one_peer_and_200_of_1200() {
        for (count, length) in [(1_000, 200), (200, 1_200)] {
            let mut pending = PendingDatagrams::default();
            (0..count).for_each(|_| pending.push(PEER, datagram(0, 0, length, 1_000), at(0)));
            assert_eq!((pending.remove_mapping(PEER, MappingId(0)).len(), pending.overflowed), (count, 0));
            assert_eq!((pending.bytes, pending.peers.len()), (0, 0));
        }
    }

    #[test]
    fn beyond_a_peers_bytes_its_oldest_are_dropped_and_counted_and_no_other_peers() {
        let mut pending = PendingDatagrams::default();
        pending.push(OTHER, datagram(9, 9, 1, 1_000), at(0));
        let length = length(PENDING_BYTES_PER_PEER_MAX, 16);
        for number in 0..19 {
            pending.push(PEER, datagram(usize::from(number % 2), number, length, 1_000), at(0));
        }
        assert_eq!((pending.overflowed, pending.stale), (3, 0));
        let numbers = |removed: VecDeque<PendingDatagram>| -> Vec<u8> {
            removed.iter().map(|datagram| datagram.bytes[0]).collect()
        };
        assert_eq!(numbers(pending.remove_mapping(PEER, MappingId(0))), [4, 6, 8, 10, 12, 14, 16, 18]);
        assert_eq!(numbers(pending.remove_mapping(PEER, MappingId(1))), [3, 5, 7, 9, 11, 13, 15, 17]);
        assert_eq!(numbers(pending.remove_mapping(OTHER, MappingId(9))), [9]);
        assert_eq!((pending.bytes, pending.peers.len()), (0, 0));
    }

    #[test]
    fn a_burst_of_one_application_pushes_out_nothing_of_another() {
        let mut pending = PendingDatagrams::default();
        pending.push(PEER, datagram(1, 7, 100, 1_000), at(0));
        let length = length(PENDING_BYTES_PER_PEER_MAX, 16);
        (0..40).for_each(|number| pending.push(PEER, datagram(0, number, length, 1_000), at(0)));
        assert_eq!(pending.overflowed, 25);
        assert_eq!(pending.remove_mapping(PEER, MappingId(1)).len(), 1, "it is the oldest of all");
        let removed = pending.remove_mapping(PEER, MappingId(0));
        assert_eq!(
            removed.iter().map(|datagram| datagram.bytes[0]).min(),
            Some(25),
            "its own oldest are dropped"
        );
        assert_eq!((pending.bytes, pending.peers.len()), (0, 0));
    }

    #[test]
    fn datagrams_without_payload_are_limited_too() {
        let mut pending = PendingDatagrams::default();
        let most = PENDING_BYTES_PER_PEER_MAX / size_of::<PendingDatagram>();
        (0..most + 5).for_each(|_| pending.push(PEER, datagram(0, 0, 0, 1_000), at(0)));
        assert_eq!((pending.remove_mapping(PEER, MappingId(0)).len(), pending.overflowed), (most, 5));
    }

    #[test]
    fn beyond_the_bytes_of_all_the_peer_with_the_largest_backlog_pays() {
        let mut pending = PendingDatagrams::default();
        let full = PENDING_BYTES_MAX / PENDING_BYTES_PER_PEER_MAX;
        let length = length(PENDING_BYTES_PER_PEER_MAX, 8);
        for peer in 0..full {
            let peer = AgentId::new(10 + u32::try_from(peer).expect("a few"));
            (0..8).for_each(|_| pending.push(peer, datagram(0, 0, length, 1_000), at(0)));
        }
        assert_eq!((pending.bytes, pending.overflowed), (PENDING_BYTES_MAX, 0));
        for number in 0..20_u8 {
            pending.push(OTHER, datagram(1, number, 1, 1_000), at(0));
        }
        assert!(pending.bytes <= PENDING_BYTES_MAX);
        assert_eq!(pending.overflowed, 1, "one of a large backlog makes room for many small ones");
        assert_eq!(pending.remove_mapping(OTHER, MappingId(1)).len(), 20);
    }

    #[test]
    fn stale_datagrams_make_room_before_others_and_leave_without_a_new_one() {
        let mut pending = PendingDatagrams::default();
        let length = length(PENDING_BYTES_PER_PEER_MAX, 2);
        pending.push(PEER, datagram(0, 0, length, 100), at(0));
        pending.push(PEER, datagram(0, 1, length, 900), at(0));
        pending.push(PEER, datagram(1, 2, length, 500), at(100));
        assert_eq!((pending.stale, pending.overflowed), (1, 0));
        pending.expire(at(499));
        assert_eq!(pending.stale, 1);
        pending.expire(at(500));
        assert_eq!((pending.stale, pending.remove_mapping(PEER, MappingId(0)).len()), (2, 1));
        assert_eq!((pending.bytes, pending.peers.len()), (0, 0));
    }
}
