//! Flows that leave a slow direct path for a route over relays, and return.

use std::cell::RefCell;
use std::rc::Rc;

use byway_plan::{LatencyTerms, PathReason};
use byway_proto::agent::{Agent, Delivery, RouteStatus, SendFlowId};
use byway_sim::Span;
use byway_sim::overlay::SendSchedule;
use byway_units::{Duration, Time};
use byway_wire::{Service, Services};

use crate::support::{OverlayWorld, Plan, Run, at, ms, secs};

/// Delay of the direct path while it is fast. That over relays is 8 + 25 + 8 ms.
const FAST: Duration = ms(40);

/// Delay up to which packets over relays are in time.
const BY_RELAYS_MAX: Duration = ms(50);

/// One flow, whose sender leaves a direct path of more than 50 ms.
fn plan_with_limits(service: Service, length: Duration) -> Plan {
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

/// Returns the sender of the first flow, and the flow.
fn sender<'a>(run: &Run, world: &'a OverlayWorld) -> (&'a Agent, SendFlowId) {
    (world.host(run.agents[0]).agent(), run.sending[0].expect("the flow is open"))
}

/// Looks at the first flow every 100 ms of a run of this length.
fn watch(world: &mut OverlayWorld, length: Duration) -> Sightings {
    let sightings = Sightings::default();
    for look in 30..length.as_millis() / 100 {
        let seen = sightings.clone();
        Run::schedule(world, at(look * 100), move |run, world| {
            let (agent, flow) = sender(run, world);
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

/// Returns the services of a flow, one after the other.
fn service_sequence(sightings: &[Sighting]) -> Vec<Service> {
    services(sightings).into_iter().map(|(_, service)| service).collect()
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
        let (mut world, mut run) = plan_with_limits(service, length).build();
        change_delays(&mut world, [(at(20_000), ms(120)), (at(60_000), FAST)]);
        let sightings = watch(&mut world, length);
        run.finish(&mut world);
        let (seen, fates) = (sightings.borrow(), run.fates(&world));
        let fate = &fates[0];
        let services = services(&seen);
        let case = format!("{service:?}: {services:?} {fate:?}");
        let expected = [service, Service::Both, Service::Forwarding, Service::Both, service];
        assert_eq!(service_sequence(&seen), expected, "{case}");
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
    let (mut world, mut run) = plan_with_limits(Service::Caching, secs(40)).build();
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
        let (mut world, mut run) = plan_with_limits(Service::Caching, length).build();
        let delay = |nth: u64| if nth.is_multiple_of(2) { ms(56) } else { ms(50) };
        let changes = (0..100 / period).map(|nth| (at(20_000 + nth * period * 1_000), delay(nth)));
        change_delays(&mut world, changes);
        let sightings = watch(&mut world, secs(20 + 100 / period * period));
        run.finish(&mut world);
        let expected = [Service::Caching, Service::Both, Service::Forwarding];
        assert_eq!(service_sequence(&sightings.borrow()), expected, "every {period} s");
        assert_eq!(run.fates(&world)[0].missing, 0, "every {period} s");
    }
}

#[test]
fn a_path_that_is_acceptable_or_as_fast_as_relays_is_kept() {
    for (delay, between) in [(ms(49), ms(2)), (ms(60), ms(40))] {
        let mut plan = plan_with_limits(Service::Caching, secs(40));
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
    let mut plan = plan_with_limits(Service::Caching, secs(80)).with_standby_relays();
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
    let mut plan = plan_with_limits(Service::Caching, secs(140));
    plan.between.outages.push(Span::new(at(40_000), secs(10)));
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
    // Relays deliver nothing until the receiver's notice of silence has arrived.
    let missing = run.missing(0, at(41_000), at(139_000));
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_flow_of_ten_packets_a_second_leaves_and_returns_as_well() {
    let length = secs(120);
    let plan = plan_with_limits(Service::Caching, length)
        .each_flow(|flow| flow.sending = SendSchedule::Paced(ms(100)));
    let (mut world, mut run) = plan.build();
    change_delays(&mut world, [(at(20_000), ms(120)), (at(60_000), FAST)]);
    let sightings = watch(&mut world, length);
    run.finish(&mut world);
    let seen = sightings.borrow();
    let case = format!("{:?}", services(&seen));
    let expected = [Service::Caching, Service::Both, Service::Forwarding, Service::Both, Service::Caching];
    assert_eq!(service_sequence(&seen), expected, "{case}");
    // The direct path is sampled each 1.6 s.
    assert!((at(90_000)..at(100_000)).contains(&services(&seen)[3].0), "{case}");
    assert_eq!(run.fates(&world)[0].missing, 0, "{case}");
}

#[test]
fn a_standing_change_in_one_direction_counts_in_that_direction_alone() {
    for (forth, back, has_route) in [(ms(58), FAST, true), (FAST, ms(100), false)] {
        let length = secs(150);
        let (mut world, mut run) = plan_with_limits(Service::Caching, length).build();
        Run::schedule(&mut world, at(20_000), move |run, world| {
            (run.plan.flows[0].direct.delay, run.plan.flows[0].back.delay) = (forth, back);
            run.connect(world);
        });
        let sightings = watch(&mut world, length);
        run.finish(&mut world);
        for seen in sightings.borrow().iter().filter(|seen| seen.at >= at(24_000)) {
            let case = format!("{forth} and {back}, at {}: {:?}", seen.at, seen.route);
            assert_eq!(seen.route.route().is_some(), has_route, "{case}");
        }
        assert_eq!(run.fates(&world)[0].missing, 0, "{forth} and {back}");
    }
}

#[test]
fn a_faster_route_that_delivers_nothing_costs_no_packet() {
    let mut plan = plan_with_limits(Service::Caching, secs(110)).with_standby_relays();
    for agent in &mut plan.agents {
        (agent.relays[0].1.delay, agent.relays[1].1.delay) = (ms(15), ms(40));
    }
    let (mut world, mut run) = plan.build();
    change_delays(&mut world, [(at(20_000), ms(120))]);
    Run::schedule(&mut world, at(40_000), |run, world| {
        run.plan.agents.iter_mut().for_each(|agent| agent.relays[1].1.delay = ms(2));
        run.connect(world);
    });
    let is_faster = |status: &RouteStatus| {
        status.selection.is_some_and(|selection| selection.reason == PathReason::FasterRoute)
    };
    for look in 0..1_000 {
        Run::schedule(&mut world, at(60_000 + look * 20), move |run, world| {
            let (agent, flow) = sender(run, world);
            if agent.route_status(flow).as_ref().is_some_and(is_faster) {
                let mut between = run.plan.between.clone();
                between.outages.push(Span::new(Time::START, secs(1_000)));
                world.connect_both(run.relays[2], run.relays[3], &between);
            }
        });
    }
    let sightings = watch(&mut world, secs(110));
    run.finish(&mut world);
    let seen = sightings.borrow();
    let mut routes: Vec<_> = seen.iter().filter_map(|seen| seen.route.selection).collect();
    routes.dedup();
    assert!(seen.iter().any(|seen| is_faster(&seen.route)), "{routes:?}");
    assert!(routes.iter().any(|selection| selection.reason == PathReason::RouteFailed), "{routes:?}");
    assert_eq!(run.fates(&world)[0].missing, 0, "{routes:?}");
}

#[test]
fn while_relays_forward_a_flow_one_packet_in_sixteen_uses_the_direct_path() {
    let (mut world, mut run) = plan_with_limits(Service::Caching, secs(60)).build();
    change_delays(&mut world, [(at(10_000), ms(120))]);
    let usages = Rc::new(RefCell::new(Vec::new()));
    for time in [30_000, 46_000] {
        let usages = usages.clone();
        Run::schedule(&mut world, at(time), move |run, world| {
            let (agent, flow) = sender(run, world);
            usages.borrow_mut().push(agent.sent_usage(flow).expect("the flow is open"));
        });
    }
    run.finish(&mut world);
    let usages = usages.borrow();
    let packets = usages[1].source.packets - usages[0].source.packets;
    let samples = usages[1].direct.packets - usages[0].direct.packets;
    assert_eq!((packets, samples), (1_600, 100));
}

#[test]
fn the_route_of_a_flow_uses_services_that_its_grants_allow() {
    let all = Services::ALL;
    for (granted, expected) in [
        (all, vec![Service::Caching, Service::Both, Service::Forwarding]),
        (all.without(Service::Forwarding), vec![Service::Caching, Service::Both]),
        (all.without(Service::Both), vec![Service::Caching]),
    ] {
        let mut plan =
            plan_with_limits(Service::Caching, secs(40)).each_flow(|flow| flow.terms.services = granted);
        plan.has_controller = true;
        let (mut world, mut run) = plan.build();
        change_delays(&mut world, [(at(10_000), ms(120))]);
        let sightings = watch(&mut world, secs(40));
        run.finish(&mut world);
        assert_eq!(service_sequence(&sightings.borrow()), expected, "{granted:?}");
        assert_eq!(run.fates(&world)[0].missing, 0, "{granted:?}");
    }
}

/// Sets services of the first flow, and asserts the results.
fn set_services(world: &mut OverlayWorld, time: Time, services: Vec<(Service, bool)>) {
    Run::schedule(world, time, move |run, world| {
        let flow = run.sending[0].expect("the flow is open");
        world.input(run.agents[0], |host, now| {
            for (service, expected) in services {
                let begins = host.overlay_mut().as_agent_mut().set_service(flow, service, now);
                assert_eq!(begins, expected, "{service:?}");
            }
        });
    });
}

#[test]
fn a_service_that_is_set_while_a_flow_has_a_route_is_that_after_its_return() {
    let mut plan = plan_with_limits(Service::Caching, secs(110))
        .each_flow(|flow| flow.terms.services = Services::ALL.without(Service::Coding));
    plan.has_controller = true;
    let (mut world, mut run) = plan.build();
    change_delays(&mut world, [(at(20_000), ms(120)), (at(60_000), FAST)]);
    let services = vec![(Service::Coding, false), (Service::Caching, false), (Service::Pull, true)];
    set_services(&mut world, at(40_000), services);
    set_services(&mut world, at(41_000), vec![(Service::Pull, false)]);
    let sightings = watch(&mut world, secs(110));
    run.finish(&mut world);
    let expected = [Service::Caching, Service::Both, Service::Forwarding, Service::Both, Service::Pull];
    assert_eq!(service_sequence(&sightings.borrow()), expected);
    assert_eq!(run.fates(&world)[0].missing, 0);
}

#[test]
fn a_flow_whose_service_is_set_to_forwarding_selects_no_routes_any_more() {
    for (time, slow_from) in [(40_000, 20_000), (20_000, 40_000)] {
        let (mut world, mut run) = plan_with_limits(Service::Caching, secs(110)).build();
        change_delays(&mut world, [(at(slow_from), ms(120)), (at(60_000), FAST)]);
        set_services(&mut world, at(time), vec![(Service::Forwarding, true), (Service::Forwarding, false)]);
        run.finish(&mut world);
        let (agent, flow) = sender(&run, &world);
        let service = agent.flow_status(flow).map(|status| status.service);
        assert_eq!((agent.route_status(flow), service), (None, Some(Service::Forwarding)), "at {time} ms");
        let direct = agent.sent_usage(flow).expect("the flow is open").direct.packets;
        assert!(direct < 3_000, "{direct} packets on the direct path, at {time} ms");
    }
}
