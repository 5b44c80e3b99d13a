//! How long a gap is waited for on a path on which packets overtake others.

use arrayvec::ArrayVec;
use byway_units::{Duration, Time};

use crate::limits::REORDERING_TIME;

/// The time for which a gap in a flow may be mere reordering: wider after each request that proves needless, as the
/// reordering window of RACK (RFC 8985, section 6.2, step 4).
///
/// A request was needless if the original comes after it. RACK widens by a quarter of a round trip each time; here is known
/// how late the packet was, and the next one as late is waited for.
#[derive(Clone, Debug)]
pub struct ReorderingWindow {
    window: Duration,
    /// Numbers of repaired packets whose originals may still come, with the times at which they were passed over.
    repaired: ArrayVec<(u64, Time), REPAIRED_MAX>,
    /// Losses in a row since the last needless request.
    losses: u8,
}

/// Repaired packets that are remembered. An original that comes after sixteen later losses was repaired in time.
const REPAIRED_MAX: usize = 16;

/// Losses in a row after which the window is halved: RFC 8985 resets it after 16 recoveries.
const LOSSES_MAX: u8 = 16;

impl Default for ReorderingWindow {
    fn default() -> Self {
        Self::new()
    }
}

impl ReorderingWindow {
    /// The window of a path of which nothing is known.
    #[must_use]
    pub const fn new() -> Self {
        Self { window: REORDERING_TIME, repaired: ArrayVec::new_const(), losses: 0 }
    }

    /// Returns the window: at least [`REORDERING_TIME`].
    #[must_use]
    pub const fn window(&self) -> Duration {
        self.window
    }

    /// Notes the repair of a packet that was passed over at `noticed`.
    pub fn on_repair(&mut self, number: u64, noticed: Time) {
        if self.repaired.is_full() {
            self.repaired.remove(0);
            self.on_loss();
        }
        self.repaired.push((number, noticed));
    }

    /// Returns true if a packet was repaired lately, and its original has not come.
    #[must_use]
    pub fn awaits(&self, number: u64) -> bool {
        self.repaired.iter().any(|(repaired, _)| *repaired == number)
    }

    /// Notes that the original of a repaired packet has come. The window is `window_max` at most.
    pub fn on_late_original(&mut self, number: u64, window_max: Duration, now: Time) {
        if let Some(place) = self.repaired.iter().position(|(repaired, _)| *repaired == number) {
            let (_, noticed) = self.repaired.remove(place);
            self.widen(noticed, window_max, now);
        }
    }

    /// Widens the window, as a packet that was passed over at `noticed`, and asked for, has come by itself. The window is
    /// `window_max` at most.
    pub fn widen(&mut self, noticed: Time, window_max: Duration, now: Time) {
        let late_by = now.saturating_since(noticed);
        // An eighth more, as the next one may be a little later.
        let wanted = late_by.saturating_add(late_by / 8);
        self.window = self.window.max(wanted.min(window_max));
        self.losses = 0;
    }

    fn on_loss(&mut self) {
        self.losses += 1;
        if self.losses == LOSSES_MAX {
            self.losses = 0;
            self.window = REORDERING_TIME.max(self.window / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_millis(50);

    fn at(ms: u64) -> Time {
        Time::START + Duration::from_millis(ms)
    }

    #[test]
    fn a_packet_that_comes_after_the_request_for_it_widens_the_window() {
        let mut window = ReorderingWindow::new();
        window.widen(at(100), MAX, at(116));
        assert_eq!(window.window(), Duration::from_millis(18));
        window.widen(at(200), MAX, at(208));
        assert_eq!(window.window(), Duration::from_millis(18), "one that is less late changes nothing");
        window.widen(at(300), MAX, at(900));
        assert_eq!(window.window(), MAX);
    }

    #[test]
    fn a_packet_that_comes_after_its_repair_widens_the_window_once() {
        let mut window = ReorderingWindow::new();
        window.on_repair(7, at(100));
        window.on_late_original(8, MAX, at(116));
        assert_eq!(window.window(), REORDERING_TIME);
        window.on_late_original(7, MAX, at(116));
        window.on_late_original(7, MAX, at(140));
        assert_eq!(window.window(), Duration::from_millis(18));
    }

    #[test]
    fn losses_in_a_row_halve_the_window() {
        let mut window = ReorderingWindow::new();
        window.widen(at(0), MAX, at(32));
        let losses = REPAIRED_MAX as u64 + u64::from(LOSSES_MAX);
        for number in 0..losses - 1 {
            window.on_repair(number, at(number));
        }
        assert_eq!(window.window(), Duration::from_millis(36));
        window.on_repair(losses, at(losses));
        assert_eq!(window.window(), Duration::from_millis(18));
        for number in 0..1_000 {
            window.on_repair(1_000 + number, at(number));
        }
        assert_eq!(window.window(), REORDERING_TIME);
    }
}
