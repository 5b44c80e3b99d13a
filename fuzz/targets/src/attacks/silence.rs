//! The control: datagrams of the same length with an unknown message.

use super::{Attack, PLAINTEXT_BYTES};

pub(super) const ATTACK: Attack = Attack {
    name: "control",
    prepare: |_| {},
    // One message of an undefined type.
    datagram: |attacker, _, _| {
        let mut plaintext = vec![0; PLAINTEXT_BYTES];
        let body = u16::try_from(PLAINTEXT_BYTES - 3).expect("a short datagram");
        plaintext[0] = 127;
        plaintext[1..3].copy_from_slice(&body.to_be_bytes());
        attacker.peer.seal_messages(&plaintext)
    },
};
