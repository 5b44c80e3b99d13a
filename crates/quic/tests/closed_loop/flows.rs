//! Connections over links that show their state.

use byway_state::Guidance;
use byway_units::Rate;

use crate::network::TestNetwork;
use crate::node::{Library, Observation};

/// Bytes of IPv4 and UDP headers.
const HEADERS: u64 = 28;

fn guidance(observation: &Observation) -> Guidance {
    observation.path.congestion_control().guidance()
}

#[test]
fn a_connection_uses_the_whole_link_and_few_packets_wait() {
    for library in [Library::Noq, Library::Quinn] {
        let mut network = TestNetwork::new(library);
        network.run_until(10_000);
        let (used, waiting) = (network.used(2_000, 10_000), network.waiting_packets(2_000, 10_000));
        assert!(used > 0.98, "{library:?} {used}");
        assert!(waiting <= 4, "{library:?} {waiting}");
        assert_eq!(guidance(&network.observe()), Guidance::State, "{library:?}");
    }
}

#[test]
fn two_connections_share_the_whole_link_equally() {
    for libraries in [
        [Library::Noq; 2],
        [Library::Quinn; 2],
        [Library::Noq, Library::Quinn],
        [Library::Quinn, Library::Noq],
    ] {
        let [first, second] = libraries;
        let mut network = TestNetwork::new(first);
        network.run_until(2_000);
        network.connect(second);
        network.run_until(12_000);
        let (used, waiting) = (network.used(2_000, 12_000), network.waiting_packets(2_000, 12_000));
        assert!(used > 0.97, "{libraries:?} {used}");
        // Of each, one packet should wait. Each may send two at once, and joining needs some more.
        assert!(waiting <= 8, "{libraries:?} {waiting}");
        let fairness = network.fairness(4_000, 12_000);
        assert!(fairness > 0.99, "{libraries:?} {fairness}");
    }
}

#[test]
fn without_the_controllers_many_packets_wait() {
    for library in [Library::Noq, Library::Quinn] {
        let mut network = TestNetwork::without_control(library);
        network.run_until(4_000);
        let waiting = network.waiting_packets(2_000, 4_000);
        assert!(waiting > 20, "{library:?} {waiting}");
    }
}

#[test]
fn window_and_pacing_are_those_of_the_decision() {
    for library in [Library::Noq, Library::Quinn] {
        let mut network = TestNetwork::new(library);
        network.run_until(6_000);
        let observation = network.observe();
        let decision = *observation.path.congestion_control().decision().expect("there is state");
        let mtu = observation.path.burst() / 2;
        assert!(mtu > 1_400, "{library:?} {mtu}: the path MTU is discovered");
        // Rounded up to packets of IPv4. More of them if acknowledgments of more than two came.
        let packets = decision.window.count().div_ceil(mtu + HEADERS);
        let window = observation.path.window();
        assert_eq!(window % mtu, 0, "{library:?} {window}: full packets");
        assert!((packets - 1..=packets + 2).contains(&(window / mtu)), "{library:?} {window} {packets}");
        let payload_part = mtu as f64 / (mtu + HEADERS) as f64;
        let rate = 1.1 * decision.rate.bits_per_second() as f64 / 8.0 * payload_part;
        let pacing_rate = observation.path.pacing_rate();
        assert!((pacing_rate as f64 - rate).abs() < 2.0, "{library:?} {pacing_rate} {rate}");
        let expected = match library {
            Library::Noq => (window, Some(pacing_rate), Some(2 * mtu)),
            Library::Quinn => (window + 1, Some(8 * pacing_rate), None),
        };
        let Observation { window, pacing_rate, send_quantum, .. } = observation;
        assert_eq!((window, pacing_rate, send_quantum), expected);
    }
}

#[test]
fn a_connection_follows_the_rate_that_its_links_show() {
    for library in [Library::Noq, Library::Quinn] {
        let mut network = TestNetwork::new(library);
        network.links[0].shown = Rate::from_kilobits_per_second(2_500);
        network.run_until(6_000);
        let used = network.used(2_000, 6_000);
        assert!((0.45..0.58).contains(&used), "{library:?} {used}");
        network.links[0].shown = Rate::from_kilobits_per_second(1_250);
        network.run_until(10_000);
        let used = network.used(8_000, 10_000);
        assert!((0.22..0.32).contains(&used), "{library:?} {used}");
    }
}

#[test]
fn a_connection_goes_on_without_its_feed() {
    for library in [Library::Noq, Library::Quinn] {
        let mut network = TestNetwork::new(library);
        network.run_until(3_000);
        assert_eq!(guidance(&network.observe()), Guidance::State, "{library:?}");
        network.publisher = None;
        network.run_until(8_000);
        let (used, waiting) = (network.used(5_000, 8_000), network.waiting_packets(5_000, 8_000));
        assert_eq!(guidance(&network.observe()), Guidance::Delay, "{library:?}");
        assert!(used > 0.95, "{library:?} {used}");
        assert!(waiting <= 8, "{library:?} {waiting}");
    }
}
