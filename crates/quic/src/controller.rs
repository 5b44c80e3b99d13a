//! Congestion control of one path, in the terms of QUIC.

use std::sync::Arc;
use std::time::Instant;

use byway_state::{Congestion, CongestionControl, Guidance, Pacing, PacketSize, Rules};
use byway_units::Bytes;

use crate::acks::{AckCollector, AckedPacket};
use crate::clock::Clock;
use crate::limits::{DATA_BYTES_MIN, IP_PACKET_MAX};
use crate::route::{Route, RouteState};
use crate::subscription::{EntryDirection, ReceivedEntry};

/// Congestion control of one path of a connection, from network state where there is some.
///
/// The controllers of noq and quinn pass their events on to one of these. So can those of another
/// QUIC library: all bytes are QUIC's own, without headers of IP and UDP.
///
/// New entries are read with each event. A feed that ends needs no event: acknowledgments show
/// that the state is too old, and the window becomes a delay-based one.
#[derive(Clone, Debug)]
pub struct PathController {
    control: CongestionControl,
    clock: Clock,
    route: Arc<Route>,
    /// Number of changes of the route that the controller knows.
    changes_seen: u64,
    state: RouteState,
    /// Bytes of UDP payload in full packets.
    mtu: u16,
    acks: AckCollector,
}

impl PathController {
    /// Creates the controller of a new path, with the history of its feed.
    pub(crate) fn new(route: Arc<Route>, now: Instant, mtu: u16) -> Self {
        let (changes_seen, state) = route.state();
        let control = CongestionControl::new(packet_size(mtu, state.headers), Rules::CORRECTED);
        let acks = AckCollector::default();
        let mut controller = Self { control, clock: Clock::new(now), route, changes_seen, state, mtu, acks };
        controller.read_entries(now);
        controller
    }

    /// Handles packets that were sent together, with so many bytes.
    pub fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.update(now);
        if bytes >= DATA_BYTES_MIN {
            self.control.on_sent(self.clock.time(now));
        }
    }

    /// Handles a packet of an acknowledgment. [`on_ack_end`](Self::on_ack_end) follows the last
    /// one.
    pub fn on_packet_acked(&mut self, packet: AckedPacket) {
        self.acks.add(packet);
    }

    /// Handles the end of an acknowledgment, which may have no packets.
    pub fn on_ack_end(&mut self, now: Instant) {
        self.update(now);
        if let Some(ack) = self.acks.finish(now) {
            self.control.on_ack(ack, self.clock.time(now));
        }
    }

    /// Handles lost packets with so many bytes. Congestion is persistent if nothing was
    /// acknowledged for long (RFC 9002, section 7.6).
    pub fn on_loss(&mut self, now: Instant, bytes: u64, is_persistent: bool) {
        self.update(now);
        let now = self.clock.time(now);
        self.control.on_congestion(Congestion::Lost(Bytes::new(bytes)), now);
        if is_persistent {
            self.control.on_congestion(Congestion::Persistent, now);
        }
    }

    /// Handles an acknowledgment that reports marks of routers (ECN CE).
    pub fn on_mark(&mut self, now: Instant) {
        self.update(now);
        self.control.on_congestion(Congestion::Marked, self.clock.time(now));
    }

    /// Handles that all packets arrived that were reported as lost.
    pub fn on_spurious_loss(&mut self) {
        self.control.on_spurious_loss();
    }

    /// Handles a change of the bytes of UDP payload in full packets.
    pub fn on_mtu_update(&mut self, mtu: u16) {
        self.mtu = mtu;
        self.control.set_packet_size(packet_size(mtu, self.state.headers));
    }

    /// Returns the bytes that may be in flight: a number of full packets, at least two. A packet
    /// may be sent if the window is not exceeded with it.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.control.window().count()
    }

    /// Returns the rate of sending in bytes per second. Whatever a feed claims, it is two full
    /// packets per second at least: noq paces probes and the end of a connection, too.
    #[must_use]
    pub fn pacing_rate(&self) -> u64 {
        let Pacing { rate, burst } = self.control.pacing();
        (rate.bits_per_second() / 8).max(burst.count())
    }

    /// Returns the most bytes sent at once: two full packets.
    #[must_use]
    pub fn burst(&self) -> u64 {
        self.control.pacing().burst.count()
    }

    /// Returns the rate in bits per second that the links have for this connection, with the
    /// headers of IP and UDP. Returns `None` unless the window follows from network state alone.
    #[must_use]
    pub fn shared_rate(&self) -> Option<u64> {
        let decision = self.control.decision().filter(|_| self.control.guidance() == Guidance::State)?;
        Some(decision.rate.bits_per_second())
    }

    /// Returns the congestion control, for status and for encoders: the reason for the window, the
    /// bottleneck, and the window of a receiver that requests data.
    #[must_use]
    pub const fn congestion_control(&self) -> &CongestionControl {
        &self.control
    }

    /// Handles a change of the route and entries that arrived.
    fn update(&mut self, now: Instant) {
        if let Some((changes, state)) = self.route.state_after(self.changes_seen) {
            self.change_route(changes, state);
        }
        self.read_entries(now);
    }

    fn change_route(&mut self, changes: u64, state: RouteState) {
        let packets = packet_size(self.mtu, state.headers);
        if self.state.subscription.is_some() {
            // What was learned is about other links (RFC 9000, section 9.4).
            self.control = CongestionControl::new(packets, Rules::CORRECTED);
        } else {
            self.control.set_packet_size(packets);
        }
        (self.changes_seen, self.state) = (changes, state);
    }

    fn read_entries(&mut self, now: Instant) {
        let Some(subscription) = &mut self.state.subscription else { return };
        for ReceivedEntry { direction, entry, received_at, .. } in subscription.read(now) {
            let received_at = self.clock.time(received_at);
            match direction {
                EntryDirection::Forward => self.control.on_forward_entry(&entry, received_at),
                EntryDirection::Back => self.control.on_back_entry(&entry, received_at),
            }
        }
    }
}

/// Returns the sizes of packets with so many bytes of UDP payload.
fn packet_size(mtu: u16, headers: u32) -> PacketSize {
    let payload = u32::from(mtu).clamp(1, IP_PACKET_MAX - headers);
    PacketSize::new(payload + headers, headers)
        .expect("a packet has a payload, and is no larger than allowed")
}

#[cfg(test)]
mod tests;
