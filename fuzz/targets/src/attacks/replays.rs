//! Attack: replays one datagram.

use super::{Attack, silence};

pub(super) const ATTACK: Attack = Attack {
    name: "replays",
    prepare: |_| {},
    datagram: |attacker, nth, first| {
        if nth == 0 { (silence::ATTACK.datagram)(attacker, nth, first) } else { Some(first.to_vec()) }
    },
};
