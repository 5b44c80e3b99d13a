//! Selection of services by the sender, from delays that all nodes measure.

use byway_plan::Reason;
use byway_proto::agent::{Delivery, FlowDelays};
use byway_sim::Link;
use byway_units::Duration;
use byway_wire::Service;

use crate::support::{ARRANGEMENTS, OverlayWorld, Plan, Run, access, at, ms, secs};

/// Two flows that lose every 16th packet, and whose sender selects the service.
fn automatic(budget: Duration, length: Duration) -> Plan {
    let plan = Plan::pairs(2, Service::Caching).each_flow(|flow| {
        flow.length = length;
        (flow.settings.latency_budget, flow.settings.automatic_service) = (budget, true);
    });
    plan.losing_in_turn()
}

/// Returns the first flow's service, and its measured delays.
fn state(run: &Run, world: &OverlayWorld) -> (Service, Option<FlowDelays>) {
    let (agent, flow) = (world.host(run.agents[0]).agent(), run.sending[0].expect("the flow is open"));
    let status = agent.flow_status(flow).expect("the flow is open");
    if let Some(selection) = agent.selection(flow) {
        assert_ne!(selection.reason, Reason::NothingIsLost);
    }
    (status.service, agent.flow_delays(flow))
}

fn assert_near(measured: Option<Duration>, expected: Duration, name: &str) {
    let measured = measured.unwrap_or_else(|| panic!("{name} is measured"));
    let error = measured.max(expected) - measured.min(expected);
    assert!(error <= ms(2), "{name}: {measured:?} is not {expected:?}");
}

/// Gives the receivers this delay to their relay, and the senders the usual one.
fn with_receivers_at(delay: Duration, mut plan: Plan) -> Plan {
    for agent in plan.agents.iter_mut().skip(1).step_by(2) {
        for (_, link) in &mut agent.relays {
            *link = Link { delay, ..access() };
        }
    }
    plan
}

#[test]
fn a_wide_budget_is_met_by_retransmission_in_every_arrangement() {
    for (name, arrange) in ARRANGEMENTS {
        let (mut world, mut run) = arrange(automatic(ms(300), secs(10))).build();
        Run::schedule(&mut world, at(8_000), |run, world| {
            assert_eq!(state(run, world).0, Service::Retransmission);
        });
        run.finish(&mut world);
        let fate = &run.fates(&world)[0];
        assert!(fate.lost >= 55 && fate.missing == 0, "{name}: {fate:?}");
    }
}

#[test]
fn delays_at_both_ends_and_between_relays_are_measured() {
    let mut plan = with_receivers_at(ms(30), automatic(ms(300), secs(10)));
    plan.between.delay = ms(21);
    let (mut world, mut run) = plan.build();
    Run::schedule(&mut world, at(9_000), |run, world| {
        let measured = state(run, world).1.expect("delays are measured");
        assert_near(Some(measured.direct), ms(50), "direct path");
        assert_near(Some(measured.to_ingress), ms(8), "access of the sender");
        assert_near(measured.between, ms(21), "relays");
        assert_near(measured.to_receiver, ms(30), "access of the receiver");
        // Packets are 10 ms apart, and the timeout is a quarter more.
        assert_near(measured.detection, ms(3), "detection");
    });
    run.finish(&mut world);
}

/// Returns the service that a flow with this budget has after eight seconds, if its receiver has
/// this delay to its relay.
fn service_for(budget: Duration, to_receiver: Duration) -> Service {
    let (mut world, mut run) = with_receivers_at(to_receiver, automatic(budget, secs(9))).build();
    Run::schedule(&mut world, at(10_000), |run, world| {
        assert!(state(run, world).1.is_some(), "delays are measured");
    });
    run.finish(&mut world);
    state(&run, &world).0
}

#[test]
fn a_receiver_far_from_its_relay_gets_a_service_without_requests_to_it() {
    // A repair from the cache takes 50 + 3 + 2 * 7.5 ms, or 50 + 3 + 2 * 40 ms.
    assert_eq!(service_for(ms(105), ms(8)), Service::Caching);
    assert_eq!(service_for(ms(105), ms(40)), Service::Both);
}

/// Flows of one tenant whose senders select the services. Their budget allows repairs with other
/// receivers, 50 + 3 + 4 * 8 ms, but no requests to the ingress relay.
fn with_coding_peers(flows: usize) -> Plan {
    let plan = Plan::pairs(flows, Service::Caching).each_flow(|flow| {
        flow.length = secs(25);
        (flow.settings.latency_budget, flow.settings.automatic_service) = (ms(115), true);
    });
    plan.losing_in_turn()
}

#[test]
fn flows_with_coding_peers_are_coded_once_their_losses_are_measured() {
    // Where one relay is near both ends, requests to it are as fast as repairs with others.
    for (name, arrange) in ARRANGEMENTS.iter().filter(|(name, _)| !name.contains("common relay")).skip(1) {
        let (mut world, mut run) = arrange(with_coding_peers(8)).build();
        Run::schedule(&mut world, at(20_000), |run, world| {
            for (agent, flow) in run.agents.iter().step_by(2).zip(&run.sending) {
                let agent = world.host(*agent).agent();
                let flow = flow.expect("the flow is open");
                assert_eq!(agent.flow_status(flow).map(|status| status.service), Some(Service::Coding));
            }
        });
        run.finish(&mut world);
        for fate in run.fates(&world) {
            let cooperative = fate.by(Delivery::Cooperative);
            assert!(fate.lost >= 140 && fate.missing == 0 && cooperative >= 60, "{name}: {fate:?}");
        }
    }
}

#[test]
fn a_flow_alone_is_never_coded() {
    let (mut world, mut run) = with_coding_peers(1).build();
    Run::schedule(&mut world, at(20_000), |run, world| {
        assert_eq!(state(run, world).0, Service::Caching);
    });
    run.finish(&mut world);
}
