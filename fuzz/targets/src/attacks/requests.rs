//! Asks a relay for packets as relays ask receivers that cooperate: agents have no say in that.

use byway_units::Duration;
use byway_wire::messages::CooperativeRequest;
use byway_wire::{Message, Microseconds};

use super::nack::all_known;
use super::{Attack, alias, filled, send_known};

pub(super) const ATTACK: Attack = Attack {
    name: "cooperative requests",
    prepare: send_known,
    datagram: |mallory, _, _| {
        let patience = Microseconds::from_duration(Duration::from_secs(2));
        let request = CooperativeRequest { alias: alias(1), patience, ranges: all_known().ranges() };
        mallory.hand.says(&filled(std::iter::repeat_n(Message::CooperativeRequest(request), 100)))
    },
};
