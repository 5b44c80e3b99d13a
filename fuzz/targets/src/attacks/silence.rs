//! The control: datagrams that are as long, and say nothing that anybody knows.

use super::{Attack, PLAINTEXT_BYTES};

pub(super) const ATTACK: Attack = Attack {
    name: "control",
    prepare: |_| {},
    // One message of a kind that nobody knows.
    datagram: |mallory, _, _| {
        let mut plaintext = vec![0; PLAINTEXT_BYTES];
        let body = u16::try_from(PLAINTEXT_BYTES - 3).expect("a short datagram");
        plaintext[0] = 127;
        plaintext[1..3].copy_from_slice(&body.to_be_bytes());
        mallory.hand.says(&plaintext)
    },
};
