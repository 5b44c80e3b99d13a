//! Packets of one acknowledgment.

use std::time::{Duration as StdDuration, Instant};

use byway_state::Ack;
use byway_units::Bytes;

use crate::clock::duration;

/// Acknowledgment-eliciting packet that the peer acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct AckedPacket {
    /// Time at which it was sent.
    pub sent_at: Instant,
    /// Its bytes, as QUIC counts them: UDP payload.
    pub bytes: u64,
    /// Smoothed round trip of the connection before this acknowledgment, without the peer's delay.
    pub smoothed_rtt: StdDuration,
    /// True if the connection has nothing to send, and its window is not full.
    pub is_app_limited: bool,
}

/// Collector of the packets of one acknowledgment after the other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckCollector {
    bytes: u64,
    packets: u32,
    /// Newest of the packets.
    newest: Option<AckedPacket>,
    /// Time at which the newest packet was sent that earlier acknowledgments have.
    latest_sent_at: Option<Instant>,
}

impl AckCollector {
    pub(crate) fn add(&mut self, packet: AckedPacket) {
        self.bytes = self.bytes.saturating_add(packet.bytes);
        self.packets = self.packets.saturating_add(1);
        if self.newest.is_none_or(|newest| packet.sent_at >= newest.sent_at) {
            self.newest = Some(packet);
        }
    }

    /// Ends an acknowledgment that arrived at `now`, and begins with the next one. Returns `None`
    /// if it had no packets.
    pub(crate) fn finish(&mut self, now: Instant) -> Option<Ack> {
        let newest = self.newest.take()?;
        let ack = Ack {
            bytes: Bytes::new(self.bytes),
            packets: self.packets,
            round_trip: duration(self.round_trip(newest, now)),
            is_app_limited: newest.is_app_limited,
        };
        let latest_sent_at = self.latest_sent_at.map_or(newest.sent_at, |at| at.max(newest.sent_at));
        *self = Self { latest_sent_at: Some(latest_sent_at), ..Self::default() };
        Some(ack)
    }

    /// Returns the round trip of the newest packet, without the peer's delay as far as possible.
    fn round_trip(&self, newest: AckedPacket, now: Instant) -> StdDuration {
        let measured = now.saturating_duration_since(newest.sent_at);
        let Some(latest_sent_at) = self.latest_sent_at else {
            // Nothing is known before the first one.
            return measured;
        };
        // A receiver acknowledges a second packet at once, and may delay the acknowledgment of a
        // single one by 25 ms (RFC 9000, section 13.2.2). An old packet may have arrived long ago.
        let is_prompt = self.packets >= 2 && newest.sent_at >= latest_sent_at;
        if is_prompt { measured } else { measured.min(newest.smoothed_rtt) }
    }
}

#[cfg(test)]
mod tests {
    use byway_units::Duration;

    use super::*;
    use crate::test_clock::{at, begin};

    fn packet(sent_at: Instant) -> AckedPacket {
        AckedPacket {
            sent_at,
            bytes: 1_200,
            smoothed_rtt: StdDuration::from_millis(100),
            is_app_limited: false,
        }
    }

    /// Returns the round trip of an acknowledgment of packets that were sent at these times.
    fn round_trip(acks: &mut AckCollector, start: Instant, sent_ms: &[u64], now_ms: u64) -> u64 {
        for millis in sent_ms {
            acks.add(packet(at(start, *millis)));
        }
        acks.finish(at(start, now_ms)).expect("packets").round_trip.as_millis()
    }

    #[test]
    fn packets_of_an_acknowledgment_add_up_and_the_next_one_begins_anew() {
        let (mut acks, start) = (AckCollector::default(), begin());
        assert_eq!(acks.finish(start), None);
        acks.add(packet(start));
        acks.add(AckedPacket { bytes: 800, is_app_limited: true, ..packet(at(start, 2)) });
        let expected = Ack {
            bytes: Bytes::new(2_000),
            packets: 2,
            round_trip: Duration::from_millis(98),
            is_app_limited: true,
        };
        assert_eq!(acks.finish(at(start, 100)), Some(expected));
        assert_eq!(acks.finish(at(start, 100)), None);
    }

    #[test]
    fn the_first_round_trip_is_the_measured_one() {
        let (mut acks, start) = (AckCollector::default(), begin());
        assert_eq!(round_trip(&mut acks, start, &[0], 600), 600, "the smoothed one is a guess");
    }

    #[test]
    fn delayed_acknowledgments_and_those_of_old_packets_make_no_long_round_trip() {
        let (mut acks, start) = (AckCollector::default(), begin());
        round_trip(&mut acks, start, &[0, 1], 100);
        assert_eq!(round_trip(&mut acks, start, &[10, 11], 131), 120);
        assert_eq!(round_trip(&mut acks, start, &[20], 145), 100, "25 ms are the receiver's");
        assert_eq!(round_trip(&mut acks, start, &[30], 120), 90, "what is shorter is certain");
        assert_eq!(round_trip(&mut acks, start, &[12, 13], 200), 100, "older than the last one");
    }
}
