//! Tests of packet totals by peer, which never decrease, even after closes and restarts.

use super::*;
use crate::agent::PeerTotals;
use crate::limits::REPORT_INTERVAL;

/// Returns each agent's totals of the other.
fn totals(network: &TestNetwork) -> [PeerTotals; 2] {
    [SENDER, RECEIVER].map(|who| network.agents[who].totals().remove(&number(1 - who)).unwrap_or_default())
}

/// Returns the directly delivered packets, by the receiver and by the sender.
fn direct(network: &TestNetwork) -> (u64, u64) {
    let [sender, receiver] = totals(network);
    (receiver.received.direct, sender.reported.map_or(0, |reported| reported.direct))
}

/// Returns the lost packets, by the receiver and by the sender.
fn lost(network: &TestNetwork) -> (u64, u64) {
    let [sender, receiver] = totals(network);
    (receiver.received.lost, sender.reported.map_or(0, |reported| reported.lost))
}

fn open(network: &mut TestNetwork) {
    let now = network.now;
    let settings = settings(Service::Caching);
    network.received =
        network.agents[RECEIVER].accept_flow(key(), settings.clone(), now).expect("it was closed");
    network.drain(RECEIVER);
    if network.agents[SENDER].flow_status(network.flow).is_none() {
        network.flow = network.agents[SENDER].open_flow(key(), settings, now).expect("it was closed");
        network.drain(SENDER);
    }
}

#[test]
fn closed_flows_count_on() {
    let mut network = TestNetwork::new(&settings(Service::Caching));
    network.lose_source_packets([4]);
    network.stream(10);
    network.run(REPORT_INTERVAL);
    let (flow, now) = (network.flow, network.now);
    network.agents[SENDER].close_flow(flow, now);
    network.drain(SENDER);
    network.run(ms(500));
    assert_eq!(network.agents[RECEIVER].statistics(network.received), None, "it is closed");
    assert_eq!(direct(&network), (9, 9));
    assert_eq!(lost(&network), (1, 1));
    open(&mut network);
    network.stream(20);
    network.run(REPORT_INTERVAL);
    assert_eq!(direct(&network), (29, 29));
    assert_eq!(lost(&network), (1, 1), "nothing was lost since");
    let before = network.agents.each_ref().map(Agent::totals);
    for agent in &mut network.agents {
        agent.close(network.now);
    }
    assert_eq!(network.agents.each_ref().map(Agent::totals), before, "to the end");
    assert!(before.iter().all(|totals| totals.len() == 1), "one entry for each peer");
}

#[test]
fn what_a_receiver_reports_that_restarted_comes_on_top() {
    let mut network = TestNetwork::new(&settings(Service::Caching));
    network.stream(40);
    network.run(REPORT_INTERVAL);
    assert_eq!(direct(&network), (40, 40));
    network.agents[RECEIVER] = agent(RECEIVER, 33, 2_000, network.now);
    open(&mut network);
    network.stream(200);
    network.run(REPORT_INTERVAL * 2);
    let (received, reported) = direct(&network);
    assert!(received > 50, "the flow continues: {received}");
    assert_eq!(reported, 40 + received);
}
