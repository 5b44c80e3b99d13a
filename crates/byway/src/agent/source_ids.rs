//! Numbers by which peers distinguish applications' endpoints here.

use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Table of the numbers by which peers distinguish applications' endpoints. Each new endpoint gets
/// the next number.
#[derive(Debug)]
pub(super) struct SourceIds {
    numbers: BTreeMap<SocketAddr, u32>,
    last_assigned: u32,
}

impl SourceIds {
    /// Creates an empty table whose numbers begin after `first`, which differs in each run.
    pub(super) const fn new(first: u32) -> Self {
        Self { numbers: BTreeMap::new(), last_assigned: first }
    }

    /// Returns an endpoint's number, which stays the same until [`Self::forget`]. A new endpoint
    /// gets a new number.
    pub(super) fn number(&mut self, endpoint: SocketAddr) -> u32 {
        let last = &mut self.last_assigned;
        *self.numbers.entry(endpoint).or_insert_with(|| {
            *last = last.wrapping_add(1);
            *last
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
        let mut sources = SourceIds::new(u32::MAX);
        assert_eq!([one, other, one].map(|endpoint| sources.number(endpoint)), [0, 1, 0]);
        sources.forget(one);
        assert_eq!(sources.number(one), 2, "nobody takes it for the one before");
    }
}
