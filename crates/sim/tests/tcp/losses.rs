//! Tests of the cost of a loss, by its position.

use byway_sim::tcp::{Settings, Statistics};
use byway_sim::{Jitter, Link, Span};
use byway_units::{Duration, Time};

use crate::support::{DELAY, DepartureObserver, Pair, after, delayed, fetch_losing, losing, millis, share};

/// Returns the server's statistics of a fetch that lost these of its segments. Ordinal 0 is its
/// SYN-ACK, and 1 to 35 are its data.
fn served(downwards: &[u64]) -> (Statistics, Duration) {
    let (pair, id, completion) = fetch_losing(&[], downwards);
    (*pair.served(id).expect("it waits").statistics(), completion)
}

/// Returns the statistics of a client that sent without end for 5 s, and lost these.
fn bulk_statistics(upwards: &[u64]) -> Statistics {
    let mut pair = Pair::new(1, Settings::default(), losing(upwards), delayed());
    let id = pair.bulk(0, Time::START);
    pair.run(millis(5_000));
    *pair.connection(id).statistics()
}

#[test]
fn a_loss_in_the_middle_is_sent_again_once_and_at_once() {
    // Ordinal 0 is the SYN and 1 the last of the handshake with data: the 200th is in the fifth
    // window.
    let statistics = bulk_statistics(&[200]);
    assert_eq!((statistics.retransmitted, statistics.recoveries, statistics.timeouts), (1, 1, 0));
}

#[test]
fn a_loss_in_a_fetch_costs_one_round_trip() {
    // The 15th of 35 segments is in the second window, sent at 0.5 s. Three acknowledgments of
    // later segments arrive at 0.7 s, and the retransmission at 0.8 s, when a loss-free fetch ends.
    // The halved window determines the rest of the stream.
    let (statistics, completion) = served(&[15]);
    assert_eq!((statistics.recoveries, statistics.timeouts), (1, 0));
    assert!(statistics.retransmitted <= 2, "the lost one, and at most one rescue: {statistics:?}");
    assert!(completion <= millis(1_000), "{completion}");
}

#[test]
fn the_last_segment_waits_for_the_timer() {
    // Sent at 0.7 s. At 0.9 s the acknowledgments of the segments before it restart the timer. It
    // is 200 ms plus the least margin of 200 ms, because the path is steady: the retransmission
    // leaves at 1.3 s.
    let (statistics, completion) = served(&[35]);
    assert_eq!((statistics.timeouts, statistics.retransmitted), (1, 1));
    assert_eq!(completion, millis(1_400));
}

#[test]
fn timeouts_double() {
    let lost: Vec<_> = (35..39).collect();
    let mut pair =
        Pair::observed(1, Settings::default(), delayed(), losing(&lost), DepartureObserver::default());
    let id = pair.fetch(0, Time::START);
    pair.run(millis(20_000));
    let departures: Vec<_> = pair.world.observer().0[35..40].iter().map(|&(time, ..)| time).collect();
    let waits: Vec<_> = departures.windows(2).map(|two| two[1] - two[0]).collect();
    // The first timeout began a little later than the segment left; the others are twice the one
    // before.
    assert_eq!((waits[2], waits[3]), (waits[1] * 2, waits[2] * 2));
    assert_eq!(pair.served(id).expect("it waits").statistics().timeouts, 4);
    assert_eq!(pair.completion(id), Some(departures[4] + DELAY));
}

#[test]
fn a_burst_is_made_good_within_about_a_round_trip() {
    // Ten in a row, and ten of twenty.
    for burst in [(300..310).collect::<Vec<_>>(), (300..320).step_by(2).collect()] {
        let statistics = bulk_statistics(&burst);
        assert_eq!((statistics.retransmitted, statistics.recoveries, statistics.timeouts), (10, 1, 0));
    }
}

#[test]
fn the_time_a_burst_takes_is_a_round_trip_more_than_its_discovery() {
    let mut pair =
        Pair::new(1, Settings::default(), losing(&(300..320).step_by(2).collect::<Vec<_>>()), delayed());
    let id = pair.bulk(0, Time::START);
    let mut received = Vec::new();
    for step in 0..400 {
        pair.run(millis(step * 10));
        received.push(pair.served(id).map_or(0, |served| served.statistics().bytes_received.count()));
    }
    let longest = received.chunk_by(|one, other| one == other).map(<[_]>::len).max().unwrap_or(0);
    // Steps of 10 ms in which the receiver's stream stalled. The time from the loss to its
    // retransmission is one RTT of 200 ms, and the last retransmissions leave as acknowledgments
    // open the window.
    assert!(longest <= 45, "{longest} steps");
}

#[test]
fn a_lost_repetition_waits_for_the_timer() {
    // The retransmission leaves at 0.7 s, during the outage.
    let outages = vec![Span::new(after(millis(700)), millis(1))];
    let downwards = Link { outages, ..losing(&[15]) };
    let mut pair = Pair::new(1, Settings::default(), delayed(), downwards);
    let id = pair.fetch(0, Time::START);
    pair.run(millis(20_000));
    let statistics = pair.served(id).expect("it waits").statistics();
    assert_eq!((statistics.recoveries, statistics.timeouts), (1, 1));
    assert!(pair.completion(id).is_some());
}

#[test]
fn small_jitter_makes_nothing_be_sent_again() {
    // Segments leave at 50 Mbit/s or less, 0.24 ms apart: with 0.4 ms of jitter, at most two
    // overtake one.
    let jitter = Jitter { max: Duration::from_micros(400), may_reorder: true };
    let bottleneck = crate::sharing::bottleneck(50, 2_000_000);
    let upwards = Link { jitter, bottleneck: Some(bottleneck), ..delayed() };
    let mut pair = Pair::new(1, Settings::default(), upwards, delayed());
    let id = pair.bulk(0, Time::START);
    pair.run(millis(2_200));
    let statistics = pair.connection(id).statistics();
    assert_eq!((statistics.retransmitted, statistics.recoveries), (0, 0));
    assert!(statistics.first_transmissions > 1_000);
}

#[test]
fn duplicates_make_nothing_be_sent_again() {
    let twice = Link { duplication: share(0.5), ..delayed() };
    let mut pair = Pair::new(1, Settings::default(), twice.clone(), twice);
    let id = pair.fetch(0, Time::START);
    pair.run(millis(5_000));
    assert_eq!(pair.completion(id), Some(millis(800)));
    assert_eq!(pair.served(id).expect("it waits").statistics().retransmitted, 0);
}
