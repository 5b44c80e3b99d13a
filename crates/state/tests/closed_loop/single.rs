//! One flow uses the whole link, and one packet waits.

use byway_state::Rules;
use byway_units::Duration;

use crate::link::{Kind, LinkSetup};
use crate::world::{Reporting, World};

/// Set-up of one flow over equal links.
#[derive(Clone, Copy)]
struct Setup {
    rules: Rules,
    link: LinkSetup,
    links: usize,
    ack_every: usize,
    jitter_ms: u64,
}

#[derive(Debug)]
struct Outcome {
    /// Part of the link's rate.
    used: f64,
    /// Median and 95 % quantile of the backlog in packets.
    backlog: [f64; 2],
    /// 95 % quantile of the round trip in ms.
    round_trip: f64,
}

impl Setup {
    fn new(rules: Rules, link: LinkSetup) -> Self {
        Self { rules, link, links: 1, ack_every: 2, jitter_ms: 0 }
    }

    fn run(self) -> Outcome {
        let mut world = World::new();
        let forward: Vec<usize> = (0..self.links).map(|_| world.add_link(self.link)).collect();
        let propagation = self.link.propagation * self.links as u64;
        let back = world.add_link(LinkSetup { propagation, ..LinkSetup::new(1_000, 0) });
        let flow = world.add_flow(self.rules, &forward, &[back], 0);
        world.flows[flow].setup.ack_every = self.ack_every;
        world.flows[flow].setup.jitter = Duration::from_millis(self.jitter_ms);
        world.run_until(25_000);
        let rate = self.link.rate.bits_per_second() as f64 / 1e6;
        let outcome = Outcome {
            used: world.rate(flow, 5_000, 25_000) / rate,
            backlog: [0.5, 0.95].map(|part| world.backlog(forward[0], part, 5_000, 25_000)),
            round_trip: world.round_trip(flow, 0.95, 5_000, 25_000),
        };
        println!("{} links, acknowledgments of {}: {outcome:.3?}", self.links, self.ack_every);
        outcome
    }
}

/// Returns the base round trip in ms, and the time of a target and two packets.
fn round_trip_max(link: LinkSetup, links: f64) -> f64 {
    let packet_ms = 12e6 / link.rate.bits_per_second() as f64;
    let base_ms = links * (link.reported_delay() + link.propagation).as_secs_f64() * 1e3;
    base_ms + (target_packets(link) + 2.0) * packet_ms
}

/// Returns the packets of a target: one of 4.2 packets is five.
fn target_packets(link: LinkSetup) -> f64 {
    link.target.count().div_ceil(1_500) as f64
}

#[test]
fn the_link_is_full_and_one_packet_waits_over_one_link_and_three_of_both_kinds() {
    for kind in [Kind::StoreAndForward, Kind::TokenBucket] {
        for (links, propagation_ms) in [(1, 50), (3, 16)] {
            let link = LinkSetup { kind, ..LinkSetup::new(5, propagation_ms) };
            let outcome = Setup { links, ..Setup::new(Rules::CORRECTED, link) }.run();
            assert!(outcome.used >= 0.98, "{outcome:?}");
            assert!(outcome.backlog[0] <= 1.0 && outcome.backlog[1] <= 2.0, "{outcome:?}");
            assert!(outcome.round_trip <= round_trip_max(link, links as f64), "{outcome:?}");
        }
    }
}

#[test]
fn a_fast_link_with_jitter_is_full_with_a_target_of_a_millisecond() {
    let link = LinkSetup::new(50, 10).with_scaled_target();
    let scaled = Setup { jitter_ms: 1, ..Setup::new(Rules::CORRECTED, link) }.run();
    assert!(scaled.used >= 0.98, "{scaled:?}");
    assert!(scaled.round_trip <= round_trip_max(link, 1.0), "{scaled:?}");
    let control = Setup { jitter_ms: 1, ..Setup::new(Rules::CORRECTED, LinkSetup::new(50, 10)) }.run();
    assert!(control.used < 0.98, "one packet is too little: {control:?}");
}

#[test]
fn slow_links_and_short_paths_are_full_too() {
    for link in [LinkSetup::new(1, 100), LinkSetup::new(5, 10), LinkSetup::new(50, 20).with_scaled_target()] {
        let outcome = Setup::new(Rules::CORRECTED, link).run();
        let target = target_packets(link);
        assert!(outcome.used >= 0.98 && outcome.backlog[0] <= target, "{outcome:?}");
        assert!(outcome.backlog[1] <= 2.0 * target, "{outcome:?}");
        assert!(outcome.round_trip <= round_trip_max(link, 1.0), "{outcome:?}");
    }
}

#[test]
fn bunched_acknowledgments_are_allowed_for() {
    for ack_every in [1, 4, 10] {
        let outcome = Setup { ack_every, ..Setup::new(Rules::CORRECTED, LinkSetup::new(5, 50)) }.run();
        assert!(outcome.used >= 0.98, "{outcome:?}");
    }
    let control = Setup { ack_every: 10, ..Setup::new(Rules::PUBLISHED, LinkSetup::new(5, 50)) }.run();
    assert!(control.used < 0.9, "{control:?}");
}

#[test]
fn rare_losses_cost_little_and_no_backlog() {
    let link = LinkSetup { lost_permille: 1, ..LinkSetup::new(5, 50) };
    let outcome = Setup::new(Rules::CORRECTED, link).run();
    assert!(outcome.used >= 0.98 && outcome.backlog[1] <= 2.0, "{outcome:?}");
    let control = Setup::new(Rules::CORRECTED, LinkSetup { lost_permille: 50, ..link }).run();
    assert!(control.used < 0.9, "losses of 5 % are congestion: {control:?}");
}

/// Runs a flow over a managed link and an unmanaged one, and returns its rate.
fn rate_over_unmanaged_rest(rules: Rules, rest: LinkSetup) -> (World, usize) {
    let mut world = World::new();
    let (managed, back) = world.add_link_pair(LinkSetup::new(5, 30), Reporting::FRESH);
    let (rest, rest_back) = world.add_link_pair(rest.unmanaged(), Reporting::FRESH);
    let flow = world.add_flow(rules, &[managed, rest], &[rest_back, back], 0);
    world.run_until(60_000);
    (world, flow)
}

#[test]
fn the_rest_of_the_path_is_learned_and_stays_so() {
    let rest = LinkSetup::new(1_000, 20);
    let (world, flow) = rate_over_unmanaged_rest(Rules::CORRECTED, rest);
    println!("{} {}", world.rate(flow, 5_000, 60_000), world.backlog(0, 0.95, 5_000, 60_000));
    assert!(world.rate(flow, 5_000, 60_000) >= 0.97 * 5.0);
    // The own packet in the queue is no delay of the rest: otherwise the queue would grow.
    assert!(world.backlog(0, 0.95, 50_000, 60_000) <= 3.0);
    let (control, flow) = rate_over_unmanaged_rest(Rules::PUBLISHED, rest);
    assert!(control.rate(flow, 5_000, 60_000) < 0.7 * 5.0);
}

#[test]
fn a_bottleneck_outside_the_table_is_noticed_by_its_delay() {
    let (world, flow) = rate_over_unmanaged_rest(Rules::CORRECTED, LinkSetup::new(2, 20));
    println!("{} {}", world.rate(flow, 5_000, 60_000), world.backlog(2, 0.95, 5_000, 60_000));
    assert!(world.rate(flow, 5_000, 60_000) >= 0.97 * 2.0);
    assert!(world.backlog(2, 0.95, 5_000, 60_000) <= 4.0);
    let (control, _) = rate_over_unmanaged_rest(Rules::PUBLISHED, LinkSetup::new(2, 20));
    let backlog = control.backlog(2, 0.5, 5_000, 60_000);
    assert!(backlog >= 6.0, "it does not notice: {backlog}");
}

#[test]
fn capacity_outside_the_table_that_becomes_free_is_used_within_three_seconds() {
    let mut world = World::new();
    let (managed, back) = world.add_link_pair(LinkSetup::new(5, 30), Reporting::FRESH);
    let (rest, rest_back) = world.add_link_pair(LinkSetup::new(2, 20).unmanaged(), Reporting::FRESH);
    let flow = world.add_flow(Rules::CORRECTED, &[managed, rest], &[rest_back, back], 0);
    world.at(20_000, move |world| world.links[rest].setup = LinkSetup::new(20, 20).unmanaged());
    world.run_until(30_000);
    let settled = world.settled_ms(flow, [4.75, 5.05], 20_000, 30_000);
    println!("{settled:?}");
    assert!(settled.is_some_and(|millis| millis <= 3_000), "{settled:?}");
}
