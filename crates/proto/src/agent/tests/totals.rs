//! Counters by peer never fall, whatever ends and begins anew.

use super::*;
use crate::agent::PeerTotals;
use crate::limits::REPORT_INTERVAL;

/// What each agent counts of the other.
fn totals(hall: &Hall) -> [PeerTotals; 2] {
    [SENDER, RECEIVER].map(|who| hall.agents[who].totals().remove(&number(1 - who)).unwrap_or_default())
}

/// What came directly, as the receiver and the sender have it.
fn direct(hall: &Hall) -> (u64, u64) {
    let [sender, receiver] = totals(hall);
    (receiver.received.direct, sender.reported.map_or(0, |reported| reported.direct))
}

/// The same of what was lost.
fn lost(hall: &Hall) -> (u64, u64) {
    let [sender, receiver] = totals(hall);
    (receiver.received.lost, sender.reported.map_or(0, |reported| reported.lost))
}

fn open(hall: &mut Hall) {
    let now = hall.now;
    let settings = settings(Service::Caching);
    hall.received = hall.agents[RECEIVER].accept_flow(key(), settings.clone(), now).expect("it was closed");
    hall.drain(RECEIVER);
    if hall.agents[SENDER].flow_status(hall.flow).is_none() {
        hall.flow = hall.agents[SENDER].open_flow(key(), settings, now).expect("it was closed");
        hall.drain(SENDER);
    }
}

#[test]
fn closed_flows_count_on() {
    let mut hall = Hall::new(&settings(Service::Caching));
    hall.loses_originals([4]);
    hall.stream(10);
    hall.run(REPORT_INTERVAL);
    let (flow, now) = (hall.flow, hall.now);
    hall.agents[SENDER].close_flow(flow, now);
    hall.drain(SENDER);
    hall.run(ms(500));
    assert_eq!(hall.agents[RECEIVER].statistics(hall.received), None, "it is closed");
    assert_eq!(direct(&hall), (9, 9));
    assert_eq!(lost(&hall), (1, 1));
    open(&mut hall);
    hall.stream(20);
    hall.run(REPORT_INTERVAL);
    assert_eq!(direct(&hall), (29, 29));
    assert_eq!(lost(&hall), (1, 1), "nothing was lost since");
    let before = hall.agents.each_ref().map(Agent::totals);
    for agent in &mut hall.agents {
        agent.close(hall.now);
    }
    assert_eq!(hall.agents.each_ref().map(Agent::totals), before, "to the end");
    assert!(before.iter().all(|totals| totals.len() == 1), "one entry for each peer");
}

#[test]
fn what_a_receiver_reports_that_restarted_comes_on_top() {
    let mut hall = Hall::new(&settings(Service::Caching));
    hall.stream(40);
    hall.run(REPORT_INTERVAL);
    assert_eq!(direct(&hall), (40, 40));
    hall.agents[RECEIVER] = agent(RECEIVER, 33, 2_000, hall.now);
    open(&mut hall);
    hall.stream(200);
    hall.run(REPORT_INTERVAL * 2);
    let (received, reported) = direct(&hall);
    assert!(received > 50, "the flow came back: {received}");
    assert_eq!(reported, 40 + received);
}
