//! What flows bring to a class that may refuse it.

use crate::carried::Carried;
use crate::flows::FlowHash;
use crate::spread::Spread;

/// What each brings, and what of it is refused; flows share slots by their hash.
#[derive(Clone, Debug)]
pub(crate) struct Brought {
    all: Carried,
    refused: Carried,
}

/// What was brought in an interval.
#[derive(Debug)]
pub(crate) struct Demand {
    /// By flows that ask for a share.
    pub asked: Spread,
    /// By all, in bytes.
    pub bytes: u64,
}

impl Brought {
    pub(crate) fn new() -> Self {
        Self { all: Carried::new(), refused: Carried::new() }
    }

    /// A flow brings a packet.
    pub(crate) fn note(&mut self, flow: FlowHash, bytes: u32) {
        self.all.note(flow, bytes);
    }

    /// It is refused.
    pub(crate) fn note_refused(&mut self, flow: FlowHash, bytes: u32) {
        self.refused.note(flow, bytes);
    }

    /// Returns the offered load; an interval ends.
    ///
    /// A flow asks for at most twice what is let in of it. One that loses more than half goes on as if nothing had happened: it keeps its share, but what
    /// it offers beyond that says nothing about what it would use. And flows that are made up, which are refused altogether, ask for nothing.
    pub(crate) fn take(&mut self) -> Demand {
        let mut demand = Demand { asked: Spread::nothing(), bytes: 0 };
        for (all, refused) in self.all.take().zip(self.refused.take()) {
            demand.bytes += u64::from(all);
            demand.asked.add(all.saturating_sub(refused).saturating_mul(2).min(all));
        }
        demand
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> FlowHash {
        FlowHash::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    #[test]
    fn who_does_not_slow_down_when_refused_asks_for_twice_what_is_let_in() {
        let mut brought = Brought::new();
        (0..100).for_each(|number| brought.note(hash(number), 30_000));
        // One of these loses what TCP loses, those after them nearly all that they bring, and the last ones everything.
        brought.note_refused(hash(0), 3_000);
        for (number, refused) in
            (100..120).map(|number| (number, 70_000)).chain([(120, 90_000), (121, 90_000)])
        {
            brought.note(hash(number), 90_000);
            brought.note_refused(hash(number), refused);
        }
        let demand = brought.take();
        assert_eq!(demand.bytes, 4_980_000);
        assert_eq!(demand.asked.bytes(), 3_000_000 + 20 * 40_000);
        let share = demand.asked.fair_share(2_400_000).expect("more came");
        assert!((19_000..21_000).contains(&share), "{share}: a share of 120");
        assert_eq!(brought.take().bytes, 0, "of this interval only");
    }
}
