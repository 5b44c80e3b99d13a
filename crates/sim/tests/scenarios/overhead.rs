//! Tests of the overlay's bytes over any ten seconds, in every arrangement of relays.

use byway_sim::checkers::ByteBudget;
use byway_sim::{GilbertElliott, Loss, NodeId};
use byway_units::{Bytes, Duration};
use byway_wire::Service;

use crate::support::{ARRANGEMENTS, Plan, Run, TokenBucket, at, ms, secs, share};

const FLOWS: usize = 8;
const WINDOW: Duration = Duration::from_secs(10);

/// Packets that all flows send in the window.
const PACKETS: usize = FLOWS * 1_000;

/// Bytes of a packet on a hop of the overlay, of an in-stream repair packet, and of one of a batch
/// of eight.
const ENVELOPE: usize = 300 + 54;
const IN_STREAM: usize = 300 + 63;
const CROSS_STREAM: usize = 300 + 58 + 10 * 8;

/// Flows that lose a hundredth in bursts; the first has an outage of three seconds.
fn call(service: Service, arrange: fn(Plan) -> Plan) -> Plan {
    let bursts = GilbertElliott::bursts(share(0.01), 3.0, ms(10)).expect("bursts of three are possible");
    let mut plan = arrange(Plan::pairs(FLOWS, service)).each_flow(|flow| {
        flow.direct.loss = vec![Loss::GilbertElliott(bursts)];
        flow.length = secs(20);
    });
    plan.add_outage(0, at(10_000), secs(3));
    plan
}

/// Returns the hops of the overlay's packets: to relays, between them, and from them.
fn hops(run: &Run) -> [Vec<(NodeId, NodeId)>; 3] {
    let pairs = |from: &[NodeId], to: &[NodeId]| -> Vec<(NodeId, NodeId)> {
        from.iter().flat_map(|from| to.iter().map(|to| (*from, *to))).collect()
    };
    let senders: Vec<NodeId> = run.plan.flows.iter().map(|flow| run.agents[flow.from]).collect();
    let receivers: Vec<NodeId> = run.plan.flows.iter().map(|flow| run.agents[flow.to]).collect();
    [pairs(&senders, &run.relays), pairs(&run.relays, &run.relays), pairs(&run.relays, &receivers)]
}

/// Returns the byte budgets of a service's hops in the window.
fn budgets(service: Service, relays: usize) -> [usize; 3] {
    let once = PACKETS * ENVELOPE;
    // Handshakes, probes, registrations and trains, with up to three relays for each agent.
    let besides = once * 3 / 100;
    let configured = PACKETS * 2 / 8 * CROSS_STREAM + PACKETS / 5 * IN_STREAM;
    // Three hundredths of all packets are lost in the outage, one in each hundred otherwise, and
    // receivers return packets for others.
    let repairs = once / 8;
    let [to, between, from] = match service {
        Service::Internet => [0; 3],
        Service::Coding => [once, configured, repairs],
        Service::Caching => [once, once, repairs],
        Service::Forwarding | Service::Both => [once; 3],
        Service::Pull => [once, repairs, repairs],
        Service::Retransmission => [repairs; 3],
    };
    [to, if relays > 1 { between } else { 0 }, from].map(|bytes| bytes + besides)
}

#[test]
fn hops_carry_what_is_configured_over_any_ten_seconds_in_any_arrangement() {
    for service in Service::ALL.iter().copied() {
        for (name, arrange) in ARRANGEMENTS {
            let (mut world, mut run) = call(service, arrange).build();
            let budgets = budgets(service, run.relays.len());
            for (hops, bytes) in hops(&run).into_iter().zip(budgets) {
                let bytes = ByteBudget::new(Bytes::from(bytes), WINDOW);
                world.observer_mut().budgets.push(TokenBucket { hops, bytes, over: None });
            }
            run.finish(&mut world);
            let held = &world.observer().budgets;
            let peaks: Vec<_> = held.iter().map(|budget| budget.bytes.peak()).collect();
            let case = format!("{service:?}, {name}: {peaks:?} of {budgets:?}");
            assert!(held.iter().all(|budget| budget.over.is_none()), "{case}");
            // On request, relays carry less than half of what their budget allows for repairs.
            let is_on_request = matches!(service, Service::Pull | Service::Retransmission);
            let least = if is_on_request { 1 } else { 3 };
            let is_used = |(peak, budget): (&Bytes, &usize)| *peak > Bytes::from(budget * least / 5);
            let uses_relays = service != Service::Internet;
            let between = if run.relays.len() > 1 { 2 } else { 1 };
            let used = peaks.iter().zip(&budgets).take(between).all(is_used);
            assert!(!uses_relays || used, "the overlay is used: {case}");
        }
    }
}
