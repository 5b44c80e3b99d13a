//! Length of the longest recent low-delay packet (`S_D` of the paper).

use crate::limits::PACKET_STEP;

/// Length of the longest low-delay packet of three intervals and of the queue, rounded up to a
/// step. The step limits the number of updates, each of which scans the queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MaxPacketSize {
    bytes: u32,
    /// Lengths of the longest packets of this interval and of the two before: a flow is active for
    /// about as long.
    intervals: [u32; 3],
}

impl MaxPacketSize {
    /// Returns the length in bytes, but at most `most`, the longest packet of the link; zero
    /// without packets.
    pub(crate) fn bytes(&self, most: u64) -> u64 {
        u64::from(self.bytes).min(most)
    }

    /// Records a packet of the low-delay class; returns true if it is longer than all others.
    #[inline]
    pub(crate) const fn record(&mut self, bytes: u32) -> bool {
        if bytes <= self.intervals[0] {
            return false;
        }
        self.intervals[0] = rounded(bytes);
        let is_longest = self.intervals[0] > self.bytes;
        if is_longest {
            self.bytes = self.intervals[0];
        }
        is_longest
    }

    /// Forgets the lengths of sent packets, because the link was idle for longer than flows are
    /// active.
    pub(crate) const fn reset(&mut self) {
        self.intervals = [0; 3];
    }

    /// Ends an interval, and forgets the packets of the oldest one. Calls `waiting`, which returns
    /// the length of the longest queued packet, only if that can matter.
    pub(crate) fn end_interval(&mut self, waiting: impl FnOnce() -> u32) {
        let [now, before, first] = self.intervals;
        let recent = now.max(before).max(first);
        self.intervals = [0, now, before];
        if recent < self.bytes {
            self.bytes = recent.max(rounded(waiting()));
        }
    }
}

const fn rounded(bytes: u32) -> u32 {
    bytes.next_multiple_of(PACKET_STEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_forgotten_when_nothing_so_long_came_or_waits() {
        let mut longest = MaxPacketSize::default();
        assert!(longest.record(195) && !longest.record(200) && longest.record(1_500) && !longest.record(300));
        assert_eq!((longest.bytes(9_000), longest.bytes(1_500)), (1_504, 1_500));
        for _ in 0..3 {
            longest.record(200);
            longest.end_interval(|| panic!("it came within three intervals"));
            assert_eq!(longest.bytes(9_000), 1_504);
        }
        longest.record(200);
        longest.end_interval(|| 700);
        assert_eq!(longest.bytes(9_000), 704, "one that waits");
        longest.reset();
        longest.end_interval(|| 0);
        assert_eq!(longest.bytes(9_000), 0);
    }

    #[test]
    fn packets_that_grow_byte_by_byte_are_looked_at_now_and_then() {
        let mut longest = MaxPacketSize::default();
        assert_eq!((40..=1_500).filter(|bytes| longest.record(*bytes)).count(), 184);
    }
}
