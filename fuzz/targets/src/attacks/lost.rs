//! Says that it has lost packets which nobody asked it for.

use byway_wire::Message;
use byway_wire::messages::Lost;

use super::nack::range;
use super::{Attack, KNOWN, KNOWN_FROM, alias, filled, send_known};

pub(super) const ATTACK: Attack = Attack {
    name: "lost packets",
    prepare: send_known,
    datagram: |mallory, _, _| {
        let known = range(KNOWN_FROM, KNOWN);
        let lost = Message::Lost(Lost { alias: alias(1), ranges: known.ranges() });
        mallory.hand.says(&filled(std::iter::repeat_n(lost, 100)))
    },
};
