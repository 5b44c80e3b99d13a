//! Attack with requests whose answers are never read.

use super::{Attack, Attacker, Held};

/// Number of requests in a row on a connection: their answers take 6 MB, which exceeds all buffers.
const PIPELINED: usize = 100;

const REQUEST: &str = "GET /openapi.json HTTP/1.1\r\nhost: controller\r\n\r\n";

pub const ATTACK: Attack = Attack {
    name: "answers that nobody reads",
    begin: |target| Box::new(Unread(Held::open(target, REQUEST.repeat(PIPELINED), REQUEST.as_bytes()))),
    connections: 200,
};

struct Unread(Held);

impl Attacker for Unread {
    fn step(&mut self) -> u32 {
        self.0.send_pieces()
    }
}
