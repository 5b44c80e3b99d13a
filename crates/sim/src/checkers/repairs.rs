//! Statistics of repairs: the share of lost packets that were repaired, and the repair times.

use alloc::collections::BTreeMap;
use core::fmt::Debug;

use byway_units::{Duration, Time};
use thiserror::Error;

use crate::checkers::Sample;

/// Times of a packet, and whether its direct path lost it.
#[derive(Clone, Copy, Debug)]
struct PacketRecord {
    sent: Time,
    /// Expected arrival of the direct copy.
    due: Time,
    is_lost: bool,
    delivered: Option<Time>,
    duplicates: u64,
}

impl PacketRecord {
    /// Returns the time from the expected arrival of the direct copy to the delivery, zero if the
    /// delivery was earlier.
    fn repair_time(&self) -> Option<Duration> {
        self.delivered.map(|delivered| delivered.saturating_since(self.due))
    }

    fn is_late(&self, deadline: Duration) -> bool {
        self.delivered.is_some_and(|delivered| delivered - self.sent > deadline)
    }
}

/// Inconsistent use of [`Repairs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RepairError<K: Debug> {
    /// Two packets were sent with one identifier.
    #[error("packet {key:?} was sent at {first} and again at {again}: give each a name of its own")]
    SentTwice {
        /// Identifier of both packets.
        key: K,
        /// Time of the first sending.
        first: Time,
        /// Time of the second sending.
        again: Time,
    },
    /// The caller reports a loss or delivery of a packet that nobody sent.
    #[error("packet {key:?} was lost or delivered, but never sent")]
    NeverSent {
        /// Identifier of the packet.
        key: K,
    },
}

/// Outcomes of all packets. A packet is *late* if its delivery is after its deadline, and a late
/// packet counts as lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairSummary {
    /// Packets that were sent.
    pub sent: u64,
    /// Packets that the direct path lost, whether repaired or not.
    pub lost: u64,
    /// Packets that the direct path lost and a repair delivered before their deadline.
    pub repaired: u64,
    /// Repaired packets whose repair took at most the time limit passed to [`Repairs::summary`].
    pub repaired_within: u64,
    /// Packets delivered after their deadline, whether lost on the direct path or not.
    pub late: u64,
    /// Packets that were never delivered.
    pub missing: u64,
    /// Deliveries beyond the first of each packet.
    pub duplicates: u64,
    /// Repair times of the repaired packets, each from the expected arrival of the direct copy to
    /// the delivery.
    pub repair_times: Sample<Duration>,
}

/// Ledger of losses and repairs. `K` identifies packets, for instance by flow and sequence number.
///
/// The world's log reports the losses of the direct path: an [`Observer`](crate::Observer) of the
/// direct link calls [`on_lost`](Self::on_lost).
#[derive(Clone, Debug)]
pub struct Repairs<K> {
    packets: BTreeMap<K, PacketRecord>,
}

impl<K> Default for Repairs<K> {
    fn default() -> Self {
        Self { packets: BTreeMap::new() }
    }
}

impl<K: Copy + Ord + Debug> Repairs<K> {
    /// Records that a packet is sent, on a direct path with this delay.
    ///
    /// # Errors
    /// If a packet with this identifier was sent before.
    pub fn on_sent(&mut self, key: K, now: Time, direct_delay: Duration) -> Result<(), RepairError<K>> {
        let packet = PacketRecord {
            sent: now,
            due: now + direct_delay,
            is_lost: false,
            delivered: None,
            duplicates: 0,
        };
        match self.packets.insert(key, packet) {
            Some(before) => Err(RepairError::SentTwice { key, first: before.sent, again: now }),
            None => Ok(()),
        }
    }

    /// Records that the direct path loses a packet.
    ///
    /// # Errors
    /// If nobody sent it.
    pub fn on_lost(&mut self, key: K) -> Result<(), RepairError<K>> {
        self.packet(key)?.is_lost = true;
        Ok(())
    }

    /// Records a delivery to the application, over any path.
    ///
    /// # Errors
    /// If nobody sent the packet.
    pub fn on_delivered(&mut self, key: K, now: Time) -> Result<(), RepairError<K>> {
        let packet = self.packet(key)?;
        match packet.delivered {
            Some(_) => packet.duplicates += 1,
            None => packet.delivered = Some(now),
        }
        Ok(())
    }

    /// Returns the time from the expected arrival of a packet's direct copy to its delivery. `None`
    /// if it was not sent, or not yet delivered.
    #[must_use]
    pub fn lateness(&self, key: K) -> Option<Duration> {
        self.packets.get(&key).and_then(PacketRecord::repair_time)
    }

    /// Returns the packets that were never delivered, in order.
    pub fn missing(&self) -> impl Iterator<Item = K> + '_ {
        self.packets.iter().filter(|(_, packet)| packet.delivered.is_none()).map(|(key, _)| *key)
    }

    fn packet(&mut self, key: K) -> Result<&mut PacketRecord, RepairError<K>> {
        self.packets.get_mut(&key).ok_or(RepairError::NeverSent { key })
    }

    /// Returns the outcomes of all packets. A packet is late more than `deadline` after its
    /// sending. Repairs that took at most `within` are counted separately.
    #[must_use]
    pub fn summary(&self, deadline: Duration, within: Duration) -> RepairSummary {
        let count = |is: &dyn Fn(&PacketRecord) -> bool| {
            self.packets.values().filter(|packet| is(packet)).count() as u64
        };
        let lost = self.packets.values().filter(|packet| packet.is_lost);
        let repaired = lost.filter(|packet| !packet.is_late(deadline));
        let repair_times: Sample<_> = repaired.filter_map(PacketRecord::repair_time).collect();
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

    /// Packet `n` is sent at `n` ms; then these are lost, and these delivered, at these times in ms
    /// after the sending.
    fn repairs(sent: u64, lost: &[u64], delivered: &[(u64, u64)]) -> Repairs<u64> {
        let mut repairs = Repairs::default();
        for key in 0..sent {
            assert_eq!(repairs.on_sent(key, after(key), DIRECT), Ok(()));
        }
        for &key in lost {
            assert_eq!(repairs.on_lost(key), Ok(()));
        }
        for &(key, millis) in delivered {
            assert_eq!(repairs.on_delivered(key, after(key + millis)), Ok(()));
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
        assert_eq!(repairs.on_lost(7), Err(RepairError::NeverSent { key: 7 }));
        assert_eq!(repairs.on_delivered(7, after(0)), Err(RepairError::NeverSent { key: 7 }));
        let error = RepairError::SentTwice { key: 0, first: after(0), again: after(9) };
        assert_eq!(repairs.on_sent(0, after(9), DIRECT), Err(error));
    }
}
