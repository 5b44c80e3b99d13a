//! How often others' packets do not suffice to restore those of a dark path.
//!
//! As long as they do, a path that is dark costs relays nothing but its repairs. Where they do not (several paths are dark, receivers
//! have given what they consented to, a flow has nobody to be coded with), its packets are better carried whole.

use byway_units::Time;
use byway_wire::SequenceNumber;

use super::Egress;
use super::flow::FlowSlot;
use super::rounds::RoundSlot;
use crate::limits::{SHORT_ROUNDS_MIN, SHORTFALL_INVERSE, SHORTFALL_WINDOW};

/// The packets of one silence that were to be restored with others' help, and those of them for which that was too little.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shortfall {
    tried: u8,
    short: u8,
}

impl Shortfall {
    /// Others are asked for help with a packet.
    const fn try_one(&mut self) {
        if self.tried == SHORTFALL_WINDOW {
            self.tried /= 2;
            self.short /= 2;
        }
        self.tried += 1;
    }

    /// Their help does not suffice for one that was tried.
    const fn fall_short(&mut self) {
        self.short = self.short.saturating_add(1);
    }

    /// Whether that is so too often for the others to be relied on.
    pub(crate) const fn is_large(self) -> bool {
        self.short >= SHORT_ROUNDS_MIN && self.short.saturating_mul(SHORTFALL_INVERSE) >= self.tried
    }
}

impl Egress {
    /// Others are asked for help with a packet, if its path is dark.
    pub(super) fn note_try(&mut self, slot: FlowSlot, sequence: SequenceNumber) {
        if let Some(shortfall) = self.shortfall_of(slot, sequence) {
            shortfall.try_one();
        }
    }

    /// Nobody can be asked for help with a packet.
    pub(super) fn note_alone(&mut self, slot: FlowSlot, sequence: SequenceNumber) {
        if let Some(shortfall) = self.shortfall_of(slot, sequence) {
            shortfall.try_one();
            shortfall.fall_short();
        }
    }

    /// A round lacks packets that nobody else restores; it counts once, for each dark path that takes part in it.
    pub(super) fn note_shortfall(&mut self, round: RoundSlot, now: Time) {
        let missed = self.still_missed(round, now);
        let state = self.rounds.get_mut(round);
        if core::mem::replace(&mut state.falls_short, true) {
            return;
        }
        for place in missed.iter() {
            let entry = self.rounds.get(round).entries[place];
            let shortfall = entry.flow.and_then(|slot| self.shortfall_of(slot, entry.sequence));
            if let Some(shortfall) = shortfall {
                shortfall.fall_short();
            }
        }
    }

    fn shortfall_of(&mut self, slot: FlowSlot, sequence: SequenceNumber) -> Option<&mut Shortfall> {
        let open = self.flow_mut(slot)?.active_mut()?.open.as_mut()?;
        open.covers(sequence).then_some(&mut open.shortfall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_packet_in_sixteen_is_too_many() {
        let mut shortfall = Shortfall::default();
        for packet in 1..=600_u32 {
            shortfall.try_one();
            if packet.is_multiple_of(20) {
                shortfall.fall_short();
            }
            assert!(!shortfall.is_large(), "after {packet}");
        }
        let mut shortfall = Shortfall::default();
        for packet in 1..=600_u32 {
            shortfall.try_one();
            if packet.is_multiple_of(8) {
                shortfall.fall_short();
            }
            assert_eq!(shortfall.is_large(), packet >= 16, "after {packet}");
        }
    }

    #[test]
    fn a_shortfall_that_ended_is_forgotten() {
        let mut shortfall = Shortfall::default();
        for _ in 0..10 {
            shortfall.try_one();
            shortfall.fall_short();
        }
        assert!(shortfall.is_large());
        (0..300).for_each(|_| shortfall.try_one());
        assert!(!shortfall.is_large());
    }
}
