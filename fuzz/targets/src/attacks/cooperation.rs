//! Gives packets for others that nobody asked for, or false ones where somebody did.

use byway_wire::packets::EnvelopeRole;

use super::Attack;
use super::stage::{KNOWN_FROM, World, alias};

pub(super) const ATTACK: Attack = Attack {
    name: "answers",
    prepare: World::send_known,
    datagram: |mallory, nth, _| {
        let (alias, number) = mallory.heard.requested.pop().unwrap_or((alias(1), KNOWN_FROM + nth % 1_000));
        mallory.envelops(EnvelopeRole::CooperativeAnswer, alias, number, &[0xEE; 1_160])
    },
};
