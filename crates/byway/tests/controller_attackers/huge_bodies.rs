//! Attack with request bodies without end, sent as fast as the controller reads them.

use std::io::Write as _;

use super::{Attack, Attacker, HEAD, Target};

pub const ATTACK: Attack =
    Attack { name: "huge bodies", begin: |target| Box::new(HugeBodies { target, next: 0 }), connections: 1 };

/// Chunks of a body: 64 MB in all.
const CHUNKS: usize = 4_096;

struct HugeBodies {
    target: Target,
    next: usize,
}

impl Attacker for HugeBodies {
    fn step(&mut self) -> u32 {
        self.next += 1;
        let first = format!("{HEAD}content-length: 10000000000\r\n\r\n");
        if let Ok(mut connection) = self.target.open(self.next, &first) {
            let chunk = [b'x'; 16 << 10];
            let taken = (0..CHUNKS).take_while(|_| connection.write_all(&chunk).is_ok()).count();
            assert!(taken < CHUNKS, "the controller takes a body of 64 MB");
        }
        1
    }
}
