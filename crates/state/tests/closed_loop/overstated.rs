//! A link shows 1.5 times the rate that it has.

use byway_state::Rules;
use byway_units::Rate;

use crate::link::LinkSetup;
use crate::world::{Reporting, World};

/// Runs so many flows, whose link overstates its rate from 10 s to 20 s. Returns the part of the
/// link that they use, and quantiles of the backlog in packets of each flow.
fn run(rules: Rules, flows: u64, age_ms: u64) -> (f64, [f64; 3]) {
    let mut world = World::new();
    let (link, back) = world.add_link_pair(LinkSetup::new(5, 50), Reporting::aged(age_ms, 0));
    for flow in 0..flows {
        world.add_flow(rules, &[link], &[back], 100 * flow);
    }
    let show = |kilobits: u64| {
        move |world: &mut World| world.links[link].shown = Rate::from_kilobits_per_second(kilobits)
    };
    world.at(10_000, show(7_500));
    world.at(20_000, show(5_000));
    world.run_until(25_000);
    let backlog = [0.5, 0.95].map(|part| world.backlog(link, part, 12_000, 20_000) / flows as f64);
    let after = world.backlog(link, 0.95, 22_000, 25_000) / flows as f64;
    (world.total_rate(12_000, 20_000) / 5.0, [backlog[0], backlog[1], after])
}

#[test]
fn the_backlog_stays_small_for_one_flow_and_for_fifty() {
    for flows in [1, 2, 3, 5, 10, 50] {
        let (used, [median, high, after]) = run(Rules::CORRECTED, flows, 0);
        println!("{flows}: used {used:.4} backlog {median:.2} {high:.2}, after {after:.2}");
        assert!(used >= 0.98 && median <= 2.0 && high <= 4.0, "{flows}");
        assert!(after <= 2.5, "{flows}");
    }
}

#[test]
fn the_published_equations_do_not_correct_it_for_a_single_flow() {
    let (_, [median, ..]) = run(Rules::PUBLISHED, 1, 0);
    println!("{median}");
    assert!(median >= 18.0, "{median}");
    let (_, [median, ..]) = run(Rules::PUBLISHED, 10, 0);
    assert!(median <= 2.0, "they do for ten: {median}");
}

#[test]
fn it_is_corrected_while_state_is_a_little_old_too() {
    for (age_ms, flows) in [(50, 1), (100, 1), (200, 1), (200, 2), (200, 10)] {
        let (used, [median, high, _]) = run(Rules::CORRECTED, flows, age_ms);
        println!("{age_ms} {flows}: used {used:.4} backlog {median:.2} {high:.2}");
        assert!(used >= 0.97 && median <= 2.0 && high <= 7.0, "{age_ms} {flows}");
    }
}
