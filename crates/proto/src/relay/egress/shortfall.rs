//! How often others' packets do not suffice to restore those of a dark path.
//!
//! As long as they do, a path that is dark costs relays nothing but its repairs. Where they do not (several paths are dark, receivers
//! have given what they consented to, a flow has nobody to be coded with), its packets are better carried whole.

use byway_units::Time;
use byway_wire::SequenceNumber;

use super::Egress;
use super::flow::FlowSlot;
use super::missing::MissingPacket;
use super::rounds::RoundSlot;
use crate::limits::{SHORT_PACKETS_MIN, SHORTFALL_INVERSE, SHORTFALL_WINDOW};

/// The packets of one silence for which it is known whether repair packets and others' packets sufficed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shortfall {
    settled: u8,
    short: u8,
}

impl Shortfall {
    /// Counts a packet once: when it is restored, or when it is known that it will not be.
    pub(super) const fn settle(&mut self, packet: &mut MissingPacket, is_restored: bool) {
        if !packet.is_settled {
            packet.is_settled = true;
            self.count(is_restored);
        }
    }

    const fn count(&mut self, is_restored: bool) {
        if self.settled == SHORTFALL_WINDOW {
            self.settled /= 2;
            self.short /= 2;
        }
        self.settled += 1;
        self.short += !is_restored as u8;
    }

    /// Whether they do not suffice so often that they are not to be relied on.
    pub(super) const fn is_large(self) -> bool {
        self.short >= SHORT_PACKETS_MIN && self.short as u32 * SHORTFALL_INVERSE >= self.settled as u32
    }
}

impl Egress {
    /// Counts a packet, if its path is dark.
    pub(super) fn settle(&mut self, slot: FlowSlot, sequence: SequenceNumber, is_restored: bool) {
        let Some(active) = self.flow_mut(slot).and_then(|flow| flow.active_mut()) else {
            return;
        };
        let open = active.open.as_mut().filter(|open| open.covers(sequence));
        if let (Some(open), Some(packet)) = (open, active.missing.get_mut(sequence)) {
            open.shortfall.settle(packet, is_restored);
        }
    }

    /// Counts the packets of dark paths that are missing in a round which lacks some that nobody else restores.
    pub(super) fn settle_short(&mut self, round: RoundSlot, now: Time) {
        for place in self.still_missed(round, now).iter() {
            let entry = self.rounds.get(round).entries[place];
            if let Some(slot) = entry.flow {
                self.settle(slot, entry.sequence, false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(shortfall: &mut Shortfall, packets: u32, one_short_in: u32) -> bool {
        let mut is_large = false;
        for packet in 1..=packets {
            shortfall.count(!packet.is_multiple_of(one_short_in));
            is_large = shortfall.is_large();
        }
        is_large
    }

    #[test]
    fn one_packet_in_sixteen_is_too_many() {
        for packets in [100, 200, 300, 600] {
            assert!(!count(&mut Shortfall::default(), packets, 20), "{packets}");
            assert!(count(&mut Shortfall::default(), packets, 10), "{packets}");
        }
    }

    #[test]
    fn one_packet_is_chance() {
        assert!(!count(&mut Shortfall::default(), 1, 1));
        assert!(count(&mut Shortfall::default(), 2, 1));
    }

    #[test]
    fn a_shortfall_that_ended_is_forgotten() {
        let mut shortfall = Shortfall::default();
        assert!(count(&mut shortfall, 100, 1));
        assert!(!count(&mut shortfall, 300, u32::MAX));
    }
}
