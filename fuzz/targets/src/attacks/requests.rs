//! Attack: sends cooperative requests to a relay, which only relays may send to receivers.

use byway_units::Duration;
use byway_wire::messages::CooperativeRequest;
use byway_wire::{Message, Microseconds};

use super::nack::all_known;
use super::{Attack, alias, filled, send_known};

pub(super) const ATTACK: Attack = Attack {
    name: "cooperative requests",
    prepare: send_known,
    datagram: |mallory, _, _| {
        let repair_lifetime = Microseconds::from_duration(Duration::from_secs(2));
        let request = CooperativeRequest { alias: alias(1), repair_lifetime, ranges: all_known().ranges() };
        mallory.peer.seal_messages(&filled(std::iter::repeat_n(Message::CooperativeRequest(request), 100)))
    },
};
