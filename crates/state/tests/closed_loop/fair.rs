//! Several flows share a link equally, and each has about one packet in the queue.

use byway_state::Rules;
use byway_units::{Duration, Time};

use crate::link::LinkSetup;
use crate::world::{Reporting, World};

/// Returns a world with so many flows, which start `apart_ms` after each other, the first one at a
/// second.
fn world(rules: Rules, flows: u64, apart_ms: u64) -> World {
    let mut world = World::new();
    let (link, back) = world.add_link_pair(LinkSetup::new(5, 50), Reporting::FRESH);
    for flow in 0..flows {
        world.add_flow(rules, &[link], &[back], 1_000 + flow * apart_ms);
    }
    world
}

#[test]
fn rates_are_equal_and_the_backlog_is_that_of_all_flows() {
    for flows in [1, 2, 3, 5, 10, 20, 50] {
        let mut world = world(Rules::CORRECTED, flows, if flows < 20 { 500 } else { 200 });
        world.run_until(45_000);
        let used = world.total_rate(15_000, 45_000) / 5.0;
        let fairness = world.fairness(2_000, 15_000, 45_000);
        let backlog = [0.5, 0.95].map(|part| world.backlog(0, part, 15_000, 45_000) / flows as f64);
        println!("{flows}: used {used:.4} fairness {fairness:.4} backlog {backlog:.2?}");
        assert!(used >= 0.98 && fairness >= 0.99 && backlog[1] <= 2.0, "{flows}");
        assert!((0.5..=1.5).contains(&backlog[0]), "proportional to the flows: {backlog:?}");
    }
}

#[test]
fn windows_that_are_always_rounded_up_keep_many_flows_unequal() {
    let fairness = [10, 20].map(|flows| {
        let mut world = world(Rules::PUBLISHED, flows, 500);
        world.run_until(45_000);
        world.fairness(2_000, 15_000, 45_000)
    });
    println!("{fairness:.4?}");
    assert!(fairness.iter().any(|fairness| *fairness < 0.99), "{fairness:?}");
}

#[test]
fn flows_that_begin_at_one_instant_ramp_up() {
    for flows in [2, 5, 10, 20, 50] {
        let mut together = world(Rules::CORRECTED, flows, 0);
        together.run_until(8_000);
        let peak = together.backlog(0, 1.0, 0, 8_000) / flows as f64;
        let settled = together.last_above(0, 3.0 * flows as f64).saturating_sub(1_000);
        println!("{flows}: peak {peak:.1} above 3 until {settled} ms");
        assert!(peak <= 12.0 && settled <= 3_000, "{flows}");
        let mut control = world(Rules::PUBLISHED, flows, 0);
        control.run_until(8_000);
        assert!(control.backlog(0, 1.0, 0, 8_000) / flows as f64 > 20.0, "{flows}");
    }
}

#[test]
fn a_joining_flow_has_its_share_within_one_and_a_half_seconds_and_leaves_it_at_once() {
    for (megabits, propagation_ms) in [(5, 50), (50, 20)] {
        let mut world = World::new();
        let link = LinkSetup::new(megabits, propagation_ms).with_scaled_target();
        let (link, back) = world.add_link_pair(link, Reporting::FRESH);
        let first = world.add_flow(Rules::CORRECTED, &[link], &[back], 0);
        let second = world.add_flow(Rules::CORRECTED, &[link], &[back], 10_000);
        world.flows[second].setup.stops_at = Time::START + Duration::from_secs(20);
        world.run_until(30_000);
        let half = megabits as f64 / 2.0;
        let joined = world.settled_ms(second, [0.9 * half, 1.1 * half], 10_000, 20_000);
        let left = world.settled_ms(first, [1.96 * half, 2.04 * half], 20_000, 29_000);
        let target = world.links[link].setup.target.count() as f64 / 1_500.0;
        let peak = world.backlog(link, 1.0, 10_000, 14_000) / (2.0 * target);
        println!("{megabits}: joined {joined:?} left {left:?} peak {peak:.2}");
        assert!(joined.is_some_and(|millis| millis <= 1_500), "{joined:?}");
        assert!(left.is_some_and(|millis| millis <= 1_000), "{left:?}");
        assert!(peak <= 7.0, "in targets of each flow: {peak}");
    }
}

#[test]
fn without_history_and_corrections_a_joining_flow_needs_longer() {
    let mut world = world(Rules::PUBLISHED, 1, 0);
    let second = world.add_flow(Rules::PUBLISHED, &[0], &[1], 10_000);
    world.flows[second].setup.has_history = false;
    world.run_until(20_000);
    let joined = world.settled_ms(second, [0.9 * 2.5, 1.1 * 2.5], 10_000, 20_000);
    println!("{joined:?}");
    assert!(joined.is_none_or(|millis| millis > 1_500), "{joined:?}");
}

#[test]
fn flows_that_pause_leave_the_link_to_others() {
    let mut world = world(Rules::CORRECTED, 8, 100);
    // Each flow is on or off, and changes with a probability of 0.1 each 250 ms.
    let mut random = 1_u64;
    for step in 0..400 {
        for flow in 0..8 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if (random >> 33).is_multiple_of(10) {
                world.at(2_000 + 250 * step, move |world| {
                    world.flows[flow].is_on = !world.flows[flow].is_on;
                    world.try_send(flow);
                });
            }
        }
    }
    world.run_until(102_000);
    let used = world.total_rate(5_000, 102_000) / 5.0;
    let backlog = world.backlog(0, 0.95, 5_000, 102_000);
    println!("used {used:.3} backlog {backlog}");
    assert!(used >= 0.9 && backlog <= 2.0 * 8.0, "{used} {backlog}");
}
