//! Tests of flows that share a bottleneck.

use byway_sim::tcp::{Algorithm, Settings};
use byway_sim::{Bottleneck, Link};
use byway_units::{Bytes, Duration, Rate, Time};

use crate::support::{DepartureObserver, Pair, SEGMENT, after, millis, with};

pub(crate) fn bottleneck(megabits: u64, queue_bytes: u64) -> Bottleneck {
    Bottleneck::new(Rate::from_megabits_per_second(megabits), Bytes::new(queue_bytes)).expect("a rate")
}

/// Returns a link of 10 Mbit/s and 40 ms, with a queue of one bandwidth-delay product.
fn shared() -> Link {
    Link { bottleneck: Some(bottleneck(10, 50_000)), delay: millis(20), ..Link::default() }
}

fn unshared() -> Link {
    Link { delay: millis(20), ..Link::default() }
}

/// Returns Jain's index of these rates: 1 if all are equal.
fn fairness(rates: &[f64]) -> f64 {
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    rates.iter().sum::<f64>().powi(2) / (squares * f64::from(u32::try_from(rates.len()).expect("few")))
}

/// Returns the rates of flows that start at this interval, in bits per second, between these times.
fn rates(settings: Settings, flows: u16, apart: Duration, from: Duration, until: Duration) -> Vec<f64> {
    let mut pair = Pair::new(3, settings, shared(), unshared());
    let start = |number: u16| Time::START + apart * u64::from(number);
    let ids: Vec<_> = (0..flows).map(|number| pair.bulk(number, start(number))).collect();
    let mut delivered = |until| {
        pair.run(until);
        let bytes = |&id| pair.connection(id).statistics().bytes_acknowledged.count();
        ids.iter().map(bytes).collect::<Vec<_>>()
    };
    let (before, after) = (delivered(from), delivered(until));
    let seconds = (until - from).as_secs_f64();
    let bits = |bytes: u64| f64::from(u32::try_from(bytes * 8).expect("less than 4 Gbit"));
    before.iter().zip(after).map(|(before, after)| bits(after - before) / seconds).collect()
}

#[test]
fn flows_share_a_bottleneck_and_fill_it() {
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic] {
        for flows in [1, 2, 8] {
            let rates = rates(
                with(algorithm),
                flows,
                millis(1_300),
                Duration::from_secs(40),
                Duration::from_secs(160),
            );
            // 1,448 of 1,508 bytes are payload: the bottleneck counts headers of 20 bytes of IPv4,
            // 8 of UDP and 32 of TCP.
            let used = rates.iter().sum::<f64>() / (10e6 * 1_448.0 / 1_508.0);
            let fairness = fairness(&rates);
            assert!(used > 0.9, "{algorithm:?}, {flows}: {used}");
            assert!(fairness > 0.9, "{algorithm:?}: {rates:?}");
        }
    }
}

#[test]
fn a_flow_that_meets_marks_slows_down_without_losses() {
    let marked = Link { marks_congestion: true, delay: millis(20), ..Link::default() };
    let settings = Settings { ecn: true, ..with(Algorithm::NewReno) };
    let mut pair = Pair::new(1, settings, marked, unshared());
    let id = pair.bulk(0, Time::START);
    pair.run(millis(10_000));
    let connection = pair.connection(id);
    assert_eq!(connection.statistics().retransmitted, 0);
    assert!(connection.statistics().marked_windows > 5);
    // The least window is two segments; one more may have been acknowledged since the last mark.
    assert!(connection.congestion_window() <= Some(Bytes::new(3 * SEGMENT)));
    assert_eq!(connection.slow_start_threshold(), Some(Bytes::new(2 * SEGMENT)));
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let digest = |seed| {
        let mut pair =
            Pair::observed(seed, Settings::default(), shared(), unshared(), DepartureObserver::default());
        for number in 0..20 {
            pair.fetch(number, after(millis(u64::from(number) * 7)));
        }
        pair.run(millis(20_000));
        pair.world.check_conservation().expect("nothing is lost track of");
        pair.world.digest()
    };
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

#[test]
fn a_thousand_fetches_over_one_link_all_complete() {
    let mut pair = Pair::new(5, Settings::default(), unshared(), shared());
    let ids: Vec<_> =
        (0..1_000).map(|number| pair.fetch(number, after(millis(u64::from(number) * 30)))).collect();
    pair.run(Duration::from_secs(300));
    assert!(ids.iter().all(|&id| pair.completion(id).is_some()));
    assert_eq!(pair.world.host(pair.server).connections().count(), 0, "all are forgotten");
}
