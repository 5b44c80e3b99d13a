//! Flows that go through relays alone, where these deliver them or do not.

use super::*;

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
