//! Losses of one flow, counted for a report.

use byway_wire::SequenceNumber;
use byway_wire::messages::LOSS_CLASSES;

use crate::parts::redundancy::LossesByBatch;

/// Packets of a flow whose loss was counted: all that NACKs named, up to the highest.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CountedLosses {
    /// Number after the highest packet that a NACK named.
    end: u64,
    /// First and last packet that was lost while the queue grew. They were not counted.
    excluded: Option<(u64, u64)>,
}

impl CountedLosses {
    /// Records a range of a NACK. Returns the part that no NACK has named before.
    pub(super) fn add(
        &mut self,
        (first, last): (SequenceNumber, SequenceNumber),
        is_excluded: bool,
    ) -> Option<(u64, u64)> {
        let (first, last) = (first.number().max(self.end), last.number());
        let new = (first <= last).then_some((first, last))?;
        self.end = last + 1;
        self.excluded = match self.excluded {
            Some((from, _)) if is_excluded => Some((from, last)),
            _ => is_excluded.then_some(new),
        };
        Some(new)
    }

    /// Excludes the packets up to this one, without it, if no NACK has named them before.
    pub(super) fn skip_to(&mut self, sequence: SequenceNumber) {
        if let Some(last) = sequence.number().checked_sub(1) {
            let first = SequenceNumber::new(self.end);
            let _ = self.add((first, SequenceNumber::new(last)), true);
        }
    }

    /// True if a NACK named the packet, and it was counted.
    pub(super) fn is_counted(self, sequence: SequenceNumber) -> bool {
        let is_excluded =
            self.excluded.is_some_and(|(first, last)| (first..=last).contains(&sequence.number()));
        sequence.number() < self.end && !is_excluded
    }
}

/// Losses of a flow that the relay has not reported yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowLossCount {
    pub(crate) losses: LossesByBatch,
    pub(crate) is_open_ended: bool,
    pub(crate) queue_grows: bool,
}

impl FlowLossCount {
    /// Counts a packet as the only loss of its batch.
    pub(super) fn add_alone(&mut self, packets: u64) {
        let packets = i16::try_from(packets).unwrap_or(i16::MAX);
        self.losses[0] = self.losses[0].saturating_add(packets);
    }

    /// Counts a packet of a batch that had `before` losses. Those move on with it.
    pub(super) fn add_to_batch(&mut self, before: u32) {
        let class = |losses: u32| (losses as usize).clamp(1, LOSS_CLASSES) - 1;
        let count = i16::try_from(before).unwrap_or(i16::MAX);
        if before > 0 {
            let left = &mut self.losses[class(before)];
            *left = left.saturating_sub(count);
        }
        let joined = &mut self.losses[class(before + 1)];
        *joined = joined.saturating_add(count.saturating_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_numbers_count_once_and_those_of_a_growing_queue_are_known() {
        let range = |first, last| (SequenceNumber::new(first), SequenceNumber::new(last));
        let mut counted = CountedLosses::default();
        assert_eq!(counted.add(range(5, 7), false), Some((5, 7)));
        assert_eq!((counted.add(range(5, 7), false), counted.add(range(6, 9), true)), (None, Some((8, 9))));
        assert_eq!(counted.add(range(12, 12), true), Some((12, 12)));
        let is_counted = [7, 8, 12, 13].map(|number| counted.is_counted(SequenceNumber::new(number)));
        assert_eq!(is_counted, [true, false, false, false]);
        counted.skip_to(SequenceNumber::new(18));
        assert_eq!(counted.add(range(14, 18), false), Some((18, 18)));
    }
}
