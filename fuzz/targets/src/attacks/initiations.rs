//! One initiation again and again, at the price of an authentication code to the sender.

use super::Attack;

pub(super) const ATTACK: Attack = Attack {
    name: "initiations",
    prepare: |_| {},
    datagram: |mallory, nth, first| Some(if nth == 0 { mallory.initiate() } else { first.to_vec() }),
};
