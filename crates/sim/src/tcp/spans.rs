//! Runs of data received behind gaps.

use alloc::vec::Vec;

use super::sequence::{Extent, Position};

/// Runs of positions that neither overlap nor touch, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans(Vec<Extent>);

impl Spans {
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a run and merges it with adjacent runs.
    pub(crate) fn insert(&mut self, added: Extent) {
        let from = self.0.partition_point(|extent| extent.end < added.start);
        let until = self.0.partition_point(|extent| extent.start <= added.end);
        let touched = &self.0[from..until];
        let start = touched.first().map_or(added.start, |first| first.start.min(added.start));
        let end = touched.last().map_or(added.end, |last| last.end.max(added.end));
        self.0.splice(from..until, [Extent { start, end }]);
    }

    /// Returns the run that contains this position.
    pub(crate) fn containing(&self, position: Position) -> Option<Extent> {
        let behind = self.0.partition_point(|extent| extent.end <= position);
        self.0.get(behind).filter(|extent| extent.start <= position).copied()
    }

    /// Removes everything before `position`, and the run around it. Returns the end of that run, or
    /// `position` without one.
    pub(crate) fn advance_past(&mut self, position: Position) -> Position {
        let count = self.0.partition_point(|extent| extent.start <= position);
        self.0.drain(..count).map(|extent| extent.end).fold(position, Position::max)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::BTreeSet;

    use byway_units::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn position(number: u64) -> Position {
        Position::SYN + Bytes::new(number)
    }

    proptest! {
        #[test]
        fn spans_are_as_a_set_of_positions_is(
            added in prop::collection::vec((0_u64..100, 1_u64..10), 0..20), passed in 0_u64..120,
        ) {
            let (mut spans, mut set) = (Spans::default(), BTreeSet::new());
            for (start, length) in added {
                spans.insert(Extent { start: position(start), end: position(start + length) });
                set.extend(start..start + length);
            }
            let runs = set.iter().filter(|&&number| number == 0 || !set.contains(&(number - 1))).count();
            prop_assert_eq!(spans.len(), runs);
            for number in 0..120 {
                prop_assert_eq!(spans.containing(position(number)).is_some(), set.contains(&number));
            }
            let next = (passed..=120).find(|number| !set.contains(number)).unwrap();
            prop_assert_eq!(spans.advance_past(position(passed)), position(next));
            prop_assert!(spans.0.iter().all(|extent| extent.start > position(next)));
        }
    }
}
