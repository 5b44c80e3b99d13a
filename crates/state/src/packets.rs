//! Conversion between IP packets and the bytes that a transport counts.

use core::error::Error;
use core::fmt;

use byway_units::{Bytes, Rate, Time};

use crate::convert::{bytes_per_second, float, nearest, rate};

/// Sizes of a flow's packets.
///
/// Links count IP packets, and transports count their own bytes. Without a conversion, 3 % of the
/// bytes in flight would stand in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketSize {
    packet: u32,
    headers: u32,
}

impl PacketSize {
    /// Creates the sizes of packets with `packet` bytes in all, of which `headers` are not counted
    /// by the transport: 28 of IP and UDP for IPv4, 48 for IPv6.
    ///
    /// # Errors
    /// If a packet has more than 65,535 bytes, or no more than its headers.
    pub const fn new(packet: u32, headers: u32) -> Result<Self, PacketSizeError> {
        if packet > 65_535 || packet <= headers {
            return Err(PacketSizeError { packet, headers });
        }
        Ok(Self { packet, headers })
    }

    /// Returns the bytes of a packet, with its headers.
    #[must_use]
    pub const fn packet(self) -> Bytes {
        Bytes::new(self.packet as u64)
    }

    /// Returns the bytes of IP packets that deliver so many bytes of the transport in full packets.
    pub(crate) fn with_headers(self, payload: Bytes) -> f64 {
        float(payload.count()) * f64::from(self.packet) / f64::from(self.packet - self.headers)
    }

    /// Returns the transport's bytes in so many full packets.
    pub(crate) fn payload_of(self, packets: u64) -> Bytes {
        Bytes::new(packets.saturating_mul(u64::from(self.packet - self.headers)))
    }

    /// Returns the transport's part of a number of bytes.
    pub(crate) fn payload_in(self, bytes: Bytes) -> Bytes {
        Bytes::new(nearest(float(bytes.count()) * self.payload_part()))
    }

    /// Returns the transport's part of a rate.
    pub(crate) fn payload_rate(self, of: Rate) -> Rate {
        rate(bytes_per_second(of) * self.payload_part())
    }

    fn payload_part(self) -> f64 {
        f64::from(self.packet - self.headers) / f64::from(self.packet)
    }
}

/// Rounding of a window to packets: up, by half a packet on average.
///
/// If windows of a few packets were all rounded up, flows whose windows are just below and just
/// above a whole number would keep unequal rates. So the threshold changes from one round trip to
/// the next (dithering).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounding {
    /// Threshold, from 0 to 1; `None` before the first acknowledgment.
    phase: Option<f64>,
    /// Bytes acknowledged in this round trip.
    acked: f64,
}

/// Window from which a packet more or less makes no difference to the flows' rates, and two packets
/// in the queue instead of one would.
const DITHERED_PACKETS_MAX: f64 = 16.0;

/// Threshold that rounds up, and leaves whole numbers as they are.
const PHASE_UP: f64 = 0.499;

/// Step of the threshold: multiples of the golden ratio are spread most evenly.
const PHASE_STEP: f64 = 0.618_033_988_749_895;

impl Rounding {
    pub(crate) const fn new() -> Self {
        Self { phase: None, acked: 0.0 }
    }

    /// Handles acknowledged bytes of a window.
    pub(crate) fn on_ack(&mut self, bytes: f64, window: f64, now: Time) {
        // Flows that begin together have different thresholds, because their acknowledgments arrive
        // one after the other.
        let phase = self.phase.get_or_insert(fraction(float(now.as_nanos() / 1_000) * PHASE_STEP));
        self.acked += bytes;
        if self.acked >= window {
            (*phase, self.acked) = (fraction(*phase + PHASE_STEP), 0.0);
        }
    }

    /// Returns the number of packets for a window of so many.
    pub(crate) fn packets(&self, window: f64) -> u64 {
        let phase = self.phase.filter(|_| window < DITHERED_PACKETS_MAX);
        nearest(window + phase.unwrap_or(PHASE_UP))
    }
}

/// Returns the part of a number after its decimal point.
fn fraction(number: f64) -> f64 {
    number - float(nearest(number - 0.5))
}

/// Error of packet sizes that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketSizeError {
    /// Bytes of a packet.
    pub packet: u32,
    /// Bytes of its headers.
    pub headers: u32,
}

impl fmt::Display for PacketSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packet, headers } = self;
        write!(
            f,
            "packet size invalid: {packet} bytes with {headers} of headers; at most 65535, and a payload"
        )
    }
}

impl Error for PacketSizeError {}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn a_packet_has_a_payload() {
        for (packet, headers) in [(0, 0), (28, 28), (65_536, 28), (1, u32::MAX)] {
            assert_eq!(PacketSize::new(packet, headers), Err(PacketSizeError { packet, headers }));
        }
        assert!(PacketSizeError { packet: 28, headers: 48 }.to_string().contains("28 bytes with 48"));
    }

    #[test]
    fn windows_are_rounded_up_before_there_is_an_acknowledgment() {
        assert_eq!([9.2, 10.0, 10.01].map(|window| Rounding::new().packets(window)), [10, 10, 11]);
        let mut rounding = Rounding::new();
        rounding.on_ack(0.0, 30_000.0, Time::from_nanos(1_000));
        assert_eq!(
            [16.0, 19.01].map(|window| rounding.packets(window)),
            [16, 20],
            "long windows are, always"
        );
        assert_eq!([f64::NAN, f64::INFINITY].map(|window| Rounding::new().packets(window)), [0, u64::MAX]);
    }

    #[test]
    fn windows_are_half_a_packet_larger_on_average_whatever_their_fraction() {
        for window in [3.0, 3.1, 3.5, 3.99] {
            let (mut rounding, mut sum) = (Rounding::new(), 0);
            for round in 0..1_000 {
                rounding.on_ack(4_500.0, 4_500.0, Time::from_nanos(100_000_000 * round));
                let packets = rounding.packets(window);
                assert!((3..=5).contains(&packets));
                sum += packets;
            }
            assert!((float(sum) / 1_000.0 - window - 0.5).abs() < 0.01, "{window} {sum}");
        }
    }

    #[test]
    fn the_threshold_changes_once_in_a_window() {
        let mut rounding = Rounding::new();
        rounding.on_ack(1_000.0, 4_500.0, Time::START);
        let phase = rounding.phase;
        rounding.on_ack(3_000.0, 4_500.0, Time::START);
        assert_eq!(rounding.phase, phase);
        rounding.on_ack(1_000.0, 4_500.0, Time::START);
        assert_ne!(rounding.phase, phase);
    }

    #[test]
    fn headers_are_part_of_packets_only() {
        let size = PacketSize::new(1_500, 48).expect("usual packets");
        assert_eq!(size.packet(), Bytes::new(1_500));
        assert!((size.with_headers(Bytes::new(1_452)) - 1_500.0).abs() < 1e-9);
        assert_eq!(size.payload_of(10), Bytes::new(14_520));
        assert_eq!(size.payload_in(Bytes::new(15_000)), Bytes::new(14_520));
        let megabits = Rate::from_megabits_per_second;
        assert_eq!(size.payload_rate(megabits(1_500)), megabits(1_452));
        assert_eq!(size.payload_of(u64::MAX), Bytes::MAX);
    }
}
