//! Reordering window: time for which the receiver waits before a gap counts as a loss.

use arrayvec::ArrayVec;
use byway_units::{Duration, Time};

use crate::limits::REORDERING_TIME;

/// Time for which the receiver of a flow waits before a gap counts as a loss. It grows after
/// spurious NACKs, as the reordering window of RACK does (RFC 8985, section 6.2, step 4).
///
/// RACK widens by a quarter of a round-trip time after each spurious retransmission. Here, the
/// lateness of the packet is known, and the window covers the next packet of equal lateness. The
/// wider window is in force while at least half of the latest gaps are reordering: with real
/// losses, waiting delays repairs.
#[derive(Clone, Debug)]
pub struct ReorderingWindow {
    widened: Duration,
    /// Sequence numbers of repaired packets whose source packets may still arrive, and the times at
    /// which their gaps were detected.
    repaired: ArrayVec<(u64, Time), REPAIRED_MAX>,
    /// Bit set of the latest 16 gaps: a bit is set if the source packet closed the gap, and not a
    /// repair.
    gaps: u16,
}

/// Number of repaired packets whose source packets are awaited. Overtaken source packets arrive
/// within a few packets of their repairs.
const REPAIRED_MAX: usize = 4;

/// Number of gaps closed by source packets, of the latest 16, from which on the window is wider.
const OVERTAKEN_MIN: u32 = 8;

/// Divisor of the step by which the window narrows towards the lateness of a packet. With delays of
/// 10 to 30 ms, one packet in a hundred is later than the window.
const NARROWING_PART: u64 = 64;

impl Default for ReorderingWindow {
    fn default() -> Self {
        Self::new()
    }
}

impl ReorderingWindow {
    /// Creates the window of an unknown path.
    #[must_use]
    pub const fn new() -> Self {
        Self { widened: REORDERING_TIME, repaired: ArrayVec::new_const(), gaps: 0 }
    }

    /// Returns the present window: at least [`REORDERING_TIME`].
    #[must_use]
    pub const fn window(&self) -> Duration {
        if self.gaps.count_ones() >= OVERTAKEN_MIN { self.widened } else { REORDERING_TIME }
    }

    /// True if this packet was repaired recently, and its source packet has not arrived yet.
    #[must_use]
    pub fn awaits(&self, number: u64) -> bool {
        self.repaired.iter().any(|(repaired, _)| *repaired == number)
    }

    /// Records that a packet was repaired, whose gap was detected at `noticed`.
    pub fn on_repair(&mut self, number: u64, noticed: Time) {
        if self.repaired.is_full() {
            self.repaired.remove(0);
        }
        self.repaired.push((number, noticed));
        self.gaps <<= 1;
    }

    /// Records that the source packet of a repaired packet arrives: the NACK was spurious. The
    /// window widens to cover its lateness, up to `window_max`.
    pub fn on_late_source_packet(&mut self, number: u64, window_max: Duration, now: Time) {
        if let Some(index) = self.repaired.iter().position(|(repaired, _)| *repaired == number) {
            let (_, noticed) = self.repaired.remove(index);
            // The gap counted as a loss. Any bit of a loss will do.
            self.gaps |= self.gaps.wrapping_add(1);
            self.adapt(noticed, window_max, now);
        }
    }

    /// Records that a source packet closes a gap before any repair; the gap was detected at
    /// `noticed`. The window adapts to its lateness, up to `window_max`.
    pub fn on_overtaken(&mut self, noticed: Time, window_max: Duration, now: Time) {
        self.gaps = self.gaps << 1 | 1;
        self.adapt(noticed, window_max, now);
    }

    fn adapt(&mut self, noticed: Time, window_max: Duration, now: Time) {
        let late_by = now.saturating_since(noticed);
        // An eighth more, because the next one may be a little later.
        let wanted =
            late_by.saturating_add(late_by / 8).clamp(REORDERING_TIME, window_max.max(REORDERING_TIME));
        let narrower = self.widened.saturating_sub(wanted) / NARROWING_PART;
        self.widened = wanted.max(self.widened - narrower);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_millis(50);

    fn at(ms: u64) -> Time {
        Time::START + Duration::from_millis(ms)
    }

    /// Returns the window of a path on which packets arrive `ms` after those that overtake them.
    fn overtaken_by(ms: u64) -> ReorderingWindow {
        let mut window = ReorderingWindow::new();
        (0..8).for_each(|nth| window.on_overtaken(at(100 * nth), MAX, at(100 * nth + ms)));
        window
    }

    #[test]
    fn packets_that_come_after_the_requests_for_them_widen_the_window() {
        let mut window = overtaken_by(16);
        assert_eq!(window.window(), Duration::from_millis(18));
        window.on_overtaken(at(1_000), MAX, at(1_900));
        assert_eq!(window.window(), MAX);
        (0..1_000).for_each(|nth| window.on_overtaken(at(2_000 + nth), MAX, at(2_008 + nth)));
        assert!(window.window() < Duration::from_millis(10), "{:?}", window.window());
    }

    #[test]
    fn packets_that_come_after_their_repairs_widen_the_window() {
        let mut window = ReorderingWindow::new();
        for number in 0..8 {
            assert_eq!(window.window(), REORDERING_TIME);
            window.on_repair(number, at(100 * number));
            assert!(window.awaits(number));
            window.on_late_source_packet(number, MAX, at(100 * number + 16));
            window.on_late_source_packet(number, MAX, at(100 * number + 40));
        }
        assert_eq!(window.window(), Duration::from_millis(18));
    }

    #[test]
    fn where_most_gaps_are_losses_nothing_is_waited_for() {
        let mut window = overtaken_by(16);
        (0..8).for_each(|number| window.on_repair(number, at(2_000)));
        assert_eq!(window.window(), Duration::from_millis(18), "eight of sixteen are overtaken");
        window.on_repair(8, at(2_000));
        assert_eq!(window.window(), REORDERING_TIME);
        window.on_overtaken(at(3_000), MAX, at(3_016));
        assert_eq!(window.window(), REORDERING_TIME);
    }

    #[test]
    fn no_window_is_wider_than_a_repair_allows_nor_narrower_than_one_on_a_path_in_order() {
        let mut window = overtaken_by(16);
        window.on_overtaken(at(3_000), Duration::from_millis(1), at(3_016));
        assert!((REORDERING_TIME..=Duration::from_millis(18)).contains(&window.window()));
    }
}
