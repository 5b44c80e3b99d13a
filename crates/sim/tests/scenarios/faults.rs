//! Tests of agents that restart or deliver nothing for seconds, and then continue.

use byway_sim::Freeze;
use byway_units::Time;
use byway_wire::Service;

use crate::support::{OverlayWorld, Plan, Run, at, secs};

/// Four coded flows; an agent of pair 0 restarts at 5 s.
fn with_restarted_agent(agent: usize) -> (OverlayWorld, Run) {
    let plan = Plan::pairs(4, Service::Coding).each_flow(|flow| flow.length = secs(16)).losing_in_turn();
    let (mut world, mut run) = plan.build();
    Run::schedule(&mut world, at(5_000), move |run, world| world.stop(run.agents[agent]));
    Run::schedule(&mut world, at(5_300), move |run, world| run.restart_agent(agent, world));
    run.finish(&mut world);
    (world, run)
}

#[test]
fn an_agent_that_restarts_is_back_within_a_second() {
    for agent in [0, 1] {
        let (_, run) = with_restarted_agent(agent);
        assert_eq!(run.missing(0, at(2_500), at(4_800)), [], "agent {agent}");
        assert_eq!(run.missing(0, at(6_300), at(17_700)), [], "agent {agent}");
        for flow in 1..4 {
            // While receiver 0 is stopped, it cannot help: one packet lost in a small batch is then
            // one too many.
            assert_eq!(
                run.missing(flow, at(2_500), at(4_800)),
                [],
                "agent {agent}: others are not disturbed"
            );
            assert_eq!(
                run.missing(flow, at(6_300), at(17_700)),
                [],
                "agent {agent}: others are not disturbed"
            );
        }
        let repaired = run.delivery_counts(0, at(6_500), at(18_000));
        assert!(repaired.len() > 1, "agent {agent}: losses are repaired again: {repaired:?}");
    }
}

#[test]
fn a_receiver_that_hears_nothing_for_seconds_goes_on_where_it_was() {
    let mut plan = Plan::pairs(4, Service::Coding);
    plan.flows[0].length = secs(14);
    let (mut world, mut run) = plan.build();
    Run::schedule(&mut world, at(5_000), |run, world| world.freeze(run.agents[1], Freeze::Drop));
    Run::schedule(&mut world, at(8_000), |run, world| world.resume(run.agents[1]));
    run.finish(&mut world);
    assert!(!run.missing(0, at(5_000), at(8_000)).is_empty());
    assert_eq!(run.missing(0, at(8_500), Time::MAX), []);
}
