//! The controller is gone for ten seconds.

use byway_state::{Guidance, Policy, PolicySettings, Rules};
use byway_units::{Duration, Probability, Rate, Time};

use crate::link::LinkSetup;
use crate::world::{Reporting, World};

/// Returns a world of so many flows, without a controller from 10 s to 20 s.
fn world(rules: Rules, flows: u64) -> World {
    let mut world = World::new();
    let (link, back) = world.add_link_pair(LinkSetup::new(5, 50), Reporting::FRESH);
    for flow in 0..flows {
        world.add_flow(rules, &[link], &[back], 100 * flow);
    }
    world.at(10_000, |world| world.has_controller = false);
    world.at(20_000, |world| world.has_controller = true);
    world
}

/// Returns the least rate of all flows in half a second.
fn least_rate(world: &World, from_ms: u64, to_ms: u64) -> f64 {
    (from_ms..to_ms)
        .step_by(500)
        .map(|begin| world.total_rate(begin, begin + 500))
        .fold(f64::INFINITY, f64::min)
}

#[test]
fn flows_go_on_by_delay_and_return_at_once() {
    for flows in [1, 2, 10, 50] {
        let mut world = world(Rules::CORRECTED, flows);
        world.run_until(15_000);
        assert_eq!(world.flows[0].control.guidance(), Guidance::Delay);
        world.run_until(30_000);
        assert_eq!(world.flows[0].control.guidance(), Guidance::State);
        let (least, peak) = (least_rate(&world, 10_000, 22_000), world.backlog(0, 1.0, 10_000, 22_000));
        let after = world.backlog(0, 0.95, 22_000, 30_000) / flows as f64;
        println!("{flows}: least rate {least:.2} peak {:.1} after {after:.2}", peak / flows as f64);
        assert!(least >= 0.5 * 5.0 && peak <= 10.0 * flows as f64, "{flows}");
        assert!(after <= 2.0 && world.fairness(2_000, 22_000, 30_000) >= 0.99, "{flows}");
    }
}

#[test]
fn a_flow_that_begins_meanwhile_shares_the_link_by_delay() {
    for flows in [1, 2] {
        let mut world = world(Rules::CORRECTED, flows);
        let other = world.add_flow(Rules::CORRECTED, &[0], &[1], 12_000);
        world.run_until(30_000);
        let least = least_rate(&world, 10_000, 22_000);
        let [high, peak] =
            [0.95, 1.0].map(|part| world.backlog(0, part, 10_000, 22_000) / (flows + 1) as f64);
        let share = world.rate(other, 15_000, 20_000) / 5.0;
        println!("{flows}: least rate {least:.2} peak {peak:.2} high {high:.2} share {share:.2}");
        assert!(least >= 0.5 * 5.0 && high <= 5.0 && peak <= 12.0, "{flows}");
        assert!((0.5 / (flows + 1) as f64..0.75).contains(&share), "{share}");
        let fair = 5.0 / (flows + 1) as f64;
        let settled = world.settled_ms(other, [0.9 * fair, 1.1 * fair], 20_000, 30_000);
        println!("settled {settled:?}");
        assert!(settled.is_some_and(|millis| millis <= 2_000), "{settled:?}");
    }
}

#[test]
fn the_share_of_a_flow_that_ends_meanwhile_is_used_without_a_burst() {
    let mut world = world(Rules::CORRECTED, 2);
    world.flows[1].setup.stops_at = Time::START + Duration::from_secs(13);
    world.run_until(20_000);
    let (peak, rate) = (world.backlog(0, 1.0, 13_500, 20_000), world.rate(0, 16_000, 20_000));
    println!("peak {peak} rate {rate:.2}");
    assert!(peak <= 15.0 && rate >= 0.95 * 5.0, "{peak} {rate}");
}

#[test]
fn the_published_equations_hold_the_last_state_and_a_queue_builds_up() {
    let mut world = world(Rules::PUBLISHED, 1);
    world.add_flow(Rules::PUBLISHED, &[0], &[1], 9_900);
    world.run_until(20_000);
    let backlog = world.backlog(0, 0.5, 12_000, 20_000);
    println!("{backlog}");
    assert!(backlog >= 15.0, "{backlog}");
}

#[test]
fn a_link_that_gives_up_half_of_its_rate_meanwhile_is_noticed() {
    let run = |rules| {
        let mut world = world(rules, 1);
        let capacity = Rate::from_megabits_per_second(5);
        let settings = PolicySettings::new(capacity, Probability::ZERO).expect("a usual link");
        world.links[0].policy = Some(Policy::new(settings));
        world.add_other_traffic(0, None, [12_000, 40_000]);
        world.run_until(30_000);
        let settled = world.settled_ms(0, [0.95 * 2.5, 1.05 * 2.5], 20_000, 30_000);
        (world.backlog(0, 0.5, 15_000, 20_000), world.rate(0, 15_000, 20_000), settled)
    };
    let (backlog, rate, settled) = run(Rules::CORRECTED);
    println!("{backlog} {rate:.2} {settled:?}");
    assert!(backlog <= 10.0 && rate >= 0.9 * 2.5, "{backlog} {rate}");
    assert!(settled.is_some_and(|millis| millis <= 2_000), "{settled:?}");
    let (control, _, _) = run(Rules::PUBLISHED);
    assert!(control >= 15.0, "{control}");
}
