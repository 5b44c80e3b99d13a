//! Attack: sends short messages to be relayed to an agent at another relay, like offers of flows.

use byway_wire::Message;
use byway_wire::messages::RelayedPacket;

use super::{Attack, filled};

pub(super) const ATTACK: Attack = Attack {
    name: "offers",
    prepare: |_| {},
    datagram: |attacker, _, _| {
        let offer =
            RelayedPacket::new(attacker.other(), &[8; 40]).expect("it looks like a packet of messages");
        attacker.peer.seal_messages(&filled(std::iter::repeat_n(Message::RelayedPacket(offer), 30)))
    },
};
