//! Tests of loss-free fetches, handshakes and closes.

use byway_sim::Link;
use byway_sim::tcp::{Settings, TimerKind};
use byway_units::{Bytes, Duration, Time};

use crate::support::{DepartureObserver, Pair, RESPONSE, delayed, fetch_losing, losing, millis};

#[test]
fn a_loss_free_fetch_takes_four_round_trips() {
    // SYN at 0.0 s, SYN-ACK and request at 0.2 s. At 0.3 s the server sends its window of 10
    // segments. Their five acknowledgments arrive at 0.5 s and increase it to 20; these are
    // acknowledged at 0.7 s. The last 5 of 50,000 / 1,448 = 34.5 segments arrive at 0.8 s.
    let mut pair = Pair::observed(1, Settings::default(), delayed(), delayed(), DepartureObserver::default());
    let id = pair.fetch(0, Time::START);
    pair.run(millis(900));
    assert_eq!(pair.completion(id), Some(millis(800)));
    let data = pair.world.observer().0.iter().filter(|&&(_, bytes, _)| bytes > 100);
    let mut windows = [0; 9];
    data.for_each(|&(time, ..)| windows[usize::try_from(time.as_millis() / 100).unwrap()] += 1);
    assert_eq!(windows, [0, 0, 0, 10, 0, 20, 0, 5, 0]);
}

#[test]
fn both_ends_close_and_the_first_to_close_waits() {
    let (mut pair, id, _) = fetch_losing(&[], &[]);
    assert!(pair.connection(id).is_closed());
    let server = pair.served(id).expect("it waits");
    assert_eq!(server.deadline().map(|(_, reason)| reason), Some(TimerKind::TimeWait));
    let statistics = *server.statistics();
    assert_eq!((statistics.bytes_acknowledged, statistics.bytes_received), (RESPONSE, Bytes::new(12)));
    assert_eq!((statistics.retransmitted, statistics.timeouts, statistics.first_transmissions), (0, 0, 35));
    pair.run(millis(70_000));
    assert!(pair.served(id).is_none(), "it is forgotten");
    assert!(pair.world.next_event().is_none(), "nothing is left to happen");
}

#[test]
fn a_lost_syn_costs_a_second_and_the_next_one_two() {
    assert_eq!(fetch_losing(&[0], &[]).2, millis(1_800));
    assert_eq!(fetch_losing(&[0, 1], &[]).2, millis(3_800));
    let (pair, id, completion) = fetch_losing(&[0, 1, 2], &[]);
    assert_eq!(completion, millis(7_800));
    assert_eq!(pair.connection(id).statistics().handshake_timeouts, 3);
}

#[test]
fn a_lost_syn_ack_costs_a_second() {
    // The client retransmits at 1.0 s; at 1.1 s the server answers that, and its own timer expires.
    assert_eq!(fetch_losing(&[], &[0]).2, millis(1_800));
}

#[test]
fn a_server_whose_syn_ack_is_lost_twice_starts_with_one_segment() {
    // The client sends a SYN at 0, 1 and 3 s. The server answers these, and its own timer sends
    // more at 1.1 and 3.1 s: of five SYN-ACKs, the last arrives. Then 1, 2, 4, 8, 16 and 4 segments
    // are six windows, three more than without losses. The acknowledgment of the single first
    // segment is delayed by 40 ms.
    assert_eq!(fetch_losing(&[], &[0, 1, 2, 3]).2, millis(3_800 + 600 + 40));
}

#[test]
fn a_lost_request_waits_for_the_timer_that_the_handshake_measured() {
    // Sent at 0.2 s. SRTT = 200 ms and RTTVAR = 100 ms: the timer is 600 ms.
    let (pair, id, completion) = fetch_losing(&[1], &[]);
    assert_eq!(completion, millis(800 + 600));
    assert_eq!(pair.connection(id).statistics().timeouts, 1);
}

#[test]
fn a_client_gives_up_after_two_minutes_without_an_answer() {
    let black_hole = Link { ip_bytes_max: Some(Bytes::new(10)), ..delayed() };
    let mut pair = Pair::new(1, Settings::default(), black_hole, delayed());
    let id = pair.fetch(0, Time::START);
    pair.run(millis(126_999));
    assert!(!pair.connection(id).is_closed());
    pair.run(Duration::from_secs(127));
    assert!(pair.connection(id).is_closed());
    assert_eq!((pair.completion(id), pair.world.next_event()), (None, None));
}

#[test]
fn a_server_gives_up_a_client_that_is_gone() {
    // Every packet to the server is lost except the SYN and the request.
    let mut pair = Pair::new(1, Settings::default(), losing(&(2..500).collect::<Vec<_>>()), delayed());
    let id = pair.fetch(0, Time::START);
    pair.run(Duration::from_secs(600));
    let timeouts = pair.served(id).expect("it still tries").statistics().timeouts;
    assert!(timeouts >= 10, "{timeouts}");
    pair.run(Duration::from_secs(1_800));
    assert!(pair.served(id).is_none());
}
