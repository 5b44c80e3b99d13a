//! Attack: fills datagrams with path challenges.

use byway_wire::Message;
use byway_wire::messages::PathChallenge;

use super::{Attack, filled};

pub(super) const ATTACK: Attack = Attack {
    name: "path challenges",
    prepare: |_| {},
    datagram: |attacker, nth, _| {
        let [.., a, b] = nth.to_be_bytes();
        let challenge =
            |index: u8| Message::PathChallenge(PathChallenge { token: [a, b, index, 0, 0, 0, 0, 0] });
        attacker.peer.seal_messages(&filled((0..200).map(challenge)))
    },
};
