//! Tests of flows and agents that start and end on lossy networks.

use std::collections::BTreeSet;

use byway_proto::agent::Event;
use byway_sim::{Loss, Span};
use byway_units::Time;
use byway_wire::Service;

use crate::support::{OverlayWorld, Plan, Run, at, secs, share};

/// Cached flows on paths that lose one packet in ten, and between agents and relays three in a
/// hundred.
fn lossy() -> Plan {
    let mut plan = Plan::pairs(4, Service::Caching).each_flow(|flow| {
        flow.direct.loss = vec![Loss::Independent(share(0.1))];
        flow.back.loss = vec![Loss::Independent(share(0.1))];
        flow.length = secs(18);
    });
    for agent in &mut plan.agents {
        agent.relays[0].1.loss = vec![Loss::Independent(share(0.03))];
    }
    plan
}

fn close(run: &mut Run, world: &mut OverlayWorld, flow: usize, by_sender: bool) {
    let plan = &run.plan.flows[flow];
    let agent = run.agents[if by_sender { plan.from } else { plan.to }];
    let (sent, received) = (run.sending[flow], run.receiving[flow]);
    world.input(agent, |host, now| {
        let agent = host.overlay_mut().as_agent_mut();
        if by_sender {
            agent.close_flow(sent.expect("it is open"), now);
        } else {
            agent.close_received_flow(received.expect("it is open"), now);
        }
    });
}

fn open(run: &mut Run, world: &mut OverlayWorld, flow: usize) {
    let (key, plan) = (run.plan.key(flow), run.plan.flows[flow].clone());
    let (to_send, to_receive) = (run.plan.settings(flow, true), run.plan.settings(flow, false));
    let (mut sending, mut receiving) = (None, None);
    world.input(run.agents[plan.to], |host, now| {
        receiving = host.overlay_mut().as_agent_mut().accept_flow(key, to_receive, now);
    });
    world.input(run.agents[plan.from], |host, now| {
        sending = host.overlay_mut().as_agent_mut().open_flow(key, to_send, now);
    });
    assert!(sending.is_some() && receiving.is_some(), "both had closed it");
    (run.sending[flow], run.receiving[flow]) = (sending, receiving);
}

/// Returns the agents that received the event of the flow's close by a time.
fn closed(run: &Run, flow: usize, until: Time) -> Vec<usize> {
    let wanted = Event::FlowClosed(run.plan.key(flow));
    let events = run.events.iter().filter(|(time, _, event)| *time < until && *event == wanted);
    events.map(|(_, agent, _)| *agent).collect()
}

/// Returns the number of peers with sessions at a relay, from its debug output.
fn peers(run: &Run, relay: usize, world: &OverlayWorld) -> usize {
    let shown = format!("{:?}", world.host(run.relays[relay]).relay());
    let count = shown.split_once("Sessions(").and_then(|(_, rest)| rest.split_once(' '));
    count.and_then(|(count, _)| count.parse().ok()).expect("the number of peers is shown")
}

#[test]
fn a_flow_is_closed_and_opened_again_whatever_is_lost_on_the_way() {
    for by_sender in [true, false] {
        let mut plan = lossy();
        plan.flows[0].pauses = vec![Span::new(at(6_000), secs(6))];
        let (mut world, mut run) = plan.build();
        Run::schedule(&mut world, at(7_000), move |run, world| close(run, world, 0, by_sender));
        Run::schedule(&mut world, at(11_000), |run, world| open(run, world, 0));
        run.finish(&mut world);
        assert_eq!(closed(&run, 0, at(9_500)), [usize::from(by_sender)]);
        let repaired = |from, until| {
            run.delivery_counts(0, from, until)
                .iter()
                .filter(|(delivery, _)| delivery.is_repair())
                .map(|(_, count)| count)
                .sum::<u64>()
        };
        assert!(repaired(at(2_000), at(7_000)) > 20 && repaired(at(12_000), at(20_000)) > 20);
        let fates = run.fates(&world);
        for fate in &fates {
            assert!(fate.repaired * 100 >= fate.lost * 60, "{fate:?}");
        }
    }
}

#[test]
fn the_others_go_on_when_an_agent_leaves_and_relays_forget_it() {
    let mut plan = lossy();
    plan.flows[0].length = secs(4);
    let (mut world, mut run) = plan.build();
    Run::schedule(&mut world, at(7_900), |run, world| {
        assert_eq!((peers(run, 0, world), peers(run, 1, world)), (5, 5));
    });
    Run::schedule(&mut world, at(8_000), |run, world| {
        for agent in [0, 1] {
            world.input(run.agents[agent], |host, now| host.overlay_mut().as_agent_mut().close(now));
        }
    });
    Run::schedule(&mut world, at(9_000), |run, world| {
        assert_eq!((peers(run, 0, world), peers(run, 1, world)), (4, 4));
    });
    run.finish(&mut world);
    let left = run.events.iter().filter(|(_, _, event)| *event == Event::Left).map(|(_, agent, _)| *agent);
    assert_eq!(left.collect::<BTreeSet<_>>(), BTreeSet::from([0, 1]));
    for fate in &run.fates(&world)[1..] {
        assert!(fate.lost > 100 && fate.repaired * 100 >= fate.lost * 60, "{fate:?}");
    }
}

#[test]
fn an_agent_whose_farewells_are_all_lost_is_forgotten_with_its_keys() {
    let mut plan = Plan::pairs(2, Service::Caching);
    plan.agents[0].relays[0].1.outages = vec![Span::new(at(13_000), secs(10))];
    plan.flows[0].direct.outages = vec![Span::new(at(13_000), secs(10))];
    let (mut world, mut run) = plan.build();
    Run::schedule(&mut world, at(14_000), |run, world| {
        world.input(run.agents[0], |host, now| host.overlay_mut().as_agent_mut().close(now));
    });
    world.run_until(at(100_000), &mut run);
    assert_eq!(peers(&run, 0, &world), 3);
    world.run_until(at(14_000) + secs(241), &mut run);
    assert_eq!(peers(&run, 0, &world), 2);
}
