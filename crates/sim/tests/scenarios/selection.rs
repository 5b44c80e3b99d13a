//! Selection of services by the sender, from delays that all nodes measure.

use std::cell::RefCell;
use std::rc::Rc;

use byway_plan::Reason;
use byway_proto::agent::{Delivery, FlowDelays, SentUsage};
use byway_sim::Link;
use byway_units::{Duration, Time};
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
pub(crate) fn with_receivers_at(delay: Duration, mut plan: Plan) -> Plan {
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

/// One flow whose direct path loses two packets in five from 4 s until 92 s, and none after that.
/// Its budget leaves no time for requests: the receiver is 40 ms from its relay.
fn bad_for_a_while(length: Duration) -> Plan {
    let plan = Plan::pairs(1, Service::Both).each_flow(|flow| {
        flow.length = length;
        (flow.settings.latency_budget, flow.settings.automatic_service) = (ms(105), true);
    });
    let mut plan = with_receivers_at(ms(40), plan);
    for number in (200..9_000).filter(|number| matches!(number % 5, 0 | 2)) {
        plan.lose(0, number, 1);
    }
    plan
}

/// Services of the first flow, each with the time at which it was seen first.
type ServiceChanges = Rc<RefCell<Vec<(Time, Service)>>>;

/// Looks at the first flow every 100 ms of a run of this length.
fn watch(world: &mut OverlayWorld, length: Duration) -> ServiceChanges {
    let changes = ServiceChanges::default();
    for look in 30..length.as_millis() / 100 {
        let seen = changes.clone();
        Run::schedule(world, at(look * 100), move |run, world| {
            let (service, _) = state(run, world);
            let mut seen = seen.borrow_mut();
            if seen.last().is_none_or(|(_, last)| *last != service) {
                seen.push((world.now(), service));
            }
        });
    }
    changes
}

/// Records the packets that the first flow has sent at these times.
pub(crate) fn usages_at(
    world: &mut OverlayWorld,
    millis: impl IntoIterator<Item = u64>,
) -> Rc<RefCell<Vec<SentUsage>>> {
    let usages = Rc::new(RefCell::new(Vec::new()));
    for time in millis {
        let usages = usages.clone();
        Run::schedule(world, at(time), move |run, world| {
            let (agent, flow) = (world.host(run.agents[0]).agent(), run.sending[0]);
            usages.borrow_mut().extend(flow.and_then(|flow| agent.sent_usage(flow)));
        });
    }
    usages
}

#[test]
fn a_bad_direct_path_that_no_request_repairs_in_time_is_left_to_relays_until_it_is_clean() {
    let length = secs(240);
    let (mut world, mut run) = bad_for_a_while(length).build();
    let changes = watch(&mut world, length);
    let usages = usages_at(&mut world, [74_000, 90_000]);
    run.finish(&mut world);
    let (changes, fate) = (changes.borrow(), run.fates(&world).remove(0));
    let case = format!("{changes:?} {fate:?}");
    let services: Vec<Service> = changes.iter().map(|(_, service)| *service).collect();
    let expected = [Service::Both, Service::Forwarding, Service::Both, Service::Retransmission];
    assert_eq!(services, expected, "{case}");
    // A thousand losses, 40 in a second, show that relays deliver. The cheaper service follows 30 s
    // later, and 30 s after a minute without losses of the samples.
    assert!((at(55_000)..at(72_000)).contains(&changes[1].0), "{case}");
    assert!((at(175_000)..at(195_000)).contains(&changes[2].0), "{case}");
    // Each datagram is delivered once: a run fails if one is delivered twice.
    assert!(fate.lost >= 2_000, "{case}");
    assert_eq!((fate.missing, run.delivered.len() as u64), (0, fate.sent), "{case}");
    let usages = usages.borrow();
    let packets = usages[1].source.packets - usages[0].source.packets;
    let samples = usages[1].direct.packets - usages[0].direct.packets;
    assert_eq!((packets, samples), (1_600, 100), "{case}");
    let relayed = usages[1].to_relays.packets - usages[0].to_relays.packets;
    assert!(relayed.abs_diff(packets) <= 2, "{relayed} of {packets}, {case}");
}
