//! Services that repair on request: pull from the ingress relay, and retransmission by the sender.

use byway_proto::agent::Delivery;
use byway_sim::overlay::SendSchedule;
use byway_sim::{Jitter, Link, Loss, NodeId, Span, Step};
use byway_units::{Duration, Probability, Time};
use byway_wire::Service;

use crate::support::{ARRANGEMENTS, OverlayWorld, Plan, Run, at, ms, secs};

/// Both services, with the kind of delivery of their repairs.
const SERVICES: [(Service, Delivery); 2] =
    [(Service::Pull, Delivery::Cached), (Service::Retransmission, Delivery::Resent)];

/// Four flows, each with occasional losses of one to `longest` packets.
fn lossy(service: Service, longest: u64) -> Plan {
    let mut plan = Plan::pairs(4, service);
    for flow in 0..4 {
        for nth in 0..15 {
            plan.lose(flow, 40 + nth * 60 + flow as u64 * 13, 1 + nth % longest);
        }
    }
    plan
}

/// Bytes that relays sent to each other and to receivers, as coded bytes of packets.
fn relay_packets(run: &Run, world: &OverlayWorld) -> u64 {
    let (ingress, egress) = (run.ingress(0, world), run.egress(1, world));
    ingress.copies_relayed + ingress.retransmitted + egress.cached + egress.resent + egress.forwarded
}

#[test]
fn losses_are_repaired_with_two_packets_of_relays_for_each() {
    for (service, kind) in SERVICES {
        let (world, run) = lossy(service, 1).run();
        let fate = run.fate(&world);
        assert_eq!((fate.sent, fate.lost, fate.repaired, fate.missing), (4_000, 60, 60, 0), "{fate:?}");
        assert_eq!(fate.by(kind), 60, "{service:?}: {fate:?}");
        // Each flow's first packets are forwarded: 8, or until the direct path is known to deliver.
        let packets = relay_packets(&run, &world);
        assert!((120..=120 + 4 * 2 * 20).contains(&packets), "{service:?}: {packets}");
    }
}

#[test]
fn losses_are_repaired_in_any_arrangement_of_relays() {
    for (name, arrange) in ARRANGEMENTS {
        for (service, _) in SERVICES {
            let (world, run) = arrange(lossy(service, 3)).run();
            let fate = run.fate(&world);
            assert_eq!((fate.sent, fate.missing), (4_000, 0), "{service:?}, {name}: {fate:?}");
            assert!(fate.lost == 120 && fate.repaired == 120, "{service:?}, {name}: {fate:?}");
        }
    }
}

#[test]
fn a_sender_with_retransmission_copies_nothing_while_the_direct_path_delivers() {
    let (world, run) = Plan::pairs(2, Service::Retransmission).run();
    for flow in 0..2 {
        let counters = world.host(run.agents[2 * flow]).agent().counters();
        assert!((1..=20).contains(&counters.copies), "{}", counters.copies);
        assert_eq!(counters.copies_resent, 0);
    }
    assert_eq!(run.fate(&world).missing, 0);
}

/// Headers of a UDP datagram over IPv4, in bytes.
const HEADERS: usize = 28;

/// Runs a call of 500-byte datagrams, 50 a second, whose paths lose nothing. Returns the bytes a
/// second that the sender sends, and those that each relay sends to an agent.
fn rates_of_a_clean_call(service: Service) -> (usize, Vec<usize>) {
    let mut plan = Plan::pairs(1, service);
    plan.flows[0].datagram_bytes = 500;
    plan.flows[0].sending = SendSchedule::Paced(ms(20));
    plan.flows[0].length = secs(40);
    let (mut world, mut run) = plan.build();
    let ([east, west], [sender, receiver]) = ([run.relays[0], run.relays[1]], [run.agents[0], run.agents[1]]);
    let uplink = [(sender, east), (sender, receiver), (sender, west)];
    let downlinks = [(east, sender), (west, sender), (east, receiver), (west, receiver)];
    let observed = &mut world.observer_mut().observed_links;
    observed.extend(uplink.into_iter().chain(downlinks));
    run.finish(&mut world);
    let (from, to) = (at(10_000), at(40_000));
    let rate = |hop: (NodeId, NodeId)| {
        let packets = world.observer().observed.iter().filter(|packet| {
            packet.step == Step::Sent
                && (packet.from, packet.to) == (hop.0, Some(hop.1))
                && (from..to).contains(&packet.time)
        });
        packets.map(|packet| packet.payload.len() + HEADERS).sum::<usize>() / 30
    };
    (uplink.map(rate).iter().sum(), downlinks.map(rate).to_vec())
}

#[test]
fn retransmission_costs_a_call_on_a_clean_path_nearly_nothing() {
    let (alone, _) = rates_of_a_clean_call(Service::Internet);
    let (uplink, downlinks) = rates_of_a_clean_call(Service::Retransmission);
    assert!(alone > 50 * 500 && uplink * 100 <= alone * 101, "{uplink} of {alone}");
    assert!(downlinks.iter().all(|rate| *rate <= 75) && downlinks[0] > 0, "{downlinks:?}");
}

#[test]
fn repairs_that_are_lost_are_requested_again() {
    for (service, _) in SERVICES {
        let mut plan = lossy(service, 3);
        let lossy_link = |link: &mut Link| {
            link.loss.push(Loss::Independent(Probability::new(0.03).expect("a share")));
        };
        lossy_link(&mut plan.between);
        plan.agents
            .iter_mut()
            .for_each(|agent| agent.relays.iter_mut().for_each(|(_, link)| lossy_link(link)));
        plan.flows.iter_mut().for_each(|flow| flow.settings.latency_budget = ms(600));
        let (world, run) = plan.run();
        let fate = run.fate(&world);
        assert!(fate.lost >= 120 && fate.missing <= 3, "{service:?}: {fate:?}");
    }
}

/// An outage of the first flow's direct path.
#[derive(Clone, Copy, Debug)]
struct DirectPathOutage {
    /// First lost packet.
    from: u64,
    length: Duration,
    /// True if the reverse path has the outage, too.
    is_bidirectional: bool,
}

/// Runs flows in `pairs`, of which the first has an outage.
fn with_outage(
    service: Service,
    outage: DirectPathOutage,
    pairs: usize,
    arrange: fn(Plan) -> Plan,
) -> (OverlayWorld, Run) {
    let mut plan = arrange(Plan::pairs(pairs, service)).each_flow(|flow| flow.length = secs(20));
    let from = plan.sends_at(0, outage.from);
    plan.add_outage(0, from, outage.length);
    if outage.is_bidirectional {
        plan.flows[0].back.outages.push(Span::new(from, outage.length));
    }
    plan.run()
}

#[test]
fn an_outage_is_bridged_whichever_way_is_dark_and_whenever_it_begins() {
    for (service, _) in SERVICES {
        for (name, arrange) in ARRANGEMENTS {
            for is_bidirectional in [false, true] {
                for from in [0, 1, 2, 3, 5, 20, 500] {
                    let outage = DirectPathOutage { from, length: secs(3), is_bidirectional };
                    let (world, run) = with_outage(service, outage, 1, arrange);
                    let missing = run.missing(0, at(0), Time::MAX);
                    let fate = &run.fates(&world)[0];
                    let context = format!("{service:?}, {name}, {outage:?}: {fate:?}, missing {missing:?}");
                    // A sender that is sure of an outage leaves most packets to relays.
                    let lost_min = if service == Service::Retransmission { 45 } else { 295 };
                    assert!(fate.lost >= lost_min && missing.len() <= 3, "{context}");
                }
            }
        }
    }
}

#[test]
fn after_an_outage_relays_carry_nothing() {
    for (service, _) in SERVICES {
        for length in [secs(1), secs(3), secs(8)] {
            let outage = DirectPathOutage { from: 500, length, is_bidirectional: true };
            let (world, run) = with_outage(service, outage, 2, |plan| plan);
            let fate = &run.fates(&world)[0];
            assert!(fate.missing <= 2, "{service:?}, {length}: {fate:?}");
            let lost = length.as_millis() / 10;
            let packets = relay_packets(&run, &world);
            assert!(packets <= 2 * lost + 200, "{service:?}, {length}: {packets} packets of relays");
        }
    }
}

#[test]
fn an_outage_that_begins_in_a_pause_is_bridged() {
    for (service, _) in SERVICES {
        for pause in [ms(200), secs(2), secs(11)] {
            let mut plan = Plan::pairs(1, service).each_flow(|flow| flow.length = secs(20));
            let from = plan.sends_at(0, 300);
            plan.flows[0].pauses.push(Span::new(from, pause));
            plan.add_outage(0, from, pause + secs(3));
            let (world, run) = plan.run();
            let fate = &run.fates(&world)[0];
            assert!(fate.lost >= 45 && fate.missing <= 15, "{service:?}, {pause}: {fate:?}");
        }
    }
}

#[test]
fn jitter_on_a_path_that_loses_nothing_costs_relays_little() {
    for (service, _) in SERVICES {
        let plan = Plan::pairs(2, service).each_flow(|flow| {
            flow.direct.jitter = Jitter { max: ms(5), may_reorder: true };
            flow.length = secs(30);
        });
        let (world, run) = plan.run();
        let (fate, packets) = (run.fate(&world), relay_packets(&run, &world));
        assert!(fate.missing == 0 && packets <= 60 + 2 * 20 * 2, "{service:?}: {packets} of {fate:?}");
    }
}
