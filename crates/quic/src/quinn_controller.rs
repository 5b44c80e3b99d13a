//! Controllers of quinn 0.11.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use quinn_proto::{AckFrequencyConfig, RttEstimator, TransportConfig};

use crate::acks::AckedPacket;
use crate::controller::PathController;
use crate::factory::Factory;
use crate::limits::UNACKED_PACKETS_MAX;

/// Controller of a path of a quinn connection.
///
/// quinn 0.11 does not ask for a pacing rate. It sends at 1.25 windows in a round trip, and after a
/// pause up to ten packets at once, as far as the window allows. At 5 Mbit/s, these take 24 ms.
///
/// `Connection::congestion_state` returns a copy, which `into_any` makes one of this type again.
#[derive(Clone, Debug)]
pub struct QuinnController(PathController);

impl QuinnController {
    /// Returns the controller of the path, for status.
    #[must_use]
    pub const fn path(&self) -> &PathController {
        &self.0
    }
}

impl Controller for QuinnController {
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_number: u64) {
        self.0.on_sent(now, bytes);
    }

    fn on_ack(&mut self, _now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
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

    fn on_congestion_event(&mut self, now: Instant, _sent: Instant, is_persistent: bool, lost_bytes: u64) {
        // quinn reports marks (ECN CE) as a loss of nothing.
        if lost_bytes == 0 {
            self.0.on_mark(now);
        } else {
            self.0.on_loss(now, lost_bytes, is_persistent);
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.0.on_mtu_update(new_mtu);
    }

    /// Returns the window and one byte more: quinn 0.11 does not send a packet that would fill it.
    fn window(&self) -> u64 {
        self.0.window() + 1
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        // For qlog alone, in bits per second.
        metrics.pacing_rate = Some(self.0.pacing_rate().saturating_mul(8));
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
        Box::new(QuinnController(self.controller(now, current_mtu)))
    }
}

impl Factory {
    /// Sets the congestion control of a quinn connection, and has its peer acknowledge every second
    /// packet.
    pub fn configure_quinn(self: &Arc<Self>, transport: &mut TransportConfig) {
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
        ControllerFactory::build(Factory::for_path(subscription, peer, peer), now, MTU)
    }

    fn guidance(controller: &dyn Controller) -> Guidance {
        let any = controller.clone_box().into_any();
        let controller = any.downcast::<QuinnController>().expect("the type that the factory makes");
        controller.path().congestion_control().guidance()
    }

    #[test]
    fn quinn_sends_the_last_packet_of_the_window() {
        let controller = controller(begin());
        // Blocked if the bytes in flight with the packet are the window or more.
        let may_send = |packets: u64| packets * u64::from(MTU) < controller.window();
        assert!(may_send(10) && !may_send(11));
        assert_eq!(controller.initial_window(), controller.window());
        let metrics = controller.metrics();
        assert_eq!((metrics.congestion_window, metrics.pacing_rate), (14_521, Some(8 * 674_493)));
    }

    #[test]
    fn losses_marks_and_persistent_congestion_limit_the_window_by_delay() {
        let now = begin();
        for lost_bytes in [0, 1_452] {
            let mut controller = controller(now);
            assert_eq!(guidance(controller.as_ref()), Guidance::State);
            controller.on_congestion_event(now, now, false, lost_bytes);
            assert_eq!(guidance(controller.as_ref()), Guidance::StateAndDelay);
            assert_eq!(controller.window(), 14_521, "until the end of the round trip");
        }
        let mut controller = controller(now);
        controller.on_congestion_event(now, now, true, 14_520);
        assert_eq!(controller.window(), 4 * 1_452 + 1);
    }

    #[test]
    fn another_mtu_is_another_size_of_packets() {
        let now = begin();
        let mut controller = controller(now);
        controller.on_mtu_update(1_200);
        // 14,800 bytes of the initial window are 12.05 packets of 1,228.
        assert_eq!(controller.window(), 13 * 1_200 + 1);
        controller.on_sent(now, 1_200, 1);
        controller.on_end_acks(now, 0, true, None);
        assert_eq!(controller.window(), 13 * 1_200 + 1);
    }
}
