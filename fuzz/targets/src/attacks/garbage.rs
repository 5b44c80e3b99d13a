//! Attack: sends unsealed packets of each kind to the attacker's session.

use super::Attack;

/// Number of packet kinds, undefined ones included.
const KINDS: u32 = 16;

pub(super) const ATTACK: Attack = Attack {
    name: "garbage",
    prepare: |_| {},
    datagram: |attacker, nth, _| {
        let mut packet = attacker.peer.seal_messages(&[0; 1_175])?;
        packet[0] = u8::try_from(nth % KINDS).expect("few kinds");
        packet[40..].fill(u8::try_from(nth % 251).expect("reduced"));
        Some(packet)
    },
};
