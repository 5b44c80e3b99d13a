//! Attack with guesses of tokens and of members' secrets, from one address.

use super::{Attack, Attacker, HEAD, Target};

pub const ATTACK: Attack = Attack {
    name: "guesses of tokens",
    begin: |target| Box::new(Guesses { target, next: 0 }),
    connections: 1,
};

struct Guesses {
    target: Target,
    next: usize,
}

impl Attacker for Guesses {
    fn step(&mut self) -> u32 {
        self.next += 1;
        let guess = format!("{:064x}", self.next);
        let request = if self.next.is_multiple_of(2) {
            let key = "00".repeat(32);
            let body = format!(
                "{{\"token\":\"{guess}\",\"role\":\"agent\",\"name\":\"a\",\"key\":\"{key}\",\"proof\":\"00\",\
                 \"addresses\":[],\"shards\":1,\"unix_seconds\":1800000000}}"
            );
            format!("{HEAD}connection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        } else {
            format!(
                "GET /v1/map HTTP/1.1\r\nhost: controller\r\nconnection: close\r\nauthorization: Bearer 1.{guess}\r\n\r\n"
            )
        };
        if let Ok(answer) = self.target.ask(0, &request) {
            assert!(!answer.starts_with("HTTP/1.1 2"), "a guess is taken: {answer}");
        }
        1
    }
}
