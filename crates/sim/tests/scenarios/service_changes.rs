//! Changes of the services of flows while they run.

use byway_sim::Jitter;
use byway_units::{Duration, Time};
use byway_wire::Service;

use crate::support::{ARRANGEMENTS, OverlayWorld, Plan, Run, at, ms, secs};

/// Services that repair the losses of the direct path on request.
const SERVICES: [Service; 4] = [Service::Retransmission, Service::Pull, Service::Coding, Service::Caching];

/// Changes the service of the first flow at each of these times, from one to the next.
fn change_services(world: &mut OverlayWorld, services: impl IntoIterator<Item = (Time, Service)>) {
    for (time, service) in services {
        Run::schedule(world, time, move |run, world| {
            let flow = run.sending[0].expect("the flow is open");
            world.input(run.agents[0], |host, now| {
                host.overlay_mut().as_agent_mut().set_service(flow, service, now)
            });
        });
    }
}

/// Returns the service of the first flow at both ends.
fn services_of(run: &Run, world: &OverlayWorld) -> [Option<Service>; 2] {
    let sent = run.sending[0].and_then(|flow| world.host(run.agents[0]).agent().flow_status(flow));
    let received =
        run.receiving[0].and_then(|flow| world.host(run.agents[1]).agent().received_flow_status(flow));
    [sent, received].map(|status| status.map(|status| status.service))
}

/// Two flows that lose every 16th packet.
fn lossy(service: Service, length: Duration) -> Plan {
    Plan::pairs(2, service).each_flow(|flow| flow.length = length).losing_in_turn()
}

#[test]
fn changes_between_any_two_services_lose_and_repeat_nothing() {
    for (name, arrange) in ARRANGEMENTS {
        for before in SERVICES.into_iter().chain([Service::Both]) {
            for after in SERVICES.into_iter().filter(|after| *after != before) {
                let (mut world, mut run) = arrange(lossy(before, secs(6))).build();
                change_services(&mut world, [(at(5_000), after)]);
                run.finish(&mut world);
                let fate = &run.fates(&world)[0];
                let case = format!("{name}, {before:?} to {after:?}: {fate:?}");
                assert_eq!(services_of(&run, &world), [Some(after); 2], "{case}");
                assert!(fate.lost >= 35 && fate.missing == 0, "{case}");
            }
        }
    }
}

/// Packets that coding loses until it notices an outage.
const LOST_UNTIL_NOTICED: u64 = 13;

#[test]
fn a_change_in_an_outage_keeps_the_flow_repaired() {
    for (name, arrange) in ARRANGEMENTS {
        for before in SERVICES.into_iter().chain([Service::Both]) {
            for after in SERVICES.into_iter().filter(|after| *after != before) {
                let mut plan = arrange(lossy(before, secs(10)));
                plan.add_outage(0, at(5_000), secs(3));
                let (mut world, mut run) = plan.build();
                change_services(&mut world, [(at(6_000), after)]);
                run.finish(&mut world);
                let fate = &run.fates(&world)[0];
                let case = format!("{name}, {before:?} to {after:?}: {fate:?}");
                assert_eq!(services_of(&run, &world), [Some(after); 2], "{case}");
                assert!(fate.lost >= 180 && fate.missing <= LOST_UNTIL_NOTICED, "{case}");
            }
        }
    }
}

#[test]
fn after_a_change_from_both_paths_with_faster_relays_repairs_are_in_time() {
    // The direct path takes 50 ms, and relays 26 ms. Repairs take 70 or 106 ms. If their lateness
    // counted from the packets of the relays, they would be 24 ms later.
    for (after, budget) in [(Service::Caching, ms(85)), (Service::Retransmission, ms(140))] {
        let mut plan = lossy(Service::Both, secs(8)).each_flow(|flow| flow.settings.latency_budget = budget);
        plan.between.delay = ms(10);
        let (mut world, mut run) = plan.build();
        change_services(&mut world, [(at(4_000), after)]);
        run.finish(&mut world);
        let fate = &run.fates(&world)[0];
        assert_eq!(services_of(&run, &world), [Some(after); 2], "{fate:?}");
        let statistics = run.statistics(0, &world);
        assert!(fate.missing == 0 && statistics.repaired() >= 20, "{after:?}: {fate:?} {statistics:?}");
        assert!(statistics.covered >= 8 && statistics.forwarded >= 100, "{after:?}: {statistics:?}");
    }
}

#[test]
fn two_hundred_and_fifty_changes_under_load_lose_nothing() {
    let changes = 250;
    let every = ms(500);
    let mut plan = lossy(Service::Caching, every * (changes + 4));
    plan.flows[0].direct.jitter = Jitter { max: ms(3), may_reorder: true };
    let (mut world, mut run) = plan.build();
    let service = |nth| SERVICES[usize::try_from(nth * 7 / 3 % 4).expect("one of four")];
    let services = (0..changes).map(|nth| (at(3_000) + every * nth, service(nth)));
    change_services(&mut world, services);
    run.finish(&mut world);
    let fate = &run.fates(&world)[0];
    assert_eq!(services_of(&run, &world), [Some(service(changes - 1)); 2], "{fate:?}");
    assert!(fate.lost >= 700 && fate.missing == 0, "{fate:?}");
}

#[test]
fn a_change_whose_messages_are_lost_leaves_the_flow_repaired() {
    for after in [Service::Retransmission, Service::Pull] {
        let mut plan = lossy(Service::Caching, secs(8));
        plan.add_outage(0, at(5_000), secs(1));
        let (mut world, mut run) = plan.build();
        change_services(&mut world, [(at(4_990), after)]);
        run.finish(&mut world);
        let fate = &run.fates(&world)[0];
        assert_eq!(services_of(&run, &world), [Some(after); 2], "{fate:?}");
        assert!(fate.lost >= 60 && fate.missing <= 3, "{after:?}: {fate:?}");
    }
}

#[test]
fn after_a_restart_of_either_end_both_have_the_same_service() {
    for (agent, expected) in [(0, Service::Caching), (1, Service::Pull)] {
        let (mut world, mut run) = lossy(Service::Caching, secs(12)).build();
        change_services(&mut world, [(at(4_000), Service::Pull)]);
        Run::schedule(&mut world, at(6_000), move |run, world| {
            assert_eq!(services_of(run, world), [Some(Service::Pull); 2], "the change was made");
            run.restart_agent(agent, world);
        });
        run.finish(&mut world);
        let fate = &run.fates(&world)[0];
        assert_eq!(services_of(&run, &world), [Some(expected); 2], "{agent}: {fate:?}");
        // An agent that restarts is back within a second.
        assert!(fate.lost >= 40 && fate.missing <= 100, "{agent}: {fate:?}");
    }
}
