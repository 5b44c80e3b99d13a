//! Tests that nodes that misbehave, forge, replay or flood gain nothing, and do not harm others.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use byway_proto::agent::Delivery;
use byway_proto::limits::{
    HANDSHAKE_BURST, HANDSHAKES_PER_SECOND, PROVED_HANDSHAKE_BURST, PROVED_HANDSHAKES_PER_SECOND,
};
use byway_sim::{Link, NodeId, Step};
use byway_units::Time;
use byway_wire::Service;
use byway_wire::packets::CookiePacket;
use byway_wire::seal::{
    AwaitedResponse, Cookie, Initiation, PreSharedKey, Purpose, StaticSecret, Suite, write_mac2,
};

use crate::support::{
    AGENTS, ARRANGEMENTS, AgentPlan, InjectedDatagram, Misbehaviour, ObservedPacket, OverlayWorld, Plan,
    RELAYS, Run, TestNode, address, at, ms, relay_node, secs, share,
};

/// Eight coded flows without in-stream repair packets. The packets of receiver 7, which it returns
/// for others, differ from the copies at the ingress relay: a second sender, with the same number
/// and key, sends the copies.
fn with_false_copies() -> Plan {
    let plan = Plan::pairs(8, Service::Coding);
    let mut plan = plan.each_flow(|flow| flow.settings.rates.in_stream = None);
    let (sender, receiver) = (plan.flows[7].from, plan.flows[7].to);
    let mut copies = plan.flows[7].clone();
    plan.flows[7].sends_alone = true;
    let (senders, receivers) = (plan.agents[sender].clone(), plan.agents[receiver].clone());
    plan.agents.push(AgentPlan { number_of: Some(sender), secret_of: Some(sender), ..senders });
    plan.agents.push(AgentPlan { number_of: Some(receiver), ..receivers });
    (copies.from, copies.to) = (16, 17);
    copies.number_of = Some(7);
    copies.receives_alone = true;
    plan.flows.push(copies);
    plan.agents[sender].relays.clear();
    for nth in 0..10 {
        plan.lose(0, 140 + nth * 80, 5);
    }
    plan
}

/// Eight coded flows without in-stream repair packets. The first loses 50 packets, and the last
/// one's receiver returns garbage for others.
fn with_lying_receiver(arrange: fn(Plan) -> Plan) -> Plan {
    let plan = arrange(Plan::pairs(8, Service::Coding)).with_lying_agent(15, Misbehaviour::Garbage);
    let mut plan = plan.each_flow(|flow| flow.settings.rates.in_stream = None);
    (0..10).for_each(|nth| plan.lose(0, 140 + nth * 80, 5));
    plan
}

#[test]
fn a_faulty_cooperating_receiver_is_quarantined_and_nothing_false_is_delivered() {
    for (name, arrange) in &ARRANGEMENTS[1..] {
        let (world, run) = with_lying_receiver(*arrange).run();
        let egress = run.egress(run.plan.flows[0].paths[0].1, &world);
        assert!(egress.answers_false > 0, "{name}: the liar was asked, and answered: {egress:?}");
        assert!(egress.answers_false <= 16, "{name}: it is not asked again: {egress:?}");
        assert_eq!(egress.decode_attempts_inconsistent, 0, "{name}: no lie was used: {egress:?}");
        let fate = &run.fates(&world)[0];
        assert_eq!((fate.lost, fate.repaired), (50, 50), "{name}: {fate:?}, {egress:?}");
        for flow in 0..8 {
            assert_eq!(run.statistics(flow, &world).false_repairs, 0, "{name}");
        }
    }
}

#[test]
fn a_receiver_that_lies_to_the_only_relay_costs_repairs_and_nothing_that_is_true() {
    let (world, run) = with_lying_receiver(Plan::with_one_relay).run();
    let fate = &run.fates(&world)[0];
    let deceived = run.statistics(0, &world).false_repairs;
    assert!(deceived > 0, "the lies were used: {fate:?}");
    assert!(deceived <= 3 * fate.lost, "{deceived} false repairs of {fate:?}");
    assert!(
        fate.lost == 50 && fate.missing <= fate.lost,
        "what the direct path delivered was delivered: {fate:?}"
    );
    for flow in 1..8 {
        assert_eq!((run.statistics(flow, &world).false_repairs, run.fates(&world)[flow].missing), (0, 0));
    }
}

#[test]
fn a_false_packet_that_no_digest_names_costs_three_repairs_and_nothing_that_is_true() {
    let mut plan = with_false_copies();
    for flow in &mut plan.flows {
        // Too long for the digests of a batch of eight.
        flow.datagram_bytes = 1_350;
        flow.long_from = 100;
        flow.settings.rate = byway_units::Rate::from_megabits_per_second(2);
    }
    let (world, run) = plan.run();
    let egress = run.egress(1, &world);
    assert_eq!(egress.answers_false, 0, "nothing tells who lied: {egress:?}");
    let fate = &run.fates(&world)[0];
    let deceived = run.statistics(0, &world).false_repairs;
    assert!(deceived > 0, "the lies were used: {fate:?}, {egress:?}");
    assert_eq!(fate.lost, 50, "{fate:?}");
    assert!(deceived <= 3 * fate.lost, "{deceived} false repairs of {fate:?}");
    assert!(fate.missing <= fate.lost, "what the direct path delivered was delivered: {fate:?}");
    for flow in 1..8 {
        assert_eq!(run.statistics(flow, &world).false_repairs, 0);
    }
}

/// Adds a stranger with short links to all nodes.
fn stranger(run: &Run, world: &mut OverlayWorld) -> (NodeId, SocketAddr) {
    let own = address(66, 0);
    let stranger = world.add(TestNode::off_path_host(own), own);
    for node in run.agents.iter().chain(&run.relays) {
        world.connect_both(stranger, *node, &Link { delay: ms(1), ..Link::default() });
    }
    (stranger, own)
}

/// Caching flows with losses, and a record of their packets.
fn with_capture() -> (OverlayWorld, Run) {
    let mut plan = Plan::pairs(3, Service::Caching);
    for nth in 0..20 {
        plan.lose(0, 30 + nth * 45, 2);
    }
    let (mut world, run) = plan.build();
    let mut pairs = vec![(run.relays[0], run.relays[1]), (run.relays[1], run.relays[0])];
    for flow in &run.plan.flows {
        let (sender, receiver) = (run.agents[flow.from], run.agents[flow.to]);
        pairs.extend([(sender, receiver), (receiver, sender)]);
        pairs.extend([(sender, run.relays[0]), (run.relays[0], sender)]);
        pairs.extend([(receiver, run.relays[1]), (run.relays[1], receiver)]);
    }
    world.observer_mut().observed_links = pairs;
    (world, run)
}

/// Packets sent earlier and no longer in flight, because a replay that arrives first is equal to
/// the packet itself.
fn delivered_packets(world: &OverlayWorld) -> Vec<ObservedPacket> {
    let before = world.now().saturating_sub(ms(200));
    let seen = world.observer().observed.iter().filter(|seen| seen.step == Step::Sent && seen.time < before);
    seen.cloned().collect()
}

/// Has the stranger send the observed packets, changed or not.
fn replay_observed(
    world: &mut OverlayWorld,
    stranger: NodeId,
    change: impl Fn(usize, &mut InjectedDatagram),
) -> usize {
    let chosen = delivered_packets(world).into_iter().enumerate();
    let parcels: Vec<_> = chosen
        .map(|(nth, crossing)| {
            let mut parcel = InjectedDatagram {
                source: None,
                destination: crossing.destination,
                payload: crossing.payload,
            };
            change(nth, &mut parcel);
            parcel
        })
        .collect();
    let count = parcels.len();
    world.input(stranger, |host, _| parcels.into_iter().for_each(|parcel| host.queue_datagram(parcel)));
    count
}

/// Compares the deliveries without and with an attack at 6 s and at 9 s.
fn attacked(
    attack: impl Fn(&mut Run, &mut OverlayWorld, NodeId) + Clone + 'static,
) -> (OverlayWorld, Run, NodeId) {
    let (mut peace, mut undisturbed) = with_capture();
    undisturbed.finish(&mut peace);
    let (mut world, mut run) = with_capture();
    let (stranger, _) = stranger(&run, &mut world);
    for time in [at(6_000), at(9_000)] {
        let attack = attack.clone();
        Run::schedule(&mut world, time, move |run, world| attack(run, world, stranger));
    }
    run.finish(&mut world);
    let delivered = |run: &Run| -> Vec<_> {
        run.delivered.iter().map(|got| (got.at, got.flow, got.number, got.delivery)).collect()
    };
    assert_eq!(delivered(&run).len(), delivered(&undisturbed).len());
    assert!(delivered(&run) == delivered(&undisturbed), "the same deliveries at the same instants");
    assert_eq!(run.fate(&world).by(Delivery::Cached), 40);
    assert_eq!(moves(&run, &world), 0, "no session moves");
    (world, run, stranger)
}

fn moves(run: &Run, world: &OverlayWorld) -> u64 {
    let agents = run.agents.iter().map(|agent| world.host(*agent).agent().session_counters().moves);
    let relays = run.relays.iter().map(|relay| world.host(*relay).relay().session_counters().moves);
    agents.chain(relays).sum()
}

fn replayed(run: &Run, world: &OverlayWorld) -> u64 {
    let agents = run.agents.iter().map(|agent| world.host(*agent).agent().session_counters().replayed);
    let relays = run.relays.iter().map(|relay| world.host(*relay).relay().session_counters().replayed);
    agents.chain(relays).sum()
}

fn forged(run: &Run, world: &OverlayWorld) -> u64 {
    let agents = run.agents.iter().map(|agent| world.host(*agent).agent().session_counters().forged);
    let relays = run.relays.iter().map(|relay| world.host(*relay).relay().session_counters().forged);
    let flows = (0..run.plan.flows.len()).map(|flow| run.statistics(flow, world).forged);
    agents.chain(relays).chain(flows).sum()
}

#[test]
fn packets_that_are_replayed_from_elsewhere_do_nothing() {
    let (world, run, stranger) = attacked(|_, world, stranger| {
        let sent = replay_observed(world, stranger, |_, _| {});
        assert!(sent > 2_000, "{sent}");
    });
    assert!(replayed(&run, &world) > 1_000);
    assert_eq!(forged(&run, &world), 0);
    for answer in world.host(stranger).received() {
        assert!(
            [5, 6].contains(&answer.payload[0]),
            "nothing but an answer to a handshake: kind {}",
            answer.payload[0]
        );
    }
}

#[test]
fn packets_that_are_replayed_with_their_own_source_address_do_nothing() {
    let (world, run, _) = attacked(|_, world, stranger| {
        let parcels = delivered_packets(world).into_iter().map(|seen| InjectedDatagram {
            source: Some(seen.source),
            destination: seen.destination,
            payload: seen.payload,
        });
        let parcels: Vec<_> = parcels.collect();
        world.input(stranger, |host, _| parcels.into_iter().for_each(|parcel| host.queue_datagram(parcel)));
    });
    assert!(replayed(&run, &world) > 1_000);
}

#[test]
fn packets_that_are_altered_do_nothing() {
    let (world, run, stranger) = attacked(|_, world, stranger| {
        replay_observed(world, stranger, |nth, parcel| {
            let last = parcel.payload.len() - 1;
            parcel.payload[last - nth % 16.min(last)] ^= 1 << (nth % 8);
            // Sequence numbers and counters that are still unused.
            let index = if parcel.payload[0] == 7 { 9 } else { 8 };
            if parcel.payload.len() > index + 2 && nth % 2 == 0 && (7..=9).contains(&parcel.payload[0]) {
                parcel.payload[index] ^= 0x10;
            }
        });
    });
    assert!(forged(&run, &world) > 1_000, "{}", forged(&run, &world));
    // A handshake packet with only its last MAC altered repeats an answered one, or causes a
    // cookie.
    let answers = world.host(stranger).received();
    assert!(
        answers.len() < 60 && answers.iter().all(|answer| [5, 6].contains(&answer.payload[0])),
        "{}",
        answers.len()
    );
}

#[test]
fn garbage_of_every_kind_and_length_does_nothing() {
    let (world, _, stranger) = attacked(|run, world, stranger| {
        let mut random = run.plan.seed().named("garbage").sequence();
        let mut parcels = Vec::new();
        for destination in
            (0..6).map(|agent| address(AGENTS, agent)).chain((0..2).map(|relay| address(RELAYS, relay)))
        {
            for length in (0..400).chain((400..1_500).step_by(37)) {
                let mut payload: Vec<u8> = (0..length).map(|_| random.bits().to_be_bytes()[0]).collect();
                if let Some(kind) = payload.first_mut() {
                    *kind %= 17;
                }
                // Some initiations have a valid form, and only their MAC is wrong.
                if let Some(head) = payload.get_mut(..6).filter(|head| head[0] == 4 && length % 2 == 0) {
                    head[1..6].copy_from_slice(&[1, 1 + u8::from(length % 3 == 0), 1, 0, 0]);
                }
                parcels.push(InjectedDatagram { source: None, destination, payload });
            }
        }
        world.input(stranger, |host, _| parcels.into_iter().for_each(|parcel| host.queue_datagram(parcel)));
    });
    assert!(world.host(stranger).received().is_empty());
}

#[test]
fn a_packet_that_overtakes_from_elsewhere_does_not_move_its_session() {
    let (mut world, mut run) = with_capture();
    let (stranger, _) = stranger(&run, &mut world);
    let link = (run.agents[0], run.agents[1]);
    for nth in 0..200 {
        // Just after each packet is sent, its twin arrives from another address, 49 ms before it.
        let time = run.plan.sends_at(0, 200 + nth) + byway_units::Duration::from_micros(10);
        Run::schedule(&mut world, time, move |_, world| {
            let newest = world.observer().observed.iter().rev();
            let newest = newest
                .filter(|seen| (seen.from, seen.to) == (link.0, Some(link.1)))
                .find(|seen| seen.step == Step::Sent);
            let newest = newest.expect("packets were sent").clone();
            let parcel =
                InjectedDatagram { source: None, destination: newest.destination, payload: newest.payload };
            world.input(stranger, |host, _| host.queue_datagram(parcel));
        });
    }
    run.finish(&mut world);
    assert_eq!(moves(&run, &world), 0);
    assert!(run.statistics(0, &world).duplicates >= 150, "the packets themselves come second");
    let fate = run.fate(&world);
    assert_eq!(fate.missing, 0, "{fate:?}");
    // Every answer is checked for the amplification limit of three times the bytes from its
    // address.
    assert!(!world.host(stranger).received().is_empty(), "the other address was asked to prove itself");
}

/// Initiations to relay 1 from unknown agents.
fn unknown_initiations(run: &Run, count: usize) -> Vec<(Vec<u8>, AwaitedResponse)> {
    let relay = relay_node(run.plan.seed(), 1).secret.public_key();
    let nobody = StaticSecret::from_bytes([7; 32]);
    let packet = |nth: usize| {
        let initiation = Initiation {
            purpose: Purpose::AgentToRelay,
            suite: Suite::Aes256Gcm,
            shard: byway_wire::Shard::new(0),
            capabilities: byway_wire::Capabilities::NONE,
            index: byway_wire::SessionIndex::new(u32::try_from(nth).expect("there are few")),
            handshake_timestamp: nth as u64,
            incarnation: byway_wire::Incarnation::new(nth as u64),
            epoch: byway_wire::Epoch::new(0),
            messages: &[],
        };
        let mut seed = [3; 32];
        seed[..8].copy_from_slice(&nth.to_be_bytes());
        initiation.write(&nobody, &relay, &PreSharedKey::default(), &seed).expect("the key is a key")
    };
    (0..count).map(packet).collect()
}

/// Returns one of many addresses outside the overlay.
fn spoofed(nth: usize) -> SocketAddr {
    let [_, _, high, low] = u32::try_from(nth).expect("there are few").to_be_bytes();
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 99, high, low)), 999)
}

/// Has a stranger send a packet to relay 1 at an instant.
fn send_at(world: &mut OverlayWorld, time: Time, stranger: NodeId, source: SocketAddr, payload: Vec<u8>) {
    let parcel = InjectedDatagram { source: Some(source), destination: address(RELAYS, 1), payload };
    Run::schedule(world, time, move |_, world| {
        world.input(stranger, |host, _| host.queue_datagram(parcel));
    });
}

#[test]
fn a_flood_of_handshakes_from_spoofed_addresses_gets_cookies_no_larger_than_the_requests() {
    let (mut world, mut run) = with_capture();
    let (stranger, _) = stranger(&run, &mut world);
    // The stranger has all those addresses, because it must see packets to them.
    for nth in 0..500 {
        world.assign(spoofed(nth), stranger);
    }
    let packets = unknown_initiations(&run, 50);
    let requests = 5_000_usize;
    for nth in 0..requests {
        let time = at(5_000) + byway_units::Duration::from_micros(200) * nth as u64;
        send_at(&mut world, time, stranger, spoofed(nth % 500), packets[nth % 50].0.clone());
    }
    run.finish(&mut world);
    let answers = world.host(stranger).received();
    assert!(answers.len() > 3_000 && answers.len() <= requests, "{}", answers.len());
    assert!(
        answers.iter().all(|answer| answer.payload[0] == 6 && answer.payload.len() <= packets[0].0.len()),
        "cookies, nothing else"
    );
    let relay = world.host(run.relays[1]).relay();
    assert_eq!(relay.session_counters().cookies, answers.len() as u64);
    assert!(relay.counters().strangers_refused > 0, "what is read without a cookie is refused");
    let fate = run.fate(&world);
    assert_eq!((fate.lost, fate.repaired, fate.missing), (40, 40, 0), "established flows go on: {fate:?}");
}

/// Returns the cookies that the stranger received, by address, each opened with the initiation of
/// its address.
fn cookies(
    world: &OverlayWorld,
    stranger: NodeId,
    sent: &[(Vec<u8>, AwaitedResponse)],
) -> Vec<Option<Cookie>> {
    let mut cookies = vec![None; sent.len()];
    for answer in world.host(stranger).received() {
        let nth = (0..sent.len()).find(|nth| spoofed(*nth) == answer.to).expect("it has no other address");
        let packet = CookiePacket::parse(answer.payload.as_slice()).expect("a cookie");
        cookies[nth] = Some(sent[nth].1.open_cookie(packet).expect("it is for this initiation"));
    }
    cookies
}

#[test]
fn a_flood_of_handshakes_with_valid_cookies_is_read_no_faster_than_its_limit() {
    const ADDRESSES: usize = 200;
    let (mut world, mut run) = with_capture();
    let (stranger, _) = stranger(&run, &mut world);
    let mut packets = unknown_initiations(&run, ADDRESSES);
    for (nth, (packet, _)) in packets.iter().enumerate() {
        world.assign(spoofed(nth), stranger);
        // More initiations than the relay reads from one network without a cookie.
        for _ in 0..8 {
            send_at(&mut world, at(5_000), stranger, spoofed(nth), packet.clone());
        }
    }
    world.run_until(at(5_500), &mut run);
    let cookies = cookies(&world, stranger, &packets);
    for ((packet, _), cookie) in packets.iter_mut().zip(&cookies) {
        write_mac2(packet, cookie.as_ref().expect("every address got one"));
    }
    let strangers_refused =
        |world: &OverlayWorld| world.host(run.relays[1]).relay().counters().strangers_refused;
    let read_before = strangers_refused(&world);
    assert!(read_before <= HANDSHAKE_BURST + HANDSHAKES_PER_SECOND, "{read_before}");
    // 8,000 a second for three seconds; each address may send 20 of them.
    for nth in 0..24_000 {
        let time = at(5_500) + byway_units::Duration::from_micros(125) * nth as u64;
        let nth = nth % ADDRESSES;
        send_at(&mut world, time, stranger, spoofed(nth), packets[nth].0.clone());
    }
    world.run_until(at(8_600), &mut run);
    let read = world.host(run.relays[1]).relay().counters().strangers_refused - read_before;
    assert!(read <= PROVED_HANDSHAKE_BURST + 3 * PROVED_HANDSHAKES_PER_SECOND, "{read}");
    assert!(read >= 3 * PROVED_HANDSHAKES_PER_SECOND, "the cookies are valid: {read}");
    run.finish(&mut world);
    let fate = run.fate(&world);
    assert_eq!((fate.lost, fate.repaired, fate.missing), (40, 40, 0), "established flows go on: {fate:?}");
}

#[test]
fn an_agent_without_a_session_gets_one_while_the_relay_is_flooded() {
    let (mut world, mut run) = with_capture();
    let (stranger, own) = stranger(&run, &mut world);
    let packets = unknown_initiations(&run, 50);
    for nth in 0..20_000_usize {
        let time = at(4_000) + byway_units::Duration::from_micros(200) * nth as u64;
        send_at(&mut world, time, stranger, own, packets[nth % 50].0.clone());
    }
    Run::schedule(&mut world, at(5_000), |run, world| run.restart_agent(1, world));
    run.finish(&mut world);
    let repaired = run.delivery_counts(0, at(6_500), at(8_000));
    assert!(repaired.get(&Delivery::Cached).is_some_and(|count| *count > 0), "{repaired:?}");
}

#[test]
fn a_receiver_that_asks_for_everything_again_and_again_costs_no_more_than_its_rate() {
    // An outage of one direction: requests arrive, answers do not, and requests are repeated again
    // and again.
    let mut plan = Plan::pairs(2, Service::Caching);
    plan.add_outage(0, at(4_000), secs(8));
    plan.flows[0].settings.rate = byway_units::Rate::from_kilobits_per_second(300);
    let (mut world, mut run) = plan.build();
    let (relay, receiver) = (run.relays[1], run.agents[1]);
    Run::schedule(&mut world, at(4_000), move |_, world| {
        let outage = Link { loss: vec![byway_sim::Loss::Independent(share(1.0))], ..Link::default() };
        world.connect(relay, receiver, outage);
    });
    run.finish(&mut world);
    let sent = world.counters(relay, receiver).expect("they are connected").sent_bytes.count();
    // 10 s of 300 kbit/s, a burst of two seconds, and the headers and probes.
    assert!(sent > 150_000 && sent < 600_000, "{sent} B");
}
