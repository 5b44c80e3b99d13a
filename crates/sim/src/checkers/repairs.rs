//! How much of what the direct path lost was repaired, and how fast.

use alloc::collections::BTreeMap;
use core::fmt::Debug;

use byway_units::{Duration, Time};
use thiserror::Error;

use crate::checkers::Sample;

/// What is known about a packet.
#[derive(Clone, Copy, Debug)]
struct Packet {
    sent: Time,
    /// When the direct copy was to arrive.
    due: Time,
    is_lost: bool,
    delivered: Option<Time>,
    duplicates: u64,
}

impl Packet {
    /// From the moment at which the direct copy was due to the delivery; nothing if that came sooner.
    fn repair_time(&self) -> Option<Duration> {
        self.delivered.map(|delivered| delivered.saturating_since(self.due))
    }

    fn is_late(&self, deadline: Duration) -> bool {
        self.delivered.is_some_and(|delivered| delivered - self.sent > deadline)
    }
}

/// What cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RepairError<K: Debug> {
    /// Two packets with one name.
    #[error("packet {key:?} was sent at {first} and again at {again}: give each a name of its own")]
    SentTwice {
        /// The packet.
        key: K,
        /// When it was sent first.
        first: Time,
        /// When it was sent again.
        again: Time,
    },
    /// A packet that nobody sent was lost or delivered.
    #[error("packet {key:?} was lost or delivered, but never sent")]
    NeverSent {
        /// The packet.
        key: K,
    },
}

/// What became of all packets. A packet is *late* if it comes after its deadline, and late is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairSummary {
    /// Packets sent.
    pub sent: u64,
    /// Of these, lost on the direct path.
    pub lost: u64,
    /// Of the lost, delivered in time.
    pub repaired: u64,
    /// Of the repaired, those whose repair took at most the time that was asked for.
    pub repaired_within: u64,
    /// Of all sent, delivered after the deadline.
    pub late: u64,
    /// Of all sent, never delivered.
    pub missing: u64,
    /// Deliveries beyond the first of each packet.
    pub duplicates: u64,
    /// How long the repairs took that came in time, from the moment the direct copy was due.
    pub repair_times: Sample<Duration>,
}

/// Keeps the books about repairs. `K` names packets, for instance by flow and sequence number.
///
/// The world's log tells what the direct path lost: an [`Observer`](crate::Observer) of the direct link calls
/// [`lost`](Self::lost).
#[derive(Clone, Debug)]
pub struct Repairs<K> {
    packets: BTreeMap<K, Packet>,
}

impl<K> Default for Repairs<K> {
    fn default() -> Self {
        Self { packets: BTreeMap::new() }
    }
}

impl<K: Copy + Ord + Debug> Repairs<K> {
    /// A packet is sent, on a direct path of this delay.
    ///
    /// # Errors
    /// If one of this name was sent before.
    pub fn sent(&mut self, key: K, now: Time, direct_delay: Duration) -> Result<(), RepairError<K>> {
        let packet =
            Packet { sent: now, due: now + direct_delay, is_lost: false, delivered: None, duplicates: 0 };
        match self.packets.insert(key, packet) {
            Some(before) => Err(RepairError::SentTwice { key, first: before.sent, again: now }),
            None => Ok(()),
        }
    }

    /// The direct path loses a packet.
    ///
    /// # Errors
    /// If it was never sent.
    pub fn lost(&mut self, key: K) -> Result<(), RepairError<K>> {
        self.packet(key)?.is_lost = true;
        Ok(())
    }

    /// The application gets a packet, by whatever way.
    ///
    /// # Errors
    /// If it was never sent.
    pub fn delivered(&mut self, key: K, now: Time) -> Result<(), RepairError<K>> {
        let packet = self.packet(key)?;
        match packet.delivered {
            Some(_) => packet.duplicates += 1,
            None => packet.delivered = Some(now),
        }
        Ok(())
    }

    /// How long after its direct copy was due a packet was delivered.
    #[must_use]
    pub fn lateness(&self, key: K) -> Option<Duration> {
        self.packets.get(&key).and_then(Packet::repair_time)
    }

    /// The packets that were never delivered, in order.
    pub fn missing(&self) -> impl Iterator<Item = K> + '_ {
        self.packets.iter().filter(|(_, packet)| packet.delivered.is_none()).map(|(key, _)| *key)
    }

    fn packet(&mut self, key: K) -> Result<&mut Packet, RepairError<K>> {
        self.packets.get_mut(&key).ok_or(RepairError::NeverSent { key })
    }

    /// What became of all packets, if they are late `deadline` after they were sent, and those are counted apart
    /// whose repair took at most `within`.
    #[must_use]
    pub fn summary(&self, deadline: Duration, within: Duration) -> RepairSummary {
        let count =
            |is: &dyn Fn(&Packet) -> bool| self.packets.values().filter(|packet| is(packet)).count() as u64;
        let lost = self.packets.values().filter(|packet| packet.is_lost);
        let repaired = lost.filter(|packet| !packet.is_late(deadline));
        let repair_times: Sample<_> = repaired.filter_map(Packet::repair_time).collect();
        RepairSummary {
            sent: self.packets.len() as u64,
            lost: count(&|packet| packet.is_lost),
            repaired: repair_times.values().len() as u64,
            repaired_within: repair_times.values().partition_point(|&time| time <= within) as u64,
            late: count(&|packet| packet.is_late(deadline)),
            missing: count(&|packet| packet.delivered.is_none()),
            duplicates: self.packets.values().map(|packet| packet.duplicates).sum(),
            repair_times,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECT: Duration = Duration::from_millis(50);
    const DEADLINE: Duration = Duration::from_millis(150);
    const WITHIN: Duration = Duration::from_millis(30);

    fn after(millis: u64) -> Time {
        Time::START + Duration::from_millis(millis)
    }

    /// Packet `n` is sent at `n` ms; then these are lost, and these delivered, so many ms after the sending.
    fn repairs(sent: u64, lost: &[u64], delivered: &[(u64, u64)]) -> Repairs<u64> {
        let mut repairs = Repairs::default();
        for key in 0..sent {
            assert_eq!(repairs.sent(key, after(key), DIRECT), Ok(()));
        }
        for &key in lost {
            assert_eq!(repairs.lost(key), Ok(()));
        }
        for &(key, millis) in delivered {
            assert_eq!(repairs.delivered(key, after(key + millis)), Ok(()));
        }
        repairs
    }

    #[test]
    fn each_packet_is_counted_where_it_belongs() {
        let lost = [1, 2, 3, 4, 5];
        let delivered = [
            (0, 50),  // directly
            (1, 60),  // repaired after 10 ms
            (2, 80),  // after 30 ms: just within
            (3, 81),  // after 31 ms
            (4, 151), // late
            (6, 200), // not lost, but late all the same
            (0, 55),  // a duplicate
        ];
        let summary = repairs(8, &lost, &delivered).summary(DEADLINE, WITHIN);
        let repair_times = [10, 30, 31].into_iter().map(Duration::from_millis).collect();
        let expected = RepairSummary {
            sent: 8,
            lost: 5,
            repaired: 3,
            repaired_within: 2,
            late: 2,
            missing: 2,
            duplicates: 1,
            repair_times,
        };
        assert_eq!(summary, expected);
    }

    #[test]
    fn a_repair_before_the_direct_copy_was_due_takes_no_time() {
        let summary = repairs(1, &[0], &[(0, 40)]).summary(DEADLINE, WITHIN);
        assert_eq!(summary.repair_times.median(), Some(Duration::ZERO));
    }

    #[test]
    fn where_nothing_is_repaired_there_are_no_times() {
        let summary = repairs(3, &[1], &[(0, 50), (2, 50)]).summary(DEADLINE, WITHIN);
        assert_eq!((summary.lost, summary.repaired, summary.repair_times.p99()), (1, 0, None));
    }

    #[test]
    fn unknown_and_doubled_packets_are_found() {
        let mut repairs = repairs(1, &[], &[]);
        assert_eq!(repairs.lost(7), Err(RepairError::NeverSent { key: 7 }));
        assert_eq!(repairs.delivered(7, after(0)), Err(RepairError::NeverSent { key: 7 }));
        let error = RepairError::SentTwice { key: 0, first: after(0), again: after(9) };
        assert_eq!(repairs.sent(0, after(9), DIRECT), Err(error));
    }
}
