//! What breaks does no harm, and what can take over does.

use byway_proto::agent::Delivery;
use byway_sim::overlay::Sending;
use byway_sim::{Hang, Jitter, Link, Loss};
use byway_units::{Duration, Time};
use byway_wire::Service;

use crate::support::{ARRANGEMENTS, Lie, OverlayWorld, Plan, Run, at, ms, secs, share};

/// Four flows on direct paths that lose, delay and now and then go dark.
fn rough(service: Service) -> Plan {
    let mut plan = Plan::pairs(4, service).each_flow(|flow| {
        flow.direct.loss = vec![Loss::Independent(share(0.02))];
        // A path that holds the order would delay packets behind others, of which there are more with an overlay.
        flow.direct.jitter = Jitter { max: ms(5), may_reorder: true };
        // Packets of one instant share their chances in order: none is sent at the instant of a probe.
        flow.sending = Sending::Paced(Duration::from_micros(10_007));
    });
    plan.darken(1, at(6_000), ms(700));
    plan
}

/// The direct paths by themselves, in a network that has these relays.
fn alone(arrange: impl Fn(Plan) -> Plan) -> (OverlayWorld, Run) {
    arrange(rough(Service::Internet)).each_flow(|flow| flow.paths.clear()).run()
}

/// Whatever happens to the overlay: what the direct path delivers is delivered at the same instants.
fn does_no_harm(
    service: Service,
    break_overlay: impl Fn(&mut Plan),
    act: impl Fn(&mut Run, &mut OverlayWorld),
) -> Run {
    let mut plan = rough(service);
    break_overlay(&mut plan);
    compare(&alone(|plan| plan), plan, act).1
}

/// The same for any plan, beside the direct paths alone.
fn compare(
    (alone, direct): &(OverlayWorld, Run),
    plan: Plan,
    act: impl Fn(&mut Run, &mut OverlayWorld),
) -> (OverlayWorld, Run) {
    let (mut world, mut run) = plan.build();
    act(&mut run, &mut world);
    run.finish(&mut world);
    let (seen, alone) = (world.observer(), alone.observer());
    // What relays miss copies of is sent again on the direct path, too: few packets, and nothing is otherwise for that.
    assert!(is_among(&alone.lost, &seen.lost), "the same losses");
    assert!(is_among(&alone.direct, &seen.direct), "the same arrivals");
    assert!(seen.direct.len() <= alone.direct.len() * 17 / 16 + 2 * 16, "{} arrivals", seen.direct.len());
    for got in &direct.got {
        let again = run.got.iter().find(|again| (again.flow, again.number) == (got.flow, got.number));
        let at = again.map(|again| again.at);
        assert!(at.is_some_and(|at| at <= got.at), "{got:?}: {at:?}");
    }
    (world, run)
}

/// Whether these are among others, in the same order.
fn is_among<T: PartialEq>(these: &[T], others: &[T]) -> bool {
    let mut others = others.iter();
    these.iter().all(|this| others.any(|other| other == this))
}

fn repairs(run: &Run) -> usize {
    run.got.iter().filter(|got| got.way != Delivery::Direct).count()
}

fn each_overlay_link(plan: &mut Plan, change: impl Fn(&mut Link)) {
    change(&mut plan.between);
    for agent in &mut plan.agents {
        agent.relays.iter_mut().for_each(|(_, link)| change(link));
    }
}

#[test]
fn a_healthy_overlay_only_adds_to_the_direct_path() {
    for service in [Service::Coding, Service::Caching] {
        let run = does_no_harm(service, |_| {}, |_, _| {});
        assert!(repairs(&run) > 100, "{service:?}: {}", repairs(&run));
    }
}

#[test]
fn a_dead_overlay_does_no_harm() {
    for service in [Service::Coding, Service::Caching, Service::Both] {
        let run = does_no_harm(
            service,
            |_| {},
            |run, world| {
                for relay in run.relays.clone() {
                    world.stop(relay);
                }
            },
        );
        assert_eq!(repairs(&run), 0);
    }
}

#[test]
fn an_overlay_that_dies_on_the_way_does_no_harm() {
    let run = does_no_harm(
        Service::Coding,
        |_| {},
        |_, world| {
            Run::when(world, at(6_300), |run, world| {
                run.relays.clone().into_iter().for_each(|relay| world.stop(relay));
            });
        },
    );
    assert!(repairs(&run) > 30, "before it died: {}", repairs(&run));
}

#[test]
fn an_overlay_that_hangs_does_no_harm() {
    for hang in [Hang::Keep, Hang::Lose] {
        let run = does_no_harm(
            Service::Coding,
            |_| {},
            move |_, world| {
                Run::when(world, at(4_000), move |run, world| {
                    run.relays.clone().into_iter().for_each(|relay| world.hang(relay, hang));
                });
                Run::when(world, at(5_500), |run, world| {
                    run.relays.clone().into_iter().for_each(|relay| world.resume(relay));
                });
            },
        );
        let after = run.got.iter().filter(|got| got.way != Delivery::Direct && got.at > at(6_000)).count();
        assert!(after > 30, "{hang:?}: it repairs again: {after}");
    }
}

#[test]
fn an_overlay_that_loses_packets_does_no_harm() {
    for lost in [0.1, 0.5] {
        let run = does_no_harm(
            Service::Coding,
            |plan| each_overlay_link(plan, |link| link.loss = vec![Loss::Independent(share(lost))]),
            |_, _| {},
        );
        assert!(lost > 0.4 || repairs(&run) > 20, "{lost}: {}", repairs(&run));
    }
}

#[test]
fn a_slow_overlay_does_no_harm() {
    for service in [Service::Coding, Service::Caching] {
        does_no_harm(service, |plan| each_overlay_link(plan, |link| link.delay += ms(300)), |_, _| {});
    }
}

/// Services whose packets all take the direct path; those of forwarding take none while relays work.
const BESIDE: [Service; 3] = [Service::Coding, Service::Caching, Service::Both];

/// Totals of runs: packets that relays delivered, and what came of relays and could not be opened.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    repairs: usize,
    false_repairs: u64,
}

/// Breaks the overlay of each service in each arrangement of relays in this way.
fn break_each(break_overlay: impl Fn(&mut Plan), act: impl Fn(&mut Run, &mut OverlayWorld)) -> Totals {
    let mut totals = Totals::default();
    for (_, arrange) in ARRANGEMENTS {
        let alone = alone(arrange);
        for service in BESIDE {
            let mut plan = arrange(rough(service));
            break_overlay(&mut plan);
            let (world, run) = compare(&alone, plan, &act);
            totals.repairs += repairs(&run);
            totals.false_repairs +=
                (0..4).map(|flow| run.statistics(flow, &world).false_repairs).sum::<u64>();
        }
    }
    totals
}

#[test]
fn relays_that_lose_packets_do_no_harm_in_any_arrangement() {
    let lossy = |link: &mut Link| link.loss = vec![Loss::Independent(share(0.05))];
    let totals = break_each(|plan| each_overlay_link(plan, lossy), |_, _| {});
    assert!(totals.repairs > 1_000, "{totals:?}");
}

#[test]
fn slow_relays_do_no_harm_in_any_arrangement() {
    break_each(|plan| each_overlay_link(plan, |link| link.delay += ms(300)), |_, _| {});
}

#[test]
fn relays_that_hang_do_no_harm_in_any_arrangement() {
    for hang in [Hang::Keep, Hang::Lose] {
        let totals = break_each(
            |_| {},
            move |_, world| {
                Run::when(world, at(4_000), move |run, world| {
                    run.relays.clone().into_iter().for_each(|relay| world.hang(relay, hang));
                });
                Run::when(world, at(5_500), |run, world| {
                    run.relays.clone().into_iter().for_each(|relay| world.resume(relay));
                });
            },
        );
        assert!(totals.repairs > 1_000, "{hang:?}: {totals:?}");
    }
}

#[test]
fn relays_whose_packets_are_garbage_do_no_harm_in_any_arrangement() {
    let totals = break_each(|plan| plan.lie = Some(Lie::Garbage), |_, _| {});
    assert!(totals.false_repairs > 1_000, "{totals:?}");
}

#[test]
fn relays_that_acknowledge_what_they_never_carried_do_no_harm_in_any_arrangement() {
    let totals = break_each(|plan| plan.lie = Some(Lie::Receptions), |_, _| {});
    assert!(totals.repairs > 1_000, "{totals:?}");
}

#[test]
fn relays_that_lie_about_round_trips_do_no_harm_in_any_arrangement() {
    let totals = break_each(|plan| plan.lie = Some(Lie::RoundTrips), |_, _| {});
    assert!(totals.repairs > 1_000, "{totals:?}");
}

#[test]
fn relays_that_lie_about_anything_do_no_harm_in_any_arrangement() {
    let totals = break_each(|plan| plan.lie = Some(Lie::Anything), |_, _| {});
    assert!(totals.false_repairs > 1_000, "{totals:?}");
}

#[test]
fn an_overlay_that_duplicates_corrupts_and_reorders_does_no_harm() {
    let run = does_no_harm(
        Service::Coding,
        |plan| {
            each_overlay_link(plan, |link| {
                link.duplication = share(0.3);
                link.corruption = share(0.05);
                link.jitter = Jitter { max: ms(20), may_reorder: true };
            });
        },
        |_, _| {},
    );
    assert!(repairs(&run) > 50, "{}", repairs(&run));
}

/// Four coded flows, of which pair 0 has an agent that restarts at 5 s.
fn with_restarted_agent(agent: usize) -> (OverlayWorld, Run) {
    let plan = Plan::pairs(4, Service::Coding).each_flow(|flow| flow.length = secs(16)).losing_in_turn();
    let (mut world, mut run) = plan.build();
    Run::when(&mut world, at(5_000), move |run, world| world.stop(run.agents[agent]));
    Run::when(&mut world, at(5_300), move |run, world| run.restart_agent(agent, world));
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
            // While receiver 0 is away, it cannot help: one packet lost in a small batch is then one too many.
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
        let repaired = run.ways(0, at(6_500), at(18_000));
        assert!(repaired.len() > 1, "agent {agent}: losses are repaired again: {repaired:?}");
    }
}

#[test]
fn a_receiver_that_hears_nothing_for_seconds_goes_on_where_it_was() {
    let mut plan = Plan::pairs(4, Service::Coding);
    plan.flows[0].length = secs(14);
    let (mut world, mut run) = plan.build();
    Run::when(&mut world, at(5_000), |run, world| world.hang(run.agents[1], Hang::Lose));
    Run::when(&mut world, at(8_000), |run, world| world.resume(run.agents[1]));
    run.finish(&mut world);
    assert!(!run.missing(0, at(5_000), at(8_000)).is_empty());
    assert_eq!(run.missing(0, at(8_500), Time::MAX), []);
}
