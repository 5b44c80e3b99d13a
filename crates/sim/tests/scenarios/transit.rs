//! Tests of packets between relays through a third one, which is nearer to both than they are to
//! each other.

use std::cell::RefCell;
use std::rc::Rc;

use byway_proto::relay::{RelayCounters, TransitRouteStatus};
use byway_sim::Link;
use byway_units::{Duration, Time};
use byway_wire::Service;

use crate::support::{OverlayWorld, Plan, Run, at, ms, secs};

/// Delay between the relays of the flows, and between each of them and the third one.
const DIRECT: Duration = ms(100);
const TO_THIRD: Duration = ms(20);

/// Bounds of the delay from sender to receiver: twice 7.5 ms, up to a millisecond of jitter each,
/// and the path between the relays. Relays and agents may need some time.
const SLOW: (Duration, Duration) = (ms(115), ms(120));
const FAST: (Duration, Duration) = (ms(55), ms(60));

/// Relays 0 and 1 with a flow of 100 packets a second, and relay 2, which passes on packets.
fn plan(length: Duration) -> Plan {
    let mut plan = Plan::pairs(1, Service::Forwarding).with_third_relay().each_flow(|flow| {
        flow.length = length;
        (flow.direct.delay, flow.back.delay) = (ms(150), ms(150));
    });
    plan.between.delay = DIRECT;
    plan
}

/// Gives the path between two relays another delay.
fn set_delay(run: &Run, world: &mut OverlayWorld, (one, other): (usize, usize), delay: Duration) {
    world.connect_both(run.relays[one], run.relays[other], &Link { delay, ..Link::default() });
}

fn build(plan: Plan) -> (OverlayWorld, Run) {
    let (mut world, run) = plan.build();
    for relay in [0, 1] {
        set_delay(&run, &mut world, (relay, 2), TO_THIRD);
    }
    (world, run)
}

/// Times at which relay 0 was seen to begin or end the use of a third relay.
type Changes = Rc<RefCell<Vec<(Time, bool)>>>;

/// Interval at which relay 0 is looked at.
const LOOKS: Duration = ms(100);

fn routes(run: &Run, world: &OverlayWorld) -> Vec<TransitRouteStatus> {
    world.host(run.relays[0]).relay().transit_routes()
}

fn watch(world: &mut OverlayWorld, length: Duration) -> Changes {
    let changes = Changes::default();
    for look in 0..length.as_millis() / LOOKS.as_millis() {
        let seen = changes.clone();
        Run::schedule(world, Time::START + LOOKS * look, move |run, world| {
            let is_used = !routes(run, world).is_empty();
            let mut seen = seen.borrow_mut();
            if seen.last().is_some_and(|(_, used)| *used) != is_used {
                seen.push((world.now(), is_used));
            }
        });
    }
    changes
}

/// Returns the least and the greatest delay of the packets sent in a span.
fn delays(run: &Run, from: Time, until: Time) -> (Duration, Duration) {
    let sent_at = |number: u64| run.sent[0][usize::try_from(number).expect("few packets")];
    let delays = run.delivered.iter().filter_map(|got| {
        let sent = sent_at(got.number);
        (from <= sent && sent < until).then(|| got.at.saturating_since(sent))
    });
    let delays: Vec<Duration> = delays.collect();
    let bounds = delays.iter().min().copied().zip(delays.iter().max().copied());
    bounds.expect("packets were delivered")
}

/// True if the first delays are within the other ones.
fn are_within(delays: (Duration, Duration), (least, greatest): (Duration, Duration)) -> bool {
    least <= delays.0 && delays.1 <= greatest
}

fn counters<'a>(run: &Run, world: &'a OverlayWorld, relay: usize) -> &'a RelayCounters {
    world.host(run.relays[relay]).relay().counters()
}

fn passed(run: &Run, world: &OverlayWorld) -> u64 {
    counters(run, world, 2).transit_passed
}

#[test]
fn packets_arrive_sooner_through_a_third_relay_and_none_is_lost_or_doubled() {
    let (mut world, mut run) = build(plan(secs(20)));
    run.finish(&mut world);
    let routes = routes(&run, &world);
    let [TransitRouteStatus { delay, direct_delay, .. }] = routes[..] else {
        panic!("{routes:?}");
    };
    assert!((ms(39)..=ms(41)).contains(&delay), "{delay}");
    assert_eq!(direct_delay, DIRECT);
    let delays = delays(&run, at(8_000), at(22_000));
    assert!(are_within(delays, FAST), "{delays:?}");
    assert_eq!(run.all_missing(Time::START, Time::MAX), 0);
    // Packets of the last 60 ms on the direct path are overtaken. One that the receiver requests
    // meanwhile may arrive twice.
    let duplicates = run.statistics(0, &world).duplicates;
    assert!(duplicates <= 6, "{duplicates}");
    let third = counters(&run, &world, 2);
    assert!(third.transit_passed > 1_400, "{third:?}");
    assert_eq!((third.transit_unknown, third.transit_limited, third.transit_unreachable), (0, 0, 0));
}

#[test]
fn relays_pass_on_nothing_unless_that_is_configured() {
    let mut plan = plan(secs(20));
    plan.transit = None;
    let (mut world, mut run) = build(plan);
    run.finish(&mut world);
    assert!(routes(&run, &world).is_empty());
    let delays = delays(&run, at(2_500), at(22_000));
    assert!(are_within(delays, SLOW), "{delays:?}");
    assert_eq!((passed(&run, &world), run.all_missing(Time::START, Time::MAX)), (0, 0));
}

#[test]
fn a_third_relay_that_dies_is_left_within_two_seconds_and_used_again_after_a_minute() {
    let (mut world, mut run) = build(plan(secs(90)));
    Run::schedule(&mut world, at(10_000), |run, world| world.stop(run.relays[2]));
    Run::schedule(&mut world, at(14_000), |run, world| run.restart_relay(2, world));
    let changes = watch(&mut world, secs(90));
    run.finish(&mut world);
    let changes = changes.borrow();
    let [(begun, true), (left, false), (again, true)] = changes[..] else {
        panic!("{changes:?}");
    };
    assert!(begun < at(8_000) && (at(10_000)..=at(12_000)).contains(&left), "{changes:?}");
    assert!(again + LOOKS >= left + secs(60), "{changes:?}");
    assert_eq!(run.all_missing(Time::START, at(9_900)), 0);
    assert_eq!(run.all_missing(at(12_000), Time::MAX), 0, "the change back loses nothing");
    let after = delays(&run, again + secs(1), at(92_000));
    assert!(are_within(after, FAST), "{after:?}");
}

#[test]
fn a_third_relay_that_becomes_slow_is_left_within_two_seconds_and_nothing_is_lost() {
    let (mut world, mut run) = build(plan(secs(20)));
    Run::schedule(&mut world, at(10_000), |run, world| set_delay(run, world, (0, 2), ms(180)));
    let changes = watch(&mut world, secs(24));
    run.finish(&mut world);
    let changes = changes.borrow();
    let [(_, true), (left, false)] = changes[..] else {
        panic!("{changes:?}");
    };
    assert!((at(10_000)..=at(12_000)).contains(&left), "{changes:?}");
    assert_eq!(run.all_missing(Time::START, Time::MAX), 0);
}

#[test]
fn a_third_relay_is_left_half_a_minute_after_the_gain_is_gone_and_nothing_is_lost() {
    let (mut world, mut run) = build(plan(secs(50)));
    Run::schedule(&mut world, at(10_000), |run, world| set_delay(run, world, (0, 1), ms(45)));
    let changes = watch(&mut world, secs(52));
    run.finish(&mut world);
    let changes = changes.borrow();
    let [(_, true), (left, false)] = changes[..] else {
        panic!("{changes:?}");
    };
    assert!((at(40_000)..=at(43_000)).contains(&left), "{changes:?}");
    assert_eq!(run.all_missing(Time::START, Time::MAX), 0);
}

#[test]
fn repairs_use_the_third_relay_too_and_no_service_loses_anything_by_it() {
    for service in [Service::Caching, Service::Coding] {
        let plan = Plan::pairs(4, service).with_third_relay().losing_in_turn();
        let mut plan = plan.each_flow(|flow| flow.settings.latency_budget = ms(600));
        plan.between.delay = DIRECT;
        let (mut world, mut run) = build(plan);
        run.finish(&mut world);
        let fate = run.fate(&world);
        assert!(fate.lost > 200 && fate.repaired > 190, "{service:?}: {fate:?}");
        assert!(passed(&run, &world) > 100, "{service:?}: {}", passed(&run, &world));
        // In each coding group, one batch is never completed.
        let missing = run.all_missing(at(2_500), at(11_700));
        assert!(missing <= if service == Service::Coding { 4 } else { 0 }, "{service:?}: {fate:?}");
    }
}
