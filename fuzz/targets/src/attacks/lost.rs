//! Says that it has lost packets which nobody asked it for.

use byway_wire::Message;
use byway_wire::messages::Lost;

use super::nack::all_known;
use super::{Attack, alias, filled, send_known};

pub(super) const ATTACK: Attack = Attack {
    name: "lost packets",
    prepare: send_known,
    datagram: |mallory, _, _| {
        let lost = Message::Lost(Lost { alias: alias(1), ranges: all_known().ranges() });
        mallory.hand.says(&filled(std::iter::repeat_n(lost, 100)))
    },
};
