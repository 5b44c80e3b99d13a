//! How often others' packets do not suffice to restore those of a dark path.
//!
//! As long as they do, a path that is dark costs relays nothing but its repairs. Where they do not (several paths are dark, receivers
//! have given what they consented to, a flow has nobody to be coded with), its packets are better carried whole.

use byway_units::Time;
use byway_wire::SequenceNumber;

use super::flow::FlowSlot;
use super::missing::MissingPacket;
use super::rounds::RoundSlot;
use super::{Egress, Entry};
use crate::limits::{SHORT_PACKETS_MIN, SHORT_PACKETS_OF_OTHERS, SHORTFALL_INVERSE, SHORTFALL_WINDOW};

/// The packets of one silence for which it is known whether repair packets and others' packets sufficed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shortfall {
    settled: u16,
    short: u16,
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
        self.short = self.short.saturating_add(!is_restored as u16);
    }

    /// Counts packets of other flows that are not restored as this one takes their repair packets.
    fn count_others(&mut self, packets: usize) {
        let packets = u16::try_from(packets).unwrap_or(u16::MAX);
        self.short = self.short.saturating_add(packets.saturating_mul(SHORT_PACKETS_OF_OTHERS));
    }

    /// Whether they do not suffice so often that they are not to be relied on.
    pub(super) const fn is_large(self) -> bool {
        self.short >= SHORT_PACKETS_MIN && self.short as u32 * SHORTFALL_INVERSE >= self.settled as u32
    }
}

impl Egress {
    /// Counts a packet that is restored, if its path is dark: as short, where it will be too late.
    pub(super) fn settle_restored(&mut self, slot: FlowSlot, sequence: SequenceNumber, now: Time) {
        let Some(flow) = self.flow_mut(slot) else {
            return;
        };
        let there_at = now + flow.round_trip / 2;
        if let Some((open, packet)) = flow.active_mut().and_then(|active| active.in_dark(sequence)) {
            let is_in_time = packet.until > there_at;
            open.shortfall.settle(packet, is_in_time);
        }
    }

    /// Counts the packets of dark paths that are missing in a round which lacks some that nobody else restores.
    pub(super) fn settle_short(&mut self, round: RoundSlot, now: Time) {
        let state = self.rounds.get(round);
        if state.gone_or_late() <= self.repairs_due(state.batch, now) {
            return;
        }
        let missed = self.still_missed(round, now);
        let of_dark_paths = missed.only(|place| self.is_in_dark(self.rounds.get(round).entries[place]));
        let others = missed.count() - of_dark_paths.count();
        for place in of_dark_paths.iter() {
            let Entry { flow: Some(slot), sequence, .. } = self.rounds.get(round).entries[place] else {
                continue;
            };
            let active = self.flow_mut(slot).and_then(|flow| flow.active_mut());
            if let Some((open, packet)) = active.and_then(|active| active.in_dark(sequence))
                && !packet.is_settled
            {
                open.shortfall.settle(packet, false);
                open.shortfall.count_others(others);
            }
        }
    }

    fn is_in_dark(&self, entry: Entry) -> bool {
        let open = entry.flow.and_then(|slot| self.flow(slot)?.active()?.open);
        open.is_some_and(|open| open.covers(entry.sequence))
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
        for packets in [300, 400, 900] {
            assert!(!count(&mut Shortfall::default(), packets, 20), "{packets}");
            assert!(count(&mut Shortfall::default(), packets, 10), "{packets}");
        }
    }

    #[test]
    fn a_burst_is_chance() {
        assert!(!count(&mut Shortfall::default(), 7, 1));
        assert!(count(&mut Shortfall::default(), 8, 1));
    }

    #[test]
    fn what_others_lose_by_it_weighs_more() {
        let mut shortfall = Shortfall::default();
        assert!(!count(&mut shortfall, 200, 40));
        shortfall.count_others(1);
        assert!(!shortfall.is_large());
        shortfall.count_others(2);
        assert!(shortfall.is_large());
    }

    #[test]
    fn a_shortfall_that_ended_is_forgotten() {
        let mut shortfall = Shortfall::default();
        assert!(count(&mut shortfall, 100, 1));
        assert!(!count(&mut shortfall, 2_000, u32::MAX));
    }
}
