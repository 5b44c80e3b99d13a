//! How long a gap is waited for on a path on which packets overtake others.

use arrayvec::ArrayVec;
use byway_units::{Duration, Time};

use crate::limits::REORDERING_TIME;

/// The time for which a gap in a flow may be mere reordering: wider where requests prove needless, as the reordering
/// window of RACK (RFC 8985, section 6.2, step 4).
///
/// RACK widens by a quarter of a round trip after each needless retransmission. Here is known how late the packet was, and
/// the next one as late is waited for. That holds while at least half of the latest gaps are reordering: where packets
/// are lost, waiting delays repairs.
#[derive(Clone, Debug)]
pub struct ReorderingWindow {
    widened: Duration,
    /// Numbers of repaired packets whose originals may still come, and the times at which they were passed over.
    repaired: ArrayVec<(u64, Time), REPAIRED_MAX>,
    /// The latest gaps: a bit is set for each that an original closed.
    gaps: u16,
}

/// Repaired packets that are remembered. Overtaken ones come within a few packets of their repairs.
const REPAIRED_MAX: usize = 4;

/// Gaps that originals closed, of the latest 16, for which the window is wider.
const OVERTAKEN_MIN: u32 = 8;

/// The part of the difference by which the window narrows after a packet that was less late. With delays of 10 to 30 ms,
/// one packet in a hundred is later than the window.
const NARROWING_PART: u64 = 64;

impl Default for ReorderingWindow {
    fn default() -> Self {
        Self::new()
    }
}

impl ReorderingWindow {
    /// The window of a path of which nothing is known.
    #[must_use]
    pub const fn new() -> Self {
        Self { widened: REORDERING_TIME, repaired: ArrayVec::new_const(), gaps: 0 }
    }

    /// Returns the window: at least [`REORDERING_TIME`].
    #[must_use]
    pub const fn window(&self) -> Duration {
        if self.gaps.count_ones() >= OVERTAKEN_MIN { self.widened } else { REORDERING_TIME }
    }

    /// Returns true if a packet was repaired lately, and its original has not come.
    #[must_use]
    pub fn awaits(&self, number: u64) -> bool {
        self.repaired.iter().any(|(repaired, _)| *repaired == number)
    }

    /// Notes the repair of a packet that was passed over at `noticed`.
    pub fn on_repair(&mut self, number: u64, noticed: Time) {
        if self.repaired.is_full() {
            self.repaired.remove(0);
        }
        self.repaired.push((number, noticed));
        self.gaps <<= 1;
    }

    /// Notes that the original of a repaired packet has come. The window is `window_max` at most.
    pub fn on_late_original(&mut self, number: u64, window_max: Duration, now: Time) {
        if let Some(place) = self.repaired.iter().position(|(repaired, _)| *repaired == number) {
            let (_, noticed) = self.repaired.remove(place);
            // The gap counted as a loss. Which of them it was makes no difference.
            self.gaps |= self.gaps.wrapping_add(1);
            self.adapt(noticed, window_max, now);
        }
    }

    /// Notes that the original of a packet has come that was passed over at `noticed`, and not repaired. The window is
    /// `window_max` at most.
    pub fn on_overtaken(&mut self, noticed: Time, window_max: Duration, now: Time) {
        self.gaps = self.gaps << 1 | 1;
        self.adapt(noticed, window_max, now);
    }

    fn adapt(&mut self, noticed: Time, window_max: Duration, now: Time) {
        let late_by = now.saturating_since(noticed);
        // An eighth more, as the next one may be a little later.
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

    /// A path on which packets come so much later than those that overtake them.
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
            window.on_late_original(number, MAX, at(100 * number + 16));
            window.on_late_original(number, MAX, at(100 * number + 40));
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
