//! Which numbers applications' endpoints get.

use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Numbers that stand for applications' endpoints in what peers are told.
#[derive(Debug)]
pub(super) struct Sources {
    numbers: BTreeMap<SocketAddr, u32>,
    given: u32,
}

impl Sources {
    /// Numbers begin near `first`: another place in each run.
    pub(super) const fn new(first: u32) -> Self {
        Self { numbers: BTreeMap::new(), given: first }
    }

    /// The endpoint's number: the same until it is forgotten.
    pub(super) fn number(&mut self, endpoint: SocketAddr) -> u32 {
        let given = &mut self.given;
        *self.numbers.entry(endpoint).or_insert_with(|| {
            *given = given.wrapping_add(1);
            *given
        })
    }

    pub(super) fn forget(&mut self, endpoint: SocketAddr) {
        self.numbers.remove(&endpoint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_keeps_its_number_until_it_is_forgotten() {
        let [one, other] = [5_000, 5_001].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let mut sources = Sources::new(u32::MAX);
        assert_eq!([one, other, one].map(|endpoint| sources.number(endpoint)), [0, 1, 0]);
        sources.forget(one);
        assert_eq!(sources.number(one), 2, "nobody takes it for the one before");
    }
}
