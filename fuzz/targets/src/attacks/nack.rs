//! Attack: sends NACKs for all sequence numbers, of all flows in turn.

use std::sync::LazyLock;

use byway_units::Duration;
use byway_wire::messages::Nack;
use byway_wire::{Message, Microseconds, RangeSet, SequenceNumber};

use super::{Attack, KNOWN, KNOWN_FROM, alias, filled, send_known};

/// NACKs in one datagram.
const NACKS: u32 = 55;

/// Sequence numbers of the accomplice's copies, from each of the first 50 on. They are computed
/// once, like [`ALL`], because computations of the attacker delay all programs on a shared machine.
static KNOWN_FROM_EACH: LazyLock<Vec<RangeSet>> =
    LazyLock::new(|| (0..50).map(|first| range(KNOWN_FROM + first, KNOWN - first)).collect());

/// The most sequence numbers that one NACK can name.
static ALL: LazyLock<RangeSet> = LazyLock::new(|| range(0, 8_192));

pub(super) const ATTACK: Attack = Attack {
    name: "NACKs",
    prepare: send_known,
    datagram: |mallory, nth, _| {
        let known = &KNOWN_FROM_EACH[nth as usize % KNOWN_FROM_EACH.len()];
        let nack = |place: u32| {
            let of_known = place.is_multiple_of(2);
            let number = if of_known { 1 } else { (nth * NACKS + place) % 500 + 1 };
            let ranges = if of_known { known.ranges() } else { ALL.ranges() };
            Message::Nack(Nack {
                alias: alias(u16::try_from(number).expect("few flows")),
                open_from_low: place.is_multiple_of(5).then_some(KNOWN_FROM),
                noticed_by_timer: false,
                answers_confirm: false,
                queue_grows: false,
                repair_lifetime: Microseconds::from_duration(Duration::from_secs(2)),
                ranges,
            })
        };
        mallory.peer.seal_messages(&filled((0..NACKS).map(nack)))
    },
};

/// Returns the sequence numbers of all copies of the attacker's accomplice.
pub(super) fn all_known() -> &'static RangeSet {
    &KNOWN_FROM_EACH[0]
}

/// Returns a range of `count` sequence numbers.
fn range(first: u32, count: u32) -> RangeSet {
    let mut ranges = RangeSet::new();
    let mut numbers = first..first + count;
    assert!(numbers.all(|number| ranges.insert(SequenceNumber::new(number.into()))), "one range is few");
    ranges
}
