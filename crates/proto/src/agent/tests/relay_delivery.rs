//! Flows that go through relays alone, where these deliver them or do not.

use super::*;

use crate::agent::send_flow::SendFlow;

fn sender(hall: &mut Hall) -> &mut SendFlow {
    &mut hall.agents[SENDER].senders[hall.flow.0 as usize]
}

fn service(hall: &Hall) -> Service {
    hall.agents[SENDER].flow_status(hall.flow).expect("the flow is open").service
}

/// Has the sender send a packet every 20 ms for so long; the relay delivers them, or not.
fn call(hall: &mut Hall, millis: u64, is_delivered: bool) {
    for number in 0..millis / 20 {
        hall.send(&[u8::try_from(number % 251).expect("a byte"); 50]);
        hall.run(ms(10));
        if is_delivered {
            hall.forward_copies(1);
        }
        hall.run(ms(10));
    }
}

#[test]
fn a_flow_that_its_relay_delivers_stays_off_the_direct_path() {
    let mut hall = Hall::new(&settings(Service::Forwarding));
    call(&mut hall, 4_000, true);
    assert_eq!((service(&hall), hall.agents[SENDER].counters().originals), (Service::Forwarding, 0));
    assert!(hall.got.len() >= 198, "{}", hall.got.len());
}

#[test]
fn a_flow_that_its_relay_never_delivers_takes_the_direct_path_within_600_ms_and_copies_go_on() {
    let mut hall = Hall::new(&settings(Service::Forwarding));
    call(&mut hall, 600, false);
    assert_eq!(service(&hall), Service::Both);
    let (before, copies) = (hall.got.len(), hall.agents[SENDER].counters().copies);
    call(&mut hall, 1_000, false);
    assert!(hall.got.len() >= before + 49, "{before}, then {}", hall.got.len());
    assert_eq!(hall.agents[SENDER].counters().copies, copies + 50);
}

#[test]
fn a_flow_that_its_relay_delivers_no_more_takes_both_ways_for_a_while_and_tries_again() {
    let mut hall = Hall::new(&settings(Service::Forwarding));
    call(&mut hall, 2_000, true);
    let before = hall.got.len();
    call(&mut hall, 600, false);
    assert_eq!(service(&hall), Service::Both);
    call(&mut hall, 1_000, false);
    assert!(hall.got.len() >= before + 50, "{before}, then {}", hall.got.len());
    call(&mut hall, 13_000, true);
    let originals = hall.agents[SENDER].counters().originals;
    call(&mut hall, 1_000, true);
    assert_eq!((service(&hall), hall.agents[SENDER].counters().originals), (Service::Forwarding, originals));
}

#[test]
fn a_pause_of_the_application_is_no_failure_of_its_relay() {
    let mut hall = Hall::new(&settings(Service::Forwarding));
    call(&mut hall, 1_000, true);
    for _ in 0..5 {
        hall.run(ms(1_500));
        call(&mut hall, 200, true);
    }
    assert_eq!((service(&hall), hall.agents[SENDER].counters().originals), (Service::Forwarding, 0));
}

#[test]
fn a_flow_whose_new_path_delivers_nothing_takes_both_ways_within_600_ms() {
    let mut hall = Hall::new(&settings(Service::Forwarding));
    call(&mut hall, 2_000, true);
    let now = hall.now;
    sender(&mut hall).settle_delivery(now);
    call(&mut hall, 600, false);
    assert_eq!(service(&hall), Service::Both);
}

#[test]
fn a_silence_of_the_path_that_was_left_is_no_failure_of_the_new_one() {
    let mut hall = Hall::new(&settings(Service::Forwarding));
    call(&mut hall, 2_000, true);
    call(&mut hall, 120, false);
    let now = hall.now;
    sender(&mut hall).settle_delivery(now);
    call(&mut hall, 4_000, true);
    assert_eq!((service(&hall), hall.agents[SENDER].counters().originals), (Service::Forwarding, 0));
}

#[test]
fn reports_of_nothing_new_have_a_flow_take_both_ways_where_notices_of_silence_are_lost() {
    let mut hall = Hall::new(&settings(Service::Forwarding));
    call(&mut hall, 2_000, true);
    let heard_again = hall.now + ms(700);
    hall.loses(move |datagram| datagram.from == RECEIVER && datagram.at < heard_again);
    call(&mut hall, 700, false);
    assert_eq!(service(&hall), Service::Forwarding, "nothing is known yet");
    call(&mut hall, 1_200, false);
    assert_eq!(service(&hall), Service::Both);
}

#[test]
fn a_relay_that_is_found_dead_explains_the_first_failure_and_no_second_one_soon_after() {
    let mut hall = Hall::new(&settings(Service::Forwarding));
    call(&mut hall, 2_000, true);
    for (until, explained) in [(500, true), (1_500, false)] {
        let (id, begins) = (hall.flow, hall.now);
        hall.agents[SENDER].take_both_ways(id, begins);
        let flow = sender(&mut hall);
        assert!(flow.undelivered_until(begins).is_some());
        flow.explain_failure(&[false], begins + ms(until));
        assert_eq!(flow.undelivered_until(begins + ms(until)).is_none(), explained);
        hall.run(ms(until));
    }
    // The second failure lasts for twice as long, though the first one was explained.
    let now = hall.now;
    let until = sender(&mut hall).undelivered_until(now);
    assert_eq!(until, Some(now + ms(20_000 - 1_500)));
}

#[test]
fn a_failure_of_a_path_that_a_new_map_has_no_more_is_forgotten() {
    let mut hall = Hall::new(&settings(Service::Forwarding));
    call(&mut hall, 2_000, true);
    let (id, now) = (hall.flow, hall.now);
    hall.agents[SENDER].take_both_ways(id, now);
    assert_eq!(service(&hall), Service::Both);
    hall.agents[SENDER].set_paths(id, alloc::vec![path()], now);
    assert!(sender(&mut hall).undelivered_until(now).is_some(), "it is the same path");
    let relay = (RelayId::new(10), Shard::new(0));
    let elsewhere = RelayPath { ingress: relay, egress: relay, grant: Vec::new() };
    hall.agents[SENDER].set_paths(id, alloc::vec![elsewhere], now);
    assert_eq!(sender(&mut hall).undelivered_until(now), None);
    assert_eq!(service(&hall), Service::Internet, "its relay has not answered");
}
