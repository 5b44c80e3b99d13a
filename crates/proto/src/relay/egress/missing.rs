//! Missing packets of a flow, as reported by its receiver, and the state of their repair.

use alloc::collections::VecDeque;

use byway_units::{Duration, Time};
use byway_wire::SequenceNumber;

use super::counted_losses::{CountedLosses, FlowLossCount};
use crate::limits::{MISSING_PACKETS_ALWAYS, MISSING_PACKETS_MAX};

/// State of the repair of a missing packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No repair is under way: no repair packet covers the packet yet, or the NACK is new.
    Waiting,
    /// The relay has sent a confirm, which asks if the receiver still misses the packet.
    Confirming,
    /// The relay has sent the receiver repair packets of the flow's own block.
    InStream,
    /// The relay has requested other packets of a batch from their receivers.
    Cooperating,
    /// The relay has sent the packet itself to the receiver.
    RepairSent,
}

/// A packet that its receiver reported missing by a NACK.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each of them is true of some stages of a packet, and none follows from another"
)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MissingPacket {
    pub(crate) sequence: SequenceNumber,
    pub(crate) stage: Stage,
    /// Time after which a repair is useless.
    pub(crate) deadline: Time,
    /// True if the receiver has received a later packet, or has repeated its NACK. A timeout alone
    /// proves no loss.
    pub(crate) certain: bool,
    /// Time at which the packet entered its stage.
    pub(crate) since: Time,
    /// True if the relay has sent this packet or repair packets for it since the NACK.
    pub(crate) is_repaired: bool,
    /// True if the relay fetches the packet's copy from the ingress relay.
    pub(crate) is_fetched: bool,
    /// True if the decode failure rate of an outage already includes it.
    pub(crate) is_counted: bool,
}

impl MissingPacket {
    /// Enters a stage, and records the time.
    pub(crate) const fn enter_stage(&mut self, stage: Stage, now: Time) {
        self.stage = stage;
        self.since = now;
    }

    /// True if a repair that the relay sent should have reached the receiver, so that a new NACK
    /// means its loss. An earlier NACK may have crossed the repair.
    pub(crate) fn is_overdue(&self, round_trip: Duration, now: Time) -> bool {
        self.since + round_trip <= now
    }
}

/// Packets of one flow that its receiver requested, in rising order.
#[derive(Debug, Default)]
pub(crate) struct MissingPackets {
    packets: VecDeque<MissingPacket>,
    /// Arrival time of the latest repair packets of the flow.
    pub(super) covered_at: Time,
    /// Packets whose loss was counted for a report.
    pub(super) counted: CountedLosses,
    /// Losses for the next report to the ingress relay.
    pub(super) unreported: Option<FlowLossCount>,
}

impl MissingPackets {
    pub(crate) fn get(&self, sequence: SequenceNumber) -> Option<&MissingPacket> {
        self.position(sequence).ok().map(|position| &self.packets[position])
    }

    pub(crate) fn get_mut(&mut self, sequence: SequenceNumber) -> Option<&mut MissingPacket> {
        self.position(sequence).ok().map(|position| &mut self.packets[position])
    }

    /// Returns the lowest sequence number of a missing packet that is at least this one.
    pub(crate) fn next_from(&self, sequence: SequenceNumber) -> Option<SequenceNumber> {
        let position = self.packets.partition_point(|packet| packet.sequence < sequence);
        self.packets.get(position).map(|packet| packet.sequence)
    }

    /// Inserts a missing packet, or extends the deadline of a known one, and returns its entry.
    /// Returns `None` if [`MISSING_PACKETS_MAX`] packets are missing.
    pub(crate) fn insert_or_extend(
        &mut self,
        sequence: SequenceNumber,
        until: Time,
        certain: bool,
    ) -> Option<&mut MissingPacket> {
        let position = match self.position(sequence) {
            Ok(position) => {
                let packet = &mut self.packets[position];
                packet.deadline = packet.deadline.max(until);
                packet.certain |= certain;
                position
            }
            Err(_) if self.packets.len() == MISSING_PACKETS_MAX => return None,
            Err(position) => {
                let packet = MissingPacket {
                    sequence,
                    stage: Stage::Waiting,
                    deadline: until,
                    certain,
                    since: Time::START,
                    is_repaired: false,
                    is_fetched: false,
                    is_counted: false,
                };
                self.packets.insert(position, packet);
                position
            }
        };
        self.packets.get_mut(position)
    }

    /// Marks packets from `first` to before `end` as certainly lost, because the receiver has
    /// received a later packet. They need no confirm.
    pub(crate) fn confirm_lost(&mut self, first: SequenceNumber, end: SequenceNumber, now: Time) {
        let start = self.packets.partition_point(|packet| packet.sequence < first);
        for packet in self.packets.range_mut(start..).take_while(|packet| packet.sequence < end) {
            packet.certain = true;
            if packet.stage == Stage::Confirming {
                packet.enter_stage(Stage::Waiting, now);
            }
        }
    }

    /// Returns the missing packets without a repair under way, in rising order.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &MissingPacket> {
        self.packets.iter().filter(|missing| matches!(missing.stage, Stage::Waiting | Stage::Cooperating))
    }

    /// Returns the missing packets within this range, in rising order.
    pub(crate) fn within(
        &self,
        first: SequenceNumber,
        last: SequenceNumber,
    ) -> impl Iterator<Item = &MissingPacket> {
        let start = self.packets.partition_point(|packet| packet.sequence < first);
        self.packets.range(start..).take_while(move |packet| packet.sequence <= last)
    }

    /// Removes packets past their deadline, and calls `unrepaired` for those without a repair.
    pub(crate) fn expire(&mut self, now: Time, mut unrepaired: impl FnMut(&mut MissingPacket)) {
        self.packets.retain_mut(|packet| {
            let keep = packet.deadline > now;
            if !keep && !packet.is_repaired {
                unrepaired(packet);
            }
            keep
        });
        if self.packets.is_empty() {
            self.packets = VecDeque::new();
        }
    }

    /// Returns the earliest deadline of a missing packet.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        self.packets.iter().map(|packet| packet.deadline).min()
    }

    /// Removes missing packets from `from` on for which no repair is under way, because the
    /// receiver's ACK shows that they arrived.
    pub(crate) fn remove_waiting(&mut self, from: SequenceNumber) {
        self.packets.retain(|packet| {
            packet.sequence < from || !matches!(packet.stage, Stage::Waiting | Stage::Confirming)
        });
    }

    pub(crate) fn count(&self) -> usize {
        self.packets.len()
    }

    /// Returns the memory use of the table, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.packets.capacity() * size_of::<MissingPacket>()) as u64
    }

    /// True if another packet would need more memory than every flow may have.
    pub(crate) fn is_full(&self) -> bool {
        self.packets.len() >= self.packets.capacity().max(MISSING_PACKETS_ALWAYS)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    fn position(&self, sequence: SequenceNumber) -> Result<usize, usize> {
        self.packets.binary_search_by_key(&sequence, |packet| packet.sequence)
    }
}
