//! What a receiver has asked for, and what became of it.

use alloc::collections::VecDeque;

use byway_units::{Duration, Time};
use byway_wire::SequenceNumber;

use crate::limits::{MISSING_PACKETS_ALWAYS, MISSING_PACKETS_MAX};

/// What is being done about a missing packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing can be done yet: no repair packet covers it.
    Waiting,
    /// The receiver was asked whether it still misses the packet.
    Confirming,
    /// The flow's own repair packets were sent.
    InStream,
    /// Other receivers were asked.
    Cooperating,
    /// The packet was sent.
    Given,
}

/// A packet that the receiver asked for.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each of them is true of some stages of a packet, and none follows from another"
)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MissingPacket {
    pub(crate) sequence: SequenceNumber,
    pub(crate) stage: Stage,
    /// After this a repair is of no use.
    pub(crate) until: Time,
    /// Whether the receiver saw a later packet or said so twice; a timer alone proves nothing.
    pub(crate) certain: bool,
    /// Since when the stage is what it is.
    pub(crate) since: Time,
    /// Whether it was repaired since it was asked for.
    pub(crate) is_repaired: bool,
    /// Whether the ingress relay was asked for it.
    pub(crate) is_fetched: bool,
    /// Whether it is counted as restored by others or not, if its path is dark.
    pub(crate) is_settled: bool,
}

impl MissingPacket {
    /// Notes what is being done from now on.
    pub(crate) const fn enter(&mut self, stage: Stage, now: Time) {
        self.stage = stage;
        self.since = now;
    }

    /// Whether a repair that was sent should have arrived: a request that crossed it says nothing.
    pub(crate) fn is_overdue(&self, round_trip: Duration, now: Time) -> bool {
        self.since + round_trip <= now
    }
}

/// The packets of one flow that its receiver asked for, in rising order.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    packets: VecDeque<MissingPacket>,
}

impl Missing {
    pub(crate) fn get(&self, sequence: SequenceNumber) -> Option<&MissingPacket> {
        self.position(sequence).ok().map(|position| &self.packets[position])
    }

    pub(crate) fn get_mut(&mut self, sequence: SequenceNumber) -> Option<&mut MissingPacket> {
        self.position(sequence).ok().map(|position| &mut self.packets[position])
    }

    /// The first packet from this number on.
    pub(crate) fn next_from(&self, sequence: SequenceNumber) -> Option<SequenceNumber> {
        let place = self.packets.partition_point(|packet| packet.sequence < sequence);
        self.packets.get(place).map(|packet| packet.sequence)
    }

    /// The account of this packet, opened if there is none; `None` if there is no room.
    pub(crate) fn ask(
        &mut self,
        sequence: SequenceNumber,
        until: Time,
        certain: bool,
    ) -> Option<&mut MissingPacket> {
        let position = match self.position(sequence) {
            Ok(position) => {
                let packet = &mut self.packets[position];
                packet.until = packet.until.max(until);
                packet.certain |= certain;
                position
            }
            Err(_) if self.packets.len() == MISSING_PACKETS_MAX => return None,
            Err(position) => {
                let packet = MissingPacket {
                    sequence,
                    stage: Stage::Waiting,
                    until,
                    certain,
                    since: Time::START,
                    is_repaired: false,
                    is_fetched: false,
                    is_settled: false,
                };
                self.packets.insert(position, packet);
                position
            }
        };
        self.packets.get_mut(position)
    }

    /// The receiver saw a later packet than these, from the first to before the end: nobody has to ask whether they are missing.
    pub(crate) fn make_certain(&mut self, first: SequenceNumber, end: SequenceNumber, now: Time) {
        let start = self.packets.partition_point(|packet| packet.sequence < first);
        for packet in self.packets.range_mut(start..).take_while(|packet| packet.sequence < end) {
            packet.certain = true;
            if packet.stage == Stage::Confirming {
                packet.enter(Stage::Waiting, now);
            }
        }
    }

    /// The packets among these numbers, in rising order.
    pub(crate) fn within(
        &self,
        first: SequenceNumber,
        last: SequenceNumber,
    ) -> impl Iterator<Item = &MissingPacket> {
        let start = self.packets.partition_point(|packet| packet.sequence < first);
        self.packets.range(start..).take_while(move |packet| packet.sequence <= last)
    }

    /// Forgets what can be of no use any more, and says which of that never got a repair.
    pub(crate) fn expire(&mut self, now: Time, mut unrepaired: impl FnMut(&mut MissingPacket)) {
        self.packets.retain_mut(|packet| {
            let keep = packet.until > now;
            if !keep && !packet.is_repaired {
                unrepaired(packet);
            }
            keep
        });
        if self.packets.is_empty() {
            self.packets = VecDeque::new();
        }
    }

    /// When the next packet can be of no use any more.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        self.packets.iter().map(|packet| packet.until).min()
    }

    /// Forgets what only the open end asked for and nothing covers yet, from this packet on.
    pub(crate) fn forget_waiting(&mut self, from: SequenceNumber) {
        self.packets.retain(|packet| {
            packet.sequence < from || !matches!(packet.stage, Stage::Waiting | Stage::Confirming)
        });
    }

    pub(crate) fn count(&self) -> usize {
        self.packets.len()
    }

    /// How much memory they take, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.packets.capacity() * size_of::<MissingPacket>()) as u64
    }

    /// Whether another packet would take more memory than every flow may have.
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
