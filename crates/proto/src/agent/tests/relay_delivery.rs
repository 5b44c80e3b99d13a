//! Tests of flows that use relays alone, with and without delivery.

use super::*;

use byway_plan::Rejection;

use crate::agent::send_flow::SendFlow;
use crate::agent::service_selection::{observe, selectable_services};
use crate::agent::{Flow, explain};
use crate::network_path::{NetworkPath, Uplink};

fn sender(network: &mut TestNetwork) -> &mut SendFlow {
    &mut network.agents[SENDER].senders[network.flow.0 as usize]
}

/// Returns the settings of a flow that relays alone forward, and whose sender selects the service.
fn selected() -> FlowSettings {
    FlowSettings { automatic_service: true, ..settings(Service::Forwarding) }
}

fn service(network: &TestNetwork) -> Service {
    network.agents[SENDER].flow_status(network.flow).expect("the flow is open").service
}

fn path_in_use(network: &TestNetwork) -> Option<usize> {
    network.agents[SENDER].flow_status(network.flow).expect("the flow is open").path_in_use
}

/// Sends a packet every 20 ms for this time; the relay delivers them if `is_delivered`.
fn call(network: &mut TestNetwork, millis: u64, is_delivered: bool) {
    for number in 0..millis / 20 {
        network.send(&[u8::try_from(number % 251).expect("a byte"); 50]);
        network.run(ms(10));
        if is_delivered {
            network.forward_copies(1);
        }
        network.run(ms(10));
    }
}

#[test]
fn a_flow_that_its_relay_delivers_stays_off_the_direct_path() {
    let mut network = TestNetwork::new(&settings(Service::Forwarding));
    call(&mut network, 4_000, true);
    assert_eq!(
        (service(&network), network.agents[SENDER].counters().source_packets),
        (Service::Forwarding, 0)
    );
    assert!(network.got.len() >= 198, "{}", network.got.len());
}

#[test]
fn a_flow_that_its_relay_never_delivers_takes_the_direct_path_within_600_ms_and_copies_go_on() {
    let mut network = TestNetwork::new(&settings(Service::Forwarding));
    call(&mut network, 600, false);
    assert_eq!(service(&network), Service::Both);
    let (before, copies) = (network.got.len(), network.agents[SENDER].counters().copies);
    call(&mut network, 1_000, false);
    assert!(network.got.len() >= before + 49, "{before}, then {}", network.got.len());
    assert_eq!(network.agents[SENDER].counters().copies, copies + 50);
}

#[test]
fn a_flow_that_its_relay_delivers_no_more_takes_both_ways_for_a_while_and_tries_again() {
    let mut network = TestNetwork::new(&settings(Service::Forwarding));
    call(&mut network, 2_000, true);
    let before = network.got.len();
    call(&mut network, 600, false);
    assert_eq!(service(&network), Service::Both);
    call(&mut network, 1_000, false);
    assert!(network.got.len() >= before + 50, "{before}, then {}", network.got.len());
    call(&mut network, 13_000, true);
    let source_packets = network.agents[SENDER].counters().source_packets;
    call(&mut network, 1_000, true);
    assert_eq!(
        (service(&network), network.agents[SENDER].counters().source_packets),
        (Service::Forwarding, source_packets)
    );
}

#[test]
fn during_a_failure_of_relays_forwarding_is_the_service_in_force_and_no_candidate() {
    let mut network = TestNetwork::new(&selected());
    call(&mut network, 2_000, true);
    let selected = |network: &TestNetwork| {
        let (agent, now) = (&network.agents[SENDER], network.now);
        let in_force = observe(agent, network.flow, now).map(|(_, service)| service);
        (in_force, selectable_services(agent, network.flow, now).allow(Service::Forwarding))
    };
    assert_eq!(selected(&network), (Some(Service::Forwarding), true));
    let (id, now) = (network.flow, network.now);
    network.agents[SENDER].use_both_paths(id, now);
    assert_eq!(service(&network), Service::Both);
    assert_eq!(selected(&network), (Some(Service::Forwarding), false));
}

/// Returns a network with a flow on both paths, whose sender selects the service, and whose ends
/// support all. Relays deliver after 20 ms, and the direct path after 30. Repairs are too slow.
fn selectable() -> TestNetwork {
    let settings =
        FlowSettings { automatic_service: true, latency_budget: ms(40), ..settings(Service::Both) };
    let mut network = TestNetwork::unregistered(&settings);
    network.relay.sessions.set_capabilities(Capabilities::SERVICE_CHANGES);
    network.run(ms(500));
    network.forget();
    network
}

/// Returns true if an explanation of the flow has forwarding as a candidate.
fn explains_forwarding(network: &TestNetwork) -> bool {
    let explanation = explain(&network.agents[SENDER], network.flow, network.now);
    explanation.expect("the flow is open").criteria.allowed.allow(Service::Forwarding)
}

#[test]
fn a_peer_of_a_version_without_samples_of_the_direct_path_never_gets_forwarding() {
    // Bit 7 is the capability.
    for (bits, expected) in [(0xFF, Rejection::NotMeasured), (0x7F, Rejection::NotAllowed)] {
        let mut network = selectable();
        let peer = sender(&mut network).peer;
        let session = network.agents[SENDER].sessions.get_mut(peer).expect("the peer was added");
        let known = session.epochs[0].capabilities;
        session.epochs[0].capabilities = known & Capabilities::from_bits(bits);
        call(&mut network, 6_000, true);
        assert_eq!(service(&network), Service::Both);
        let selector = network.agents[SENDER].selector(network.flow).expect("the flow has one");
        let latest = selector.log().latest().expect("reports have arrived");
        let candidates = &latest.choice.candidates;
        let known = candidates.iter().find(|known| known.cost.service == Service::Forwarding);
        assert_eq!(known.and_then(|known| known.rejected), Some(expected), "{bits:#x}");
        assert_eq!(explains_forwarding(&network), expected != Rejection::NotAllowed, "{bits:#x}");
    }
}

#[test]
fn forwarding_is_no_candidate_while_the_uplink_to_the_relay_is_metered() {
    let mut network = selectable();
    let (relay, now) = (network.agents[SENDER].relays[0].session, network.now);
    for (uplink, is_second_metered, expected) in
        [(Uplink::Second, false, true), (Uplink::First, true, true), (Uplink::Second, true, false)]
    {
        let agent = &mut network.agents[SENDER];
        agent.set_uplinks(Uplinks::Two { is_second_metered });
        let session = agent.sessions.get_mut(relay).expect("the relay was added");
        session.path.validate(NetworkPath::by(uplink, address(RELAY)), now);
        let services = selectable_services(agent, network.flow, now);
        assert!(services.allow(Service::Both));
        let case = (uplink, is_second_metered);
        assert_eq!(services.allow(Service::Forwarding), expected, "{case:?}");
        assert_eq!(explains_forwarding(&network), expected, "{case:?}");
    }
}

#[test]
fn a_receiver_of_an_earlier_version_awaits_no_samples_and_forwarding_is_no_candidate() {
    let mut network = TestNetwork::new(&selected());
    let is_candidate = |network: &TestNetwork| {
        let services = selectable_services(&network.agents[SENDER], network.flow, network.now);
        services.allow(Service::Forwarding)
    };
    assert!(is_candidate(&network));
    let peer = sender(&mut network).peer;
    let session = network.agents[SENDER].sessions.get_mut(peer).expect("the peer was added");
    session.epochs[0].capabilities = Capabilities::DSCPS.with(Capabilities::SERVICE_CHANGES);
    assert!(!is_candidate(&network));
}

#[test]
fn after_a_failure_relays_alone_forward_a_flow_again_only_if_its_settings_name_that() {
    for (settings, fallback, expected) in [
        (settings(Service::Forwarding), Service::Internet, Service::Forwarding),
        (selected(), Service::Both, Service::Both),
    ] {
        let mut network = TestNetwork::new(&settings);
        call(&mut network, 2_000, true);
        let (id, now) = (network.flow, network.now);
        network.agents[SENDER].use_both_paths(id, now);
        call(&mut network, 100, true);
        // A dead relay explains the failure, and is back at once.
        let now = network.now;
        sender(&mut network).clear_explained_failure(&[false], now);
        network.agents[SENDER].choose_path(Flow::Sent(id), now);
        assert_eq!(service(&network), fallback, "its path is not steady yet");
        call(&mut network, 3_000, true);
        assert_eq!(service(&network), expected);
    }
}

#[test]
fn on_another_relay_path_a_selected_flow_has_both_paths_until_the_next_selection() {
    for (settings, expected) in
        [(settings(Service::Forwarding), Service::Forwarding), (selected(), Service::Both)]
    {
        let mut network = TestNetwork::new(&settings);
        let another = RelayPath { egress: (RelayId::new(10), Shard::new(0)), ..path() };
        let (id, now) = (network.flow, network.now);
        network.agents[SENDER].set_paths(id, alloc::vec![path(), another], now);
        network.drain(SENDER);
        call(&mut network, 3_000, true);
        assert_eq!((service(&network), path_in_use(&network)), (Service::Forwarding, Some(0)));
        let now = network.now;
        assert!(sender(&mut network).registrations.set_unreachable(0, now));
        network.agents[SENDER].choose_path(Flow::Sent(id), now);
        assert_eq!((service(&network), path_in_use(&network)), (expected, Some(1)));
    }
}

#[test]
fn a_pause_of_the_application_is_no_failure_of_its_relay() {
    let mut network = TestNetwork::new(&settings(Service::Forwarding));
    call(&mut network, 1_000, true);
    for _ in 0..5 {
        network.run(ms(1_500));
        call(&mut network, 200, true);
    }
    assert_eq!(
        (service(&network), network.agents[SENDER].counters().source_packets),
        (Service::Forwarding, 0)
    );
}

#[test]
fn a_flow_whose_new_path_delivers_nothing_takes_both_ways_within_600_ms() {
    let mut network = TestNetwork::new(&settings(Service::Forwarding));
    call(&mut network, 2_000, true);
    let now = network.now;
    sender(&mut network).settle_delivery(now);
    call(&mut network, 600, false);
    assert_eq!(service(&network), Service::Both);
}

#[test]
fn a_silence_of_the_path_that_was_left_is_no_failure_of_the_new_one() {
    let mut network = TestNetwork::new(&settings(Service::Forwarding));
    call(&mut network, 2_000, true);
    call(&mut network, 120, false);
    let now = network.now;
    sender(&mut network).settle_delivery(now);
    call(&mut network, 4_000, true);
    assert_eq!(
        (service(&network), network.agents[SENDER].counters().source_packets),
        (Service::Forwarding, 0)
    );
}

#[test]
fn reports_of_nothing_new_have_a_flow_take_both_ways_where_notices_of_silence_are_lost() {
    let mut network = TestNetwork::new(&settings(Service::Forwarding));
    call(&mut network, 2_000, true);
    let heard_again = network.now + ms(700);
    network.loses(move |datagram| datagram.from == RECEIVER && datagram.at < heard_again);
    call(&mut network, 700, false);
    assert_eq!(service(&network), Service::Forwarding, "nothing is known yet");
    call(&mut network, 1_200, false);
    assert_eq!(service(&network), Service::Both);
}

#[test]
fn a_relay_that_is_found_dead_explains_the_first_failure_and_no_second_one_soon_after() {
    let mut network = TestNetwork::new(&settings(Service::Forwarding));
    call(&mut network, 2_000, true);
    for (until, explained) in [(500, true), (1_500, false)] {
        let (id, begins) = (network.flow, network.now);
        network.agents[SENDER].use_both_paths(id, begins);
        let flow = sender(&mut network);
        assert!(flow.undelivered_until(begins).is_some());
        flow.clear_explained_failure(&[false], begins + ms(until));
        assert_eq!(flow.undelivered_until(begins + ms(until)).is_none(), explained);
        network.run(ms(until));
    }
    // The second failure lasts twice as long, although a dead relay explained the first one.
    let now = network.now;
    let until = sender(&mut network).undelivered_until(now);
    assert_eq!(until, Some(now + ms(20_000 - 1_500)));
}

#[test]
fn after_a_failure_a_flow_never_relies_on_a_path_that_it_is_about_to_leave() {
    let mut network = TestNetwork::new(&settings(Service::Forwarding));
    let another = RelayPath { egress: (RelayId::new(10), Shard::new(0)), ..path() };
    let (id, now) = (network.flow, network.now);
    network.agents[SENDER].set_paths(id, alloc::vec![path(), another], now);
    network.drain(SENDER);
    call(&mut network, 3_000, true);
    assert_eq!((service(&network), path_in_use(&network)), (Service::Forwarding, Some(0)));
    let (now, mut has_left) = (network.now, false);
    network.agents[SENDER].use_both_paths(id, now);
    for _ in 0..16_000 / 20 {
        let is_first = path_in_use(&network) == Some(0);
        has_left |= !is_first;
        assert!(is_first || service(&network) == Service::Both, "the other path delivers nothing");
        call(&mut network, 20, is_first);
    }
    assert!(has_left);
    assert_eq!((service(&network), path_in_use(&network)), (Service::Forwarding, Some(0)));
}

#[test]
fn a_failure_of_a_path_that_a_new_map_has_no_more_is_forgotten() {
    let mut network = TestNetwork::new(&settings(Service::Forwarding));
    call(&mut network, 2_000, true);
    let (id, now) = (network.flow, network.now);
    network.agents[SENDER].use_both_paths(id, now);
    assert_eq!(service(&network), Service::Both);
    network.agents[SENDER].set_paths(id, alloc::vec![path()], now);
    assert!(sender(&mut network).undelivered_until(now).is_some(), "it is the same path");
    let relay = (RelayId::new(10), Shard::new(0));
    let elsewhere = RelayPath { ingress: relay, egress: relay, grant: Vec::new() };
    network.agents[SENDER].set_paths(id, alloc::vec![elsewhere], now);
    assert_eq!(sender(&mut network).undelivered_until(now), None);
    assert_eq!(service(&network), Service::Internet, "its relay has not answered");
}

#[test]
fn a_failure_before_the_direct_path_opens_keeps_no_relay_from_bridging_the_next_outage() {
    let mut network = TestNetwork::new(&settings(Service::Pull));
    network.stream(40);
    let (id, now) = (network.flow, network.now);
    let agent = &mut network.agents[SENDER];
    agent.set_relay_delivery(alloc::vec![id], true, now);
    agent.use_both_paths(id, now);
    assert!(sender(&mut network).is_undelivered());
    let agent = &mut network.agents[SENDER];
    agent.set_relay_delivery(alloc::vec![id], false, now);
    agent.choose_path(Flow::Sent(id), now);
    network.stream(20);
    network.loses(|datagram| datagram.source_sequence().is_some());
    network.stream(30);
    let now = network.now;
    assert!(sender(&mut network).is_in_outage(now));
}
