//! Outages of a link: spans of time in which it loses every packet.

use alloc::vec::Vec;

use byway_units::{Duration, Time};

/// Half-open span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// First instant in the span.
    pub from: Time,
    /// First instant after the span.
    pub until: Time,
}

impl Span {
    /// Creates a span of this length.
    #[must_use]
    pub const fn new(from: Time, length: Duration) -> Self {
        Self { from, until: from.saturating_add(length) }
    }

    /// Returns `count` spans of this length, the first at `from` and each a `period` after the one
    /// before: a flapping link.
    #[must_use]
    pub fn repeated(from: Time, length: Duration, period: Duration, count: u64) -> Vec<Self> {
        (0..count).map(|index| Self::new(from + period * index, length)).collect()
    }
}

/// Outages of a link: spans in the order of time, which neither overlap nor touch.
#[derive(Debug)]
pub(crate) struct Outages(Vec<Span>);

impl Outages {
    /// Creates outages from spans in any order, which may overlap.
    pub(crate) fn new(mut spans: Vec<Span>) -> Self {
        spans.retain(|span| span.from < span.until);
        spans.sort_unstable();
        spans.dedup_by(|next, last| {
            let overlaps = next.from <= last.until;
            if overlaps {
                last.until = last.until.max(next.until);
            }
            overlaps
        });
        Self(spans)
    }

    pub(crate) fn contain(&self, time: Time) -> bool {
        let begun = self.0.partition_point(|span| span.from <= time);
        self.0[..begun].last().is_some_and(|span| time < span.until)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use proptest::prelude::*;

    use super::*;

    fn span(from: u64, until: u64) -> Span {
        Span { from: Time::from_nanos(from), until: Time::from_nanos(until) }
    }

    #[test]
    fn a_link_that_flaps_is_dark_in_each_period() {
        let (length, period) = (Duration::from_nanos(3), Duration::from_nanos(10));
        let spans = Span::repeated(Time::from_nanos(5), length, period, 3);
        assert_eq!(spans, [span(5, 8), span(15, 18), span(25, 28)]);
    }

    #[test]
    fn spans_that_overlap_or_touch_become_one() {
        let outages = Outages::new(alloc::vec![span(7, 9), span(1, 3), span(2, 5), span(6, 6), span(9, 10)]);
        assert_eq!(outages.0, [span(1, 5), span(7, 10)]);
    }

    proptest! {
        #[test]
        fn the_search_finds_what_a_walk_finds(
            spans in prop::collection::vec((0_u64..50, 0_u64..50), 0..8),
            time in 0_u64..50,
        ) {
            let spans: Vec<_> = spans.into_iter().map(|(from, until)| span(from, until)).collect();
            let time = Time::from_nanos(time);
            let expected = spans.iter().any(|span| span.from <= time && time < span.until);
            prop_assert_eq!(Outages::new(spans).contain(time), expected);
        }
    }
}
