//! Packets of each kind in the attacker's session that nobody sealed.

use super::Attack;

/// Kinds of packets, those beyond the last that there is among them.
const KINDS: u32 = 16;

pub(super) const ATTACK: Attack = Attack {
    name: "garbage",
    prepare: |_| {},
    datagram: |mallory, nth, _| {
        let mut packet = mallory.hand.says(&[0; 1_175])?;
        packet[0] = u8::try_from(nth % KINDS).expect("few kinds");
        packet[40..].fill(u8::try_from(nth % 251).expect("reduced"));
        Some(packet)
    },
};
