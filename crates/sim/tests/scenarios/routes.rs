//! Flows that leave a slow direct path for a route over relays, and return.

use std::cell::RefCell;
use std::rc::Rc;

use byway_plan::{LatencyTerms, PathReason};
use byway_proto::agent::{Delivery, RouteStatus};
use byway_units::{Duration, Time};
use byway_wire::Service;

use crate::support::{OverlayWorld, Plan, Run, at, ms, secs};

/// Delay of the direct path while it is fast. That over relays is 8 + 25 + 8 ms.
const FAST: Duration = ms(40);

/// Delay up to which packets over relays are in time.
const BY_RELAYS_MAX: Duration = ms(50);

/// One flow, whose sender leaves a direct path of more than 50 ms.
fn limited(service: Service, length: Duration) -> Plan {
    let mut plan = Plan::pairs(1, service).each_flow(|flow| {
        flow.length = length;
        flow.settings.latency = Some(Box::new(LatencyTerms { acceptable: ms(50), gain: ms(10) }));
        (flow.direct.delay, flow.back.delay) = (FAST, FAST);
    });
    plan.between.delay = ms(25);
    plan
}

/// Gives the direct path another delay at these times, in both directions.
fn change_delays(world: &mut OverlayWorld, changes: impl IntoIterator<Item = (Time, Duration)>) {
    for (time, delay) in changes {
        Run::schedule(world, time, move |run, world| {
            for flow in &mut run.plan.flows {
                (flow.direct.delay, flow.back.delay) = (delay, delay);
            }
            run.connect(world);
        });
    }
}

/// Service and path of the first flow at its sender, at one time.
#[derive(Clone, Copy, Debug)]
struct Sighting {
    at: Time,
    service: Service,
    path_in_use: Option<usize>,
    route: RouteStatus,
}

/// Sightings of a flow, the oldest first.
type Sightings = Rc<RefCell<Vec<Sighting>>>;

/// Looks at the first flow every 100 ms of a run of this length.
fn watch(world: &mut OverlayWorld, length: Duration) -> Sightings {
    let sightings = Sightings::default();
    for look in 30..length.as_millis() / 100 {
        let seen = sightings.clone();
        Run::schedule(world, at(look * 100), move |run, world| {
            let (agent, flow) =
                (world.host(run.agents[0]).agent(), run.sending[0].expect("the flow is open"));
            let status = agent.flow_status(flow).expect("the flow is open");
            let route = agent.route_status(flow).expect("the flow has limits of its latency");
            let (service, path_in_use) = (status.service, status.path_in_use);
            seen.borrow_mut().push(Sighting { at: world.now(), service, path_in_use, route });
        });
    }
    sightings
}

/// Returns the services of a flow, each with the time from which it was seen.
fn services(sightings: &[Sighting]) -> Vec<(Time, Service)> {
    let mut services: Vec<(Time, Service)> = Vec::new();
    for seen in sightings {
        if services.last().is_none_or(|(_, service)| *service != seen.service) {
            services.push((seen.at, seen.service));
        }
    }
    services
}

/// Returns the longest delay of the first flow's packets that were sent in a span of time.
fn longest_delay(run: &Run, from: Time, until: Time) -> Duration {
    let delays = run.delivered.iter().filter(|got| got.flow == 0).filter_map(|got| {
        let sent = run.sent[0][usize::try_from(got.number).expect("few packets")];
        (from..until).contains(&sent).then(|| got.at.saturating_since(sent))
    });
    delays.max().expect("packets were delivered")
}

#[test]
fn a_direct_path_that_becomes_slow_is_left_within_two_seconds_and_returned_to() {
    for service in [Service::Caching, Service::Retransmission, Service::Pull, Service::Coding] {
        let length = secs(110);
        let (mut world, mut run) = limited(service, length).build();
        change_delays(&mut world, [(at(20_000), ms(120)), (at(60_000), FAST)]);
        let sightings = watch(&mut world, length);
        run.finish(&mut world);
        let (seen, fates) = (sightings.borrow(), run.fates(&world));
        let fate = &fates[0];
        let services = services(&seen);
        let case = format!("{service:?}: {services:?} {fate:?}");
        let names: Vec<Service> = services.iter().map(|(_, service)| *service).collect();
        let expected = [service, Service::Both, Service::Forwarding, Service::Both, service];
        assert_eq!(names, expected, "{case}");
        assert!((at(20_000)..=at(22_000)).contains(&services[1].0), "{case}");
        assert!((at(90_000)..=at(95_000)).contains(&services[3].0), "{case}");
        assert_eq!(fate.missing, 0, "{case}");
        for (from, until) in [(22_000, 59_500), (61_000, 110_000)] {
            let delay = longest_delay(&run, at(from), at(until));
            assert!(delay <= BY_RELAYS_MAX, "{case}: {delay} from {from} ms");
        }
        let by_relays = run.delivery_counts(0, at(30_000), at(60_000));
        assert!(by_relays.get(&Delivery::Forwarded) >= Some(&2_900), "{case}: {by_relays:?}");
        assert_eq!(seen[seen.len() - 1].route.route(), None, "{case}");
    }
}

#[test]
fn while_the_direct_path_is_slow_the_status_has_the_delays_of_both_paths() {
    let (mut world, mut run) = limited(Service::Caching, secs(40)).build();
    change_delays(&mut world, [(at(10_000), ms(120))]);
    let sightings = watch(&mut world, secs(40));
    run.finish(&mut world);
    let last = sightings.borrow().last().copied().expect("it was seen");
    assert_eq!(last.route.selection.map(|selection| selection.reason), Some(PathReason::DirectTooSlow));
    let delays = [last.route.observation.direct, last.route.observation.route];
    for (found, expected) in delays.into_iter().zip([ms(120), ms(41)]) {
        let byway_plan::PathDelay::Measured(found) = found else {
            panic!("{found:?} is not {expected:?}");
        };
        let error = found.max(expected) - found.min(expected);
        assert!(error <= ms(5), "{found} is not {expected}");
    }
}

#[test]
fn a_direct_path_that_varies_at_the_threshold_is_left_once() {
    for period in [3, 11, 29] {
        let length = secs(150);
        let (mut world, mut run) = limited(Service::Caching, length).build();
        let delay = |nth: u64| if nth.is_multiple_of(2) { ms(56) } else { ms(50) };
        let changes = (0..100 / period).map(|nth| (at(20_000 + nth * period * 1_000), delay(nth)));
        change_delays(&mut world, changes);
        let sightings = watch(&mut world, secs(20 + 100 / period * period));
        run.finish(&mut world);
        let services: Vec<Service> =
            services(&sightings.borrow()).into_iter().map(|(_, service)| service).collect();
        let expected = [Service::Caching, Service::Both, Service::Forwarding];
        assert_eq!(services, expected, "every {period} s");
        assert_eq!(run.fates(&world)[0].missing, 0, "every {period} s");
    }
}

#[test]
fn a_path_that_is_acceptable_or_as_fast_as_relays_is_kept() {
    for (delay, between) in [(ms(49), ms(2)), (ms(60), ms(40))] {
        let mut plan = limited(Service::Caching, secs(40));
        plan.between.delay = between;
        let (mut world, mut run) = plan.build();
        change_delays(&mut world, [(at(10_000), delay)]);
        let sightings = watch(&mut world, secs(40));
        run.finish(&mut world);
        assert!(sightings.borrow().iter().all(|seen| seen.service == Service::Caching), "{delay}");
    }
}

#[test]
fn the_route_is_the_fastest_of_the_flows_relay_paths() {
    let mut plan = limited(Service::Caching, secs(80)).with_standby_relays();
    for agent in &mut plan.agents {
        agent.relays[1].1.delay = ms(2);
    }
    let (mut world, mut run) = plan.build();
    change_delays(&mut world, [(at(20_000), ms(120)), (at(40_000), FAST)]);
    let sightings = watch(&mut world, secs(80));
    run.finish(&mut world);
    let seen = sightings.borrow();
    let path_at =
        |time: Time| seen.iter().rev().find(|seen| seen.at <= time).and_then(|seen| seen.path_in_use);
    assert_eq!(path_at(at(19_000)), Some(0), "the first one");
    assert_eq!(path_at(at(24_000)), Some(1), "29 ms instead of 41");
    assert_eq!(path_at(at(79_000)), Some(0));
    assert_eq!(run.fates(&world)[0].missing, 0);
    assert!(longest_delay(&run, at(23_000), at(39_500)) <= ms(36));
}

#[test]
fn where_the_route_fails_the_flow_returns_to_the_direct_path_and_waits_a_minute() {
    let mut plan = limited(Service::Caching, secs(140));
    plan.between.outages.push(byway_sim::Span::new(at(40_000), secs(10)));
    let (mut world, mut run) = plan.build();
    change_delays(&mut world, [(at(20_000), ms(120))]);
    let sightings = watch(&mut world, secs(140));
    run.finish(&mut world);
    let seen = sightings.borrow();
    let has_route = |time: Time| {
        let seen = seen.iter().rev().find(|seen| seen.at <= time).expect("it was seen");
        seen.route.route().is_some()
    };
    let expected = [(39_000, true), (48_000, false), (95_000, false), (138_000, true)];
    for (millis, expected) in expected {
        assert_eq!(has_route(at(millis)), expected, "{millis} ms: {:?}", services(&seen));
    }
    // Relays deliver nothing until the sender notices.
    assert!(run.missing(0, at(44_000), at(139_000)).is_empty());
}
