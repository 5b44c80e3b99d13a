//! Says that it has lost packets which nobody asked it for.

use byway_wire::Message;
use byway_wire::messages::Lost;

use super::Attack;
use super::nack::range;
use super::stage::{KNOWN, KNOWN_FROM, World, alias, filled};

pub(super) const ATTACK: Attack = Attack {
    name: "lost packets",
    prepare: World::send_known,
    datagram: |mallory, _, _| {
        let known = range(KNOWN_FROM, KNOWN);
        let lost = Message::Lost(Lost { alias: alias(1), ranges: known.ranges() });
        mallory.says(&filled(std::iter::repeat_n(lost, 100)))
    },
};
