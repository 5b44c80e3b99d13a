//! Tests of adversaries that inject packets into links: forged cookies and responses, and replays.

use byway_sim::NodeId;
use byway_units::Time;
use byway_wire::Service;
use byway_wire::packets::Kind;

use crate::support::{Adversary, InjectedPackets, OverlayWorld, Plan, Run, ms, secs};

/// Two slow flows over four minutes, in which keys change, with or without an adversary on every
/// link.
fn long(service: Service, additions: Option<InjectedPackets>) -> (OverlayWorld, Run) {
    let plan = Plan::pairs(2, service).each_flow(|flow| {
        flow.sending = byway_sim::overlay::SendSchedule::Paced(ms(100));
        flow.length = secs(240);
        flow.datagram_bytes = 100;
    });
    let (mut world, mut run) = plan.build();
    if let Some(additions) = additions {
        Adversary::attack(&run.links(), additions, Time::MAX, &run, &mut world);
    }
    run.finish(&mut world);
    (world, run)
}

fn initiations(run: &Run, world: &OverlayWorld) -> u64 {
    let nodes: Vec<NodeId> = run.agents.iter().chain(&run.relays).copied().collect();
    let sent = world.observer().sent.iter();
    sent.filter(|((from, _, kind, _), _)| nodes.contains(from) && *kind == Kind::Initiation.first_byte())
        .map(|(_, count)| count)
        .sum()
}

#[test]
fn sessions_begin_and_keys_change_while_an_adversary_forges_and_replays_on_every_link() {
    let additions = InjectedPackets {
        cookies: 3,
        responses: 10,
        replays_one_in: 5,
        alterations_one_in: 5,
        garbage_one_in: 5,
    };
    for service in [Service::Internet, Service::Forwarding, Service::Caching] {
        let (peace, undisturbed) = long(service, None);
        let (world, run) = long(service, Some(additions));
        let [before, under_attack] = [(&undisturbed, &peace), (&run, &world)].map(|(run, world)| {
            let fate = run.fate(world);
            (fate.sent, fate.missing)
        });
        assert_eq!(under_attack, before, "{service:?}");
        assert_eq!(before, (4_800, 0));
        for agent in &run.agents {
            let handshakes = |world: &OverlayWorld| world.host(*agent).agent().session_counters().handshakes;
            assert!(handshakes(&world) >= handshakes(&peace) && handshakes(&peace) >= 2, "{service:?}");
            let forged = world.host(*agent).agent().session_counters();
            assert!(forged.replayed > 100, "packets were replayed: {forged:?}");
        }
        let forged: u64 =
            run.agents.iter().map(|agent| world.host(*agent).agent().session_counters().forged).sum();
        assert!(forged >= 40, "responses were forged: {forged}");
        let [peace, attacked] = [initiations(&undisturbed, &peace), initiations(&run, &world)];
        assert!(attacked <= 2 * peace, "one more for each attempt at most: {attacked} of {peace}");
    }
}
