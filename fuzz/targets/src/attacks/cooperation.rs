//! Attack: sends unsolicited cooperative answers, and false answers to requests.

use byway_wire::packets::EnvelopeRole;

use super::{Attack, KNOWN_FROM, alias, send_known};

pub(super) const ATTACK: Attack = Attack {
    name: "answers",
    prepare: send_known,
    datagram: |attacker, nth, _| {
        let (alias, number) =
            attacker.peer.pending.requested.pop().unwrap_or((alias(1), KNOWN_FROM + nth % 1_000));
        attacker.peer.seal_envelope(EnvelopeRole::CooperativeAnswer, alias, number, &[0xEE; 1_160])
    },
};
