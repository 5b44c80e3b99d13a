use byway_state::Ack;
use byway_units::{Duration, Time};

use super::*;
use crate::factory::Factory;
use crate::limits::CLOCK_ORIGIN;
use crate::subscription::{Publisher, channel};
use crate::test_clock::{at, begin};
use crate::test_entries::{crowded_entry, entry};

const MTU: u16 = 1_452;
const IPV4_PEER: &str = "198.51.100.7:50112";

/// Controller beside the congestion control that it should behave like.
struct Pair {
    start: Instant,
    publisher: Publisher,
    controller: PathController,
    expected: CongestionControl,
    next_index: u64,
}

impl Pair {
    fn new() -> Self {
        let (publisher, subscription) = channel();
        let (start, peer) = (begin(), IPV4_PEER.parse().expect("an address"));
        let controller = Factory::for_path(subscription, peer, peer).controller(start, MTU);
        let packets = PacketSize::new(1_480, 28).expect("packets of this MTU");
        let expected = CongestionControl::new(packets, Rules::CORRECTED);
        Self { start, publisher, controller, expected, next_index: 1 }
    }

    fn time(millis: u64) -> Time {
        CLOCK_ORIGIN + Duration::from_millis(millis)
    }

    /// Publishes an entry of each direction, with so many bytes in the forward queue.
    fn publish(&mut self, backlog: u64, millis: u64) {
        let (forward, back) = (entry(self.next_index, backlog), entry(self.next_index, 0));
        self.next_index += 1;
        self.expected.on_forward_entry(&forward, Self::time(millis));
        self.expected.on_back_entry(&back, Self::time(millis));
        self.publisher.publish_forward(forward, at(self.start, millis));
        self.publisher.publish_back(back, at(self.start, millis));
    }

    fn send(&mut self, bytes: u64, millis: u64) {
        self.controller.on_sent(at(self.start, millis), bytes);
    }

    /// Acknowledges so many full packets, which were sent `round_trip` milliseconds ago.
    fn acknowledge(&mut self, packets: u32, round_trip: u64, millis: u64) {
        let now = at(self.start, millis);
        let sent_at =
            now.checked_sub(std::time::Duration::from_millis(round_trip)).expect("a time before now");
        for _ in 0..packets {
            self.controller.on_packet_acked(AckedPacket {
                sent_at,
                bytes: MTU.into(),
                smoothed_rtt: std::time::Duration::from_millis(round_trip),
                is_app_limited: false,
            });
        }
        self.controller.on_ack_end(now);
        let ack = Ack {
            bytes: Bytes::new(u64::from(MTU) * u64::from(packets)),
            packets,
            round_trip: Duration::from_millis(round_trip),
            is_app_limited: false,
        };
        self.expected.on_ack(ack, Self::time(millis));
    }

    /// Sends and acknowledges at about the link's rate, with entries each 50 ms.
    fn run(&mut self, from: u64, to: u64) {
        for millis in (from..to).step_by(5) {
            if millis % 50 == 0 {
                self.publish(1_500, millis);
            }
            self.send(u64::from(MTU), millis);
            self.expected.on_sent(Self::time(millis));
            self.acknowledge(2, 102, millis);
            self.assert_equal();
        }
    }

    /// True if both have the same window, pacing and basis.
    #[track_caller]
    fn assert_equal(&self) {
        assert_eq!(self.controller.window(), self.expected.window().count());
        assert_eq!(self.controller.pacing_rate(), self.expected.pacing().rate.bits_per_second() / 8);
        assert_eq!(self.guidance(), self.expected.guidance());
    }

    fn guidance(&self) -> Guidance {
        self.controller.congestion_control().guidance()
    }

    fn packets(&self) -> u64 {
        let window = self.controller.window();
        assert_eq!(window % u64::from(MTU), 0, "full packets");
        window / u64::from(MTU)
    }
}

#[test]
fn a_path_without_entries_begins_with_ten_packets_and_a_delay_based_window() {
    let mut pair = Pair::new();
    assert_eq!((pair.packets(), pair.controller.burst()), (10, 2 * 1_452));
    assert_eq!((pair.guidance(), pair.controller.shared_rate()), (Guidance::Delay, None));
    pair.acknowledge(2, 100, 100);
    pair.assert_equal();
    assert!((12..=13).contains(&pair.packets()), "{}", pair.packets());
}

#[test]
fn history_sets_the_rate_of_a_new_path_at_once() {
    let mut pair = Pair::new();
    for millis in (0..2_000).step_by(50) {
        pair.publish(0, millis);
    }
    pair.send(1_200, 2_000);
    assert_eq!((pair.guidance(), pair.packets()), (Guidance::State, 10));
    assert_eq!(pair.controller.shared_rate(), Some(5_000_000));
    // 1.1 times 5 Mbit/s, of which 1,452 of 1,480 bytes are QUIC's.
    assert_eq!(pair.controller.pacing_rate(), 674_493);
}

#[test]
fn entries_of_a_feed_that_ended_are_no_history() {
    let mut pair = Pair::new();
    pair.publish(0, 0);
    pair.send(1_200, 2_001);
    assert_eq!((pair.guidance(), pair.packets()), (Guidance::Delay, 10));
}

#[test]
fn the_window_is_that_of_the_state_at_each_acknowledgment() {
    let mut pair = Pair::new();
    pair.run(0, 2_000);
    assert_eq!(pair.guidance(), Guidance::State);
    assert!((40..=46).contains(&pair.packets()), "{}", pair.packets());
}

#[test]
fn acknowledgments_of_ten_packets_widen_the_window_by_eight() {
    let mut pair = Pair::new();
    pair.run(0, 2_000);
    let before = pair.packets();
    pair.acknowledge(10, 102, 2_010);
    pair.assert_equal();
    assert!((7..=9).contains(&(pair.packets() - before)), "{before} {}", pair.packets());
}

#[test]
fn a_feed_that_ends_leaves_a_delay_based_window_and_its_return_ends_it() {
    let mut pair = Pair::new();
    pair.run(0, 2_000);
    let before = pair.packets();
    for millis in (2_000..4_000).step_by(5) {
        pair.acknowledge(2, 105, millis);
    }
    pair.assert_equal();
    assert_eq!(pair.guidance(), Guidance::Delay);
    assert!(pair.packets().abs_diff(before) <= 8, "{before} {}", pair.packets());
    pair.run(4_000, 4_500);
    assert_eq!(pair.guidance(), Guidance::State);
}

#[test]
fn losses_and_marks_limit_the_window_and_spurious_losses_do_not() {
    for (has_mark, is_persistent) in [(false, false), (true, false), (false, true)] {
        let mut pair = Pair::new();
        pair.run(0, 2_000);
        let before = pair.packets();
        let now = at(pair.start, 2_000);
        if has_mark {
            pair.controller.on_mark(now);
            pair.expected.on_congestion(Congestion::Marked, Pair::time(2_000));
        } else {
            pair.controller.on_loss(now, 4 * u64::from(MTU), is_persistent);
            let lost = Congestion::Lost(Bytes::new(4 * u64::from(MTU)));
            pair.expected.on_congestion(lost, Pair::time(2_000));
        }
        if is_persistent {
            pair.expected.on_congestion(Congestion::Persistent, Pair::time(2_000));
        }
        pair.run(2_000, 2_250);
        assert_eq!(pair.guidance(), Guidance::StateAndDelay);
        assert!(pair.packets() < before * 4 / 5, "{before} {}", pair.packets());
        pair.controller.on_spurious_loss();
        let is_undone = pair.packets() + 2 >= before;
        assert_eq!(is_undone, !has_mark, "{before} {}", pair.packets());
    }
}

#[test]
fn an_application_with_nothing_to_send_does_not_grow_its_window() {
    let mut pair = Pair::new();
    for millis in [100, 120, 140] {
        let now = at(pair.start, millis);
        pair.controller.on_packet_acked(AckedPacket {
            sent_at: at(pair.start, millis - 100),
            bytes: u64::from(MTU),
            smoothed_rtt: std::time::Duration::from_millis(100),
            is_app_limited: true,
        });
        pair.controller.on_ack_end(now);
    }
    // Short windows are rounded to the nearest packets by a threshold that varies.
    assert!((10..=11).contains(&pair.packets()), "{}", pair.packets());
}

#[test]
fn a_window_begins_anew_after_a_second_without_data_whatever_else_is_sent() {
    for (bytes, begins_anew) in [(40, true), (1_200, false)] {
        let mut pair = Pair::new();
        pair.run(0, 2_000);
        for millis in (2_000..3_500).step_by(50) {
            pair.publish(0, millis);
            pair.send(bytes, millis);
        }
        assert!(pair.packets() > 30, "{}", pair.packets());
        pair.send(1_200, 3_500);
        assert_eq!(pair.packets() <= 11, begins_anew, "{}", pair.packets());
    }
}

#[test]
fn no_feed_can_stop_a_connection() {
    let mut pair = Pair::new();
    pair.publisher.publish_forward(crowded_entry(1), pair.start);
    pair.send(1_200, 0);
    assert_eq!(pair.guidance(), Guidance::State);
    assert_eq!(pair.controller.shared_rate(), Some(1), "its share is a bit per second");
    assert_eq!((pair.packets(), pair.controller.pacing_rate()), (2, 2 * 1_452));
}

#[test]
fn packets_of_ipv6_have_longer_headers() {
    let (mut publisher, subscription) = channel();
    let (now, peer) = (begin(), "[2001:db8::7]:50112".parse().expect("an address"));
    publisher.publish_forward(entry(1, 0), now);
    let controller = Factory::for_path(subscription, peer, peer).controller(now, MTU);
    // 1.1 times 5 Mbit/s, of which 1,452 of 1,500 bytes are QUIC's.
    assert_eq!(controller.pacing_rate(), 665_500);
}

#[test]
fn another_mtu_is_another_size_of_packets() {
    let mut pair = Pair::new();
    pair.run(0, 1_000);
    let before = pair.controller.window();
    pair.controller.on_mtu_update(1_200);
    let after = pair.controller.window();
    assert_eq!((after % 1_200, pair.controller.burst()), (0, 2_400));
    assert!(after.abs_diff(before) < 3_000, "{before} {after}");
}

#[test]
fn a_clone_has_the_state_and_reads_on_by_itself() {
    let mut pair = Pair::new();
    pair.run(0, 1_000);
    let mut clone = pair.controller.clone();
    assert_eq!(clone.window(), pair.controller.window());
    pair.run(1_000, 1_500);
    clone.on_sent(at(pair.start, 1_500), 1_200);
    assert_eq!(clone.congestion_control().guidance(), Guidance::State);
    assert_eq!(clone.shared_rate().is_some(), pair.controller.shared_rate().is_some());
}
