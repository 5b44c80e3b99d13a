//! Choice of the relay paths between two agents: one rule, with a controller and without.

use alloc::vec;
use alloc::vec::Vec;

use byway_wire::Shard;

use crate::limits::INGRESS_RELAYS_MAX;

/// Most paths of a flow: one in use, one that avoids each of its relays, one that avoids both. An
/// egress relay accepts a flow's packets from as many ingress relays.
const PATHS_MAX: usize = INGRESS_RELAYS_MAX;

/// Returns the ingress and egress relay of each path between two agents, best first, four at most.
/// The arguments are the relays near each agent, nearest first.
///
/// - The first path uses the relay nearest to each agent.
/// - If these differ, each of them alone is a reserve path: if one fails, some path avoids it. The
///   receiver is then registered at the ingress relay too, which may send to it directly.
/// - One more path avoids both, if there is a third relay.
///
/// A reserve path may end at a relay that only the other agent named. That relay is farther away,
/// and used while nearer ones fail.
#[must_use]
pub fn relay_paths<R: Copy + Eq>(near_sender: &[R], near_receiver: &[R]) -> Vec<(R, R)> {
    let (ingresses, egresses) =
        (with_others(near_sender, near_receiver), with_others(near_receiver, near_sender));
    let Some((ingress, egress)) = best_without(&ingresses, &egresses, &[]) else {
        return Vec::new();
    };
    let mut paths = vec![(ingress, egress)];
    if ingress != egress {
        paths.extend([(ingress, ingress), (egress, egress)]);
    }
    paths.extend(best_without(&ingresses, &egresses, &[ingress, egress]));
    if ingress == egress
        && let Some((second, other)) = paths.get(1).copied()
    {
        paths.extend(best_without(&ingresses, &egresses, &[ingress, second, other]));
    }
    debug_assert!(paths.len() <= PATHS_MAX);
    paths
}

/// Returns an agent's own relays, then those of the other agent that it lacks.
fn with_others<R: Copy + Eq>(own: &[R], others: &[R]) -> Vec<R> {
    let mut all: Vec<R> = Vec::new();
    for relay in own.iter().chain(others) {
        if !all.contains(relay) {
            all.push(*relay);
        }
    }
    all
}

/// Returns the ingress and egress relay of the best path that avoids some relays: the nearest of
/// each agent, because that is the shortest detour for both.
fn best_without<R: Copy + Eq>(ingresses: &[R], egresses: &[R], avoided: &[R]) -> Option<(R, R)> {
    let nearest = |relays: &[R]| relays.iter().copied().find(|relay| !avoided.contains(relay));
    Some((nearest(ingresses)?, nearest(egresses)?))
}

/// Returns the shard that serves a coding group, at a relay with this number of shards.
///
/// # Panics
/// If the relay has more than 256 shards.
#[must_use]
pub const fn shard_of(shards: u16, group: u32) -> Shard {
    let shards = if shards == 0 { 1 } else { shards };
    let shard = group % shards as u32;
    assert!(shard < 256, "a relay has at most 256 shards");
    Shard::new(shard.to_be_bytes()[3])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true if some path avoids all these relays.
    fn some_path_avoids(paths: &[(u32, u32)], relays: &[u32]) -> bool {
        paths.iter().any(|path| !relays.contains(&path.0) && !relays.contains(&path.1))
    }

    #[test]
    fn without_relays_there_is_no_path() {
        assert_eq!(relay_paths::<u32>(&[], &[]), []);
    }

    #[test]
    fn one_relay_serves_both_ends() {
        assert_eq!(relay_paths(&[1], &[1]), [(1, 1)]);
    }

    #[test]
    fn with_two_relays_each_alone_stands_by_both() {
        assert_eq!(relay_paths(&[1, 2], &[2, 1]), [(1, 2), (1, 1), (2, 2)]);
        assert_eq!(relay_paths(&[1, 2], &[1, 2]), [(1, 1), (2, 2)]);
    }

    #[test]
    fn with_three_relays_the_third_stands_by_for_both_others() {
        assert_eq!(relay_paths(&[1, 2, 3], &[2, 1, 3]), [(1, 2), (1, 1), (2, 2), (3, 3)]);
        assert_eq!(relay_paths(&[1, 2, 3], &[1, 2, 3]), [(1, 1), (2, 2), (3, 3)]);
        assert_eq!(relay_paths(&[1, 3, 2], &[2, 3, 1]), [(1, 2), (1, 1), (2, 2), (3, 3)]);
    }

    #[test]
    fn for_each_relay_some_path_avoids_it_and_for_the_first_two_together_where_there_is_a_third() {
        for relays in 2..8_u32 {
            for turned in 0..relays {
                let near_sender: Vec<_> = (0..relays).collect();
                let near_receiver: Vec<_> = (0..relays).map(|relay| (relay + turned) % relays).collect();
                let paths = relay_paths(&near_sender, &near_receiver);
                assert!(paths.len() <= PATHS_MAX, "{paths:?}");
                assert!((0..relays).all(|relay| some_path_avoids(&paths, &[relay])), "{paths:?}");
                let (ingress, egress) = paths[0];
                assert_eq!((ingress, egress), (near_sender[0], near_receiver[0]));
                assert!(relays < 3 || some_path_avoids(&paths, &[ingress, egress]), "{paths:?}");
                assert!(paths.iter().enumerate().all(|(index, path)| !paths[..index].contains(path)));
            }
        }
    }

    #[test]
    fn agents_that_share_no_relay_stand_by_at_each_others() {
        assert_eq!(relay_paths(&[1], &[2]), [(1, 2), (1, 1), (2, 2)]);
        assert_eq!(relay_paths(&[1], &[2, 3]), [(1, 2), (1, 1), (2, 2), (3, 3)]);
        assert_eq!(relay_paths(&[1, 4], &[2, 3]), [(1, 2), (1, 1), (2, 2), (4, 3)]);
    }

    #[test]
    fn an_agent_without_a_relay_uses_the_others() {
        assert_eq!(relay_paths(&[], &[2, 3]), [(2, 2), (3, 3)]);
        assert_eq!(relay_paths(&[1], &[]), [(1, 1)]);
    }

    #[test]
    fn groups_go_round_the_shards() {
        assert_eq!(
            [(1, 7), (4, 7), (256, 511), (0, 3)].map(|(shards, group)| shard_of(shards, group).number()),
            [0, 3, 255, 0]
        );
    }
}
