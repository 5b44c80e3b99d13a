//! Attack: sends cooperative refusals for packets that the relay has not requested.

use byway_wire::Message;
use byway_wire::messages::CooperativeRefusal;

use super::nack::all_known;
use super::{Attack, alias, filled, send_known};

pub(super) const ATTACK: Attack = Attack {
    name: "lost packets",
    prepare: send_known,
    datagram: |mallory, _, _| {
        let lost =
            Message::CooperativeRefusal(CooperativeRefusal { alias: alias(1), ranges: all_known().ranges() });
        mallory.peer.seal_messages(&filled(std::iter::repeat_n(lost, 100)))
    },
};
