//! The same datagram again and again.

use super::{Attack, silence};

pub(super) const ATTACK: Attack = Attack {
    name: "replays",
    prepare: |_| {},
    datagram: |mallory, nth, first| {
        if nth == 0 { (silence::ATTACK.datagram)(mallory, nth, first) } else { Some(first.to_vec()) }
    },
};
