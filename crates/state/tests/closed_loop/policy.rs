//! An interactive flow beside other traffic, with and without the service policy.

use byway_state::{Policy, PolicySettings, Rules};
use byway_units::{Probability, Rate};

use crate::link::LinkSetup;
use crate::world::{Reporting, World};

/// Returns a world with one interactive flow, and greedy other flows: 0, 1, 2, 1, 0 from 0, 10, 20,
/// 30 and 40 s on.
fn world(rules: Rules, has_policy: bool) -> World {
    let mut world = World::new();
    let (link, back) = world.add_link_pair(LinkSetup::new(5, 50), Reporting::FRESH);
    if has_policy {
        let capacity = Rate::from_megabits_per_second(5);
        let settings = PolicySettings::new(capacity, Probability::ZERO).expect("a usual link");
        world.links[link].policy = Some(Policy::new(settings));
    } else {
        world.links[link].has_one_queue = true;
    }
    world.add_flow(rules, &[link], &[back], 2_000);
    world.add_other_traffic(link, None, [10_000, 40_000]);
    world.add_other_traffic(link, None, [20_000, 30_000]);
    world
}

#[test]
fn the_rate_follows_the_share_and_the_queue_stays_almost_empty() {
    let mut world = world(Rules::CORRECTED, true);
    world.run_until(50_000);
    for (from, to, share) in [(5, 10, 4.9), (13, 20, 2.5), (23, 30, 2.0), (34, 40, 2.5), (44, 50, 4.9)] {
        let rate = world.rate(0, from * 1_000, to * 1_000);
        let round_trip = world.round_trip(0, 0.95, from * 1_000, to * 1_000);
        let limit = 100.0 + 2.4 + 12.0 / share + 2.0 * 12.0 / share;
        println!("{from} s: rate {rate:.3} of {share}, round trip {round_trip:.1} of {limit:.1}");
        assert!((0.95 * share..=1.05 * share).contains(&rate), "{from} s");
        assert!(round_trip <= limit, "{from} s");
    }
}

#[test]
fn the_share_is_reached_two_seconds_after_a_flow_begins_and_three_and_a_half_after_one_ends() {
    let mut world = world(Rules::CORRECTED, true);
    world.run_until(50_000);
    for (at, share, after) in [(10, 2.5, 2_000), (20, 2.0, 2_000), (30, 2.5, 3_500), (40, 4.9, 3_500)] {
        let rate = world.rate(0, at * 1_000 + after, at * 1_000 + after + 1_000);
        println!("{at} s: {rate:.3} of {share}");
        assert!((0.95 * share..=1.05 * share).contains(&rate), "{at} s");
    }
}

#[test]
fn in_one_queue_the_flow_starves() {
    let mut world = world(Rules::PUBLISHED, false);
    world.run_until(30_000);
    let rate = world.rate(0, 15_000, 30_000);
    println!("{rate}");
    assert!(rate < 1.0, "{rate}");
}

#[test]
fn beside_steady_traffic_that_never_waits_the_queue_stays_short() {
    let run = |rules| {
        let mut world = World::new();
        let (link, back) = world.add_link_pair(LinkSetup::new(5, 50), Reporting::FRESH);
        let capacity = Rate::from_megabits_per_second(5);
        let settings = PolicySettings::new(capacity, Probability::ZERO).expect("a usual link");
        world.links[link].policy = Some(Policy::new(settings));
        world.add_flow(rules, &[link], &[back], 2_000);
        let rate = Some(Rate::from_megabits_per_second(1));
        world.add_other_traffic(link, rate, [0, 40_000]);
        world.run_until(40_000);
        (world.rate(0, 5_000, 40_000), world.backlog(link, 0.95, 5_000, 40_000))
    };
    let (rate, backlog) = run(Rules::CORRECTED);
    println!("rate {rate:.2} of 4, backlog {backlog}");
    assert!(rate >= 3.3 && backlog <= 5.0, "{rate} {backlog}");
}
