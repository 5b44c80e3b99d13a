extern crate std;

use core::net::Ipv4Addr;
use std::vec;
use std::vec::Vec;

use byway_units::Duration;
use proptest::prelude::*;

use super::*;
use crate::path::PathError;
use crate::table::Table;
use crate::test_values::{BUSY, link, millis, state, ticks};

const TRANSIT: Duration = Duration::from_millis(20);

fn network(number: u32) -> NetworkId {
    NetworkId::new(number)
}

fn direction(from: u8, to: u8) -> Direction {
    let address = |network| IpAddr::V4(Ipv4Addr::new(10, network, 0, 1));
    Direction { from: address(from), to: address(to) }
}

fn entry(index: u64, links: &[(u32, u32)]) -> PathEntry {
    let states = links.iter().map(|(of, number)| state(link(*of, *number), BUSY));
    PathEntry::new(index, states.collect()).expect("a path")
}

fn own_path(of: u32) -> Path {
    Path::new([link(of, 1)]).expect("a path")
}

/// Networks 1 to 4 in a row, each with one link to the right.
fn row(number: u32) -> Federation {
    let mut federation = Federation::new(network(number));
    for neighbour in [number - 1, number + 1].into_iter().filter(|other| (1..=4).contains(other)) {
        assert!(federation.add_neighbour(network(neighbour)));
    }
    federation
}

/// Returns the locations of a direction's ends, seen from network `here` of the row.
fn ends(here: u8, from: u8, to: u8) -> Ends {
    let location = |there: u8| match there.cmp(&here) {
        core::cmp::Ordering::Less => Location::Behind(network(u32::from(here) - 1)),
        core::cmp::Ordering::Equal => Location::Inside,
        core::cmp::Ordering::Greater => Location::Behind(network(u32::from(here) + 1)),
    };
    Ends { from: location(from), to: location(to) }
}

fn query(neighbour: u32, visited: &[u32], of: Direction) -> NeighbourQuery {
    let visited = visited.iter().copied().map(network).collect();
    NeighbourQuery { neighbour: network(neighbour), direction: of, visited }
}

fn queries(federation: &Federation) -> Vec<NeighbourQuery> {
    federation.queries().collect()
}

fn answer(
    federation: &mut Federation,
    from: u32,
    direction: Direction,
    entry: &PathEntry,
    now: Time,
) -> Result<(), AnswerRefusal> {
    federation.on_answer(NeighbourAnswer { neighbour: network(from), direction, epoch: 1, entry }, now)
}

#[test]
fn neighbours_are_asked_about_own_flows_while_there_are_any() {
    let mut federation = row(1);
    let (out, back) = (direction(1, 4), direction(4, 1));
    assert_eq!(queries(&federation), []);
    federation.register(out, ends(1, 1, 4), ticks(0)).expect("it begins here");
    federation.register(back, ends(1, 4, 1), ticks(0)).expect("it ends here");
    assert_eq!(queries(&federation), [query(2, &[1], out), query(2, &[1], back)]);
    federation.withdraw(&back);
    federation.expire(ticks(1_199));
    assert_eq!(queries(&federation), [query(2, &[1], out)]);
    federation.expire(ticks(1_200));
    assert_eq!(queries(&federation), [], "the lease of a minute is over");
}

#[test]
fn flows_inside_need_no_neighbour_and_foreign_flows_are_refused() {
    let mut federation = row(2);
    federation.register(direction(2, 2), ends(2, 2, 2), ticks(0)).expect("it is inside");
    assert_eq!(queries(&federation), []);
    let own = own_path(2);
    assert_eq!(federation.path(&direction(2, 2), Some(&own), Viewer::Own, ticks(0)), Ok(own));
    let foreign = federation.register(direction(1, 4), ends(2, 1, 4), ticks(0));
    assert_eq!(foreign, Err(QueryRefusal::ForeignFlow));
    let unknown = Ends { from: Location::Inside, to: Location::Behind(network(9)) };
    assert_eq!(federation.register(direction(2, 9), unknown, ticks(0)), Err(QueryRefusal::NotANeighbour));
}

#[test]
fn queries_go_from_neighbour_to_neighbour_and_end_in_the_last_network() {
    let out = direction(1, 4);
    let (mut second, mut third, mut fourth) = (row(2), row(3), row(4));
    second.on_query(&query(1, &[1], out), ends(2, 1, 4), ticks(0)).expect("it passes");
    assert_eq!(queries(&second), [query(3, &[1, 2], out)], "not the one that asked");
    third.on_query(&query(2, &[1, 2], out), ends(3, 1, 4), ticks(0)).expect("it passes");
    assert_eq!(queries(&third), [query(4, &[1, 2, 3], out)]);
    fourth.on_query(&query(3, &[1, 2, 3], out), ends(4, 1, 4), ticks(0)).expect("it ends here");
    assert_eq!(queries(&fourth), []);
    fourth.register(out, ends(4, 1, 4), ticks(0)).expect("it ends here");
    assert_eq!(queries(&fourth), [query(3, &[4], out)], "its own reason");
    second.expire(ticks(100));
    assert_eq!(queries(&second), [], "five seconds without a query");
}

#[test]
fn bad_queries_are_refused() {
    let out = direction(1, 4);
    let ask =
        |neighbour, visited: &[u32], ends| row(2).on_query(&query(neighbour, visited, out), ends, ticks(0));
    let right = ends(2, 1, 4);
    assert_eq!(ask(1, &[1], right), Ok(()));
    assert_eq!(ask(4, &[4], right), Err(QueryRefusal::NotANeighbour));
    assert_eq!(ask(1, &[], right), Err(QueryRefusal::Visited));
    assert_eq!(ask(1, &[1, 3], right), Err(QueryRefusal::Visited));
    assert_eq!(ask(1, &[8, 7, 6, 5, 4, 3, 9, 1], right), Err(QueryRefusal::Visited));
    assert_eq!(ask(1, &[2, 1], right), Err(QueryRefusal::Loop));
    assert_eq!(ask(1, &[5, 6, 5, 1], right), Err(QueryRefusal::Loop));
    let behind = Location::Behind(network(1));
    for foreign in [
        Ends { from: Location::Inside, to: Location::Behind(network(3)) },
        Ends { from: behind, to: behind },
        Ends { from: Location::Inside, to: Location::Inside },
    ] {
        assert_eq!(ask(1, &[1], foreign), Err(QueryRefusal::ForeignFlow), "{foreign:?}");
    }
    let unknown = Ends { from: behind, to: Location::Behind(network(9)) };
    assert_eq!(ask(1, &[1], unknown), Err(QueryRefusal::NotANeighbour));
}

#[test]
fn a_whole_path_is_joined_and_each_viewer_sees_what_it_may() {
    let (out, own) = (direction(1, 4), own_path(2));
    let mut second = row(2);
    second.on_query(&query(1, &[1], out), ends(2, 1, 4), ticks(0)).expect("it passes");
    let silent = second.path(&out, Some(&own), Viewer::Neighbour(network(1)), ticks(0));
    assert_eq!(silent, Err(PathUnknown::Silent(network(3))));
    assert_eq!(answer(&mut second, 3, out, &entry(1, &[(3, 1), (4, 1)]), ticks(0)), Ok(()));
    let path = second.path(&out, Some(&own), Viewer::Neighbour(network(1)), ticks(0)).expect("it is known");
    assert_eq!(path.networks().collect::<Vec<_>>(), [2, 3, 4].map(network));
    let unseen = second.path(&out, Some(&own), Viewer::Own, ticks(0));
    assert_eq!(unseen, Err(PathUnknown::Silent(network(1))), "it never asked network 1");
    let short = second.path(&out, None, Viewer::Neighbour(network(1)), ticks(0)).expect("it is known");
    assert_eq!(short.links().len(), 2);
    let late = second.path(&out, Some(&own), Viewer::Neighbour(network(1)), ticks(101));
    assert_eq!(late, Err(PathUnknown::Silent(network(3))), "five seconds of silence");
    let other = second.path(&direction(4, 1), Some(&own), Viewer::Own, ticks(0));
    assert_eq!(other, Err(PathUnknown::NotRegistered));
}

#[test]
fn bad_answers_are_refused_and_the_last_good_one_stays() {
    let (out, own) = (direction(1, 4), own_path(1));
    let mut first = row(1);
    assert_eq!(answer(&mut first, 2, out, &entry(1, &[(2, 1)]), ticks(0)), Err(AnswerRefusal::NotAsked));
    first.register(out, ends(1, 1, 4), ticks(0)).expect("it begins here");
    assert_eq!(answer(&mut first, 2, out, &entry(5, &[(2, 1), (3, 1)]), ticks(0)), Ok(()));
    let mut refuse = |from, of, links: &[(u32, u32)], index, refusal| {
        assert_eq!(answer(&mut first, from, of, &entry(index, links), ticks(1)), Err(refusal));
    };
    refuse(3, out, &[(3, 1)], 6, AnswerRefusal::NotAsked);
    refuse(2, direction(4, 1), &[(2, 1)], 6, AnswerRefusal::NotAsked);
    refuse(2, out, &[(2, 1), (1, 1)], 6, AnswerRefusal::Loop(network(1)));
    refuse(2, out, &[(2, 1)], 5, AnswerRefusal::NotNewer);
    let path = first.path(&out, Some(&own), Viewer::Own, ticks(1)).expect("it is known");
    assert_eq!(path.networks().collect::<Vec<_>>(), [1, 2, 3].map(network));
    // A neighbour that restarted counts from 1 again.
    let restarted =
        NeighbourAnswer { neighbour: network(2), direction: out, epoch: 2, entry: &entry(1, &[(2, 1)]) };
    assert_eq!(first.on_answer(restarted, ticks(2)), Ok(()));
}

#[test]
fn an_answer_that_comes_back_to_a_network_that_asked_is_refused() {
    let out = direction(1, 4);
    let mut second = row(2);
    second.on_query(&query(1, &[7, 1], out), ends(2, 1, 4), ticks(0)).expect("it passes");
    let back = answer(&mut second, 3, out, &entry(1, &[(3, 1), (7, 1)]), ticks(0));
    assert_eq!(back, Err(AnswerRefusal::Loop(network(7))));
}

#[test]
fn parts_that_are_no_path_together_are_unknown() {
    let (out, mut first) = (direction(1, 4), row(1));
    first.register(out, ends(1, 1, 4), ticks(0)).expect("it begins here");
    let many: Vec<_> = (0..64).map(|number| (2, number)).collect();
    assert_eq!(answer(&mut first, 2, out, &entry(1, &many), ticks(0)), Ok(()));
    let path = first.path(&out, Some(&own_path(1)), Viewer::Own, ticks(0));
    assert_eq!(path, Err(PathUnknown::Path(PathError::Length(65))));
}

#[test]
fn a_change_of_routes_forgets_answers_about_the_other_path() {
    let out = direction(1, 4);
    let mut first = row(1);
    assert!(first.add_neighbour(network(5)));
    first.register(out, ends(1, 1, 4), ticks(0)).expect("it begins here");
    answer(&mut first, 2, out, &entry(1, &[(2, 1)]), ticks(0)).expect("it was asked");
    let moved = Ends { from: Location::Inside, to: Location::Behind(network(5)) };
    first.register(out, moved, ticks(1)).expect("it begins here");
    assert_eq!(queries(&first), [query(5, &[1], out)]);
    assert_eq!(first.path(&out, None, Viewer::Own, ticks(1)), Err(PathUnknown::Silent(network(5))));
    first.remove_neighbour(network(5));
    assert_eq!(queries(&first), []);
}

#[test]
fn numbers_of_neighbours_and_directions_are_bounded() {
    let mut federation = Federation::new(network(1_000));
    assert!(!federation.add_neighbour(network(1_000)));
    assert_eq!((0..100).filter(|number| federation.add_neighbour(network(*number))).count(), 64);
    assert!(federation.add_neighbour(network(0)), "it is one already");
    let inside = Ends { from: Location::Inside, to: Location::Inside };
    let numbered = |number: u32| Direction { from: Ipv4Addr::from_bits(number).into(), ..direction(1, 1) };
    let mut register = |number, now| federation.register(numbered(number), inside, now);
    for number in 0..10_000 {
        register(number, ticks(0)).expect("there are few");
    }
    assert_eq!(register(10_000, ticks(1)), Err(QueryRefusal::TooMany));
    register(9_999, ticks(1)).expect("it is one already");
    register(10_000, ticks(1_200)).expect("leases are over");
}

#[test]
fn a_neighbour_that_asks_about_everything_leaves_their_shares_to_others() {
    let numbered = |number: u32| Direction { from: Ipv4Addr::from_bits(number).into(), ..direction(1, 1) };
    let mut federation = row(2);
    let mut ask = |neighbour: u32, number, now| {
        let (from, to) = if neighbour == 1 { (1, 4) } else { (4, 1) };
        federation.on_query(&query(neighbour, &[neighbour], numbered(number)), ends(2, from, to), now)
    };
    for number in 0..2_500 {
        ask(1, number, ticks(0)).expect("half of them are free");
    }
    assert_eq!(ask(1, 2_500, ticks(0)), Err(QueryRefusal::TooMany));
    ask(1, 2_499, ticks(0)).expect("it is one already");
    for number in 10_000..11_250 {
        ask(3, number, ticks(0)).expect("its share is free");
    }
    assert_eq!(ask(3, 11_250, ticks(0)), Err(QueryRefusal::TooMany));
    ask(1, 2_500, ticks(100)).expect("five seconds without a query");
    federation.register(direction(2, 4), ends(2, 2, 4), ticks(100)).expect("own flows find a free one");
}

#[test]
fn own_flows_find_a_free_direction_beside_all_neighbours() {
    let mut federation = Federation::new(network(1_000));
    let behind = |neighbour| Location::Behind(network(neighbour));
    assert!((0..64).all(|number| federation.add_neighbour(network(number))));
    let mut refused = 0;
    for (number, neighbour) in (0..8_192).map(|number| (number, number % 64)) {
        let of = Direction { from: Ipv4Addr::from_bits(number).into(), ..direction(1, 1) };
        let ends = Ends { from: behind(neighbour), to: Location::Inside };
        let answer = federation.on_query(&query(neighbour, &[neighbour], of), ends, ticks(0));
        refused += usize::from(answer == Err(QueryRefusal::TooMany));
    }
    // 39 of each neighbour are its share, and 2,500 are enough for all shares.
    assert_eq!(refused, 8_192 - 2_500);
    federation.register(direction(2, 4), ends(2, 2, 4), ticks(0)).expect("own flows find a free one");
}

#[test]
fn a_table_of_a_federated_path_consolidates_what_arrives() {
    let (out, own) = (direction(1, 4), own_path(1));
    let mut first = row(1);
    first.register(out, ends(1, 1, 4), ticks(0)).expect("it begins here");
    let mut table: Option<Table> = None;
    // Own links report each 50 ms, the neighbour each 100 ms.
    for tick in 0..8 {
        if tick % 2 == 0 {
            let remote = entry(tick + 1, &[(2, 1), (3, 1)]);
            answer(&mut first, 2, out, &remote, ticks(tick)).expect("it was asked");
            let path = first.path(&out, Some(&own), Viewer::Own, ticks(tick)).expect("it is known");
            let table = table.get_or_insert_with(|| Table::new(path));
            assert!(remote.links().iter().all(|state| table.report(&state.older_by(TRANSIT), ticks(tick))));
        }
        let table = table.as_mut().expect("there was an answer");
        table.report(&state(link(1, 1), BUSY), ticks(tick));
        let made = table.tick(ticks(tick)).expect("all links have reported");
        let news: Vec<bool> = made.links().iter().map(|state| state.entry().has_news()).collect();
        assert_eq!(news, vec![true, tick % 2 == 0, tick % 2 == 0]);
        let age = TRANSIT + millis(50) * (tick % 2);
        assert_eq!(made.links()[2].age(), age, "{tick}");
    }
}

/// Accepts any outcome: only panics matter.
fn ignore<E>(_: Result<(), E>) {}

proptest! {
    #[test]
    fn no_queries_and_answers_panic_and_no_network_asks_twice(
        steps in prop::collection::vec(
            (0_u8..7, 1_u8..6, 1_u8..6, 0_u8..6, prop::collection::vec(0_u32..6, 0..9), any::<u8>()),
            0..60,
        ),
    ) {
        let mut federation = row(2);
        let mut now = ticks(0);
        for (step, from, to, neighbour, numbers, wait) in steps {
            now += millis(u64::from(wait) * u64::from(wait));
            let (of, locations) = (direction(from, to), ends(2, from, to));
            let asker = network(u32::from(neighbour));
            match step {
                0 => ignore(federation.register(of, locations, now)),
                1 | 2 => {
                    let visited = numbers.iter().copied().map(network).chain([asker]).collect();
                    let query = NeighbourQuery { neighbour: asker, direction: of, visited };
                    ignore(federation.on_query(&query, locations, now));
                }
                3 | 4 => {
                    let links = (0..).zip(numbers).map(|(number, of)| state(link(of, number), BUSY));
                    if let Ok(entry) = PathEntry::new(u64::from(wait), links.collect()) {
                        ignore(answer(&mut federation, u32::from(neighbour), of, &entry, now));
                    }
                }
                5 => federation.withdraw(&of),
                _ => federation.expire(now),
            }
            for viewer in [Viewer::Own, Viewer::Neighbour(asker)] {
                if let Ok(path) = federation.path(&of, Some(&own_path(2)), viewer, now) {
                    prop_assert!(path.networks().filter(|one| *one == network(2)).count() == 1);
                }
            }
            for query in federation.queries() {
                prop_assert!(query.visited.len() <= NETWORKS_MAX && query.neighbour != network(2));
                prop_assert!(query.visited.iter().filter(|one| **one == network(2)).count() == 1);
            }
        }
    }
}
