//! Tests of handshakes between unknown addresses, and of sessions that follow address changes.

use byway_proto::agent::{Delivery, Event, Offer, PathState};
use byway_sim::Span;
use byway_sim::overlay::ReceivedOffer;
use byway_units::{Duration, FlowId, Time};
use byway_wire::messages::Refusal;
use byway_wire::{Service, Services};

use crate::support::{AGENTS, Plan, Run, address, agent_number, at, ms, secs};

/// Two flows through one relay between agents without each other's addresses.
fn strangers(service: Service) -> Plan {
    let mut plan = Plan::pairs(2, service).with_one_relay();
    plan.agents.iter_mut().for_each(|agent| agent.is_known = false);
    plan
}

/// Closes every direct path in both directions for this time from the start.
fn closed(plan: Plan, length: Duration) -> Plan {
    plan.each_flow(|flow| {
        for link in [&mut flow.direct, &mut flow.back] {
            link.outages.push(Span::new(at(0), length));
        }
    })
}

#[test]
fn where_no_direct_path_is_open_agents_shake_hands_and_send_through_their_relay() {
    let plan = closed(strangers(Service::Forwarding), secs(60));
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert_eq!((fate.sent, fate.missing, fate.by(Delivery::Forwarded)), (2_000, 0, 2_000), "{fate:?}");
    assert!(world.host(run.relays[0]).relay().counters().relayed > 0);
}

#[test]
fn agents_that_meet_at_a_relay_tell_each_other_where_they_are_and_open_the_direct_path() {
    let (world, run) = strangers(Service::Both).run();
    let fate = run.fate(&world);
    assert_eq!((fate.sent, fate.missing), (2_000, 0), "{fate:?}");
    assert_eq!(world.observer().direct.len(), 2_000, "all packets take the direct path too");
}

#[test]
fn a_direct_path_that_opens_later_is_found() {
    let plan = closed(strangers(Service::Both), ms(4_500));
    let (world, run) = plan.run();
    assert_eq!(run.fate(&world).missing, 0);
    let direct = world.observer().direct.iter().filter(|(time, ..)| *time > at(9_500)).count();
    assert!(direct > 400, "{direct}");
}

/// Two flows between agents at different relays without each other's addresses.
fn far_strangers(service: Service) -> Plan {
    let mut plan = Plan::pairs(2, service);
    plan.agents.iter_mut().for_each(|agent| agent.is_known = false);
    plan
}

#[test]
fn agents_at_different_relays_shake_hands_through_both() {
    let plan = closed(far_strangers(Service::Forwarding), secs(60));
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert_eq!((fate.sent, fate.missing, fate.by(Delivery::Forwarded)), (2_000, 0, 2_000), "{fate:?}");
}

#[test]
fn agents_at_different_relays_tell_each_other_where_they_are_and_open_the_direct_path() {
    let (world, run) = far_strangers(Service::Both).run();
    let fate = run.fate(&world);
    assert_eq!((fate.sent, fate.missing), (2_000, 0), "{fate:?}");
    assert_eq!(world.observer().direct.len(), 2_000, "all packets take the direct path too");
}

#[test]
fn what_is_sent_before_a_way_is_found_waits_for_it() {
    for service in [Service::Caching, Service::Coding] {
        let mut unsendable_before = u64::MAX;
        for begin in (0..20).map(|nth| ms(nth * 50)) {
            let (world, run) = far_strangers(service).each_flow(|flow| flow.begin = begin).run();
            let sent = run.agents.iter().map(|agent| world.host(*agent).agent().counters());
            let unsendable: u64 = sent.map(|counters| counters.datagrams_unsendable).sum();
            let fate = run.fate(&world);
            assert_eq!(fate.missing, unsendable, "only what came before there was a session: {fate:?}");
            assert!(unsendable <= unsendable_before, "later flows find a session");
            unsendable_before = unsendable;
        }
        assert_eq!(unsendable_before, 0, "the last began when there was one");
    }
}

#[test]
fn agents_that_only_relays_connect_shake_hands_through_the_standby_when_a_relay_is_dead() {
    for dead in [0, 1] {
        let plan = closed(far_strangers(Service::Forwarding).with_standby_relays(), secs(60))
            .each_flow(|flow| flow.begin = secs(6));
        let (mut world, mut run) = plan.build();
        Run::schedule(&mut world, at(0), move |run, world| world.stop(run.relays[dead]));
        // With new keys and no state.
        Run::schedule(&mut world, at(9_000), |run, world| run.restart_agent(1, world));
        Run::schedule(&mut world, at(11_000), |run, world| run.restart_agent(2, world));
        run.finish(&mut world);
        // Without data for seconds, the agents ended their attempts, and start again with the first
        // packet.
        assert_eq!(run.missing(0, at(6_200), at(8_800)), [], "relay {dead}");
        assert_eq!(run.missing(0, at(11_000), Time::MAX), [], "relay {dead}");
        assert_eq!(run.missing(1, at(6_200), at(10_800)), [], "relay {dead}");
        assert_eq!(run.missing(1, at(13_000), Time::MAX), [], "relay {dead}");
    }
}

/// Changes one agent's address at this time, as a NAT rebinding does.
fn rebound(service: Service, agent: usize, time: Time) -> (crate::support::OverlayWorld, Run) {
    let mut plan = Plan::pairs(4, service);
    for nth in 0..20 {
        plan.lose(0, 30 + nth * 45, 2);
    }
    let (mut world, run) = plan.build();
    Run::schedule(&mut world, time, move |run, world| {
        world.change_address(run.agents[agent], address(AGENTS, agent), address(77, agent));
    });
    (world, run)
}

#[test]
fn a_sender_whose_address_changes_is_followed_within_two_round_trips() {
    for service in [Service::Coding, Service::Caching] {
        let (mut world, mut run) = rebound(service, 0, at(6_000));
        world.run_until(at(6_215), &mut run);
        // A packet every 10 ms, a round trip of 100 ms to the receiver and 17 ms to the relay.
        let moves = world.host(run.agents[1]).agent().session_counters().moves;
        assert_eq!(moves, 1, "the receiver follows");
        assert_eq!(world.host(run.relays[0]).relay().session_counters().moves, 1, "the relay follows");
        run.finish(&mut world);
        assert_eq!(world.host(run.agents[1]).agent().session_counters().moves, 1);
        let fate = run.fate(&world);
        assert_eq!((fate.sent, fate.repaired, fate.missing), (4_000, 40, 0), "{service:?}: {fate:?}");
    }
}

#[test]
fn a_receiver_whose_address_changes_speaks_as_soon_as_it_hears_nothing() {
    for service in [Service::Internet, Service::Coding, Service::Caching] {
        // Just after a report, and halfway between two.
        for time in [at(6_070), at(6_550)] {
            let (mut world, mut run) = rebound(service, 1, time);
            run.finish(&mut world);
            assert_eq!(world.host(run.agents[0]).agent().session_counters().moves, 1, "the sender follows");
            let got = run.delivered.iter().filter(|got| got.flow == 0 && got.delivery == Delivery::Direct);
            let back = got.map(|got| got.at).find(|at| *at > time + ms(1)).expect("the direct path is back");
            // The agent sends nothing for 100 ms at most. A round trip later it is challenged, and
            // half a round trip after that it gets packets.
            assert!(back < time + ms(100) + ms(200), "{service:?}: {} later", back - time);
            if service != Service::Internet {
                assert_eq!(
                    world.host(run.relays[1]).relay().session_counters().moves,
                    1,
                    "the relay follows"
                );
                let missing = run.missing(0, time + ms(30), Time::MAX);
                assert_eq!(missing, [], "{service:?}: the relay bridges what the direct path loses");
            }
        }
    }
}

#[test]
fn a_receiver_of_forwarded_packets_whose_address_changes_is_followed() {
    let (mut world, mut run) = rebound(Service::Forwarding, 1, at(6_070));
    run.finish(&mut world);
    // A probe every 200 ms, and two round trips.
    let missing = run.missing(0, at(6_070) + ms(200) + ms(34), Time::MAX);
    assert_eq!(missing, []);
}

#[test]
fn agents_that_begin_at_the_same_time_agree_on_one_session() {
    // Each agent is sender and receiver.
    let mut plan = Plan::pairs(2, Service::Coding);
    (plan.flows[1].from, plan.flows[1].to) = (1, 0);
    plan.agents[0].relays.push((1, crate::support::access()));
    plan.agents[1].relays.push((0, crate::support::access()));
    plan.lose(0, 100, 1);
    plan.lose(1, 200, 1);
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert_eq!((fate.sent, fate.missing), (2_000, 0), "{fate:?}");
    for agent in [0, 1] {
        let sessions = world.host(run.agents[agent]).agent().session_counters();
        assert!(sessions.handshakes <= 4, "{sessions:?}");
        assert_eq!(sessions.forged, 0);
    }
}

#[test]
fn a_receiver_that_comes_back_at_another_address_is_found_through_the_relay() {
    let (mut world, mut run) = Plan::pairs(2, Service::Caching).with_one_relay().build();
    Run::schedule(&mut world, at(5_000), |run, world| world.stop(run.agents[1]));
    Run::schedule(&mut world, at(5_500), |run, world| {
        world.change_address(run.agents[1], address(AGENTS, 1), address(77, 1));
        run.restart_agent(1, world);
    });
    run.finish(&mut world);
    assert_eq!(run.missing(0, at(7_500), Time::MAX), []);
    let direct = run.delivery_counts(0, at(7_500), at(20_000));
    assert_eq!(direct.len(), 1, "{direct:?}");
}

#[test]
fn a_session_in_use_is_probed_five_times_a_second_and_one_at_rest_not_at_all() {
    let (world, run) = Plan::pairs(2, Service::Caching).run();
    let sent = |from, to| world.observer().sent.get(&(from, to, 8, 0)).copied().unwrap_or(0);
    // Ten seconds, with the handshake and a few registrations before.
    for other in [run.agents[1], run.relays[0]] {
        let probes = sent(run.agents[0], other);
        assert!((45..75).contains(&probes), "{probes}");
    }
}

#[test]
fn where_no_direct_path_is_open_relays_deliver_what_they_would_else_repair() {
    for service in [Service::Coding, Service::Caching, Service::Both] {
        for plan in [strangers(service), far_strangers(service)] {
            let (world, run) = closed(plan, secs(60)).run();
            assert_eq!(world.observer().direct.len(), 0, "{service:?}");
            // A session begins with the first packets, and relays replace the direct path a second
            // later.
            assert_eq!(run.all_missing(at(3_500), Time::MAX), 0, "{service:?}: {:?}", run.fate(&world));
            let status = |flow: usize| {
                let id = run.sending[flow].expect("the flow was opened");
                world.host(run.agents[2 * flow]).agent().flow_status(id).expect("the flow is open")
            };
            let in_force = if service == Service::Both { service } else { Service::Forwarding };
            let found = [0, 1].map(|flow| (status(flow).service, status(flow).is_direct));
            assert_eq!(found, [(in_force, false); 2]);
        }
    }
}

#[test]
fn when_the_direct_path_opens_relays_repair_again() {
    for service in [Service::Coding, Service::Caching] {
        let mut plan = closed(far_strangers(service), secs(6));
        plan.lose(0, 800, 1);
        plan.lose(1, 900, 1);
        let (world, run) = plan.run();
        assert_eq!(run.all_missing(at(3_500), Time::MAX), 0, "{service:?}: {:?}", run.fate(&world));
        for flow in [0, 1] {
            assert_eq!(
                run.delivery_counts(flow, at(3_500), at(6_000)).into_keys().collect::<Vec<_>>(),
                [Delivery::Forwarded]
            );
            let later = run.delivery_counts(flow, at(8_000), Time::MAX);
            let repaired: u64 =
                later.iter().filter(|(delivery, _)| delivery.is_repair()).map(|(_, count)| count).sum();
            let direct = later[&Delivery::Direct];
            assert_eq!((repaired, later.get(&Delivery::Forwarded)), (1, None), "{service:?}: {later:?}");
            assert!(direct > 390, "{service:?}: {later:?}");
        }
    }
}

#[test]
fn an_outage_of_seconds_is_repaired_and_a_longer_one_is_bridged_by_forwarding() {
    let length = |seconds| {
        let mut plan = Plan::pairs(4, Service::Caching).each_flow(|flow| flow.length = secs(40));
        let flow = &mut plan.flows[0];
        for link in [&mut flow.direct, &mut flow.back] {
            link.outages.push(Span::new(at(5_000), secs(seconds)));
        }
        plan.run()
    };
    let (_, short) = length(8);
    assert!(!short.delivery_counts(0, at(0), Time::MAX).contains_key(&Delivery::Forwarded));
    let (_, long) = length(25);
    let bridged = long.delivery_counts(0, at(18_000), at(29_900));
    assert_eq!(bridged.into_keys().collect::<Vec<_>>(), [Delivery::Forwarded]);
    let later = long.delivery_counts(0, at(33_000), Time::MAX);
    assert_eq!(later.into_keys().collect::<Vec<_>>(), [Delivery::Direct]);
    assert_eq!(long.missing(0, at(18_000), Time::MAX), []);
    for flow in 1..4 {
        assert!(!long.delivery_counts(flow, at(0), Time::MAX).contains_key(&Delivery::Forwarded));
    }
}

#[test]
fn a_relay_that_may_only_code_does_not_deliver_and_says_so() {
    let mut plan = closed(strangers(Service::Coding), secs(60));
    plan.has_controller = true;
    for flow in &mut plan.flows {
        flow.terms.services = Services::NONE.with(Service::Coding);
    }
    let (world, run) = plan.run();
    assert_eq!(run.delivered, []);
    let id = run.sending[0].expect("the flow was opened");
    let status = world.host(run.agents[0]).agent().flow_status(id).expect("the flow is open");
    assert_eq!((status.path_in_use, status.is_direct), (None, false));
    assert_eq!(status.paths, [PathState::Refused(Refusal::ServiceNotGranted)]);
}

#[test]
fn flows_are_offered_through_relays() {
    for plan in [strangers(Service::Internet), far_strangers(Service::Internet)] {
        let mut plan = closed(plan, secs(60));
        // Flows by which the relays know that the agents are permitted to exchange packets.
        let has_one_relay = plan.relays == 1;
        plan.flows.iter_mut().for_each(|flow| flow.paths = vec![(0, usize::from(!has_one_relay))]);
        let (mut world, mut run) = plan.build();
        let (flow, offer) = (FlowId::new(6), Offer { subject: b"video".to_vec(), ..Offer::default() });
        let (sender, receiver) = (run.plan.key(0).sender(), agent_number(1));
        let offered = ReceivedOffer { peer: sender, flow, offer: offer.clone() };
        Run::schedule(&mut world, at(3_000), move |run, world| {
            world.input(run.agents[0], |host, now| {
                assert!(host.overlay_mut().as_agent_mut().offer(receiver, flow, offer, now));
            });
        });
        Run::schedule(&mut world, at(4_000), move |run, world| {
            world.input(run.agents[1], |host, now| {
                assert_eq!(host.overlay_mut().drain_offers(), [offered]);
                host.overlay_mut().as_agent_mut().answer_offer(sender, flow, Ok(()), now);
            });
        });
        run.finish(&mut world);
        let answered = Event::OfferAnswered { peer: receiver, flow, outcome: Ok(()) };
        assert_eq!(
            run.events.iter().filter(|(_, agent, event)| (*agent, *event) == (0, answered)).count(),
            1
        );
        assert_eq!(world.observer().direct.len(), 0);
    }
}
