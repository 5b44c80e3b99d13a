//! Attack with request heads sent byte by byte.

use super::{Attack, Attacker, HEAD, Held};

pub const ATTACK: Attack = Attack {
    name: "heads byte by byte",
    begin: |target| Box::new(SlowHeads(Held::open(target, format!("{HEAD}x: "), b"x"))),
    connections: 1_000,
};

struct SlowHeads(Held);

impl Attacker for SlowHeads {
    fn step(&mut self) -> u32 {
        self.0.send_pieces()
    }
}
