//! Controllers of noq.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use noq_proto::{AckFrequencyConfig, RttEstimator, TransportConfig};

use crate::acks::AckedPacket;
use crate::controller::PathController;
use crate::factory::Factory;
use crate::limits::UNACKED_PACKETS_MAX;

/// Controller of a path of a noq connection.
///
/// noq obeys its pacing rate, and sends up to two packets together. After a pause, it may send what
/// the rate allows in 10 ms, such as four packets at 5 Mbit/s.
///
/// `Connection::congestion_state` returns a copy, which `into_any` makes one of this type again.
#[derive(Clone, Debug)]
pub struct NoqController(PathController);

impl NoqController {
    /// Returns the controller of the path, for status.
    #[must_use]
    pub const fn path(&self) -> &PathController {
        &self.0
    }
}

impl Controller for NoqController {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, _number: u64) {
        self.0.on_sent(now, bytes.into());
    }

    fn on_ack(
        &mut self,
        _now: Instant,
        sent: Instant,
        bytes: u64,
        _number: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.0.on_packet_acked(AckedPacket {
            sent_at: sent,
            bytes,
            smoothed_rtt: rtt.get(),
            is_app_limited: app_limited,
        });
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        _in_flight: u64,
        _app_limited: bool,
        _largest_acked: Option<u64>,
    ) {
        self.0.on_ack_end(now);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        _sent: Instant,
        is_persistent: bool,
        is_ecn: bool,
        lost_bytes: u64,
        _largest_lost: u64,
    ) {
        if is_ecn {
            self.0.on_mark(now);
        } else {
            self.0.on_loss(now, lost_bytes, is_persistent);
        }
    }

    fn on_spurious_congestion_event(&mut self) {
        self.0.on_spurious_loss();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.0.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.0.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.pacing_rate = Some(self.0.pacing_rate());
        metrics.send_quantum = Some(self.0.burst());
        metrics.bandwidth_estimate = self.0.shared_rate();
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(NoqController(self.controller(now, current_mtu)))
    }
}

impl Factory {
    /// Sets the congestion control of a noq connection, and has its peer acknowledge every second
    /// packet.
    pub fn configure_noq(self: &Arc<Self>, transport: &mut TransportConfig) {
        let mut acks = AckFrequencyConfig::default();
        acks.ack_eliciting_threshold(UNACKED_PACKETS_MAX.into());
        let factory: Arc<Self> = Arc::clone(self);
        transport.congestion_controller_factory(factory).ack_frequency_config(Some(acks));
    }
}

#[cfg(test)]
mod tests {
    use byway_state::Guidance;

    use super::*;
    use crate::subscription::channel;
    use crate::test_clock::begin;
    use crate::test_entries::entry;

    const MTU: u16 = 1_452;

    /// Returns a controller with the state of a link of 5 Mbit/s.
    fn controller(now: Instant) -> Box<dyn Controller> {
        let (mut publisher, subscription) = channel();
        publisher.publish_forward(entry(1, 0), now);
        let peer = "198.51.100.7:50112".parse().expect("an address");
        Factory::for_path(subscription, peer, peer).build(now, MTU)
    }

    fn guidance(controller: &dyn Controller) -> Guidance {
        let any = controller.clone_box().into_any();
        let controller = any.downcast::<NoqController>().expect("the type that the factory makes");
        controller.path().congestion_control().guidance()
    }

    #[test]
    fn noq_paces_at_the_rate_of_the_state_two_packets_together() {
        let controller = controller(begin());
        let metrics = controller.metrics();
        // 1.1 times 5 Mbit/s, of which 1,452 of 1,480 bytes are QUIC's.
        assert_eq!(metrics.pacing_rate, Some(674_493));
        assert_eq!(metrics.send_quantum, Some(2 * 1_452));
        assert_eq!(metrics.bandwidth_estimate, Some(5_000_000));
        // noq sends a packet if the window is not exceeded with it.
        assert_eq!((controller.window(), controller.initial_window()), (14_520, 14_520));
        assert_eq!(metrics.congestion_window, 14_520);
    }

    #[test]
    fn losses_marks_and_persistent_congestion_limit_the_window_by_delay() {
        let now = begin();
        for (is_persistent, is_ecn, lost_bytes) in [(false, false, 1_452), (false, true, 0)] {
            let mut controller = controller(now);
            assert_eq!(guidance(controller.as_ref()), Guidance::State);
            controller.on_congestion_event(now, now, is_persistent, is_ecn, lost_bytes, 7);
            assert_eq!(guidance(controller.as_ref()), Guidance::StateAndDelay);
            assert_eq!(controller.window(), 14_520, "until the end of the round trip");
        }
        let mut controller = controller(now);
        controller.on_congestion_event(now, now, true, false, 14_520, 7);
        assert_eq!(controller.window(), 4 * 1_452);
        controller.on_spurious_congestion_event();
        assert_eq!(controller.window(), 14_520, "all packets were late, none was lost");
    }

    #[test]
    fn another_mtu_is_another_size_of_packets() {
        let now = begin();
        let mut controller = controller(now);
        controller.on_mtu_update(1_200);
        assert_eq!(controller.metrics().send_quantum, Some(2_400));
        // 14,800 bytes of the initial window are 12.05 packets of 1,228.
        assert_eq!(controller.window(), 13 * 1_200);
        controller.on_mtu_update(0);
        controller.on_mtu_update(u16::MAX);
        controller.on_packet_sent(now, u16::MAX, 1);
        controller.on_end_acks(now, 0, true, None);
        assert!(controller.window() > 0);
    }
}
