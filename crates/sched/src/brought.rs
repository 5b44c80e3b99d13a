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

    /// What it came to; an interval ends.
    ///
    /// A flow most of whose bytes are refused goes on as if nothing had happened. It has what others leave, and no share: one kept for it would go
    /// to nobody, and be missed by those who slow down.
    pub(crate) fn take(&mut self) -> Demand {
        let mut demand = Demand { asked: Spread::nothing(), bytes: 0 };
        for (all, refused) in self.all.take().zip(self.refused.take()) {
            demand.bytes += u64::from(all);
            if refused <= all / 2 {
                demand.asked.add(all);
            }
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
    fn who_does_not_slow_down_when_refused_asks_for_no_share() {
        let mut brought = Brought::new();
        (0..100).for_each(|number| brought.note(hash(number), 30_000));
        // One of these loses what TCP loses, those after them nearly all that they bring.
        brought.note_refused(hash(0), 3_000);
        for number in 100..120 {
            brought.note(hash(number), 90_000);
            brought.note_refused(hash(number), 80_000);
        }
        let demand = brought.take();
        assert_eq!(demand.bytes, 4_800_000);
        assert_eq!(demand.asked.bytes(), 3_000_000);
        let share = demand.asked.fair_share(2_500_000).expect("more came");
        assert!((24_000..26_000).contains(&share), "{share}: a hundredth, not a share of 120");
        assert_eq!(brought.take().bytes, 0, "of this interval only");
    }
}
