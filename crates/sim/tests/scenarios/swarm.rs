//! Swarm of random worlds, each from its seed. Each has a random subset of all faults for a while;
//! afterwards, everything must return to its normal state.
//!
//! The test inspects worlds from inside: the buffers, counters, pending work and packets of state
//! machines at the end. It also uses faults that scenario files cannot express, for example address
//! changes. `byway sim swarm` tests scenarios from outside.

mod links;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use byway_proto::agent::{AgentBacklog, Delivery};
use byway_proto::limits::{
    AGENT_BUFFER_RETENTION, BUFFER_CHUNK_BYTES_MAX, FLOW_IDLE_TIMEOUT, FRAGMENT_BYTES_BASE, REPAIR_RETENTION,
    SESSION_WORK_BURST,
};
use byway_proto::relay::RelayBacklog;
use byway_sim::overlay::SendSchedule;
use byway_sim::{Freeze, Link, Loss, NodeId, Random, Seed};
use byway_units::{Rate, Time};
use byway_wire::Service;

use self::links::{describe_link, random_impairments, with_impairments};
use crate::support::{
    AGENTS, Adversary, InjectedPackets, Members, OverlayWorld, Plan, Run, address, at, ms, secs, share,
};

/// Number of worlds in each test run.
const SEEDS: u64 = 40;

/// Bound on the mean work of a datagram: five microseconds, as in a flood.
const WORK_PER_DATAGRAM: u64 = 250;

/// Milliseconds at which faults begin and end, and senders end.
const FROM: u64 = 3_000;
const UNTIL: u64 = 8_000;
const END: u64 = 16_000;

/// Start of the hostile tenant's set-up, before relays restart or stop.
const HOSTILE_FROM: u64 = 500;

/// Time after the faults in which everything must recover.
const HEALING: u64 = 5_000;

/// Fault of a node.
#[derive(Clone, Copy, Debug)]
enum Fault {
    RelayRestarts(usize),
    RelayDies(usize),
    RelayFreezes(usize, Freeze),
    AgentFreezes(usize, Freeze),
    AgentRestarts(usize),
    AgentMoves(usize),
    RelaysPart,
}

/// Draws an event with probability 1 / `parts`.
fn one_in(random: &mut Random, parts: u64) -> bool {
    random.below(parts) == 0
}

/// Returns a random number below this one.
fn random_below(random: &mut Random, end: usize) -> usize {
    usize::try_from(random.below(end as u64)).expect("it is below a number of this type")
}

fn between(random: &mut Random, from: u64, until: u64) -> u64 {
    from + random.below(until - from)
}

fn plan(seed: u64, random: &mut Random) -> Plan {
    let services = [
        Service::Internet,
        Service::Coding,
        Service::Coding,
        Service::Caching,
        Service::Forwarding,
        Service::Both,
        Service::Pull,
        Service::Retransmission,
    ];
    let service = services[random_below(random, services.len())];
    let pairs = 1 + random_below(random, 6);
    let mut plan = Plan::pairs(pairs, service);
    match random.below(4) {
        0 => plan = plan.with_one_relay(),
        1 => plan = plan.with_standby_relays(),
        _ => {}
    }
    plan.seed = seed;
    let frames = one_in(random, 3);
    let datagram_bytes = 20 + random_below(random, 1_280);
    plan.each_flow(|flow| {
        flow.datagram_bytes = datagram_bytes;
        flow.settings.rate = Rate::from_megabits_per_second(3);
        flow.length = ms(END) - flow.begin;
        if frames {
            flow.sending = SendSchedule::Frames { interval: ms(40), packets_max: 6 };
        }
    })
}

fn faults(random: &mut Random, plan: &Plan) -> Vec<(u64, u64, Fault)> {
    let mut faults = Vec::new();
    for _ in 0..random.below(4) {
        let from = between(random, FROM, UNTIL - 1_000);
        let until = between(random, from + 50, UNTIL);
        let relay = random_below(random, plan.relays);
        let agent = random_below(random, plan.agents.len());
        let hang = if one_in(random, 2) { Freeze::Buffer } else { Freeze::Drop };
        let fault = match random.below(7) {
            0 => Fault::RelayRestarts(relay),
            1 => Fault::RelayFreezes(relay, hang),
            2 => Fault::AgentFreezes(agent, hang),
            3 => Fault::AgentRestarts(agent),
            4 => Fault::AgentMoves(agent),
            5 => Fault::RelaysPart,
            // One path remains.
            _ if plan.relays == 4 => Fault::RelayDies(relay % 2),
            _ => continue,
        };
        faults.push((from, until, fault));
    }
    faults
}

fn inject_fault(world: &mut OverlayWorld, from: u64, until: u64, fault: Fault, restarts: Vec<usize>) {
    let until = at(until);
    Run::schedule(world, at(from), move |run, world| match fault {
        Fault::RelayRestarts(relay) => {
            world.stop(run.relays[relay]);
            Run::schedule(world, until, move |run, world| run.restart_relay(relay, world));
        }
        Fault::RelayDies(relay) => world.stop(run.relays[relay]),
        Fault::AgentRestarts(agent) => {
            world.stop(run.agents[agent]);
            Run::schedule(world, until, move |run, world| run.restart_agent(agent, world));
        }
        Fault::RelayFreezes(relay, hang) => {
            world.freeze(run.relays[relay], hang);
            Run::schedule(world, until, move |run, world| world.resume(run.relays[relay]));
        }
        Fault::AgentFreezes(agent, hang) => {
            world.freeze(run.agents[agent], hang);
            Run::schedule(world, until, move |run, world| world.resume(run.agents[agent]));
        }
        Fault::AgentMoves(agent) => {
            let old = world.addresses(run.agents[agent])[0];
            // Without relays, the sender finds a receiver that moves by its reports. These are
            // sealed for the session, which ends if either end restarts. Only the sender begins
            // another one, at the planned address.
            let has_no_relay = run.plan.flows[0].settings.service == Service::Internet;
            let received = run.plan.flows.iter().filter(|flow| flow.to == agent);
            let mut ends = received.flat_map(|flow| [flow.from, flow.to]);
            let stays = has_no_relay && ends.any(|end| restarts.contains(&end));
            if old == address(AGENTS, agent) && !stays {
                world.change_address(run.agents[agent], old, address(77, agent));
            }
        }
        Fault::RelaysPart => {
            if let [one, other, ..] = run.relays[..] {
                let outage = Link { loss: vec![Loss::Independent(share(1.0))], ..run.plan.between.clone() };
                world.connect_both(one, other, &outage);
                Run::schedule(world, until, move |run, world| {
                    world.connect_both(one, other, &run.plan.between);
                });
            }
        }
    });
}

/// Sets all links to those of the plan, or adds impairments.
fn set_links(run: &Run, world: &mut OverlayWorld, wrong: Option<&[Link; 3]>) {
    let link = |planned: &Link, kind: usize| {
        wrong.map_or(planned.clone(), |wrong| with_impairments(planned, &wrong[kind]))
    };
    for flow in &run.plan.flows {
        world.connect(run.agents[flow.from], run.agents[flow.to], link(&flow.direct, 0));
        world.connect(run.agents[flow.to], run.agents[flow.from], link(&flow.back, 0));
    }
    for (agent, plan) in run.agents.iter().zip(&run.plan.agents) {
        for (relay, access) in &plan.relays {
            world.connect_both(*agent, run.relays[*relay], &link(access, 1));
        }
    }
    if let [one, other, ..] = run.relays[..] {
        world.connect_both(one, other, &link(&run.plan.between, 2));
    }
}

/// Prints the description if the run itself panics.
struct PanicContext(String);

impl Drop for PanicContext {
    #[allow(clippy::print_stderr, reason = "a test that fails shows it, a test that passes does not")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::eprintln!("{}", self.0);
        }
    }
}

/// The adversary of a world, if it has one: its links (between agents, between agents and relays,
/// between relays), and the packets that it injects.
fn adversary(seed: u64, run: &Run) -> Option<(Vec<(NodeId, NodeId)>, InjectedPackets)> {
    // A separate sequence, because other draws must be the same with and without an adversary.
    let mut random = Seed::new(seed).named("adversary").sequence();
    let mut links = run.links();
    let mut additions = InjectedPackets {
        cookies: random_below(&mut random, 8),
        responses: random_below(&mut random, 40),
        replays_one_in: 2 + random.below(20),
        alterations_one_in: 0,
        garbage_one_in: 0,
    };
    if !one_in(&mut random, 2) {
        return None;
    }
    let one = links[random_below(&mut random, links.len())];
    match random.below(3) {
        0 => links = vec![one],
        1 => links.retain(|link| *link == one || one_in(&mut random, 2)),
        _ => {}
    }
    if one_in(&mut random, 2) {
        additions.alterations_one_in = 2 + random.below(20);
        additions.garbage_one_in = 2 + random.below(20);
    }
    Some((links, additions))
}

/// Returns the random numbers of a world's hostile tenant, if it has one.
fn hostile_tenant(seed: u64) -> Option<Random> {
    let mut random = Seed::new(seed).named("hostile tenant").sequence();
    one_in(&mut random, 2).then_some(random)
}

/// Runs the world of a seed, and returns its description.
fn run_world(seed: u64) -> (OverlayWorld, Run, String) {
    let mut random = Seed::new(seed).named("swarm").sequence();
    let plan = plan(seed, &mut random);
    let wrong = [
        random_impairments(&mut random, 0.1),
        random_impairments(&mut random, 0.03),
        random_impairments(&mut random, 0.02),
    ];
    let faults = faults(&mut random, &plan);
    let mut story = format!(
        "seed {seed}: {} pairs, {} relays, {:?}, {:?}, {} B, direct [{}], access [{}], between [{}], {faults:?}",
        plan.flows.len(),
        plan.relays,
        plan.flows[0].settings.service,
        plan.flows[0].sending,
        plan.flows[0].datagram_bytes,
        describe_link(&wrong[0]),
        describe_link(&wrong[1]),
        describe_link(&wrong[2]),
    );
    let hostile = hostile_tenant(seed);
    let (mut world, mut run) = if hostile.is_some() { plan.with_hostile_tenant() } else { plan }.build();
    if let Some((links, additions)) = adversary(seed, &run) {
        story = format!("{story}, {additions:?} on {} of {} links", links.len(), run.links().len());
        Adversary::attack(&links, additions, at(UNTIL), &run, &mut world);
    }
    Run::schedule(&mut world, at(FROM), move |run, world| set_links(run, world, Some(&wrong)));
    let restarts = |(_, _, fault): &(u64, u64, Fault)| match fault {
        Fault::AgentRestarts(agent) => Some(*agent),
        _ => None,
    };
    let restarts: Vec<usize> = faults.iter().filter_map(restarts).collect();
    for (from, until, fault) in faults {
        inject_fault(&mut world, from, until, fault, restarts.clone());
    }
    Run::schedule(&mut world, at(UNTIL), |run, world| set_links(run, world, None));
    let mut describe_link = PanicContext(story.clone());
    if let Some(random) = hostile {
        let attacks = Members::attack(random, at(HOSTILE_FROM), at(UNTIL), &mut run, &mut world);
        story = format!("{story}, a hostile tenant's {attacks:?}");
        describe_link.0.clone_from(&story);
    }
    run.finish(&mut world);
    (world, run, story)
}

/// Returns the bytes that all nodes have sent until now.
fn sent_bytes(world: &OverlayWorld) -> u64 {
    world.links().map(|(_, _, counters)| counters.sent_bytes.count()).sum()
}

/// Bytes of the sessions of a receiver with one relay in the whole run besides packets and
/// requests. These are 20 s of probes each 200 ms, answers, challenges, and registrations of flows
/// after faults.
const HOUSEKEEPING: u64 = 20 * 5 * 90 + 6_000;

/// Overhead of an IP packet around its datagram: the headers of IP, UDP, envelope and coded bytes,
/// and two tags.
const HEADERS: u64 = 82;

/// Bytes of a request for one packet of a batch, in a packet of its own.
const REQUEST: u64 = 90;

/// Bytes that relays sent to receivers of coded or cached flows, without housekeeping and requests,
/// and the bytes that the direct paths lost.
#[derive(Clone, Copy, Debug, Default)]
struct RepairBytes {
    sent: u64,
    lost: u64,
}

/// Returns the bytes that the relays of a flow sent to its receiver.
///
/// Asserts that the relays sent each packet once at most, plus retransmissions of forwarded packets
/// that the last hop lost, or seemed to lose because of reordering. Seeming losses are one packet
/// in eight, and one in four of packets sent together.
fn check_repair_bytes(run: &Run, world: &OverlayWorld, flow: usize, story: &str) -> RepairBytes {
    let plan = &run.plan.flows[flow];
    let (receiver, packet_bytes) = (run.agents[plan.to], plan.datagram_bytes as u64 + HEADERS);
    let relays = &run.plan.agents[plan.to].relays;
    let links = relays.iter().filter_map(|(relay, _)| world.counters(run.relays[*relay], receiver));
    let repair_bytes: u64 = links.map(|counters| counters.sent_bytes.count()).sum();
    let housekeeping = HOUSEKEEPING * relays.len() as u64 + REQUEST * run.statistics(flow, world).lent;
    let service = plan.settings.service;
    let sent = if service == Service::Internet { 0 } else { run.sent[flow].len() as u64 * packet_bytes };
    let forwards = matches!(service, Service::Forwarding | Service::Both | Service::Retransmission);
    let links = relays.iter().filter_map(|(relay, _)| world.counters(run.relays[*relay], receiver));
    let lost: u64 = links.map(|counters| counters.lost.total() + counters.corrupted).sum();
    // Packets of a frame leave at once: jitter reorders most of them.
    let displaced = if matches!(plan.sending, SendSchedule::Frames { .. }) { sent / 4 } else { sent / 8 };
    let again = if forwards { 2 * lost * packet_bytes + displaced } else { 0 };
    let bound = sent + again + housekeeping;
    assert!(repair_bytes <= bound, "{repair_bytes} B sent of {bound} B for {sent} B: {story}");
    if !matches!(service, Service::Coding | Service::Caching) {
        return RepairBytes::default();
    }
    let direct = world.counters(run.agents[plan.from], receiver).expect("they are connected");
    let lost = (direct.lost.total() + direct.corrupted) * packet_bytes;
    RepairBytes { sent: repair_bytes.saturating_sub(housekeeping), lost }
}

/// Asserts that each datagram was delivered in time, late, or never, and that the receiver's
/// counters agree.
fn check_counters(run: &Run, world: &OverlayWorld, flow: usize, story: &str) {
    let (sent, budget) = (&run.sent[flow], run.plan.flows[flow].settings.latency_budget);
    let took = run
        .delivered
        .iter()
        .filter(|got| got.flow == flow)
        .map(|got| got.at - sent[usize::try_from(got.number).expect("there are few packets")]);
    let (in_time, late): (Vec<_>, Vec<_>) = took.partition(|took| *took <= budget);
    let (delivered, missing) = (in_time.len() + late.len(), run.missing(flow, Time::START, Time::MAX).len());
    assert_eq!(
        sent.len(),
        delivered + missing,
        "{} in time, {} late, {missing} missing of flow {flow}: {story}",
        in_time.len(),
        late.len()
    );
    if run.is_first_incarnation(run.plan.flows[flow].to) {
        let message = run.received_total(flow, world);
        let message = message.direct + message.repaired() + message.forwarded;
        // Until the path MTU is known, a long datagram leaves in two fragments, and only one of
        // them may arrive.
        let is_whole = run.plan.flows[flow].datagram_bytes <= FRAGMENT_BYTES_BASE;
        let fragments = if is_whole { delivered as u64 } else { 2 * sent.len() as u64 };
        assert!(
            (delivered as u64..=fragments).contains(&message),
            "{message} packets for {delivered} datagrams of flow {flow}: {story}"
        );
    }
}

/// Asserts that all backlogs and buffers are empty, and that nodes have sessions only with nodes
/// that they know.
fn check_idle(run: &Run, world: &mut OverlayWorld, story: &str) {
    for relay in 0..run.relays.len() {
        let near = run.plan.agents.iter().filter(|agent| agent.relays.iter().any(|(near, _)| *near == relay));
        let hostile = if run.plan.hostile.is_some() { 2 } else { 0 };
        let known = near.count() + run.relays.len() - 1 + hostile;
        let rate = run.plan.flows[0].settings.rate.bytes_in(REPAIR_RETENTION).expect("it is no long time");
        let held_max = run.plan.flows.len() as u64 * rate.count() + 2 * BUFFER_CHUNK_BYTES_MAX as u64;
        // A relay that stopped stays as it was.
        world.input(run.relays[relay], |host, _| {
            let relay = host.relay();
            assert_eq!(relay.backlog(), RelayBacklog::default(), "{story}");
            assert!(relay.sessions() <= known, "{} of {known} sessions: {story}", relay.sessions());
            assert!(relay.buffered_bytes().count() <= held_max, "{}: {story}", relay.buffered_bytes());
        });
    }
    for (agent, plan) in run.agents.iter().zip(&run.plan.agents) {
        let agent = world.host(*agent).agent();
        assert_eq!(agent.backlog(), AgentBacklog::default(), "{story}");
        let known = plan.relays.len() + 1;
        assert!(agent.sessions() <= known, "{} of {known} sessions: {story}", agent.sessions());
        let rate =
            run.plan.flows[0].settings.rate.bytes_in(AGENT_BUFFER_RETENTION).expect("it is no long time");
        let held_max = 2 * rate.count() + 4 * BUFFER_CHUNK_BYTES_MAX as u64;
        assert!(agent.packets_held().count() <= held_max, "{}: {story}", agent.packets_held());
    }
}

/// Asserts that most inputs cost little; every input is checked against the limit elsewhere. Relays
/// have a budget for the hostile tenant. Returns the messages that relays read.
fn check_work(run: &Run, world: &OverlayWorld, story: &str) -> u64 {
    let received = |node: NodeId| -> u64 {
        let into = world.links().filter(|(_, to, _)| *to == node);
        into.map(|(_, _, counters)| counters.delivered).sum()
    };
    let hostile = if run.plan.hostile.is_some() { 2 * SESSION_WORK_BURST } else { 0 };
    let mut messages = 0;
    for relay in &run.relays {
        let (work, datagrams) = (world.host(*relay).relay().work(), received(*relay));
        messages += work.messages;
        let bound = WORK_PER_DATAGRAM * datagrams + hostile;
        assert!(work.units() <= bound, "{work:?} of a relay for {datagrams} datagrams: {story}");
    }
    for agent in &run.agents {
        let (work, datagrams) = (world.host(*agent).agent().work(), received(*agent));
        let bound = WORK_PER_DATAGRAM * datagrams;
        assert!(work.units() <= bound, "{work:?} of an agent for {datagrams} datagrams: {story}");
    }
    messages
}

/// Asserts that the ingress relay sends the egress relay less than it receives.
fn check_coded(run: &Run, world: &OverlayWorld, story: &str) {
    let senders =
        run.plan.flows.iter().filter_map(|flow| world.counters(run.agents[flow.from], run.relays[0]));
    let copies: u64 = senders.map(|counters| counters.sent_bytes.count()).sum();
    let repairs =
        world.counters(run.relays[0], run.relays[1]).expect("they are connected").sent_bytes.count();
    assert!(
        repairs < copies * 3 / 4 + 80_000,
        "{repairs} B of repair packets for {copies} B of copies: {story}"
    );
}

fn check(seed: u64) -> (Run, RepairBytes, u64) {
    // Every delivery is checked for content and duplication, and the end of the run for packets
    // that vanish or appear.
    let (mut world, mut run, story) = run_world(seed);
    let mut repaired = RepairBytes::default();
    for flow in 0..run.plan.flows.len() {
        let missing = run.missing(flow, at(UNTIL + HEALING), Time::MAX);
        assert!(
            missing.is_empty(),
            "{} packets of flow {flow} from {:?} on: {story}",
            missing.len(),
            missing.first()
        );
        check_counters(&run, &world, flow, &story);
        let RepairBytes { sent: repair_bytes, lost } = check_repair_bytes(&run, &world, flow, &story);
        repaired.sent += repair_bytes;
        repaired.lost += lost;
    }
    let messages = check_work(&run, &world, &story);
    // A hostile tenant's announcements and copies travel between relays, too.
    let is_coded = run.plan.flows[0].settings.service == Service::Coding && run.relays.len() == 2;
    if is_coded && run.plan.hostile.is_none() {
        check_coded(&run, &world, &story);
    }
    // All traffic ends.
    let before = sent_bytes(&world);
    world.run_for(secs(1), &mut run);
    let idle = sent_bytes(&world) - before;
    let ends = run.plan.agents.len() as u64 + if run.plan.hostile.is_some() { 2 } else { 0 };
    assert!(idle < 5_000 * ends, "{idle} B in a second after all was sent: {story}");
    // Receivers send requests until they are idle, and relays are idle after the same time without
    // requests.
    world.run_for(FLOW_IDLE_TIMEOUT * 2, &mut run);
    check_idle(&run, &mut world, &story);
    (run, repaired, messages)
}

/// Returns the seeds of the swarm, and true if these are the default: `BYWAY_SWARM=40..1000` runs
/// others, or one of them again.
#[allow(clippy::disallowed_methods, reason = "whoever runs the test names its worlds")]
fn seeds() -> (Range<u64>, bool) {
    let Ok(range) = std::env::var("BYWAY_SWARM") else {
        return (0..SEEDS, true);
    };
    let number =
        |text: &str| text.parse().unwrap_or_else(|_| panic!("BYWAY_SWARM={range}: {text} is no seed"));
    let (from, until) =
        range.split_once("..").unwrap_or_else(|| panic!("BYWAY_SWARM={range} is not as 40..1000"));
    (number(from)..number(until), false)
}

#[test]
fn whatever_goes_wrong_is_over_five_seconds_after_it_ends() {
    let mut counts = BTreeMap::new();
    let mut repaired: BTreeMap<Service, RepairBytes> = BTreeMap::new();
    let (seeds, are_own) = seeds();
    // Messages of relays, in worlds with a hostile tenant and in others.
    let mut messages = [0, 0];
    for seed in seeds {
        let (run, RepairBytes { sent: repair_bytes, lost }, read) = check(seed);
        messages[usize::from(run.plan.hostile.is_none())] += read;
        let all = repaired.entry(run.plan.flows[0].settings.service).or_default();
        all.sent += repair_bytes;
        all.lost += lost;
        for got in run.delivered {
            *counts.entry(got.delivery).or_insert(0) += 1;
        }
    }
    if !are_own {
        return;
    }
    assert!(messages[0] > 10 * messages[1], "hostile tenants flood relays: {messages:?} messages");
    // A swarm without repairs proves nothing.
    for delivery in
        [Delivery::Direct, Delivery::Forwarded, Delivery::InStream, Delivery::Cooperative, Delivery::Cached]
    {
        assert!(counts.get(&delivery).is_some_and(|count| *count > 50), "{counts:?}");
    }
    // One repair for each loss, and some more because of late packets or silence. In a single
    // world, chance dominates.
    for service in [Service::Coding, Service::Caching] {
        let RepairBytes { sent: repair_bytes, lost } = repaired[&service];
        assert!(repair_bytes <= lost * 5 / 4, "{repair_bytes} B of repairs for {lost} B: {service:?}");
    }
}

#[test]
fn the_swarm_has_hostile_tenants_and_adversaries_on_every_kind_of_link() {
    let (mut hostile, mut peaceful, mut attacked, mut several) = (0, 0, BTreeSet::new(), 0);
    for seed in 0..SEEDS {
        let mut random = Seed::new(seed).named("swarm").sequence();
        let (_, run) = plan(seed, &mut random).build();
        let adversary = adversary(seed, &run);
        let kind = |node: NodeId| run.relays.contains(&node);
        let links = adversary.iter().flat_map(|(links, _)| links);
        attacked.extend(links.map(|(one, other)| (kind(*one), kind(*other))));
        several += u64::from(adversary.as_ref().is_some_and(|(links, _)| links.len() > 1));
        hostile += u64::from(hostile_tenant(seed).is_some());
        peaceful += u64::from(adversary.is_none() && hostile_tenant(seed).is_none());
    }
    assert!(
        hostile >= SEEDS / 5 && peaceful >= SEEDS / 5 && several >= SEEDS / 5,
        "{hostile} {peaceful} {several}"
    );
    assert_eq!(attacked.len(), 3, "between agents, to relays, between relays: {attacked:?}");
}

/// Seed 6259: a NACK for 33 packets, beside many batches whose decode attempts fail alone, once
/// caused 2,272 joint solves.
#[test]
fn a_question_beside_many_undecodable_batches_costs_what_one_input_may() {
    check(6_259);
}

/// Outages of receivers beside flows whose batches lack more packets than they have repair packets,
/// 32 at a time.
#[test]
fn undecodable_batches_without_new_packets_are_not_solved_again() {
    for seed in [5_228, 7_150, 8_292] {
        check(seed);
    }
}

/// ACKs that overtake the NACK that they end, and a receiver that moves while it is frozen, for two
/// seconds.
#[test]
fn forwarded_packets_are_repaired_only_within_their_deadline() {
    for seed in [2_706, 5_037, 6_365] {
        check(seed);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in [3, 17] {
        assert_eq!(run_world(seed).0.digest(), run_world(seed).0.digest(), "seed {seed}");
    }
    assert_ne!(run_world(3).0.digest(), run_world(4).0.digest());
}

/// A world with few events, because its trace must change only with the protocol or the world.
#[test]
fn the_trace_of_a_short_call_is_what_it_was() {
    let mut plan = Plan::pairs(4, Service::Coding).each_flow(|flow| flow.length = secs(2));
    plan.lose(0, 50, 3);
    let (world, run) = plan.run();
    assert_eq!((run.fate(&world).lost, run.fate(&world).repaired), (3, 3));
    assert_eq!(
        world.digest(),
        17_135_178_504_708_488_606,
        "the trace changed: if packets are meant to be different from before, put the new digest here"
    );
}
