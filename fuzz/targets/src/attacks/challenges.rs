//! Asks whether the relay can be reached, as often as a datagram has room for.

use byway_wire::Message;
use byway_wire::messages::PathChallenge;

use super::{Attack, filled};

pub(super) const ATTACK: Attack = Attack {
    name: "path challenges",
    prepare: |_| {},
    datagram: |mallory, nth, _| {
        let [.., a, b] = nth.to_be_bytes();
        let challenge =
            |place: u8| Message::PathChallenge(PathChallenge { token: [a, b, place, 0, 0, 0, 0, 0] });
        mallory.hand.says(&filled((0..200).map(challenge)))
    },
};
