//! Which relays flows between two agents go through: one rule, with a controller and without.

use alloc::vec;
use alloc::vec::Vec;

use byway_wire::Shard;

/// Paths that stand by beside the first: one for each of its relays.
const STANDBY_PATHS_MAX: usize = 2;

/// Ingress and egress relay of each path between two agents, best first, given the relays that each may use in the order of
/// their distance from it: at most three, none of which begins where another does.
///
/// The first way is by the relays near both. One stands by without either of them where there are others, so that it works
/// whichever fails; another one, by the receiver's near relay unless that is the first way's ingress too.
#[must_use]
pub fn ways<R: Copy + Eq>(from_sender: &[R], from_receiver: &[R]) -> Vec<(R, R)> {
    let (Some(&ingress), Some(&egress)) = (from_sender.first(), from_receiver.first()) else {
        return Vec::new();
    };
    let mut ways = vec![(ingress, egress)];
    let mut other_ingresses: Vec<_> = from_sender[1..].to_vec();
    other_ingresses.sort_by_key(|relay| *relay == egress);
    let elsewhere = from_receiver.iter().copied().min_by_key(|relay| (*relay == ingress, *relay == egress));
    let near = from_receiver.iter().copied().min_by_key(|relay| *relay == ingress);
    let other_egresses = [elsewhere, near].into_iter().flatten();
    ways.extend(other_ingresses.into_iter().zip(other_egresses).take(STANDBY_PATHS_MAX));
    ways
}

/// The relays that each of two agents uses, given those near it: an agent without a relay uses the other's.
#[must_use]
pub const fn near_both<'a, R>(sender: &'a [R], receiver: &'a [R]) -> (&'a [R], &'a [R]) {
    (if sender.is_empty() { receiver } else { sender }, if receiver.is_empty() { sender } else { receiver })
}

/// The shard that serves a coding group, of a relay with so many of them.
///
/// # Panics
/// If a relay is said to have more than 256 shards.
#[must_use]
pub const fn shard_of(shards: u16, group: u32) -> Shard {
    let shards = if shards == 0 { 1 } else { shards };
    let shard = group % shards as u32;
    assert!(shard < 256, "a relay has at most 256 shards");
    Shard::new(shard.to_be_bytes()[3])
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;

    #[test]
    fn without_relays_there_is_no_way() {
        assert_eq!(ways::<u32>(&[], &[]), []);
    }

    #[test]
    fn one_relay_serves_both_ends() {
        assert_eq!(ways(&[1], &[1]), [(1, 1)]);
    }

    #[test]
    fn with_two_relays_the_one_that_stands_by_needs_not_the_first() {
        assert_eq!(ways(&[1, 2], &[2, 1]), [(1, 2), (2, 2)]);
        assert_eq!(ways(&[1, 2], &[1, 2]), [(1, 1), (2, 2)]);
    }

    #[test]
    fn with_three_relays_one_way_survives_either_of_the_first() {
        assert_eq!(ways(&[1, 2, 3], &[2, 1, 3]), [(1, 2), (3, 3), (2, 2)]);
        assert_eq!(ways(&[1, 2, 3], &[1, 2, 3]), [(1, 1), (2, 2), (3, 2)]);
    }

    #[test]
    fn ways_begin_at_different_relays_and_never_exceed_three() {
        for relays in 0..8_u32 {
            let from_sender: Vec<_> = (0..relays).collect();
            let from_receiver: Vec<_> = (0..relays).rev().collect();
            let ways = ways(&from_sender, &from_receiver);
            let ingresses: BTreeSet<_> = ways.iter().map(|way| way.0).collect();
            assert_eq!(ways.len(), relays.min(3) as usize);
            assert_eq!(ingresses.len(), ways.len(), "{ways:?}");
            let first = ways.first().copied();
            let survives = |relay| ways.iter().any(|way| way.0 != relay && way.1 != relay);
            assert!(
                relays < 3 || first.is_some_and(|(ingress, egress)| survives(ingress) && survives(egress))
            );
        }
    }

    #[test]
    fn agents_that_share_no_relay_have_a_way_for_each_that_the_sender_has() {
        assert_eq!(ways(&[1], &[2, 3]), [(1, 2)]);
        assert_eq!(ways(&[1, 4], &[2]), [(1, 2), (4, 2)]);
        assert_eq!(ways(&[1, 4], &[2, 3]), [(1, 2), (4, 3)]);
    }

    #[test]
    fn an_agent_without_a_relay_uses_the_others() {
        assert_eq!(near_both(&[1], &[2]), (&[1][..], &[2][..]));
        assert_eq!(near_both(&[], &[2, 3]), (&[2, 3][..], &[2, 3][..]));
        assert_eq!(near_both(&[1], &[]), (&[1][..], &[1][..]));
        assert_eq!(near_both::<u8>(&[], &[]), (&[][..], &[][..]));
    }

    #[test]
    fn groups_go_round_the_shards() {
        assert_eq!(
            [(1, 7), (4, 7), (256, 511), (0, 3)].map(|(shards, group)| shard_of(shards, group).number()),
            [0, 3, 255, 0]
        );
    }
}
