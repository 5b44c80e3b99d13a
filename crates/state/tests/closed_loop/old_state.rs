//! State is old, or samples are lost.

use byway_state::{Policy, PolicySettings, Rules};
use byway_units::{Duration, Probability, Rate};

use crate::link::LinkSetup;
use crate::world::{Reporting, World};

#[derive(Debug)]
struct Outcome {
    used: f64,
    /// Greatest coefficient of variation of a flow's rate.
    variation: f64,
    /// 95 % quantile of the backlog, in packets of each flow.
    backlog: f64,
    fairness: f64,
}

/// Runs so many flows, which start `apart_ms` after each other.
fn run(rules: Rules, flows: u64, apart_ms: u64, reporting: Reporting) -> Outcome {
    let mut world = World::new();
    let (link, back) = world.add_link_pair(LinkSetup::new(5, 50), reporting);
    for flow in 0..flows {
        world.add_flow(rules, &[link], &[back], 100 + apart_ms * flow);
    }
    world.run_until(45_000);
    let variations = (0..flows as usize).map(|flow| world.variation(flow, 1_000, 15_000, 45_000));
    Outcome {
        used: world.total_rate(15_000, 45_000) / 5.0,
        variation: variations.fold(0.0, f64::max),
        backlog: world.backlog(link, 0.95, 15_000, 45_000) / flows as f64,
        fairness: world.fairness(2_000, 15_000, 45_000),
    }
}

#[test]
fn the_link_is_full_with_state_of_up_to_a_second_and_a_fifth_of_the_samples_lost() {
    for age_ms in [0, 50, 100, 150, 217, 250, 400, 633, 1_000] {
        for lost in [0, 200] {
            for flows in [1, 2, 3, 10] {
                let outcome = run(Rules::CORRECTED, flows, 700, Reporting::aged(age_ms, lost));
                println!("{age_ms} ms, {lost} lost, {flows} flows: {outcome:.3?}");
                let backlog_max = if age_ms <= 400 { 3.0 } else { 4.0 };
                assert!(outcome.used >= 0.98 && outcome.backlog <= backlog_max, "{outcome:?}");
                assert!(flows != 2 || outcome.variation <= 0.05 && outcome.fairness >= 0.98, "{outcome:?}");
            }
        }
    }
}

#[test]
fn the_published_equations_oscillate_with_old_state() {
    let fresh = run(Rules::PUBLISHED, 2, 700, Reporting::aged(0, 0));
    assert!(fresh.used >= 0.98 && fresh.variation <= 0.05, "{fresh:?}");
    for rules in [Rules::PUBLISHED, Rules::BACKLOG_FLOOR] {
        for (age_ms, used_max) in [(400, 0.9), (1_000, 0.6)] {
            let outcome = run(rules, 2, 700, Reporting::aged(age_ms, 200));
            println!("{:?}, {age_ms} ms: {outcome:.3?}", rules.old_state);
            assert!(outcome.used <= used_max, "{outcome:?}");
        }
    }
}

#[test]
fn the_published_bounds_leave_two_flows_unequal() {
    let corrected = run(Rules::CORRECTED, 2, 2_000, Reporting::aged(1_000, 0));
    assert!(corrected.fairness >= 0.98, "{corrected:?}");
    let outcome = run(Rules::PUBLISHED_BOUNDS, 2, 2_000, Reporting::aged(1_000, 0));
    println!("{corrected:.3?} {outcome:.3?}");
    assert!(outcome.used >= 0.98 && outcome.fairness < 0.9, "{outcome:?}");
}

#[test]
fn a_newcomer_has_most_of_its_share_within_eight_seconds() {
    let share_after_8_s = |rules, age_ms| {
        let mut world = World::new();
        let link = LinkSetup::new(50, 20).with_scaled_target();
        let (link, back) = world.add_link_pair(link, Reporting::aged(age_ms, 0));
        world.add_flow(rules, &[link], &[back], 100);
        let newcomer = world.add_flow(rules, &[link], &[back], 20_000);
        world.run_until(30_000);
        world.rate(newcomer, 27_500, 28_500) / 25.0
    };
    for age_ms in [200, 400, 1_000] {
        let share = share_after_8_s(Rules::CORRECTED, age_ms);
        println!("{age_ms} ms: {share:.2}");
        assert!(share >= 0.9, "{share}");
    }
    let control = share_after_8_s(Rules::PUBLISHED_BOUNDS, 1_000);
    assert!(control < 0.5, "{control}");
}

/// Outcome of two flows over four networks: alone, and beside other traffic.
#[derive(Debug)]
struct Federated {
    /// Part of the capacity without the margin that is used before there is other traffic.
    used: f64,
    /// Greatest coefficient of variation over a second, before and after.
    variation: [f64; 2],
    /// The same over half a second, after.
    fast_variation: f64,
    /// Rates beside other traffic, whose ideal is 1.5 Mbit/s.
    rates: [f64; 2],
    /// 95 % quantiles of the backlog before and after, in packets of each flow.
    backlog: [f64; 2],
}

/// Runs the second experiment of the paper (section 6.3.2): networks with peering links of 5 Mbit/s
/// and 50 ms in a row, which exchange their state each 100 ms.
fn federated(rules: Rules, older_ms: u64, lost_permille: u64) -> Federated {
    let mut world = World::new();
    let interval = Duration::from_millis(100);
    let policy =
        PolicySettings::new(Rate::from_megabits_per_second(5), Probability::ZERO).expect("a usual link");
    let ages = [50, 200 + older_ms, 300 + older_ms];
    let pairs = ages.map(|age_ms| {
        let reporting = Reporting { interval, ..Reporting::aged(age_ms, lost_permille) };
        let setup = LinkSetup::new(5, 50);
        let forward = world.add_reporting_link(setup, reporting);
        world.links[forward].policy = Some(Policy::new(policy));
        (forward, world.add_reporting_link(setup, reporting))
    });
    let [first, second, third] = pairs.map(|(forward, _)| forward);
    let [first_back, second_back, third_back] = pairs.map(|(_, back)| back);
    world.add_flow(rules, &[first, second, third], &[third_back, second_back, first_back], 500);
    world.add_flow(rules, &[first, second], &[second_back, first_back], 18_000);
    world.add_other_traffic(second, None, [58_000, 98_000]);
    world.run_until(98_000);
    let variation =
        |window, from, to| (0..2).map(|flow| world.variation(flow, window, from, to)).fold(0.0, f64::max);
    let outcome = Federated {
        used: world.total_rate(24_000, 57_000) / 4.9,
        variation: [variation(1_000, 24_000, 57_000), variation(1_000, 62_000, 97_000)],
        fast_variation: variation(500, 62_000, 97_000),
        rates: [0, 1].map(|flow| world.rate(flow, 62_000, 97_000)),
        backlog: [
            world.backlog(first, 0.95, 24_000, 57_000) / 2.0,
            world.backlog(second, 0.95, 62_000, 97_000) / 2.0,
        ],
    };
    println!("{:?}, {older_ms} ms older, {lost_permille} lost: {outcome:.3?}", rules.old_state);
    outcome
}

#[test]
fn flows_over_four_networks_are_steady_with_state_of_200_and_400_ms() {
    for (older_ms, lost, variation_max) in [(0, 0, 0.05), (0, 200, 0.08), (200, 0, 0.05), (200, 200, 0.08)] {
        let outcome = federated(Rules::CORRECTED, older_ms, lost);
        assert!(outcome.used >= 0.95, "{outcome:?}");
        assert!(outcome.variation.iter().all(|variation| *variation <= variation_max), "{outcome:?}");
        assert!(outcome.backlog.iter().all(|backlog| *backlog <= 3.0), "{outcome:?}");
        assert!(outcome.rates.iter().all(|rate| (1.3..=1.6).contains(rate)), "{outcome:?}");
    }
}

#[test]
fn the_published_equations_oscillate_over_four_networks_with_state_of_400_ms() {
    let outcome = federated(Rules::PUBLISHED, 200, 0);
    assert!((0.15..=0.28).contains(&outcome.fast_variation), "{outcome:?}");
    assert!(outcome.variation[1] > 0.1 && outcome.backlog[1] > 4.0, "{outcome:?}");
}
