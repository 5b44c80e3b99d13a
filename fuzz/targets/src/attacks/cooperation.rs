//! Gives packets for others that nobody asked for, or false ones where somebody did.

use byway_wire::packets::EnvelopeRole;

use super::{Attack, KNOWN_FROM, alias, send_known};

pub(super) const ATTACK: Attack = Attack {
    name: "answers",
    prepare: send_known,
    datagram: |mallory, nth, _| {
        let (alias, number) =
            mallory.hand.heard.requested.pop().unwrap_or((alias(1), KNOWN_FROM + nth % 1_000));
        mallory.hand.envelops(EnvelopeRole::CooperativeAnswer, alias, number, &[0xEE; 1_160])
    },
};
