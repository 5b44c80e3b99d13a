//! Recorded losses of a path, replayed by a link.

use alloc::sync::Arc;
use alloc::vec::Vec;

use byway_units::Duration;
use thiserror::Error;

use crate::limits::RECORDED_SLOTS_MAX;
use crate::link::Offer;

/// Recorded losses over time, in slots of equal length. A packet is lost if its slot is; the trace
/// repeats after its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossTrace {
    slot: Duration,
    /// One bit a slot, 64 in a word, the lowest first; links may share a trace.
    words: Arc<Vec<u64>>,
    slots: usize,
    /// Slot of the trace at which the world begins.
    first: usize,
}

/// Error of a loss trace.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LossTraceError {
    /// The trace has no slots.
    #[error("the loss trace has no slots: give a 0 (received) or a 1 (lost) for each")]
    Empty,
    /// The trace has more slots than [`RECORDED_SLOTS_MAX`].
    #[error("the loss trace has more than {RECORDED_SLOTS_MAX} slots: use a part of it")]
    TooLong,
    /// The length of slots is zero.
    #[error("the slots of the loss trace last 0 s: give the interval at which it was recorded")]
    NoSlotLength,
    /// A character that is neither zero, one nor white space.
    #[error(
        "line {line} of the loss trace has {character:?}: only 0 (received), 1 (lost) and white space may stand there"
    )]
    UnknownCharacter {
        /// Number of the text line with the character, from 1.
        line: usize,
        /// The invalid character.
        character: char,
    },
}

impl LossTrace {
    /// Creates a trace in which slot `n`, from `n·slot` to `(n + 1)·slot`, loses its packets if the
    /// `n`-th of `losses` is true.
    ///
    /// # Errors
    /// If there are no slots or too many, or they have no length.
    pub fn new(slot: Duration, losses: impl IntoIterator<Item = bool>) -> Result<Self, LossTraceError> {
        let mut trace = Self { slot, words: Arc::default(), slots: 0, first: 0 };
        for is_lost in losses {
            trace.push(is_lost)?;
        }
        trace.checked()
    }

    /// Parses a trace of the characters `0` (received) and `1` (lost), with any white space between
    /// them.
    ///
    /// # Errors
    /// If the text has any other character, no slots or too many, or if the length of slots is
    /// zero.
    pub fn parse(slot: Duration, text: &str) -> Result<Self, LossTraceError> {
        let mut trace = Self { slot, words: Arc::default(), slots: 0, first: 0 };
        for (line, content) in (1..).zip(text.lines()) {
            for character in content.chars() {
                match character {
                    '0' => trace.push(false)?,
                    '1' => trace.push(true)?,
                    _ if character.is_whitespace() => {}
                    _ => return Err(LossTraceError::UnknownCharacter { line, character }),
                }
            }
        }
        trace.checked()
    }

    fn push(&mut self, is_lost: bool) -> Result<(), LossTraceError> {
        if self.slots == RECORDED_SLOTS_MAX {
            return Err(LossTraceError::TooLong);
        }
        let bit = self.slots % 64;
        if bit == 0 {
            Arc::make_mut(&mut self.words).push(0);
        }
        Arc::make_mut(&mut self.words)[self.slots / 64] |= u64::from(is_lost) << bit;
        self.slots += 1;
        Ok(())
    }

    fn checked(self) -> Result<Self, LossTraceError> {
        match (self.slots, self.slot.is_zero()) {
            (0, _) => Err(LossTraceError::Empty),
            (_, true) => Err(LossTraceError::NoSlotLength),
            _ => Ok(self),
        }
    }

    /// Returns the same trace with its beginning at this slot, modulo the number of slots.
    #[must_use]
    pub fn begun_at(&self, slot: u64) -> Self {
        let first = usize::try_from(slot % self.slots as u64).unwrap_or_default();
        Self { first, ..self.clone() }
    }

    pub(crate) fn loses(&self, offer: &Offer) -> bool {
        let slot = offer.time.as_nanos() / self.slot.as_nanos() % self.slots as u64;
        let slot = usize::try_from(slot).expect("a slot of the trace");
        let slot = (slot + self.first) % self.slots;
        self.words[slot / 64] >> (slot % 64) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use byway_units::Time;

    use super::*;

    const SLOT: Duration = Duration::from_nanos(10);

    #[test]
    fn a_trace_may_begin_anywhere() {
        let trace = LossTrace::parse(SLOT, "0010").expect("a trace").begun_at(5);
        assert_eq!([0, 10, 20, 30, 40].map(|nanos| loses(&trace, nanos)), [false, true, false, false, false]);
    }

    fn loses(trace: &LossTrace, nanos: u64) -> bool {
        trace.loses(&Offer::alone(Time::from_nanos(nanos), 0))
    }

    #[test]
    fn a_slot_loses_all_that_is_sent_in_it_and_the_trace_begins_again() {
        let trace = LossTrace::parse(SLOT, "01 0\n1").expect("a trace");
        let lost: Vec<_> = (0..80).filter(|&nanos| loses(&trace, nanos)).collect();
        let expected: Vec<_> = (10..20).chain(30..40).chain(50..60).chain(70..80).collect();
        assert_eq!(lost, expected);
    }

    #[test]
    fn long_traces_are_read_back_slot_by_slot() {
        let is_lost = |slot: u64| slot % 3 == 1 || slot % 7 == 2;
        let trace = LossTrace::new(SLOT, (0..1_000).map(is_lost)).expect("a trace");
        for slot in 0..1_000 {
            assert_eq!(loses(&trace, slot * 10), is_lost(slot), "slot {slot}");
        }
    }

    #[test]
    fn bad_traces_are_errors() {
        assert_eq!(LossTrace::parse(SLOT, " \n"), Err(LossTraceError::Empty));
        assert_eq!(LossTrace::parse(Duration::ZERO, "0"), Err(LossTraceError::NoSlotLength));
        let too_many = core::iter::repeat_n(false, RECORDED_SLOTS_MAX + 1);
        assert_eq!(LossTrace::new(SLOT, too_many), Err(LossTraceError::TooLong));
        let error = LossTrace::parse(SLOT, "01\n1x").expect_err("a letter");
        assert_eq!(
            error.to_string(),
            "line 2 of the loss trace has 'x': only 0 (received), 1 (lost) and white space may stand there"
        );
    }
}
