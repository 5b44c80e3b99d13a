//! Tests of throughput against the formulas.

use byway_sim::tcp::{Algorithm, Settings};
use byway_sim::{Link, Loss};
use byway_units::{Duration, Time};

use crate::support::{Pair, SEGMENT, share, with};

/// Returns the mean window of a flow without end, in segments: its delivery in a round trip, after
/// the first fifth of its time.
fn window(settings: Settings, round_trip: Duration, loss: Loss, time: Duration) -> f64 {
    let delay = round_trip / 2;
    let upwards = Link { delay, loss: vec![loss], ..Link::default() };
    let mut pair = Pair::new(7, settings, upwards, Link { delay, ..Link::default() });
    let id = pair.bulk(0, Time::START);
    let mut delivered = |until| {
        pair.run(until);
        pair.connection(id).statistics().bytes_acknowledged
    };
    let before = delivered(time / 5);
    let bytes = delivered(time) - before;
    let segments = u32::try_from(bytes.count() / SEGMENT).expect("a short run");
    f64::from(segments) * round_trip.as_secs_f64() / (time - time / 5).as_secs_f64()
}

/// Loses one packet of `period`, evenly spaced.
fn every(period: u32, packets: u32) -> Loss {
    Loss::Ordinals((1..=packets / period).map(|number| u64::from(number * period)).collect())
}

fn assert_near(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((found / expected - 1.0).abs() <= tolerance, "{what}: {found:.1} segments against {expected:.1}");
}

const ROUND_TRIP: Duration = Duration::from_millis(100);

#[test]
fn new_reno_follows_the_square_root_formula() {
    // Mathis et al.: W = sqrt(3 / 2p) if the window grows by a segment per round trip. It does with
    // delayed acknowledgments too, because bytes are counted (their constant for counted segments
    // would be sqrt(3 / 4p)).
    for period in [100_u32, 300, 1_000] {
        let formula = (1.5 * f64::from(period)).sqrt();
        // The formula ignores recovery: in each cycle of W/2 round trips, W = sqrt(8 / 3p), there
        // is one more round trip without growth of the window.
        let expected = f64::from(period) / ((2.0 / 3.0 * f64::from(period)).sqrt() + 1.0);
        let time = Duration::from_secs(400);
        let periodic = window(with(Algorithm::NewReno), ROUND_TRIP, every(period, 1_000_000), time);
        assert_near(periodic, formula, 0.2, &format!("NewReno, every {period}th"));
        assert_near(periodic, expected, 0.12, &format!("NewReno, every {period}th, with recovery"));
        let random = Loss::Independent(share(1.0 / f64::from(period)));
        let random = window(with(Algorithm::NewReno), ROUND_TRIP, random, time);
        assert_near(random, formula, 0.2, &format!("NewReno, one in {period} at random"));
    }
}

#[test]
fn acknowledging_every_segment_changes_little() {
    let settings = Settings { delays_acknowledgments: false, ..with(Algorithm::NewReno) };
    let found = window(settings, ROUND_TRIP, every(1_000, 1_000_000), Duration::from_secs(200));
    assert_near(found, 1_500_f64.sqrt(), 0.15, "NewReno, undelayed acknowledgments");
}

#[test]
fn cubic_follows_its_response_function() {
    // RFC 9438, figure 5: W = 1.054 (RTT / p)^(3/4), if that exceeds the window of NewReno.
    for (period, seconds) in [(10_000_u32, 300), (100_000, 150)] {
        let expected = 1.054 * (0.1 * f64::from(period)).powf(0.75);
        let time = Duration::from_secs(seconds);
        let found = window(with(Algorithm::Cubic), ROUND_TRIP, every(period, 4_000_000), time);
        assert_near(found, expected, 0.15, &format!("CUBIC, every {period}th"));
    }
}

#[test]
fn on_short_paths_cubic_is_as_fast_as_new_reno() {
    for (millis, period) in [(10, 1_000), (20, 300)] {
        let round_trip = Duration::from_millis(millis);
        let time = Duration::from_secs(60);
        let [reno, cubic] = [Algorithm::NewReno, Algorithm::Cubic]
            .map(|algorithm| window(with(algorithm), round_trip, every(period, 1_000_000), time));
        assert_near(cubic, reno, 0.1, &format!("CUBIC against NewReno, {millis} ms, every {period}th"));
    }
}
