//! Replay protection: a sliding window of packet counters (RFC 6479).

use alloc::boxed::Box;

use thiserror::Error;

use crate::limits::REPLAY_WINDOW;
use crate::low::Counter;

/// Number of counters that one word of the window records.
const WORD_BITS: u64 = 64;

/// Number of words that cover the window.
const WORDS: usize = (REPLAY_WINDOW / WORD_BITS) as usize;

/// Word whose counters have all been accepted.
const ALL_SEEN: u64 = u64::MAX;

// `current` and `previous` are two words of the window; the ring has the others.
const _: () = assert!(WORDS >= 2 && REPLAY_WINDOW.is_multiple_of(WORD_BITS));

type Bitmap = [u64; WORDS];

/// Reason for which a packet with this counter is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReplayError {
    /// A packet with this counter has been accepted before.
    #[error("packet with {counter} already received: drop it and count it as a duplicate")]
    Replayed {
        /// Counter of the packet.
        counter: Counter,
    },
    /// The counter is below the window.
    #[error(
        "packet with {counter} is {REPLAY_WINDOW} or more behind {highest}: drop it and count it as late"
    )]
    TooOld {
        /// Counter of the packet.
        counter: Counter,
        /// Highest counter that the window has accepted.
        highest: Counter,
    },
}

/// Replay window: the set of accepted counters within [`REPLAY_WINDOW`] of the highest.
///
/// It occupies 32 bytes as long as no counter stays missing for longer than 64 counters. The first
/// such gap allocates a bitmap of 1 KiB.
///
/// Counters are stored in words of 64 bits. `current` contains the highest counter, and `previous`
/// is the word before it. Older words are in a ring, which does not exist while all of their
/// counters have been seen.
#[derive(Clone, Debug)]
pub struct ReplayWindow {
    highest: u64,
    current: u64,
    previous: u64,
    older: Option<Box<Bitmap>>,
}

impl ReplayWindow {
    /// Returns a window that has accepted no counter.
    #[must_use]
    pub const fn new() -> Self {
        // There are no counters below 0 that could still arrive.
        Self { highest: 0, current: 0, previous: ALL_SEEN, older: None }
    }

    /// Returns the highest counter accepted, or the first counter if none was. Truncated counters
    /// are completed from it.
    #[must_use]
    pub const fn highest(&self) -> Counter {
        Counter::new(self.highest)
    }

    /// Checks if a packet with this counter would be accepted. It is called before the packet is
    /// opened.
    ///
    /// # Errors
    /// If the counter was accepted before, or is below the window.
    #[inline]
    pub fn would_accept(&self, counter: Counter) -> Result<(), ReplayError> {
        let Some(behind) = self.highest().since(counter) else {
            return Ok(());
        };
        if behind >= REPLAY_WINDOW {
            return Err(ReplayError::TooOld { counter, highest: self.highest() });
        }
        let number = counter.number();
        if self.word(number / WORD_BITS) & bit(number) == 0 {
            Ok(())
        } else {
            Err(ReplayError::Replayed { counter })
        }
    }

    /// Records the counter of a packet that has been authenticated.
    ///
    /// # Errors
    /// If the counter was accepted before, or is below the window.
    #[inline]
    pub fn accept(&mut self, counter: Counter) -> Result<(), ReplayError> {
        self.would_accept(counter)?;
        let number = counter.number();
        if number > self.highest {
            self.advance(number);
        }
        *self.word_mut(number / WORD_BITS) |= bit(number);
        Ok(())
    }

    /// Returns the number of words from word `index` to that of the highest counter.
    const fn words_back(&self, index: u64) -> u64 {
        self.highest / WORD_BITS - index
    }

    fn word(&self, index: u64) -> u64 {
        match self.words_back(index) {
            0 => self.current,
            1 => self.previous,
            _ => self.older.as_ref().map_or(ALL_SEEN, |older| older[slot(index)]),
        }
    }

    fn word_mut(&mut self, index: u64) -> &mut u64 {
        match self.words_back(index) {
            0 => &mut self.current,
            1 => &mut self.previous,
            _ => &mut self.older.get_or_insert_with(all_seen)[slot(index)],
        }
    }

    /// Sets the highest counter to `number`, and moves the window there.
    #[inline]
    fn advance(&mut self, number: u64) {
        let from = self.highest / WORD_BITS;
        let to = number / WORD_BITS;
        self.highest = number;
        if from != to {
            self.move_words(from, to);
        }
    }

    /// Moves `current` and `previous` from word `from` to word `to`, and older words to the ring.
    fn move_words(&mut self, from: u64, to: u64) {
        // A move by the whole window or more replaces all words, so earlier moves are skipped.
        let first = from.max(to.saturating_sub(WORDS as u64 + 2));
        for index in first..to {
            self.retire_previous(slot(index.wrapping_sub(1)));
            self.previous = self.current;
            self.current = 0;
        }
    }

    fn retire_previous(&mut self, slot: usize) {
        if self.older.is_some() || self.previous != ALL_SEEN {
            self.older.get_or_insert_with(all_seen)[slot] = self.previous;
        }
    }
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self::new()
    }
}

fn all_seen() -> Box<Bitmap> {
    Box::new([ALL_SEEN; WORDS])
}

const fn bit(number: u64) -> u64 {
    1 << (number % WORD_BITS)
}

/// Returns the index in the ring of word `index`.
#[allow(clippy::cast_possible_truncation, reason = "the remainder is less than the ring's length")]
const fn slot(index: u64) -> usize {
    (index % WORDS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(window: &mut ReplayWindow, number: u64) -> Result<(), ReplayError> {
        window.accept(Counter::new(number))
    }

    fn accept_all(window: &mut ReplayWindow, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            assert_eq!(accept(window, number), Ok(()), "{number}");
        }
    }

    fn replayed(number: u64) -> ReplayError {
        ReplayError::Replayed { counter: Counter::new(number) }
    }

    fn too_old(number: u64, highest: u64) -> ReplayError {
        ReplayError::TooOld { counter: Counter::new(number), highest: Counter::new(highest) }
    }

    #[test]
    fn numbers_in_order_take_no_memory() {
        let mut window = ReplayWindow::new();
        accept_all(&mut window, 0..3 * REPLAY_WINDOW);
        assert!(window.older.is_none());
        assert_eq!(accept(&mut window, 5), Err(too_old(5, 3 * REPLAY_WINDOW - 1)));
        let number = 3 * REPLAY_WINDOW - 1_000;
        assert_eq!(accept(&mut window, number), Err(replayed(number)));
    }

    #[test]
    fn swapped_neighbours_take_no_memory() {
        let mut window = ReplayWindow::new();
        let swapped = (0..REPLAY_WINDOW).map(|number| number ^ 1);
        accept_all(&mut window, swapped);
        let far_apart = (REPLAY_WINDOW..2 * REPLAY_WINDOW).map(|number| number ^ 0x3F);
        accept_all(&mut window, far_apart);
        assert!(window.older.is_none());
    }

    #[test]
    fn a_gap_that_lasts_takes_one_bitmap() {
        let mut window = ReplayWindow::new();
        accept_all(&mut window, (0..1_000).filter(|number| *number != 10));
        assert!(window.older.is_some());
        assert_eq!(accept(&mut window, 10), Ok(()));
        assert_eq!(accept(&mut window, 10), Err(replayed(10)));
        assert_eq!(size_of::<ReplayWindow>(), 32);
        assert_eq!(size_of::<Bitmap>(), 1_024);
    }

    #[test]
    fn the_window_ends_where_the_wire_says() {
        let mut window = ReplayWindow::new();
        accept_all(&mut window, [REPLAY_WINDOW]);
        assert_eq!(accept(&mut window, 0), Err(too_old(0, REPLAY_WINDOW)));
        accept_all(&mut window, [1]);
    }

    #[test]
    fn the_largest_numbers_are_taken_too() {
        let mut window = ReplayWindow::new();
        accept_all(&mut window, [u64::MAX, u64::MAX - 100, u64::MAX - 8_191]);
        assert_eq!(accept(&mut window, u64::MAX), Err(replayed(u64::MAX)));
        assert_eq!(window.highest(), Counter::new(u64::MAX));
    }

    #[test]
    fn asking_changes_nothing() {
        let (mut window, counter) = (ReplayWindow::new(), Counter::new(7));
        assert_eq!(window.would_accept(counter), Ok(()));
        assert_eq!(window.would_accept(counter), Ok(()));
        accept_all(&mut window, [7]);
        assert_eq!(window.would_accept(counter), Err(replayed(7)));
    }
}
