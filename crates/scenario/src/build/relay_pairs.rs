//! Pairs of relays that exchange packets.

use std::collections::BTreeSet;

/// Relay by the index of its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JoinedRelay {
    pub(super) node: usize,
    /// True if it passes on packets of other relays.
    pub(super) transit: bool,
}

/// Returns the pairs of relays that exchange packets, each in both orders: the two of a flow, and
/// each one that passes on packets with all others that it reaches.
pub(super) fn relay_pairs(
    of_flows: impl Iterator<Item = (usize, usize)>,
    relays: &[JoinedRelay],
    mut has_route: impl FnMut(usize, usize) -> bool,
) -> BTreeSet<(usize, usize)> {
    let mut pairs: BTreeSet<(usize, usize)> = of_flows.collect();
    for third in relays.iter().filter(|relay| relay.transit) {
        for JoinedRelay { node, .. } in relays {
            if has_route(third.node, *node) && has_route(*node, third.node) {
                pairs.insert((third.node, *node));
            }
        }
    }
    let both = pairs.into_iter().filter(|(one, other)| one != other);
    both.flat_map(|(one, other)| [(one, other), (other, one)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relays_exchange_packets_with_those_of_their_flows_and_with_those_that_pass_them_on() {
        let relay = |node, transit| JoinedRelay { node, transit };
        let flows = || [(1, 2), (3, 3)].into_iter();
        let without = [1, 2, 3, 4].map(|node| relay(node, false));
        let pairs = relay_pairs(flows(), &without, |_, _| true);
        assert_eq!(Vec::from_iter(pairs), [(1, 2), (2, 1)]);
        let with = [relay(1, false), relay(2, false), relay(3, false), relay(4, true)];
        // Relay 3 reaches relay 4, but not the other way round.
        let pairs = relay_pairs(flows(), &with, |from, to| (from, to) != (4, 3));
        assert_eq!(Vec::from_iter(pairs), [(1, 2), (1, 4), (2, 1), (2, 4), (4, 1), (4, 2)]);
    }
}
