//! How long low-delay packets are (`S_D` of the paper), as lately seen.

use crate::limits::PACKET_STEP;

/// The longest low-delay packet of three intervals, and of those that wait, rounded up to a step: each length more is looked at once, as all that waits is
/// then looked at, too.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Longest {
    bytes: u32,
    /// Of this interval and of the two before: a flow is active for about as long.
    intervals: [u32; 3],
}

impl Longest {
    /// In bytes, at most `most`, which is the longest of the link; zero where there is none.
    pub(crate) fn bytes(&self, most: u64) -> u64 {
        u64::from(self.bytes).min(most)
    }

    /// A packet came; whether it is the longest.
    #[inline]
    pub(crate) const fn note(&mut self, bytes: u32) -> bool {
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

    /// Nothing came for longer than flows are active.
    pub(crate) const fn forget(&mut self) {
        self.intervals = [0; 3];
    }

    /// An interval ends; the longest of those that wait is asked for where it may matter.
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
        let mut longest = Longest::default();
        assert!(longest.note(195) && !longest.note(200) && longest.note(1_500) && !longest.note(300));
        assert_eq!((longest.bytes(9_000), longest.bytes(1_500)), (1_504, 1_500));
        for _ in 0..3 {
            longest.note(200);
            longest.end_interval(|| panic!("it came within three intervals"));
            assert_eq!(longest.bytes(9_000), 1_504);
        }
        longest.note(200);
        longest.end_interval(|| 700);
        assert_eq!(longest.bytes(9_000), 704, "one that waits");
        longest.forget();
        longest.end_interval(|| 0);
        assert_eq!(longest.bytes(9_000), 0);
    }

    #[test]
    fn packets_that_grow_byte_by_byte_are_looked_at_now_and_then() {
        let mut longest = Longest::default();
        assert_eq!((40..=1_500).filter(|bytes| longest.note(*bytes)).count(), 184);
    }
}
